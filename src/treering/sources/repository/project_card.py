"""The project card: name, purpose, commands and layout of a repository, read from its manifests by rules.

Pure functions on values. A field that no file states is left out; nothing is guessed.
"""

import json
import re
import tomllib
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Any

from treering.retrieval.index.code_places import is_test_path
from treering.sources.code.languages import counted_language
from treering.sources.repository.git import TreeEntry

_MAX_PURPOSE_CHARS = 160
_MAX_FOLDERS = 6
_MAX_CHILDREN = 8
_MAX_TEST_PLACES = 4
_MAX_COMMANDS_PER_JOB = 2
_TEST_SHARE = 0.7
"""Share of tests among the code of a folder with such a name: fixtures and helpers are next to tests."""
_TEST_FOLDER = re.compile(r"t|e2e|[\w-]*(?:tests?|specs?)(?:__)?", re.IGNORECASE)
_MIN_LANGUAGE_SHARE = 0.1
"""Share of the bytes of code from which a language is named."""

_CARD_FILES = frozenset(
    "pyproject.toml setup.cfg setup.py tox.ini noxfile.py pytest.ini Pipfile package.json Cargo.toml go.mod pom.xml "
    "build.gradle build.gradle.kts composer.json mix.exs Gemfile Rakefile Makefile GNUmakefile makefile justfile "
    "Justfile Taskfile.yml Taskfile.yaml".split()
)
_EMPTY_FILES = frozenset({"gradlew", ".pre-commit-config.yaml", "yarn.lock", "pnpm-lock.yaml", "bun.lock", "bun.lockb"})
"""Files of which only the presence counts."""
_CLIENT_FILES = re.compile(
    r"(AGENTS|CLAUDE|GEMINI)\.md|\.cursorrules|\.windsurfrules|\.clinerules|\.github/copilot-instructions\.md"
)
_CLIENT_FOLDERS = (".cursor/rules/",)

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

_TEST_SUFFIX = re.compile(r"(?:[._](?:test|spec)\.(?:go|py|rb|[cm]?[jt]sx?)|Tests?\.(?:java|kt|php))$")
_MAKE_TARGET = re.compile(r"^([A-Za-z0-9][\w.:/-]*)[ \t]*::?(?!=)", re.MULTILINE)
_JUST_RECIPE = re.compile(r"^@?([A-Za-z][\w-]*)[^:=\n]*:(?!=)", re.MULTILINE)
_TASK = re.compile(r"^  ([A-Za-z][\w:-]*):\s*$", re.MULTILINE)
_NOX_SESSION = re.compile(r"^@(?:nox\.)?session\b[^\n]*(?:\n[^\n@d][^\n]*)*\n(?:@[^\n]*\n)*def (\w+)", re.MULTILINE)
_NOX_NAME = re.compile(r"""^@(?:nox\.)?session\([^)]*\bname\s*=\s*["']([\w-]+)["']""", re.MULTILINE)
_TOX_ENV = re.compile(r"^\[testenv:([\w-]+)\]", re.MULTILINE)
_GO_DIRECTIVE = re.compile(r"^go[ \t]+([\d.]+)", re.MULTILINE)
_GO_MODULE = re.compile(r"^module[ \t]+(\S+)", re.MULTILINE)
_GO_MAJOR = re.compile(r"/v\d+$")
_SETUP_VALUE = r"""\b{name}\s*=\s*["']([^"'\n]+)["']"""
_MARKUP = re.compile(r"!?\[([^\]]*)\]\([^)]*\)|`{1,2}([^`]*)`{1,2}|<[^>]+>|[*_]{2}([^*_]+)[*_]{2}|:\w+:`([^`]*)`")


@dataclass(frozen=True, slots=True)
class _Command:
    job: str
    run: str
    path: str
    """The file that declares it."""


def card_files(entries: Sequence[TreeEntry]) -> list[TreeEntry]:
    """Choose the files at the top of a repository whose text the card needs."""
    return [entry for entry in entries if entry.path in _CARD_FILES and entry.kind == "file"]


