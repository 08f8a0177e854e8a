"""How a discussion is remembered."""

from dataclasses import dataclass, field

from treering.core.errors import InvalidInput
from treering.parts.discussions.generators.generator import Generator


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
                    f"{name} is {getattr(self, name)}, which is less than {lowest}.",
                    hint=f"Give {name} a number from {lowest} on.",
                    details={"field": name},
                )
        if self.condense_every == 1:
            raise InvalidInput(
                "condense_every is 1, and one memory by itself cannot be condensed.", hint="Use 0 or at least 2."
            )


@dataclass(frozen=True, slots=True)
class MakingPlan:
    """When memories are made and of how much, and what makes them: `generator`, or rules where there is none.

    `warnings`: what may be a mistake in what it was read from.
    """

    settings: DiscussionSettings = field(default_factory=DiscussionSettings)
    generator: Generator | None = None
    warnings: tuple[str, ...] = ()
