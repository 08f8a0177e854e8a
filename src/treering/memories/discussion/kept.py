"""What a discussion holds, as it is read."""

from dataclasses import dataclass, field
from datetime import datetime
from typing import Literal

from treering.memories.discussion.generating import MemoryItem


@dataclass(frozen=True, slots=True)
class Kept:
    """One message as it is kept. `source_id` and `segment_ids` cite it; a deleted one says nothing any more.

    `after`: a part begins with it that does not continue the message before; see `alignment.Part`.
    """

    position: int
    role: str
    speaker: str
    text: str
    at: datetime | None
    chain: str
    source_id: str
    segment_ids: tuple[str, ...]
    deleted: bool = False
    after: int | None = None


@dataclass(frozen=True, slots=True)
class Memory:
    """A memory: what some messages, from position `first` to `last`, came down to."""

    id: str
    item: MemoryItem
    first: int
    last: int
    at: datetime | None = None
    """When the first of its messages was said."""
    condensed: bool = False
    """Whether it stands for older memories."""


ChunkStatus = Literal["pending", "done", "empty", "failed"]


@dataclass(frozen=True, slots=True)
class ChunkState:
    """How far one chunk of messages is. `attempts`, `error` and `retry_at` tell of failures."""

    first: int
    last: int
    key: str
    status: ChunkStatus = "pending"
    memories: tuple[str, ...] = ()
    attempts: int = 0
    error: str = ""
    retry_at: datetime | None = None
    rejected: tuple[str, ...] = field(default=())
    """What of the generator's answer could not be used, and why."""
