"""The page of benchmarks and its download: `python -m benchmarks recall_table`, then `python -m benchmarks.page`.

The first asks every question of the labelled sets in each way that the README compares, and keeps how much of the
evidence each found: one row per question and cut-off, without the texts, in `docs/benchmarks/recall.csv`. The second
writes its table into `docs/benchmarks/index.md`. Tests compare the README and the
comparison with it.
"""

import csv
import os
import platform
import subprocess
from collections.abc import Callable, Iterator, Mapping, Sequence
from datetime import UTC, datetime
from pathlib import Path

import numpy as np

from benchmarks.cached_embedder import CachedEmbedder
from benchmarks.data import Collection, MissingData, load
from benchmarks.figures import Figure, Missing, Row
from benchmarks.labelled_space import LabelledSpace, Searcher
from benchmarks.paired import Recall, estimates
from benchmarks.plan import Plan
from benchmarks.recall import evaluate_all, words_alone
from treering import __version__

ROOT = Path(__file__).parents[1]
FOLDER = ROOT / "docs/benchmarks"
OURS, BY_WORDS, BM25, VECTORS, BY_RANK = "Treering", "Treering by words", "BM25", "vectors", "both, by rank"
WAYS = (OURS, BY_WORDS, BM25, VECTORS, BY_RANK)
SETS = {
    "musique": "MuSiQue, 100 questions over paragraphs",
    "musique-triples": "MuSiQue with triples of a model",
    "hotpotqa": "HotpotQA, 200 questions over paragraphs",
    "locomo": "LoCoMo, five conversations",
    "longmemeval": "LongMemEval, turns of 479 histories in one space",
}
"""The sets of the README and of the comparison; all of them were looked at while Treering was tuned."""

_BEGINS = "<!-- measured: written by `python -m benchmarks.page` -->"
_ENDS = "<!-- end of what was measured -->"
_HEAD = (
    "| set | among the first | BM25 | vectors | both, by rank | Treering by words | Treering | more | less |",
    "| --- | --- | --- | --- | --- | --- | --- | --- | --- |",
)
_CONSTANT = 60  # of reciprocal rank fusion (Cormack and others, 2009)
_DEPTH = 50
Scores = Mapping[tuple[str, int], Mapping[str, np.ndarray]]
"""By set and cut-off, for each way: percent of the evidence found, by question in one order."""


def measure(plan: Plan) -> list[Row]:
    """Ask each set in each way; write `recall.csv`, where nothing else was named to keep it in."""
    rows: list[Row] = []
    recalls: dict[str, Mapping[str, Recall]] = {}
    for name in SETS:
        try:
            data = load(name)
        except MissingData as missing:
            rows.append(Missing(f"recall, {name}", str(missing)))
            continue
        recalls[name] = evaluate_all(_ways(CachedEmbedder(plan.cache / "vectors.db")), data)
        for way, recall in recalls[name].items():
            rows += [Figure(f"{name} R@{k}, {way}", one.mean, "%") for k, one in recall.at().items()]
    if len(recalls) == len(SETS) and not plan.quick:
        _write(plan.keep or FOLDER / "recall.csv", recalls)
    return rows


def read(file: Path = FOLDER / "recall.csv") -> Scores:
    """Read what was kept."""
    found: dict[tuple[str, int], dict[str, list[float]]] = {}
    with file.open(encoding="utf-8", newline="") as lines:
        for row in csv.DictReader(line for line in lines if not line.startswith("#")):
            of_one = found.setdefault((row["set"], int(row["first"])), {way: [] for way in WAYS})
            for way in WAYS:
                of_one[way].append(float(row[way]))
    return {key: {way: np.array(column) for way, column in ways.items()} for key, ways in found.items()}


def page() -> str:
    """Return the page with the table of what was kept; the words around it are its own."""
    run = (FOLDER / "recall.csv").read_text(encoding="utf-8").partition("\n")[0].removeprefix("# ")
    before, rest = (FOLDER / "index.md").read_text(encoding="utf-8").split(_BEGINS)
    _, after = rest.split(_ENDS)
    return "\n".join(
        [f"{before}{_BEGINS}", "", *_HEAD, *_rows(read()), "", f"Measured with {run}.", "", f"{_ENDS}{after}"]
    )


def _ways(embedder: CachedEmbedder) -> Callable[[Collection], Mapping[str, Searcher]]:
    def opened(collection: Collection) -> Mapping[str, Searcher]:
        held, words = LabelledSpace.of(collection, embedder), words_alone(collection)
        near = held.nearest()
        return {
            OURS: held.covered(100),  # first: it has the texts embedded
            BY_WORDS: held.search(semantic=False),
            BM25: words,
            VECTORS: near,
            BY_RANK: _by_rank(words, near),
        }

    return opened


def _by_rank(*searchers: Searcher) -> Searcher:
    """Fuse rankings by the sum of `1 / (60 + rank)`: what a script would do."""

    def search(question: str, limit: int) -> Sequence[str]:
        scores: dict[str, float] = {}
        for searcher in searchers:
            for rank, found in enumerate(searcher(question, _DEPTH), start=1):
                scores[found] = scores.get(found, 0) + 1 / (_CONSTANT + rank)
        return sorted(scores, key=lambda one: (-scores[one], one))[:limit]

    return search


def _write(file: Path, recalls: Mapping[str, Mapping[str, Recall]]) -> None:
    commit = subprocess.run(["git", "rev-parse", "--short=12", "HEAD"], cwd=ROOT, capture_output=True, text=True)
    machine = f"Python {platform.python_version()}, {platform.system()} {platform.machine()}, {os.cpu_count()} CPUs"
    file.parent.mkdir(parents=True, exist_ok=True)
    with file.open("w", encoding="utf-8", newline="") as out:
        out.write(
            f"# Treering {__version__}, commit {commit.stdout.strip()}, {datetime.now(UTC):%Y-%m-%d}, {machine}\n"
        )
        lines = csv.writer(out, lineterminator="\n")
        lines.writerow(["set", "question", "first", *WAYS])
        for name, by_way in recalls.items():
            asked = by_way[OURS]
            for number, question in enumerate(asked.questions):
                for column, cutoff in enumerate(asked.cutoffs):
                    found = [f"{by_way[way].found[number, column]:.4g}" for way in WAYS]
                    lines.writerow([name, question, cutoff, *found])


def _rows(scores: Scores) -> Iterator[str]:
    for (name, cutoff), ways in scores.items():
        (ours,) = estimates(ways[OURS][:, None])
        best = max((BM25, VECTORS, BY_RANK), key=lambda way: float(ways[way].mean()))
        more, less = (int(np.sum(way)) for way in (ways[OURS] > ways[best], ways[OURS] < ways[best]))
        others = " | ".join(f"{ways[way].mean():.1f}" for way in (BM25, VECTORS, BY_RANK, BY_WORDS))
        verdict = f"{more} of {len(ways[OURS])} | {less}"
        bounds = f"**{ours.mean:.1f}** ({ours.low:.1f} to {ours.high:.1f})"
        yield f"| {SETS[name]} | {cutoff} | {others} | {bounds} | {verdict} |"


if __name__ == "__main__":
    FOLDER.joinpath("index.md").write_text(page(), encoding="utf-8", newline="\n")
