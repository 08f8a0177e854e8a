"""Recall of evidence: which part of the passages that answer a question is among the first k found.

`python -m benchmarks.recall [SET …]` prints the figures of the words arm by itself, which is the baseline that
everything else has to beat. As a benchmark it asks real spaces: by words, by vectors, by both with and without the
graph, and while a part of the texts have vectors of the quick model alone.
"""

import sys
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import replace

import apsw
import numpy as np

from benchmarks.cached_embedder import CachedEmbedder
from benchmarks.data import SETS, Collection, Labelled, MissingData, Question, load
from benchmarks.figures import Figure, Missing, Row, at_least
from benchmarks.labelled_space import LabelledSpace, Searcher
from benchmarks.paired import Recall, compared, gains, keep
from benchmarks.plan import Plan
from treering.retrieval.text.analysis import index_text, query_terms
from treering.stores.sqlite.index.tables import WORD_TOKENIZER
from treering.stores.sqlite.sight import fts_query

TARGETS: Mapping[str, Mapping[int, float]] = {
    "locomo": {5: 70, 10: 78, 20: 86},
    "longmemeval": {5: 82, 10: 90},
    "hotpotqa": {2: 80, 5: 95, 10: 98},
    "2wiki": {2: 78, 5: 88, 10: 91},
    "locomo sessions": {10: 95},
    "musique": {2: 60, 5: 82, 10: 91},
    "musique-triples": {2: 64, 5: 85, 10: 93},
}
"""Percent by cut-off, for the default configuration."""

HEADING_WEIGHT = 2.0
"""What a word of the heading counts for in the baseline, against 1 for one of the text."""

_TURNS = 50
"""How many turns are asked for, where conversations are looked for."""

_WHOLE = 100 - 1e-9

WORDS = "words only"
VECTORS = "vectors only"
WITHOUT_VECTORS = "default without vectors"
FUSED = "both fused, without the graph"
DEFAULT = "default"
COVERED: Mapping[str, int] = {f"{DEFAULT}, {percent} % by the encoder": percent for percent in (0, 25, 50)}
"""Configurations in which the other texts have vectors of the quick model."""


def measure(plan: Plan) -> list[Row]:
    """Measure words, vectors, both fused, and the default with its graph, on every set that is there.

    The default is measured, too, where none, a quarter and half of the texts have a vector of the encoder.

    `quick`: words only. `keep` and `against`: see `benchmarks.paired`.
    """
    return [row for name in SETS for row in _measured(name, plan)]


def evaluate(open_searcher: Callable[[Collection], Searcher], data: Labelled) -> Recall:
    """Ask every question within its own collection, and average the part of its evidence that was found."""
    return evaluate_all(lambda collection: {"": open_searcher(collection)}, data)[""]


def evaluate_all(
    open_searchers: Callable[[Collection], Mapping[str, Searcher]], data: Labelled
) -> Mapping[str, Recall]:
    """Do the same with several searchers that are opened together, by name."""
    found: dict[str, list[list[float]]] = {}
    for collection in data.collections:
        for name, searcher in open_searchers(collection).items():
            found.setdefault(name, []).extend(
                _found(searcher(question.text, max(data.cutoffs)), question, data.cutoffs)
                for question in collection.questions
            )
    asked = tuple(question.id for collection in data.collections for question in collection.questions)
    return {name: Recall(data.name, data.cutoffs, 100 * np.array(rows), asked) for name, rows in found.items()}


def by_session(data: Labelled) -> Labelled | None:
    """Ask for the conversations the evidence lies in instead; `None` where passages belong to none."""
    if not all(passage.thread for collection in data.collections for passage in collection.passages):
        return None
    return replace(data, name=f"{data.name} sessions", collections=tuple(map(_of_sessions, data.collections)))


def sessions_found(search: Searcher, collection: Collection) -> Searcher:
    """Return a searcher for conversations, in the order of their best turns."""
    threads = {passage.id: passage.thread for passage in collection.passages}

    def found(question: str, limit: int) -> Sequence[str]:
        return list(dict.fromkeys(threads[turn] for turn in search(question, _TURNS)))[:limit]

    return found


