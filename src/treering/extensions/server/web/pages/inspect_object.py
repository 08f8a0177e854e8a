"""One object: its content, its evidence, its author and time, and the objects that depend on it."""

import re
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from difflib import SequenceMatcher
from typing import Any, Literal

from treering.core.errors import NotFound
from treering.extensions.server.web.pages.ask import MarkedText, marked
from treering.extensions.server.web.pages.graph import linked
from treering.extensions.server.web.view import PageView, Rendered
from treering.verbs.query.browsing import ExpandReport, HistoryEntry, PageReport

_WORDS = re.compile(r"\s+|\w+|[^\w\s]")
_MOST_WORDS = 3_000
_LINES_AROUND = 3
_LEAST_FOLDED = 3
_STAMPED = frozenset({"revision", "created_at", "updated_at", "segments", "segments_left_out", "origin_channel"})
_VERSIONS = 6
_AROUND = 3
_TOKENS = 6_000
_SAID_ELSEWHERE = frozenset(
    "type id scope revision kind status title name summary payload evidence_refs segments segments_left_out "
    "created_at updated_at origin_channel fingerprint".split()
)
_OF_WORK = ("priority", "owner_refs", "due_at", "resolution", "outcome")
"""Fields of work and activities that state what there is to do, or what came of it."""
_LINES = re.compile(r"#L(\d+)(?:-L\d+)?")
State = Literal["same", "moved", "changed", "gone", "withheld"]
_MOST_SHOWN = 20
_MOST_COMPARED = 200
_COMPARED_CHARS = 2_000
_LIKE = 0.5
_MOST_TOKENS_OF_EVIDENCE = 100_000


@dataclass(frozen=True, slots=True)
class WordChange:
    """A stretch of text that stayed, was added or removed; `folded`: the number of unchanged lines that are hidden."""

    text: str
    change: Literal["same", "added", "removed", "folded"]


@dataclass(frozen=True, slots=True)
class ChangedField:
    """A field of an object before and after. `words`: the differences if both are texts."""

    name: str
    before: Any
    after: Any
    words: tuple[WordChange, ...] = ()


def word_changes(before: str, after: str) -> tuple[WordChange, ...]:
    """Compare two texts word by word; very long ones as a whole."""
    old, new = _WORDS.findall(before), _WORDS.findall(after)
    if len(old) + len(new) > _MOST_WORDS:
        return (WordChange(before, "removed"), WordChange(after, "added"))
    return tuple(_pieces(old, new))


def _pieces(old: list[str], new: list[str]) -> Iterator[WordChange]:
    for tag, a, b, c, d in SequenceMatcher(None, old, new, autojunk=False).get_opcodes():
        if tag == "equal":
            yield WordChange("".join(old[a:b]), "same")
        else:
            if a < b:
                yield WordChange("".join(old[a:b]), "removed")
            if c < d:
                yield WordChange("".join(new[c:d]), "added")


def folded(changes: Sequence[WordChange]) -> tuple[WordChange, ...]:
    """Leave out unchanged lines, except a few before and after each change."""
    shown = list[WordChange]()
    for at, one in enumerate(changes):
        lines = one.text.splitlines(keepends=True)
        before = _LINES_AROUND if at else 0
        after = _LINES_AROUND if at < len(changes) - 1 else 0
        left_out = len(lines) - before - after
        if one.change != "same" or len(changes) == 1 or left_out < _LEAST_FOLDED:
            shown.append(one)
            continue
        shown += [
            WordChange("".join(lines[:before]), "same"),
            WordChange(f"{left_out} lines are the same", "folded"),
            WordChange("".join(lines[len(lines) - after :]), "same"),
        ]
    return tuple(one for one in shown if one.text)


def word_overlap(one: str, other: str) -> float:
    """Return the part of their words that two texts share, from 0 to 1 (Dice's coefficient)."""
    first, second = Counter(_WORDS.findall(one)), Counter(_WORDS.findall(other))
    return 2 * (first & second).total() / max(first.total() + second.total(), 1)


def field_changes(before: Mapping[str, Any], after: Mapping[str, Any]) -> tuple[ChangedField, ...]:
    """Compare two versions of an object for a page, without the fields that the ledger sets."""
    return tuple(_changes(_flat(before), _flat(after)))


def _changes(before: Mapping[str, Any], after: Mapping[str, Any]) -> Iterator[ChangedField]:
    for name in dict.fromkeys((*before, *after)):
        old, new = before.get(name), after.get(name)
        if old == new or (not old and not new):
            continue
        both = isinstance(old, str) and isinstance(new, str)
        yield ChangedField(name, old, new, folded(word_changes(str(old), str(new))) if both else ())


def _flat(fields: Mapping[str, Any]) -> dict[str, Any]:
    """Merge the fields of a payload into the fields of its object."""
    flat = {name: value for name, value in fields.items() if name not in _STAMPED}
    payload = flat.pop("payload", None)
    return {**flat, **{f"payload {name}": value for name, value in payload.items()}} if payload else flat


@dataclass(frozen=True, slots=True)
class ObjectVersion:
    """A version of an object, and its changes to the previous one."""

    entry: HistoryEntry
    changes: tuple[ChangedField, ...]


@dataclass(frozen=True, slots=True)
class PassageInContext:
    """A passage with the text before and after it in its source, split into stretches."""

    before: str
    passage: list[MarkedText]
    after: str
    place: str
    is_vanished: bool


