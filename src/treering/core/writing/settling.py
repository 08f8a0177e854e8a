"""What follows from objects that met in a merge: one object for a name, one for a claim, contradictions, lost support.

Each depends on the objects alone, not on the order in which they met.
"""

from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from typing import Any

from treering.core.evidence import EvidenceRef, Segment
from treering.core.objects import Knowledge, Node, Object, Source, Summary, name_held
from treering.core.policy import CURRENT, WITHDRAWN_BY_CASCADE
from treering.core.writing.draft import Draft, merge_unique
from treering.core.writing.integrity import contradict, is_backed, is_functional, may_meet, rename_references
from treering.core.writing.versions import MAP, BranchReadings, MergeEntry, root_of, with_each_branch

_GOES_FIRST = {"active": 0, "contested": 1, "candidate": 2, "stale": 3}


Told = Callable[[str], Sequence[MergeEntry]]
"""Gives all entries of an object."""
Readings = Callable[[Source], BranchReadings]
"""Gives the readings of the repository that a source is a file of."""


def settle_together(draft: Draft, told: Told, single: Collection[str], readings: Readings) -> dict[str, str]:
    """Settle the objects of a draft; return the ids that gave way to others of their name, with these.

    `single`: ids of objects that have one entry, to which nothing was added that could change what they come to.
    """
    gave_way = _join_names(draft.objects, told, single, readings)
    _point_again(draft.objects, gave_way, draft, told)
    _join_duplicates(draft.objects)
    _withdraw(draft.objects, draft)
    _contest(draft.objects, draft)
    return gave_way


def _join_names(objects: dict[str, Object], told: Told, single: Collection[str], readings: Readings) -> dict[str, str]:
    """Let one object keep each name: the newest reading of an origin, the oldest node. Return what gave way.

    A source that keeps its name holds what was read last of each branch, by whichever of them.
    """
    groups: dict[tuple[str, ...], list[Object]] = {}
    for item in objects.values():
        if name := name_held(item) or _name_on_branches(item, told, readings):
            groups.setdefault(name, []).append(item)
    gave_way: dict[str, str] = {}
    for group in groups.values():
        best = max(group, key=_newest) if isinstance(group[0], Source) else min(group, key=lambda one: one.id)
        if isinstance(best, Source) and (len(group) > 1 or best.id not in single):
            entries = [one for item in group for one in told(item.id)]
            best = objects[best.id] = with_each_branch(best, entries, readings(best))
        for item in sorted(group, key=lambda one: one.id):
            if item.id == best.id:
                continue
            gave_way[item.id] = best.id
            if isinstance(item, Node) and isinstance(best, Node):
                names = merge_unique(best.aliases, (item.name, *item.aliases), without=best.name)
                best = best.model_copy(update={"aliases": names})
                objects[item.id] = item.model_copy(update={"status": "merged", "merged_into": best.id})
            else:
                objects[item.id] = item.model_copy(update={"status": "archived"})
        objects[best.id] = best
    return gave_way


def _name_on_branches(item: Object, told: Told, readings: Readings) -> tuple[str, ...] | None:
    """Return the name of a file that is archived, where it stands on a branch that whoever archived it did not know."""
    if not isinstance(item, Source) or item.kind == MAP or item.status != "archived" or not (known := readings(item)):
        return None
    return (item.scope, item.origin) if known.contents(told(item.id), root_of(item)) else None


def _newest(item: Object) -> tuple[Any, ...]:
    return (item.captured_at if isinstance(item, Source) else item.created_at, item.id)


def _point_again(objects: dict[str, Object], gave_way: Mapping[str, str], draft: Draft, told: Told) -> None:
    """Have what rests on a source that gave way rest on the same words in the one that stands for its origin.

    So does what rests on words that the same source holds by another id: two copies read them each by itself.
    """
    for identity, item in list(objects.items()):
        if not isinstance(item, Knowledge):
            continue
        refs = [_moved(ref, gave_way, draft, told) for ref in item.evidence_refs]
        if refs != list(item.evidence_refs):
            objects[identity] = item.model_copy(update={"evidence_refs": tuple(dict.fromkeys(refs))})


