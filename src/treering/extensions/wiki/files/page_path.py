"""Valid paths of pages."""

import re
from collections.abc import Collection, Iterable
from pathlib import PurePosixPath

from treering.core.errors import InvalidInput

INDEX = "index.md"
LOG = "log.md"
RESERVED = frozenset({INDEX, LOG})
"""Files of every wiki besides its pages."""

_LONGEST_NAME = 200  # bytes; file systems allow 255
_LONGEST_PATH = 1_000
_NOT_IN_NAMES = re.compile(r'[\x00-\x1f\x7f-\x9f\\:*?"<>|#%\u2028\u2029\ud800-\udfff]')
_DEVICE = re.compile(r"(?:con|prn|aux|nul|com\d|lpt\d)(?:\..*)?", re.IGNORECASE)


def check_page_paths(paths: Iterable[str]) -> None:
    """Raise `InvalidInput` for invalid paths, and for paths that are equal on a case-insensitive file system."""
    taken: dict[str, str] = {folded: folded for folded in RESERVED}
    for path in paths:
        if not is_page_path(path):
            raise InvalidInput(
                f"{path[:200]!r} is not a valid path of a wiki page.",
                hint="A path is relative, ends in .md, and has no '..', hidden or reserved names.",
            )
        if path.casefold() in taken:
            raise InvalidInput(
                f"Two pages would have the path {path!r}.",
                hint=f"Paths are case-insensitive; {' and '.join(sorted(RESERVED))} are created by the wiki itself.",
            )
        taken[path.casefold()] = path
    _refuse_page_as_folder(taken)


def is_page_path(path: str) -> bool:
    """Return whether a path is a Markdown file below its root on every file system."""
    return path.endswith(".md") and len(path) <= _LONGEST_PATH and all(map(_is_name, path.split("/")))


def _is_name(name: str) -> bool:
    return (
        bool(name)
        and not name.startswith((".", " ", "-"))
        and not name.endswith((".", " "))
        and name != ".md"
        and not _NOT_IN_NAMES.search(name)
        and not _DEVICE.fullmatch(name)
        and len(name.encode()) <= _LONGEST_NAME
    )


def _refuse_page_as_folder(taken: Collection[str]) -> None:
    folders = {str(folder) for path in taken for folder in PurePosixPath(path).parents}
    for path in taken:
        if path in folders:
            raise InvalidInput(f"{path!r} would be both a page and a folder of pages.", hint="Rename one of them.")
