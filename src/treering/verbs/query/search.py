"""`query` in mode `search`: ranked hits."""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import nullcontext
from dataclasses import dataclass, replace
from typing import Any, ClassVar, Literal

from pydantic import Field

from treering.core.errors import InvalidInput
from treering.core.objects import Object
from treering.ports.index import one_moment
from treering.ports.passages import Reach
from treering.retrieval.index.rounds import run_together
from treering.retrieval.search.known_words import KnownWords, known_words
from treering.retrieval.search.lines import LineQuery, symbol_of
from treering.retrieval.search.question import Question
from treering.retrieval.search.relevance import Judgement
from treering.retrieval.search.retrieval import Hit, Retrieval, retrieval
from treering.retrieval.text.analysis import estimate_tokens
from treering.retrieval.tuning import SEARCH_GROUPS, TUNING, values_of
from treering.verbs.envelope import READS, AskingInput, Call, Mode
from treering.verbs.evidence.cited import first_places
from treering.verbs.feedback import answer_name, feedback_for
from treering.verbs.query.brief import commands_asked_for, commits_asked_for
from treering.verbs.query.listing import hits_of, listing
from treering.verbs.query.superseded_hits import (
    Place,
    current_first,
    place_of_hit,
    replaced_places,
    replacements_first,
    without_declarations,
)
from treering.verbs.read_reports import (
    ONLY_NEAREST,
    Empty,
    ReadReport,
    altered_warnings,
    answered_sequence,
    below_warning,
    left_out_below,
    reranking_warnings,
    scope_warnings,
    understood_days,
    warnings_of,
    why_empty,
    with_words_elsewhere,
)
from treering.verbs.reading import (
    Searched,
    SearchOptions,
    note_recalled,
    nothing_recorded,
    object_with_id,
    question_of,
    reach_of,
    reranking_of,
    zone_of,
)
from treering.verbs.shown_hits import Explanations, Replaced, ShownHit, ShownPassage, show
from treering.verbs.trees import REPLACED, hits_here, notes_of

_FRAME_TOKENS = 60
"""Tokens of ids, place and score around the text of a hit."""
_LISTING = "Without a text, a search lists everything that passes the filter."
_HITS_WITH_VECTORS = 5
"""The first hits, whose lines are also chosen by vectors. For all of ten hits that takes 1 ms more and shows as many
answers (`benchmarks agents`, lines)."""
_NESTED = ("code", "symbol", "data")
"""Roles of texts whose lines belong to a line above them: a signature, a key."""
_MAX_PASSAGES = 3
"""Passages shown of a source if hits are grouped."""


class SearchInput(AskingInput):
    """The query."""

    TEXT: ClassVar[str] = "text"

    text: Searched = Field(
        default="",
        description="A question, words, a symbol, a path, or an id; without it, objects that pass the filter are "
        "listed, newest first.",
    )


class HitOptions(SearchOptions):
    """Options of a search."""

    group: Literal["none", "source"] = Field(
        default="none", description="source: one hit per source, ranked by all of its passages."
    )
    lines: int = Field(
        default=TUNING.lines.max_shown, ge=0, le=50, description="Maximum number of answering lines per hit; 0: none."
    )


class SearchReport(ReadReport):
    """Hits, best first."""

    hits: tuple[ShownHit, ...] = ()
    terms: tuple[str, ...] = Field(
        default=(), exclude_if=lambda terms: not terms, description="Index terms of the query, for highlighting."
    )

    def named(self) -> Iterable[tuple[str, str, str]]:
        """Return the places of its hits."""
        return ((one.origin, one.object_id, one.segment_id or "") for one in self.hits)

    def numbered_places(self) -> Mapping[int, str]:
        """Return the places of its hits by their ranks."""
        return {rank: f"{one.object_id} {one.segment_id or ''}".strip() for rank, one in enumerate(self.hits, start=1)}


def search(call: Call, given: SearchInput, options: HitOptions) -> SearchReport:
    """Rank passages and knowledge by how well they answer; without a text, list the objects that pass the filter.

    Raises `InvalidInput` if there is neither.
    """
    if given.text:
        return _search(call, given, options)
    if not options.filter:
        raise InvalidInput(
            "There is neither a text to search for nor a filter.",
            hint='Give words, or a filter such as {"type": "work_item", "status": "open"} to list what passes it.',
            details={"fields": [{"field": "text", "problem": "missing, and there is no filter", "kind": "missing"}]},
        )
    return _listed(call, options)


