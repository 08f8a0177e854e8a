"""The commands of a project by purpose.

Task runners and build tools come first, then the packages in its folders, then the steps of its CI. A job takes its
commands from the first of these that has any.
"""

import re
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import partial

from treering.extensions.code.manifests import cargo_aliases, is_about, read_manifest

_MAX_COMMANDS_PER_JOB = 2
_MAX_STEP_CHARS = 120
_JOBS: Mapping[str, frozenset[str]] = {
    "test": frozenset("test tests unittest unit-test unit-tests test-unit pytest".split()),
    "check": frozenset({"check", "ci"}),
    "lint": frozenset("lint lints style eslint clippy flake8 ruff lint-js lint-check lint-all linting linters".split()),
    "format": frozenset("format fmt formatting".split()),
    "types": frozenset("types typecheck type-check typing mypy tsc pyright check-types".split()),
    "build": frozenset({"build", "compile"}),
    "docs": frozenset("docs doc documentation docs-build build-docs html".split()),
}
"""Names of targets, scripts or sessions by job, with `-` for `:` and `_`."""
_JOB_OF = {name: job for job, names in _JOBS.items() for name in names}
_MEMBER_JOBS = frozenset({"test", "lint", "build"})
"""Jobs that fall back to a folder's command if the project as a whole has none."""

_MAKE_TARGET = re.compile(r"^([A-Za-z0-9][\w.:/-]*)[ \t]*::?(?!=)", re.MULTILINE)
_GONE = re.compile(r"^([\w-]+):[^\n]*\n(?:\t[^\n]*\n){0,5}?\t[^\n]*setup\.py test\b", re.MULTILINE)
"""Targets that run a command which setuptools no longer supports."""
_RECIPE = re.compile(r"^([\w-]+):[^\n]*\n((?:\t[^\n]*(?:\n|\Z))+)", re.MULTILINE)
_ENTERED = re.compile(r"(?<![\w-])(?:cd|serve|-C) (?:\./)?([A-Za-z][\w-]*)(?![\w$-])")
"""A folder that a recipe enters or serves."""
_INVOKE_TASK = re.compile(r"^@(?:invoke\.)?task\b[^\n]*(?:\n[^\n@d][^\n]*){0,20}\ndef (\w+)", re.MULTILINE)
_JUST_RECIPE = re.compile(r"^@?([A-Za-z][\w-]{0,60})\b[^:=\n]*:(?!=)", re.MULTILINE)
_TASK = re.compile(r"^  ([A-Za-z][\w:-]*):\s*$", re.MULTILINE)
_XTASK = re.compile(r"^\s*(?:Some\()?\"([\w-]{1,60})\"\)?\s*=>", re.MULTILINE)
_NOX_SESSION = re.compile(
    r"^@(?:nox\.)?session\b[^\n]*(?:\n[^\n@d][^\n]*){0,20}\n(?:@[^\n]*\n){0,10}def (\w+)", re.MULTILINE
)
_NOX_NAME = re.compile(r"""^@(?:nox\.)?session\([^)]{0,300}?\bname\s*=\s*["']([\w-]+)["']""", re.MULTILINE)
_TOX_ENV = re.compile(r"^\[testenv:([\w-]+)\]", re.MULTILINE)
_RUNNERS: Sequence[tuple[Sequence[str], Sequence[re.Pattern[str]], str]] = (
    (("Makefile", "GNUmakefile", "makefile"), (_MAKE_TARGET,), "make {}"),
    (("justfile", "Justfile"), (_JUST_RECIPE,), "just {}"),
    (("Taskfile.yml", "Taskfile.yaml"), (_TASK,), "task {}"),
    (("xtask/src/main.rs",), (_XTASK,), "cargo xtask {}"),
    (("noxfile.py",), (_NOX_NAME, _NOX_SESSION), "nox -s {}"),
)
"""Files of task runners, the patterns of their task names, and the command that runs a task."""
_SCRIPTED = ("package.json", "deno.json", "composer.json", "pyproject.toml")
_CARGO = ".cargo/config.toml"
_LOCKS = {"bun.lock": "bun", "bun.lockb": "bun", "pnpm-lock.yaml": "pnpm", "yarn.lock": "yarn"}

