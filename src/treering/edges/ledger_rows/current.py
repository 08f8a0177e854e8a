"""What rows say of objects as they stand: made of an object, and kept beside its revisions for quick reads."""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import get_args

from treering.core.errors import Corrupt
from treering.core.evidence import Segment
from treering.core.objects import Channel, Knowledge, Node, Object, ObjectType, Source, title_of
from treering.core.times import render_time
from treering.ports.ledger import Head, SourceState

_TYPES, _CHANNELS = frozenset(get_args(ObjectType)), frozenset(get_args(Channel))

ObjectRow = tuple[str | int | None, ...]
"""A row of the table `objects`, in the order of `OBJECT_COLUMNS`."""

OBJECT_COLUMNS = (
    *("id", "type", "kind", "status", "scope", "revision", "title", "channel", "created_at", "updated_at"),
    *("origin", "fingerprint", "slug", "duplicate_key", "claim_key"),
)


def current_row(item: Object) -> ObjectRow:
    """Return an object's row of the table `objects`."""
    knowledge = item if isinstance(item, Knowledge) else None
    return (
        item.id,
        item.type,
        item.kind,
        item.status,
        item.scope,
        item.revision,
        title_of(item),
        item.origin_channel,
        render_time(item.created_at),
        render_time(item.updated_at),
        item.origin if isinstance(item, Source) else None,
        item.fingerprint if isinstance(item, Source) else None,
        item.slug if isinstance(item, Node) else None,
        knowledge.duplicate_key() if knowledge else None,
        knowledge.claim_key() if knowledge else None,
    )


def checked_head(head: Head) -> Head:
    """Return a head that was read of a row. Raises `Corrupt` where its type or its channel is none that there is."""
    if head.type in _TYPES and head.origin_channel in _CHANNELS:
        return head
    raise Corrupt(
        f"The row of {head.id} names an unknown type or channel.",
        hint="Run lint audit.",
        details={"id": head.id},
    )


def newest_states(rows: Iterable[tuple[str, SourceState]]) -> dict[str, SourceState]:
    """Return the state of the source with each origin, from origins and states in the order of their ids."""
    states: dict[str, SourceState] = {}
    for origin, state in rows:
        # An archived source gives way to a later one with the same origin.
        if origin not in states or states[origin].status == "archived":
            states[origin] = state
    return states


def targets_of(item: Knowledge) -> list[str]:
    """Return the ids a piece of knowledge rests on, in order."""
    return sorted({*item.derived_from, *(ref.source_id for ref in item.evidence_refs)})


def place_of(segment: Segment) -> str:
    """Return where a segment stands in its source, as it is kept: all of it but its text."""
    return segment.model_dump_json(exclude={"excerpt"})


@dataclass(frozen=True, slots=True)
class KnownPlace:
    """Where a segment stood last, and the revision it vanished with, if it did."""

    place: str
    vanished: int | None


@dataclass(frozen=True, slots=True)
class Placing:
    """What a new revision of a source changes about where its segments stand."""

    new: tuple[tuple[Segment, str], ...]
    """Segments that were never there, each with its place."""
    moved: tuple[tuple[str, str], ...]
    """Ids of those that stand elsewhere now, or had vanished, each with its place."""
    vanished: tuple[str, ...]
    """Ids of those that are gone."""


def placing_of(segments: Iterable[Segment], known: Mapping[str, KnownPlace]) -> Placing:
    """Compare the segments of a new revision with what was kept of the earlier ones."""
    new, moved, left = [], [], dict(known)
    for segment in segments:
        place, earlier = place_of(segment), left.pop(segment.segment_id, None)
        if earlier is None:
            new.append((segment, place))
        elif earlier != KnownPlace(place, None):
            moved.append((segment.segment_id, place))
    gone = tuple(segment_id for segment_id, known_place in left.items() if known_place.vanished is None)
    return Placing(tuple(new), tuple(moved), gone)
