"""Segments of a structured document: texts at JSON pointers, without secrets, cut where they are long."""

from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field
from typing import Any

from treering.core.injection import instruction_flags
from treering.core.locator import Pointer
from treering.ports.adapter import Role, SegmentDraft
from treering.ports.format import FileToRead

MOST_TEXT = 100_000
"""Characters of one text that are kept."""


@dataclass(slots=True)
class PieceWriter:
    """Takes texts in their order; `segments`, `metadata` and `warnings` are what a document is made of."""

    file: FileToRead
    segments: list[SegmentDraft] = field(default_factory=list)
    warnings: list[str] = field(default_factory=list)
    _flags: dict[str, None] = field(default_factory=dict)

    @property
    def metadata(self) -> dict[str, Any]:
        """Name what is shaped like instructions."""
        return {"flags": [*self._flags]} if self._flags else {}

    def names(self, names: Iterable[str]) -> list[str]:
        """Return names on the way to a place without secrets, which a pointer to it would show."""
        return [self.file.cleaned(one).text for one in names]

    def clean(self, text: str, pointer: str) -> str:
        """Return a short text, such as a title, without secrets; what was taken out is warned of."""
        found = self.file.cleaned(text)
        self.warnings += [f"{one.kind} at {pointer or '/'}: redacted" for one in found.findings]
        return found.text

    def add(self, pointer: str, text: str, *, heading: str = "", role: Role = "prose") -> int | None:
        """Add a text that stands at a pointer; return the number of its first segment, `None` where it says nothing."""
        if len(text) > MOST_TEXT:
            self.warnings.append(f"only the first {MOST_TEXT:,} of {len(text):,} characters at {pointer} are kept")
        kept = self.clean(text[:MOST_TEXT], pointer)
        if not kept.strip():
            return None
        self._flags |= dict.fromkeys(instruction_flags(kept))
        first = len(self.segments)
        for piece in _cut(kept, self.file.limits.max_segment_chars):
            self.segments.append(SegmentDraft(Pointer(pointer=pointer), piece, heading=heading, role=role))
        return first


def pointer_to(*names: object) -> str:
    """Return the JSON pointer (RFC 6901) to a place, by the names and numbers on the way to it."""
    return "".join(f"/{str(name).replace('~', '~0').replace('/', '~1')}" for name in names)


def _cut(text: str, most: int) -> Iterator[str]:
    """Cut a text between lines; a line that is longer by itself stays whole."""
    lines: list[str] = []
    size = 0
    for one in text.split("\n"):
        if lines and size + len(one) + 1 > most:
            yield "\n".join(lines)
            lines, size = [], 0
        lines.append(one)
        size += len(one) + 1
    if any(one.strip() for one in lines):
        yield "\n".join(lines)
