"""Hooks in the middle of a session: what they cost, how often they show something, and whether it was of use.

There are no recorded sessions with their repositories. The history of this repository stands for them: a commit is a
session, its files those that are edited; the memory is that of the oldest of the commits.
"""

import json
import os
import subprocess
import sys
from collections.abc import Iterator, Sequence
from pathlib import Path

import treering
from benchmarks.costs import cost_of, typical
from benchmarks.figures import Figure, Row, at_most
from benchmarks.plan import Plan, workplace
from benchmarks.source_tree import git
from treering.extensions.coding_agents.before_edit import lines_before_edit
from treering.extensions.coding_agents.edits import FileEdit
from treering.extensions.coding_agents.shown_lines import show_lines
from treering.retrieval.text.analysis import estimate_tokens
from treering.surfaces.python.space import Space

_COMMITS, _QUICK_COMMITS = 400, 20
_MAX_FILES = 30
_ROUNDS = 7
_HERE = Path(__file__).resolve().parents[1]


def measure(plan: Plan) -> list[Row]:
    """Replay the edits of history, then call each hook as a client does, through the resident process."""
    with workplace() as folder:
        repository = folder / "repository"
        subprocess.run(["git", "clone", "--quiet", str(_HERE), str(repository)], check=True)
        sessions = _sessions(repository, _QUICK_COMMITS if plan.quick else _COMMITS)
        space = folder / "space.db"
        with treering.open(f"sqlite:{space}", background=False, whole=False) as opened:
            opened.ingest("repo", input={"path": str(repository)}, options={"commit": sessions[-1][0]})
            rows = list(_replayed(opened.asked_from(repository), space, repository, sessions))
        return [*rows, *_costs(space, repository)]


def _sessions(repository: Path, most: int) -> list[tuple[str, list[str]]]:
    log = git(repository, "log", "--no-merges", f"-n{most}", "--format=%x1e%H", "--name-only")
    found = []
    for record in log.split("\x1e")[1:]:
        commit, *paths = record.strip().split("\n")
        files = [path for path in paths if path]
        if 0 < len(files) <= _MAX_FILES:
            found.append((commit, files))
    return found


def _replayed(
    opened: Space, space: Path, repository: Path, sessions: Sequence[tuple[str, list[str]]]
) -> Iterator[Figure]:
    edits = edits_told = together = together_used = tests = tests_used = tokens = 0
    for commit, files in sessions:
        for path in files:
            lines = lines_before_edit(opened, [FileEdit(path)], repository)
            text = show_lines(space, commit, lines)
            edits, edits_told = edits + 1, edits_told + bool(text)
            tokens += estimate_tokens(text) if text else 0
            others = [other for other in files if other != path]
            for line in lines:
                is_used = any(other in line.text for other in others)
                if line.key.startswith("together:"):
                    together, together_used = together + 1, together_used + is_used
                elif line.key.startswith("tests:"):
                    tests, tests_used = tests + 1, tests_used + is_used
    yield Figure("edits before which something is shown", 100 * edits_told / edits, "%", None, f"of {edits:,} files")
    yield Figure("lines of companions with a file edited too", 100 * together_used / max(together, 1), "%")
    yield Figure("lines of tests with a file edited too", 100 * tests_used / max(tests, 1), "%", None, f"of {tests:,}")
    yield Figure("shown in a session", tokens / len(sessions), "tokens")


def _costs(space: Path, repository: Path) -> Iterator[Figure]:
    """Call each hook in a process of its own, once the resident process has loaded what it needs."""
    given = {"cwd": str(repository), "prompt": "the retry limit of an upload is ignored", "error": "Error: an upload"}
    given |= {"tool_input": {"file_path": "src/treering/core/scope.py"}}
    os.environ |= {"TREERING_RESIDENT": "1", "TREERING_SPACE": f"sqlite:{space}"}
    for word, most in (("begin", 0.1), ("edit", 0.3), ("prompt", 0.3), ("failure", 0.3)):
        command = [sys.executable, "-m", "treering", "session", word]
        for _ in range(3):
            _call(command, json.dumps(given), repository)
        costs = [cost_of(lambda command=command: _call(command, json.dumps(given), repository)) for _ in range(_ROUNDS)]
        yield Figure(f"`treering session {word}`", typical(costs).wall, "s", at_most(most))


def _call(command: Sequence[str], given: str, folder: Path) -> None:
    subprocess.run(command, input=given, text=True, cwd=folder, stdout=subprocess.DEVNULL, check=True)
