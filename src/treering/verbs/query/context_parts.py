"""What is found for a task: sources and knowledge that answer, what had to be withdrawn, and unknown words."""

from collections.abc import Mapping, Sequence, Set
from dataclasses import dataclass, replace
from math import ceil

from treering.core.filters import And, Compare, Filter
from treering.core.objects import Fact, Knowledge, Node, Object, title_of
from treering.ports.ledger import Altered, ObjectRequest, ObjectsFound
from treering.ports.passages import PassageRequest, PassagesFound, Reach
from treering.ports.search import TextFound, TextRequest
from treering.retrieval import limits
from treering.retrieval.index.passages import passages_of
from treering.retrieval.index.rounds import Steps, run_together
from treering.retrieval.search.commit_history import CommitHistory, histories_in
from treering.retrieval.search.known_words import KnownWords, known_words
from treering.retrieval.search.named_code import named_definitions
from treering.retrieval.search.question import Question
from treering.retrieval.search.relevance import Judgement
from treering.retrieval.search.reranking import Reranking
from treering.retrieval.search.retrieval import Adjusting, Hit, Retrieval, retrieval
from treering.retrieval.text.analysis import index_text, telling_terms
from treering.retrieval.text.typed_words import names_written
from treering.retrieval.tuning import TUNING
from treering.verbs.envelope import Call
from treering.verbs.query.attached import named_nodes
from treering.verbs.reading import note_recalled

_WITHDRAWN = ("stale", "superseded")


COPIED = "adapter"
"""The channel of what an adapter copied from a source."""


@dataclass(frozen=True, slots=True)
class Withdrawn:
    """Knowledge that is withdrawn or over, and shares more than a chance word with the task."""

    id: str
    title: str
    status: str
    successor: str = ""
    """The id of the knowledge at the end of what superseded it; empty if there is none."""


@dataclass(frozen=True)
class FoundForTask:
    """What was found for a task, each by a search of its own."""

    question: Question
    sources: Retrieval
    beliefs: Retrieval
    withdrawn: tuple[Withdrawn, ...]
    known: KnownWords
    """Which words of the task occur here."""
    nodes: tuple[Node, ...]
    """Nodes that the task names."""
    histories: tuple[CommitHistory, ...]
    """What commits of the repositories in reach say of their files."""
    altered: Mapping[str, str]
    judgement: Judgement
    definitions: tuple[Hit, ...] = ()
    """The passages that define what the task names."""

    @property
    def answers(self) -> bool:
        """Whether anything found is relevant to the task; `True` if that cannot be decided."""
        return self.judgement.answers

    @property
    def passages(self) -> list[Hit]:
        """The passages of sources that may be packed.

        Weak ones are left out of a small space, where every passage is a candidate. In a large one they are flagged:
        without them packs of 4,000 tokens lose 2 % of the evidence (MuSiQue).
        """
        hits = (*self.sources.hits, *self.sources.further)
        return self._not_weak(hits) if self.answers and self.known.idf.is_small else list(hits)

    @property
    def about_task(self) -> list[Hit]:
        """The knowledge, work and activities that are about the task, such as statements about a name in it.

        Of what adapters copied from manifests, only what is about a subject that the task names, if it names one: the
        version of acme is asked for, not the versions of its parts.
        """
        names = frozenset(names_written(self.question.text))
        strong = {hit.head.key for hit in self._not_weak(self.beliefs.hits)}
        hits = [hit for hit in self.beliefs.hits if hit.head.key in strong or _states_something_of(hit, names)]
        asked = frozenset(self.question.terms.words)
        named = {hit.head.key for hit in hits if (subject := _copied_subject(hit)) and subject <= asked}
        return [hit for hit in hits if not named or hit.head.key in named or not _copied_subject(hit)]

    def _not_weak(self, hits: Sequence[Hit]) -> list[Hit]:
        return [hit for hit in hits if hit.head.key not in self.judgement.weak]