_JAVA_TOOLS = ("spotless", "checkstyle", "ktlint", "detekt")
_PYTHON_LOCKS = {"uv.lock": "uv run pytest", "poetry.lock": "poetry run pytest", "pdm.lock": "pdm run pytest"}
_RUN_IN = r"(?:uv run (?:-\S+ )*|uvx |poetry run |pdm run |hatch run |python -m |npx |pnpm |yarn |bunx )?"
_STEPS: Mapping[tuple[str, ...], Mapping[str, str]] = {
    ("Python",): {
        "test": "(?:pytest|tox|nox|unittest)",
        "lint": "(?:ruff check|flake8|pylint|pre-commit run)",
        "types": "(?:mypy|pyright|ty check)",
        "build": "(?:uv build|(?<=python -m )build|poetry build|hatch build|flit build)",
    },
    ("TypeScript", "JavaScript", "TSX"): {
        "test": "(?:vitest|jest|mocha|deno test|bun test|npm test)",
        "lint": "(?:eslint|biome (?:check|lint|ci)|oxlint|deno lint)",
        "types": "tsc",
    },
    ("Rust",): {"test": "cargo (?:test|nextest run)", "lint": "cargo clippy", "format": "cargo fmt"},
    ("Go",): {"test": "go test", "lint": "(?:golangci-lint run|staticcheck|go vet)"},
    ("Java", "Kotlin"): {
        "test": r"(?:mvn|\./mvnw) (?:\S+ )*(?:test|verify)",
        "lint": r"(?:mvn|\./mvnw|gradle|\./gradlew) (?:\S+ )*(?:spotless|checkstyle|ktlint|detekt)",
    },
}
"""Beginnings of CI steps by job, for code in these languages."""


@dataclass(frozen=True, slots=True)
class ProjectCommand:
    """The command for a job."""

    job: str
    run: str
    path: str
    """The file that declares it."""


def commands_of(
    paths: set[str], texts: Mapping[str, str], languages: Sequence[str], members: Sequence[str] = ()
) -> list[ProjectCommand]:
    """Return the commands that files of a project declare, in the order of the jobs.

    `paths` are all of its files, `texts` the texts of some, `members` the folders with packages of their own.
    """
    own = [*_declared(paths, texts, languages)]
    missing = _JOBS.keys() - {one.job for one in own}
    tiers = (
        own,
        [*_of_members(paths, texts, languages, members)] if missing & _MEMBER_JOBS else [],
        [*_of_steps(texts, languages)],
    )
    return [
        command
        for job in _JOBS
        for command in next(filter(None, (_of_job(job, tier) for tier in tiers)), [])[:_MAX_COMMANDS_PER_JOB]
    ]


def _of_job(job: str, commands: Iterable[ProjectCommand]) -> list[ProjectCommand]:
    by_run: dict[str, ProjectCommand] = {}
    for one in commands:
        if one.job == job:
            by_run.setdefault(one.run, one)
    return [*by_run.values()]


def _declared(paths: set[str], texts: Mapping[str, str], languages: Sequence[str]) -> Iterator[ProjectCommand]:
    for files, patterns, run in _RUNNERS:
        path = next((path for path in files if path in texts), "")
        text = texts.get(path, "")
        gone = {*_GONE.findall(text), *_without_folder(text, paths)}
        names = [match[1] for pattern in patterns for match in pattern.finditer(text) if match[1] not in gone]
        yield from _named(names, run.format, path)
    if "invoke" in (invoked := texts.get("tasks.py", "")):
        yield from _named(
            [one.replace("_", "-") for one in _INVOKE_TASK.findall(invoked)], "invoke {}".format, "tasks.py"
        )
    for folder in ("scripts/", "script/"):
        names = [path.removeprefix(folder) for path in paths if path.startswith(folder) and path.count("/") == 1]
        yield from _named(sorted(names), f"{folder}{{}}".format, folder)
    declared = read_manifest("package.json", texts.get("package.json", "")).manager
    locked = next((manager for lock, manager in _LOCKS.items() if lock in paths), "npm")
    manager = declared if declared in _LOCKS.values() else locked
    for path in (path for path in _SCRIPTED if is_about(path, languages)):
        for run, tasks in read_manifest(path, texts.get(path, "")).scripts.items():
            real = [name for name, body in tasks.items() if not isinstance(body, str) or _is_real(body)]
            yield from _named(real, partial(_script, manager) if path == "package.json" else run.format, path)
    yield from _named(cargo_aliases(texts.get(_CARGO, "")), "cargo {}".format, _CARGO)
    yield from _of_python(paths, texts)
    yield from _of_build_tool(paths, texts, languages)
    if ".pre-commit-config.yaml" in paths:
        yield ProjectCommand("lint", "pre-commit run --all-files", ".pre-commit-config.yaml")


def _without_folder(makefile: str, paths: set[str]) -> Iterator[str]:
    """Yield the targets that enter or serve a folder which does not exist and which they do not make."""
    for target, recipe in _RECIPE.findall(makefile):
        entered = set(_ENTERED.findall(recipe)) if "mkdir" not in recipe else set()
        if any(not any(path.startswith(f"{folder}/") for path in paths) for folder in entered):
            yield target


def _named(names: Iterable[str], command: Callable[[str], str], path: str) -> Iterator[ProjectCommand]:
    """Yield for each job the command with the name of the job, else the first with another name of it."""
    known = {name: _JOB_OF[plain] for name in names if (plain := re.sub("[:_]", "-", name)) in _JOB_OF}
    jobs: set[str] = set()
    for name in sorted(known, key=lambda name: name != known[name]):
        if known[name] not in jobs:
            jobs.add(known[name])
            yield ProjectCommand(known[name], command(name), path)


def _is_real(script: str) -> bool:
    return bool(script) and "no test specified" not in script