def inspect_object(view: PageView) -> Rendered:
    """Show an object, or a place in a source with its context."""
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
            "statement": dict(_statement(item)),
            "fields": {
                name: value
                for name, value in item.items()
                if name not in _SAID_ELSEWHERE and name not in _OF_WORK and value
            },
            "quotations": quoted,
            "named": [one for one in page.references if one.fields != ("evidence_refs",)],
            "more_quotations": more,
            "versions": list(_versions(view, page)),
            "titles": {one.id: one.title for one in linked(view, page.object["id"])} if page.links else {},
            "places": list(_places(view, page.object["id"], segment)) if segment else [],
            "question": view.text("q"),
            "segment": segment,
            "overview": view.overview(),
            "command": ("treering", "show", identity),
        },
    )


def _statement(item: Mapping[str, Any]) -> Iterator[tuple[str, Any]]:
    yield from ((name, item[name]) for name in ("summary", *_OF_WORK) if item.get(name))
    yield from ((name, value) for name, value in (item.get("payload") or {}).items() if value not in (None, "", [], {}))


def _places(view: PageView, source_id: str, segment: str) -> Iterator[PassageInContext]:
    """Yield the passage with the text around it; nothing if the space does not have it."""
    request = {"ids": [f"{source_id} {segment}"]}
    alone = view.query(ExpandReport, "expand", {**request, "around": 0}).items
    around = view.query(ExpandReport, "expand", {**request, "around": _AROUND}).items
    for one, wide in zip(alone, around, strict=True):
        before, passage, after = wide.text.partition(one.text)
        yield PassageInContext(
            before=before if passage else "",
            passage=marked(one.text, view.text("q")),
            after=after if passage else "",
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


@dataclass(frozen=True, slots=True)
class Quotation:
    """A cited place: the quoted text, and its current state."""

    source_id: str
    segment_id: str
    role: str
    title: str
    text: str
    state: State
    place: str = ""
    cited_place: str = ""
    """The place when it was cited, if it is another one."""
    words: tuple[WordChange, ...] = ()
    """If it changed: the word differences between the quotation and the current source."""
    why: str = ""


def quotations(view: PageView, item: Mapping[str, Any], since: int) -> tuple[list[Quotation], int]:
    """Return the quotations of knowledge, and the number of others. `since`: the event that created it."""
    refs: Sequence[Mapping[str, Any]] = item.get("evidence_refs", ())
    return [_quotation(view, ref, since) for ref in refs[:_MOST_SHOWN]], max(0, len(refs) - _MOST_SHOWN)


def _quotation(view: PageView, ref: Mapping[str, Any], since: int) -> Quotation:
    source_id, segment_id = str(ref["source_id"]), str(ref["segment_id"])
    place = f"{source_id} {segment_id}"
    fields: dict[str, Any] = {"source_id": source_id, "segment_id": segment_id, "role": str(ref["role"])}
    now = _expand(view, place)
    if not now.items:
        beyond = "" if view.is_whole_space else ", or this key cannot see it"
        why = f"The source is no longer in the space{beyond}."
        return Quotation(**fields, title=source_id, text="", state="gone", why=why)
    (here,) = now.items
    if here.withheld:
        return Quotation(**fields, title=here.places[0], text="", state="withheld", why="Its author does not share it.")
    where = here.places[0] if here.places else ""
    lines = () if here.vanished else ref.get("lines") or ()
    known = {**fields, "title": here.title, "text": _cited_text(here.text, lines), "place": _cited_place(where, lines)}
    if not here.current:
        return Quotation(**known, state="gone", why=f"The source is {here.status}.")
    if here.vanished:
        return _vanished(view, known)
    then = _expand(view, place, as_of=since)
    cited = then.items[0].places[0] if then.items and then.items[0].places else where
    if _without_commit(cited) != _without_commit(where):
        return Quotation(**known, state="moved", cited_place=_cited_place(cited, lines))
    return Quotation(**known, state="same")


def _cited_text(text: str, lines: Sequence[int]) -> str:
    """Return the cited lines of a passage, counted from 1 in its text."""
    return "\n".join(text.splitlines()[lines[0] - 1 : lines[1]]) if lines else text


def _cited_place(place: str, lines: Sequence[int]) -> str:
    if not lines or not (match := _LINES.search(place)):
        return place
    first = int(match[1]) - 1
    return f"{place[: match.start()]}#L{first + lines[0]}-L{first + lines[1]}{place[match.end() :]}"


def _expand(view: PageView, place: str, *, as_of: int | None = None) -> ExpandReport:
    return view.query(ExpandReport, "expand", {"ids": [place], "around": 0}, as_of=as_of)


def _vanished(view: PageView, known: Mapping[str, Any]) -> Quotation:
    quoted = known["text"]
    nearest = max(_texts_of(view, known["source_id"]), key=lambda text: _near(quoted, text), default="")
    if _near(quoted, nearest) < _LIKE:
        return Quotation(**known, state="gone", why="The source no longer contains anything similar.")
    return Quotation(**known, state="changed", words=folded(word_changes(quoted, nearest)))


def _texts_of(view: PageView, source_id: str) -> Iterator[str]:
    try:
        page = view.query(PageReport, "page", {"id": source_id}, max_tokens=_MOST_TOKENS_OF_EVIDENCE)
    except NotFound:
        return
    for segment in page.object.get("segments", ())[:_MOST_COMPARED]:
        yield segment["excerpt"]


def _near(one: str, other: str) -> float:
    return word_overlap(one[:_COMPARED_CHARS], other[:_COMPARED_CHARS])


def _without_commit(place: str) -> str:
    return place.partition(" @ ")[0]
