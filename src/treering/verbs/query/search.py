"""`query` in mode `search`: ranked hits."""

from collections.abc import Iterable, Iterator, Mapping, Sequence, Set
from dataclasses import replace
from itertools import chain, repeat
from typing import Any, ClassVar, Literal

from pydantic import Field

from treering.core.errors import InvalidInput
from treering.core.evidence import Turn
from treering.core.objects import Knowledge
from treering.core.screening import instruction_flags
from treering.ports.ledger import Altered, ObjectRequest
from treering.ports.passages import Reach
from treering.retrieval.index.rounds import run_together
from treering.retrieval.search.known_words import KnownWords, known_words
from treering.retrieval.search.lines import LineQuery
from treering.retrieval.search.relevance import Judgement
from treering.retrieval.search.reranking import Reranking
from treering.retrieval.search.retrieval import Hit, Retrieval, retrieval
from treering.retrieval.text.analysis import estimate_tokens
from treering.retrieval.tuning import SEARCH_GROUPS, TUNING, values_of
from treering.verbs.declarations import is_declaration
from treering.verbs.envelope import READS, AskingInput, Call, Mode, bounded
from treering.verbs.feedback import answer_name, feedback_for
from treering.verbs.reading import (
    Asked,
    Explanations,
    ReadReport,
    Replaced,
    SearchOptions,
    ShownHit,
    ShownPassage,
    altered_warnings,
    answered_sequence,
    note_recalled,
    question_of,
    reach_of,
    scope_warnings,
    show,
    understood_days,
    warnings_of,
    why_empty,
    zone_of,
)
from treering.verbs.replaced_turns import FoundTurn, ReplacingTurn, asks_about_past, behind_replacements, replaced_turns
from treering.verbs.trees import notes_of

# How a ranked read has its best hits read again: what it asks for, and what it is told where that was not done.


_HINT = "Set TREERING_RERANKER=onnx:FOLDER, or open the space with reranker=…; or omit options.rerank."


def reranking_of(call: Call, options: SearchOptions) -> Reranking | None:
    """Return what reads hits again, if the call asks for it. Raises `InvalidInput` where the space has no reranker."""
    if not options.rerank:
        return None
    reranker = call.engine.reranker
    if reranker is None:
        raise InvalidInput(f"options.rerank is {options.rerank}, but this space has no reranker.", hint=_HINT)
    return Reranking(reranker, options.rerank, call.engine.clock)


def reranking_warnings(found: Retrieval) -> tuple[str, ...]:
    """Warn where nothing was read again although it was asked for."""
    if found.reranking is None or found.reranking.pairs:
        return ()
    return ("Not reranked: the results are not conversations, and reranking makes other texts worse.",)


