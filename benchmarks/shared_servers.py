"""Measure three Postgres servers that share many spaces, and look whether anything acknowledged was lost.

`python -m benchmarks.shared_servers --spaces 1000 --moves 50` starts servers of its own, makes the spaces, moves some
of them under load, kills one server with `kill -9` and starts it again, drains another one, and then looks for every
write that was acknowledged. It prints what it found; exit status 1 where anything was lost or out of place.
"""

import argparse
import random
import statistics
import subprocess
import sys
import time
from collections.abc import Iterator, Sequence
from contextlib import ExitStack, closing, contextmanager
from dataclasses import dataclass, field
from pathlib import Path

from tests import postgres_server
from tests.postgres_server import PostgresServer

import treering
from benchmarks.figures import Figure, Row, at_most, table
from benchmarks.plan import workplace
from treering.core.errors import TreeringError, Unavailable
from treering.core.patch import Patch
from treering.ports.ledger import Ledger
from treering.ports.stores import Relocation, ServerDirectory
from treering.spaces import wiring
from treering.stores.postgres.connection.directory import Directory
from treering.stores.postgres.connection.target import database_of
from treering.system.address import parse_address
from treering.testing.builders import Builder
from treering.testing.fakes import HashingEmbedder, SteppingClock

_ROOT = Path(__file__).resolve().parents[1]
NAMES = ("a", "b", "c")
_KILLED, _DRAINED = "b", "c"
_PATIENCE = 120.0  # seconds that a writer repeats one commit


@dataclass(frozen=True, slots=True)
class Size:
    """How much is done. `outage`: seconds that a server is away."""

    spaces: int
    moves: int
    outage: float
    writers: int = 3


@dataclass(slots=True)
class Found:
    """What was seen."""

    moved: list[Relocation] = field(default_factory=list)
    drained: list[Relocation] = field(default_factory=list)
    acknowledged: dict[str, list[str]] = field(default_factory=dict)
    """By space, the ids of what was written."""
    waits: list[float] = field(default_factory=list)
    """How long commits took in spaces whose server was not killed, in seconds."""
    lost: int = 0
    out_of_place: int = 0
    events: int = 0
    seconds: float = 0.0
    during_outage: int = 0
    """Commits on other servers while one was away."""


def main(arguments: Sequence[str]) -> int:
    """Run all of it once. Return the exit status."""
    if arguments and arguments[0] == "write":
        return _write(*arguments[1:])
    parser = argparse.ArgumentParser("python -m benchmarks.shared_servers", description=__doc__)
    parser.add_argument("--spaces", type=int, default=1000)
    parser.add_argument("--moves", type=int, default=50)
    parser.add_argument("--outage", type=float, default=5.0, help="seconds that one server is away")
    given = parser.parse_args(arguments)
    with ExitStack() as closing_all, workplace() as folder:
        servers = {name: postgres_server.new_server() for name in NAMES}
        for server in servers.values():
            closing_all.callback(postgres_server.remove, server)
        found = run(servers, folder, Size(given.spaces, given.moves, given.outage))
    print(table(rows(found)))
    return int(found.lost > 0 or found.out_of_place > 0)


def run(servers: dict[str, PostgresServer], folder: Path, size: Size) -> Found:
    """Share spaces between servers, of which the first keeps the directory, and see what becomes of them."""
    directory = servers[NAMES[0]].url("tests")
    shared = wiring.postgres_servers(parse_address(directory, named=folder), embedder=HashingEmbedder())
    for name, server in servers.items():
        shared.add(name, server.url("tests"))
    spaces = [f"team/{number}" for number in range(size.spaces)]
    placed = _make(directory, spaces)
    _told(f"{size.spaces} spaces made")
    found, began = Found(), time.monotonic()
    with _writing(directory, spaces, folder, size.writers) as logs:
        time.sleep(1)
        chosen = random.Random(0).sample(spaces, min(size.moves, len(spaces)))
        found.moved = [_moved(shared, space, placed) for space in chosen]
        _told(f"{len(found.moved)} moved")
        since = time.time()
        servers[_KILLED].kill()
        time.sleep(size.outage)
        until = time.time()
        servers[_KILLED].start()
        _told("one server killed and started again")
        found.drained = [one for one in shared.drain(_DRAINED, _silent) if isinstance(one, Relocation)]
        _told(f"{len(found.drained)} drained")
        time.sleep(1)
    found.seconds = time.monotonic() - began
    _read_logs(found, logs, {space for space in spaces if placed[space] != _KILLED}, since, until)
    _look(found, directory, shared, spaces)
    return found


def rows(found: Found) -> list[Row]:
    """Return what was found as figures."""
    written = sum(map(len, found.acknowledged.values()))
    pauses = sorted(1000 * one.paused for one in [*found.moved, *found.drained])
    waits = sorted(found.waits)
    return [
        Figure("acknowledged writes that were lost", found.lost, "", at_most(0), f"of {written:,}"),
        Figure("spaces that are not on exactly one server, or do not verify", found.out_of_place, "", at_most(0)),
        Figure("commits while all this went on", written / found.seconds, "per s"),
        Figure("spaces moved one by one, and by draining", len(pauses), "", None, f"{len(found.drained)} by draining"),
        Figure("writers held up by a move, median", statistics.median(pauses), "ms"),
        Figure("writers held up by a move, longest", pauses[-1], "ms"),
        Figure("a move, median", statistics.median(one.seconds for one in [*found.moved, *found.drained]), "s"),
        Figure("commits on the other servers while one was away", found.during_outage, ""),
        Figure("longest commit on a server that was not killed", waits[-1], "s", None, f"median {_median(waits)}"),
    ]


