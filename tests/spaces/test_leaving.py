"""A process that leaves what it opened open ends cleanly."""

import random
import subprocess
import sys
from pathlib import Path

import pytest

import treering
from treering.testing.fakes import HashingEmbedder

PROCESS = Path(__file__).with_name("leaving_process.py")


def leave(*arguments):
    command = [sys.executable, str(PROCESS), *map(str, arguments)]
    return subprocess.run(command, check=False, capture_output=True, text=True, timeout=300)


def leave_often(folder, times):
    chance = random.Random(7)
    for number in range(times):
        left = leave("model", folder / str(number), chance.uniform(0, 0.6))
        assert (left.returncode, left.stdout, left.stderr) == (0, "", "")


def test_a_process_that_leaves_projects_open_ends_after_the_batch_it_is_at(tmp_path):
    left = leave("slow", tmp_path / "projects")
    assert (left.returncode, left.stdout, left.stderr) == (0, "begun\nended\n", "")
    again = treering.open_projects(tmp_path / "projects", background=False, embedder=HashingEmbedder())
    with again as projects, projects.engine("acme") as engine:
        lag = engine.index.vectors.lag()
        assert 0 < lag.pending < lag.total


@pytest.mark.nightly
def test_a_process_that_leaves_projects_open_ends_cleanly_within_the_model(tmp_path):
    leave_often(tmp_path, 4)


@pytest.mark.torture
def test_many_processes_that_leave_projects_open_end_cleanly(tmp_path):
    leave_often(tmp_path, 200)
