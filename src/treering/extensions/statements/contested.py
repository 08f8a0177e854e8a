"""People who disagree: current statements of different people with different values for the same subject."""

from bisect import bisect_left, bisect_right
from collections.abc import Callable, Iterator
from itertools import chain, islice

from treering.extensions.statements.ledger import StatementLedger
from treering.extensions.statements.statement import Statement
from treering.extensions.statements.words import words_in

MAX_COMPARED = 12
"""The next statements with a topic in common that one is compared with on each side, for each of its topics."""
MIN_OVERLAP = 0.67
"""The share of the topics of the smaller of two statements that both have, if they are about the same."""
_OWN = frozenset("i i'm i've i'll i'd my me mine our ich mein meine meinen meiner mir yo mi mis me".split())
"""Words of statements about something of the speaker: another person's phone number is no disagreement."""


def contested(ledger: StatementLedger) -> dict[tuple[int, int], Statement]:
    """Return by id of each current statement that another person contradicts the latest one that does."""
    disputes = ((one.id, contesting(ledger, one)) for one in ledger.standing())
    return {identity: other for identity, other in disputes if other}


def contesting(ledger: StatementLedger, one: Statement) -> Statement | None:
    """Return the latest current statement of another person that contradicts a current one."""
    if one.id in ledger.retired or not _is_claim(one):
        return None
    for later in (True, False):
        alike = [other for other in _alike(ledger, one, later=later) if _is_denied(one, other)]
        near = {other.id: other for other in _near(ledger, one, later=later) if _has_other_value(one, other)}
        if disputing := [*alike, *near.values()]:
            return max(disputing, key=lambda other: other.id)
    return None


def _alike(ledger: StatementLedger, one: Statement, *, later: bool) -> Iterator[Statement]:
    """Return the adjacent claims on one side about the same subjects."""
    return _next(ledger, one, min(one.things), lambda other: other.things == one.things, later=later)


def _near(ledger: StatementLedger, one: Statement, *, later: bool) -> Iterator[Statement]:
    """Return the adjacent claims on one side with a value for one of the same subjects."""
    topics = one.things if one.values else ()
    return chain.from_iterable(
        _next(ledger, one, topic, lambda other: bool(other.values), later=later) for topic in topics
    )


def _next(
    ledger: StatementLedger, one: Statement, topic: str, accepts: Callable[[Statement], bool], *, later: bool
) -> Iterator[Statement]:
    ids = ledger.about(topic)
    side = ids[bisect_right(ids, one.id) :] if later else reversed(ids[: bisect_left(ids, one.id)])
    others = (ledger.statements[identity] for identity in side if identity not in ledger.retired)
    return islice((other for other in others if accepts(other) and _is_claim(other)), MAX_COMPARED)


def _is_claim(one: Statement) -> bool:
    is_shared = one.force == "asserted" and bool(one.things)
    return is_shared and _OWN.isdisjoint(words_in(one.text))


def _is_denied(new: Statement, old: Statement) -> bool:
    """Return whether two statements about the same subjects contradict each other."""
    return old.positive != new.positive and new.keys == old.keys and _is_other_person_on(new, old)


def _has_other_value(new: Statement, old: Statement) -> bool:
    """Return whether two statements share enough subjects and have different values of one kind."""
    kinds = new.keys.keys() & old.keys.keys()
    differing = [kind for kind in kinds if new.keys[kind].isdisjoint(old.keys[kind])]
    is_named = differing == ["name"] and not new.subject & old.subject
    share = len(new.things & old.things) / min(len(new.things), len(old.things))
    return len(differing) == 1 and not is_named and share >= MIN_OVERLAP and _is_other_person_on(new, old)


def _is_other_person_on(new: Statement, old: Statement) -> bool:
    """Return whether two people speak about the same: with the same verbs, modifiers and person."""
    owners = [one.owner if one.owner != one.author else "" for one in (new, old)]
    is_like = new.modifiers == old.modifiers and new.verbs == old.verbs
    return new.author != old.author and is_like and owners[0] == owners[1]
