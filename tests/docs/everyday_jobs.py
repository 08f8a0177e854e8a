"""The page of everyday jobs: each on the command line, from Python and from an agent, as it really runs.

`python tests/docs/everyday_jobs.py` writes it.
"""

import io
import json
import os
import re
import subprocess
import tempfile
from collections.abc import Iterator, Mapping, Sequence
from contextlib import chdir, redirect_stdout
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from sample_repository import GIT, make_repository
from terminal import Terminal, environment

from treering.extensions.mcp.dispatcher import ToolDispatcher
from treering.sources.reading.access import files_below
from treering.verbs.engine import silent

PAGE = Path(__file__).parents[2] / "docs/reference/everyday-jobs.md"
LONG_LINES = 24
"""Lines of an answer that the page shows."""


@dataclass(frozen=True)
class Job:
    """Something people do every day, in three ways."""

    title: str
    about: str
    command: str
    python: str
    tool: str
    arguments: Mapping[str, Any]
    before: Sequence[str] = ()
    """The commands without the everyday ones, which are still valid. `{source}`, `{segment}` and so on are copied."""
    prepare: Mapping[str, str] = field(default_factory=dict)
    """What somebody else does first: by the name of a file, a text and what replaces it, divided by `→`."""
    folder: str = "acme-web"


JOBS = (
    Job(
        "Read a repository",
        "In the folder of the repository. It is safe to repeat: unchanged files change nothing.",
        "treering add .",
        'print(space.add(".").counts)',
        "wiki.ingest",
        {"path": "."},
        ("treering init", "treering ingest ."),
    ),
    Job(
        "Find where something is",
        "Each hit shows its place and the lines that answer.",
        "treering search where do sessions end -n 2",
        'for hit in space.search("where do sessions end", limit=2):\n    print(hit.path, hit.lines)',
        "wiki.query",
        {"mode": "search", "input": "where do sessions end", "options": {"limit": 2}},
        ('treering query --mode search "where do sessions end" --limit 2',),
    ),
    Job(
        "Record a decision on two lines",
        "The lines are what your editor shows. If they change, the decision becomes stale.",
        'treering decide "Fetching gives up" --because src/acme/fetch.py:9-10',
        'print(space.decide("Fetching gives up", because="src/acme/fetch.py:9-10").evidence[0].place)',
        "wiki.crystallize",
        {
            "kind": "decision",
            "question": "Does fetching give up?",
            "outcome": "Fetching gives up",
            "evidence": ["src/acme/fetch.py:9-10"],
            "status": "active",
        },
        (
            'treering query --mode search "fetch gives up after attempts"',
            'treering crystallize --kind decision --title "Fetching gives up" --question "Does fetching give up?" '
            "--outcome \"Fetching gives up\" --evidence '{source} {segment}' --status active",
        ),
    ),
    Job(
        "See what a change made stale",
        "A colleague has changed one of the two lines, and does not know of the decision.",
        "treering add . --worktree",
        'print(*space.add("src/acme/fetch.py").titles.values())',
        "wiki.ingest",
        {"path": "src/acme/fetch.py"},
        ("treering ingest . --worktree", "treering lint"),
        {"src/acme/fetch.py": "; raise the last error after `limit` attempts→; never give up"},
    ),
    Job(
        "Correct it",
        "Words of the title are enough. The old decision stays in the history.",
        'treering replace "fetching gives" "Fetching never gives up" --because src/acme/fetch.py:9-10',
        'space.replace("fetching gives", "Fetching never gives up", because="src/acme/fetch.py:9-10")\n'
        'print(space.show("Fetching never gives up").evidence)',
        "wiki.crystallize",
        {
            "mode": "supersede",
            "input": {
                "id": "fetching gives",
                "kind": "decision",
                "question": "Does fetching give up?",
                "outcome": "Fetching never gives up",
                "evidence": ["src/acme/fetch.py:9-10"],
            },
        },
        (
            "treering lint",
            'treering query --mode search "fetch never gives up"',
            "treering crystallize --mode supersede {known} --input "
            '\'{{"id": "{known}", "knowledge": {{"kind": "decision", "title": "Fetching never gives up", '
            '"question": "Does fetching give up?", "outcome": "Fetching never gives up", '
            '"evidence_refs": [{{"source_id": "{source}", "segment_id": "{segment}"}}]}}}}\'',
        ),
    ),
    Job(
        "See what happened this week",
        "Also of one file or decision: `treering log src/acme/fetch.py`.",
        'treering log --since "this week"',
        'print(space.log(since="this week"))',
        "wiki.query",
        {"mode": "recent", "input": {"since": "this week"}},
        ('treering query --mode recent --input \'{{"since": "{monday}T00:00:00Z"}}\'',),
    ),
    Job(
        "Ask",
        "The answer contains the knowledge for a task or a question, with its sources. "
        "In Python, `str()` returns it as context for a model.",
        "treering ask where are sessions kept",
        'print(space.ask("where are sessions kept"))',
        "wiki.query",
        {"task": "where are sessions kept"},
        ('treering query "where are sessions kept"',),
    ),
    Job(
        "Give it to an agent",
        "The agent has the four tools from then on, and starts each session with a brief. A program of yours passes "
        "the brief itself.",
        "treering connect claude-code",
        "print(space.brief())",
        "wiki.query",
        {"mode": "brief"},
        ("treering connect claude-code",),
    ),
    Job(
        "Share it with a colleague",
        "Over the repository's own remote. Your colleague runs the same command in a clone. Agents have no tool "
        "for it: `treering hook install --sync origin` shares with each push and pull.",
        "treering sync",
        'print(space.sync("origin").sent > 0)',
        "",
        {},
        ("treering sync",),
    ),
    Job(
        "Write a note without a repository",
        "In any folder. The first note creates the space.",
        'treering add --note "The lamp is lit at dusk."',
        'print(space.add(note="The lamp is lit at dusk.").counts)',
        "wiki.ingest",
        {"items": [{"text": "The lamp is lit at dusk."}]},
        ("treering init", "echo 'The lamp is lit at dusk.' | treering ingest -"),
        folder="notes",
    ),
)