class SearchInput(AskingInput):
    """The query."""

    TEXT: ClassVar[str] = "text"

    text: Asked = Field(description="A question, words, a symbol, a path, or an id.")


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
    """Rank what is known by how well it answers."""
    engine = call.engine
    reach = reach_of(call, options)
    question = question_of(call, given.text, semantic=options.semantic, zone=zone_of(call, options))
    by_source = options.group == "source"
    searching = retrieval(
        question,
        reach=reach,
        limit=options.limit,
        by_source=_PASSAGES if by_source else 0,
        deep=options.deep,
        reranking=reranking_of(call, options),
        adjusting=feedback_for(call, given.text) if options.as_of is None else None,
    )
    words: KnownWords
    found: Retrieval
    found, words = run_together([searching, known_words(question, reach)], index=engine.index, ledger=engine.ledger)
    replaced = _replaced(call, found)
    ordered = _behind_current(call, found.hits, replaced, reach, most=options.limit)
    by_turn = replaced_turns(engine, turns_of(ordered), given.text) if reach.at is None else {}
    replaced = {place: Replaced(turn=turn) for place, turn in by_turn.items()} | replaced
    ordered = with_replacing_turns(ordered, by_turn, given.text, most=options.limit)
    found = replace(found, hits=_without_declarations(ordered, found, replaced))
    note_recalled(engine, found.hits)
    judged = Judgement.of(words, question, found)
    now = reach.now or engine.clock.now()
    explanations = Explanations(call, found) if options.explain else None
    notes = notes_of(call.tree, engine.ledger, found.hits)
    hits = tuple(
        show(
            hit,
            now=now,
            explanations=explanations,
            note=notes.get(hit.head.key, ""),
            weak=hit.head.key in judged.weak,
            replaced=replaced.get(place_of(hit)),
        )
        for hit in found.hits
    )
    if by_source:
        hits = tuple(_grouped(hits))[: options.limit]
    shown, left_out = _fit(hits, options.max_tokens)
    query = LineQuery(given.text)
    if options.lines:
        roles = {place_of(hit): hit.head.role for hit in found.hits}
        near = LineQuery(given.text, engine.quick if options.semantic else None)
        queries = chain([near] * _HITS_WITH_VECTORS, repeat(query))
        shown = tuple(_with_lines(hit, one, roles, options.lines) for hit, one in zip(shown, queries, strict=False))
    return SearchReport(
        verb="query",
        mode="search",
        scope=call.scope,
        status="ok" if hits else "empty",
        warnings=(
            *scope_warnings(call, options, (hit.state.scope for hit in found.hits)),
            *([] if judged.answers or not found.hits else [f"{_ONLY_NEAREST} {words.words.told()}".rstrip()]),
            *warnings_of(question),
            *reranking_warnings(found),
            *altered_warnings(found.altered),
        ),
        ids=tuple(dict.fromkeys(hit.object_id for hit in shown)),
        hits=shown,
        terms=tuple(sorted(query.terms)),
        understood=understood_days(question, now),
        empty=None if hits else why_empty(call, question, reach),
        left_out=left_out,
        as_of=answered_sequence(found, reach),
        answer=answer_name(call.scope, given.text),
        trace={**found.trace, **({"tuning": values_of(SEARCH_GROUPS)} if options.explain else {})},
    )


_Place = tuple[str, str]
"""An object and a segment of it, which is empty for the object as a whole."""


def place_of(hit: Hit) -> _Place:
    """Return the object of a hit, and the segment that it is."""
    return hit.head.object_id, hit.head.part


def _replaced(call: Call, found: Retrieval) -> dict[_Place, Replaced]:
    """Return the places of hits on which only superseded knowledge rests, with what it was superseded by.

    That may be many steps later. None for a read of the past, which shows all as it was.
    """
    outdated = {source for source, heads in found.resting.items() if any(one.status == "superseded" for one in heads)}
    places = {place_of(hit) for hit in found.hits if hit.head.object_id in outdated}
    resting = only_replaced(knowledge_on(call, sorted({source for source, _ in places}))) if places else {}
    older = {
        place: [one.id for one in held if one.status == "superseded"][-1]
        for place, held in resting.items()
        if place in places
    }
    newest = _newest(call, set(older.values())) if older else {}
    return {place: Replaced(newest.get(identity)) for place, identity in older.items()}


def _behind_current(
    call: Call, hits: Sequence[Hit], replaced: Mapping[_Place, Replaced], reach: Reach, *, most: int
) -> tuple[Hit, ...]:
    """Put a passage that only superseded knowledge rests on directly behind what superseded that.

    Where neither that knowledge nor what it rests on is among the hits it is looked up, and stands above the passage;
    hits past `most` give way to it.
    """
    current = {place: one.by for place, one in replaced.items() if one.by and one.by.status == "active"}
    if not current:
        return tuple(hits)
    told_by = _told_by(current.values())
    shown = {one for hit in hits for one in told_by.get(place_of(hit), ())}
    absent = [one for one in dict.fromkeys(item.id for item in current.values()) if one not in shown]
    looked_up = _look_up(call, absent, reach)
    waiting: dict[str, list[Hit]] = {}
    seen = set(absent) - looked_up.keys()  # what may not be shown here holds nothing back
    told: list[Hit] = []
    for hit in hits:
        place = place_of(hit)
        by = current[place].id if place in current else ""
        if by in looked_up and by not in seen:
            told.append(replace(looked_up[by], score=hit.score))
            seen.add(by)
        if by and by not in seen:
            waiting.setdefault(by, []).append(hit)
            continue
        told.append(hit)
        for one in told_by.get(place, ()):
            seen.add(one)
            told += (replace(late, score=min(late.score, hit.score)) for late in waiting.pop(one, ()))
    told += chain.from_iterable(waiting.values())
    return tuple(told[: max(most, len(hits))])


