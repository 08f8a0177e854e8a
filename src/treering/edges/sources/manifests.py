"""What a package's manifest states about it: name, version, licence, what it runs on and depends on."""

import json
import re
import tomllib
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import PurePosixPath


@dataclass(frozen=True, slots=True)
class ManifestFact:
    """One attribute a manifest gives its package. The line that says so holds all words of `spelled`."""

    subject: str
    predicate: str
    value: str
    spelled: tuple[str, ...]


def is_manifest(path: str) -> bool:
    """Tell by a file's name whether `manifest_facts` reads it."""
    return PurePosixPath(path).name in _READERS


def manifest_facts(path: str, text: str) -> list[ManifestFact]:
    """Read the facts of a `pyproject.toml`, `package.json`, `Cargo.toml` or `go.mod`; none where it is broken.

    Direct dependencies (at most 60) are one fact each: `depends on NAME` with the versions allowed.
    """
    package = _read(path, text)
    return list(_facts(path, package)) if package and package.name else []


def package_of(path: str, text: str) -> str:
    """Return the name that a manifest gives its package; empty where it is broken or names none."""
    package = _read(path, text)
    return package.name[:_LONGEST] if package else ""


_MOST_DEPENDENCIES = 60
_LONGEST = 200
_ANY = "any version"


@dataclass(frozen=True, slots=True)
class _Package:
    name: str
    attributes: Mapping[str, str]
    dependencies: Mapping[str, str]


def _read(path: str, text: str) -> _Package | None:
    try:
        return _READERS[PurePosixPath(path).name](text)
    except (ValueError, RecursionError):  # a broken manifest states nothing
        return None


def _facts(path: str, package: _Package) -> Iterator[ManifestFact]:
    yield ManifestFact(path, "package name", package.name, (package.name,))
    for predicate, value in package.attributes.items():
        if value:
            yield ManifestFact(package.name, predicate, value[:_LONGEST], (predicate.split()[-1], value))
    for name, versions in list(package.dependencies.items())[:_MOST_DEPENDENCIES]:
        yield ManifestFact(package.name, f"depends on {name}", versions[:_LONGEST] or _ANY, (name,))


def _pyproject(text: str) -> _Package:
    document = tomllib.loads(text)
    project = _table(document.get("project"))
    poetry = _table(_table(document.get("tool")).get("poetry"))
    poetry_needs = _versions(poetry.get("dependencies"))
    python = poetry_needs.pop("python", "")
    return _Package(
        _word(project.get("name")) or _word(poetry.get("name")),
        {
            "version": _word(project.get("version")) or _word(poetry.get("version")),
            "license": _licence(project.get("license")) or _licence(poetry.get("license")),
            "requires python": _word(project.get("requires-python")) or python,
        },
        _requirements(project.get("dependencies")) or poetry_needs,
    )


def _package_json(text: str) -> _Package:
    document = _table(json.loads(text))
    engines = {f"requires {name}": version for name, version in _versions(document.get("engines")).items()}
    return _Package(
        _word(document.get("name")),
        {"version": _word(document.get("version")), "license": _licence(document.get("license")), **engines},
        _versions(document.get("dependencies")),
    )


def _cargo(text: str) -> _Package:
    document = tomllib.loads(text)
    package = _table(document.get("package"))
    return _Package(
        _word(package.get("name")),
        {
            "version": _word(package.get("version")),
            "license": _licence(package.get("license")),
            "requires rust": _word(package.get("rust-version")),
        },
        _versions(document.get("dependencies")),
    )


def _go_mod(text: str) -> _Package:
    module = _GO_MODULE.search(text)
    version = _GO_VERSION.search(text)
    direct = [found for found in _GO_REQUIRE.finditer(text) if "// indirect" not in found["rest"]]
    return _Package(
        module[1] if module else "",
        {"requires go": version[1] if version else ""},
        {found["name"]: found["version"] for found in direct},
    )


_READERS = {
    "pyproject.toml": _pyproject,
    "package.json": _package_json,
    "Cargo.toml": _cargo,
    "go.mod": _go_mod,
}
_GO_MODULE = re.compile(r"^module[ \t]+\"?([^\s\"]+)", re.MULTILINE)
_GO_VERSION = re.compile(r"^go[ \t]+(\d[\w.]*)", re.MULTILINE)
_GO_REQUIRE = re.compile(
    r"^(?:require[ \t]+|[ \t]+)(?P<name>[\w.-]+/[^\s]+)[ \t]+(?P<version>v\d[^\s]*)(?P<rest>[^\n]*)$", re.MULTILINE
)
_REQUIREMENT = re.compile(r"\s*(?P<name>[A-Za-z0-9][\w.-]*)\s*(?:\[[^\]]*\])?\s*(?P<versions>.*)", re.DOTALL)


def _requirements(listed: object) -> dict[str, str]:
    """Read a list of Python requirements. The variants of one package, told apart by markers, are joined."""
    needs: dict[str, str] = {}
    for item in listed if isinstance(listed, list) else []:
        if found := _REQUIREMENT.match(_word(item)):
            known = needs.get(found["name"])
            needs[found["name"]] = f"{known} | {found['versions']}" if known else found["versions"].strip()
    return needs


def _versions(table: object) -> dict[str, str]:
    """Read a table of versions by name; a version is a text or a table that holds one."""
    return {name: _word(entry) or _word(_table(entry).get("version")) for name, entry in _table(table).items()}


def _licence(entry: object) -> str:
    return _word(entry) or _word(_table(entry).get("text")) or _word(_table(entry).get("type"))


def _table(value: object) -> Mapping[str, object]:
    return value if isinstance(value, dict) else {}


def _word(value: object) -> str:
    return value.strip() if isinstance(value, str) else ""
