"""Import lines and comments of code, by line."""

import re
from collections.abc import Sequence
from itertools import takewhile

_IMPORT = re.compile(
    r"""\s*(?:from\s+\S+\s+import\b|import\b|(?:pub )?use\s+[\w{]|\#\s*include\b|using\s|package\s"""
    r"""|export\s.*\bfrom\s+["']|(?:const|let|var)\s.*=\s*require\(|(?:\w+\s+)?"[\w.-]+(?:/[\w.-]+)+"$)"""
)
_COMMENT = re.compile(r"\s*(?:\*|//|/\*|#(?!\[)|$)")
_OPEN = re.compile(r"[({]\s*(?:#.*|//.*)?$")
_CLOSING = re.compile(r"[)}]")


def is_comment(line: str) -> bool:
    """Return whether a line of code is blank or a comment."""
    return _COMMENT.match(line) is not None


def is_import(lines: Sequence[str], at: int) -> bool:
    """Return whether a line of code is an import, or in the brackets of one."""
    if _IMPORT.match(lines[at]):
        return True
    above = takewhile(lambda line: not _CLOSING.search(line), reversed(lines[:at]))
    return any(_IMPORT.match(line) and _OPEN.search(line) for line in above)


def is_mostly_imports(code: str) -> bool:
    """Return whether at least half of the lines of some code are imports, without comments."""
    lines = code.split("\n")
    places = [at for at, line in enumerate(lines) if not is_comment(line)]
    return 2 * sum(is_import(lines, at) for at in places) >= len(places) > 0