def _make(directory: str, spaces: Sequence[str]) -> dict[str, str]:
    """Make the spaces, and tell which server each is on."""
    known = Directory(database_of(parse_address(directory, named=_ROOT)))
    placed: dict[str, str] = {}
    for space in spaces:
        with closing(treering.open_ledger(_address(directory, space))) as ledger:
            make = Builder(SteppingClock(seed=space))
            ledger.commit(make.patch(make.node("First")))
        placement = known.find(space)
        placed[space] = placement.server if placement else ""
    return placed


def _moved(shared: ServerDirectory, space: str, placed: dict[str, str]) -> Relocation:
    """Move a space to the next server."""
    target = NAMES[(NAMES.index(placed[space]) + 1) % len(NAMES)]
    done = shared.move(space, target, _silent)
    assert isinstance(done, Relocation)
    placed[space] = target
    return done


@contextmanager
def _writing(directory: str, spaces: Sequence[str], folder: Path, writers: int) -> Iterator[list[Path]]:
    """Have several processes write to all spaces, each to its own share of them, and note what was acknowledged."""
    stop = folder / "stop"
    logs = [folder / f"written-{number}" for number in range(writers)]
    running = []
    for number, log in enumerate(logs):
        own = folder / f"spaces-{number}"
        own.write_text("\n".join(spaces[number::writers]))
        command = [sys.executable, "-m", "benchmarks.shared_servers", "write", directory, own, stop, str(number)]
        with log.open("wb") as out:
            running.append(subprocess.Popen(command, stdout=out, cwd=_ROOT))
    try:
        yield logs
    finally:
        stop.touch()
        codes = [process.wait(2 * _PATIENCE) for process in running]
    assert codes == [0] * len(running), "a writer failed"


def _write(directory: str, own: str, stop: str, seed: str) -> int:
    """Write to spaces in turn until a file is there; print each write that was acknowledged."""
    spaces = Path(own).read_text().splitlines()
    chosen, make = random.Random(seed), Builder(SteppingClock(seed=f"writer {seed}"))
    # The first opening loads what the others find loaded.
    ledgers: dict[str, Ledger] = {_address(directory, spaces[0]): treering.open_ledger(_address(directory, spaces[0]))}
    while not Path(stop).exists():
        space = chosen.choice(spaces)
        node = make.node(f"Node {make.node('x').id}")
        began = time.time()
        if _insist(ledgers, _address(directory, space), make.patch(node), Path(stop)):
            print(space, node.id, began, time.time() - began, flush=True)
    for ledger in ledgers.values():
        ledger.close()
    return 0


def _insist(ledgers: dict[str, Ledger], address: str, patch: Patch, stop: Path) -> bool:
    """Commit a patch, again and again where no server answers; tell whether it was done."""
    deadline = time.monotonic() + _PATIENCE
    while True:
        try:
            if address not in ledgers:
                ledgers[address] = treering.open_ledger(address, create=False)
            ledgers[address].commit(patch, idempotency_key=patch.id)
        except Unavailable:
            if stop.exists() or time.monotonic() > deadline:
                return False
            time.sleep(0.1)
        else:
            return True


def _read_logs(found: Found, logs: Sequence[Path], others: set[str], since: float, until: float) -> None:
    for line in "".join(log.read_text() for log in logs).splitlines():
        space, node, began, took = line.split()
        found.acknowledged.setdefault(space, []).append(node)
        if space in others:
            found.waits.append(float(took))
            if float(took) > 1:
                _told(f"SLOW {space} {time.strftime('%H:%M:%S', time.localtime(float(began)))} {took}")
            found.during_outage += since <= float(began) + float(took) <= until


def _look(found: Found, directory: str, shared: ServerDirectory, spaces: Sequence[str]) -> None:
    """Look for everything that was acknowledged, on whatever server its space is now."""
    for space in spaces:
        wanted = found.acknowledged.get(space, [])
        try:
            with closing(treering.open_ledger(_address(directory, space), create=False)) as ledger:
                found.lost += len(set(wanted) - ledger.heads(wanted).keys())
                found.events += ledger.verify().seq
        except TreeringError as error:
            found.out_of_place += 1
            _told(str(error))
    counts = {state.name: state.spaces for state in shared.states()}
    found.out_of_place += len(shared.unfinished()) + counts[_DRAINED] + abs(sum(counts.values()) - len(spaces))


def _address(directory: str, space: str) -> str:
    return f"{directory}&space={space}&directory=on"


def _median(values: Sequence[float]) -> str:
    return f"{statistics.median(values):.3f} s"


def _silent(_what: str, _done: int, _total: int | None) -> None:
    """Show no progress."""


def _told(what: str) -> None:
    print(f"{time.strftime('%H:%M:%S')} {what}", file=sys.stderr, flush=True)


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
