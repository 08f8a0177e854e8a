"""YAML as plain values, read in a child process, because one file can require minutes or all memory.

Values are built from the events of the parser, without guessing types: everything except true, false and null stays
text (the failsafe schema of YAML 1.2). This is ten times as fast as `yaml.load`.
"""

import json
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

import yaml

from treering.sources.reading.bounded_process import BoundedProcess, answer_questions

MEMORY_BYTES = 1_000_000_000
MOST_CHARS = 100_000_000
"""The limit of characters after all aliases are expanded."""
_CPU_SECONDS = 5
_BYTES_PER_SECOND = 500_000
_DEPTH = 200
_VALUE_CHARS = 8
"""The size of a value in addition to its characters."""
_LOADER = getattr(yaml, "CSafeLoader", yaml.SafeLoader)
_WORDS = {word: value for name, value in (("true", True), ("false", False), ("null", None))
          for word in (name, name.capitalize(), name.upper())} | {"~": None, "": None}  # fmt: skip
_MERGE = "<<"


@dataclass(frozen=True, slots=True)
class YamlStopped:
    """The reason why a file was not read."""

    why: str


def read_yaml(data: bytes) -> Any | YamlStopped:
    """Return the value of a document in UTF-8; `None` if it is not YAML, or there are several documents.

    It is read in a child process, started on first use. Safe to use from many threads.
    """
    seconds = _CPU_SECONDS + len(data) // _BYTES_PER_SECOND
    answer = _PROCESS.ask(b"y" + data, seconds=seconds)
    if answer is None:
        return YamlStopped(f"it cannot be read within {seconds} s and {MEMORY_BYTES // 10**6:,} MB")
    result = json.loads(answer)
    return YamlStopped(result["why"]) if "why" in result else result["value"]


_PROCESS = BoundedProcess(__name__)


def serve() -> None:
    """Read the files requested on standard input."""
    answer_questions(_answered, memory_bytes=MEMORY_BYTES)


def _answered(question: bytes) -> bytes:
    try:
        result = {"value": _value(question[1:].decode())}
    except _TooLargeError as error:
        result = {"why": str(error)}
    except MemoryError:
        result = {"why": f"reading it needs more than {MEMORY_BYTES // 10**6:,} MB"}
    except (yaml.YAMLError, ValueError, RecursionError):
        result = {"value": None}
    return json.dumps(result, ensure_ascii=False).encode()


class _TooLargeError(Exception):
    """A file contains too much. Its text is the message."""


@dataclass(slots=True)
class _Open:
    """A mapping or list that is not complete yet."""

    items: Any
    anchor: str | None
    size: int = _VALUE_CHARS
    key: str | None = None
    """The key of the next value."""

    def add(self, value: Any, size: int, text: str | None) -> None:
        """Add a value; `text` is its text if it is neither a list nor a mapping."""
        self.size += size
        if self.size > MOST_CHARS:
            raise _TooLargeError(f"it has more than {MOST_CHARS:,} characters with its aliases expanded")
        if isinstance(self.items, list):
            self.items.append(value)
        elif self.key is None:
            self.key = "…" if text is None else text
        else:
            self._put(self.key, value)
            self.key = None

    def _put(self, key: str, value: Any) -> None:
        if key != _MERGE:
            self.items[key] = value
            return
        # Keys of the mapping itself override merged ones, whatever their order.
        for one in value if isinstance(value, list) else [value]:
            if isinstance(one, dict):
                self.items |= {name: inner for name, inner in one.items() if name not in self.items}


def _value(text: str) -> Any:
    """Build the value of the only document of a text. Raises `ValueError` for several documents, or deep nesting."""
    whole, above, anchors = _Open([], None), list[_Open](), dict[str, tuple[Any, int]]()
    for event in _events(text):
        into = above[-1] if above else whole
        match event:
            case yaml.ScalarEvent():
                value = _WORDS.get(event.value, event.value) if event.implicit[0] else event.value
                size = _VALUE_CHARS + len(event.value)
                if event.anchor:
                    anchors[event.anchor] = value, size
                into.add(value, size, event.value)
            case yaml.MappingStartEvent():
                above.append(_Open({}, event.anchor))
            case yaml.SequenceStartEvent():
                above.append(_Open([], event.anchor))
            case yaml.MappingEndEvent() | yaml.SequenceEndEvent():
                done = above.pop()
                if done.anchor:  # set at the end: an alias inside its own value is empty
                    anchors[done.anchor] = done.items, done.size
                (above[-1] if above else whole).add(done.items, done.size, None)
            case yaml.AliasEvent():
                value, size = anchors.get(event.anchor or "", (None, _VALUE_CHARS))
                into.add(value, size, value if isinstance(value, str) else None)
            case _:
                continue
        if len(above) > _DEPTH:
            raise ValueError("too deep")
    (value,) = whole.items
    return value


def _events(text: str) -> Iterator[Any]:
    loader = _LOADER(text)
    try:
        while loader.check_event():
            yield loader.get_event()
    finally:
        loader.dispose()
