"""`query` in mode `search`: ranked hits."""

from pydantic import Field

from treering.derived.retrieval import retrieve
from treering.derived.tokens import estimate_tokens
from treering.tools.envelope import AskingInput, Call, Mode
from treering.tools.reading import (
    Asked,
    ReadReport,
    SearchOptions,
    ShownHit,
    altered_warnings,
    question_of,
    reach_of,
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


class SearchReport(ReadReport):
    """Hits, best first."""

    hits: tuple[ShownHit, ...] = ()


def search(call: Call, given: SearchInput, options: SearchOptions) -> SearchReport:
    """Rank what is known by how well it answers."""
    engine, reach = call.engine, reach_of(call, options)
    question = question_of(call, given.text, semantic=options.semantic)
    found = retrieve(
        question,
        index=engine.index,
        ledger=engine.ledger,
        reach=reach,
        limit=options.limit,
        deep=options.deep,
        rereading=rereading_of(call, options),
    )
    now = reach.now or engine.clock.now()
    hits = tuple(show(call, hit, found, now=now, explain=options.explain) for hit in found.hits)
    shown, left_out = _fit(hits, options.max_tokens)
    return SearchReport(
        verb="query",
        mode="search",
        scope=call.scope,
        status="ok" if hits else "empty",
        warnings=(*warnings_of(question), *rereading_warnings(found), *altered_warnings(found.altered)),
        ids=tuple(dict.fromkeys(hit.object_id for hit in shown)),
        hits=shown,
        empty=None if hits else why_empty(call, question, reach),
        left_out=left_out,
        as_of=stood_at(found, reach),
        trace=dict(found.trace),
    )


def _fit(hits: tuple[ShownHit, ...], max_tokens: int | None) -> tuple[tuple[ShownHit, ...], tuple[str, ...]]:
    if max_tokens is None:
        return hits, ()
    used, kept = 0, list[ShownHit]()
    for hit in hits:
        used += estimate_tokens(hit.text) + estimate_tokens(hit.title) + _FRAME
        if used > max_tokens and kept:
            break
        kept.append(hit)
    return tuple(kept), tuple(f"{hit.object_id} {hit.segment_id}".strip() for hit in hits[len(kept) :])


_FRAME = 60  # tokens of ids, place and score around a hit's text

SEARCH = Mode(
    name="search",
    summary="Ranked hits with filters and, on request, an explanation of each.",
    input=SearchInput,
    options=SearchOptions,
    report=SearchReport,
    run=search,
    rights=READS,
)
