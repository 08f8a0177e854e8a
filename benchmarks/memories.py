"""What the memory client costs: storing, retrieving among many memories, and what an event loop waits for it."""

import asyncio
import json
import sys
import time
from collections.abc import Iterator, Sequence
from datetime import UTC, datetime, timedelta
from pathlib import Path
from statistics import median, quantiles
from typing import Any

import treering
from benchmarks.costs import Cost, cost_of, milliseconds, typical, wall_note
from benchmarks.figures import Figure, Row, at_most
from benchmarks.plan import Plan, workplace
from benchmarks.synthetic import PER_DOCUMENT, StandIn, documents, questions
from treering.client import BlockingMemoryClient, MemorySystemClient

_SIZE, _QUICK_SIZE = 100_000, 2_000
_STORED, _QUICK_STORED = 400, 40
_QUESTIONS = 40
_WARM = 5
_WANTED = 10
_PACE = 0.001
_BEGIN = datetime(2026, 1, 1, tzinfo=UTC)
_PAIRS = Path(__file__).with_name("memory_pairs.json")
_SHORT_TURNS = 0.001
_LASTING = {"session_ttl": None, "retrieval": {"max_age_seconds": None}}


def measure(plan: Plan) -> list[Row]:
    """Store, retrieve and let an event loop tick meanwhile."""
    count, size = (_QUICK_STORED, _QUICK_SIZE) if plan.quick else (_STORED, _SIZE)
    texts = [text for one in documents(max(size, count) // PER_DOCUMENT) for text in one.passages]
    with workplace() as folder:
        rows: list[Row] = [*_marking(), *_storing(folder, texts[:count])]
    with workplace() as folder:
        return [*rows, *_retrieving(folder / "memory.db", texts[:size]), *_ticking(folder / "memory.db", texts[:count])]


def _marking() -> Iterator[Figure]:
    """Mark the replaced memories among labelled pairs of one user; all earlier ones are stored before the later ones.

    One half was looked at during development, the other was left out.
    """
    pairs = json.loads(_PAIRS.read_text("utf-8"))
    for part in ("tune", "held_out"):
        own = [pair for pair in pairs if pair["set"] == part]
        config = {"backend": "in_memory", **_LASTING}
        with BlockingMemoryClient(config, background=False, user_id="ada") as client:
            old, new = (
                [client.store(pair[name], {"timestamp": at + timedelta(days=day)}) for day, pair in enumerate(own)]
                for name, at in (("old", _BEGIN), ("new", _BEGIN + timedelta(days=90)))
            )
            marks = {memory.id: memory.replaced_by for memory in client.retrieve("", top_k=200)}
        labels = [pair["label"] == "replaced" for pair in own]
        right = sum(marks[one] == other for one, other, label in zip(old, new, labels, strict=True) if label)
        wrong = sum(
            bool(marks[one]) and not (label and marks[one] == other)
            for one, other, label in zip(old, new, labels, strict=True)
        )
        wrong += sum(bool(marks[one]) for one in new)
        note = f"{wrong} wrong marks among {len(own)} pairs"
        yield Figure(f"replaced memories marked, {part}", right, f"of {sum(labels)}", None, note)


def _config(path: Path, **storage: Any) -> dict[str, Any]:
    return {"sqlite": {"path": str(path)}, "storage": storage, **_LASTING}


def _opened(path: Path, **storage: Any) -> BlockingMemoryClient:
    return BlockingMemoryClient(_config(path, **storage), background=False, embedder=StandIn())


def _storing(folder: Path, texts: Sequence[str]) -> Iterator[Figure]:
    for name, bound, asynchronous in (("durable", 10, False), ("buffered", 0.3, True)):
        with _opened(folder / f"{name}.db", enable_async_writes=asynchronous) as client:
            client.store("Opens the space")
            whole: list[Cost] = []
            own: list[float] = []
            for text in texts:
                began = time.thread_time()
                whole.append(cost_of(lambda text=text: client.store(text, {"tool": "bwa", "success": True})))
                own.append(time.thread_time() - began)
        cost = whole if not asynchronous else [Cost(each.wall, cpu) for each, cpu in zip(whole, own, strict=True)]
        middle = typical(cost)
        total = sum(each.cpu for each in whole) / len(whole)
        note = f"{wall_note(middle)}; with what is written behind it {milliseconds(total):.2f} ms on average"
        yield Figure(f"store, {name}", milliseconds(middle.cpu), "ms CPU", at_most(bound), note)


def _retrieving(path: Path, texts: Sequence[str]) -> Iterator[Figure]:
    with _opened(path, batch_size=1_000, flush_interval=3_600) as client:
        spent = cost_of(lambda: [client.store(text) for text in texts] and client.flush())
        yield Figure(f"{len(texts):,} memories stored in batches", milliseconds(spent.cpu) / len(texts), "ms CPU each")
        client.catch_up()
        with treering.open(str(path), background=False, embedder=StandIn()) as space:
            ratios, retrieved, searched = [], [], []
            for number, text in enumerate(questions(_QUESTIONS + _WARM)):
                one = cost_of(lambda text=text: client.retrieve(text, top_k=_WANTED))
                other = cost_of(lambda text=text: _search(space, text))
                if number >= _WARM:
                    ratios.append(one.cpu / other.cpu)
                    retrieved.append(one)
                    searched.append(other)
    name = f"retrieve among {len(texts):,} memories"
    note = f"{milliseconds(typical(retrieved).cpu):.1f} ms and {milliseconds(typical(searched).cpu):.1f} ms CPU"
    yield Figure(f"{name}, for each query search", median(ratios), "×", at_most(1.3), f"{note}, medians of pairs")


def _search(space: treering.Space, text: str) -> None:
    space.query("search", input={"text": text}, options={"descend": True, "limit": _WANTED})


def _ticking(path: Path, texts: Sequence[str]) -> Iterator[Figure]:
    alone = asyncio.run(_late(None, texts))
    yield Figure("an event loop is late by itself, at most", milliseconds(max(alone)), "ms", None, _spread(alone))
    usual = sys.getswitchinterval()
    for interval in (usual, _SHORT_TURNS):
        sys.setswitchinterval(interval)
        used = asyncio.run(_late(path, texts))
        name = f"— beside the client, threads taking turns after {milliseconds(interval):g} ms"
        yield Figure(name, milliseconds(max(used)), "ms", at_most(5), f"{_spread(used)}, over {len(used)} ticks")
    sys.setswitchinterval(usual)


def _spread(late: Sequence[float]) -> str:
    cuts = quantiles(late, n=100)
    told = ((50, cuts[49]), (99, cuts[98]), (100, max(late)))
    return ", ".join(f"{share} % within {milliseconds(value):.1f} ms" for share, value in told)


async def _late(path: Path | None, texts: Sequence[str]) -> list[float]:
    """Return by how much each tick of a loop is late while four tasks store and retrieve in it."""
    late: list[float] = []
    if path is None:
        ticker = asyncio.create_task(_tick(late))
        await asyncio.sleep(2)
        ticker.cancel()
        return late
    async with MemorySystemClient(_config(path), background=False, embedder=StandIn()) as client:
        await client.retrieve("opens the space")
        ticker = asyncio.create_task(_tick(late))
        await asyncio.gather(*(_use(client, texts[part::4]) for part in range(4)))
        ticker.cancel()
    return late


async def _use(client: MemorySystemClient, texts: Sequence[str]) -> None:
    for number, text in enumerate(texts):
        await client.store(text)
        if number % 10 == 0:
            await client.retrieve(text[:100])


async def _tick(late: list[float]) -> None:
    """Tell by how much each wait was too long, and of that no more than this process has worked meanwhile.

    What other processes take of a busy machine is left out like this; who waits for a thread of ours is told.
    """
    while True:
        began, worked = time.perf_counter(), time.process_time()
        await asyncio.sleep(_PACE)
        too_long = time.perf_counter() - began - _PACE
        late.append(min(too_long, time.process_time() - worked))
