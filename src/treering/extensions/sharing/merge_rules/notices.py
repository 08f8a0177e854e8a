"""Notices: what a copy knows of a source that its author withholds. A notice contains none of its words.

Until the source is shared, its newest notice is in its place. A source that was shared before retains its text, except
cited segments that its author removed; segments that were added since are known by their hashes in the notice.
"""

from collections.abc import Collection
from typing import Any

from treering.core.canonical import canonical_json, digest
from treering.core.evidence import Turn
from treering.core.objects import Object, Source, Withheld, withheld_place

WITHHELD = "withheld"
"""The kind of an entry that is a notice, and the status of a source of which only a notice is known."""
_SALT_CHARS = 32


def notice_of(source: Source, cited: Collection[str], author: str) -> Source:
    """Return the notice of a source. `cited`: the ids of the segments that knowledge which is shared cites.

    The same source and citations give the same notice in every copy.
    """
    added = source.withheld.hashes if source.withheld else {}
    content = digest(canonical_json([part.hash for part in source.segments]), salt=source.salt)
    is_active = source.status == "active"
    hashes = {part.segment_id: part.hash for part in source.segments} | added if is_active else {}
    turns = (part.locator.at for part in source.segments if isinstance(part.locator, Turn))
    at = max(filter(None, turns), default=source.captured_at)
    return Source(
        id=source.id,
        kind=source.kind,
        status=WITHHELD if is_active else "archived",
        scope="/",
        created_at=source.created_at,
        updated_at=source.created_at,
        origin_channel=source.origin_channel,
        salt=digest(f"{WITHHELD} {source.id}")[:_SALT_CHARS],
        origin=_origin_of(source),
        title=withheld_place(source.kind, author, at),
        captured_at=at,
        withheld=Withheld(
            author=author,
            content=source.withheld.content if source.withheld else content,
            hashes={one: hashes[one] for one in sorted(cited) if one in hashes},
            lost=tuple(sorted(set(cited) - hashes.keys())) if is_active else (),
        ),
    )


def is_notice(item: Object | None) -> bool:
    """Return whether a source is known only from a notice."""
    return isinstance(item, Source) and item.withheld is not None and item.origin == _origin_of(item)


def problem_of_notice(item: Object | None) -> str:
    """Return why the state of an entry of the kind `WITHHELD` is no notice, or an empty text."""
    if not isinstance(item, Source) or not is_notice(item) or item.status not in (WITHHELD, "archived"):
        return "it is no valid notice of a withheld source"
    holds_text = item.segments or item.payload or item.metadata or item.fingerprint
    return "its notice of a withheld source contains text" if holds_text else ""


def noticed(item: Object | None, notice: Source) -> Source:
    """Return a source, or nothing, after a notice about it."""
    if not isinstance(item, Source) or is_notice(item):
        return notice
    known, lost = {part.segment_id for part in item.segments}, lost_by(notice)
    hashes = notice.withheld.hashes if notice.withheld else {}
    added = {one: hashes[one] for one in hashes if one not in known}
    withheld = notice.withheld.model_copy(update={"hashes": added}) if notice.withheld and added else None
    left = tuple(part for part in item.segments if part.segment_id not in lost)
    is_archived = {"status": "archived"} if notice.status == "archived" else {}
    return item.model_copy(update={"withheld": withheld, "segments": left, **is_archived})


def lost_by(notice: Source) -> frozenset[str]:
    """Return the ids of the cited segments that a withheld source no longer has."""
    return frozenset(notice.withheld.lost) if notice.withheld else frozenset()


def without_notice(item: Object, names: Collection[str]) -> dict[str, Any]:
    """Return the changes of a source whose text changed after a notice: the notice no longer applies."""
    return {"withheld": None} if isinstance(item, Source) and item.withheld and "segments" in names else {}


def _origin_of(source: Source) -> str:
    return f"{WITHHELD}:{source.id}"
