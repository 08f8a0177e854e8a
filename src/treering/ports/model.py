"""The port for language models: words in, words out, and what it cost. Tools and streaming where a program wants them.

The simple case stays simple: `model.answer("Why?").text`.
"""

import json
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from decimal import Decimal
from typing import Any, Protocol, runtime_checkable

from treering.core.errors import InvalidInput

MAX_OUTPUT_TOKENS = 2_000
"""The longest answer, where nobody says how long it may be."""


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
class ToolSpec:
    """A tool that a model may call: its name, what it does, and the JSON Schema of its arguments (an object)."""

    name: str
    description: str
    schema: Mapping[str, Any]


@dataclass(frozen=True, slots=True)
class ToolCall:
    """A model's wish that a tool be called. `id` tells it from other calls of one answer."""

    name: str
    arguments: Mapping[str, Any]
    id: str


@dataclass(frozen=True, slots=True)
class SystemText:
    """What the model is told about its task, by the program."""

    text: str


@dataclass(frozen=True, slots=True)
class UserText:
    """What the user says."""

    text: str


@dataclass(frozen=True, slots=True)
class ModelText:
    """What the model said before, and the tools it wanted to be called."""

    text: str
    tool_calls: tuple[ToolCall, ...] = ()


@dataclass(frozen=True, slots=True)
class ToolResult:
    """What a tool gave for a call."""

    call: ToolCall
    text: str


PromptMessage = SystemText | UserText | ModelText | ToolResult
Prompt = str | Sequence[PromptMessage]
"""What a model is asked: a text, which the user says, or messages, oldest first."""


@dataclass(frozen=True, slots=True)
class Answer:
    """What a model said, what that used, and the tools it wants to be called before it says more."""

    text: str
    usage: Usage
    tool_calls: tuple[ToolCall, ...] = ()

    def message(self) -> ModelText:
        """Return it as a message of the next prompt; the results of its calls follow it."""
        return ModelText(self.text, self.tool_calls)


class LanguageModel(Protocol):
    """Answers prompts. Implementations translate their provider's failures to `Unavailable` and `InvalidInput`.

    The contract suite is `treering.testing.model_contract`.
    """

    @property
    def model_id(self) -> str:
        """Name the model, as its provider calls it."""
        ...

    def answer(
        self,
        prompt: Prompt,
        *,
        system: str = "",
        tools: Sequence[ToolSpec] = (),
        max_output_tokens: int = MAX_OUTPUT_TOKENS,
    ) -> Answer:
        """Answer one prompt. Raises `InvalidInput` for messages that are no prompt (`messages_of`)."""
        ...

    def price(self, *, input_tokens: int, output_tokens: int) -> Decimal | None:
        """Estimate what so many tokens cost, in US dollars; `None` where the price is not known."""
        ...


@runtime_checkable
class Streaming(Protocol):
    """A language model that can say its answer bit by bit."""

    def stream(
        self,
        prompt: Prompt,
        *,
        system: str = "",
        tools: Sequence[ToolSpec] = (),
        max_output_tokens: int = MAX_OUTPUT_TOKENS,
    ) -> Iterator[str | Answer]:
        """Yield the words of the answer as they come, and last the whole `Answer`. Raises what `answer` raises.

        Where the iterator is closed before its end, the model's work ends.
        """
        ...


def messages_of(prompt: Prompt) -> tuple[PromptMessage, ...]:
    """Return what a model is asked as messages.

    Raises `InvalidInput` where there are none, where the last one is the model's own, or where a tool's result belongs
    to no call of the model's.
    """
    messages = (UserText(prompt),) if isinstance(prompt, str) else tuple(prompt)
    if not messages or isinstance(messages[-1], ModelText):
        raise InvalidInput(
            "The last message of a prompt has to be from the user or a tool.",
            hint="Put what the model has to answer at the end.",
        )
    called = {call.id for message in messages if isinstance(message, ModelText) for call in message.tool_calls}
    strays = [one.call for one in messages if isinstance(one, ToolResult) and one.call.id not in called]
    if strays:
        raise InvalidInput(
            f"The result of {strays[0].name!r} belongs to no call.",
            hint="Give the model's answer that made the call (`Answer.message`) before it.",
        )
    return messages


def words_of(prompt: Prompt, tools: Sequence[ToolSpec] = ()) -> str:
    """Return all words of a prompt and its tools, to estimate how many tokens they are."""
    told = [prompt] if isinstance(prompt, str) else [part for message in prompt for part in _words(message)]
    described = [part for tool in tools for part in (tool.name, tool.description, _json(tool.schema))]
    return "\n".join([*described, *told])


def _words(message: PromptMessage) -> Iterator[str]:
    yield message.text
    if isinstance(message, ModelText):
        for call in message.tool_calls:
            yield f"{call.name} {_json(call.arguments)}"


def _json(value: Mapping[str, Any]) -> str:
    return json.dumps(dict(value), ensure_ascii=False)
