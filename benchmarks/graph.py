"""What the entity graph costs as a space grows: building it, a document more or less, a question, memory and disk."""

from collections.abc import Iterator, Mapping
from functools import partial
from pathlib import Path
from statistics import median

import apsw
import numpy as np

import treering
from benchmarks.articles import PASSAGES, articles, questions_among
from benchmarks.changes import DOCUMENTS, Changes, changing, ratios
from benchmarks.costs import Cost, cost_of, milliseconds, typical, wall_note
from benchmarks.figures import Figure, Row, at_most
from benchmarks.plan import Plan, workplace
from benchmarks.processes import probe
from benchmarks.stages import EVERYWHERE, staged
from benchmarks.synthetic import StandIn, fill
from benchmarks.whole_graph import WholeGraph, compared
from treering import Space

_SIZES = (1_000, 10_000, 100_000)
_QUICK_SIZES = (500, 2_000)
_QUESTIONS = 40
_COMPARED = 10
_LOADS = 3

_GROUPS: Mapping[str, tuple[str, ...]] = {
    "graph": ("graph_",),
    "full text": ("passage_words", "passage_names"),
    "vectors": ("passage_vectors", "vector_", "passage_texts", "passage_models"),
    "text and history": ("objects", "revisions", "texts", "segments", "dependencies", "links", "patches", "audit"),
}
"""Tables by what their names begin with; all others hold what passages are filtered and shown by."""


def measure(plan: Plan) -> list[Row]:
    """Measure at 1,000, 10,000 and 100,000 passages of made-up articles that name each other."""
    rows: list[Row] = []
    changes: list[Changes] = []
    for size in _QUICK_SIZES if plan.quick else _SIZES:
        with workplace() as folder:
            path = folder / "space.db"
            rows += _building(path, size)
            rows += _loading(path, size, held=size == _SIZES[-1])
            rows += _using(path, size, changes, held=size == _SIZES[-1])
    return [*rows, *ratios(changes[0], changes[-1])]


def _building(path: Path, size: int) -> Iterator[Figure]:
    content = list(articles(size // PASSAGES, among=size // PASSAGES))
    embedder = StandIn()
    with treering.open(_address(path), background=False, embedder=embedder) as space:
        text = cost_of(partial(fill, space, content))
        vectors = cost_of(space.embed_pending)
    cpu = text.cpu + vectors.cpu - embedder.spent
    told = f"{text.cpu:.1f} s for text and graph, {vectors.cpu - embedder.spent:.1f} s for vectors"
    yield Figure(f"{size:,}: build besides encoding", cpu, "s CPU", None, f"{size / cpu:,.0f} passages per s; {told}")
    groups = _bytes_by_group(path)
    for name, used in groups.items():
        yield Figure(f"{size:,}: disk per passage, {name}", used / size / 1024, "KiB")
    target = at_most(6) if size == _SIZES[-1] else None
    yield Figure(f"{size:,}: disk per passage", sum(groups.values()) / size / 1024, "KiB", target)


def _loading(path: Path, size: int, *, held: bool) -> Iterator[Figure]:
    """Load the graph in fresh processes, and answer in one; beside that an empty space, for memory."""
    loads = [probe("load_graph", address=_address(path)) for _ in range(_LOADS)]
    cpu, memory, wall = (median(load[name] for load in loads) for name in ("cpu", "memory", "wall"))
    yield Figure(f"{size:,}: load the graph in a fresh process", wall, "s", None, f"{cpu:.2f} s CPU")
    yield Figure(f"{size:,}: — its memory", memory, "MiB")
    question = questions_among(1, among=size // PASSAGES)[0]
    used = probe("open_and_answer", address=_address(path), question=question)["memory"]
    beyond = used - probe("open_and_answer", address=":memory:", question=question)["memory"]
    target = at_most(300) if held else None
    yield Figure(f"{size:,}: memory beyond the encoder", beyond, "MiB", target, f"{used:.0f} MiB in all")


def _using(path: Path, size: int, changes: list[Changes], *, held: bool) -> Iterator[Figure]:
    embedder = StandIn()
    among = size // PASSAGES
    with treering.open(_address(path), background=False, embedder=embedder) as space:
        stages = staged(space, questions_among(_QUESTIONS, among=among))
        yield from stages.figures(size, held=held)
        ways = space.engine.index.graph.view(EVERYWHERE)
        passages = 2 * np.arange(1, size + 1, dtype=np.int64)
        whole = WholeGraph.of(passages, ways)
        yield from compared(size, whole, ways, stages.starts[:_COMPARED])
        del whole
        changes.append(changing(space, embedder, size, list(articles(DOCUMENTS, among=among, first=among, passages=1))))
        yield from changes[-1].figures(held=held)
        yield _asking_after(space, size, among)


def _asking_after(space: Space, size: int, among: int) -> Figure:
    """Ask right after each of some documents was added, when what is in memory has to be brought up to date."""
    more = articles(DOCUMENTS, among=among, first=among + DOCUMENTS, passages=1)
    asked = questions_among(DOCUMENTS, among=among)
    costs: list[Cost] = []
    for document, text in zip(more, asked, strict=True):
        fill(space, [document])
        space.embed_pending()
        costs.append(cost_of(partial(space.query, "search", input={"text": text}, options={"descend": True})))
    cost = typical(costs)
    name = f"{size:,}: query right after a document was added"
    return Figure(name, milliseconds(cost.cpu), "ms CPU", None, wall_note(cost))


def _bytes_by_group(path: Path) -> dict[str, int]:
    connection = apsw.Connection(str(path), flags=apsw.SQLITE_OPEN_READONLY)
    sizes = dict(connection.execute("SELECT name, sum(pgsize) FROM dbstat GROUP BY name"))
    connection.close()
    groups = dict.fromkeys([*_GROUPS, "passages and filters"], 0)
    for name, used in sizes.items():
        groups[_group_of(name.removeprefix("sqlite_autoindex_"))] += used
    return groups


def _group_of(table: str) -> str:
    found = (group for group, beginnings in _GROUPS.items() if table.startswith(beginnings))
    return next(found, "passages and filters")


def _address(path: Path) -> str:
    return f"sqlite:{path}"
