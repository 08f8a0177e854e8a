"""Results of a search as text for a model: each cited by its place, with the lines that answer."""

from collections.abc import Collection, Iterator, Sequence
from typing import NamedTuple

from treering.core.characters import label, unmarked
from treering.core.evidence import place_in_words
from treering.core.fencing import fence_items
from treering.core.objects import kind_in_words
from treering.retrieval import limits
from treering.retrieval.search.lines import lines_as_text
from treering.retrieval.search.packing import USUAL_TRUST, titled
from treering.verbs.shown_hits import USUAL, ShownHit, ShownPassage, lines_shown_of, shown_status, warnings_in

MAX_HEADING_CHARS = 80


class CitedText(NamedTuple):
    """A recalled text and the marker that cites it, for `core.fencing.fence_items`."""

    marker: str
    text: str
    ref: str
    """The place or id for requesting the text."""


def fenced_hits(hits: Sequence[ShownHit], terms: Collection[str], *, start: int = 1) -> str:
    """Return results as one fenced text. `terms`: the index terms of the query; `start`: the rank of the first."""
    cited = cited_hits(hits, terms, max_line_chars=limits.MAX_LINE_CHARS, start=start)
    return fence_items(((one.marker, one.text) for one in cited), origin="search")


def cited_hits(
    hits: Sequence[ShownHit], terms: Collection[str], *, max_line_chars: int, start: int = 1
) -> Iterator[CitedText]:
    """Yield the passages of results, numbered from `start`; further passages of a result have its number.

    Lines of a file are cited by their place, which is accepted wherever evidence is; everything else by its id.
    """
    terms = frozenset(terms)
    for number, hit in enumerate(hits, start=start):
        passages: tuple[ShownHit | ShownPassage, ...] = (hit, *hit.more)
        for passage in passages:
            text = lines_as_text(lines_shown_of(passage, terms, max_chars=max_line_chars)) or passage.text
            if hit.reply and passage is hit:
                text += f"\n\n{hit.reply.heading}: {hit.reply.text}"
            doubts = _doubts(hit, passage)
            if passage.first_line:
                place = passage.place.partition(" @ ")[0]
                marker = [f"[{number}] {label(place)}", *_symbol(passage), *doubts]
                yield CitedText(" — ".join(marker), text, place)
            else:
                ref = f"{hit.object_id} {passage.segment_id}".strip()
                place = place_in_words(passage.place)
                places = [label(place)] if place not in ("", hit.object_id) else []
                above = "" if passage.heading.startswith(hit.title) else hit.title
                title = " — ".join(filter(None, (above, passage.heading)))
                cites = [f"based on {label(hit.cites)}"] if hit.cites else []
                marker = [f"[{number}] `{ref}`", kind_in_words(hit.kind), *places, *cites, *doubts]
                yield CitedText(" — ".join(marker), titled(title, text), ref)


def _symbol(passage: ShownHit | ShownPassage) -> list[str]:
    return [unmarked(passage.symbol, most=MAX_HEADING_CHARS)] if passage.symbol else []


def _doubts(hit: ShownHit, passage: ShownHit | ShownPassage) -> list[str]:
    """Return the reasons to read a result with care: not current, unusual trust, warnings."""
    status = shown_status(hit.status, current=hit.current, note=hit.note)
    flags = warnings_in(passage.flags, hit.note)
    return [
        *([] if status in USUAL else [status]),
        *([] if hit.trust == USUAL_TRUST else [f"trust: {hit.trust} ({hit.channel})"]),
        *([f"warning: {', '.join(flags)}"] if flags else []),
    ]
