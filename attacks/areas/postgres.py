"""Attacks on spaces in Postgres: workers and the server are killed, restarted under load, and run out of disk.

What a worker was told is kept has to be there, once, with its index; and nothing may be called damaged. Without a
Postgres server on this machine nothing is tried.
"""

import os
import signal
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from functools import partial
from pathlib import Path
from random import Random

from tests.postgres_server import CannotStart, PostgresServer, new_server, remove

import treering
from attacks.attack import Attack, Count
from treering.ports.ledger import Selection
from treering.testing.fakes import HashingEmbedder

_SPACES = ("hot", "hot", "hot", "a", "b", "c")
_EACH = 80
_KILLS = 12
_RESTARTS = 5
_PAUSE = 1.5
_FIRST = 3  # what each worker keeps before the attack begins
_DISK = "700m"
_LEFT = 3 * 2**20

_WORK = """
import logging, sys, time
import treering
from treering.core.errors import TreeringError
from treering.ports.ledger import Selection
from treering.testing.fakes import HashingEmbedder
logging.disable()
address, name, count = sys.argv[1], sys.argv[2], int(sys.argv[3])
def insist(action):
    end = time.monotonic() + 300
    while True:
        try:
            return action()
        except TreeringError as error:
            if error.code != "unavailable" or time.monotonic() > end:
                raise
            print("told", flush=True)
            time.sleep(0.1)
space = insist(lambda: treering.open(address, channel="user", background=False, embedder=HashingEmbedder()))
for number in range(count):
    said = f"Tea {name} {number}"
    given = {"kind": "preference", "title": said, "payload": {"statement": f"{said}, please."}}
    made = insist(lambda: space.crystallize("knowledge", input=given, options={"idempotency_key": said}))
    print("kept", made.ids[0], said, flush=True)
    if number % 5 == 0:
        insist(space.embed_pending)
space.close()
"""


def workers_killed(folder: Path) -> Count:
    """Kill workers at any moment, and begin others in their place."""

    def kill(_server: PostgresServer, workers: list["_Worker"], chance: Random) -> None:
        for _ in range(_KILLS):
            time.sleep(chance.uniform(0.2, _PAUSE))
            killed = chance.choice(workers)
            killed.kill()
            killed.begin()

    return _attacked(folder, kill)


def server_killed(folder: Path) -> Count:
    """Kill the server under its workers, and begin it again."""

    def kill(server: PostgresServer, _workers: list["_Worker"], chance: Random) -> None:
        for _ in range(_RESTARTS):
            time.sleep(chance.uniform(0.2, _PAUSE))
            server.kill()
            server.start()

    return _attacked(folder, kill)


def server_restarted(folder: Path) -> Count:
    """Stop the server as an administrator does, and begin it again."""

    def restart(server: PostgresServer, _workers: list["_Worker"], chance: Random) -> None:
        for _ in range(_RESTARTS):
            time.sleep(chance.uniform(0.2, _PAUSE))
            server.end(signal.SIGINT)
            server.start()

    return _attacked(folder, restart)


def disk_full(folder: Path) -> Count:
    """Fill the disk of the server under its workers, then make room, and begin the server again where it gave up."""
    if os.name != "posix" or os.geteuid() != 0:
        return Count(0, 0, note="only root can give the server a small disk")
    place = folder / "disk"
    place.mkdir()
    folder.chmod(0o755)  # the server runs as somebody else
    mount = ["mount", "-t", "tmpfs", "-o", f"size={_DISK},mode=755", "tmpfs", str(place)]
    if subprocess.run(mount, capture_output=True, check=False).returncode:
        return Count(0, 0, note="a small disk cannot be mounted here")
    before, tempfile.tempdir = tempfile.tempdir, str(place)
    try:
        return _attacked(folder, partial(_fill, place))
    finally:
        tempfile.tempdir = before
        subprocess.run(["umount", "--lazy", str(place)], check=False)


