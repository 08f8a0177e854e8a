"""The process that makes vectors behind a command, started in whatever folder the command was."""

import os
import subprocess
import sys
import time
from dataclasses import replace
from pathlib import Path

from treering.surfaces.cli.flags import WriteFlags
from treering.surfaces.cli.session import embed_later
from treering.surfaces.python.space import open_space
from treering.system.address import parse_address

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

    monkeypatch.setattr(subprocess, "Popen", note)
    monkeypatch.setenv("TREERING_BACKGROUND", "1")
    address = parse_address("served://ada:hunter2@db/x", named=tmp_path)
    with open_space(f"sqlite:{tmp_path / 'space.db'}", background=False) as space:
        space.ingest("source", input={"text": "We retry three times."})
        # No store behind a server is here yet: this one is a file under the address of one.
        embed_later(replace(space, address=address), WriteFlags())
    ((arguments, given),) = started
    assert tuple(arguments) == (*TREERING, "vectors", "--quiet")
    assert given == "served://ada:hunter2@db/x"


def pending(space: Path) -> int:
    with open_space(f"sqlite:{space}", background=False) as opened:
        return opened.engine.index.vectors.lag().pending
