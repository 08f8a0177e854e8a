"""`query` in mode `search`: ranked hits."""

from collections.abc import Sequence
from typing import Literal

from pydantic import Field

from treering.derived.retrieval import Retrieval, retrieval
from treering.derived.rounds import run_together
from treering.derived.tokens import estimate_tokens
from treering.tools.context_search import SPEAKING, KnownWords, answers, known_words
from treering.tools.envelope import AskingInput, Call, Mode
from treering.tools.reading import (
    Asked,
    Explanations,
    ReadReport,
    SearchOptions,
    ShownHit,
    ShownPassage,
    altered_warnings,
    question_of,
    reach_of,
    scope_warnings,
    show,
    stood_at,
    warnings_of,
    why_empty,
)
from treering.tools.rereading import rereading_of, rereading_warnings
from treering.tools.rights import READS


class SearchInput(AskingInput):
    """What to look for."""

    TEXT = "text"

    text: Asked = Field(description="A question, words, a symbol, a path, or an id.")


class HitOptions(SearchOptions):
    """Options of a search."""

    group: Literal["none", "source"] = Field(
        default="none", description="source: one hit per source, ranked by all of its passages."
    )


class SearchReport(ReadReport):
    """Hits, best first."""

    hits: tuple[ShownHit, ...] = ()


def search(call: Call, given: SearchInput, options: HitOptions) -> SearchReport:
    """Rank what is known by how well it answers."""
    engine, reach = call.engine, reach_of(call, options)
    question = question_of(call, given.text, semantic=options.semantic)
    by_source = options.group == "source"
    searching = retrieval(
        question,
        reach=reach,
        limit=options.limit,
        by_source=_PASSAGES if by_source else 0,
        deep=options.deep,
        rereading=rereading_of(call, options),
    )
    words: KnownWords
    found: Retrieval
    found, words = run_together([searching, known_words(question, reach)], index=engine.index, ledger=engine.ledger)
    is_answered = not found.hits or answers(words, question, found, found.hits[:SPEAKING])
    now = reach.now or engine.clock.now()
    explanations = Explanations(call, found) if options.explain else None
    hits = tuple(show(hit, now=now, explanations=explanations) for hit in found.hits)
    if by_source:
        hits = tuple(_grouped(hits))[: options.limit]
    shown, left_out = _fit(hits, options.max_tokens)
    return SearchReport(
        verb="query",
        mode="search",
        scope=call.scope,
        status="ok" if hits else "empty",
        warnings=(
            *scope_warnings(call, options, (hit.state.scope for hit in found.hits)),
            *([] if is_answered else [f"{_ONLY_NEAREST} {words.words.told()}".rstrip()]),
            *warnings_of(question),
            *rereading_warnings(found),
            *altered_warnings(found.altered),
        ),
        ids=tuple(dict.fromkeys(hit.object_id for hit in shown)),
        hits=shown,
        empty=None if hits else why_empty(call, question, reach),
        left_out=left_out,
        as_of=stood_at(found, reach),
        trace=dict(found.trace),
    )


def _grouped(hits: Sequence[ShownHit]) -> list[ShownHit]:
    """Put the passages of one source into its best hit. Each was ranked by all of them already."""
    passages: dict[str, list[ShownHit]] = {}
    for hit in hits:
        passages.setdefault(hit.object_id, []).append(hit)
    return [best.model_copy(update={"more": tuple(map(_more, rest))}) for best, *rest in passages.values()]


def _more(hit: ShownHit) -> ShownPassage:
    return ShownPassage(
        text=hit.text,
        heading=hit.heading,
        segment_id=hit.segment_id,
        place=hit.place,
        score=hit.score,
        flags=hit.flags,
    )


def _fit(hits: tuple[ShownHit, ...], max_tokens: int | None) -> tuple[tuple[ShownHit, ...], tuple[str, ...]]:
    if max_tokens is None:
        return hits, ()
    used, kept = 0, list[ShownHit]()
    for hit in hits:
        shown = (hit.text, hit.title, *(one.text for one in hit.more), hit.reply.text if hit.reply else "")
        used += sum(map(estimate_tokens, shown)) + _FRAME
        if used > max_tokens and kept:
            break
        kept.append(hit)
    return tuple(kept), tuple(f"{hit.object_id} {hit.segment_id}".strip() for hit in hits[len(kept) :])


_FRAME = 60  # tokens of ids, place and score around a hit's text

_ONLY_NEAREST = "None of the hits speaks of what is asked: they are only the nearest."

_PASSAGES = 3
"""Passages shown of a source at most, where hits are grouped."""

SEARCH = Mode(
    name="search",
    summary="Ranked hits, with filters and explanations.",
    input=SearchInput,
    options=HitOptions,
    report=SearchReport,
    run=search,
    rights=READS,
)
