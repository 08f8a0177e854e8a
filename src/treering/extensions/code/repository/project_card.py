"""The project card: name, purpose, commands and layout of a repository, read from its manifests by rules.

Pure functions on values. A field that no file states is left out; nothing is guessed.
"""

import re
from collections.abc import Callable, Iterable, Mapping, Sequence
from itertools import starmap
from typing import Any

from treering.extensions.code.manifests import MANIFESTS, PackageManifest, is_about, is_of_helper, read_manifest
from treering.extensions.code.repository.contents import TreeEntry
from treering.extensions.code.repository.project_commands import commands_of
from treering.extensions.code.repository.project_layout import (
    decision_folders,
    docs_folders,
    main_folders,
    main_languages,
    test_places,
)

_MAX_PURPOSE_CHARS = 160
_MAX_MEMBERS = 40
"""Packages in folders of a repository whose manifests are read."""
_MAX_WORKFLOWS = 40
_TASK_FILES = frozenset(
    "tox.ini noxfile.py tasks.py pytest.ini mix.exs Makefile GNUmakefile makefile justfile Justfile Taskfile.yml "
    "Taskfile.yaml".split()
)
_TOP_FILE = re.compile(
    r"VERSION|version\.txt|\.cargo/config\.toml|xtask/src/main\.rs|\.gitlab-ci\.yml|\.github/workflows/[^/]+\.ya?ml"
)
_VERSION_FILE = re.compile(
    r"(?:src/)?(?P<package>[^/]+)/(?:__init__|__version__|_version|version|__about__|_about|about)\.py"
)
_PLAIN_PATH = re.compile(r"\w[\w./@+-]*")
"""Paths that can be written into a command as they are."""
_CODE_VERSION = re.compile(r"""^(?:__version__|VERSION)\s*(?::[^=\n]*)?=\s*["'](\d[^"'\n]*)["']""", re.MULTILINE)
_RUNTIMES = {"python": "Python", "node": "Node", "rust": "Rust", "go": "Go"}
_CLIENT_FILES = re.compile(
    r"(AGENTS|CLAUDE|GEMINI)\.md|\.cursorrules|\.windsurfrules|\.clinerules|\.github/copilot-instructions\.md"
)
_CLIENT_FOLDERS = (".cursor/rules/",)
_MARKUP = re.compile(r"!?\[([^\]]*)\]\([^)]*\)|`{1,2}([^`]*)`{1,2}|<[^>]+>|[*_]{2}([^*_]+)[*_]{2}|:\w+:`([^`]*)`")


def card_files(entries: Sequence[TreeEntry]) -> list[TreeEntry]:
    """Choose the files whose text the card needs: at the top of a repository, and of packages in its folders."""
    files = [entry for entry in entries if entry.kind == "file"]
    own = [entry for entry in files if entry.path in MANIFESTS or entry.path in _TASK_FILES]
    top = [entry for entry in files if _TOP_FILE.fullmatch(entry.path)]
    version = [entry for entry in files if entry.size and _VERSION_FILE.fullmatch(entry.path)]
    members = set(_member_folders(entry.path for entry in files))
    inside = [
        entry
        for entry in files
        if (place := entry.path.rpartition("/"))[0] in members and (place[2] in MANIFESTS or place[2] in _TASK_FILES)
    ]
    return [*own, *top[:_MAX_WORKFLOWS], *version[:_MAX_MEMBERS], *inside]


def _member_folders(paths: Iterable[str]) -> list[str]:
    """Return the folders of the first and second level with a package of the project, by their manifests."""
    manifests = [path for path in paths if path.rpartition("/")[2] in MANIFESTS and 1 <= path.count("/") <= 2]
    own = [path.rpartition("/")[0] for path in manifests if _PLAIN_PATH.fullmatch(path) and not is_of_helper(path)]
    return sorted(dict.fromkeys(own), key=lambda folder: (folder.count("/"), folder))[:_MAX_MEMBERS]