def _script(manager: str, name: str) -> str:
    """Return the command with which a package manager runs a script."""
    runs_plainly = manager in ("pnpm", "yarn") or (manager, name) == ("npm", "test")
    return f"{manager} {name}" if runs_plainly else f"{manager} run {name}"


def _of_python(paths: set[str], texts: Mapping[str, str]) -> Iterator[ProjectCommand]:
    tools = read_manifest("pyproject.toml", texts.get("pyproject.toml", "")).tools
    configured = {
        "pytest.ini": "pytest.ini" in texts,
        "pyproject.toml": "pytest" in tools,
        "setup.cfg": "[tool:pytest]" in texts.get("setup.cfg", ""),
        "tox.ini": "[pytest]" in texts.get("tox.ini", ""),
    }
    run = next((run for lock, run in _PYTHON_LOCKS.items() if lock in paths), "pytest")
    yield from (ProjectCommand("test", run, path) for path, is_there in configured.items() if is_there)
    tox = "tox.ini" if "tox.ini" in texts else "pyproject.toml" if "tox" in tools else ""
    if tox:
        yield ProjectCommand("test", "tox", tox)
        named = _named([one[1] for one in _TOX_ENV.finditer(texts.get("tox.ini", ""))], "tox -e {}".format, tox)
        yield from (one for one in named if one.job != "test")


def _of_build_tool(paths: set[str], texts: Mapping[str, str], languages: Sequence[str]) -> Iterator[ProjectCommand]:
    """Yield the standard commands of the build tools of the main languages, if their manifests exist."""
    gradle = "./gradlew" if "gradlew" in paths else "gradle"
    maven = "./mvnw" if "mvnw" in paths else "mvn"
    whole = " --workspace" if read_manifest("Cargo.toml", texts.get("Cargo.toml", "")).is_workspace else ""
    tools = (
        ("Cargo.toml", f"cargo test{whole}", f"cargo build{whole}", ""),
        ("go.mod", "go test ./...", "go build ./...", ""),
        ("pom.xml", f"{maven} test", f"{maven} package", f"{maven} {{}}:check"),
        ("build.gradle", f"{gradle} test", f"{gradle} build", f"{gradle} {{}}Check"),
        ("build.gradle.kts", f"{gradle} test", f"{gradle} build", f"{gradle} {{}}Check"),
    )
    for path, test, build, lint in tools:
        if path in texts and is_about(path, languages):
            yield from (ProjectCommand("test", test, path), ProjectCommand("build", build, path))
            linters = [tool for tool in _JAVA_TOOLS if tool in read_manifest(path, texts[path]).tools]
            yield from (ProjectCommand("lint", lint.format(tool), path) for tool in linters if lint)
    if "mix.exs" in texts and "Elixir" in languages:
        yield from (ProjectCommand("test", "mix test", "mix.exs"), ProjectCommand("build", "mix compile", "mix.exs"))


def _of_members(
    paths: set[str], texts: Mapping[str, str], languages: Sequence[str], members: Sequence[str]
) -> Iterator[ProjectCommand]:
    """Yield the commands of the packages in folders, to be run from the top."""
    locks = paths & _LOCKS.keys()
    inside: dict[str, set[str]] = {folder: set(locks) for folder in members}
    for path in paths:
        first, second = [*path.split("/"), ""][:2]
        for folder in {first, f"{first}/{second}"} & inside.keys():
            inside[folder].add(path.removeprefix(f"{folder}/"))
    for folder, own_paths in inside.items():
        own = {path: texts[whole] for path in own_paths if (whole := f"{folder}/{path}") in texts}
        for one in _declared(own_paths, own, languages):
            if one.job in _MEMBER_JOBS:
                yield replace(one, run=f"cd {folder} && {one.run}", path=f"{folder}/{one.path}")


def _of_steps(texts: Mapping[str, str], languages: Sequence[str]) -> Iterator[ProjectCommand]:
    """Yield the CI steps that are whole commands, the shortest first, for the main languages."""
    patterns = {
        job: re.compile(f"{_RUN_IN}{pattern}" + r"(?: [^$\\|;&<>`#]*)?(?<!:)")
        for of, jobs in _STEPS.items()
        if not set(of).isdisjoint(languages)
        for job, pattern in jobs.items()
    }
    steps = [
        ProjectCommand(job, step, path)
        for path, text in texts.items()
        if path.startswith((".github/", ".gitlab-ci"))
        for step in _steps(text)
        for job, pattern in patterns.items()
        if pattern.fullmatch(step)
    ]
    for job in patterns:
        yield from sorted((one for one in steps if one.job == job), key=lambda one: (len(one.run), one.run))[:1]


def _steps(text: str) -> Iterator[str]:
    for line in text.splitlines():
        step = re.sub(r"^\s*(?:- )?(?:run:)?\s*", "", line[: _MAX_STEP_CHARS + 40]).strip().strip("\"'")
        if 0 < len(step) <= _MAX_STEP_CHARS:
            yield step
