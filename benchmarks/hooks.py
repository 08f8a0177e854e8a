"""Hooks in the middle of a session: what they cost, how often they tell something, and whether it was of use.

There are no recorded sessions with their repositories. The history of this repository stands for them: a commit is a
session, its subject the prompt, its files those that are edited next; the memory is that of the oldest of the commits.
"""

import json
import subprocess
import sys
from collections.abc import Iterator, Sequence
from pathlib import Path

import treering
from benchmarks.costs import cost_of, typical
from benchmarks.figures import Figure, Row, at_most
from benchmarks.plan import Plan, workplace
from benchmarks.source_tree import git
from treering.parts.coding_agents import hook_memory
from treering.retrieval.text.analysis import estimate_tokens
from treering.stores.sqlite.ready import ready_folder, write_ready

_COMMITS, _QUICK_COMMITS = 400, 20
_MOST_FILES = 30
_ENTRIES = 2_000
_ROUNDS = 7
_HERE = Path(__file__).resolve().parents[1]


def measure(plan: Plan) -> list[Row]:
    """Replay history, then call each hook as a client does, with as large a table as there is."""
    with workplace() as folder:
        repository = folder / "repository"
        subprocess.run(["git", "clone", "--quiet", str(_HERE), str(repository)], check=True)
        sessions = _sessions(repository, _QUICK_COMMITS if plan.quick else _COMMITS)
        space = repository / ".treering/treering.db"
        space.parent.mkdir()
        with treering.open(f"sqlite:{space}", background=False, whole=False) as opened:
            opened.ingest("repo", input={"path": str(repository)}, options={"commit": sessions[-1][0]})
            hook_memory.keep_table(opened)
        table = hook_memory.read_table(space)
        assert table is not None
        return [*_replayed(table, space, sessions), *_costs(table, space, repository)]


def _sessions(repository: Path, most: int) -> list[tuple[str, str, list[str]]]:
    log = git(repository, "log", "--no-merges", f"-n{most}", "--format=%x1e%H%x1f%s", "--name-only")
    found = []
    for record in log.split("\x1e")[1:]:
        head, *paths = record.strip().split("\n")
        commit, subject = head.split("\x1f")
        files = [path for path in paths if path]
        if 0 < len(files) <= _MOST_FILES:
            found.append((commit, subject, files))
    return found


def _replayed(
    table: hook_memory.HookTable, space: Path, sessions: Sequence[tuple[str, str, list[str]]]
) -> Iterator[Figure]:
    prompts = prompts_used = edits = edits_told = together = together_used = tokens = 0
    for commit, subject, files in sessions:
        found = hook_memory.speaking_of(table, subject)
        text = hook_memory.told(space, commit, found, tokens=hook_memory.PROMPT_TOKENS)
        prompts += bool(text)
        prompts_used += bool(text) and any(path in files for one in found for path in one.paths)
        tokens += estimate_tokens(text) if text else 0
        for path in files:
            governing, more = hook_memory.governing(table, [path]), hook_memory.changed_with(table, [path])
            text = hook_memory.told(space, commit, governing, more, tokens=hook_memory.EDIT_TOKENS)
            edits, edits_told = edits + 1, edits_told + bool(text)
            tokens += estimate_tokens(text) if text else 0
            partners = [other for other, _ in table.together.get(path, ())]
            together, together_used = together + bool(partners), together_used + any(one in files for one in partners)
    many = len(sessions)
    yield Figure("prompts on which something is told", 100 * prompts / many, "%", None, f"of {many} commits")
    yield Figure("of these, it names a file edited next", 100 * prompts_used / max(prompts, 1), "%")
    yield Figure("edits before which something is told", 100 * edits_told / edits, "%", None, f"of {edits:,} files")
    used = 100 * together_used / max(together, 1)
    yield Figure("files told as changing together, of which one is edited too", used, "%", None, f"of {together:,}")
    yield Figure("told in a session", tokens / many, "tokens")


def _costs(table: hook_memory.HookTable, space: Path, repository: Path) -> Iterator[Figure]:
    """Call each hook on a table of the most entries there may be."""
    one = table.entries[0]
    rows = [
        [f"know:{number:026}", 1, f"{one.text} number {number}", [f"a/{number}.py"], "", True, []]
        for number in range(_ENTRIES)
    ]
    told = {"version": 2, "head": table.head, "entries": rows, "together": table.together, "branches": {}}
    write_ready(ready_folder(space) / "hooks.table", told)
    given = {"session_id": "one", "cwd": str(repository), "prompt": f"{one.text} number 7"}
    given |= {"tool_input": {"file_path": "a/7.py"}, "error": f"Error: {one.text}"}
    for word, most in (("edit", 0.15), ("prompt", 0.3), ("failure", 0.3)):
        command = [sys.executable, "-m", "treering", "session", word]
        costs = [cost_of(lambda command=command: _call(command, json.dumps(given), repository)) for _ in range(_ROUNDS)]
        cost = typical(costs)
        yield Figure(
            f"`treering session {word}`, {_ENTRIES:,} entries", cost.cpu, "s CPU", at_most(most), f"{cost.wall:.2f} s"
        )


def _call(command: Sequence[str], given: str, folder: Path) -> None:
    subprocess.run(command, input=given, text=True, cwd=folder, stdout=subprocess.DEVNULL, check=True)