def turns_of(hits: Iterable[Hit]) -> list[FoundTurn]:
    """Return the turns of conversations among hits."""
    turns = (hit for hit in hits if isinstance(hit.locator, Turn))
    return [FoundTurn(place_of(hit), hit.head.scope, hit.head.origin) for hit in turns]


def with_replacing_turns(
    hits: Sequence[Hit], replaced: Mapping[_Place, ReplacingTurn], question: str, *, most: int
) -> tuple[Hit, ...]:
    """Return hits with each replaced turn directly behind the turn that replaced it; hits past `most` give way."""
    if not replaced:
        return tuple(hits)
    by_place = {by.place: by for by in replaced.values()}
    ordered = behind_replacements(
        hits,
        {place: by.place for place, by in replaced.items() if by.leads},
        key_of=place_of,
        look_up=lambda hit, place: _turn_hit(hit, by_place[place]),
        past=asks_about_past(question),
    )
    return tuple(ordered[: max(most, len(hits))])


def _turn_hit(hit: Hit, by: ReplacingTurn) -> Hit:
    """Return the hit of a turn that was not found itself, with the score of the turn that it replaced."""
    locator = Turn(turn=by.turn, speaker=by.speaker, at=by.at)
    head = replace(hit.head, key=-hit.head.key - 1, object_id=by.source_id, part=by.segment_id, heading=by.speaker)
    return replace(
        hit,
        head=head,
        text=by.text,
        locator=locator,
        source_id=by.source_id,
        segment=None,
        reply=None,
        fused=replace(hit.fused, key=head.key, parts={}),
    )


def _without_declarations(
    hits: Sequence[Hit], found: Retrieval, replaced: Mapping[_Place, Replaced]
) -> tuple[Hit, ...]:
    """Leave out the notes of declarations next to the statement that was made of them, or to what superseded it."""
    shown = {hit.head.object_id for hit in hits}

    def is_repeated(hit: Hit) -> bool:
        stated = {head.id for head in found.resting.get(hit.head.object_id, ())}
        later = replaced.get(place_of(hit))
        return is_declaration(hit.head.origin) and not shown.isdisjoint(
            stated | {later.by.id if later and later.by else ""}
        )

    return tuple(hit for hit in hits if not is_repeated(hit))


def knowledge_on(call: Call, sources: Iterable[str], altered: Altered | None = None) -> list[Knowledge]:
    """Read the knowledge that rests on some sources, whatever its status. What is damaged is noted in `altered`."""
    ids = tuple(dict.fromkeys(sources))
    if not ids:
        return []
    (read,) = call.engine.ledger.read([ObjectRequest(dependents=ids)])
    if altered is not None:
        altered |= read.altered
    named = (read.objects.get(identity) for source_id in ids for identity in read.dependents.get(source_id, ()))
    return list({item.id: item for item in named if isinstance(item, Knowledge)}.values())


def only_replaced(resting: Iterable[Knowledge]) -> dict[tuple[str, str], list[Knowledge]]:
    """Return what rests on a source and segment where all of it is superseded, by these; archived beside it is told."""
    held: dict[tuple[str, str], list[Knowledge]] = {}
    for item in resting:
        for ref in item.evidence_refs:
            held.setdefault((ref.source_id, ref.segment_id), []).append(item)
    return {
        place: items for place, items in held.items() if {one.status for one in items} - {"archived"} == {"superseded"}
    }


