"""What is found for a task: sources and knowledge that answer, what had to be withdrawn, and unknown words."""

from collections.abc import Mapping
from dataclasses import dataclass, replace
from functools import cached_property
from math import ceil

from treering.core.filters import And, Compare, Filter
from treering.core.objects import Knowledge, Node, Object, title_of
from treering.ports.ledger import Altered, ObjectRequest, ObjectsFound
from treering.ports.passages import PassageRequest, PassagesFound, Reach
from treering.ports.search import TextFound, TextRequest
from treering.retrieval.index.passages import passages_of
from treering.retrieval.index.rounds import Steps, run_together
from treering.retrieval.search.commit_history import CommitHistory, histories_in
from treering.retrieval.search.question import Question
from treering.retrieval.search.relevance import (
    FITTED_FROM,
    MOST_CHECKED,
    KnownWords,
    answers,
    known_words,
    weak_among,
)
from treering.retrieval.search.reranking import Reranking
from treering.retrieval.search.retrieval import Adjusting, Retrieval, retrieval
from treering.retrieval.text.analysis import index_text
from treering.verbs.envelope import Call
from treering.verbs.query.attached import named_nodes
from treering.verbs.reading import note_recalled

_SOURCES = 40
_BELIEFS = 16
_FURTHER = 12
"""Further files whose best passages are read: 24 found as much."""

_WITHDRAWN = ("stale", "superseded")
_MOST_WITHDRAWN = 8
_SHARED = 2
"""Words withdrawn knowledge has to share with a task to be warned of."""


@dataclass(frozen=True)
class FoundForTask:
    """What was found for a task, each by a search of its own."""

    question: Question
    sources: Retrieval
    beliefs: Retrieval
    withdrawn: tuple[tuple[str, str, str], ...]
    """Id, title and status of knowledge that is withdrawn or over, and shares more than a chance word with the task."""
    known: KnownWords
    """Which words of the task occur here."""
    nodes: tuple[Node, ...]
    """Nodes that the task names."""
    histories: tuple[CommitHistory, ...]
    """What commits of the repositories in reach say of their files."""
    altered: Mapping[str, str]
    weak: frozenset[int]
    """Keys of the hits that have much less to do with the task than the best of them."""

    @property
    def strong_alone(self) -> bool:
        """Tell whether weak hits are left out: in a small space, where every passage that is left is a candidate.

        In a large one they are flagged: without them packs of 4,000 tokens lose 2 % of the evidence (MuSiQue).
        """
        return 0 < self.known.idf.largeness < FITTED_FROM

    @cached_property
    def answers(self) -> bool:
        """Tell whether anything found is relevant to the task; `True` where that cannot be decided.

        A lookup asks for a place and not for an answer. Of the past and of what an index that lags does not know
        yet, nobody can say what words it has.
        """
        hits = (*self.sources.hits[:MOST_CHECKED], *self.beliefs.hits[:MOST_CHECKED])
        return bool(self.nodes) or answers(self.known, self.question, self.sources, hits)


def gather(
    call: Call,
    question: Question,
    reach: Reach,
    *,
    deep: bool,
    reranking: Reranking | None,
    adjusting: Adjusting | None = None,
) -> FoundForTask:
    """Search for everything at once, so that a store in another place is asked few questions.

    Only sources are read again: nothing else is a turn of a conversation.
    """
    altered = Altered()
    of_sources = _only(reach, ("source",))
    of_beliefs = _only(reach, ("knowledge", "activity", "work_item"))
    sources, beliefs, withdrawn, known, nodes, histories = run_together(
        [
            retrieval(
                question,
                reach=of_sources,
                limit=_SOURCES,
                deep=deep,
                reranking=reranking,
                adjusting=adjusting,
                further=_FURTHER,
            ),
            retrieval(question, reach=of_beliefs, limit=_BELIEFS, deep=deep, adjusting=adjusting),
            _withdrawn(question, reach, altered),
            known_words(question, reach),
            named_nodes(question, reach, altered),
            histories_in(reach),
        ],
        index=call.engine.index,
        ledger=call.engine.ledger,
    )
    note_recalled(call.engine, (*sources.hits, *beliefs.hits))
    over = [(item.id, title_of(item), "over") for item in beliefs.over if _is_expired(item, question)]
    weak = weak_among(sources) | weak_among(beliefs)
    return FoundForTask(
        question, sources, beliefs, (*withdrawn, *over), known, tuple(nodes), tuple(histories), altered, weak
    )


def _only(reach: Reach, types: tuple[str, ...]) -> Reach:
    return replace(reach, where=And((reach.where, Compare("type", "in", types))))


def _withdrawn(question: Question, reach: Reach, altered: Altered) -> Steps[list[tuple[str, str, str]]]:
    """Find withdrawn knowledge that shares more than a chance word with the task."""
    if reach.withdrawn or reach.at is not None:
        return []
    gone: Filter = And((Compare("type", "eq", "knowledge"), Compare("status", "in", _WITHDRAWN)))
    words = (*question.terms.words, *question.terms.phrases)
    hits: TextFound = yield TextRequest(replace(reach, where=gone, withdrawn=True), _MOST_WITHDRAWN, words=words)
    if not hits.words:
        return []
    found: PassagesFound = yield PassageRequest(tuple(hit.key for hit in hits.words))
    ids = [found.heads[hit.key].object_id for hit in hits.words if hit.key in found.heads]
    read: ObjectsFound = yield ObjectRequest(objects=tuple(ids))
    altered |= read.altered
    items = [read.objects[identity] for identity in ids if identity in read.objects]
    return [(item.id, title_of(item), item.status) for item in items if _is_about(item, question)]


def _is_expired(item: Object, question: Question) -> bool:
    return isinstance(item, Knowledge) and _is_about(item, question)


def _is_about(item: Object, question: Question) -> bool:
    """Tell whether an object shares more than a chance word with a question."""
    asked = set(question.terms.words)
    words = set(index_text(f"{title_of(item)} {passages_of(item)[0].text}").split())
    return len(asked & words) >= min(_SHARED, ceil(len(asked) / 2))
