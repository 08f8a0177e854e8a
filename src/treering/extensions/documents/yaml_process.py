"""YAML as plain values, read in a child process: one file of it can ask for minutes, or for all memory.

The values are built of the events of the parser, without the types that YAML guesses: what is not true, false or null
stays the text that stands there (YAML 1.2 calls that the failsafe schema). That is ten times as fast as `yaml.load`.
"""

import json
from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Any

import yaml

from treering.sources.reading.bounded_process import BoundedProcess, answer_questions

MEMORY_BYTES = 1_000_000_000
MOST_CHARS = 100_000_000
"""Of what a file says when each alias stands for what it names."""
_CPU_SECONDS = 5
_BYTES_PER_SECOND = 500_000
_DEPTH = 200
_VALUE_CHARS = 8
"""What a value counts besides its characters."""
_LOADER = getattr(yaml, "CSafeLoader", yaml.SafeLoader)
_WORDS = {word: value for said, value in (("true", True), ("false", False), ("null", None))
          for word in (said, said.capitalize(), said.upper())} | {"~": None, "": None}  # fmt: skip
_MERGE = "<<"


@dataclass(frozen=True, slots=True)
class YamlStopped:
    """A file that was given up, and why."""

    why: str


@dataclass(frozen=True, slots=True)
class YamlProcess:
    """Reads YAML in a child process, started when it is first needed. Safe to use from many threads."""

    _process: BoundedProcess = field(default_factory=lambda: BoundedProcess(__name__))

    def read(self, data: bytes) -> Any | YamlStopped:
        """Return what the one document of a text in UTF-8 says; `None` where it is not YAML, or has several."""
        seconds = _CPU_SECONDS + len(data) // _BYTES_PER_SECOND
        answer = self._process.ask(b"y" + data, seconds=seconds)
        if answer is None:
            return YamlStopped(f"it cannot be read within {seconds} s and {MEMORY_BYTES // 10**6:,} MB")
        told = json.loads(answer)
        return YamlStopped(told["why"]) if "why" in told else told["value"]


def serve() -> None:
    """Read the files that are asked for on standard input."""
    answer_questions(_answered, memory_bytes=MEMORY_BYTES)


def _answered(question: bytes) -> bytes:
    try:
        told = {"value": _value(question[1:].decode())}
    except _TooLargeError as error:
        told = {"why": str(error)}
    except MemoryError:
        told = {"why": f"reading it needs more than {MEMORY_BYTES // 10**6:,} MB"}
    except (yaml.YAMLError, ValueError, RecursionError):
        told = {"value": None}
    return json.dumps(told, ensure_ascii=False).encode()


class _TooLargeError(Exception):
    """A file says too much. Its text says so, for a person."""


@dataclass(slots=True)
class _Open:
    """A mapping or a list whose end has not come."""

    made: Any
    anchor: str | None
    size: int = _VALUE_CHARS
    key: str | None = None
    """The key whose value comes next."""

    def add(self, value: Any, size: int, said: str | None) -> None:
        """Take a value; `said` is what stands there of one that is no list and no mapping."""
        self.size += size
        if self.size > MOST_CHARS:
            raise _TooLargeError(f"it has more than {MOST_CHARS:,} characters with its aliases expanded")
        if isinstance(self.made, list):
            self.made.append(value)
        elif self.key is None:
            self.key = "…" if said is None else said
        else:
            self._put(self.key, value)
            self.key = None

    def _put(self, key: str, value: Any) -> None:
        if key != _MERGE:
            self.made[key] = value
            return
        # What stands in the mapping itself wins over what is merged, wherever it stands.
        for one in value if isinstance(value, list) else [value]:
            if isinstance(one, dict):
                self.made |= {name: inner for name, inner in one.items() if name not in self.made}


def _value(text: str) -> Any:
    """Build the value of the only document of a text. Raises `ValueError` where there are more, or it is too deep."""
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
                if done.anchor:  # only now: what names itself inside names nothing
                    anchors[done.anchor] = done.made, done.size
                (above[-1] if above else whole).add(done.made, done.size, None)
            case yaml.AliasEvent():
                value, size = anchors.get(event.anchor or "", (None, _VALUE_CHARS))
                into.add(value, size, value if isinstance(value, str) else None)
            case _:
                continue
        if len(above) > _DEPTH:
            raise ValueError("too deep")
    (value,) = whole.made
    return value


def _events(text: str) -> Iterator[Any]:
    loader = _LOADER(text)
    try:
        while loader.check_event():
            yield loader.get_event()
    finally:
        loader.dispose()