def _newest(call: Call, superseded: Set[str]) -> dict[str, Knowledge]:
    """Return, by id of superseded knowledge, the one at the end of what superseded it, where the call may read that."""
    later: dict[str, str] = {}
    items: dict[str, Knowledge] = {}
    asked, known = superseded, set[str]()
    while asked:
        known |= asked
        (read,) = call.engine.ledger.read([ObjectRequest(links=tuple(sorted(asked)), objects=tuple(sorted(asked)))])
        items |= {item.id: item for item in read.objects.values() if isinstance(item, Knowledge)}
        links = {link for identity in asked for link in read.links.get(identity, ()) if link.type == "supersedes"}
        later |= {link.target: link.source for link in links if link.target in asked}
        asked = set(later.values()) - known
    found = {}
    for identity in superseded:
        last = identity
        for _ in later:
            last = later.get(last, last)
        if last in items and last != identity:
            found[identity] = items[last]
    return found


def _told_by(current: Iterable[Knowledge]) -> dict[_Place, list[str]]:
    """Return by place, of knowledge or of a passage that it rests on, which of some knowledge is told there."""
    told: dict[_Place, list[str]] = {}
    for item in {one.id: one for one in current}.values():
        for place in ((item.id, ""), *((ref.source_id, ref.segment_id) for ref in item.evidence_refs)):
            told.setdefault(place, []).append(item.id)
    return told


def _look_up(call: Call, identities: Sequence[str], reach: Reach) -> dict[str, Hit]:
    """Return the hits of some knowledge by its id, where the read may show it."""
    engine = call.engine
    asked = [retrieval(question_of(call, one, semantic=False), reach=reach, limit=1) for one in identities]
    looked_up = run_together(asked, index=engine.index, ledger=engine.ledger) if asked else ()
    hits = (hit for found in looked_up for hit in found.hits[:1])
    return {hit.head.object_id: hit for hit in hits if hit.head.object_id in identities}


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
        first_line=hit.first_line,
        flags=hit.flags,
    )


def _with_lines(hit: ShownHit, query: LineQuery, roles: Mapping[_Place, str], most: int) -> ShownHit:
    """Choose the lines of a hit, and of the other passages of its source, that answer."""

    def chosen(text: str, segment: str) -> dict[str, Any]:
        nested = roles[hit.object_id, segment] in _NESTED
        answer = query.lines_of(text, most=most, nested=nested)
        return {"lines": answer.shown, "columns": answer.columns}

    more = tuple(one.model_copy(update=chosen(one.text, one.segment_id)) for one in hit.more)
    return hit.model_copy(update={**chosen(hit.text, hit.segment_id), "more": more})


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

_ONLY_NEAREST = "No result answers the question; these are the closest matches."

_HITS_WITH_VECTORS = 5
"""The first hits, whose lines are chosen by vectors, too. For all of ten hits that takes 1 ms more and shows as many
answers (`benchmarks agents`, lines)."""

_NESTED = ("code", "symbol", "data")
"""Roles of texts whose lines belong to a line above them: a signature, a key."""

_PASSAGES = 3
"""Passages shown of a source at most, where hits are grouped."""

SEARCH = Mode(
    name="search",
    summary="Ranked hits, with filters.",
    input=SearchInput,
    options=HitOptions,
    report=SearchReport,
    run=search,
    rights=READS,
)


# Warnings about stored texts that an answer shows: those shaped like instructions to a model.


_MOST = 20


def flagged(shown: Iterable[tuple[str, Any]]) -> tuple[str, ...]:
    """Return a warning for each id whose texts, however deep they stand in what is shown of it, are flagged.

    Search and context, which have a field for it, name the flags beside each hit.
    """
    found = ((identity, instruction_flags("\n".join(_texts(data)))) for identity, data in shown)
    told = [f"{identity}: text that looks like instructions: {', '.join(flags)}" for identity, flags in found if flags]
    return bounded(told, _MOST)


def _texts(data: Any) -> Iterator[str]:
    match data:
        case str():
            yield data
        case Mapping():
            for value in data.values():
                yield from _texts(value)
        case list() | tuple():
            for value in data:
                yield from _texts(value)
        case _:
            return
