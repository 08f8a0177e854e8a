"""Each quotation that knowledge rests on, beside its source as the space holds it now."""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Literal

from treering.core.errors import NotFound
from treering.edges.surfaces.web.differences import WordChange, folded, likeness, word_changes
from treering.edges.surfaces.web.view import PageView
from treering.tools.browsing import ExpandReport, PageReport

State = Literal["same", "moved", "changed", "gone"]
_MOST_SHOWN = 20
_MOST_COMPARED = 200
_COMPARED_CHARS = 2_000
_LIKE = 0.5
_TOKENS = 100_000


@dataclass(frozen=True, slots=True)
class Quotation:
    """A place that knowledge cites: what was quoted, and what became of it."""

    source_id: str
    segment_id: str
    role: str
    title: str
    text: str
    state: State
    place: str = ""
    cited_place: str = ""
    """Where it stood when it was cited, where that is another place."""
    words: tuple[WordChange, ...] = ()
    """Where it changed: the quotation and what stands in its source now, word by word."""
    why: str = ""


def quotations(view: PageView, item: Mapping[str, Any], since: int) -> tuple[list[Quotation], int]:
    """Return the quotations of knowledge, and how many more there are. `since`: the event that made it."""
    refs: Sequence[Mapping[str, Any]] = item.get("evidence_refs", ())
    return [_quotation(view, ref, since) for ref in refs[:_MOST_SHOWN]], max(0, len(refs) - _MOST_SHOWN)


def _quotation(view: PageView, ref: Mapping[str, Any], since: int) -> Quotation:
    source_id, segment_id = str(ref["source_id"]), str(ref["segment_id"])
    place = f"{source_id} {segment_id}"
    told: dict[str, Any] = {"source_id": source_id, "segment_id": segment_id, "role": str(ref["role"])}
    now = _expand(view, place)
    if not now.items:
        beyond = "" if view.is_whole_space else ", or it lies outside of what this key shows"
        why = f"The source is not in the space any more{beyond}."
        return Quotation(**told, title=source_id, text="", state="gone", why=why)
    (here,) = now.items
    where = here.places[0] if here.places else ""
    known = {**told, "title": here.title, "text": here.text, "place": where}
    if not here.current:
        return Quotation(**known, state="gone", why=f"The source is {here.status}.")
    if here.vanished:
        return _vanished(view, known)
    then = _expand(view, place, as_of=since)
    cited = then.items[0].places[0] if then.items and then.items[0].places else where
    if _without_commit(cited) != _without_commit(where):
        return Quotation(**known, state="moved", cited_place=cited)
    return Quotation(**known, state="same")


def _expand(view: PageView, place: str, *, as_of: int | None = None) -> ExpandReport:
    return view.query(ExpandReport, "expand", {"ids": [place], "around": 0}, as_of=as_of)


def _vanished(view: PageView, known: Mapping[str, Any]) -> Quotation:
    quoted = known["text"]
    nearest = max(_texts_of(view, known["source_id"]), key=lambda text: _near(quoted, text), default="")
    if _near(quoted, nearest) < _LIKE:
        return Quotation(**known, state="gone", why="Nothing like it is in the source any more.")
    return Quotation(**known, state="changed", words=folded(word_changes(quoted, nearest)))


def _texts_of(view: PageView, source_id: str) -> Iterator[str]:
    try:
        page = view.query(PageReport, "page", {"id": source_id}, max_tokens=_TOKENS)
    except NotFound:
        return
    for segment in page.object.get("segments", ())[:_MOST_COMPARED]:
        yield segment["excerpt"]


def _near(one: str, other: str) -> float:
    return likeness(one[:_COMPARED_CHARS], other[:_COMPARED_CHARS])


def _without_commit(place: str) -> str:
    return place.partition(" @ ")[0]
