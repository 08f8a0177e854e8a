"""Recall of evidence through discussion memory: labelled conversations are recorded turn by turn, and searched."""

from collections.abc import Iterator, Mapping, Sequence
from itertools import groupby

import numpy as np

import treering
from benchmarks.cached_embedder import CachedEmbedder
from benchmarks.data import Collection, Labelled, MissingData, Passage, load
from benchmarks.figures import Figure, Missing, Row, at_least
from benchmarks.labelled_space import LabelledSpace, Searcher
from benchmarks.paired import Recall, compared, keep
from benchmarks.plan import Plan
from benchmarks.recall import DEFAULT, FUSED, TARGETS, VECTORS, WORDS, evaluate_all
from treering.extensions.discussions.memory import Discussion, DiscussionMemory
from treering.extensions.discussions.search import DiscussionSearch, RecallMode
from treering.ports.models import Embedder
from treering.verbs.ingest.turns import Message

SETS = ("locomo", "longmemeval")
DISCUSSIONS = "through discussion memory"
_SPARE = 2  # turns asked for per passage wanted, as the space itself is asked


def recalls(plan: Plan) -> Iterator[Row]:
    """Measure both sets beside words, vectors, both fused, and the space asked directly. `quick`: the words alone."""
    for name in SETS:
        try:
            yield from _recall(load(name), plan)
        except MissingData as missing:
            yield Missing(f"discussion recall, {name}", str(missing))


def _recall(data: Labelled, plan: Plan) -> Iterator[Row]:
    embedder = CachedEmbedder(plan.cache / "vectors.db")

    def open_searchers(collection: Collection) -> Mapping[str, Searcher]:
        recorded = {DISCUSSIONS: through_discussions(collection, embedder, natural=plan.quick)}
        held = LabelledSpace.of(collection, embedder)
        if plan.quick:
            return {**recorded, WORDS: held.worded()}
        held.cover(100)
        space = {WORDS: held.worded(), VECTORS: held.nearest(), FUSED: held.search(graph=False), DEFAULT: held.search()}
        return {**recorded, **space}

    found = evaluate_all(open_searchers, data)
    timed = np.array([question.about_time for part in data.collections for question in part.questions])
    for configuration, recall in found.items():
        held_against = TARGETS[data.name] if configuration == DISCUSSIONS else {}
        yield from _figures(recall, configuration, held_against)
        asked = tuple(question for question, about in zip(recall.questions, timed, strict=True) if about)
        about_time = Recall(f"{recall.name}, questions about time", recall.cutoffs, recall.found[timed], asked)
        yield from _figures(about_time, configuration, {})
    if plan.against:
        yield from compared(found, plan.against)
    if plan.keep:
        keep(plan.keep, found)


def through_discussions(collection: Collection, embedder: Embedder, *, natural: bool = False) -> Searcher:
    """Record each conversation of a collection as a discussion; give a searcher over them all.

    `natural`: by the words of the question, without vectors. Questions are asked at their own time, where the set
    tells it: what "last week" means depends on that.
    """
    space = treering.open(":memory:", background=False, embedder=embedder)
    memory = DiscussionMemory(space.engine)
    passages: dict[tuple[str, str], str] = {}
    for thread, turns in _threads(collection):
        discussion = memory.open(thread.replace("/", "."))
        discussion.record([_message(turn) for turn in turns], start=0)
        passages |= dict(_kept(discussion, turns))
    if not natural:
        space.embed_pending()

    asked = {question.text: question.asked_at for question in collection.questions}

    def search(question: str, limit: int) -> Sequence[str]:
        mode: RecallMode = "natural" if natural else "hybrid"
        options = DiscussionSearch(what="turns", mode=mode, limit=_SPARE * limit, asked_at=asked.get(question))
        found = memory.search(question, options)
        places = ((hit.source_id, hit.segment_id) for hit in found)
        return list(dict.fromkeys(passages[place] for place in places))[:limit]

    return search


def _threads(collection: Collection) -> Iterator[tuple[str, list[Passage]]]:
    """Return the turns of each discussion, oldest first.

    A collection that is one person's talks with another (LoCoMo) is one discussion of many sessions; pooled chats
    (LongMemEval) are a discussion each, where need be of one turn.
    """
    if all(turn.thread.startswith(f"{collection.name}/") for turn in collection.passages):
        yield collection.name, sorted(collection.passages, key=_when)
        return
    for thread, turns in groupby(sorted(collection.passages, key=_thread), key=_thread):
        yield thread, list(turns)


def _kept(discussion: Discussion, turns: Sequence[Passage]) -> Iterator[tuple[tuple[str, str], str]]:
    """Return for each segment the turn it is of. Turns that say nothing are not kept."""
    spoken = [turn for turn in turns if turn.text.strip()]
    for turn, kept in zip(spoken, discussion.messages(), strict=True):
        for segment_id in kept.segment_ids:
            yield (kept.source_id, segment_id), turn.id


def _message(turn: Passage) -> Message:
    return Message(content=turn.text, name=turn.speaker, at=turn.said_at)


def _when(turn: Passage) -> float:
    return turn.said_at.timestamp() if turn.said_at else 0.0


def _thread(turn: Passage) -> str:
    return turn.thread or turn.id


def _figures(recall: Recall, configuration: str, targets: Mapping[int, float]) -> Iterator[Figure]:
    for cutoff, estimate in recall.at().items():
        target = at_least(targets[cutoff]) if cutoff in targets else None
        note = f"95 % [{estimate.low:.1f}, {estimate.high:.1f}], {len(recall.found)} questions"
        yield Figure(f"{recall.name} R@{cutoff}, {configuration}", estimate.mean, "%", target, note)