def _moved(ref: EvidenceRef, gave_way: Mapping[str, str], draft: Draft, told: Told) -> EvidenceRef:
    now = draft.find(gave_way.get(ref.source_id, ref.source_id))
    if not isinstance(now, Source) or any(
        now.id == ref.source_id and part.segment_id == ref.segment_id for part in now.segments
    ):
        return ref
    words = next((part.excerpt for part in _parts(ref.source_id, told) if part.segment_id == ref.segment_id), None)
    same = next((part for part in now.segments if part.excerpt == words), None)
    if same is None:
        return ref
    return ref.model_copy(update={"source_id": now.id, "segment_id": same.segment_id, "quote_hash": same.hash})


def _parts(source_id: str, told: Told) -> Iterator[Segment]:
    """Return the segments that a source has ever had, the last ones first."""
    for entry in sorted(told(source_id), key=lambda one: one.order, reverse=True):
        yield from entry.after.segments if isinstance(entry.after, Source) else ()


def _join_duplicates(objects: dict[str, Object]) -> None:
    """Let the oldest of exact duplicates stand, with the evidence of all."""
    groups: dict[tuple[Any, ...], list[Knowledge]] = {}
    for item in objects.values():
        if isinstance(item, Knowledge) and item.status not in {"superseded", "archived"}:
            groups.setdefault((item.duplicate_key(), item.valid_from, item.valid_until), []).append(item)
    renamed: dict[str, str] = {}
    for group in groups.values():
        if len(group) == 1:
            continue
        group.sort(key=lambda one: one.id)
        first, *others = group
        best = min(group, key=lambda one: (_GOES_FIRST[one.status], one.id))
        refs = {(ref.source_id, ref.segment_id, ref.role): ref for one in reversed(group) for ref in one.evidence_refs}
        changes = {
            "evidence_refs": tuple(ref for _, ref in sorted(refs.items())),
            "subject_refs": tuple(sorted({ref for one in group for ref in one.subject_refs})),
            "disputed": any(one.disputed for one in group),
            **{name: getattr(best, name) for name in ("status", "memory_source", "last_verified_at")},
        }
        objects[first.id] = first.model_copy(update=changes)
        for one in others:
            objects[one.id] = one.model_copy(update={"status": "archived"})
            renamed[one.id] = first.id
    if renamed:
        for identity, item in list(objects.items()):
            objects[identity] = rename_references(item, renamed)


def _withdraw(objects: dict[str, Object], draft: Draft) -> None:
    """Make stale what lost its last support, until nothing more falls."""
    falls = True
    while falls:
        falls = False
        for identity in sorted(objects):
            item = objects[identity]
            if not isinstance(item, Knowledge):
                continue
            to = "stale" if item.status in WITHDRAWN_BY_CASCADE else ""
            if item.status == "superseded" and isinstance(item.payload, Summary):
                to = "archived"
            if to and not is_backed(item, draft) and (to == "archived" or _rests(item)):
                objects[identity] = item.model_copy(update={"status": to})
                falls = True


def _rests(item: Knowledge) -> bool:
    """Tell whether it ever rested on anything: a candidate may be written down without any evidence."""
    return bool(item.evidence_refs or item.derived_from)


def _contest(objects: dict[str, Object], draft: Draft) -> None:
    claims: dict[str, list[Knowledge]] = {}
    for item in objects.values():
        if isinstance(item, Knowledge) and item.status in CURRENT["knowledge"]:
            claims.setdefault(item.claim_key() or item.id, []).append(item)
    for group in claims.values():
        for item in group:
            against = is_functional(item, draft.policy) and any(
                contradict(item, other) and may_meet(item, other, draft) for other in group
            )
            if (against or item.disputed) and item.status in {"candidate", "active"}:
                objects[item.id] = item.model_copy(update={"status": "contested"})
