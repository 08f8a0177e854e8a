"""Language models: messages in, answers and usage out. Tools are optional.

The simple case stays simple: `model.answer("Why?").text`.
"""

import json
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from decimal import Decimal
from typing import Any, Protocol

from treering.core.errors import InvalidInput

MAX_OUTPUT_TOKENS = 2_000
"""The default maximum length of an answer."""


@dataclass(frozen=True, slots=True)
class Usage:
    """The usage of model calls. `cost` is in US dollars, `None` if the model's price is unknown."""

    requests: int = 0
    input_tokens: int = 0
    output_tokens: int = 0
    cost: Decimal | None = Decimal(0)

    def __add__(self, other: "Usage") -> "Usage":
        """Add two usages; an unknown price makes the sum unknown."""
        cost = None if self.cost is None or other.cost is None else self.cost + other.cost
        return Usage(
            self.requests + other.requests,
            self.input_tokens + other.input_tokens,
            self.output_tokens + other.output_tokens,
            cost,
        )


@dataclass(frozen=True, slots=True)
class ToolSpec:
    """A tool that a model may call: its name, description, and the JSON Schema of its arguments (an object)."""

    name: str
    description: str
    schema: Mapping[str, Any]


@dataclass(frozen=True, slots=True)
class ToolCall:
    """A model's request to call a tool. `id` identifies it within one answer."""

    name: str
    arguments: Mapping[str, Any]
    id: str


@dataclass(frozen=True, slots=True)
class SystemText:
    """The program's instructions for the model."""

    text: str


@dataclass(frozen=True, slots=True)
class UserText:
    """A message of the user."""

    text: str


@dataclass(frozen=True, slots=True)
class ModelText:
    """An earlier answer of the model, with its tool calls."""

    text: str
    tool_calls: tuple[ToolCall, ...] = ()


@dataclass(frozen=True, slots=True)
class ToolResult:
    """The result of a tool call."""

    call: ToolCall
    text: str


PromptMessage = SystemText | UserText | ModelText | ToolResult
Prompt = str | Sequence[PromptMessage]
"""A prompt: a text of the user, or messages, oldest first."""


@dataclass(frozen=True, slots=True)
class Answer:
    """An answer of a model: its text, its usage, and the tools to call before it continues."""

    text: str
    usage: Usage
    tool_calls: tuple[ToolCall, ...] = ()

    def message(self) -> ModelText:
        """Return it as a message of the next prompt; the results of its calls follow it."""
        return ModelText(self.text, self.tool_calls)


class LanguageModel(Protocol):
    """Answers prompts. Implementations translate their provider's failures to `Unavailable` and `InvalidInput`.

    The contract suite is `treering.testing.model_contracts`.
    """

    @property
    def model_id(self) -> str:
        """The provider's name for the model."""
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
        """Estimate the cost of this many tokens in US dollars; `None` if the price is unknown."""
        ...


def messages_of(prompt: Prompt) -> tuple[PromptMessage, ...]:
    """Convert a prompt to messages.

    Raises `InvalidInput` if there are none, if the last one is the model's own, or if a tool result has no matching
    call of the model.
    """
    messages = (UserText(prompt),) if isinstance(prompt, str) else tuple(prompt)
    if not messages or isinstance(messages[-1], ModelText):
        raise InvalidInput(
            "The last message of a prompt must be from the user or a tool.",
            hint="End with the message that the model should answer.",
        )
    called = {call.id for message in messages if isinstance(message, ModelText) for call in message.tool_calls}
    strays = [one.call for one in messages if isinstance(one, ToolResult) and one.call.id not in called]
    if strays:
        raise InvalidInput(
            f"The tool result {strays[0].name!r} has no matching call.",
            hint="Put the model's answer with the call (`Answer.message`) before it.",
        )
    return messages


def words_of(prompt: Prompt, tools: Sequence[ToolSpec] = ()) -> str:
    """Return the text of a prompt and its tools, to estimate its tokens."""
    parts = [prompt] if isinstance(prompt, str) else [part for message in prompt for part in _words(message)]
    described = [part for tool in tools for part in (tool.name, tool.description, _json(tool.schema))]
    return "\n".join([*described, *parts])


def _words(message: PromptMessage) -> Iterator[str]:
    yield message.text
    if isinstance(message, ModelText):
        for call in message.tool_calls:
            yield f"{call.name} {_json(call.arguments)}"


def _json(value: Mapping[str, Any]) -> str:
    return json.dumps(dict(value), ensure_ascii=False)
