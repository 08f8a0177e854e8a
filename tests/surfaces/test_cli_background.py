"""The process that makes vectors behind a command, started in whatever folder the command was."""

import os
import signal
import subprocess
import sys
import time
from contextlib import suppress
from dataclasses import replace
from pathlib import Path

import pytest

from treering.models.vectoriser import BATCH
from treering.surfaces.cli import run, session
from treering.surfaces.cli.commands import spaces
from treering.surfaces.cli.flags import Access, WriteFlags
from treering.surfaces.cli.session import embed_later
from treering.surfaces.python.space import open_space
from treering.system.address import parse_address
from treering.system.machine import is_busy
from treering.verbs.engine import silent
from treering.verbs.query.space_status import minutes_left, pace_notes

TREERING = (sys.executable, "-P", "-m", "treering")
MINUTE = 60


def test_it_takes_no_module_from_the_folder_it_is_started_in(tmp_path):
    marker, space = tmp_path / "it-ran", tmp_path / "space.db"
    folder = tmp_path / "web"
    folder.mkdir()
    for name in ("treering", "typer", "apsw"):
        (folder / f"{name}.py").write_text(f"open({str(marker)!r}, 'w').close()\n")
    (folder / "notes.md").write_text("# Notes\n\nWe retry three times.\n")
    environment = {**os.environ, "TREERING_BACKGROUND": "1"}
    command = [*TREERING, "ingest", "notes.md", "--space", f"sqlite:{space}"]
    subprocess.run(command, cwd=folder, env=environment, check=True, capture_output=True, timeout=5 * MINUTE)

    until = time.monotonic() + 2 * MINUTE
    while not marker.exists() and pending(space) and time.monotonic() < until:
        time.sleep(0.2)
    assert not marker.exists()
    assert not pending(space)


def test_a_password_reaches_it_by_its_environment_and_by_no_argument(tmp_path, monkeypatch):
    started = []
    real = subprocess.Popen

    def note(arguments, **options):
        started.append((arguments, options["env"]["TREERING_SPACE"]))
        return real([sys.executable, "-c", ""], **options)

    monkeypatch.setenv("TREERING_BACKGROUND", "1")
    address = parse_address("served://ada:hunter2@db/x", named=tmp_path)
    with open_space(f"sqlite:{tmp_path / 'space.db'}", background=False) as space:
        space.ingest("source", input={"text": "We retry three times."})
        monkeypatch.setattr(subprocess, "Popen", note)
        # No store behind a server is here yet: this one is a file under the address of one.
        embed_later(replace(space, address=address), WriteFlags())
    ((arguments, given),) = started
    assert tuple(arguments) == (*TREERING, "vectors", "--quiet")
    assert given == "served://ada:hunter2@db/x"


def test_command_starts_background_work_if_tables_are_missing(tmp_path, monkeypatch):
    started = []
    monkeypatch.setenv("TREERING_BACKGROUND", "1")
    monkeypatch.setenv("TREERING_EMBEDDER", "static")
    monkeypatch.setattr(session, "start_behind", lambda *command, **_: started.append(command))
    monkeypatch.setattr("treering.stores.rows.followed_table.MIN_SAVED_PASSAGES", 1)
    address = parse_address(f"sqlite:{tmp_path / 'space.db'}", named=tmp_path)
    with open_space(address, background=False) as space:
        space.ingest("source", input={"text": "We retry three times."})
    with session.opened(address) as space:
        space.query("search", input={"text": "retry"})
    assert started == [("vectors", "--quiet")]
    with open_space(address, background=False, whole=False) as space:
        space.engine.vectoriser.work_alone(silent)
    with session.opened(address):
        pass
    assert len(started) == 1


@pytest.mark.parametrize(("mode", "starts"), [("audit", False), ("", False), ("repair", True)])
def test_only_lint_modes_that_write_start_embedding(tmp_path, monkeypatch, mode, starts):
    started = []
    monkeypatch.setenv("TREERING_BACKGROUND", "1")
    monkeypatch.setattr(session, "start_behind", lambda *command, **_: started.append(command))
    address = f"sqlite:{tmp_path / 'space.db'}"
    with open_space(address, background=False) as space:
        space.ingest("source", input={"text": "We retry three times."})
    assert run(["lint", *filter(None, [mode]), "--space", address]) == 0
    assert bool(started) == starts


@pytest.mark.parametrize("quiet", [False, True])
def test_vectors_prepares_tables_for_searches(tmp_path, monkeypatch, quiet):
    monkeypatch.setenv("TREERING_EMBEDDER", "static")
    monkeypatch.setattr("treering.stores.rows.followed_table.MIN_SAVED_PASSAGES", 1)
    address = f"sqlite:{tmp_path / 'space.db'}"
    with open_space(address, background=False) as space:
        space.ingest("source", input={"text": "We retry three times."})
        assert space.engine.vectoriser.has_tables_to_prepare()
        spaces.vectors(Access(space=address), quiet=quiet)
        assert not space.engine.vectoriser.has_tables_to_prepare()


