"""The port for what makes memories of messages: a workflow, a language model, or rules that need none."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from datetime import datetime
from typing import Protocol

from pydantic import Field

from treering.ports.models import Usage
from treering.verbs.envelope import Value


class GeneratedMemory(Value):
    """One memory, as a generator makes it."""

    title: str = Field(min_length=1, max_length=300, description="What it is about, in a few words.")
    summary: str = Field(min_length=1, description="What was said, shortly, with names and dates.")
    entities: tuple[str, ...] = Field(default=(), description="Who and what it speaks of.")
    key_phrases: tuple[str, ...] = Field(default=(), description="Words somebody may look for it with.")
    topics: tuple[str, ...] = Field(default=(), description="What it belongs to.")
    sentiment: str = Field(default="", description="In what mood it was said.")


@dataclass(frozen=True, slots=True)
class SpokenLine:
    """One message of a chunk: who said it, what, and when."""

    speaker: str
    text: str
    at: datetime | None = None

    def __str__(self) -> str:
        said = f" [{self.at:%Y-%m-%d %H:%M}]" if self.at else ""
        return f"{self.speaker}{said}: {self.text}"


@dataclass(frozen=True, slots=True)
class Chunk:
    """The messages that memories are made of, in order."""

    lines: tuple[SpokenLine, ...]

    @property
    def text(self) -> str:
        """The messages as a model reads them."""
        return "\n".join(map(str, self.lines))


@dataclass(frozen=True, slots=True)
class Background:
    """What a generator may look at besides the chunk. Nothing is read before it is asked for."""

    recent: Callable[[], Sequence[GeneratedMemory]]
    """The last three memories."""
    everything: Callable[[], Sequence[GeneratedMemory]]
    """All memories, in order."""
    summary: Callable[[], str]
    """The rolling summary."""


@dataclass(frozen=True, slots=True)
class Generated:
    """What a generator made: no item means that there was nothing worth keeping, which is a success."""

    items: tuple[GeneratedMemory, ...]
    rejected: tuple[str, ...] = ()
    """Items of an answer that could not be used, and why."""
    usage: Usage = field(default_factory=Usage)


@dataclass(frozen=True, slots=True)
class GeneratedText:
    """A text a generator wrote. An empty one changes nothing."""

    text: str
    usage: Usage = field(default_factory=Usage)


class Generator(Protocol):
    """Makes memories. Every method raises a `TreeringError` where it cannot; it is then tried again later.

    What a method gives depends on nothing but its arguments.
    """

    @property
    def name(self) -> str:
        """Tell what made a memory: the model and the version of the prompt, or the rules and theirs."""
        ...

    def memories(self, chunk: Chunk, background: Background) -> Generated:
        """Make memories of a chunk."""
        ...

    def condense(self, memories: Sequence[GeneratedMemory]) -> Generated:
        """Make one memory of several, oldest first: the first item given counts, none means that it cannot be done."""
        ...

    def fold(self, summary: str, memories: Sequence[GeneratedMemory]) -> GeneratedText:
        """Return the rolling summary with some newer memories folded in."""
        ...

    def merge(self, facts: str, document: str) -> GeneratedText:
        """Return the state document, "what is true now", with new facts merged in."""
        ...
