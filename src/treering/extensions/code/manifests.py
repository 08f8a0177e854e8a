"""The manifests of packages: facts, the project card, and the map of a repository use them.

Pure functions on values. A field that a manifest does not state is empty; a broken manifest states nothing.
"""

import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import partial
from typing import Any

from treering.ports.format import posix_path
from treering.retrieval.index.code_places import role_of_file
from treering.sources.reading.bounded_files import parse_json, parse_toml

_HELPER = re.compile(r"(?:^|/)(?:bench\w*|perf[\w-]*|fixtures?|templates?|vendor|third_party)/", re.IGNORECASE)

_CARGO_FIELDS = ("version", "description", "license", "rust-version")
_GO_MODULE = re.compile(r"^module[ \t]+\"?([^\s\"]+)", re.MULTILINE)
_GO_VERSION = re.compile(r"^go[ \t]+(\d[\w.]*)", re.MULTILINE)
_GO_REQUIRE = re.compile(
    r"^(?:require[ \t]+|[ \t]+)(?P<name>[\w.-]+/[^\s]+)[ \t]+(?P<version>v\d[^\s]*)(?P<rest>[^\n]*)$", re.MULTILINE
)
_REQUIREMENT = re.compile(r"\s*(?P<name>[A-Za-z0-9][\w.-]*)\s*(?:\[[^\]]*\])?\s*(?P<versions>.*)", re.DOTALL)


@dataclass(frozen=True, slots=True)
class PackageManifest:
    """The package data of a manifest."""

    name: str = ""
    version: str = ""
    version_file: str = ""
    """The file of the package that states the version instead; `?` if the manifest does not name it."""
    purpose: str = ""
    licence: str = ""
    requires: Mapping[str, str] = field(default_factory=dict)
    """The allowed versions of the runtime, such as `python`."""
    dependencies: Mapping[str, str] = field(default_factory=dict)
    """The allowed versions of its direct dependencies."""
    scripts: Mapping[str, Mapping[str, Any]] = field(default_factory=dict)
    """Tables of tasks: by the command that runs a task, with `{}` for its name, the tasks by name."""
    programs: Mapping[str, str] = field(default_factory=dict)
    """The entry points of the programs that the package installs."""
    tools: frozenset[str] = frozenset()
    """The tools that it configures."""
    manager: str = ""
    """The package manager it declares."""
    is_workspace: bool = False
    """Whether other packages of the repository belong to it."""
    is_private: bool = False
    """Whether it is never published, so that its name is meaningless to others."""


def read_manifest(path: str, text: str) -> PackageManifest:
    """Parse the manifest at a path."""
    _, reader = MANIFESTS.get(posix_path(path).name, ((), None))
    try:
        return reader(text) if reader and text else PackageManifest()
    except ValueError:
        return PackageManifest()


def cargo_aliases(text: str) -> Mapping[str, Any]:
    """Return the commands added by cargo's configuration, by name."""
    try:
        return _table(parse_toml(text), "alias")
    except ValueError:
        return {}


def is_about(path: str, languages: Sequence[str]) -> bool:
    """Return whether a manifest is about code of one of these languages."""
    return path in MANIFESTS and not set(MANIFESTS[path][0]).isdisjoint(languages)


def is_of_helper(path: str) -> bool:
    """Return whether a manifest belongs to an example, a test or a benchmark, not to the project itself."""
    return role_of_file(path, "data") in ("example", "test") or bool(_HELPER.search(path))


def _pyproject(text: str) -> PackageManifest:
    document = _table(parse_toml(text))
    project, tool = _table(document, "project"), _table(document, "tool")
    poetry = _table(tool, "poetry")
    poetry_needs = _versions(poetry.get("dependencies"))
    python = poetry_needs.pop("python", "")
    return PackageManifest(
        name=_word(project.get("name")) or _word(poetry.get("name")),
        version=_word(project.get("version")) or _word(poetry.get("version")),
        version_file=_dynamic_version(project, tool),
        purpose=_word(project.get("description")) or _word(poetry.get("description")),
        licence=_licence(project.get("license")) or _licence(poetry.get("license")),
        requires=_stated(python=_word(project.get("requires-python")) or python),
        dependencies=_requirements(project.get("dependencies")) or poetry_needs,
        scripts={
            "poe {}": _table(tool, "poe", "tasks"),
            "pdm run {}": _table(tool, "pdm", "scripts"),
            **{
                f"hatch run {'' if name == 'default' else f'{name}:'}{{}}": _table(_table(environment), "scripts")
                for name, environment in _table(tool, "hatch", "envs").items()
                if re.fullmatch(r"[\w.-]+", name)
            },
            "tox -e {}": _table(tool, "tox", "env"),
        },
        programs=_words(project.get("scripts")),
        tools=frozenset(tool),
        is_workspace=bool(_table(tool, "uv", "workspace")),
    )