def draw_card(
    name: str,
    describe: Callable[[str], str],
    entries: Sequence[TreeEntry],
    texts: Mapping[str, str],
    folders: Mapping[str, Sequence[str]],
) -> dict[str, Any]:
    """Return the card of a repository as JSON.

    `name`: the repository's name; `describe`: returns a paragraph about the project of a name, for a manifest that
    has no description; `texts`: the text of `card_files` by path; `folders`: its folders of code, largest first, each
    with its subfolders of code.
    """
    paths = {entry.path for entry in entries}
    languages = _main_languages(entries)
    manifests = _manifests(texts, languages)
    tests = _test_places(entries)
    name = next((one.name for one in manifests if one.name), name.rpartition("/")[2])
    stated = {
        "name": name,
        "version": next((one.version for one in manifests if one.version), ""),
        "purpose": _purpose(next((one.description for one in manifests if one.description), "") or describe(name)),
        "languages": languages,
        "requires": [one.requires for one in manifests if one.requires],
        "commands": [
            {"job": one.job, "run": one.run, "path": one.path} for one in _chosen(_commands(paths, texts, languages))
        ],
        "folders": _folders(folders, tests),
        "tests": tests,
        "docs": [f"{folder}/" for folder in ("docs", "doc") if any(path.startswith(f"{folder}/") for path in paths)],
        "client_files": sorted({found for path in paths if (found := _client_file(path))}),
        "read_from": [one.path for one in manifests if one.name or one.description or one.requires],
    }
    return {field: value for field, value in stated.items() if value}


# Manifests: the name, the purpose and the versions that a project states about itself.


@dataclass(frozen=True, slots=True)
class _Manifest:
    path: str
    name: str = ""
    version: str = ""
    description: str = ""
    requires: str = ""


_OF_LANGUAGE = {
    "pyproject.toml": ("Python",),
    "setup.cfg": ("Python",),
    "setup.py": ("Python",),
    "package.json": ("TypeScript", "JavaScript", "TSX"),
    "Cargo.toml": ("Rust",),
    "go.mod": ("Go",),
    "composer.json": ("PHP",),
}


def _manifests(texts: Mapping[str, str], languages: Sequence[str]) -> list[_Manifest]:
    """Return the manifests of the main languages, that of the largest language first."""
    paths = dict.fromkeys(path for language in languages for path, of in _OF_LANGUAGE.items() if language in of)
    return [_manifest(path, texts[path]) for path in paths if path in texts]


def _manifest(path: str, text: str) -> _Manifest:
    if path == "go.mod":
        return _go_manifest(text)
    if path in ("setup.py", "setup.cfg"):
        return _setup_manifest(path, text)
    data = _parsed(path, text)
    if path == "package.json":
        return _package_manifest(data)
    if path == "composer.json":
        return _Manifest(path, _text(data.get("name")).rpartition("/")[2], description=_text(data.get("description")))
    if path == "Cargo.toml":
        package = _table(data, "package")
        minimum = _text(package.get("rust-version"))
        return _Manifest(
            path,
            _text(package.get("name")),
            _text(package.get("version")),
            _text(package.get("description")),
            f"Rust ≥ {minimum}" if minimum else "",
        )
    project, poetry = _table(data, "project"), _table(data, "tool", "poetry")
    python = _text(project.get("requires-python")) or _text(_table(poetry, "dependencies").get("python"))
    return _Manifest(
        path,
        _text(project.get("name")) or _text(poetry.get("name")),
        _text(project.get("version")) or _text(poetry.get("version")),
        _text(project.get("description")) or _text(poetry.get("description")),
        _python(python),
    )


def _package_manifest(data: Mapping[str, Any]) -> _Manifest:
    is_published = not data.get("private")
    node = _text(_table(data, "engines").get("node"))
    version = _text(data.get("version"))
    return _Manifest(
        "package.json",
        _text(data.get("name")) if is_published else "",
        "" if version.startswith("0.0.0") else version,
        _text(data.get("description")),
        f"Node {_spaced(node)}" if node and node != "*" else "",
    )


def _go_manifest(text: str) -> _Manifest:
    module, minimum = _GO_MODULE.search(text), _GO_DIRECTIVE.search(text)
    name = _GO_MAJOR.sub("", module[1]).rpartition("/")[2] if module else ""
    return _Manifest("go.mod", name, requires=f"Go ≥ {minimum[1]}" if minimum else "")


def _setup_manifest(path: str, text: str) -> _Manifest:
    def stated(name: str) -> str:
        pattern = rf"^{name}\s*=\s*(.+)$" if path == "setup.cfg" else _SETUP_VALUE.format(name=name)
        found = re.search(pattern, text, re.MULTILINE | re.IGNORECASE)
        value = found[1].strip() if found else ""
        return "" if value.startswith(("attr:", "file:")) else value

    return _Manifest(path, stated("name"), stated("version"), stated("description"), _python(stated("python_requires")))