def _listed(call: Call, options: HitOptions) -> SearchReport:
    reach = reach_of(call, options)
    listed = listing(call, reach, limit=options.limit)
    now = reach.now or call.engine.clock.now()
    cited = first_places(call.engine.ledger, (hit.item for hit in listed.hits))
    shown, left_out = _fit(
        tuple(
            show(hit, now=now, note=listed.notes.get(hit.head.object_id, ""), cites=cited.get(hit.head.object_id, ""))
            for hit in listed.hits
        ),
        options.max_tokens,
    )
    return SearchReport(
        verb="query",
        mode="search",
        scope=call.scope,
        status="ok" if listed.hits else "empty",
        warnings=(
            *scope_warnings(call, options, (hit.state.scope for hit in listed.hits)),
            *([f"More objects pass the filter; the newest {options.limit} are listed."] if listed.has_more else []),
            *left_out_below(reach, listed.scopes),
            *altered_warnings(listed.altered),
        ),
        ids=tuple(dict.fromkeys(hit.object_id for hit in shown)),
        hits=shown,
        left_out=left_out,
        empty=None if listed.hits else Empty(reason="known_but_empty", hint="No object here passes the filter."),
        as_of=call.engine.ledger.sequence() if reach.at is None else reach.at,
    )


def _search(call: Call, given: SearchInput, options: HitOptions) -> SearchReport:
    """Prepare the question, and answer it from one snapshot, unless models work in between."""
    reach = reach_of(call, options)
    named = object_with_id(call, given.text, reach)
    # An id has no meaning; other hits only mention it.
    text, semantic = (named.id, False) if named else (given.text, options.semantic)
    question = question_of(call, text, semantic=semantic, zone=zone_of(call, options))
    with nullcontext() if options.deep or options.rerank else one_moment(call.engine.index):
        return _answer(call, given, options, question, reach, named)


@dataclass(frozen=True, slots=True)
class _Judged:
    """Judged hits of a question, each behind its replacement."""

    found: Retrieval
    words: KnownWords
    judgement: Judgement
    replaced: Mapping[Place, Replaced]
    notes: Mapping[int, str]
    unread: tuple[str, ...]
    """Warnings about turns that were not read."""


def _find(call: Call, text: str, options: HitOptions, question: Question, reach: Reach, *, limit: int) -> _Judged:
    """Retrieve `limit` hits; search again for more if too few are left without those replaced on the branch."""
    engine = call.engine
    searching = retrieval(
        question,
        reach=reach,
        limit=limit,
        by_source=_MAX_PASSAGES if options.group == "source" else 0,
        deep=options.deep,
        reranking=reranking_of(call, options),
        adjusting=feedback_for(call, text) if options.as_of is None else None,
    )
    words: KnownWords
    found: Retrieval
    found, words = run_together([searching, known_words(question, reach)], index=engine.index, ledger=engine.ledger)
    replaced = replaced_places(call, found)
    ordered = replacements_first(call, found.hits, replaced, reach, limit=limit)
    # Judged before turns are moved: the turn that replaced the answer may have no word of the question.
    judgement = Judgement.of(words, question, replace(found, hits=ordered))
    moved, replaced_here, unread = current_first(call, ordered, question, reach, limit=limit)
    replaced = replaced_here | replaced
    hits = hits_here(call.tree, without_declarations(moved, found, replaced))
    notes = notes_of(call.tree, engine.ledger, hits)
    if not reach.withdrawn:
        current = tuple(hit for hit in hits if not notes.get(hit.head.key, "").startswith(REPLACED))
        if len(current) < len(hits) and _count(current, options) < options.limit and _count(hits, options) >= limit:
            return _find(call, text, options, question, reach, limit=2 * limit)
        hits = current
    return _Judged(replace(found, hits=hits), words, judgement, replaced, notes, unread)