class Run:
    """The jobs in a place of their own, so that no way sees what another has written."""

    def __init__(self, place: Path) -> None:
        self.place = place
        (place / "notes").mkdir(parents=True)
        (place / "acme-web").mkdir()
        make_repository(place / "acme-web")
        _git(place, "init", "--quiet", "--bare", "--initial-branch=main", "remote")
        _git(place / "acme-web", "remote", "set-url", "origin", str(place / "remote"))
        _git(place / "acme-web", "push", "--quiet", "origin", "main")

    def begin(self, job: Job) -> Path:
        """Do what somebody else does before a job, and return its folder."""
        for name, change in job.prepare.items():
            file = self.place / job.folder / name
            before, _, after = change.partition("→")
            text = file.read_text(encoding="utf-8")
            assert before in text
            file.write_text(text.replace(before, after), encoding="utf-8")
        return self.place / job.folder


def screens(place: Path) -> Iterator[str]:
    """Run the commands, and yield what each prints."""
    run = Run(place)
    for job in JOBS:
        with Terminal(run.begin(job), place) as terminal:
            code, printed = terminal.run(job.command)
            assert code == 0, (job.command, printed)
            yield _stable(printed, place)


def printed_by_python(place: Path) -> Iterator[str]:
    """Run the Python code of the jobs, and yield what each prints."""
    import treering

    run = Run(place)
    with _environment(place):
        for job in JOBS:
            output = io.StringIO()
            with (
                chdir(run.begin(job)),
                treering.open(create=True, channel="user", background=False) as space,
                redirect_stdout(output),
            ):
                exec(job.python, {"space": space})
            yield _stable(output.getvalue(), place)


def answers(place: Path) -> Iterator[str]:
    """Call the tools as an agent does, and yield what a model reads; an empty text if there is no tool for a job."""
    run = Run(place)
    dispatchers: dict[Path, ToolDispatcher] = {}
    with _environment(place):
        for job in JOBS:
            folder = run.begin(job)
            with chdir(folder):
                if folder not in dispatchers:
                    space = f"sqlite:{folder}/.treering/treering.db"
                    (folder / ".treering").mkdir()
                    dispatchers[folder] = ToolDispatcher(space, files_below(folder))
                yield _stable(_answer(dispatchers[folder], job), place) if job.tool else ""
        for dispatcher in dispatchers.values():
            dispatcher.close()


def _answer(dispatcher: ToolDispatcher, job: Job) -> str:
    verb = job.tool.removeprefix("wiki.")
    answer = dispatcher.answer(verb, job.arguments, actor="claude-code", progress=silent, check=lambda: None)
    assert not answer.is_error, (job.title, answer.text)
    return answer.text


@dataclass(frozen=True)
class Effort:
    """What a person types and copies for a job."""

    keystrokes: int
    commands: int
    copied: int


def effort(commands: Sequence[str]) -> Effort:
    """Count what is typed, with Enter; an id is copied, and not typed."""
    copied = sum(len(_COPIED.findall(one)) for one in commands)
    typed = sum(len(_COPIED.sub("", one).replace("{{", "{").replace("}}", "}")) + 1 for one in commands)
    return Effort(typed, len(commands), copied)


_COPIED = re.compile(r"(?<!\{)\{(?:source|segment|known)\}(?!\})")


