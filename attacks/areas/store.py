"""Attacks on what is stored: false damage, erasure under contention and kills, empty files, modes, damaged rows."""

import json
import os
import shutil
import signal
import socket
import stat
import subprocess
import sys
import time
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from functools import partial
from pathlib import Path
from random import Random
from typing import Any
from urllib.request import ProxyHandler, Request, build_opener

import treering
from attacks.attack import Attack, Count
from attacks.damage import change_row, flip_bytes
from treering.core.errors import TreeringError
from treering.stores.rows.packing import unpack
from treering.testing.fakes import HashingEmbedder

change_packed_row = partial(change_row, unpack=unpack)

_WORD = "zygomorphic"
_AUDITS = 20
_ERASERS = 8
_DAMAGES = 40


def false_damage_in_one_process(folder: Path) -> Count:
    """Search, write and audit in turn; count the audits and exports that call the sound space damaged."""
    false = 0
    with _opened(folder / "space.db") as space:
        for number in range(_AUDITS):
            space.query("search", input={"text": "bees hum"})
            _note(space, number)
            space.crystallize("knowledge", input=_preference(number))
            false += not space.lint("audit").verified
            false += _is_refused(lambda place=folder / f"{number}": space.export(place))
    return Count(2 * _AUDITS, false)


def false_damage_over_http(folder: Path) -> Count:
    """Do the same through a server, from four clients at once."""
    _opened(folder / "space.db").close()
    with _served(folder / "space.db") as post, ThreadPoolExecutor(4) as clients:

        def work(name: str) -> list[bool]:
            false = []
            for number in range(_AUDITS // 2):
                post("query", {"mode": "search", "input": {"text": "bees hum"}})
                post("crystallize", {"mode": "knowledge", "input": _preference(f"{name}{number}")})
                false.append(not post("lint", {"mode": "audit"})["verified"])
            return false

        told = [false for found in clients.map(work, "abcd") for false in found]
    return Count(len(told), sum(told))


def erasures_told_to_have_failed(folder: Path) -> Count:
    """Erase from eight processes at once; count those told of a failure although their object is gone."""
    with _opened(folder / "space.db") as space:
        ids = [_note(space, f"{_WORD}{number}") for number in range(_ERASERS * 2)]
        address = f"sqlite:{folder / 'space.db'}"
        shares = [ids[number::_ERASERS] for number in range(_ERASERS)]
        erasers = [_python(_ERASE, address, *share) for share in shares]
        told = [eraser.communicate(timeout=300)[0].split() for eraser in erasers]
        failed = sum(share.count("failed") for share in told)
        left = len(space.engine.ledger.heads(ids))
        space.lint("repair", options={"apply": True})
        bytes_left = _WORD.encode() in _bytes(folder)
    return Count(len(ids), failed, note=f"{left} objects left, bytes {'left' if bytes_left else 'overwritten'}")


def bytes_left_by_a_killed_erasure(folder: Path) -> Count:
    """Kill the process that erases between the commit and the overwriting; count where opening leaves the bytes."""
    left = 0
    for number in range(3):
        place = folder / str(number)
        with _opened(place / "space.db") as space:  # stays open: closing the last connection would tidy up by chance
            identity = _note(space, _WORD)
            eraser = _python(_ERASE_AND_DIE, f"sqlite:{place / 'space.db'}", identity)
            eraser.communicate(timeout=120)
            assert eraser.returncode == -signal.SIGKILL
            with _opened(place / "space.db"):
                left += _WORD.encode() in _bytes(place)
    return Count(3, left)


def erased_words_in_jobs_and_keys(folder: Path) -> Count:
    """Look for an erased origin in the records of jobs, and for an idempotency key."""
    with _opened(folder / "space.db") as space:
        report = space.ingest("source", input={"items": [{"text": "Gone.", "origin": _WORD}]})
        made = space.crystallize("knowledge", input=_preference(0), options={"idempotency_key": f"key {_WORD}"})
        space.erase([item.source_id for item in report.items])
        in_job = _WORD in repr(space.ingest("status"))
        space.erase([identity for identity in made.ids if identity.startswith("know:")])
        in_keys = any(_WORD in repr(record.row) for record in space.engine.ledger.records())
    return Count(2, in_job + in_keys)


def empty_files_taken_for_spaces(folder: Path) -> Count:
    """Put nothing where a space was, or a log without its file; count what is taken for a new, empty space."""
    taken = 0
    with _opened(folder / "space.db") as space:
        _note(space, "kept")
        log = (folder / "space.db-wal").read_bytes()
    for content, beside in ((b"", None), (b"", log), (None, log)):
        place = folder / f"case-{taken}-{content is None}-{beside is None}"
        place.mkdir()
        if content is not None:
            (place / "space.db").write_bytes(content)
        if beside is not None:
            (place / "space.db-wal").write_bytes(beside)
        command = [
            sys.executable,
            "-m",
            "treering",
            "ingest",
            "-",
            "--title",
            "x",
            "--space",
            f"sqlite:{place}/space.db",
        ]
        done = subprocess.run(command, input="x", text=True, capture_output=True, env=_environment(), check=False)
        taken += done.returncode != 7
    return Count(3, taken)


def files_others_can_read(folder: Path) -> Count:
    """Make a space, an anchor and an export under a loose umask, from the command line; count what others may read."""
    if os.name != "posix":
        return Count(0, 0, note="modes are those of POSIX")
    environment = _environment() | {"TREERING_ANCHOR": str(folder / "anchor" / "head.json")}
    commands = (["ingest", "-", "--title", "x"], ["export", str(folder / "export")])
    before = os.umask(0)
    try:
        for command in commands:
            line = [sys.executable, "-m", "treering", *command, "--space", f"sqlite:{folder}/a/b/space.db"]
            subprocess.run(line, input="x", text=True, capture_output=True, env=environment, check=True)
    finally:
        os.umask(before)
    found = list(folder.rglob("*"))
    return Count(len(found), sum(bool(stat.S_IMODE(path.stat().st_mode) & 0o077) for path in found))


def foreign_errors_from_damage(folder: Path) -> Count:
    """Change rows and flip bytes in copies of a space; count the reads that end with an error that is not ours."""
    with _opened(folder / "space.db") as space:
        for number in range(3):
            _note(space, number)
            space.crystallize("knowledge", input=_preference(number))
        space.embed_pending()
    tried, foreign = 0, set[str]()
    for seed in range(_DAMAGES):
        copy = Path(shutil.copy(folder / "space.db", folder / f"{seed}.db"))
        done = (change_packed_row if seed % 2 else flip_bytes)(copy, Random(seed))
        for read in _READS:
            tried += 1
            try:
                with _opened(copy) as space:
                    read(space)
            except TreeringError:
                continue
            except Exception as error:  # noqa: BLE001 - what is counted
                foreign.add(f"{type(error).__name__} after {done}")
    return Count(tried, len(foreign), note="; ".join(sorted(foreign))[:200])


ATTACKS: Sequence[Attack] = (
    Attack("a sound space is called damaged, one process", false_damage_in_one_process),
    Attack("a sound space is called damaged, over HTTP", false_damage_over_http),
    Attack("erasures of eight processes reported as failed", erasures_told_to_have_failed),
    Attack("a killed erasure leaves its bytes after the next opening", bytes_left_by_a_killed_erasure),
    Attack("erased words in jobs and idempotency keys", erased_words_in_jobs_and_keys),
    Attack("zero bytes or a lone log taken for a new space", empty_files_taken_for_spaces),
    Attack("new files that others can read", files_others_can_read),
    Attack("damaged files let foreign errors out", foreign_errors_from_damage),
)

_READS: Sequence[Callable[[treering.Space], object]] = (
    lambda space: space.query("search", input={"text": "bees hum"}, options={"withdrawn": True}),
    lambda space: space.query("context", input={"task": "bees"}),
    lambda space: space.query("recent", options={"descend": True}),
    lambda space: space.lint("structure"),
    lambda space: space.lint("audit"),
    lambda space: space.ingest("status"),
    lambda space: list(space.engine.ledger.records()),
)

_BEGIN = """
import os, signal, sys
import treering
from treering.core.errors import TreeringError
from treering.stores.sqlite.ledger.ledger import SqliteLedger
from treering.testing.fakes import HashingEmbedder
space = treering.open(sys.argv[1], channel="user", background=False, embedder=HashingEmbedder())
"""
_ERASE = f"""{_BEGIN}
for identity in sys.argv[2:]:
    try:
        space.erase([identity])
        print("erased")
    except TreeringError:
        print("failed")
"""
_ERASE_AND_DIE = f"""{_BEGIN}
SqliteLedger.compact = lambda self: os.kill(os.getpid(), signal.SIGKILL)
space.erase(sys.argv[2:])
"""


def _opened(path: Path) -> treering.Space:
    return treering.open(f"sqlite:{path}", channel="user", background=False, embedder=HashingEmbedder())


def _note(space: treering.Space, name: object) -> str:
    text = f"Bees hum, says {name}."
    report = space.ingest("source", input={"items": [{"text": text, "origin": f"note:{name}"}]})
    return str(report.items[0].source_id)


def _preference(name: object) -> dict[str, Any]:
    return {"kind": "preference", "title": f"Tea {name}", "payload": {"statement": f"Tea {name}, please."}}


def _is_refused(action: Callable[[], object]) -> bool:
    try:
        action()
    except TreeringError:
        return True
    return False


def _python(program: str, *arguments: str) -> subprocess.Popen[str]:
    return subprocess.Popen([sys.executable, "-c", program, *arguments], stdout=subprocess.PIPE, text=True)


def _bytes(folder: Path) -> bytes:
    return b"".join(path.read_bytes() for path in folder.rglob("*") if path.is_file())


def _environment() -> dict[str, str]:
    return {**os.environ, "TREERING_BACKGROUND": "0"}


@contextmanager
def _served(path: Path) -> Iterator[Callable[[str, object], Any]]:
    """Serve a space on this machine; return what posts to a verb and gives its report."""
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        port = probe.getsockname()[1]
    command = [sys.executable, "-m", "treering", "serve", "--port", str(port), "--space", f"sqlite:{path}"]
    server = subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, env=_environment(), text=True)
    opener = build_opener(ProxyHandler({}))

    def post(verb: str, body: object) -> Any:
        request = Request(f"http://127.0.0.1:{port}/v1/wiki/{verb}", json.dumps(body).encode())
        request.add_header("Content-Type", "application/json")
        with opener.open(request, timeout=60) as answer:
            return json.load(answer)

    try:
        assert server.stdout
        server.stdout.readline()
        time.sleep(0.1)
        yield post
    finally:
        server.kill()
        server.communicate()