def draw_card(
    name: str,
    describe: Callable[[str], str],
    entries: Sequence[TreeEntry],
    texts: Mapping[str, str],
    folders: Mapping[str, Sequence[str]],
) -> dict[str, Any]:
    """Return the card of a repository as JSON.

    `name` is the repository's name. `describe` returns a paragraph about the project of a name, for a manifest without
    description. `texts` are the texts of `card_files` by path. `folders` are its folders of code, largest first, each
    with its subfolders of code.
    """
    paths = {entry.path for entry in entries}
    languages = main_languages(entries)
    by_language = (path for language in languages for path in MANIFESTS if is_about(path, [language]))
    named = dict.fromkeys(by_language if languages else MANIFESTS)
    manifests = {path: read_manifest(path, texts[path]) for path in named if path in texts}
    members = [folder for folder in _member_folders(texts) if any(f"{folder}/{path}" in texts for path in named)]
    parts = [
        read_manifest(path, texts[f"{folder}/{path}"])
        for folder in members
        for path in named
        if f"{folder}/{path}" in texts
    ]
    short = name.rpartition("/")[2]
    is_part = any(part.name == short for part in parts)
    name = short if is_part else next(filter(None, starmap(_name, manifests.items())), short)
    requires = {path: _requires(one) for path, one in manifests.items()}
    tests = test_places(entries)
    stated = {
        "name": name,
        "version": _version(name, manifests, parts, texts),
        "purpose": _purpose(next((one.purpose for one in manifests.values() if one.purpose), "") or describe(name)),
        "languages": languages,
        "requires": [one for one in requires.values() if one],
        "commands": [
            {"job": one.job, "run": one.run, "path": one.path} for one in commands_of(paths, texts, languages, members)
        ],
        "folders": main_folders(entries, folders, tests),
        "tests": tests,
        "docs": docs_folders(entries),
        "decisions": decision_folders(entries),
        "client_files": sorted({name for path in paths if (name := _client_file(path))}),
        "read_from": [path for path, one in manifests.items() if one.name or one.purpose or requires[path]],
    }
    return {field: value for field, value in stated.items() if value}


def _name(path: str, manifest: PackageManifest) -> str:
    """Return the name of a project without additions of its build; empty for one that is never published."""
    if manifest.is_private:
        return ""
    module = re.sub(r"/v\d+$|-(?:root|parent)$", "", manifest.name)
    return module.rpartition("/")[2] if path in ("go.mod", "composer.json") else module


def _version(
    name: str, manifests: Mapping[str, PackageManifest], parts: Sequence[PackageManifest], texts: Mapping[str, str]
) -> str:
    """Return the version in manifests, else in the code, else of the packages in folders."""
    for manifest in manifests.values():
        version = manifest.version or (
            _code_version(name, manifest.version_file, texts) if manifest.version_file else ""
        )
        if version and not version.startswith("0.0.0"):
            return version
    stated = [part for part in parts if part.version and not part.version.startswith("0.0.0")]
    own = next((part.version for part in stated if part.name == name), "")
    shared = {part.version for part in stated if not part.is_private}
    return own or (shared.pop() if len(shared) == 1 < len(stated) else "")


def _code_version(name: str, file: str, texts: Mapping[str, str]) -> str:
    """Return the version in the file named by the manifest, else in the package; empty if packages differ."""
    if file in texts and not file.endswith(".py"):
        return texts[file].strip() if re.fullmatch(r"\s*\d[\w.+-]*\s*", texts[file]) else ""
    packages = {path: match["package"] for path in texts if (match := _VERSION_FILE.fullmatch(path))}
    own = [path for path, package in packages.items() if package == name.lower().replace("-", "_")]
    files = [file] if file in texts else own or [*packages]
    versions = {match[1] for path in files for match in _CODE_VERSION.finditer(texts[path])}
    return versions.pop() if len(versions) == 1 else ""


def _requires(manifest: PackageManifest) -> str:
    """Return the runtime of a package in readable form: `>=3.9` of `python` becomes `Python ≥ 3.9`."""
    for key, runtime in _RUNTIMES.items():
        versions = manifest.requires.get(key, "*")
        if versions != "*":
            minimum = f">={versions}" if key in ("rust", "go") else versions
            spaced = re.sub(r"\s*(>=|<=|~=|\^|>|<|==)\s*", r" \1 ", minimum).replace(">=", "≥").replace("<=", "≤")
            return f"{runtime} {' '.join(spaced.split())}".replace(" ,", ",").replace("^ ", "^")
    return ""


def _client_file(path: str) -> str:
    """Return the name of a file or folder with rules that coding agents load by themselves; empty for others."""
    return next((one for one in _CLIENT_FOLDERS if path.startswith(one)), path if _CLIENT_FILES.fullmatch(path) else "")


def _purpose(text: str) -> str:
    plain = " ".join(_MARKUP.sub(lambda match: next(filter(None, match.groups()), ""), text).split())
    sentence = re.split(r"(?<=[.!?])\s", plain, maxsplit=1)[0].rstrip(".:")
    return sentence if len(sentence) <= _MAX_PURPOSE_CHARS else f"{sentence[:_MAX_PURPOSE_CHARS].rpartition(' ')[0]} …"
