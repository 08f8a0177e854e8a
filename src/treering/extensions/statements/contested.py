"""People who disagree: current statements of different people with different values for the same shared thing."""

from collections.abc import Iterable, Mapping, Sequence
from itertools import chain

from treering.extensions.statements.ledger import StatementLedger
from treering.extensions.statements.relations import MIN_OVERLAP
from treering.extensions.statements.statement import Statement
from treering.extensions.statements.words import words_in

MAX_COMPARED = 12
"""The latest statements with a topic in common that one is compared with, for each of its topics."""
_OWN = frozenset("i i'm i've i'll i'd my me mine our ich mein meine meinen meiner mir yo mi mis me".split())
"""Words of statements about something of the speaker: another person's phone number is no disagreement."""


def contested(ledger: StatementLedger) -> dict[tuple[int, int], Statement]:
    """Return by id of each current statement that another person contradicts the latest one that does."""
    found: dict[tuple[int, int], Statement] = {}
    by_topic: dict[str, list[Statement]] = {}
    for new in filter(_is_claim, ledger.standing()):
        for old in _compared(new, by_topic):
            if _disagree(new, old):
                found[old.id] = new
                found[new.id] = old
        for topic in new.things:
            by_topic.setdefault(topic, []).append(new)
    return found


def _compared(new: Statement, by_topic: Mapping[str, Sequence[Statement]]) -> Iterable[Statement]:
    near = (by_topic.get(topic, ())[-MAX_COMPARED:] for topic in new.things)
    return sorted({one.id: one for one in chain.from_iterable(near)}.values(), key=lambda one: one.id)


def _is_claim(one: Statement) -> bool:
    return one.force == "asserted" and not one.machine and _OWN.isdisjoint(words_in(one.text))


def _disagree(new: Statement, old: Statement) -> bool:
    if new.author == old.author or not _same_thing(new, old):
        return False
    kinds = new.keys.keys() & old.keys.keys()
    differing = [kind for kind in kinds if new.keys[kind].isdisjoint(old.keys[kind])]
    if differing == ["name"] and not new.subject & old.subject:
        return False
    is_denied = new.positive != old.positive and new.things == old.things and not differing
    return len(differing) == 1 or is_denied


def _same_thing(new: Statement, old: Statement) -> bool:
    """Return whether two statements are about the same: enough topics, the same verbs, modifiers and person."""
    owners = [one.owner if one.owner != one.author else "" for one in (new, old)]
    common = len(new.things & old.things)
    share = common / max(1, min(len(new.things), len(old.things)))
    is_like = new.modifiers == old.modifiers and new.verbs == old.verbs
    return share >= MIN_OVERLAP and is_like and owners[0] == owners[1]
