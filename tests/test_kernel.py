"""The kernel works without the extensions and without their packages."""

import json
import subprocess
import sys
from pathlib import Path

import pytest

from kernel_alone import COMMANDS

PROGRAM = Path(__file__).with_name("kernel_alone.py")


@pytest.fixture(scope="module")
def outcomes(tmp_path_factory: pytest.TempPathFactory) -> dict[str, list[object]]:
    """The exit code and the output of each command, in a process that can import the kernel only."""
    folder = tmp_path_factory.mktemp("kernel")
    done = subprocess.run([sys.executable, PROGRAM, folder], capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    outcomes: dict[str, list[object]] = json.loads(done.stdout)
    return outcomes


@pytest.mark.parametrize("line", COMMANDS)
def test_kernel_runs_a_command_without_extensions(outcomes, line):
    code, output = outcomes[line]

    assert code == 0, output


def test_kernel_search_shows_the_line_that_answers(outcomes):
    assert "3: Acme retries three times." in outcomes["search|how often does Acme retry"][1]


def test_kernel_brief_names_decisions_and_rules(outcomes):
    brief = outcomes["brief"][1]

    assert "Retry three times" in brief
    assert "Never retry on 404" in brief
