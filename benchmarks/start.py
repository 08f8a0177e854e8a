"""Starting up: the command line, the MCP handshake, and the first answer."""

import json
import subprocess
import sys
import time
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

import treering
from benchmarks.costs import Cost, cpu_seconds, typical
from benchmarks.figures import Figure, Row, Target, at_most
from benchmarks.plan import Plan, workplace
from benchmarks.processes import run_alone
from benchmarks.synthetic import documents

_ROUNDS = 7
_QUICK_ROUNDS = 3
_NOTES = 100
_TOOLS = 4
_PIPE = subprocess.PIPE
_HELLO = {"protocolVersion": "2025-06-18", "capabilities": {}, "clientInfo": {"name": "benchmark", "version": "1"}}


def measure(plan: Plan) -> list[Row]:
    """Start each several times; Python with nothing to do is the baseline."""
    rounds = _QUICK_ROUNDS if plan.quick else _ROUNDS
    with workplace() as folder:
        path = folder / "space.db"
        _fill(path)
        return list(_starts(path, rounds))


def _starts(path: Path, rounds: int) -> Iterator[Figure]:
    space = ("--space", f"sqlite:{path}")
    question = "what is said of the retries"
    commands: Sequence[tuple[str, Sequence[str], Target | None]] = (
        ("`python -c pass`", ("-c", "pass"), None),
        ("`treering --help`", ("-m", "treering", "--help"), at_most(0.3)),
        ("`treering version`", ("-m", "treering", "version"), at_most(0.3)),
        ("`treering query` on a space", ("-m", "treering", "query", "--mode", "search", *space, question), at_most(1)),
        ("`treering query`, context", ("-m", "treering", "query", *space, question), at_most(1)),
    )
    for name, arguments, target in commands:
        yield _figure(name, [run_alone(arguments) for _ in range(rounds)], target)
    shaken = [_handshake(("-m", "treering", "mcp", *space)) for _ in range(rounds)]
    yield _figure("MCP: start, initialize, list tools", shaken, at_most(1))


def _fill(path: Path) -> None:
    """Make a small space with vectors of the built-in model."""
    items = [
        {"kind": "note", "title": document.title, "text": document.passages[0]}
        for document in documents(_NOTES, passages=1)
    ]
    with treering.open(f"sqlite:{path}", background=False) as space:
        space.ingest("source", input={"items": items}, options={"wait": True})


def _handshake(arguments: Sequence[str]) -> Cost:
    """Start a server and talk to it until it has listed its tools. The CPU time includes its end."""
    start, used = time.perf_counter(), cpu_seconds()
    with subprocess.Popen([sys.executable, *arguments], stdin=_PIPE, stdout=_PIPE, text=True) as server:
        _call(server, 1, "initialize", _HELLO)
        _send(server, {"method": "notifications/initialized"})
        tools = _call(server, 2, "tools/list", {})["tools"]
        wall = time.perf_counter() - start
        server.communicate()
    if len(tools) != _TOOLS:
        raise RuntimeError(f"The server lists {len(tools)} tools.")
    return Cost(wall, cpu_seconds() - used)


def _call(server: "subprocess.Popen[str]", number: int, method: str, params: dict[str, Any]) -> dict[str, Any]:
    _send(server, {"id": number, "method": method, "params": params})
    assert server.stdout is not None
    answer = json.loads(server.stdout.readline())
    result: dict[str, Any] = answer["result"]
    return result


def _send(server: "subprocess.Popen[str]", message: dict[str, Any]) -> None:
    assert server.stdin is not None
    server.stdin.write(json.dumps({"jsonrpc": "2.0", **message}) + "\n")
    server.stdin.flush()


def _figure(name: str, costs: Sequence[Cost], target: Target | None) -> Figure:
    cost = typical(costs)
    return Figure(name, cost.wall, "s", target, f"{cost.cpu:.2f} s CPU")
