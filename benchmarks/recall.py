"""Recall of evidence: which part of the passages that answer a question is among the first k found.

`python -m benchmarks.recall [SET …]` prints the figures of the words arm by itself, which is the baseline that
everything else has to beat.
"""

import sys
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass

import apsw
import numpy as np
from benchmarks.data import SETS, Collection, Labelled, MissingData, Question, load

from treering.derived.analysis import WORD_TOKENIZER, fts_query, index_text, query_terms
from treering.derived.fusion import HEADING_WEIGHT

Searcher = Callable[[str, int], Sequence[str]]
"""Given a question and a limit, the ids of passages, best first."""

_ROUNDS = 2000


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
    """Recall of one set by cut-off."""

    name: str
    questions: int
    at: Mapping[int, Estimate]

    def __str__(self) -> str:
        figures = "   ".join(f"R@{cutoff} {estimate}" for cutoff, estimate in self.at.items())
        return f"{self.name:12} {self.questions:4} questions   {figures}"


def evaluate(open_searcher: Callable[[Collection], Searcher], data: Labelled) -> Recall:
    """Ask every question within its own collection, and average the part of its evidence that was found."""
    found = [
        _found(searcher(question.text, max(data.cutoffs)), question, data.cutoffs)
        for collection in data.collections
        for searcher in [open_searcher(collection)]
        for question in collection.questions
    ]
    return Recall(data.name, len(found), _estimates(found, data.cutoffs))


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


def _found(ids: Sequence[str], question: Question, cutoffs: Sequence[int]) -> list[float]:
    return [len(question.gold.intersection(ids[:k])) / len(question.gold) for k in cutoffs]


def _estimates(found: Sequence[Sequence[float]], cutoffs: Sequence[int]) -> dict[int, Estimate]:
    table = 100 * np.asarray(found, dtype=np.float64)
    drawn = np.random.default_rng(0).integers(len(table), size=(_ROUNDS, len(table)))
    low, high = np.percentile(table[drawn].mean(axis=1), (2.5, 97.5), axis=0)
    return {
        cutoff: Estimate(float(mean), float(below), float(above))
        for cutoff, mean, below, above in zip(cutoffs, table.mean(axis=0), low, high, strict=True)
    }


if __name__ == "__main__":
    main(sys.argv[1:])
