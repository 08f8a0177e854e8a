"""A process whose clock is years ahead, or that dies or hangs with a lease, tries to stop the work of all others."""

import json
import os
import subprocess
import sys
from collections.abc import Sequence
from datetime import timedelta
from pathlib import Path

from attacks.attack import Attack, Count

_YEARS = timedelta(days=5 * 365)
_SECONDS = 30

_AHEAD = f"""
import sys
from datetime import timedelta
from treering.system.machine import SystemClock
right = SystemClock.now
SystemClock.now = lambda self: right(self) + timedelta(days={_YEARS.days})
"""
_TAKE_AND_DIE = """
import os, treering
space = treering.open(sys.argv[1], background=False)
space.ingest("source", input={"items": [{"text": "Bees hum."}]})
space.engine.leases.take(sys.argv[2], "ahead", seconds=2)
os._exit(9)
"""
_EMBED = """
import sys, treering
from treering.testing.fakes import HashingEmbedder
with treering.open(sys.argv[1], background=False, embedder=HashingEmbedder()) as space:
    space.embed_pending()
    print(space.engine.index.vectors.lag().pending)
"""
_HANG = """
import sys, threading, treering
space = treering.open(sys.argv[1], background=False)
space.ingest("source", input={"items": [{"text": "Bees hum."}]})
space.engine.leases.take("vectors", "hanging", seconds=86_400)
print("held", flush=True)
sys.stdin.read()
"""
_WAIT = """
import sys, treering
from treering.core.errors import Unavailable
from treering.models.vectoriser import BackgroundVectoriser
from treering.testing.fakes import HashingEmbedder
with treering.open(sys.argv[1], background=False) as space:
    engine = space.engine
    vectors, leases = engine.index.vectors, engine.leases
    waiting = BackgroundVectoriser(vectors, leases, HashingEmbedder(), engine.clock, lease_seconds=1)
    try:
        waiting.finish()
    except Unavailable as error:
        print("told", error.details.get("process"))
"""


def _vectors(folder: Path) -> Count:
    """Die with the lease for vectors, the clock five years ahead; count those that wait for ever for them."""
    address = f"sqlite:{folder / 'vectors.db'}"
    _run(_AHEAD + _TAKE_AND_DIE, address, "vectors")
    return Count(1, int(_run(_EMBED, address) != "0"))


def _memories(folder: Path) -> Count:
    """Die with the lease of a discussion, the clock ahead; count updates by the command line that stay busy."""
    space = f"sqlite:{folder / 'memories.db'}"
    said = [{"role": "user", "content": f"We decided to drink tea number {number}."} for number in range(60)]
    (folder / "chat.json").write_text(json.dumps(said))
    _treering("discussion", "record", "tea", str(folder / "chat.json"), "--no-update", "--space", space)
    _run(_AHEAD + _TAKE_AND_DIE, space, "discussion:/discussion/tea")
    told = _treering("discussion", "update", "tea", "--wait", "10", "--space", space, "--json")
    return Count(1, int(not told or bool(json.loads(told)["made"]["busy"])))


def _hanging(folder: Path) -> Count:
    """Hold the lease for vectors and hang; count those that wait without an end, or cannot take it away."""
    address = f"sqlite:{folder / 'hanging.db'}"
    with subprocess.Popen(
        [sys.executable, "-c", _HANG, address], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
    ) as holder:
        try:
            assert holder.stdout is not None
            holder.stdout.readline()
            endless = _run(_WAIT, address) != f"told {holder.pid}"
            _treering("unlock", "vectors", "--space", address)
            kept = _run(_EMBED, address) != "0"
        finally:
            holder.kill()
    return Count(2, endless + kept)


def _run(program: str, *arguments: str) -> str:
    """Run a Python program for a bounded time; return its last line, nothing where it took longer."""
    try:
        done = subprocess.run(
            [sys.executable, "-c", program, *arguments], capture_output=True, text=True, timeout=_SECONDS, check=False
        )
    except subprocess.TimeoutExpired:
        return ""
    return done.stdout.strip().rpartition("\n")[2]


def _treering(*arguments: str) -> str:
    environment = {**os.environ, "TREERING_BACKGROUND": "0"}
    done = subprocess.run(
        [sys.executable, "-m", "treering", *arguments],
        env=environment,
        capture_output=True,
        text=True,
        timeout=_SECONDS,
        check=False,
    )
    return done.stdout


ATTACKS: Sequence[Attack] = (
    Attack("dying with the lease for vectors, the clock five years ahead", _vectors),
    Attack("dying with the lease of a discussion, the clock five years ahead", _memories),
    Attack("hanging with a lease of a day", _hanging),
)
