"""Which files may hold conversations: by their name and how they begin, before they are read whole."""

import re
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import PurePosixPath

HEAD_BYTES = 256_000
"""How much of a file `reading_of` looks at."""


@dataclass(frozen=True, slots=True)
class Hint:
    """What a file looks like: a kind of reading, the endings of its name, and what its beginning has in it."""

    reading: str
    endings: tuple[str, ...]
    begins: Callable[[bytes], bool]


_MEMBERS = re.compile(rb'"(?:mapping|chat_messages|messages|loglines|conversations|role|sender|content|from)"\s*:')
_CUE = re.compile(rb"\d\s*-->\s*\d")
_TURN = re.compile(rb":[ \t*\r\n]")

HINTS = (
    Hint("json", (".json",), lambda head: head.lstrip()[:1] in {b"[", b"{"} and bool(_MEMBERS.search(head))),
    Hint("json lines", (".jsonl", ".ndjson"), lambda head: bool(_MEMBERS.search(head))),
    Hint("zip", (".zip",), lambda head: head.startswith(b"PK")),
    Hint("vtt", (".vtt",), lambda head: b"WEBVTT" in head[:16]),
    Hint("srt", (".srt",), lambda head: bool(_CUE.search(head))),
    Hint("speaker text", (".txt", ".md", ".transcript"), lambda head: bool(_TURN.search(head))),
)


def reading_of(name: str, head: bytes) -> str:
    """Say how a file is to be read for conversations; empty where it cannot hold any.

    This only saves reading other files: whether it does hold conversations shows when it is read.
    """
    ending = PurePosixPath(name).suffix.lower()
    plain = head.removeprefix(b"\xef\xbb\xbf")
    return next((hint.reading for hint in HINTS if ending in hint.endings and hint.begins(plain)), "")


def may_be_read(name: str) -> bool:
    """Tell by a file's name whether it is worth a look."""
    ending = PurePosixPath(name).suffix.lower()
    return any(ending in hint.endings for hint in HINTS)