def _dynamic_version(project: Mapping[str, Any], tool: Mapping[str, Any]) -> str:
    """Return the file that states the version; empty if a tool takes it from version control."""
    hatch, pdm = _table(tool, "hatch", "version"), _table(tool, "pdm", "version")
    setuptools = _table(tool, "setuptools", "dynamic", "version")
    if "setuptools_scm" in tool or "source" in hatch or pdm.get("source") == "scm":
        return ""
    named = _word(hatch.get("path")) or _word(pdm.get("path")) or _word(setuptools.get("file"))
    dynamic = project.get("dynamic")
    is_dynamic = not project or (isinstance(dynamic, list) and "version" in dynamic)
    return named or ("?" if is_dynamic else "")


def _package_json(text: str) -> PackageManifest:
    document = _table(parse_json(text))
    name, programs = _word(document.get("name")), document.get("bin")
    main = _word(programs) or _word(document.get("main"))
    return PackageManifest(
        name=name,
        version=_word(document.get("version")),
        purpose=_word(document.get("description")),
        licence=_licence(document.get("license")),
        requires=_versions(document.get("engines")),
        dependencies=_versions(document.get("dependencies")),
        scripts={"npm run {}": _words(document.get("scripts"))},
        programs=_words(programs) or _words({name or "main": main}),
        manager=_word(document.get("packageManager")).partition("@")[0],
        is_workspace="workspaces" in document,
        is_private=bool(document.get("private")),
    )


def _cargo(text: str) -> PackageManifest:
    document = _table(parse_toml(text))
    package, programs = _table(document, "package"), document.get("bin")
    shared = _table(document, "workspace", "package")
    own = {key: package.get(key) if isinstance(package.get(key), str) else shared.get(key) for key in _CARGO_FIELDS}
    return PackageManifest(
        name=_word(package.get("name")),
        version=_word(own["version"]),
        purpose=_word(own["description"]),
        licence=_licence(own["license"]),
        requires=_stated(rust=_word(own["rust-version"])),
        dependencies=_versions(document.get("dependencies")),
        programs=_words({one.get("name"): one.get("path") for one in map(_table, _list(programs))}),
        is_workspace="workspace" in document,
    )


def _go_mod(text: str) -> PackageManifest:
    module, version = _GO_MODULE.search(text), _GO_VERSION.search(text)
    direct = [match for match in _GO_REQUIRE.finditer(text) if "// indirect" not in match["rest"]]
    return PackageManifest(
        name=module[1] if module else "",
        requires=_stated(go=version[1] if version else ""),
        dependencies={match["name"]: match["version"] for match in direct},
    )


def _tasks_json(run: str, tasks: str, text: str) -> PackageManifest:
    document = _table(parse_json(text))
    name, version, purpose = (_word(document.get(key)) for key in ("name", "version", "description"))
    return PackageManifest(name=name, version=version, purpose=purpose, scripts={run: _table(document, tasks)})


def _setup(pattern: str, text: str) -> PackageManifest:
    name, version, purpose, python = (
        _first_match(pattern.format(key), text) for key in ("name", "version", "description", "python_requires")
    )
    is_stated = bool(version) and not version.startswith(("attr:", "file:"))
    return PackageManifest(
        name=name,
        version=version if is_stated else "",
        version_file="" if is_stated else version.partition("file:")[2].strip() or "?",
        purpose="" if purpose.startswith("file:") else purpose,
        requires=_stated(python=python),
    )


