"""How names of files are shown: as one line of text, whatever bytes they have."""

import re
from pathlib import Path

_UNPRINTABLE = re.compile("[\x00-\x1f\x7f-\x9f\u2028\u2029\u202a-\u202e\u2066-\u2069]")


def printable(name: bytes) -> str:
    r"""Decode a file name to stable, printable text: bytes that are no UTF-8 and controls become `\x..`."""
    text = name.decode("utf-8", "backslashreplace")
    return _UNPRINTABLE.sub(lambda found: found[0].encode("unicode_escape").decode("ascii"), text)


def shown(path: Path | str) -> str:
    """Return a path as printable text, for a message."""
    return printable(str(path).encode("utf-8", "surrogateescape"))
