"""The port for what makes memories of messages, and the settings by which a discussion is remembered."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from datetime import datetime
from typing import Protocol

from pydantic import Field

from treering.core.errors import InvalidInput
from treering.core.objects import Utterance
from treering.ports.models import Usage
from treering.verbs.envelope import Value


class GeneratedMemory(Value):
    """One memory, as a generator makes it."""

    title: str = Field(min_length=1, max_length=300, description="Topic, in a few words.")
    summary: str = Field(min_length=1, description="Short summary with names and dates.")
    entities: tuple[str, ...] = Field(default=(), description="People and things it mentions.")
    key_phrases: tuple[str, ...] = Field(default=(), description="Words to find it with.")
    topics: tuple[str, ...] = Field(default=(), description="Topics it belongs to.")
    sentiment: str = Field(default="", description="Mood of the conversation.")
    utterances: tuple[Utterance, ...] = Field(
        default=(), description="Its sentences, each with its speaker and message if known."
    )


@dataclass(frozen=True, slots=True)
class SpokenLine:
    """One message of a chunk: who said it, what, and when."""

    speaker: str
    text: str
    at: datetime | None = None
    position: int | None = None
    """Its position in the discussion."""

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
        """Return the state document, "what is true now", with new facts merged in: one per line of `facts`."""
        ...


# How a discussion is remembered.


@dataclass(frozen=True, slots=True)
class DiscussionSettings:
    """When memories are made, and of how much. Raises `InvalidInput` for numbers that make no sense."""

    chunk_tokens: int = 1_000
    """A chunk is complete with so much text, in estimated tokens, …"""
    max_messages: int = 5
    """… or with so many messages, whichever comes first."""
    lookback: int = 3
    """So many of the last messages are left out: they may still be edited. 0 is valid."""
    condense_every: int = 0
    """So many old memories are condensed into one, which stands for them in what is read; 0: never."""
    condense_after: int = 20
    """So many of the newest memories are never condensed."""
    loop_if_exceeds: int = 3
    """So many new memories are folded into the rolling summary at once."""
    min_per_summary: int = 3
    """A remainder of fewer new memories waits."""
    state: bool = True
    """Whether a state document is kept."""
    summary: bool = True
    """Whether `update` keeps the rolling summary up to date."""
    retry_seconds: float = 30.0
    """How long a failed chunk waits for its second try; twice as long for each further one, up to a day."""
    lease_seconds: float = 60.0
    """How long work that shows no sign of life keeps others out."""
    max_output_tokens: int = 2_000
    """The longest answer a model may give to one prompt."""

    def __post_init__(self) -> None:
        least = {"chunk_tokens": 1, "max_messages": 1, "lookback": 0, "condense_every": 0, "condense_after": 0}
        least |= {"loop_if_exceeds": 1, "min_per_summary": 1, "max_output_tokens": 1}
        for name, lowest in least.items():
            if getattr(self, name) < lowest:
                raise InvalidInput(
                    f"{name} is {getattr(self, name)}; the minimum is {lowest}.",
                    hint=f"Set {name} to {lowest} or more.",
                    details={"field": name},
                )
        if self.condense_every == 1:
            raise InvalidInput(
                "condense_every is 1, but a single memory cannot be condensed.", hint="Use 0 or at least 2."
            )


@dataclass(frozen=True, slots=True)
class MakingPlan:
    """When memories are made and of how much, and what makes them: `generator`, or rules where there is none.

    `warnings`: what may be a mistake in what it was read from.
    """

    settings: DiscussionSettings = field(default_factory=DiscussionSettings)
    generator: Generator | None = None
    warnings: tuple[str, ...] = ()
