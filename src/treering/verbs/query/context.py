"""`query` in mode `context`: knowledge, decisions, constraints, work and passages for a task."""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace
from datetime import timedelta
from typing import Any, ClassVar

from pydantic import Field

from treering.core.objects import Object, Source, WorkItem, title_of
from treering.ports.ledger import Altered
from treering.ports.passages import Reach
from treering.ports.runtime import fresh_id
from treering.retrieval.packing.choosing import belief_items, candidates_of, combined, passage_items, passage_order
from treering.retrieval.packing.fitting import fit
from treering.retrieval.packing.items import with_line, without_lines
from treering.retrieval.packing.notes import PackNotes, conflict_notes, rule_lines
from treering.retrieval.packing.task_results import TaskResults
from treering.retrieval.search.pack_budget import Packed, UnnumberedItem, name_nearest, pack
from treering.retrieval.search.packing import ConflictNote, ContextPack
from treering.retrieval.search.retrieval import Hit
from treering.retrieval.tuning import PACK_GROUPS, values_of
from treering.verbs.envelope import READS, AskingInput, Call, Mode
from treering.verbs.feedback import answer_name, feedback_for
from treering.verbs.query.brief import commands_asked_for, commits_asked_for
from treering.verbs.query.code_links import code_links
from treering.verbs.query.referring import knowledge_on
from treering.verbs.query.superseded_hits import (
    CurrentHits,
    current_first,
    notes_of_replaced_records,
    place_of_hit,
)
from treering.verbs.query.task_reading import (
    active_constraints,
    contested_knowledge,
    notes_on,
    read_citing,
)
from treering.verbs.query.task_search import search_for_task
from treering.verbs.read_reports import (
    Empty,
    ReadReport,
    altered_warnings,
    answered_sequence,
    below_warning,
    lag_warning,
    reranking_warnings,
    scope_warnings,
    understood_days,
    warnings_of,
    why_empty,
    why_words_are_below,
    with_words_below,
    with_words_elsewhere,
)
from treering.verbs.reading import Asked, SearchOptions, object_with_id, question_of, reach_of, reranking_of, zone_of
from treering.verbs.shown_hits import Explanations
from treering.verbs.trees import REPLACED, is_elsewhere, maps_of, notes_of
from treering.verbs.work_order import named_work, unfinished_before

_LIFETIME = timedelta(hours=1)
_DEFAULT_TOKENS = 4_000

_NOT_MENTIONED = (
    "The key words of the task do not occur here, or do not occur together. Use names that occur "
    "here, or add sources that mention it."
)


class ContextInput(AskingInput):
    """The task."""

    TEXT: ClassVar[str] = "task"

    task: Asked = Field(description="The current task, as you would describe it to a colleague.")


class ContextReport(ReadReport):
    """A context pack, as values and as Markdown with recalled text fenced as data."""

    pack: ContextPack
    text: str

    @property
    def further_warnings(self) -> tuple[str, ...]:
        """The warnings that the pack does not contain."""
        return tuple(one for one in self.warnings if one not in self.pack.missing_context)

    def named(self) -> Iterable[tuple[str, str, str]]:
        """Return the places that it cites."""
        return ((one.origin, one.object_id, one.segment_id or "") for one in self.pack.citations)

    def numbered_places(self) -> Mapping[int, str]:
        """Return the cited places by their marks."""
        cited = self.pack.citations
        return {int(one.mark.strip("[]")): f"{one.object_id} {one.segment_id}".strip() for one in cited}


def context(call: Call, given: ContextInput, options: SearchOptions) -> ContextReport:
    """Search for a task, read related knowledge, choose the items, and fit them into the token budget."""
    reach = reach_of(call, options)
    named = _object_of_task(call, given.task, reach)
    text = _in_words(named) if named else given.task
    question = question_of(call, text, semantic=options.semantic, zone=zone_of(call, options))
    results = search_for_task(
        call,
        question,
        reach,
        deep=options.deep,
        reranking=reranking_of(call, options),
        adjusting=feedback_for(call, given.task) if options.as_of is None else None,
        ids=(named.id,) if named else (),
    )
    if not results.answers:
        words = with_words_below(call, question, reach, results.known.words)
        words = with_words_elsewhere(call, question, reach, words)
        results = replace(results, known=replace(results.known, words=words))
    altered: Altered = dict(results.altered)
    tree_notes = notes_of(call.tree, call.engine.ledger, (*results.definitions, *results.files))
    max_tokens = options.max_tokens or _DEFAULT_TOKENS
    rules = rule_lines(active_constraints(call, reach, altered), reach)
    current = current_first(call, passage_order(results), results.question, reach)
    items = _items(call, results, current, tree_notes, reach, altered)
    packed = pack(items, max_tokens=max_tokens) if results.answers else name_nearest(items)
    finder = code_links()
    names_files = not results.answers or (packed.drafts and not results.sources.unrelated)
    notes = PackNotes(
        results,
        files=[hit for hit in results.files if names_files and hit.head.key not in tree_notes],
        rules=rules,
        warnings=lag_warning(question.lag),
        conflicts=_conflicts(call, packed, reach, altered),
        commands=commands_asked_for(call, question, options),
        users=finder.lines_about_callers(call, _shown(packed, results), reach) if finder else {},
        projects=_project_names(call),
    )
    sequence = answered_sequence(results.sources, reach)
    built, text, left_out = fit(_empty_pack(call, given, sequence), packed, items, notes, max_tokens=max_tokens)
    if options.explain:
        explained = {"hits": _explained(call, results), "tuning": values_of(PACK_GROUPS)}
        built = built.model_copy(update={"trace": {**built.trace, **explained}})
    is_empty = not built.items
    return ContextReport(
        verb="query",
        mode="context",
        scope=call.scope,
        status="empty" if is_empty else "ok",
        warnings=(
            *scope_warnings(call, options, (hit.state.scope for hit in (*results.sources.hits, *results.beliefs.hits))),
            *below_warning(call, question, reach),
            *warnings_of(question),
            *reranking_warnings(results.sources),
            *altered_warnings(altered),
            *current.warnings,
        ),
        ids=(built.id, *dict.fromkeys(item.object_id for item in built.items)),
        pack=built,
        text=text,
        latest_commits=commits_asked_for(call, question, options),
        understood=understood_days(question, built.generated_at),
        empty=_why_empty(call, results, reach, len(left_out) if results.answers else 0) if is_empty else None,
        left_out=left_out,
        as_of=sequence,
        answer=answer_name(call.scope, given.task),
        trace={"sources": dict(results.sources.trace), "beliefs": dict(results.beliefs.trace)},
    )


