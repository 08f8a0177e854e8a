"""Unconfirmed statements of people and agents: candidates with evidence that no file states."""

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence

from treering.core.characters import one_line
from treering.core.counting import counted_things
from treering.core.evidence import Segment, Turn
from treering.core.filters import And, Compare
from treering.core.objects import Knowledge, title_of
from treering.core.screening import instruction_flags
from treering.ports.ledger import Altered, Ledger, Selection
from treering.verbs.query.authorship import Authorship
from treering.verbs.scoped_ledger import whole

KINDS = ("constraint", "preference", "decision")
UNCONFIRMED = And(
    (
        Compare("kind", "in", KINDS),
        Compare("status", "eq", "candidate"),
        Compare("channel", "in", ("agent", "user")),
    )
)
"""Selects the statements, and candidates that `is_unconfirmed` leaves out."""
_NOUNS = {"constraint": "rule"}
_PERSON = "user"


def is_unconfirmed(item: Knowledge) -> bool:
    """Return whether a candidate is shown unasked, marked as unconfirmed.

    One without evidence is not, because it cannot be confirmed, nor is one that looks like instructions to an agent.
    """
    return item.status == "candidate" and _is_stated(item)


def is_shown(item: Knowledge) -> bool:
    """Return whether knowledge is shown unasked: it is or was active, or is unconfirmed, even if it became stale."""
    return item.was_active or (item.status in ("candidate", "stale") and _is_stated(item))


def stale_in_words(item: Knowledge) -> str:
    """Return how stale knowledge is marked."""
    return "stale" if item.was_active else "stale, not confirmed"


def _is_stated(item: Knowledge) -> bool:
    return (
        item.kind in KINDS
        and item.origin_channel in ("agent", "user")
        and bool(item.evidence_refs)
        and not instruction_flags(title_of(item))
    )


def all_unconfirmed(ledger: Ledger) -> list[Knowledge]:
    """Return the unconfirmed statements of a space."""
    items = ledger.select(Selection(descend=True, types=("knowledge",), where=UNCONFIRMED), altered={})
    return [one for one in items if isinstance(one, Knowledge) and is_unconfirmed(one)]


def repeated(items: Iterable[Knowledge]) -> set[str]:
    """Return the ids of unconfirmed statements that an earlier one of the items states already."""
    known, ids = set[tuple[str, ...]](), set[str]()
    for item in items:
        key = item.statement_key()
        if key in known and is_unconfirmed(item):
            ids.add(item.id)
        known.add(key)
    return ids


def by_author(
    ledger: Ledger, items: Iterable[Knowledge], altered: Altered | None = None
) -> list[tuple[Knowledge, str]]:
    """Return unconfirmed statements, each with its author and day in words: people first, then the newest."""
    waiting = sorted(items, key=lambda one: -one.updated_at.timestamp())
    if not waiting:
        return []
    places = [(ref.source_id, ref.segment_id) for item in waiting for ref in item.evidence_refs]
    # Conversations have scopes of their own.
    segments = whole(ledger).segments(places, altered={} if altered is None else altered)
    authorship = Authorship(ledger)
    authors = [(item, *_author(item, segments, authorship)) for item in waiting]
    authors.sort(key=lambda one: not one[1])
    return [(item, words) for item, _, words in authors]


def waiting_in_words(items: Sequence[Knowledge]) -> str:
    """Return how many statements wait, and the command that lists them; empty if none does."""
    counts = Counter(_NOUNS.get(one.kind, one.kind) for one in items)
    named = ", ".join(counted_things(count, noun) for noun, count in sorted(counts.items()))
    verb = "waits" if len(items) == 1 else "wait"
    return f"{named} {verb} for confirmation: treering review list" if items else ""


def _author(item: Knowledge, segments: Mapping[tuple[str, str], Segment], authorship: Authorship) -> tuple[bool, str]:
    """Return whether a person made a statement, and who made it on which day, in words."""
    cited = (segments.get((ref.source_id, ref.segment_id)) for ref in item.evidence_refs)
    turns = [one.locator for one in cited if one and isinstance(one.locator, Turn)]
    turn = min(turns, key=lambda one: not _is_by_person(one), default=None)
    is_persons = _is_by_person(turn) if turn else item.origin_channel == _PERSON
    at = turn.at if turn and turn.at else item.created_at
    done, author = "said" if turn else "recorded", "the user" if is_persons else "an agent"
    if is_persons and (other := authorship.other_author(item.id)) is not None:
        author = one_line(other) or "another user"
    return is_persons, f"{done} by {author} on {at:%d %b}, not confirmed"


def _is_by_person(turn: Turn) -> bool:
    return (turn.role or turn.speaker) == _PERSON