def _python(requires: str) -> str:
    return f"Python {_spaced(requires)}" if requires and requires != "*" else ""


def _spaced(version: str) -> str:
    """Write a range of versions as people read it: `>=3.9` becomes `≥ 3.9`."""
    spaced = re.sub(r"\s*(>=|<=|~=|\^|>|<|==)\s*", r" \1 ", version).replace(">=", "≥").replace("<=", "≤")
    return " ".join(spaced.split()).replace(" ,", ",").replace("^ ", "^")


# Commands: what the project's own task runners name, before what its build tool does by itself.


def _commands(paths: set[str], texts: Mapping[str, str], languages: Sequence[str]) -> Iterator[_Command]:
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
        yield _Command("lint", "pre-commit run --all-files", ".pre-commit-config.yaml")


def _chosen(commands: Iterable[_Command]) -> list[_Command]:
    """Return the first commands of each job, in the order of the jobs."""
    by_job: dict[str, dict[str, _Command]] = {job: {} for job in _JOBS}
    for one in commands:
        if len(by_job[one.job]) < _MAX_COMMANDS_PER_JOB:
            by_job[one.job].setdefault(one.run, one)
    return [one for of_job in by_job.values() for one in of_job.values()]


def _of_runner(texts: Mapping[str, str], paths: Sequence[str], target: re.Pattern[str], run: str) -> Iterator[_Command]:
    path = next((path for path in paths if path in texts), "")
    names = dict.fromkeys(found[1] for found in target.finditer(texts.get(path, "")))
    yield from _named(names, lambda name: f"{run} {name}", path)


def _named(names: Iterable[str], command: Callable[[str], str], path: str) -> Iterator[_Command]:
    """Return the commands whose names are those of a job, the plainest name of a job first."""
    known = [name for name in names if name in _JOB_OF]
    for name in sorted(known, key=lambda name: name != _JOB_OF[name]):
        yield _Command(_JOB_OF[name], command(name), path)


def _of_package(paths: set[str], text: str) -> Iterator[_Command]:
    data = _parsed("package.json", text)
    scripts = {name: _text(script) for name, script in _table(data, "scripts").items()}
    real = [name for name, script in scripts.items() if script and "no test specified" not in script]
    manager = _package_manager(paths, _text(data.get("packageManager")))
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


def _of_python(texts: Mapping[str, str]) -> Iterator[_Command]:
    nox = texts.get("noxfile.py", "")
    sessions = dict.fromkeys(
        [*(one[1] for one in _NOX_NAME.finditer(nox)), *(one[1] for one in _NOX_SESSION.finditer(nox))]
    )
    yield from _named(sessions, lambda name: f"nox -s {name}", "noxfile.py")
    data = _parsed("pyproject.toml", texts.get("pyproject.toml", ""))
    for path, scripts in _script_tables(data):
        yield from _named(scripts, path, "pyproject.toml")
    tool = _table(data, "tool")
    tox = "tox.ini" if "tox.ini" in texts else "pyproject.toml" if "tox" in tool else ""
    if tox:
        named = [one[1] for one in _TOX_ENV.finditer(texts.get("tox.ini", ""))] or [*_table(tool, "tox", "env")]
        yield _Command("test", "tox", tox)
        yield from _named((name for name in named if _JOB_OF.get(name) != "test"), lambda name: f"tox -e {name}", tox)
    configured = {
        "pytest.ini": "pytest.ini" in texts,
        "pyproject.toml": "pytest" in tool,
        "setup.cfg": "[tool:pytest]" in texts.get("setup.cfg", ""),
        "tox.ini": "[pytest]" in texts.get("tox.ini", ""),
    }
    yield from (_Command("test", "pytest", path) for path, is_there in configured.items() if is_there)


def _script_tables(data: Mapping[str, Any]) -> Iterator[tuple[Callable[[str], str], Mapping[str, Any]]]:
    """Return the tables of scripts in a pyproject.toml, each with the function that makes the command of a name."""
    tool = _table(data, "tool")
    yield "poe {}".format, _table(tool, "poe", "tasks")
    yield "pdm run {}".format, _table(tool, "pdm", "scripts")
    for environment, settings in _table(tool, "hatch", "envs").items():
        prefix = "" if environment == "default" else f"{environment}:"
        scripts = _table(settings, "scripts") if isinstance(settings, dict) else {}
        yield partial(_hatch_command, prefix), scripts


def _hatch_command(prefix: str, name: str) -> str:
    return f"hatch run {prefix}{name}"


