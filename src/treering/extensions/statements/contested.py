"""People who disagree: current statements of different people with different values for the same shared thing."""

from collections.abc import Iterator, Mapping, Sequence
from itertools import chain

from treering.extensions.statements.ledger import StatementLedger
from treering.extensions.statements.statement import Statement
from treering.extensions.statements.words import words_in

MAX_COMPARED = 12
"""The latest statements with a topic in common that one is compared with, for each of its topics."""
MIN_OVERLAP = 0.67
"""The share of the topics of the smaller of two statements that both have, if they are about the same."""
_OWN = frozenset("i i'm i've i'll i'd my me mine our ich mein meine meinen meiner mir yo mi mis me".split())
"""Words of statements about something of the speaker: another person's phone number is no disagreement."""


def contested(ledger: StatementLedger) -> dict[tuple[int, int], Statement]:
    """Return by id of each current statement that another person contradicts the latest one that does."""
    disputes: dict[tuple[int, int], Statement] = {}
    by_topic: dict[str, list[Statement]] = {}
    by_things: dict[frozenset[str], list[Statement]] = {}
    for new in filter(_is_claim, ledger.standing()):
        for old in (*_with_other_value(new, by_topic), *_denied(new, by_things.get(new.things, ()))):
            disputes[old.id] = new
            disputes[new.id] = old
        by_things.setdefault(new.things, []).append(new)
        for topic in new.things if new.values else ():
            by_topic.setdefault(topic, []).append(new)
    return disputes


def _is_claim(one: Statement) -> bool:
    is_shared = one.force == "asserted" and bool(one.things)
    return is_shared and _OWN.isdisjoint(words_in(one.text))


def _denied(new: Statement, alike: Sequence[Statement]) -> Iterator[Statement]:
    """Yield the statements about the same things that say the opposite."""
    for old in alike[-MAX_COMPARED:]:
        if old.positive != new.positive and new.keys == old.keys and _is_other_person_on(new, old):
            yield old


def _with_other_value(new: Statement, by_topic: Mapping[str, Sequence[Statement]]) -> Iterator[Statement]:
    """Yield the statements about enough of the same things that have one value of the same kind, another one."""
    near = (by_topic.get(topic, ())[-MAX_COMPARED:] for topic in new.things) if new.values else ()
    for old in sorted({one.id: one for one in chain.from_iterable(near)}.values(), key=lambda one: one.id):
        kinds = new.keys.keys() & old.keys.keys()
        differing = [kind for kind in kinds if new.keys[kind].isdisjoint(old.keys[kind])]
        is_named = differing == ["name"] and not new.subject & old.subject
        share = len(new.things & old.things) / min(len(new.things), len(old.things))
        if len(differing) == 1 and not is_named and share >= MIN_OVERLAP and _is_other_person_on(new, old):
            yield old


def _is_other_person_on(new: Statement, old: Statement) -> bool:
    """Return whether two people speak about the same: with the same verbs, modifiers and person."""
    owners = [one.owner if one.owner != one.author else "" for one in (new, old)]
    is_like = new.modifiers == old.modifiers and new.verbs == old.verbs
    return new.author != old.author and is_like and owners[0] == owners[1]
