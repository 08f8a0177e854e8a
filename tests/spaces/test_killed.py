"""A process that is killed in the middle of long work leaves a whole space, and the work can be done again."""

import subprocess
import sys
from pathlib import Path

import pytest

PROCESS = Path(__file__).with_name("killed_process.py")
ROLES = ("back up", "erase", "export", "import", "move", "move again", "reindex", "sync", "upgrade")


@pytest.fixture(autouse=True)
def _data_of_its_own(tmp_path, monkeypatch):
    monkeypatch.setenv("TREERING_DATA_DIR", str(tmp_path.with_name(f"{tmp_path.name}-data")))


def kill(role, folder, count):
    """Kill a process so often; some may have ended first, for no run has exactly as many steps as another."""
    command = [sys.executable, str(PROCESS), role, str(folder), "7", str(count)]
    done = subprocess.run(command, check=False, capture_output=True, text=True, timeout=7_200)
    assert (done.returncode, done.stderr) == (0, "")
    assert int(done.stdout.split()[0]) > 0.9 * count


@pytest.mark.sampled(2)
@pytest.mark.parametrize("role", ROLES)
def test_a_process_that_is_killed_leaves_a_whole_space(tmp_path, role):
    kill(role, tmp_path, 5)


@pytest.mark.torture
@pytest.mark.parametrize("role", ROLES)
def test_many_processes_that_are_killed_leave_whole_spaces(tmp_path, role):
    kill(role, tmp_path, 250)
