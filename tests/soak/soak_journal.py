"""What a worker noted of its work: what it was about to do, and what became of it. It outlives its writer."""

import json
import os
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

GONE = frozenset({"deleted", "unknown"})
SHARED = "Shared"
"""What the documents begin with that every worker indexes and deletes; all others are one worker's own."""


@dataclass(frozen=True, slots=True)
class Step:
    """One call. `outcomes` is `None` where the worker was killed before the call returned."""

    verb: str
    docs: tuple[str, ...]
    outcomes: tuple[str, ...] | None = None
    seconds: float = 0.0
    wrong: str = ""
    """An error, or what was found that should not be, or was not found."""


class Journal:
    """Lines in a file, each written whole before the call that it tells of goes on."""

    def __init__(self, path: Path) -> None:
        self._file = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_APPEND)

    def begin(self, verb: str, docs: Sequence[str]) -> None:
        self._write({"verb": verb, "docs": docs})

    def end(self, outcomes: Sequence[str], seconds: float, wrong: str) -> None:
        self._write({"outcomes": outcomes, "seconds": seconds, "wrong": wrong})

    def _write(self, line: dict[str, object]) -> None:
        os.write(self._file, json.dumps(line).encode() + b"\n")


def read_steps(path: Path) -> Iterator[Step]:
    """Return the steps a journal tells of, in order."""
    begun: Step | None = None
    for line in path.read_text(encoding="utf-8").splitlines() if path.exists() else ():
        known = json.loads(line)
        if "verb" in known:
            if begun:
                yield begun
            begun = Step(known["verb"], tuple(known["docs"]))
        else:
            assert begun
            yield Step(begun.verb, begun.docs, tuple(known["outcomes"]), known["seconds"], known["wrong"])
            begun = None
    if begun:
        yield begun


def held(steps: Iterable[Step]) -> dict[str, bool | None]:
    """Give, for a worker's own documents, whether they are there; `None` where a call on them did not return."""
    found: dict[str, bool | None] = {}
    for step in steps:
        for place, doc in enumerate(step.docs if step.verb != "retrieve" else ()):
            if not doc.startswith(SHARED):
                found[doc] = None if step.outcomes is None else step.outcomes[place] not in GONE
    return found
