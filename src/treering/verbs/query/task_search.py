"""The searches for a task: sources and knowledge, withdrawn knowledge about it, nodes, code and words that it names."""

from collections.abc import Mapping, Sequence
from dataclasses import replace
from math import ceil

from treering.core.filters import And, Compare
from treering.core.objects import Knowledge, Object, title_of
from treering.ports.ledger import Altered, ObjectRequest, ObjectsFound
from treering.ports.passages import PassageRequest, PassagesFound, Reach
from treering.ports.search import TextFound, TextRequest
from treering.retrieval import limits
from treering.retrieval.index.passages import passages_of
from treering.retrieval.index.rounds import Steps, run_together
from treering.retrieval.packing.task_results import TaskResults, Withdrawn, mentions_name
from treering.retrieval.search.adjustment import Adjusting
from treering.retrieval.search.commit_history import histories_in
from treering.retrieval.search.known_words import known_words
from treering.retrieval.search.named_code import named_definitions
from treering.retrieval.search.question import Question
from treering.retrieval.search.relevance import Judgement
from treering.retrieval.search.replaced import latest_successors
from treering.retrieval.search.reranking import Reranking
from treering.retrieval.search.retrieval import retrieval
from treering.retrieval.text.analysis import index_text
from treering.retrieval.text.typed_words import names_written
from treering.retrieval.tuning import TUNING
from treering.verbs.envelope import Call
from treering.verbs.query.attached import attached_to, named_objects
from treering.verbs.reading import note_recalled
from treering.verbs.trees import hits_here

_WITHDRAWN = ("stale", "superseded")


def search_for_task(
    call: Call,
    question: Question,
    reach: Reach,
    *,
    deep: bool,
    reranking: Reranking | None,
    adjusting: Adjusting | None = None,
    ids: Sequence[str] = (),
) -> TaskResults:
    """Run all searches together, so that a remote store gets few requests. `ids`: objects that the task is.

    Only sources are reranked: nothing else is a turn of a conversation.
    """
    altered = Altered()
    of_sources = _only(reach, ("source",))
    of_beliefs = _only(reach, ("knowledge", "activity", "work_item"))
    sources, beliefs, withdrawn, known, named, histories, definitions = run_together(
        [
            retrieval(
                question,
                reach=of_sources,
                limit=limits.MAX_SOURCE_HITS,
                deep=deep,
                reranking=reranking,
                adjusting=adjusting,
                further=limits.MAX_FURTHER_FILES,
            ),
            retrieval(question, reach=of_beliefs, limit=limits.MAX_KNOWLEDGE_HITS, deep=deep, adjusting=adjusting),
            _withdrawn(question, reach, altered),
            known_words(question, reach),
            named_objects(question, reach, altered, ids=ids),
            histories_in(reach),
            named_definitions(question, of_sources),
        ],
        index=call.engine.index,
        ledger=call.engine.ledger,
    )
    sources = replace(sources, hits=hits_here(call.tree, sources.hits), further=hits_here(call.tree, sources.further))
    note_recalled(call.engine, (*sources.hits, *beliefs.hits))
    expired = [
        Withdrawn(item.id, title_of(item), "over")
        for item in beliefs.over
        if isinstance(item, Knowledge) and _is_about(item, question)
    ]
    names = frozenset(names_written(question.text))
    attached = attached_to(call.engine.ledger, named, reach, altered)
    is_named = (
        definitions
        or any(one.is_recorded for one in attached)
        or any(mentions_name(hit, names) for hit in beliefs.hits)
    )
    return TaskResults(
        question=question,
        sources=sources,
        beliefs=beliefs,
        withdrawn=(*withdrawn, *expired),
        known=known,
        attached=tuple(attached),
        histories=tuple(histories),
        altered={**sources.altered, **beliefs.altered, **altered},
        judgement=Judgement.of(known, question, sources, beliefs, answered=bool(is_named)),
        definitions=hits_here(call.tree, definitions),
    )


def _only(reach: Reach, types: tuple[str, ...]) -> Reach:
    return replace(reach, where=And((reach.where, Compare("type", "in", types))))


def _withdrawn(question: Question, reach: Reach, altered: Altered) -> Steps[list[Withdrawn]]:
    """Find withdrawn knowledge about the question; none for a read that shows it or is of the past."""
    if reach.withdrawn or reach.at is not None:
        return []
    where = And((Compare("type", "eq", "knowledge"), Compare("status", "in", _WITHDRAWN)))
    words = (*question.terms.words, *question.terms.phrases)
    hits: TextFound = yield TextRequest(
        replace(reach, where=where, withdrawn=True), limits.MAX_WITHDRAWN_HITS, words=words
    )
    if not hits.words:
        return []
    passages: PassagesFound = yield PassageRequest(tuple(hit.key for hit in hits.words))
    ids = [passages.heads[hit.key].object_id for hit in hits.words if hit.key in passages.heads]
    read: ObjectsFound = yield ObjectRequest(objects=tuple(ids))
    altered |= read.altered
    items = [read.objects[identity] for identity in ids if identity in read.objects]
    about = [item for item in items if _is_about(item, question)]
    successors: Mapping[str, str] = yield from latest_successors(
        {item.id for item in about if item.status == "superseded"}
    )
    return [Withdrawn(item.id, title_of(item), item.status, successors.get(item.id, "")) for item in about]


def _is_about(item: Object, question: Question) -> bool:
    """Return whether an object shares more than a chance word with a question."""
    terms = set(question.terms.words)
    shared = terms.intersection(index_text(f"{title_of(item)} {passages_of(item)[0].text}").split())
    return len(shared) >= min(TUNING.context.min_shared_words, ceil(len(terms) / 2))
