"""A server that 64 clients ask at once, in a space of 100,000 passages: errors, answer times, and its memory.

`python -m benchmarks.clients FOLDER` is the server's process.
"""

import asyncio
import itertools
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import httpx
import numpy as np

import treering
from benchmarks.figures import Figure, Row, at_most
from benchmarks.plan import Plan, workplace
from benchmarks.synthetic import PER_DOCUMENT, StandIn, documents, fill, questions
from treering.extensions.projects.routes import ServedProjects
from treering.extensions.server.app import Serving
from treering.extensions.server.serving import serve_until_stopped

_PASSAGES, _QUICK_PASSAGES = 100_000, 1_000
_CLIENTS = 64
_QUESTIONS = 500
_SAMPLE_SECONDS = 0.5
_MOST_GROWTH = 5.0
_MEMORY = "process_resident_memory_bytes"
_MEBIBYTE = 2**20

# Of twenty calls, as agents make them: eleven searches, six context packs, two looks at what is new, one note.
_CALLS = ("search",) * 11 + ("context",) * 6 + ("recent",) * 2 + ("note",)


@dataclass(slots=True)
class _Seen:
    """What the clients saw."""

    milliseconds: list[float] = field(default_factory=list)
    errors: list[str] = field(default_factory=list)
    memory: list[tuple[float, float]] = field(default_factory=list)
    """Of the server's process: when, in seconds from the start, and how much, in MiB."""


def measure(plan: Plan) -> list[Row]:
    """Fill a space, serve it from a process of its own, and ask it for `plan.seconds`."""
    size = _QUICK_PASSAGES if plan.quick else _PASSAGES
    with workplace() as folder:
        with treering.open(f"sqlite:{folder / 'space.db'}", background=False, embedder=StandIn()) as space:
            fill(space, documents(size // PER_DOCUMENT))
            space.embed_pending()
        with _served(folder) as address:
            seen = asyncio.run(_ask(address, plan.seconds))
    return _rows(seen, plan.seconds)


def serve(folder: Path) -> None:
    """Serve a folder's space until told to stop; the built-in model encodes each question."""
    serving = Serving(
        space=f"sqlite:{folder / 'space.db'}",
        parts={"projects": ServedProjects(folder / "projects")},
        embedder=StandIn(encoding=True),
    )
    serve_until_stopped(serving, host="127.0.0.1", port=0, tell=lambda address: print(address, flush=True))


@contextmanager
def _served(folder: Path) -> Iterator[str]:
    command = [sys.executable, "-m", "benchmarks.clients", str(folder)]
    root = Path(__file__).resolve().parents[1]
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True, cwd=root) as process:
        try:
            assert process.stdout is not None
            yield process.stdout.readline().strip()
        finally:
            process.terminate()


async def _ask(address: str, seconds: float) -> _Seen:
    seen, began = _Seen(), time.perf_counter()
    asked = itertools.cycle(questions(_QUESTIONS))
    limits = httpx.Limits(max_connections=_CLIENTS + 1, max_keepalive_connections=_CLIENTS + 1)
    async with httpx.AsyncClient(base_url=address, timeout=120, limits=limits, trust_env=False) as client:
        # The first question loads the index: as long as that takes, nobody is served.
        (await client.post("/v1/wiki/query", json=_body("search", next(asked))[1])).raise_for_status()
        until = time.perf_counter() + seconds
        watching = asyncio.create_task(_watch(client, seen, began=time.perf_counter(), until=until))
        await asyncio.gather(*(_one(client, number, asked, seen, until) for number in range(_CLIENTS)), watching)
    seen.milliseconds.sort()
    assert seen.memory, f"no memory was read in {time.perf_counter() - began:.0f} s"
    return seen


async def _one(client: httpx.AsyncClient, number: int, asked: Iterator[str], seen: _Seen, until: float) -> None:
    """Ask again and again, as one client does."""
    for turn in itertools.count(number):
        if time.perf_counter() >= until:
            return
        verb, body = _body(_CALLS[turn % len(_CALLS)], next(asked))
        began = time.perf_counter()
        try:
            answer = await client.post(f"/v1/wiki/{verb}", json=body)
        except httpx.HTTPError as error:
            seen.errors.append(f"{type(error).__name__}: {error}")
            continue
        seen.milliseconds.append((time.perf_counter() - began) * 1_000)
        if answer.status_code != httpx.codes.OK:
            seen.errors.append(f"{answer.status_code}: {answer.text[:200]}")


async def _watch(client: httpx.AsyncClient, seen: _Seen, *, began: float, until: float) -> None:
    """Read the memory of the server from its metrics, until the time is over."""
    while (now := time.perf_counter()) < until:
        text = (await client.get("/metrics")).text
        value = next((line.split()[1] for line in text.splitlines() if line.startswith(_MEMORY)), None)
        if value is not None:
            seen.memory.append((now - began, float(value) / _MEBIBYTE))
        await asyncio.sleep(_SAMPLE_SECONDS)


def _body(call: str, question: str) -> tuple[str, dict[str, Any]]:
    match call:
        case "note":
            return "crystallize", {"mode": "activity", "input": {"title": question[:80]}}
        case "recent":
            return "query", {"mode": "recent", "options": {"descend": True}}
        case "context":
            return "query", {"mode": "context", "input": {"task": question}}
        case _:
            return "query", {"mode": "search", "input": {"text": question}, "options": {"descend": True}}


def _rows(seen: _Seen, seconds: float) -> list[Row]:
    answered = len(seen.milliseconds)
    half, most = np.percentile(seen.milliseconds, [50, 99]) if answered else (0.0, 0.0)
    middle = [memory for at, memory in seen.memory if seconds / 3 <= at < seconds * 2 / 3] or [seen.memory[0][1]]
    last = [memory for at, memory in seen.memory if at >= seconds * 2 / 3] or [seen.memory[-1][1]]
    growth = (max(last) / max(middle) - 1) * 100
    first_error = f"the first: {seen.errors[0]}" if seen.errors else f"{_CLIENTS} clients for {seconds:.0f} s"
    return [
        Figure("clients: errors", len(seen.errors), "", at_most(0), first_error),
        Figure("clients: answers", answered, "", None, f"{answered / seconds:.1f} a second"),
        Figure("clients: half of the answers within", half, "ms", None, f"99 of 100 within {most:,.0f} ms"),
        Figure(
            "clients: growth of memory, last third above the second",
            growth,
            "%",
            at_most(_MOST_GROWTH),
            f"at most {max(middle):,.0f} MiB, then {max(last):,.0f} MiB; {seen.memory[0][1]:,.0f} MiB at first",
        ),
    ]


if __name__ == "__main__":
    serve(Path(sys.argv[1]))