def _fill(place: Path, server: PostgresServer, workers: list["_Worker"], _chance: Random) -> None:
    free = os.statvfs(place)
    ballast = place / "ballast"
    ballast.write_bytes(bytes(max(0, free.f_bavail * free.f_frsize - _LEFT)))
    end = time.monotonic() + 30
    while not any(worker.was_told for worker in workers) and time.monotonic() < end:
        time.sleep(0.2)
    time.sleep(2)
    ballast.unlink()
    server.kill()
    server.start()


class _Worker:
    """A process that writes to a space, and what it was told is kept. One that is begun again repeats everything."""

    def __init__(self, folder: Path, address: str, space: str, number: int) -> None:
        self.space = space
        self._command = [sys.executable, "-c", _WORK, address, f"{folder.name} {number}", str(_EACH)]
        self._told = folder / f"worker-{number}"
        self.begin()

    @property
    def was_told(self) -> bool:
        """Whether it met an error so far."""
        return "told" in self._lines()

    def begin(self) -> None:
        """Begin the process."""
        with self._told.open("a") as out:
            self._process = subprocess.Popen(self._command, stdout=out, stderr=subprocess.PIPE, text=True)

    def wait(self) -> None:
        """Wait until something is kept."""
        while self._process.poll() is None and len(self._lines()) < _FIRST:
            time.sleep(0.1)

    def kill(self) -> None:
        """End the process at once."""
        self._process.kill()
        self._process.communicate()

    def kept(self) -> dict[str, str]:
        """Wait for its end; return the titles of what it was told is kept, by id."""
        _, errors = self._process.communicate(timeout=600)
        if self._process.returncode:
            raise RuntimeError(errors)
        words = (line.split(" ", 2) for line in self._lines() if line.startswith("kept "))
        return {identity: title for _, identity, title in words}

    def _lines(self) -> list[str]:
        return self._told.read_text().split("\n")[:-1]  # the last may have been cut off


def _attacked(folder: Path, attack: Callable[[PostgresServer, list[_Worker], Random], None]) -> Count:
    """Have workers write while they are attacked; count what was acknowledged, and what of it is wrong."""
    with _served() as server:
        if isinstance(server, str):
            return Count(0, 0, note=f"no Postgres server can be started here: {server}"[:200])
        workers = [_Worker(folder, server.url(space=space), space, number) for number, space in enumerate(_SPACES)]
        for worker in workers:
            worker.wait()
        attack(server, workers, Random(7))
        kept: dict[str, dict[str, str]] = {space: {} for space in _SPACES}
        for worker in workers:
            kept[worker.space] |= worker.kept()
        told = sum(worker.was_told for worker in workers)
        wrong = [fault for space, known in kept.items() for fault in _faults(server.url(space=space), known)]
        note = f"{told} of {len(workers)} workers were told to repeat; {'; '.join(wrong)}".removesuffix("; ")
        return Count(sum(map(len, kept.values())), len(wrong), note=note[:300])


def _faults(address: str, known: dict[str, str]) -> Iterator[str]:
    """Say what is lost, there twice, or damaged in a space."""
    with treering.open(address, channel="user", background=False, embedder=HashingEmbedder()) as space:
        heads = space.engine.ledger.heads(known)
        yield from (f"{identity} is lost" for identity in known if identity not in heads)
        titles = [item.title for item in space.engine.ledger.select(Selection(types=("knowledge",)))]
        yield from (f"{title} is there twice" for title in {each for each in titles if titles.count(each) > 1})
        if not space.lint("audit").verified:
            yield "the audit does not verify"
        yield from map(str, space.engine.index.upkeep.differences())
        while space.embed_pending():
            pass
        lag = space.engine.index.vectors.lag()
        if lag.pending:
            yield f"{lag.pending} texts got no vector"


@contextmanager
def _served() -> Iterator[PostgresServer | str]:
    try:
        server = new_server()
    except CannotStart as error:
        yield str(error)
        return
    try:
        yield server
    finally:
        remove(server)


ATTACKS: Sequence[Attack] = (
    Attack("what a worker wrote is lost or doubled when workers are killed", workers_killed),
    Attack("the same, when the server is killed", server_killed),
    Attack("the same, when the server is restarted", server_restarted),
    Attack("the same, when the server's disk is full", disk_full),
)