def _pom(text: str) -> PackageManifest:
    before, _, rest = text.partition("<parent>")
    parent, _, after = rest.partition("</parent>")
    own = re.split(r"<(?:dependencies|dependencyManagement|build|profiles)>", before + after, maxsplit=1)[0]
    name, version, purpose = (
        " ".join(_first_match(rf"<{tag}>([^<]+)<", own).split()) for tag in ("artifactId", "version", "description")
    )
    version = version or _first_match(r"<version>([^<]+)<", parent)
    plugins = re.findall(r"<artifactId>\s*([\w-]+)-maven-plugin\s*<|<artifactId>\s*maven-(\w+)-plugin\s*<", text)
    return PackageManifest(
        name=name,
        version="" if "${" in version else version,
        purpose=purpose,
        tools=frozenset(theirs or apache for theirs, apache in plugins),
        is_workspace="<modules>" in own,
    )


def _gradle(text: str) -> PackageManifest:
    stated = r"""^(?:rootProject\.)?{}\s*=\s*["']([^"'\n$]+)["']"""
    return PackageManifest(
        name=_first_match(stated.format("name"), text),
        version=_first_match(stated.format("version"), text),
        purpose=_first_match(stated.format("description"), text),
        tools=frozenset(re.findall(r"\b(spotless|checkstyle|ktlint|detekt)\b", text)),
    )


_PYTHON, _ECMA, _JVM = ("Python",), ("TypeScript", "JavaScript", "TSX"), ("Java", "Kotlin")
MANIFESTS: Mapping[str, tuple[tuple[str, ...], Callable[[str], PackageManifest]]] = {
    "pyproject.toml": (_PYTHON, _pyproject),
    "setup.cfg": (_PYTHON, partial(_setup, r"^{}[ \t]*=[ \t]*(\S.*)$")),
    "setup.py": (_PYTHON, partial(_setup, r"""(?i)\b{}\s*=\s*["']([^"'\n]+)["']""")),
    "package.json": (_ECMA, _package_json),
    "lerna.json": (_ECMA, _package_json),
    "deno.json": (_ECMA, partial(_tasks_json, "deno task {}", "tasks")),
    "Cargo.toml": (("Rust",), _cargo),
    "go.mod": (("Go",), _go_mod),
    "pom.xml": (_JVM, _pom),
    "settings.gradle": (_JVM, _gradle),
    "settings.gradle.kts": (_JVM, _gradle),
    "build.gradle": (_JVM, _gradle),
    "build.gradle.kts": (_JVM, _gradle),
    "composer.json": (("PHP",), partial(_tasks_json, "composer {}", "scripts")),
}
"""The supported manifests by file name: their languages, and their readers."""


def _first_match(pattern: str, text: str) -> str:
    match = re.search(pattern, text, re.MULTILINE)
    return match[1].strip() if match else ""


def _requirements(listed: object) -> dict[str, str]:
    """Read a list of Python requirements. Variants of a package with different markers are joined."""
    needs: dict[str, str] = {}
    for item in _list(listed):
        if match := _REQUIREMENT.match(_word(item)):
            known = needs.get(match["name"])
            needs[match["name"]] = f"{known} | {match['versions']}" if known else match["versions"].strip()
    return needs


def _versions(table: object) -> dict[str, str]:
    """Read a table of versions by name; a version is a text or a table that contains one."""
    return {name: _word(entry) or _word(_table(entry).get("version")) for name, entry in _table(table).items()}


def _licence(entry: object) -> str:
    return _word(entry) or _word(_table(entry).get("text")) or _word(_table(entry).get("type"))


def _stated(**values: str) -> dict[str, str]:
    return {name: value for name, value in values.items() if value}


def _words(value: object) -> dict[str, str]:
    return {name: word for name, text in _table(value).items() if (word := _word(text))}


def _table(data: object, *names: str) -> Mapping[str, Any]:
    """Return a table, or one inside of it; an empty one if there is none."""
    for name in names:
        data = data.get(name) if isinstance(data, dict) else None
    return data if isinstance(data, dict) else {}


def _list(value: object) -> Sequence[Any]:
    return value if isinstance(value, list) else ()


def _word(value: object) -> str:
    return value.strip() if isinstance(value, str) else ""
