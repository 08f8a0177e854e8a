"""The port for language models: a prompt in, text out, and what it cost."""

from dataclasses import dataclass
from decimal import Decimal
from typing import Protocol


@dataclass(frozen=True, slots=True)
class Usage:
    """What calls of a model used. `cost` is in US dollars, `None` where the model's price is not known."""

    requests: int = 0
    input_tokens: int = 0
    output_tokens: int = 0
    cost: Decimal | None = Decimal(0)

    def __add__(self, other: "Usage") -> "Usage":
        """Add up; a price that is not known makes the sum unknown."""
        cost = None if self.cost is None or other.cost is None else self.cost + other.cost
        return Usage(
            self.requests + other.requests,
            self.input_tokens + other.input_tokens,
            self.output_tokens + other.output_tokens,
            cost,
        )


@dataclass(frozen=True, slots=True)
class Answer:
    """What a model said, and what that used."""

    text: str
    usage: Usage


class LanguageModel(Protocol):
    """Answers prompts. Implementations translate their provider's failures to `Unavailable` and `InvalidInput`."""

    @property
    def model_id(self) -> str:
        """Name the model, as its provider calls it."""
        ...

    def answer(self, prompt: str, *, system: str = "", max_output_tokens: int = 2_000) -> Answer:
        """Answer one prompt."""
        ...

    def price(self, *, input_tokens: int, output_tokens: int) -> Decimal | None:
        """Estimate what so many tokens cost, in US dollars; `None` where the price is not known."""
        ...
