"""Personalized PageRank on a graph of a million passages, without a database around it."""

from functools import partial

import numpy as np
import numpy.typing as npt

from benchmarks.articles import PASSAGES, mentioned, popular
from benchmarks.costs import Cost, cost_of
from benchmarks.figures import Figure, Row
from benchmarks.plan import Plan
from benchmarks.processes import peak_memory
from benchmarks.whole_graph import Start, WholeGraph, compared
from treering.ports.search import EdgeType, Nodes
from treering.retrieval.graph.graph_table import GraphTable
from treering.retrieval.index.ties import HEADER, reference
from treering.retrieval.tuning import TUNING

_SIZE = 1_000_000
_QUICK_SIZE = 20_000
_MENTIONS = 9
_FACTS = 8
_WORDS = 6  # of one fact
_STARTS = 5
_SEEDS = 5
_FOUND = 100
_BLOCK = 20_000

Numbers = npt.NDArray[np.int64]


def measure(plan: Plan) -> list[Row]:
    """Build a graph like that of `benchmarks.articles`, and walk it from starts like those of questions."""
    size = _QUICK_SIZE if plan.quick else _SIZE
    before = peak_memory()
    table = GraphTable()
    built = cost_of(partial(_fill, table, size))
    sorting = cost_of(partial(table.edges, np.array([2], np.int64)))
    memory = peak_memory() - before
    starts = _starts(table, size)
    whole = WholeGraph.of(2 * np.arange(1, size + 1, dtype=np.int64), table)
    return [
        _seconds(f"{size:,}: put records into the table", built),
        _seconds(f"{size:,}: sort them for the first walk", sorting),
        Figure(f"{size:,}: memory of the table", table.nbytes / 2**20, "MiB", None, f"peak {memory:,.0f} MiB"),
        *compared(size, whole, table, starts),
    ]


def _seconds(name: str, cost: Cost) -> Figure:
    return Figure(name, cost.cpu, "s CPU", None, f"wall {cost.wall:.1f} s")


def _fill(table: GraphTable, size: int) -> None:
    for first in range(0, size, _BLOCK):
        passages = np.arange(first, min(first + _BLOCK, size))
        records = [row.tobytes() for row in _records(passages, size // PASSAGES)]
        table.put(passages + 1, np.ones(len(passages), np.int32), records)


def _records(passages: Numbers, among: int) -> npt.NDArray[np.uint32]:
    """Write a record for each passage (see `retrieval.index.ties`): all of one shape, a name may stand in it twice.

    Entities are numbered from 1 like the articles they are called by, the articles' own objects after them.
    """
    rng = np.random.default_rng(int(passages[0]))
    article = passages // PASSAGES
    names = 1 + mentioned(rng, np.repeat(article[:, np.newaxis], _MENTIONS, axis=1), among)
    about = np.where(rng.random((len(passages), _FACTS)) < _ABOUT_ITSELF, 1 + article[:, np.newaxis], names[:, :_FACTS])
    columns = [
        np.tile([2 + _MENTIONS, _FACTS, 0], (len(passages), 1)),
        _references(1 + among + article, EdgeType.PART)[:, np.newaxis],
        _references(names, EdgeType.MENTION),
        _references(1 + article, EdgeType.TITLE)[:, np.newaxis],
        np.stack([about, names[:, 1 : 1 + _FACTS]], axis=2).reshape(len(passages), 2 * _FACTS),
        np.tile(np.full(_FACTS, _WORDS, np.uint16).view(np.uint32), (len(passages), 1)),
        rng.integers(2**32, size=(len(passages), _FACTS * _WORDS // 2)),
    ]
    assert columns[0].shape[1] == HEADER
    return np.concatenate(columns, axis=1).astype(np.uint32)


def _references(numbers: Numbers, tie: EdgeType) -> Numbers:
    return numbers * reference(1, EdgeType(0)) + tie


def _starts(table: GraphTable, size: int) -> list[Start]:
    """Begin at the names of a passage, the commoner the lighter, and at passages that hold them or popular names."""
    rng = np.random.default_rng(0)
    return [_start(int(article), table, rng, size) for article in popular(rng, _STARTS, size // PASSAGES)]


def _start(article: int, table: GraphTable, rng: np.random.Generator, size: int) -> Start:
    own = np.array([2 * (PASSAGES * article + 1)], np.int64)
    entities = np.unique(table.edges(own).target)[:_SEEDS]
    around = table.edges(entities)
    holding = around.target[around.target % 2 == 0]
    spread = np.bincount(around.source, around.target % 2 == 0, len(entities))
    found = np.unique(np.concatenate([rng.choice(holding, _FOUND // 2), 2 * rng.integers(1, size, _FOUND // 2)]))
    weights = np.concatenate([1 / np.maximum(1, spread), TUNING.graph.passage_weight * rng.random(len(found))])
    seeds: Nodes = np.concatenate([entities, found])
    return Start(seeds, weights)


_ABOUT_ITSELF = 0.5