def _object_of_task(call: Call, task: str, reach: Reach) -> Object | None:
    """Return the object whose id a task is; `None` for a source, whose passages are found by their place."""
    item = object_with_id(call, task, reach)
    return None if isinstance(item, Source) else item


def _in_words(item: Object) -> str:
    return ". ".join(filter(None, (title_of(item), *getattr(item, "summary", "").splitlines()[:1])))


def _items(
    call: Call,
    results: TaskResults,
    current: CurrentHits,
    tree_notes: Mapping[int, str],
    reach: Reach,
    altered: Altered,
) -> list[UnnumberedItem]:
    """Return the items that may be packed, best first: knowledge and work, then passages of sources."""
    replaced = current.replaced
    marks = {hit.head.key: replaced[place].note for hit in current.hits if (place := place_of_hit(hit)) in replaced}
    passages = passage_items(results, current.hits, {**tree_notes, **marks})
    if not results.answers:
        return passages
    cited = [hit.head.object_id for hit in results.passages if hit.head.object_id in results.sources.resting]
    resting = knowledge_on(call, cited, altered)
    candidates = candidates_of(results, resting, reach)
    citing = read_citing(call, candidates.items, reach, altered)
    noted = notes_on(call, candidates.items)
    replaced_here = {one for one, note in noted.items() if note.startswith(REPLACED) and not reach.withdrawn}
    notes = {**noted, **notes_of_replaced_records(candidates.items, replaced)}
    beliefs = belief_items(results, candidates, citing, notes, reach, only=not passages)
    waiting = unfinished_before(
        call.engine.ledger, [item for item in candidates.items if isinstance(item, WorkItem)], as_of=reach.at
    )
    beliefs = [
        with_line(one, f"Waits for: {named_work(before)}") if (before := waiting.get(one.item.object_id)) else one
        for one in beliefs
        if one.item.object_id not in replaced_here
    ]
    beliefs = _in_force_first(beliefs, notes)
    return combined(beliefs, passages, resting, results.question, reach)


def _in_force_first(beliefs: Sequence[UnnumberedItem], notes: Mapping[str, str]) -> list[UnnumberedItem]:
    """Put knowledge of other branches last, and cite files without lines for it: here the lines have another text."""
    elsewhere = {one for one, note in notes.items() if is_elsewhere(note)}
    here = [one for one in beliefs if one.item.object_id not in elsewhere]
    return [*here, *(without_lines(one) for one in beliefs if one.item.object_id in elsewhere)]


def _conflicts(call: Call, packed: Packed, reach: Reach, altered: Altered) -> tuple[ConflictNote, ...]:
    contested = {item.object_id for item in packed.unnumbered if item.status == "contested"}
    return conflict_notes(contested_knowledge(call, reach, altered), contested, reach) if contested else ()


def _shown(packed: Packed, results: TaskResults) -> list[Hit]:
    places = {(item.object_id, item.segment_id) for item in packed.unnumbered}
    hits = {hit.head.key: hit for hit in (*results.definitions, *results.sources.hits)}
    return [hit for hit in hits.values() if (hit.head.object_id, hit.head.part) in places]


def _project_names(call: Call) -> frozenset[str]:
    """Return the names of the repositories in reach, in lower case."""
    cards = (one.payload.get("card", {}) for one in maps_of(call.engine, call.scope))
    return frozenset(card["name"].casefold() for card in cards if card.get("name"))


def _empty_pack(call: Call, given: ContextInput, sequence: int) -> ContextPack:
    now = call.engine.clock.now()
    return ContextPack(
        id=fresh_id("context_pack", call.engine.clock),
        task=given.task,
        summary="",
        scope=call.scope,
        items=(),
        generated_at=now,
        expires_at=now + _LIFETIME,
        budget={},
        trace={"as_of": sequence},
    )


def _explained(call: Call, results: TaskResults) -> dict[str, dict[str, Any]]:
    """Return by object and segment of a hit how it was found."""
    return {
        f"{hit.head.object_id} {hit.head.part}".strip(): explanations.of(hit)
        for each in (results.sources, results.beliefs)
        for explanations in [Explanations(call, each)]
        for hit in each.hits
    }


def _why_empty(call: Call, results: TaskResults, reach: Reach, left_out: int) -> Empty:
    if left_out:
        return Empty(reason="filtered_out", count=left_out, hint="Nothing fits into max_tokens. Give a larger number.")
    if results.answers or not results.question.lag.total:
        return why_empty(call, results.question, reach)
    words = results.known.words
    if empty := why_words_are_below(call, results.question, reach, words):
        return empty
    hint = " ".join(filter(None, (words.told(), _NOT_MENTIONED)))
    return Empty(reason="unknown_entity", hint=hint)


CONTEXT = Mode.of(
    "context",
    "A cited context pack for a task: beliefs, decisions, constraints, completed and open work.",
    context,
    rights=READS,
)
