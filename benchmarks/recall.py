"""Recall of evidence: which part of the passages that answer a question is among the first k found.

`python -m benchmarks.recall [SET …]` prints the figures of the words arm by itself, which is the baseline that
everything else has to beat. As a benchmark it asks real spaces, in four configurations.
"""

import sys
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass

import apsw
import numpy as np
import numpy.typing as npt

from benchmarks.cached_embedder import CachedEmbedder
from benchmarks.data import SETS, Collection, Labelled, MissingData, Question, load
from benchmarks.figures import Figure, Missing, Row, at_least
from benchmarks.labelled_space import LabelledSpace, Searcher
from benchmarks.plan import Plan
from treering.derived.analysis import index_text, query_terms
from treering.edges.stores.sqlite.fts5 import WORD_TOKENIZER, fts_query

TARGETS: Mapping[str, Mapping[int, float]] = {
    "locomo": {5: 70, 10: 78, 20: 86},
    "longmemeval": {5: 82, 10: 90},
    "hotpotqa": {2: 80, 5: 95, 10: 98},
    "musique": {2: 60, 5: 82, 10: 91},
    "musique-triples": {2: 64, 5: 85, 10: 93},
}
"""Percent by cut-off, for the default configuration."""

HEADING_WEIGHT = 2.0
"""What a word of the heading counts for in the baseline, against 1 for one of the text."""

WORDS = "words only"
VECTORS = "vectors only"
FUSED = "both fused, without the graph"
DEFAULT = "default"

_ROUNDS = 2000

Found = npt.NDArray[np.float64]
"""Percent of the evidence found, by question and cut-off: `float64[n, cutoffs]`."""


@dataclass(frozen=True, slots=True)
class Estimate:
    """A mean over questions in percent, with the bounds of its bootstrap 95 % interval."""

    mean: float
    low: float
    high: float

    def __str__(self) -> str:
        return f"{self.mean:.1f} [{self.low:.1f}, {self.high:.1f}]"


@dataclass(frozen=True, slots=True)
class Recall:
    """Recall of one set by question and cut-off."""

    name: str
    cutoffs: tuple[int, ...]
    found: Found

    def __str__(self) -> str:
        figures = "   ".join(f"R@{cutoff} {estimate}" for cutoff, estimate in self.at().items())
        return f"{self.name:12} {len(self.found):4} questions   {figures}"

    def at(self) -> dict[int, Estimate]:
        """Estimate the recall at each cut-off."""
        return dict(zip(self.cutoffs, _estimates(self.found), strict=True))

    def gain_over(self, other: "Recall") -> dict[int, Estimate]:
        """Estimate how much more is found than by another configuration: of the difference question by question."""
        return dict(zip(self.cutoffs, _estimates(self.found - other.found), strict=True))


def measure(plan: Plan) -> list[Row]:
    """Measure words, vectors, both fused, and the default with its graph, on every set that is there.

    `quick`: words only.
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
    return {name: Recall(data.name, data.cutoffs, 100 * np.array(rows)) for name, rows in found.items()}


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

    def open_searchers(collection: Collection) -> Mapping[str, Searcher]:
        held = LabelledSpace.of(collection, embedder, vectors=not plan.quick)
        words = {WORDS: held.worded()}
        if plan.quick:
            return words
        return {**words, VECTORS: held.nearest(), FUSED: held.search(graph=False), DEFAULT: held.search()}

    recalls = evaluate_all(open_searchers, data)
    rows: list[Row] = [
        figure
        for configuration, recall in recalls.items()
        for figure in _figures(recall, configuration, TARGETS[name] if configuration == DEFAULT else {})
    ]
    return rows if plan.quick else [*rows, *_gains(recalls[DEFAULT], recalls[FUSED])]


def _figures(recall: Recall, configuration: str, targets: Mapping[int, float]) -> Iterator[Figure]:
    for cutoff, estimate in recall.at().items():
        target = at_least(targets[cutoff]) if cutoff in targets else None
        note = f"95 % [{estimate.low:.1f}, {estimate.high:.1f}], {len(recall.found)} questions"
        yield Figure(f"{recall.name} R@{cutoff}, {configuration}", estimate.mean, "%", target, note)


def _gains(recall: Recall, without: Recall) -> Iterator[Figure]:
    """Say what the graph adds, question by question: it must never make a set worse."""
    for cutoff, gain in recall.gain_over(without).items():
        note = f"95 % [{gain.low:+.1f}, {gain.high:+.1f}], paired"
        yield Figure(f"{recall.name} R@{cutoff}, gain by the graph", gain.mean, "points", at_least(0), note)


def _found(ids: Sequence[str], question: Question, cutoffs: Sequence[int]) -> list[float]:
    return [len(question.gold.intersection(ids[:k])) / len(question.gold) for k in cutoffs]


def _estimates(found: Found) -> list[Estimate]:
    """Estimate the mean of each column over questions; the interval by drawing questions again."""
    drawn = np.random.default_rng(0).integers(len(found), size=(_ROUNDS, len(found)))
    low, high = np.percentile(found[drawn].mean(axis=1), (2.5, 97.5), axis=0)
    return [Estimate(*map(float, bounds)) for bounds in zip(found.mean(axis=0), low, high, strict=True)]


if __name__ == "__main__":
    main(sys.argv[1:])
