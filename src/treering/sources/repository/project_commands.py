"""The commands of a project by what they are for: what its task runners name, then what its build tool does."""

import re
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Any

from treering.sources.repository.project_manifests import parsed, table, text_of

_MAX_COMMANDS_PER_JOB = 2
_JOBS: Mapping[str, frozenset[str]] = {
    "test": frozenset("test tests unittest unit-test unit-tests test-unit test:unit pytest".split()),
    "check": frozenset({"check", "ci"}),
    "lint": frozenset("lint lints style eslint clippy flake8 ruff lint:js lint:check".split()),
    "format": frozenset("format fmt".split()),
    "types": frozenset("types typecheck type-check typing mypy tsc".split()),
    "build": frozenset("build compile dist".split()),
    "docs": frozenset("docs doc documentation docs:build build-docs html".split()),
}
"""The job that a target, script or session does, by its name."""
_JOB_OF = {name: job for job, names in _JOBS.items() for name in names}

_MAKE_TARGET = re.compile(r"^([A-Za-z0-9][\w.:/-]*)[ \t]*::?(?!=)", re.MULTILINE)
_JUST_RECIPE = re.compile(r"^@?([A-Za-z][\w-]{0,60})\b[^:=\n]*:(?!=)", re.MULTILINE)
_TASK = re.compile(r"^  ([A-Za-z][\w:-]*):\s*$", re.MULTILINE)
_NOX_SESSION = re.compile(
    r"^@(?:nox\.)?session\b[^\n]*(?:\n[^\n@d][^\n]*){0,20}\n(?:@[^\n]*\n){0,10}def (\w+)", re.MULTILINE
)
_NOX_NAME = re.compile(r"""^@(?:nox\.)?session\([^)]{0,300}?\bname\s*=\s*["']([\w-]+)["']""", re.MULTILINE)
_TOX_ENV = re.compile(r"^\[testenv:([\w-]+)\]", re.MULTILINE)


@dataclass(frozen=True, slots=True)
class ProjectCommand:
    """What to run for a job."""

    job: str
    run: str
    path: str
    """The file that declares it."""


def commands_of(paths: set[str], texts: Mapping[str, str], languages: Sequence[str]) -> Iterator[ProjectCommand]:
    """Return the commands that files of a project declare; `paths` are all of its files, `texts` those of some."""
    yield from _of_runner(texts, ("Makefile", "GNUmakefile", "makefile"), _MAKE_TARGET, "make")
    yield from _of_runner(texts, ("justfile", "Justfile"), _JUST_RECIPE, "just")
    yield from _of_runner(texts, ("Taskfile.yml", "Taskfile.yaml"), _TASK, "task")
    yield from _named(
        [
            path.rpartition("/")[2]
            for path in paths
            if path.startswith(("scripts/", "script/")) and path.count("/") == 1
        ],
        lambda name: next(path for path in (f"scripts/{name}", f"script/{name}") if path in paths),
        "scripts/" if any(path.startswith("scripts/") for path in paths) else "script/",
    )
    yield from _of_package(paths, texts.get("package.json", ""))
    yield from _of_python(texts)
    yield from _of_build_tool(paths, texts, languages)
    if ".pre-commit-config.yaml" in paths:
        yield ProjectCommand("lint", "pre-commit run --all-files", ".pre-commit-config.yaml")


def chosen_commands(commands: Iterable[ProjectCommand]) -> list[ProjectCommand]:
    """Return the first commands of each job, in the order of the jobs."""
    by_job: dict[str, dict[str, ProjectCommand]] = {job: {} for job in _JOBS}
    for one in commands:
        if len(by_job[one.job]) < _MAX_COMMANDS_PER_JOB:
            by_job[one.job].setdefault(one.run, one)
    return [one for of_job in by_job.values() for one in of_job.values()]


def _of_runner(
    texts: Mapping[str, str], paths: Sequence[str], target: re.Pattern[str], run: str
) -> Iterator[ProjectCommand]:
    path = next((path for path in paths if path in texts), "")
    names = dict.fromkeys(found[1] for found in target.finditer(texts.get(path, "")))
    yield from _named(names, lambda name: f"{run} {name}", path)


def _named(names: Iterable[str], command: Callable[[str], str], path: str) -> Iterator[ProjectCommand]:
    """Return the commands whose names are those of a job, the plainest name of a job first."""
    known = [name for name in names if name in _JOB_OF]
    for name in sorted(known, key=lambda name: name != _JOB_OF[name]):
        yield ProjectCommand(_JOB_OF[name], command(name), path)


