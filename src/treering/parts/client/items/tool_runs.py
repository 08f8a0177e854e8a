"""Tool runs as memories: what a tool was given, what it gave, and how long it took, without secrets and capped."""

import json
from collections.abc import Iterable, Iterator, Mapping, Set
from dataclasses import dataclass, field, fields, is_dataclass
from typing import Any, TypeVar

from pydantic import BaseModel

from treering.core.patch import shortened
from treering.core.screening import screened
from treering.parts.client.items.metadata import plain_value

MOST_CHARS = 2_000
"""Of parameters, of a result and of an error; the rest is cut off."""
_DEEPEST = 20
_READ_CHARS = 4 * MOST_CHARS
"""Read of each. More than what is kept, so that no secret is cut in half before it is looked for."""
_Part = TypeVar("_Part")


@dataclass(frozen=True, slots=True)
class ToolRun:
    """One run of a tool: it gave a result, or it failed with an error."""

    tool: str
    parameters: Mapping[str, Any]
    duration: float
    """In seconds."""
    success: bool
    result: Any = None
    error: str | None = None
    extra: Mapping[str, Any] = field(default_factory=dict)
    """Metadata besides, such as the session."""

    @property
    def memory(self) -> tuple[str, dict[str, Any]]:
        """The text and the metadata it is kept with."""
        parameters = capped(self.parameters)
        result = capped(self.result) if self.success else None
        error = None if self.success else str(capped(self.error or "unknown error"))
        told = f"Result: {result}" if self.success else f"Error: {error}"
        metadata = {
            "memory_type": "tool_execution",
            "tool_name": self.tool,
            "success": self.success,
            "duration": self.duration,
            "parameters": parameters,
            "result_summary": result,
            "error": error,
        }
        return f"Tool {self.tool} executed with params: {parameters}\n{told}", {**self.extra, **metadata}


def run_of(
    tool: str, parameters: Mapping[str, Any], duration: float, outcome: Any, extra: Mapping[str, Any]
) -> ToolRun:
    """Return the run of a tool that ended with a result or an exception.

    A result whose `success` is false, or whose `is_error` is true as in MCP, is a failure, and its `error` or `content`
    says why. One whose `success` is true gave its `data`.
    """
    if isinstance(outcome, BaseException):
        return ToolRun(tool, parameters, duration, success=False, error=_error_text(outcome), extra=extra)
    said = _read(outcome, "success")
    if said is False or _read(outcome, "is_error") is True:
        why = next((found for name in ("error", "content") if (found := _read(outcome, name)) is not None), None)
        told = why if isinstance(why, str) or why is None else str(capped(why))
        return ToolRun(tool, parameters, duration, success=False, error=told, extra=extra)
    data = _read(outcome, "data") if said is True else None
    return ToolRun(tool, parameters, duration, success=True, result=outcome if data is None else data, extra=extra)


def _error_text(error: BaseException) -> str:
    """Return what an exception says, with what its cause says where it does not say that."""
    text = str(error) or type(error).__name__
    cause = str(error.__cause__ or "")
    return text if cause in text else f"{text}: {cause}"


def capped(value: Any) -> Any:
    """Return a value as JSON data, without secrets, in at most `MOST_CHARS` characters: what is longer as cut text."""
    plain = screened(_Pruning().pruned(value)).value
    if isinstance(plain, str):
        return shortened(plain, MOST_CHARS)
    text = json.dumps(plain, ensure_ascii=False)
    return plain if len(text) <= MOST_CHARS else shortened(text, MOST_CHARS)


class _Pruning:
    """Makes JSON data of the first part of a value, so that nobody goes through all of a large one."""

    def __init__(self) -> None:
        self._room = _READ_CHARS

    def pruned(self, value: Any, depth: int = 0) -> Any:
        """Return a value as JSON data, as far as there is room."""
        self._room -= 1
        if isinstance(value, str):
            return self._text(value)
        if depth > _DEEPEST:
            return type(value).__name__
        if isinstance(value, Mapping):
            return {self._text(str(key)): self.pruned(value[key], depth + 1) for key in self._first(value)}
        if isinstance(value, list | tuple | Set):
            return [self.pruned(one, depth + 1) for one in self._first(value)]
        if isinstance(value, BaseModel):
            return {
                name: self.pruned(getattr(value, name), depth + 1) for name in self._first(type(value).model_fields)
            }
        if is_dataclass(value) and not isinstance(value, type):
            named = (field.name for field in fields(value))
            return {name: self.pruned(getattr(value, name, None), depth + 1) for name in self._first(named)}
        plain = plain_value(value)
        return self._text(plain) if isinstance(plain, str) else plain

    def _text(self, text: str) -> str:
        kept = text[: max(self._room, 0)]
        self._room -= len(kept)
        return kept.encode(errors="replace").decode()

    def _first(self, parts: Iterable[_Part]) -> Iterator[_Part]:
        for part in parts:
            if self._room <= 0:
                return
            yield part


def _read(outcome: Any, name: str) -> Any:
    return outcome.get(name) if isinstance(outcome, Mapping) else getattr(outcome, name, None)
