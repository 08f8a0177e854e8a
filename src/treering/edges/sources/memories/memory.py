"""A memory of another system, whichever that was."""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime
from hashlib import sha256

from pydantic import JsonValue

from treering.edges.sources.loose_json import Record, first_moment
from treering.ports.adapter import KnowledgeDraft


@dataclass(frozen=True, slots=True)
class ForeignMemory:
    """What another system remembered: word for word, with its dates and everything else that was told of it."""

    system: str
    id: str
    """Unique in its export. Empty: it is known by what it says."""
    text: str
    title: str = ""
    at: datetime | None = None
    """When the other system last wrote it."""
    metadata: Mapping[str, JsonValue] = field(default_factory=dict)
    about: str = ""
    """Whom or what the text describes; empty: it states nothing that could be held to be true."""
    claim: KnowledgeDraft | None = None
    """What it states, where that is told more closely than by `about`."""

    @property
    def name(self) -> str:
        """Return what it is known by in its export."""
        return self.id or sha256(self.text.encode("utf-8", "replace")).hexdigest()[:_DIGITS]


@dataclass(frozen=True, slots=True)
class LeftOut:
    """A part of an export that is not a memory, or cannot be read as one, and why."""

    name: str
    why: str


Told = ForeignMemory | LeftOut

WRITTEN = ("updated_at", "updatedAt", "created_at", "createdAt", "created_at_epoch", "filed_at")
"""The members that say when a memory was written, the latest first."""


def written(found: Record) -> datetime | None:
    """Return when a memory was last written, as far as it says."""
    return first_moment(found, *WRITTEN)


def besides(found: Record, *taken: str) -> dict[str, JsonValue]:
    """Return the members of a record besides those taken. Empty ones tell nothing; vectors are made anew."""
    left = {*taken, *_VECTORS}
    return {name: value for name, value in _json(found).items() if name not in left and value not in _EMPTY}


def under_headings(parts: Sequence[tuple[str, str]]) -> str:
    """Write texts below each other, each under what it is called."""
    return "\n\n".join(f"{name}: {text.strip()}" if name else text.strip() for name, text in parts if text.strip())


def left_out(name: str, count: int, why: str) -> Iterator[LeftOut]:
    """Say that parts are left out, if there are any."""
    if count:
        yield LeftOut(name, f"{count:,} {why}")


_DIGITS = 16
_VECTORS = ("embedding", "embeddings", "vector", "fact_embedding", "name_embedding")
_EMPTY: tuple[object, ...] = (None, "", [], {})


def _json(found: Record) -> Mapping[str, JsonValue]:
    return found  # type: ignore[return-value]  # what was read as JSON holds nothing else
