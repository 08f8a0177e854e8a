"""One request to a language model through pydantic-ai. Imported on the first request, because it needs the extra."""

from collections.abc import Sequence
from dataclasses import dataclass

from pydantic_ai.direct import model_request
from pydantic_ai.messages import (
    ModelMessage,
    ModelRequest,
    ModelRequestPart,
    ModelResponse,
    ModelResponsePart,
    SystemPromptPart,
    TextPart,
    ToolCallPart,
    ToolReturnPart,
    UserPromptPart,
)
from pydantic_ai.models import Model, ModelRequestParameters
from pydantic_ai.settings import ModelSettings
from pydantic_ai.tools import ToolDefinition

from treering.extensions.encoder.language_model import (
    ModelText,
    PromptMessage,
    SystemText,
    ToolResult,
    ToolSpec,
    UserText,
)


@dataclass(frozen=True, slots=True)
class Request:
    """A request to a model. Nothing is traced or reported."""

    model: Model
    messages: list[ModelMessage]
    parameters: ModelRequestParameters
    settings: ModelSettings

    async def answer(self) -> ModelResponse:
        """Return a complete answer."""
        return await model_request(
            self.model,
            self.messages,
            model_settings=self.settings,
            model_request_parameters=self.parameters,
            instrument=False,
        )


def request_of(
    model: Model,
    messages: Sequence[PromptMessage],
    *,
    system: str,
    tools: Sequence[ToolSpec],
    max_output_tokens: int,
    seconds: float,
) -> Request:
    """Return a request. `seconds` limits it, including the provider's own retries."""
    described = [
        ToolDefinition(name=tool.name, parameters_json_schema=dict(tool.schema), description=tool.description)
        for tool in tools
    ]
    return Request(
        model,
        _messages(messages, system),
        ModelRequestParameters(function_tools=described),
        ModelSettings(max_tokens=max_output_tokens, request_timeout=seconds),
    )


def _messages(messages: Sequence[PromptMessage], system: str) -> list[ModelMessage]:
    """Combine adjacent messages that are not the model's into one request."""
    combined: list[ModelMessage] = []
    for message in messages:
        if isinstance(message, ModelText):
            combined.append(ModelResponse(_response_parts(message)))
        elif combined and isinstance(combined[-1], ModelRequest):
            combined[-1] = ModelRequest([*combined[-1].parts, _part(message)], instructions=system or None)
        else:
            combined.append(ModelRequest([_part(message)], instructions=system or None))
    return combined


def _response_parts(message: ModelText) -> list[ModelResponsePart]:
    calls = [ToolCallPart(call.name, dict(call.arguments), call.id) for call in message.tool_calls]
    return [*([TextPart(message.text)] if message.text or not calls else []), *calls]


def _part(message: SystemText | UserText | ToolResult) -> ModelRequestPart:
    match message:
        case SystemText(text):
            return SystemPromptPart(text)
        case UserText(text):
            return UserPromptPart(text)
        case ToolResult(call, text):
            return ToolReturnPart(call.name, text, call.id)
