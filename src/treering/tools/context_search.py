"""What is found for a task: sources and beliefs that answer, what had to be withdrawn, and what nothing speaks of."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from math import ceil

from treering.core.filters import And, Compare, Filter
from treering.core.objects import Knowledge, Node, Object, title_of
from treering.derived.analysis import index_text
from treering.derived.gaps import WordsKnown, names_in, unknown_among, words_in
from treering.derived.passages import passages_of
from treering.derived.question import Question
from treering.derived.reranking import Rereading
from treering.derived.retrieval import Hit, Retrieval, retrieval
from treering.derived.rounds import Steps, run_together
from treering.derived.speaking import Telling, speaks_of
from treering.ports.ledger import Altered, ObjectRequest, ObjectsFound
from treering.ports.passages import PassageRequest, PassagesFound
from treering.ports.reach import Reach
from treering.ports.text import TextFound, TextRequest
from treering.tools.attached import named_nodes
from treering.tools.envelope import Call

_SOURCES = 40
_BELIEFS = 16
SPEAKING = 10
"""Best hits that are asked whether they speak of the task."""

_WITHDRAWN = ("stale", "superseded")
_MOST_WITHDRAWN = 8
_SHARED = 2
"""Words withdrawn knowledge has to share with a task to be warned of."""


@dataclass(frozen=True, slots=True)
class KnownWords:
    """Which words of a task occur in the scopes of a read; empty for a read of the past."""

    missing: tuple[str, ...] = ()
    """Names in the task that nothing here mentions."""
    words: WordsKnown = field(default_factory=WordsKnown)
    telling: Telling = field(default_factory=Telling)


@dataclass(frozen=True, slots=True)
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
    altered: Mapping[str, str]

    @property
    def answers(self) -> bool:
        """Tell whether anything found speaks of the task; where that cannot be told it is taken to.

        A lookup asks for a place and not for an answer. Of the past and of what an index that lags does not know
        yet, nobody can say what words it has.
        """
        hits = (*self.sources.hits[:SPEAKING], *self.beliefs.hits[:SPEAKING])
        return bool(self.nodes) or answers(self.known, self.question, self.sources, hits)


def answers(known: KnownWords, question: Question, found: Retrieval, hits: Sequence[Hit]) -> bool:
    """Tell whether any of the best hits speaks of a question; `True` where that cannot be told, or it is a lookup."""
    if found.trace["route"] == "lookup" or not known.telling.weights or question.lag.behind:
        return True
    return speaks_of(known.telling, question, hits)


def gather(call: Call, question: Question, reach: Reach, *, deep: bool, rereading: Rereading | None) -> FoundForTask:
    """Search for everything at once, so that a store in another place is asked few questions.

    Only sources are read again: nothing else is a turn of a conversation.
    """
    altered = Altered()
    of_sources = _only(reach, ("source",))
    of_beliefs = _only(reach, ("knowledge", "activity", "work_item"))
    sources, beliefs, withdrawn, known, nodes = run_together(
        [
            retrieval(question, reach=of_sources, limit=_SOURCES, deep=deep, rereading=rereading),
            retrieval(question, reach=of_beliefs, limit=_BELIEFS, deep=deep),
            _withdrawn(question, reach, altered),
            known_words(question, reach),
            named_nodes(question, reach, altered),
        ],
        index=call.engine.index,
        ledger=call.engine.ledger,
    )
    over = [(item.id, title_of(item), "over") for item in beliefs.over if _is_expired(item, question)]
    return FoundForTask(question, sources, beliefs, (*withdrawn, *over), known, tuple(nodes), altered)


def _only(reach: Reach, types: tuple[str, ...]) -> Reach:
    return replace(reach, where=And((reach.where, Compare("type", "in", types))))


def known_words(question: Question, reach: Reach) -> Steps[KnownWords]:
    """Count the words of a task in the scopes of the read."""
    if reach.at is not None:
        return KnownWords()  # which words occurred at that time is not kept
    names, words = names_in(question.text), words_in(question.text)
    terms = {term for each in (names, words) for terms in each.values() for term in terms}
    found: TextFound = yield TextRequest(reach, 0, counted=tuple(sorted(terms.union(question.terms.words))))
    return KnownWords(
        tuple(unknown_among(names, found.counts)),
        WordsKnown.of(words, found.counts),
        Telling.of(question.terms.words, found),
    )


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
