"""One object: what it says, what it rests on, who wrote it and when, and what rests on it."""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from treering.edges.surfaces.web.differences import ChangedField, field_changes
from treering.edges.surfaces.web.evidence import quotations
from treering.edges.surfaces.web.highlighting import MarkedText, marked
from treering.edges.surfaces.web.pages.graph import linked
from treering.edges.surfaces.web.view import PageView, Rendered
from treering.tools.browsing import ExpandReport, PageReport
from treering.tools.history import HistoryEntry

_VERSIONS = 6
_AROUND = 3
_TOKENS = 6_000
_SAID_ELSEWHERE = frozenset(
    "type id scope revision kind status title name summary payload evidence_refs segments segments_left_out "
    "created_at updated_at origin_channel fingerprint".split()
)


@dataclass(frozen=True, slots=True)
class ObjectVersion:
    """A version of an object, and what it changed of the one before."""

    entry: HistoryEntry
    changes: tuple[ChangedField, ...]


@dataclass(frozen=True, slots=True)
class Surrounded:
    """A passage between what stands before and after it in its source, split into stretches."""

    before: str
    passage: list[MarkedText]
    after: str
    place: str
    is_vanished: bool


def inspect_object(view: PageView) -> Rendered:
    """Show an object, or a place in a source with what stands around it."""
    identity = view.path["identity"]
    page = view.query(PageReport, "page", {"id": identity}, max_tokens=_TOKENS)
    item = page.object
    segment = view.text("segment")
    quoted, more = quotations(view, item, page.history[0].seq if page.history else 1)
    return Rendered(
        "object.html",
        {
            "page": page,
            "item": item,
            "said": dict(_said(item)),
            "fields": {name: value for name, value in item.items() if name not in _SAID_ELSEWHERE and value},
            "quotations": quoted,
            "named": [one for one in page.references if one.fields != ("evidence_refs",)],
            "more_quotations": more,
            "versions": list(_versions(view, page)),
            "titles": {one.id: one.title for one in linked(view, page.object["id"])} if page.links else {},
            "places": list(_places(view, page.object["id"], segment)) if segment else [],
            "question": view.text("q"),
            "segment": segment,
            "overview": view.overview(),
            "command": ("treering", "query", "--mode", "page", identity),
        },
    )


def _said(item: Mapping[str, Any]) -> Iterator[tuple[str, Any]]:
    if item.get("summary"):
        yield "summary", item["summary"]
    yield from ((name, value) for name, value in (item.get("payload") or {}).items() if value not in (None, "", [], {}))


def _places(view: PageView, source_id: str, segment: str) -> Iterator[Surrounded]:
    """Return the passage with what stands around it; nothing where the space does not have it."""
    asked = {"ids": [f"{source_id} {segment}"]}
    alone = view.query(ExpandReport, "expand", {**asked, "around": 0}).items
    around = view.query(ExpandReport, "expand", {**asked, "around": _AROUND}).items
    for one, wide in zip(alone, around, strict=True):
        before, found, after = wide.text.partition(one.text)
        yield Surrounded(
            before=before if found else "",
            passage=marked(one.text, view.text("q")),
            after=after if found else "",
            place=one.places[0] if one.places else "",
            is_vanished=one.vanished,
        )


def _versions(view: PageView, page: PageReport) -> Iterator[ObjectVersion]:
    """Return the newest versions, newest first, each compared with the one before."""
    entries = _revisions(page.history)[-_VERSIONS - 1 :]
    if len(entries) < 2:
        return
    seen = [view.query(PageReport, "page", {"id": page.object["id"]}, as_of=entry.seq).object for entry in entries]
    for number in range(len(entries) - 1, 0, -1):
        yield ObjectVersion(entries[number], field_changes(seen[number - 1], seen[number]))


def _revisions(history: Sequence[HistoryEntry]) -> list[HistoryEntry]:
    last = {entry.revision: entry for entry in history if entry.revision is not None}
    return list(last.values())