@pytest.fixture
def at_work(tmp_path, monkeypatch):
    """A space of some hundred texts, and the number of the process that makes their vectors."""
    monkeypatch.setenv("TREERING_BACKGROUND", "1")
    space = tmp_path / "space.db"
    with open_space(f"sqlite:{space}", background=False) as opened:
        texts = [f"Note {number}: " + "the outbox retries three times. " * 40 for number in range(150)]
        opened.ingest("source", input={"items": [{"text": text} for text in texts]})
        embed_later(opened, WriteFlags())
        until = time.monotonic() + 2 * MINUTE
        while not (held := opened.engine.leases.held()) and time.monotonic() < until:
            time.sleep(0.02)
    yield space, held[0].process
    with suppress(ProcessLookupError):
        os.kill(held[0].process, signal.SIGKILL)


@pytest.mark.skipif(sys.platform == "win32", reason="Windows gives it its priority when it is started")
def test_it_lets_everybody_else_go_first_and_status_tells_of_it(at_work):
    space, process = at_work
    assert os.getpriority(os.PRIO_PROCESS, process) == 19
    if sys.platform == "linux":
        assert os.sched_getscheduler(process) == os.SCHED_BATCH
    told = treering("status", "--space", f"sqlite:{space}")
    assert f"Process {process} is embedding " in told


@pytest.mark.skipif(sys.platform == "win32", reason="there is no SIGTERM")
def test_asked_to_end_it_leaves_within_a_text_and_somebody_else_can_go_on_at_once(at_work):
    space, process = at_work
    before = pending(space)
    os.kill(process, signal.SIGTERM)
    wait_for_the_end_of(process)
    with open_space(f"sqlite:{space}", background=False) as opened:
        assert before - BATCH <= opened.engine.index.vectors.lag().pending
        assert opened.engine.leases.holder("vectors") is None


@pytest.mark.skipif(sys.platform == "win32", reason="there is no SIGKILL")
def test_killed_it_loses_nothing_and_unlock_stops_the_next_one(at_work, monkeypatch):
    space, process = at_work
    os.kill(process, signal.SIGKILL)
    wait_for_the_end_of(process)
    with open_space(f"sqlite:{space}", background=False) as opened:
        left = opened.engine.index.vectors.lag()
        assert left.total == 150
        assert opened.engine.index.upkeep.differences() == []
        assert opened.engine.leases.clear("vectors").process == process
        embed_later(opened, WriteFlags())
        until = time.monotonic() + 2 * MINUTE
        while not (held := opened.engine.leases.held()) and time.monotonic() < until:
            time.sleep(0.02)
        treering("unlock", "vectors", "--space", f"sqlite:{space}")
        wait_for_the_end_of(held[0].process)
        assert 0 < opened.engine.index.vectors.lag().pending <= left.pending
        assert opened.engine.leases.held() == []


def test_status_tells_how_long_it_will_take_at_the_pace_so_far(tmp_path):
    space = tmp_path / "space.db"
    with open_space(f"sqlite:{space}", background=False) as opened:
        opened.ingest("source", input={"text": "We retry three times."})
        opened.engine.leases.take("vectors", "somebody", seconds=60)
        pace_notes(opened.engine)(1, 300)
    told = treering("status", "--space", f"sqlite:{space}")
    assert f"Process {os.getpid()} is embedding 1 passage: about 5 minutes left. Searches work meanwhile." in told


def test_time_left_is_estimated_by_several_runs(tmp_path):
    with open_space(f"sqlite:{tmp_path / 'space.db'}", background=False) as opened:

        def minutes_after(*notes):
            note = pace_notes(opened.engine)  # of one process
            for made, seconds in notes:
                note(made, seconds)
            return minutes_left(opened.engine, 600)

        assert minutes_left(opened.engine, 600) is None
        assert minutes_after((0, 1.0)) is None
        assert minutes_after((100, 10), (3000, 300)) == pytest.approx(1.0, abs=0.01)
        assert minutes_after((2, 5)) == pytest.approx(1.1, abs=0.01)  # a small one mostly loads the model
        assert minutes_after((10_000, 4_000)) == pytest.approx(4.0, abs=0.2)


@pytest.mark.parametrize(("load", "busy"), [(0.0, False), (4.4, False), (4.6, True), (90.0, True)])
def test_a_machine_is_busy_where_more_wants_to_run_than_it_has_cores(monkeypatch, load, busy):
    monkeypatch.setattr(os, "cpu_count", lambda: 4)
    monkeypatch.setattr(os, "getloadavg", lambda: (load, 9.0, 9.0), raising=False)
    assert is_busy() is busy


def test_a_machine_that_tells_no_load_is_never_busy(monkeypatch):
    monkeypatch.delattr(os, "getloadavg", raising=False)
    assert not is_busy()


def treering(*arguments: str) -> str:
    done = subprocess.run([*TREERING, *arguments], check=True, capture_output=True, text=True, timeout=5 * MINUTE)
    return done.stdout


def wait_for_the_end_of(process: int) -> None:
    until = time.monotonic() + 2 * MINUTE
    while is_running(process) and time.monotonic() < until:
        time.sleep(0.02)
    assert not is_running(process)


def is_running(process: int) -> bool:
    """Tell whether a process runs; one of this process's children that has ended is taken away."""
    with suppress(ChildProcessError):
        os.waitpid(process, os.WNOHANG)
    try:
        os.kill(process, 0)
    except ProcessLookupError:
        return False
    return True


def pending(space: Path) -> int:
    with open_space(f"sqlite:{space}", background=False) as opened:
        return opened.engine.index.vectors.lag().pending