def _of_build_tool(paths: set[str], texts: Mapping[str, str], languages: Sequence[str]) -> Iterator[_Command]:
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
            yield from (_Command("test", test, path), _Command("build", build, path))


# Layout: where the code is, and where its tests are.


def _main_languages(entries: Sequence[TreeEntry]) -> list[str]:
    """Return the languages of code that a tenth or more of it is in, the largest first."""
    size: Counter[str] = Counter()
    for entry in entries:
        language = counted_language(entry.path)
        if language and language.code and not is_test_path(entry.path):
            size[language.name] += entry.size
    return [name for name, bytes_ in size.most_common() if bytes_ >= _MIN_LANGUAGE_SHARE * size.total()]


def _folders(folders: Mapping[str, Sequence[str]], tests: Sequence[str]) -> list[dict[str, Any]]:
    """Return the main folders of code, without those of tests, each with the names of its subfolders."""
    main: list[dict[str, Any]] = []
    for path, children in folders.items():
        if not f"{path}/".startswith(tuple(one for one in tests if one.endswith("/"))) and len(main) < _MAX_FOLDERS:
            names = [child.removeprefix(f"{path}/") for child in children]
            main.append({"path": f"{path}/", "children": names[:_MAX_CHILDREN], "more": len(names[_MAX_CHILDREN:])})
    return main


def _test_places(entries: Sequence[TreeEntry]) -> list[str]:
    """Return the topmost folders whose code is mostly tests, and the pattern of tests next to the code they test."""
    code = [entry.path for entry in entries if (language := counted_language(entry.path)) and language.code]
    tests = {path for path in code if is_test_path(path)}
    folders: Counter[str] = Counter()
    of_tests: Counter[str] = Counter()
    for path in code:
        for folder in _above(path):
            folders[folder] += 1
            of_tests[folder] += path in tests
    whole = {
        folder
        for folder, count in folders.items()
        if of_tests[folder] >= (_TEST_SHARE if _TEST_FOLDER.fullmatch(folder.rpartition("/")[2]) else 1) * count
    }
    topmost = [folder for folder in whole if not any(above in whole for above in _above(folder))]
    beside = [path for path in tests if not any(folder in whole for folder in _above(path))]
    return [*_merged(topmost, of_tests), *_patterns(beside, len(tests))]


def _above(path: str) -> Iterator[str]:
    while "/" in path:
        path = path.rpartition("/")[0]
        yield path


def _merged(folders: Sequence[str], count: Mapping[str, int]) -> list[str]:
    """Write many folders of one name as one pattern, and the others with the most tests first."""
    names = Counter(folder.rpartition("/")[2] for folder in folders)
    files: Counter[str] = Counter()
    for folder in folders:
        name = folder.rpartition("/")[2]
        files[f"**/{name}/" if names[name] >= _MAX_TEST_PLACES else f"{folder}/"] += count[folder]
    return [place for place, _ in files.most_common(_MAX_TEST_PLACES)]


def _patterns(tests: Sequence[str], total: int) -> list[str]:
    suffixes = Counter(found[0] for path in tests if (found := _TEST_SUFFIX.search(path)))
    return [f"**/*{suffix}" for suffix, count in suffixes.most_common(2) if 10 * count >= total]


def _client_file(path: str) -> str:
    """Return how to name a file or folder with rules that coding agents load by themselves; empty for another."""
    return next((one for one in _CLIENT_FOLDERS if path.startswith(one)), path if _CLIENT_FILES.fullmatch(path) else "")


def _purpose(text: str) -> str:
    plain = " ".join(_MARKUP.sub(lambda found: next(filter(None, found.groups()), ""), text).split())
    sentence = re.split(r"(?<=[.!?])\s", plain, maxsplit=1)[0].rstrip(".")
    return sentence if len(sentence) <= _MAX_PURPOSE_CHARS else f"{sentence[:_MAX_PURPOSE_CHARS].rpartition(' ')[0]} …"


def _parsed(path: str, text: str) -> Mapping[str, Any]:
    """Return what a manifest states; nothing where it cannot be parsed."""
    try:
        data = json.loads(text or "{}") if path.endswith(".json") else tomllib.loads(text)
    except (ValueError, RecursionError):
        return {}
    return data if isinstance(data, dict) else {}


def _table(data: Mapping[str, Any], *names: str) -> Mapping[str, Any]:
    for name in names:
        inner = data.get(name)
        data = inner if isinstance(inner, dict) else {}
    return data


def _text(value: Any) -> str:
    return " ".join(value.split()) if isinstance(value, str) else ""