def _of_package(paths: set[str], text: str) -> Iterator[ProjectCommand]:
    data = parsed("package.json", text)
    scripts = {name: text_of(script) for name, script in table(data, "scripts").items()}
    real = [name for name, script in scripts.items() if script and "no test specified" not in script]
    manager = _package_manager(paths, text_of(data.get("packageManager")))
    runs_plainly = manager in ("pnpm", "yarn")
    yield from _named(
        real,
        lambda name: (
            f"{manager} {name}" if runs_plainly or (manager, name) == ("npm", "test") else f"{manager} run {name}"
        ),
        "package.json",
    )


def _package_manager(paths: set[str], declared: str) -> str:
    if declared:
        return declared.partition("@")[0]
    locks = {"bun.lock": "bun", "bun.lockb": "bun", "pnpm-lock.yaml": "pnpm", "yarn.lock": "yarn"}
    return next((manager for lock, manager in locks.items() if lock in paths), "npm")


def _of_python(texts: Mapping[str, str]) -> Iterator[ProjectCommand]:
    nox = texts.get("noxfile.py", "")
    sessions = dict.fromkeys(
        [*(one[1] for one in _NOX_NAME.finditer(nox)), *(one[1] for one in _NOX_SESSION.finditer(nox))]
    )
    yield from _named(sessions, lambda name: f"nox -s {name}", "noxfile.py")
    data = parsed("pyproject.toml", texts.get("pyproject.toml", ""))
    for path, scripts in _script_tables(data):
        yield from _named(scripts, path, "pyproject.toml")
    tool = table(data, "tool")
    tox = "tox.ini" if "tox.ini" in texts else "pyproject.toml" if "tox" in tool else ""
    if tox:
        named = [one[1] for one in _TOX_ENV.finditer(texts.get("tox.ini", ""))] or [*table(tool, "tox", "env")]
        yield ProjectCommand("test", "tox", tox)
        yield from _named((name for name in named if _JOB_OF.get(name) != "test"), lambda name: f"tox -e {name}", tox)
    configured = {
        "pytest.ini": "pytest.ini" in texts,
        "pyproject.toml": "pytest" in tool,
        "setup.cfg": "[tool:pytest]" in texts.get("setup.cfg", ""),
        "tox.ini": "[pytest]" in texts.get("tox.ini", ""),
    }
    yield from (ProjectCommand("test", "pytest", path) for path, is_there in configured.items() if is_there)


def _script_tables(data: Mapping[str, Any]) -> Iterator[tuple[Callable[[str], str], Mapping[str, Any]]]:
    """Return the tables of scripts in a pyproject.toml, each with the function that makes the command of a name."""
    tool = table(data, "tool")
    yield "poe {}".format, table(tool, "poe", "tasks")
    yield "pdm run {}".format, table(tool, "pdm", "scripts")
    for environment, settings in table(tool, "hatch", "envs").items():
        prefix = "" if environment == "default" else f"{environment}:"
        scripts = table(settings, "scripts") if isinstance(settings, dict) else {}
        yield partial(_hatch_command, prefix), scripts


def _hatch_command(prefix: str, name: str) -> str:
    return f"hatch run {prefix}{name}"


def _of_build_tool(paths: set[str], texts: Mapping[str, str], languages: Sequence[str]) -> Iterator[ProjectCommand]:
    """Return what the build tool of a main language does by itself in a project with that manifest."""
    gradle = "./gradlew" if "gradlew" in paths else "gradle"
    tools = (
        ("Cargo.toml", ("Rust",), "cargo test", "cargo build"),
        ("go.mod", ("Go",), "go test ./...", "go build ./..."),
        ("pom.xml", ("Java", "Kotlin"), "mvn test", "mvn package"),
        ("build.gradle", ("Java", "Kotlin"), f"{gradle} test", f"{gradle} build"),
        ("build.gradle.kts", ("Java", "Kotlin"), f"{gradle} test", f"{gradle} build"),
        ("mix.exs", ("Elixir",), "mix test", "mix compile"),
    )
    for path, of, test, build in tools:
        if path in texts and not set(of).isdisjoint(languages):
            yield from (ProjectCommand("test", test, path), ProjectCommand("build", build, path))
