"""The folders of a project's code, and of its tests."""

import re
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from treering.extensions.code.parsing.languages import counted_language
from treering.extensions.code.repository.contents import TreeEntry
from treering.ports.format import is_decision_record
from treering.retrieval.index.code_places import is_test_path, role_of_file
from treering.sources.vendored import is_vendored

_MAX_FOLDERS = 6
_MAX_CHILDREN = 8
_MAX_TEST_PLACES = 4
_TEST_SHARE = 0.5
"""Share of tests among the code of a folder with such a name; the rest may be fixtures and helpers."""
_MIN_TOP_SHARE = 0.1
"""Share of the bytes of code from which the top of a repository is listed as a folder of code."""
_TEST_FOLDER = re.compile(r"t|e2e|[\w-]*(?:tests?|specs?)(?:__)?", re.IGNORECASE)
_MIN_PLACE_SHARE = 0.05
"""The minimum share of the test files for a place to be listed."""
_MIN_LANGUAGE_SHARE = 0.1
"""Share of the bytes of code from which a language is listed."""
_EXAMPLES = re.compile(r"(?:examples?|samples?|demos?|templates?)/", re.IGNORECASE)
"""Folders at the top whose tests do not test the project."""
_MAX_DECISION_FOLDERS = 2
_MIN_RECORDS = 2
"""Numbered files from which a folder with such a name is one of decision records."""
_NUMBERED = re.compile(r"(?:[a-z]+[-_])?\d{2,}", re.IGNORECASE)
DOCS_NAMES = ("docs", "doc")
_TEST_SUFFIX = re.compile(r"(?:[._](?:test|spec)\.(?:go|py|rb|[cm]?[jt]sx?)|Tests?\.(?:java|kt|php))$")


def main_languages(entries: Sequence[TreeEntry]) -> list[str]:
    """Return the languages with a tenth or more of the code, the largest first."""
    size: Counter[str] = Counter()
    for entry in entries:
        language = counted_language(entry.path)
        if language and language.code and role_of_file(entry.path, "code") == "code" and not is_vendored(entry.path):
            size[language.name] += entry.size
    return [name for name, bytes_ in size.most_common() if bytes_ >= _MIN_LANGUAGE_SHARE * size.total()]


def main_folders(
    entries: Sequence[TreeEntry], folders: Mapping[str, Sequence[str]], tests: Sequence[str]
) -> list[dict[str, Any]]:
    """Return the main folders of code, except those of tests, each with the names of its subfolders."""
    code = [entry for entry in entries if _is_code(entry.path) and not is_test_path(entry.path)]
    at_top = sum(entry.size for entry in code if "/" not in entry.path)
    main: list[dict[str, Any]] = []
    if at_top and at_top >= _MIN_TOP_SHARE * sum(entry.size for entry in code):
        main.append({"path": "./", "children": [], "more": 0})
    for path, children in folders.items():
        if not f"{path}/".startswith(tuple(one for one in tests if one.endswith("/"))) and len(main) < _MAX_FOLDERS:
            names = [*dict.fromkeys(child.removeprefix(f"{path}/").partition("/")[0] for child in children)]
            main.append({"path": f"{path}/", "children": names[:_MAX_CHILDREN], "more": len(names[_MAX_CHILDREN:])})
    return main


def docs_folders(entries: Sequence[TreeEntry]) -> list[str]:
    """Return the folders of documentation at the top. One with mostly code is a package, as `doc/` often is in Go."""
    folders = [(f"{name}/", [one.path for one in entries if one.path.startswith(f"{name}/")]) for name in DOCS_NAMES]
    return [folder for folder, paths in folders if 2 * sum(map(_is_code, paths)) < len(paths)]


def test_places(entries: Sequence[TreeEntry]) -> list[str]:
    """Return the topmost folders of mostly tests, and the patterns of tests next to the code they test."""
    code = [entry.path for entry in entries if _is_code(entry.path)]
    tests = {path for path in code if is_test_path(path)}
    folders: Counter[str] = Counter()
    of_tests: Counter[str] = Counter()
    for path in code:
        for folder in folders_above(path):
            folders[folder] += 1
            of_tests[folder] += path in tests
    whole = {
        folder
        for folder, count in folders.items()
        if of_tests[folder] >= (_TEST_SHARE if _TEST_FOLDER.fullmatch(folder.rpartition("/")[2]) else 1) * count
    }
    topmost = [
        folder
        for folder in whole
        if not any(above in whole for above in folders_above(folder)) and not _EXAMPLES.match(f"{folder}/")
    ]
    adjacent = [path for path in tests if not any(folder in whole for folder in folders_above(path))]
    return [*_merged(topmost, of_tests, len(tests)), *_patterns(adjacent, len(tests))]


def decision_folders(entries: Sequence[TreeEntry]) -> list[dict[str, Any]]:
    """Return the folders of several numbered decision records, the largest first, each with how many it has."""
    paths = [entry.path for entry in entries if is_decision_record(entry.path) and not is_vendored(entry.path)]
    folders = (path.rpartition("/") for path in paths)
    records = Counter(folder for folder, _, name in folders if _NUMBERED.match(name))
    most = records.most_common(_MAX_DECISION_FOLDERS)
    return [{"path": f"{folder}/", "records": count} for folder, count in most if count >= _MIN_RECORDS]


def _is_code(path: str) -> bool:
    language = counted_language(path)
    return bool(language and language.code)


def folders_above(path: str) -> Iterator[str]:
    """Yield the folders that contain a path, the nearest first."""
    while "/" in path:
        path = path.rpartition("/")[0]
        yield path


def _merged(folders: Sequence[str], count: Mapping[str, int], total: int) -> list[str]:
    """Merge many folders of one name into a pattern, and return the places with the most tests first."""
    names = Counter(folder.rpartition("/")[2] for folder in folders)
    files: Counter[str] = Counter()
    for folder in folders:
        name = folder.rpartition("/")[2]
        files[f"**/{name}/" if names[name] >= _MAX_TEST_PLACES else f"{folder}/"] += count[folder]
    return [place for place, tests in files.most_common(_MAX_TEST_PLACES) if tests >= _MIN_PLACE_SHARE * total]


def _patterns(tests: Sequence[str], total: int) -> list[str]:
    suffixes = Counter(match[0] for path in tests if (match := _TEST_SUFFIX.search(path)))
    return [f"**/*{suffix}" for suffix, count in suffixes.most_common(2) if 10 * count >= total]
