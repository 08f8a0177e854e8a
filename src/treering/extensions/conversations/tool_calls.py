"""File names in the tool calls of coding agents, and failures in their results. Light, because hooks import it."""

import re
from collections.abc import Iterator
from typing import Any

PATH_ARGUMENTS = ("file_path", "filePath", "absolute_path", "notebook_path", "target_file", "path")
PATCHED = re.compile(r"^\*\*\* (?:Update|Add|Delete) File: (.+)$|^\*\*\* Move to: (.+)$", re.MULTILINE)
FAILED_LINE = re.compile(r"error|exception|fail|assert|panic|traceback|^E  |fatal|denied|not found", re.IGNORECASE)


def texts_in(value: Any) -> Iterator[str]:
    """Yield every text in a JSON value that is not empty."""
    match value:
        case str() if value:
            yield value
        case dict():
            for one in value.values():
                yield from texts_in(one)
        case list():
            for one in value:
                yield from texts_in(one)