def run_before(place: Path) -> None:
    """Run the longer commands, copying ids from what the one before found. Raises `AssertionError` if one fails."""
    run = Run(place)
    names = {"monday": "2026-01-05"}
    for job in JOBS:
        with Terminal(run.begin(job), place) as terminal:
            for command in job.before:
                code, printed = terminal.run(command.format(**names))
                assert code == 0, (command, printed)
                if "--mode search" in command or "lint" in command:
                    names |= _ids_in(json.loads(terminal.run(f"{command} --json")[1]))


def _ids_in(data: Any) -> dict[str, str]:
    """Return the ids that a person copies from a search or from lint."""
    if isinstance(data, list):
        findings = (finding for report in data for finding in report["findings"])
        return {"known": next(one for finding in findings for one in finding["ids"] if one.startswith("know:"))}
    passage = next(one for one in data["hits"] if one["segment_id"])
    return {"source": passage["source_id"], "segment": passage["segment_id"]}


def rendered(place: Path) -> str:
    """Return the page."""
    ways = zip(JOBS, screens(place / "a"), printed_by_python(place / "b"), answers(place / "c"), strict=True)
    parts = [_INTRODUCTION]
    for number, (job, screen, printed, answer) in enumerate(ways, start=1):
        parts += [f"## {number}. {job.title}", job.about, _fence("text", f"$ {job.command}\n{_shortened(screen)}")]
        parts += ["From Python:", _fence("py", job.python), _fence("text", _shortened(printed))]
        if job.tool:
            call = json.dumps({"name": job.tool, "arguments": job.arguments}, ensure_ascii=False)
            is_same = _shortened(answer) == _shortened(printed)
            shown = "The answer is the same text." if is_same else _fence("text", _shortened(answer))
            parts += ["From an agent:", _fence("json", call), shown]
    return "\n\n".join(parts) + "\n"


def _shortened(text: str) -> str:
    lines = text.rstrip("\n").splitlines()
    return "\n".join(lines if len(lines) <= LONG_LINES else [*lines[:LONG_LINES], "…"])


def _fence(language: str, text: str) -> str:
    return f"```{language}\n{text}\n```"


def _stable(text: str, place: Path) -> str:
    """Return a text in which everything that differs from run to run is the same in all of them."""
    found: dict[str, str] = {}
    text = text.replace(str(place), "/home/ada")
    ids = r"\b(src|node|know|act|work|patch|job|ans):[0-9a-z]{26}"
    text = re.sub(ids, lambda one: _numbered(one[1], one[0], found), text)
    text = re.sub(r"\b(src|know):…[0-9a-z]{7}", r"\1:…3x8q6ra", text)
    text = re.sub(r"\bseg_[0-9a-z]{13}", "seg_4t9rk2m8w5x1c", text)
    text = re.sub(r"(treering:\w+(?: origin=\"[^\"]*\")?) [0-9a-f]{16}>>", r"\1 5d0c31f7a9b2e846>>", text)
    text = re.sub(r"\d{4}-\d\d-\d\dT\d\d:\d\d:[\d.]+Z", "2026-01-07T09:30:00Z", text)
    text = re.sub(r"\d{4}-\d\d-\d\d \d\d:\d\d", "2026-01-07 09:30", text)
    text = re.sub(r"\b20(?!26-01-07)\d\d-\d\d-\d\d\b", "2026-01-05", text)
    text = re.sub(r"\(\d[\d,]* bytes\)", "(5,996 bytes)", text)
    return re.sub(r"in \d+(?:\.\d+)? s\b", "in 0.4 s", text).strip("\n")


def _numbered(kind: str, identity: str, found: dict[str, str]) -> str:
    last = "abcdefghjkmnpqrstvwxyz"
    return found.setdefault(identity, f"{kind}:01kefz5b1jt7w2y9a5m3x8q6r{last[len(found) % len(last)]}")


class _environment:  # noqa: N801 - it is called like a function
    """Run with the settings of documentation, and with no other space."""

    def __init__(self, place: Path) -> None:
        self._settings = {**environment(place), **GIT}

    def __enter__(self) -> None:
        self._before = dict(os.environ)
        os.environ.update(self._settings)
        os.environ.pop("TREERING_SPACE", None)

    def __exit__(self, *_: object) -> None:
        os.environ.clear()
        os.environ.update(self._before)


def _git(folder: Path, *arguments: str) -> None:
    subprocess.run(["git", *arguments], cwd=folder, env={**os.environ, **GIT}, capture_output=True, check=True)


_INTRODUCTION = """\
# Everyday jobs

Ten jobs, each with one command: as a person types it, from a program, and as an agent calls it. \
`python tests/docs/everyday_jobs.py` runs them in a small repository and writes this page. \
`…` marks shortened answers. In Python, `space` is the space of the folder:

```py
import treering

with treering.open(create=True, channel="user") as space:
    ...
```"""

if __name__ == "__main__":
    with tempfile.TemporaryDirectory() as place:
        PAGE.write_text(rendered(Path(place)), encoding="utf-8")
