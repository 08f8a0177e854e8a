"""What a space costs as it grows: questions, documents more and less, starting up, memory and disk."""

from collections.abc import Iterator
from pathlib import Path
from statistics import median

import treering
from benchmarks.changes import DOCUMENTS, Changes, changing, ratios
from benchmarks.figures import Figure, Row, at_most
from benchmarks.plan import Plan, workplace
from benchmarks.processes import disk_used, probe
from benchmarks.queries import asking
from benchmarks.synthetic import PER_DOCUMENT, StandIn, documents, fill, questions

_SIZES = (1_000, 10_000, 100_000)
_QUICK_SIZES = (500, 2_000)
_REFERENCE = 1_889  # passages of the set that others were measured on
_STARTS = 3


def measure(plan: Plan) -> list[Row]:
    """Measure at 1,000, 10,000 and 100,000 passages."""
    sizes = _QUICK_SIZES if plan.quick else _SIZES
    rows: list[Row] = list(_indexing(500 if plan.quick else _REFERENCE))
    changes: list[Changes] = []
    for size in sizes:
        with workplace() as folder:
            path = folder / "space.db"
            held = size == _SIZES[-1]
            rows += _filling(path, size, held=held)
            rows += _using(path, size, changes, held=held)
            rows += _starting(path, size, held=held)
    return [*rows, *ratios(changes[0], changes[-1])]


def _indexing(passages: int) -> Iterator[Figure]:
    with workplace() as folder:
        answer = probe("index", address=_address(folder / "space.db"), passages=passages)
    name = f"index {passages:,} passages besides encoding"
    text, vectors = answer["text"], answer["vectors"]
    note = f"{text:.2f} s for text, {vectors:.2f} s for vectors"
    yield Figure(name, text + vectors, "s CPU", at_most(2), note)
    yield Figure(f"{name}: memory beyond the imports", answer["memory"], "MiB", at_most(300))


def _filling(path: Path, size: int, *, held: bool) -> Iterator[Figure]:
    with treering.open(_address(path), background=False, embedder=StandIn()) as space:
        fill(space, documents(size // PER_DOCUMENT))
    yield Figure(f"{size:,}: disk per passage without vectors", _kibibytes(path, size), "KiB")
    with treering.open(_address(path), background=False, embedder=StandIn()) as space:
        space.embed_pending()
    yield Figure(f"{size:,}: disk per passage", _kibibytes(path, size), "KiB", at_most(6) if held else None)


def _using(path: Path, size: int, changes: list[Changes], *, held: bool) -> Iterator[Figure]:
    embedder = StandIn()
    with treering.open(_address(path), background=False, embedder=embedder) as space:
        middle = space.engine.ledger.sequence() // 2
        yield from asking(space, size, middle=middle, held=held)
        more = documents(DOCUMENTS, seed=size + 2, passages=1)
        changes.append(changing(space, embedder, size, more))
        yield from changes[-1].figures(held=held)


def _starting(path: Path, size: int, *, held: bool) -> Iterator[Figure]:
    """Open the space in fresh processes and ask, the built-in model at work; beside it an empty space, for memory."""
    question = questions(1)[0]
    starts = [_first_answer(_address(path), question) for _ in range(_STARTS)]
    median_of = {name: median(start[name] for start in starts) for name in starts[0]}
    stages = {name: seconds for name, seconds in median_of.items() if name not in {"cpu", "memory"}}
    told = [f"{median_of['cpu']:.2f} s CPU", *(f"{name} {seconds:.2f} s" for name, seconds in stages.items())]
    name = f"{size:,}: open in a fresh process and answer"
    yield Figure(name, sum(stages.values()), "s", at_most(1) if held else None, ", ".join(told))
    alone = _first_answer(":memory:", question)["memory"]
    note = f"{median_of['memory']:.0f} MiB in all"
    beyond = median_of["memory"] - alone
    yield Figure(f"{size:,}: memory beyond the encoder", beyond, "MiB", at_most(300) if held else None, note)


def _first_answer(address: str, question: str) -> dict[str, float]:
    return probe("open_and_answer", address=address, question=question)


def _address(path: Path) -> str:
    return f"sqlite:{path}"


def _kibibytes(path: Path, passages: int) -> float:
    return disk_used(path) / passages / 1024
