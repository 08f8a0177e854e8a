"""The project card: name, purpose, commands and layout of a repository, read from its manifests by rules.

Pure functions on values. A field that no file states is left out; nothing is guessed.
"""

import re
from collections.abc import Callable, Mapping, Sequence
from typing import Any

from treering.sources.repository.git import TreeEntry
from treering.sources.repository.project_commands import chosen_commands, commands_of
from treering.sources.repository.project_layout import main_folders, main_languages, test_places
from treering.sources.repository.project_manifests import manifests_of

_MAX_PURPOSE_CHARS = 160
_CARD_FILES = frozenset(
    "pyproject.toml setup.cfg setup.py tox.ini noxfile.py pytest.ini Pipfile package.json Cargo.toml go.mod pom.xml "
    "build.gradle build.gradle.kts composer.json mix.exs Gemfile Rakefile Makefile GNUmakefile makefile justfile "
    "Justfile Taskfile.yml Taskfile.yaml".split()
)
_CLIENT_FILES = re.compile(
    r"(AGENTS|CLAUDE|GEMINI)\.md|\.cursorrules|\.windsurfrules|\.clinerules|\.github/copilot-instructions\.md"
)
_CLIENT_FOLDERS = (".cursor/rules/",)
_MARKUP = re.compile(r"!?\[([^\]]*)\]\([^)]*\)|`{1,2}([^`]*)`{1,2}|<[^>]+>|[*_]{2}([^*_]+)[*_]{2}|:\w+:`([^`]*)`")


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
    languages = main_languages(entries)
    manifests = manifests_of(texts, languages)
    tests = test_places(entries)
    name = next((one.name for one in manifests if one.name), name.rpartition("/")[2])
    stated = {
        "name": name,
        "version": next((one.version for one in manifests if one.version), ""),
        "purpose": _purpose(next((one.description for one in manifests if one.description), "") or describe(name)),
        "languages": languages,
        "requires": [one.requires for one in manifests if one.requires],
        "commands": [
            {"job": one.job, "run": one.run, "path": one.path}
            for one in chosen_commands(commands_of(paths, texts, languages))
        ],
        "folders": main_folders(folders, tests),
        "tests": tests,
        "docs": [f"{folder}/" for folder in ("docs", "doc") if any(path.startswith(f"{folder}/") for path in paths)],
        "client_files": sorted({found for path in paths if (found := _client_file(path))}),
        "read_from": [one.path for one in manifests if one.name or one.description or one.requires],
    }
    return {field: value for field, value in stated.items() if value}


def _client_file(path: str) -> str:
    """Return how to name a file or folder with rules that coding agents load by themselves; empty for another."""
    return next((one for one in _CLIENT_FOLDERS if path.startswith(one)), path if _CLIENT_FILES.fullmatch(path) else "")


def _purpose(text: str) -> str:
    plain = " ".join(_MARKUP.sub(lambda found: next(filter(None, found.groups()), ""), text).split())
    sentence = re.split(r"(?<=[.!?])\s", plain, maxsplit=1)[0].rstrip(".")
    return sentence if len(sentence) <= _MAX_PURPOSE_CHARS else f"{sentence[:_MAX_PURPOSE_CHARS].rpartition(' ')[0]} …"
