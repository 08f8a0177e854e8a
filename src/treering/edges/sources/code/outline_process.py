"""Outlining code in a child process that is ended when a file takes too long.

The parsers are native code. Their error recovery can spend minutes in one step that calls nobody back, so a limit
inside the process does not hold.
"""

import json
from dataclasses import asdict, dataclass, field
from typing import Any

from treering.edges.sources.bounded_process import BoundedProcess, answer_questions
from treering.edges.sources.code.outline import CodeOutline, Symbol, outline

SMALL_TEXT = 10_000
"""Characters; the worst files known of this size take less than half a second, so they are parsed without the child."""

_CPU_SECONDS = 1
_CPU_SECONDS_PER_CHAR = 1e-5


@dataclass(frozen=True, slots=True)
class OutlineStopped:
    """A file whose outline was given up, and why."""

    why: str


@dataclass(frozen=True, slots=True)
class OutlineProcess:
    """Outlines files in a child process, started when it is first needed. Safe to use from many threads."""

    _process: BoundedProcess = field(default_factory=lambda: BoundedProcess(__name__))

    def outline(self, path: str, text: str) -> CodeOutline | OutlineStopped | None:
        """Return what `code.outline.outline` returns, or why the child was ended before it had an answer."""
        if len(text) <= SMALL_TEXT:
            return outline(path, text)
        seconds = _CPU_SECONDS + int(len(text) * _CPU_SECONDS_PER_CHAR)
        answer = self._process.ask(json.dumps([path, text]).encode(), seconds=seconds)
        if answer is None:
            return OutlineStopped(f"its code was not parsed within {seconds} s of CPU time: kept as plain lines")
        return _outline_of(json.loads(answer))


def serve() -> None:
    """Outline the files that are asked for on standard input."""
    answer_questions(_answered)


def _answered(question: bytes) -> bytes:
    found = outline(*json.loads(question))
    return json.dumps(asdict(found) if found else None).encode()


def _outline_of(told: dict[str, Any] | None) -> CodeOutline | None:
    if told is None:
        return None
    symbols = tuple(Symbol(**symbol) for symbol in told["symbols"])
    uses = tuple((line, use) for line, use in told["uses"])
    named = tuple(told["imports"]), told["module_doc"], tuple(told["public"])
    return CodeOutline(told["language"], symbols, *named, uses)
