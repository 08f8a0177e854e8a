"""The context pack: what is known for a task, with citations, conflicts, gaps and what to read next."""

from typing import Any, Literal

from pydantic import BaseModel, ConfigDict

from treering.core.ids import Instant
from treering.core.scope import Scope


class _Value(BaseModel):
    model_config = ConfigDict(frozen=True, extra="forbid", defer_build=True)


Section = Literal[
    "constraints", "decisions", "facts", "procedures", "preferences", "work", "activities", "summaries", "sources"
]


class Citation(_Value):
    """Where an item of the pack comes from. `mark` is how the text refers to it, such as `[3]`."""

    mark: str
    object_id: str
    segment_id: str = ""
    origin: str = ""
    place: str = ""
    """Such as `src/app.py#L10-L20 @ 1f3c…`."""


class PackItem(_Value):
    """One thing to know. `text` is data: fenced with its origin when given to a model."""

    section: Section
    object_id: str
    segment_id: str = ""
    kind: str
    status: str
    title: str
    text: str
    citations: tuple[str, ...] = ()
    score: float = 0.0
    flags: tuple[str, ...] = ()
    """Warnings about the text, such as `ignore_instructions` or `repeats_question`."""
    channel: str = ""
    """The channel its words came through."""
    trust: str = ""
    """How far that channel is trusted: `high`, `medium` or `low`."""


class ConflictNote(_Value):
    """Claims that contradict each other, by id and title."""

    ids: tuple[str, ...]
    summary: str


class ContextPack(_Value):
    """An answer for a task inside a token budget, kept only until it expires."""

    id: str
    task: str
    summary: str
    scope: Scope
    items: tuple[PackItem, ...]
    conflicts: tuple[ConflictNote, ...] = ()
    may_break: tuple[str, ...] = ()
    """What uses and tests the code that is shown: it may break where that code is changed."""
    missing_context: tuple[str, ...] = ()
    recommended_next_reads: tuple[str, ...] = ()
    citations: tuple[Citation, ...] = ()
    generated_at: Instant
    expires_at: Instant
    budget: dict[str, int]
    """`max_tokens`, `used_tokens` (estimated), `left_out` (items that did not fit)."""
    trace: dict[str, Any] = {}
