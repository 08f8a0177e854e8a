"""The port for generators of memories, and the settings of a discussion's memory."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from datetime import datetime
from typing import Protocol

from pydantic import Field

from treering.core.errors import InvalidInput
from treering.core.objects import Utterance
from treering.extensions.encoder.language_model import Usage
from treering.verbs.envelope import Value


class GeneratedMemory(Value):
    """One generated memory."""

    title: str = Field(min_length=1, max_length=300, description="Topic, in a few words.")
    summary: str = Field(min_length=1, description="Short summary with names and dates.")
    entities: tuple[str, ...] = Field(default=(), description="People and things it mentions.")
    key_phrases: tuple[str, ...] = Field(default=(), description="Words to find it with.")
    topics: tuple[str, ...] = Field(default=(), description="Topics it belongs to.")
    sentiment: str = Field(default="", description="Mood of the conversation.")
    utterances: tuple[Utterance, ...] = Field(
        default=(), description="Its sentences, each with its speaker and message if known."
    )

    @property
    def titled_summary(self) -> str:
        """The summary after the title, without the title if the summary begins with it."""
        begins = self.title.rstrip("…")
        return self.summary if self.summary.startswith(begins) else f"{self.title}: {self.summary}"


@dataclass(frozen=True, slots=True)
class SpokenLine:
    """One message of a chunk: speaker, text and time."""

    speaker: str
    text: str
    at: datetime | None = None
    position: int | None = None
    """Its position in the discussion."""

    def __str__(self) -> str:
        time = f" [{self.at:%Y-%m-%d %H:%M}]" if self.at else ""
        return f"{self.speaker}{time}: {self.text}"


@dataclass(frozen=True, slots=True)
class Chunk:
    """The messages to make memories of, in order."""

    lines: tuple[SpokenLine, ...]

    @property
    def text(self) -> str:
        """The messages as text for a model."""
        return "\n".join(map(str, self.lines))


@dataclass(frozen=True, slots=True)
class Background:
    """Further input for a generator besides the chunk. Everything is read on demand."""

    recent: Callable[[], Sequence[GeneratedMemory]]
    """The last three memories."""
    everything: Callable[[], Sequence[GeneratedMemory]]
    """All memories, in order."""
    summary: Callable[[], str]
    """The rolling summary."""


@dataclass(frozen=True, slots=True)
class Generated:
    """The output of a generator. No items means that nothing was worth remembering, which is a success."""

    items: tuple[GeneratedMemory, ...]
    rejected: tuple[str, ...] = ()
    """Items of an answer that could not be used, with the reason."""
    usage: Usage = field(default_factory=Usage)


@dataclass(frozen=True, slots=True)
class GeneratedText:
    """A generated text. An empty one changes nothing."""

    text: str
    usage: Usage = field(default_factory=Usage)


class Generator(Protocol):
    """Generate memories. Every method raises a `TreeringError` on failure; the call is then retried later.

    Results must depend only on the arguments.
    """

    @property
    def name(self) -> str:
        """The identity of the generator: the model and the version of the prompt, or the rules and their version."""
        ...

    def memories(self, chunk: Chunk, background: Background) -> Generated:
        """Make memories of a chunk."""
        ...

    def condense(self, memories: Sequence[GeneratedMemory]) -> Generated:
        """Merge several memories, oldest first, into one: the first returned item is used; none means failure."""
        ...

    def fold(self, summary: str, memories: Sequence[GeneratedMemory]) -> GeneratedText:
        """Return the rolling summary with newer memories merged in."""
        ...

    def merge(self, facts: str, document: str) -> GeneratedText:
        """Return the state document (the current facts) with new facts merged in: one per line of `facts`."""
        ...


@dataclass(frozen=True, slots=True)
class DiscussionSettings:
    """When to make memories, and from how much text. Raises `InvalidInput` for invalid numbers."""

    chunk_tokens: int = 1_000
    """A chunk is complete with this many estimated tokens, …"""
    max_messages: int = 5
    """… or with this many messages, whichever comes first."""
    lookback: int = 3
    """The number of last messages to leave out, because they may still be edited. 0 is valid."""
    condense_every: int = 0
    """This many old memories are condensed into one, which replaces them when read; 0: never."""
    condense_after: int = 20
    """This many of the newest memories are never condensed."""
    loop_if_exceeds: int = 3
    """This many new memories are merged into the rolling summary at once."""
    min_per_summary: int = 3
    """Fewer remaining new memories wait for more."""
    state: bool = True
    """Whether to maintain a state document."""
    summary: bool = True
    """Whether `update` updates the rolling summary."""
    retry_seconds: float = 30.0
    """The delay before the second try of a failed chunk; doubled for each further one, up to a day."""
    lease_seconds: float = 60.0
    """How long work without progress blocks other processes."""
    max_output_tokens: int = 2_000
    """The maximum length of a model's answer to one prompt."""

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
    """When to make memories, and by which generator: `generator`, or rules if there is none.

    `warnings`: possible mistakes in the configuration.
    """

    settings: DiscussionSettings = field(default_factory=DiscussionSettings)
    generator: Generator | None = None
    warnings: tuple[str, ...] = ()
