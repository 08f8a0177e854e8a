"""The consequences of a merge: unique names, joined duplicates, contradictions, lost support.

The result depends on the objects alone, not on the order in which they were merged.
"""

from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from typing import Any

from treering.core.evidence import EvidenceRef, Segment
from treering.core.objects import Knowledge, Node, Object, Source, Summary, name_held
from treering.core.policy import CURRENT, WITHDRAWN_BY_CASCADE
from treering.core.writing.draft import Draft, merge_unique
from treering.core.writing.integrity import conflict, is_backed, is_functional, rename_references
from treering.extensions.sharing.merge_rules.entries import MAP, BranchReadings, MergeEntry, root_of, with_each_branch

_GOES_FIRST = {"active": 0, "contested": 1, "candidate": 2, "stale": 3}

Entries = Callable[[str], Sequence[MergeEntry]]
"""Returns all entries of an object."""
Readings = Callable[[Source], BranchReadings]
"""Returns the readings of the repository that a source is a file of."""


def settle_together(draft: Draft, entries_of: Entries, single: Collection[str], readings: Readings) -> dict[str, str]:
    """Settle the objects of a draft; return the ids of replaced objects, with the ids of their replacements.

    `single` are ids of objects with one entry, whose state nothing else can change.
    """
    gave_way = _join_names(draft.objects, entries_of, single, readings)
    _point_again(draft.objects, gave_way, draft, entries_of)
    _join_duplicates(draft.objects)
    _withdraw(draft.objects, draft)
    _contest(draft.objects, draft)
    return gave_way


def _join_names(
    objects: dict[str, Object], entries_of: Entries, single: Collection[str], readings: Readings
) -> dict[str, str]:
    """Give each name to one object: the newest reading of an origin, the oldest node. Return replaced objects.

    A source that retains its name contains the last reading of each branch, from whichever source.
    """
    groups: dict[tuple[str, ...], list[Object]] = {}
    for item in objects.values():
        if name := name_held(item) if item.id in single else _name_on_branches(item, entries_of, readings):
            groups.setdefault(name, []).append(item)
    gave_way: dict[str, str] = {}
    for group in groups.values():
        best = max(group, key=_newest) if isinstance(group[0], Source) else min(group, key=lambda one: one.id)
        if isinstance(best, Source) and (len(group) > 1 or best.id not in single):
            entries = [one for item in group for one in entries_of(item.id)]
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


def _name_on_branches(item: Object, entries_of: Entries, readings: Readings) -> tuple[str, ...] | None:
    """Return the name that an object holds after all of its entries.

    A file that its own entries left on no branch gives up its name, and one that was archived in a copy which did not
    know all of its branches holds it. So a merge need not know archived files to give the name to another one.
    """
    name = name_held(item)
    if not isinstance(item, Source) or item.kind == MAP or not (known := readings(item)):
        return name
    if known.contents(entries_of(item.id), root_of(item)):
        return (item.scope, item.origin)
    return (*name, item.id) if name else None


def _newest(item: Object) -> tuple[Any, ...]:
    return (item.captured_at if isinstance(item, Source) else item.created_at, item.id)


def _point_again(objects: dict[str, Object], gave_way: Mapping[str, str], draft: Draft, entries_of: Entries) -> None:
    """Move evidence from replaced sources to the same text in their replacements.

    The same applies to text that the same source has under another id because two copies read it independently.
    """
    for identity, item in list(objects.items()):
        if not isinstance(item, Knowledge):
            continue
        refs = [_moved(ref, gave_way, draft, entries_of) for ref in item.evidence_refs]
        if refs != list(item.evidence_refs):
            objects[identity] = item.model_copy(update={"evidence_refs": tuple(dict.fromkeys(refs))})


def _moved(ref: EvidenceRef, gave_way: Mapping[str, str], draft: Draft, entries_of: Entries) -> EvidenceRef:
    now = draft.find(gave_way.get(ref.source_id, ref.source_id))
    if not isinstance(now, Source) or any(
        now.id == ref.source_id and part.segment_id == ref.segment_id for part in now.segments
    ):
        return ref
    words = next(
        (part.excerpt for part in _parts(ref.source_id, entries_of) if part.segment_id == ref.segment_id), None
    )
    same = next((part for part in now.segments if part.excerpt == words), None)
    if same is None:
        return ref
    return ref.model_copy(update={"source_id": now.id, "segment_id": same.segment_id, "quote_hash": same.hash})


def _parts(source_id: str, entries_of: Entries) -> Iterator[Segment]:
    """Yield the segments that a source has ever had, the last ones first."""
    for entry in sorted(entries_of(source_id), key=lambda one: one.order, reverse=True):
        yield from entry.after.segments if isinstance(entry.after, Source) else ()


def _join_duplicates(objects: dict[str, Object]) -> None:
    """Archive exact duplicates, except the oldest, which gets the evidence of all."""
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
    """Make knowledge stale that lost its last support, repeatedly."""
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
            if to and not is_backed(item, draft) and (to == "archived" or item.evidence_refs or item.derived_from):
                objects[identity] = item.model_copy(update={"status": to})
                falls = True


def _contest(objects: dict[str, Object], draft: Draft) -> None:
    claims: dict[str, list[Knowledge]] = {}
    for item in objects.values():
        if isinstance(item, Knowledge) and item.status in CURRENT["knowledge"]:
            claims.setdefault(item.claim_key() or item.id, []).append(item)
    for group in claims.values():
        for item in group:
            against = is_functional(item, draft.policy) and any(conflict(item, other, draft) for other in group)
            if (against or item.disputed) and item.status in {"candidate", "active"}:
                objects[item.id] = item.model_copy(update={"status": "contested"})
