"""What reaches a coding agent unasked: pointers for a prompt, replayed from the history of public repositories.

The space of a repository is that of a commit some way back. Each later commit is a task: its subject is the prompt,
and the files it changes are the right answer. Clones are looked for as in `benchmarks.code_data`.
"""

from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from statistics import median

from benchmarks import agent_briefs, agent_candidates, agent_cards, agent_lines, agent_packs, agent_prompts
from benchmarks.agent_prompts import answered
from benchmarks.code_data import clone_of
from benchmarks.code_files import space_at
from benchmarks.data import MissingData
from benchmarks.figures import Figure, Missing, Row, at_least, at_most
from benchmarks.plan import Plan
from benchmarks.source_tree import git

TUNED_ON = ("celery/celery", "honojs/hono")
REPORTED_ON = (
    "pallets/flask",
    "junegunn/fzf",
    "BurntSushi/ripgrep",
    "google/gson",
    "encode/httpx",
    "trpc/trpc",
    "spf13/cobra",
    "astral-sh/uv",
)
_TASKS, _QUICK_TASKS = 80, 8
_MAX_FILES = 20
_COMMITS_READ = 400
_FIRST = 3
_WITHOUT_NEED = Path(__file__).with_name("prompts_without_need.txt")


@dataclass(frozen=True, slots=True)
class Task:
    """A commit: its subject, and the files it changes that the space knows."""

    prompt: str
    files: frozenset[str]


def measure(plan: Plan) -> list[Row]:
    """Measure what an agent gets unasked, and the lines, candidates and packs it gets when it asks."""
    return [
        *agent_cards.measure(),
        *agent_briefs.measure(plan),
        *_prompts(plan),
        *agent_prompts.measure(plan),
        *agent_lines.measure(plan),
        *agent_candidates.measure(),
    ]


def _prompts(plan: Plan) -> Iterator[Row]:
    """Replay the history of each repository, then ask what needs no answer."""
    for repository in TUNED_ON + REPORTED_ON:
        note = "tuned on" if repository in TUNED_ON else ""
        try:
            yield from _rows(repository, clone_of(repository), plan, note)
        except MissingData as missing:
            yield Missing(f"pointers, {repository}", str(missing))


def _rows(repository: str, clone: Path, plan: Plan, note: str) -> Iterator[Row]:
    commit, tasks = tasks_of(clone, _QUICK_TASKS if plan.quick else _TASKS)
    with space_at(clone, commit, plan.cache) as space:
        told = [(task, answered(space, task.prompt)) for task in tasks]
        without_need = [line for line in _WITHOUT_NEED.read_text().splitlines() if line]
        unwanted = [answered(space, prompt) for prompt in without_need]
    shown = [(task, one) for task, one in told if one.tokens]
    right = [any(path in task.files for path, _ in one.places[:_FIRST]) for task, one in shown]
    of = f"of {len(tasks)} tasks; {note}".rstrip("; ")
    yield Figure(f"{repository}: prompt, tasks with pointers", _share(len(shown), len(tasks)), "%", at_least(60), of)
    yield Figure(
        f"{repository}: prompt, a changed file in the first {_FIRST}", _share(sum(right), len(right)), "%", at_least(75)
    )
    noise = sum(1 for one in unwanted if one.tokens)
    yield Figure(f"{repository}: prompt, pointers without need", _share(noise, len(unwanted)), "%", at_most(2))
    if shown:
        yield Figure(f"{repository}: prompt, pointers", median(one.tokens for _, one in shown), "tokens", at_most(150))
        yield Figure(f"{repository}: prompt, time", 1000 * median(one.seconds for _, one in told), "ms", at_most(300))
    yield from agent_packs.rows(repository, clone, commit, plan.cache, [(task.prompt, task.files) for task in tasks])


def tasks_of(clone: Path, most: int) -> tuple[str, list[Task]]:
    """Return the commit to read, and the tasks after it: the newest commits that change files it has."""
    log = git(clone, "log", "--no-merges", f"-n{_COMMITS_READ}", "--format=%x1e%H%x1f%s", "--name-only")
    records = [record.strip().split("\n") for record in log.split("\x1e")[1:]]
    tasks: list[Task] = []
    for place, (head, *paths) in enumerate(records):
        commit, subject = head.split("\x1f")
        files = frozenset(filter(None, paths))
        if 0 < len(files) <= _MAX_FILES and not subject.lower().startswith(("bump", "chore", "build(deps", "merge")):
            tasks.append(Task(subject, files))
        if len(tasks) == most or place == len(records) - 1:
            before = git(clone, "rev-parse", f"{commit}~1").strip()
            known = frozenset(git(clone, "ls-tree", "-r", "--name-only", before).splitlines())
            return before, [Task(one.prompt, one.files & known) for one in tasks if one.files & known]
    raise MissingData(f"{clone} has no commits.")


def _share(part: int, whole: int) -> float:
    return 100 * part / whole if whole else 0.0
