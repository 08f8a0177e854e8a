"""What a project states about itself in its manifests: name, version, purpose, and what it runs on."""

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from treering.sources.reading.bounded_files import parse_json, parse_toml

_GO_DIRECTIVE = re.compile(r"^go[ \t]+([\d.]+)", re.MULTILINE)
_GO_MODULE = re.compile(r"^module[ \t]+(\S+)", re.MULTILINE)
_GO_MAJOR = re.compile(r"/v\d+$")
_SETUP_VALUE = r"""\b{name}\s*=\s*["']([^"'\n]+)["']"""


@dataclass(frozen=True, slots=True)
class ProjectManifest:
    """The fields of a manifest that it states; empty for those that it does not."""

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


def manifests_of(texts: Mapping[str, str], languages: Sequence[str]) -> list[ProjectManifest]:
    """Return the manifests of the main languages, that of the largest language first."""
    paths = dict.fromkeys(path for language in languages for path, of in _OF_LANGUAGE.items() if language in of)
    return [_manifest(path, texts[path]) for path in paths if path in texts]


def _manifest(path: str, text: str) -> ProjectManifest:
    if path == "go.mod":
        return _go_manifest(text)
    if path in ("setup.py", "setup.cfg"):
        return _setup_manifest(path, text)
    data = parsed(path, text)
    if path == "package.json":
        return _package_manifest(data)
    if path == "composer.json":
        return ProjectManifest(
            path, text_of(data.get("name")).rpartition("/")[2], description=text_of(data.get("description"))
        )
    if path == "Cargo.toml":
        package = table(data, "package")
        minimum = text_of(package.get("rust-version"))
        return ProjectManifest(
            path,
            text_of(package.get("name")),
            text_of(package.get("version")),
            text_of(package.get("description")),
            f"Rust ≥ {minimum}" if minimum else "",
        )
    project, poetry = table(data, "project"), table(data, "tool", "poetry")
    python = text_of(project.get("requires-python")) or text_of(table(poetry, "dependencies").get("python"))
    return ProjectManifest(
        path,
        text_of(project.get("name")) or text_of(poetry.get("name")),
        text_of(project.get("version")) or text_of(poetry.get("version")),
        text_of(project.get("description")) or text_of(poetry.get("description")),
        _python(python),
    )


def _package_manifest(data: Mapping[str, Any]) -> ProjectManifest:
    is_published = not data.get("private")
    node = text_of(table(data, "engines").get("node"))
    version = text_of(data.get("version"))
    return ProjectManifest(
        "package.json",
        text_of(data.get("name")) if is_published else "",
        "" if version.startswith("0.0.0") else version,
        text_of(data.get("description")),
        f"Node {_spaced(node)}" if node and node != "*" else "",
    )


def _go_manifest(text: str) -> ProjectManifest:
    module, minimum = _GO_MODULE.search(text), _GO_DIRECTIVE.search(text)
    name = _GO_MAJOR.sub("", module[1]).rpartition("/")[2] if module else ""
    return ProjectManifest("go.mod", name, requires=f"Go ≥ {minimum[1]}" if minimum else "")


def _setup_manifest(path: str, text: str) -> ProjectManifest:
    def stated(name: str) -> str:
        pattern = rf"^{name}\s*=\s*(.+)$" if path == "setup.cfg" else _SETUP_VALUE.format(name=name)
        found = re.search(pattern, text, re.MULTILINE | re.IGNORECASE)
        value = found[1].strip() if found else ""
        return "" if value.startswith(("attr:", "file:")) else value

    return ProjectManifest(
        path, stated("name"), stated("version"), stated("description"), _python(stated("python_requires"))
    )


def _python(requires: str) -> str:
    return f"Python {_spaced(requires)}" if requires and requires != "*" else ""


def _spaced(version: str) -> str:
    """Write a range of versions as people read it: `>=3.9` becomes `≥ 3.9`."""
    spaced = re.sub(r"\s*(>=|<=|~=|\^|>|<|==)\s*", r" \1 ", version).replace(">=", "≥").replace("<=", "≤")
    return " ".join(spaced.split()).replace(" ,", ",").replace("^ ", "^")


def parsed(path: str, text: str) -> Mapping[str, Any]:
    """Return what a JSON or TOML file states; nothing where it cannot be parsed within bounds."""
    try:
        data: Any = parse_json(text or "{}") if path.endswith(".json") else parse_toml(text)
    except ValueError:
        return {}
    return data if isinstance(data, dict) else {}


def table(data: Mapping[str, Any], *names: str) -> Mapping[str, Any]:
    """Return a table inside of others; an empty one where there is none."""
    for name in names:
        inner = data.get(name)
        data = inner if isinstance(inner, dict) else {}
    return data


def text_of(value: Any) -> str:
    """Return a text on one line; empty for what is none."""
    return " ".join(value.split()) if isinstance(value, str) else ""
