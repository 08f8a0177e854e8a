"""Which paths pages may have below the root of a wiki."""

import re
from collections.abc import Iterable

from treering.core.errors import InvalidInput

INDEX = "index.md"
LOG = "log.md"
RESERVED = frozenset({INDEX, LOG})
"""Files that every wiki has besides its pages."""

_LONGEST_NAME = 200  # bytes, below what file systems take
_LONGEST_PATH = 1_000
_NOT_IN_NAMES = re.compile(r'[\x00-\x1f\x7f-\x9f\\:*?"<>|#%\u2028\u2029\ud800-\udfff]')
_DEVICE = re.compile(r"(?:con|prn|aux|nul|com\d|lpt\d)(?:\..*)?", re.IGNORECASE)


def check_page_paths(paths: Iterable[str]) -> None:
    """Raise `InvalidInput` for a path that no page may have, and for two that a file system may take for one."""
    taken: dict[str, str] = {folded: folded for folded in RESERVED}
    for path in paths:
        if not is_page_path(path):
            raise InvalidInput(
                f"{path[:200]!r} cannot be the path of a wiki page.",
                hint="A path is relative, ends in .md, and has no '..', hidden or reserved names.",
            )
        if path.casefold() in taken:
            raise InvalidInput(
                f"Two pages would have the path {path!r}.",
                hint=f"Capitals make no difference; {' and '.join(sorted(RESERVED))} are made by the wiki itself.",
            )
        taken[path.casefold()] = path
    _refuse_page_as_folder(taken)


def is_page_path(path: str) -> bool:
    """Tell whether a path stays below its root on every file system, and names a Markdown file."""
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


def _refuse_page_as_folder(taken: Iterable[str]) -> None:
    pages = set(taken)
    for path in pages:
        parts = path.split("/")
        for end in range(1, len(parts)):
            above = "/".join(parts[:end])
            if above in pages:
                raise InvalidInput(
                    f"{above!r} would be a page and a folder of pages.", hint="Give one of them another name."
                )