def _answer(
    call: Call, given: SearchInput, options: HitOptions, question: Question, reach: Reach, named: Object | None
) -> SearchReport:
    """Find hits, the named object first, and show them."""
    engine = call.engine
    judged = _find(call, given.text, options, question, reach, limit=options.limit)
    by_source = options.group == "source"
    hits = judged.found.hits
    if named:
        hits = (*hits_of(call, [named], reach), *(hit for hit in hits if hit.head.object_id != named.id))
    if len(hits) > options.limit and not by_source:
        hits = hits[: options.limit]
    found = replace(judged.found, hits=hits)
    note_recalled(engine, found.hits)
    now = reach.now or engine.clock.now()
    explanations = Explanations(call, found) if options.explain else None
    cited = first_places(engine.ledger, (hit.item for hit in found.hits))
    shown = tuple(
        show(
            hit,
            now=now,
            explanations=explanations,
            note=judged.notes.get(hit.head.key, ""),
            weak=not named and (hit.head.key in judged.judgement.weak or not judged.judgement.answers),
            replaced=judged.replaced.get(place_of_hit(hit)),
            cites=cited.get(hit.head.object_id, ""),
        )
        for hit in found.hits
    )
    if by_source:
        shown = tuple(_grouped(shown))[: options.limit]
    shown, left_out = _fit(shown, options.max_tokens)
    query = LineQuery(given.text, engine.quick if options.semantic else None)
    passages = {place_of_hit(hit): hit for hit in found.hits}
    shown = tuple(
        _with_lines(hit, query, passages, options.lines, by_meaning=at < _HITS_WITH_VECTORS)
        for at, hit in enumerate(shown)
    )
    return SearchReport(
        verb="query",
        mode="search",
        scope=call.scope,
        status="ok" if hits else "empty",
        warnings=(
            *scope_warnings(call, options, (hit.state.scope for hit in found.hits)),
            *(() if named or (hits and found.unrelated) else below_warning(call, question, reach)),
            *(() if named else _doubts(call, judged, question, reach)),
            *warnings_of(question),
            *reranking_warnings(found),
            *altered_warnings(found.altered),
            *judged.unread,
            *(() if hits else filter(None, [nothing_recorded(call, reach.at)])),
        ),
        ids=tuple(dict.fromkeys(hit.object_id for hit in shown)),
        hits=shown,
        terms=tuple(sorted(query.terms)),
        commands=commands_asked_for(call, question, options),
        latest_commits=commits_asked_for(call, question, options),
        understood=understood_days(question, now),
        empty=None if hits else _why_empty(call, question, reach, options),
        left_out=left_out,
        as_of=answered_sequence(found, reach),
        answer=answer_name(call.scope, given.text),
        trace={**found.trace, **({"tuning": values_of(SEARCH_GROUPS)} if options.explain else {})},
    )


def _why_empty(call: Call, question: Question, reach: Reach, options: HitOptions) -> Empty:
    empty = why_empty(call, question, reach)
    return empty.model_copy(update={"hint": f"{empty.hint} {_LISTING}"}) if options.filter else empty


def _count(hits: Sequence[Hit], options: HitOptions) -> int:
    return len({hit.head.object_id for hit in hits}) if options.group == "source" else len(hits)


def _doubts(call: Call, judged: _Judged, question: Question, reach: Reach) -> Iterator[str]:
    """Yield a warning if the hits do not answer the question, or are about less than it asks for."""
    if not judged.found.hits:
        return
    if judged.found.unrelated:
        yield f"{ONLY_NEAREST} {why_empty(call, question, reach).hint}"
    elif not judged.judgement.answers:
        yield f"{ONLY_NEAREST} {with_words_elsewhere(call, question, reach, judged.words.words).told()}".rstrip()
    elif gap := judged.words.gap():
        yield gap


def _grouped(hits: Sequence[ShownHit]) -> list[ShownHit]:
    """Put the passages of each source into its best hit; all were ranked together already."""
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
        first_line=hit.first_line,
        flags=hit.flags,
    )


def _with_lines(
    hit: ShownHit, query: LineQuery, passages: Mapping[Place, Hit], most: int, *, by_meaning: bool
) -> ShownHit:
    """Choose the lines that answer in a hit and the other passages of its source, and the symbols around them."""

    def chosen(shown: ShownHit | ShownPassage) -> dict[str, Any]:
        passage = passages[hit.object_id, shown.segment_id]
        nested = passage.head.role in _NESTED
        answer = query.lines_of(shown.text, most=most, nested=nested, by_meaning=by_meaning)
        segment, symbol = passage.segment, ""
        if shown.first_line:
            definitions = segment.definitions if segment else ()
            path = shown.place.rpartition("#L")[0]
            lines = answer.matched or answer.shown
            symbol = symbol_of(shown.heading, query.terms, path, lines=lines, definitions=definitions)
        return {"lines": answer.shown, "columns": answer.columns, "symbol": symbol}

    more = tuple(one.model_copy(update=chosen(one)) for one in hit.more)
    return hit.model_copy(update={**chosen(hit), "more": more})


def _fit(hits: tuple[ShownHit, ...], max_tokens: int | None) -> tuple[tuple[ShownHit, ...], tuple[str, ...]]:
    if max_tokens is None:
        return hits, ()
    used, fitting = 0, list[ShownHit]()
    for hit in hits:
        texts = (hit.text, hit.title, *(one.text for one in hit.more), hit.reply.text if hit.reply else "")
        used += sum(map(estimate_tokens, texts)) + _FRAME_TOKENS
        if used > max_tokens and fitting:
            break
        fitting.append(hit)
    return tuple(fitting), tuple(f"{hit.object_id} {hit.segment_id}".strip() for hit in hits[len(fitting) :])


SEARCH = Mode.of("search", "Search, or list by a filter.", search, rights=READS)
