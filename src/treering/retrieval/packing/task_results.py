"""The results of the searches for a task, and which of them are about it."""

from collections.abc import Mapping, Sequence, Set
from dataclasses import dataclass

from treering.core.objects import Fact, Knowledge, Object
from treering.retrieval.index.code_places import CODE
from treering.retrieval.search.commit_history import CommitHistory
from treering.retrieval.search.known_words import KnownWords
from treering.retrieval.search.question import Question, asks
from treering.retrieval.search.relevance import Judgement
from treering.retrieval.search.retrieval import Hit, Retrieval
from treering.retrieval.text.analysis import index_text, telling_terms
from treering.retrieval.text.typed_words import names_written
from treering.retrieval.tuning import TUNING

COPIED = "adapter"
"""The channel of facts that an adapter copied from a source, such as a manifest."""


@dataclass(frozen=True, slots=True)
class Withdrawn:
    """Knowledge that is withdrawn or expired, and shares more than a chance word with the task."""

    id: str
    title: str
    status: str
    successor: str = ""
    """The id of its latest replacement; empty if there is none."""


@dataclass(frozen=True, slots=True)
class Attached:
    """The objects attached to a node or work item that a task names."""

    named: Object
    items: Sequence[Object]
    """The most important first: constraints, open work, knowledge, completed work."""
    left_out: int = 0

    @property
    def is_recorded(self) -> bool:
        """Whether the node or one of the objects was recorded, and not copied by an adapter."""
        return any(one.origin_channel != COPIED for one in (self.named, *self.items))


@dataclass(frozen=True)
class TaskResults:
    """The results of the searches for a task."""

    question: Question
    sources: Retrieval
    beliefs: Retrieval
    """Knowledge, work and activities."""
    withdrawn: tuple[Withdrawn, ...]
    known: KnownWords
    """The words of the task that occur here."""
    attached: tuple[Attached, ...]
    """The nodes and work that the task names, with their objects."""
    histories: tuple[CommitHistory, ...]
    """The commits of the repositories in reach."""
    altered: Mapping[str, str]
    judgement: Judgement
    definitions: tuple[Hit, ...] = ()
    """The passages that define the names in the task."""

    @property
    def answers(self) -> bool:
        """Whether any result is relevant to the task; `True` if that cannot be decided."""
        return self.judgement.answers

    @property
    def files(self) -> tuple[Hit, ...]:
        """The passages of sources, those of further files last."""
        return (*self.sources.hits, *self.sources.further)

    @property
    def passages(self) -> list[Hit]:
        """The passages of sources that may be packed.

        In a small space every passage is a candidate, so weak ones are omitted. In a large space they are flagged:
        without them packs of 4,000 tokens lose 2 % of the evidence (MuSiQue). Unrelated ones only replace an answer.
        """
        only_strong = self.answers and (self.known.idf.is_small or self.sources.unrelated)
        return self._not_weak(self.files) if only_strong else list(self.files)

    @property
    def min_score(self) -> float:
        """The score that a passage of a file must have, unless it is in one of the best files.

        A question about a project with code has its answer in few files; the others share words with it. A task may
        concern many files.
        """
        if not asks(self.question.text) or all(hit.head.place_role != CODE for hit in self.files):
            return 0.0
        return TUNING.context.min_score_share * max(hit.score for hit in self.files)

    @property
    def about_task(self) -> list[Hit]:
        """The knowledge, work and activities about the task, including statements about a name in it.

        If the task names the subject of a copied fact, copied facts about other subjects are left out: a task about
        the version of acme needs no versions of its dependencies.
        """
        strong = {hit.head.key for hit in self._not_weak(self.beliefs.hits)}
        hits = [hit for hit in self.beliefs.hits if hit.head.key in strong or self._mentions_name(hit)]
        words = frozenset(self.question.terms.words)
        named = {hit.head.key for hit in hits if (subject := _copied_subject(hit)) and subject <= words}
        return [hit for hit in hits if not named or hit.head.key in named or not _copied_subject(hit)]

    def _not_weak(self, hits: Sequence[Hit]) -> list[Hit]:
        return [hit for hit in hits if hit.head.key not in self.judgement.weak]

    def _mentions_name(self, hit: Hit) -> bool:
        return mentions_name(hit, frozenset(names_written(self.question.text)))


def mentions_name(hit: Hit, names: Set[str]) -> bool:
    """Return whether a hit is a statement, not copied by an adapter, that mentions one of the names."""
    if not names or not isinstance(hit.item, Knowledge) or hit.state.origin_channel == COPIED:
        return False
    return not names.isdisjoint(index_text(f"{hit.head.title}\n{hit.text}").split())


def _copied_subject(hit: Hit) -> frozenset[str]:
    """Return the terms of the subject of a copied fact; none of another hit."""
    payload = hit.item.payload if isinstance(hit.item, Knowledge) else None
    if hit.state.origin_channel != COPIED or not isinstance(payload, Fact):
        return frozenset()
    return frozenset(telling_terms(payload.subject))