def words_alone(collection: Collection) -> Searcher:
    """Index a collection by its words (FTS5's BM25) and nothing else."""
    rows = apsw.Connection(":memory:")
    rows.execute(f"CREATE VIRTUAL TABLE t USING fts5(heading, body, content='', tokenize=\"{WORD_TOKENIZER}\")")
    rows.executemany(
        "INSERT INTO t(rowid, heading, body) VALUES (?, ?, ?)",
        [(n, index_text(p.title), index_text(p.text)) for n, p in enumerate(collection.passages)],
    )

    def search(question: str, limit: int) -> list[str]:
        found = rows.execute(
            f"SELECT rowid FROM t WHERE t MATCH ? ORDER BY bm25(t, {HEADING_WEIGHT}, 1.0), rowid LIMIT ?",
            (fts_query(query_terms(question).words), limit),
        )
        return [collection.passages[n].id for (n,) in found]

    return search


def main(names: Sequence[str]) -> None:
    """Print the recall of the words arm on the named sets, or on all."""
    for name in names or list(SETS):
        try:
            print(evaluate(words_alone, load(name)))
        except MissingData as missing:
            print(f"skipped {missing}")


def _measured(name: str, plan: Plan) -> list[Row]:
    try:
        data = load(name)
    except MissingData as missing:
        return [Missing(f"recall, {name}", str(missing))]
    embedder = CachedEmbedder(plan.cache / "vectors.db")

    opened = dict[str, Searcher]()

    def open_searchers(collection: Collection) -> Mapping[str, Searcher]:
        held = LabelledSpace.of(collection, embedder)
        words = {WORDS: held.worded()}
        if plan.quick:
            return words
        opened[collection.name] = held.covered(100)
        by_part = {name: held.covered(percent) for name, percent in COVERED.items()}
        others = {VECTORS: held.nearest(), FUSED: held.search(graph=False)}
        return {
            **words,
            WITHOUT_VECTORS: held.search(semantic=False),
            **by_part,
            DEFAULT: opened[collection.name],
            **others,
        }

    recalls = evaluate_all(open_searchers, data)
    rows: list[Row] = [
        figure
        for configuration, recall in recalls.items()
        for figure in _figures(recall, configuration, TARGETS.get(name, {}) if configuration == DEFAULT else {})
    ]
    if not plan.quick:
        rows += gains(recalls[DEFAULT], recalls[FUSED], "the graph")
        for name in COVERED:
            rows += gains(recalls[name], recalls[WITHOUT_VECTORS], f"vectors, {name}")
        rows += _all_found(recalls[DEFAULT])
        if sessions := by_session(data):
            recall = evaluate(lambda one: sessions_found(opened[one.name], one), sessions)
            rows += [*_figures(recall, DEFAULT, TARGETS.get(recall.name, {})), *_all_found(recall)]
    if plan.against:
        rows += compared(recalls, plan.against)
    if plan.keep:
        keep(plan.keep, recalls)
    return rows


def _figures(recall: Recall, configuration: str, targets: Mapping[int, float]) -> Iterator[Figure]:
    for cutoff, estimate in recall.at().items():
        target = at_least(targets[cutoff]) if cutoff in targets else None
        note = f"95 % [{estimate.low:.1f}, {estimate.high:.1f}], {len(recall.found)} questions"
        yield Figure(f"{recall.name} R@{cutoff}, {configuration}", estimate.mean, "%", target, note)


def _all_found(recall: Recall) -> Iterator[Figure]:
    """Yield the share of questions whose whole evidence was found, and that of those with any of it."""
    for cutoff, column in zip(recall.cutoffs, recall.found.T, strict=True):
        yield Figure(f"{recall.name}, all of it in {cutoff}, {DEFAULT}", 100 * float(np.mean(column >= _WHOLE)), "%")
        yield Figure(f"{recall.name}, any of it in {cutoff}, {DEFAULT}", 100 * float(np.mean(column > 0)), "%")


def _of_sessions(collection: Collection) -> Collection:
    threads = {passage.id: passage.thread for passage in collection.passages}
    questions = (
        replace(question, gold=frozenset(threads[turn] for turn in question.gold)) for question in collection.questions
    )
    return replace(collection, questions=tuple(questions))


def _found(ids: Sequence[str], question: Question, cutoffs: Sequence[int]) -> list[float]:
    return [len(question.gold.intersection(ids[:k])) / len(question.gold) for k in cutoffs]


if __name__ == "__main__":
    main(sys.argv[1:])