def _states_something_of(hit: Hit, names: Set[str]) -> bool:
    """Return whether a hit is a statement, not copied by an adapter, that mentions a name in the task."""
    if not names or not isinstance(hit.item, Knowledge) or hit.state.origin_channel == COPIED:
        return False
    return not names.isdisjoint(index_text(f"{hit.head.title}\n{hit.text}").split())


def _copied_subject(hit: Hit) -> frozenset[str]:
    """Return the terms of the subject of a fact that an adapter copied from a source; none of another hit."""
    payload = hit.item.payload if isinstance(hit.item, Knowledge) else None
    if hit.state.origin_channel != COPIED or not isinstance(payload, Fact):
        return frozenset()
    return frozenset(telling_terms(payload.subject))


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
    sources, beliefs, withdrawn, known, nodes, histories, definitions = run_together(
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
            named_nodes(question, reach, altered),
            histories_in(reach),
            named_definitions(question, of_sources),
        ],
        index=call.engine.index,
        ledger=call.engine.ledger,
    )
    note_recalled(call.engine, (*sources.hits, *beliefs.hits))
    over = [Withdrawn(item.id, title_of(item), "over") for item in beliefs.over if _is_expired(item, question)]
    names = frozenset(names_written(question.text))
    stated = any(_states_something_of(hit, names) for hit in beliefs.hits)
    judgement = Judgement.of(known, question, sources, beliefs, answered=bool(nodes or definitions or stated))
    return FoundForTask(
        question,
        sources,
        beliefs,
        (*withdrawn, *over),
        known,
        tuple(nodes),
        tuple(histories),
        altered,
        judgement,
        tuple(definitions),
    )


def _only(reach: Reach, types: tuple[str, ...]) -> Reach:
    return replace(reach, where=And((reach.where, Compare("type", "in", types))))


def _withdrawn(question: Question, reach: Reach, altered: Altered) -> Steps[list[Withdrawn]]:
    """Find withdrawn knowledge that shares more than a chance word with the task."""
    if reach.withdrawn or reach.at is not None:
        return []
    gone: Filter = And((Compare("type", "eq", "knowledge"), Compare("status", "in", _WITHDRAWN)))
    words = (*question.terms.words, *question.terms.phrases)
    hits: TextFound = yield TextRequest(
        replace(reach, where=gone, withdrawn=True), limits.MAX_WITHDRAWN_HITS, words=words
    )
    if not hits.words:
        return []
    found: PassagesFound = yield PassageRequest(tuple(hit.key for hit in hits.words))
    ids = [found.heads[hit.key].object_id for hit in hits.words if hit.key in found.heads]
    read: ObjectsFound = yield ObjectRequest(objects=tuple(ids))
    altered |= read.altered
    items = [read.objects[identity] for identity in ids if identity in read.objects]
    about = [item for item in items if _is_about(item, question)]
    successors = yield from _successors({item.id for item in about if item.status == "superseded"})
    return [Withdrawn(item.id, title_of(item), item.status, successors.get(item.id, "")) for item in about]


def _successors(superseded: Set[str]) -> Steps[dict[str, str]]:
    """Return, by id of superseded knowledge, the last of the statements that superseded it."""
    later: dict[str, str] = {}
    pending: Set[str] = superseded
    while pending:
        found: ObjectsFound = yield ObjectRequest(links=tuple(sorted(pending)))
        links = (link for identity in pending for link in found.links.get(identity, ()) if link.type == "supersedes")
        new = {link.target: link.source for link in links if link.target in pending}
        later |= new
        pending = set(new.values()) - later.keys()
    last = dict(later)
    for identity in superseded & later.keys():
        for _ in later:
            last[identity] = later.get(last[identity], last[identity])
    return last


def _is_expired(item: Object, question: Question) -> bool:
    return isinstance(item, Knowledge) and _is_about(item, question)


def _is_about(item: Object, question: Question) -> bool:
    """Tell whether an object shares more than a chance word with a question."""
    asked = set(question.terms.words)
    words = set(index_text(f"{title_of(item)} {passages_of(item)[0].text}").split())
    return len(asked & words) >= min(TUNING.context.min_shared_words, ceil(len(asked) / 2))
