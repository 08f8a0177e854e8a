"""Tool runs as memories: the execution history of a host, and single runs of tools."""

import json
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence, Set
from dataclasses import dataclass, field, fields, is_dataclass
from typing import Any, TypeVar

from pydantic import BaseModel

from treering.core.characters import well_formed
from treering.core.errors import InvalidInput
from treering.core.patch import shortened
from treering.extensions.client.client import MemorySystemClient
from treering.extensions.client.hooks.memory_access import read_field
from treering.extensions.client.items.documents import plain_value
from treering.extensions.client.items.recording import KeyedMemory
from treering.extensions.client.named_secrets import without_secrets


class ExecutionHistoryMemoryBridge:
    """Store execution histories: one memory per step, and one for the failures. Without a client, store nothing."""

    def __init__(self, memory_client: MemorySystemClient | None) -> None:
        self.memory_client = memory_client

    async def ingest_execution_history(self, history: Any, session_id: str | None) -> int:
        """Store the new steps of a history; return the number of memories.

        Each step follows the previous one; if any failed, one memory contains an analysis of the failures. `history`:
        an object with `items`, or the items; see `traces_of`. Raises `InvalidInput` for anything else.
        """
        traces = traces_of(history, session_id)
        return len(await self.memory_client.store_once(traces)) if self.memory_client else 0


FAILURE_IMPORTANCE = 0.8
_MAX_TRACE_CHARS = 20_000
"""The maximum length of a result or an error in a trace."""
_SUCCESS = "success"
_FAILED = "failed"
MOST_CHARS = 2_000
"""The maximum length of parameters, of a result and of an error of a tool run."""
_DEEPEST = 20
_READ_CHARS = 4 * MOST_CHARS
"""The number of characters read of each: more than is stored, so that secrets at the limit are recognized."""
_Part = TypeVar("_Part")


@dataclass(frozen=True, slots=True)
class _Step:
    """One item of a history, read from the names that hosts use."""

    tool: Any
    step_name: Any
    agent_type: Any
    status: str
    result: Any
    error: Any
    timestamp: Any
    duration: Any
    retry_count: int

    @classmethod
    def read(cls, item: Any) -> "_Step":
        """Read an item. Without a `status`, it succeeded or failed depending on `success`."""
        status, success = read_field(item, "status"), read_field(item, "success")
        if status is None and isinstance(success, bool):
            status = _SUCCESS if success else _FAILED
        return cls(
            tool=_first(item, "tool", "tool_name"),
            step_name=_first(item, "step_name", "node"),
            agent_type=plain_value(read_field(item, "agent_type")),
            status=str(plain_value(status)),
            result=_first(item, "result", "data"),
            error=read_field(item, "error"),
            timestamp=read_field(item, "timestamp"),
            duration=_first(item, "duration", "execution_time"),
            retry_count=read_field(item, "retry_count") or 0,
        )

    @property
    def succeeded(self) -> bool:
        """Whether it succeeded."""
        return self.status.casefold() == _SUCCESS

    @property
    def failed(self) -> bool:
        """Whether it failed; skipped and running steps have not."""
        return self.status.casefold() == _FAILED

    @property
    def content(self) -> str:
        """The text of its memory."""
        named = {"Tool": self.tool, "Step": self.step_name}
        parts = [f"{kind} {name}" for kind, name in named.items() if name is not None] or [f"Agent {self.agent_type}"]
        if self.succeeded:
            outcome = "Succeeded" if self.result is None else f"Result: {_shortened(self.result)}"
        else:
            outcome = f"Error: {_shortened(self.error)}"
        return f"{' - '.join(parts)}\n{outcome}"

    @property
    def metadata(self) -> dict[str, Any]:
        """The metadata of its memory."""
        metadata = {
            "memory_type": "execution_trace",
            "tool": self.tool,
            "step_name": self.step_name,
            "status": self.status,
            "timestamp": self.timestamp,
            "duration": self.duration,
            "retry_count": self.retry_count,
            "success": self.succeeded,
        }
        return metadata if self.agent_type is None else {**metadata, "agent_type": self.agent_type}

    @property
    def identity(self) -> list[Any]:
        """The values that identify it. They contain none of its texts, because ids remain after an erasure."""
        values = (self.step_name, self.tool, self.status, self.timestamp, self.retry_count)
        return [plain_value(one) for one in values]


def traces_of(history: Any, session_id: str | None) -> list[KeyedMemory]:
    """Return the memories of an execution history: each step follows the previous one.

    `history`: an object with `items` and optionally `get_failure_patterns`; or the items. An item is an object or a
    mapping with `step_name` (or `node`), `tool`, `status` (or `success`), `result`, `error`, `timestamp`, `duration`
    (or `execution_time`), `retry_count` and `agent_type`. The same step of the same session has the same key. Raises
    `InvalidInput` for anything else.
    """
    steps = [_Step.read(item) for item in _items(history)]
    seen: Counter[str] = Counter()
    traces: list[KeyedMemory] = []
    for step in steps:
        identity = json.dumps([session_id, *step.identity])
        seen[identity] += 1
        follows = {"follows": traces[-1].id} if traces else {}
        metadata = {**step.metadata, "session_id": session_id, **follows}
        traces.append(KeyedMemory(f"trace:{identity}:{seen[identity]}", step.content, metadata))
    patterns = _patterns(history, steps)
    return [*traces, *([_analysis(patterns, session_id, steps)] if patterns else [])]


def _items(history: Any) -> Sequence[Any]:
    items = history["items"] if isinstance(history, Mapping) and "items" in history else history
    sequence = items if isinstance(items, Sequence) else getattr(items, "items", None)
    if not isinstance(sequence, Sequence) or isinstance(sequence, str):
        raise InvalidInput(
            f"{type(history).__name__} is not an execution history: it has no `items` list.",
            hint="Pass an object with `items`, or the list itself.",
        )
    return sequence


def _patterns(history: Any, steps: Iterable[_Step]) -> dict[str, int]:
    """Return the number of failed steps for each kind of error: from the host, else by the beginning of the error."""
    failed = [step for step in steps if step.failed]
    host = getattr(history, "get_failure_patterns", None)
    patterns = plain_value(host()) if failed and callable(host) else {}
    return patterns or dict(Counter(_kind_of(step.error) for step in failed))


def _kind_of(error: Any) -> str:
    """Return the kind of an error: the text before its first colon or line end, such as `TimeoutError`."""
    text = str(_shortened(error)).strip()
    return shortened(text.partition("\n")[0].partition(":")[0].strip() or "unknown", 80)


def _analysis(patterns: Mapping[str, int], session_id: str | None, steps: Iterable[_Step]) -> KeyedMemory:
    metadata = {
        "memory_type": "failure_analysis",
        "patterns": dict(patterns),
        "session_id": session_id,
        "importance_score": FAILURE_IMPORTANCE,
    }
    failed = [step.identity for step in steps if step.failed]
    return KeyedMemory(
        f"failures:{json.dumps([session_id, failed])}", f"Failure patterns detected: {dict(patterns)}", metadata
    )


def _shortened(value: Any) -> Any:
    """Return a result or an error without secrets and within the limit."""
    plain = without_secrets(plain_value(value))
    return plain if len(text := str(plain)) <= _MAX_TRACE_CHARS else shortened(text, _MAX_TRACE_CHARS)


@dataclass(frozen=True, slots=True)
class ToolRun:
    """One run of a tool, with its result or its error."""

    tool: str
    parameters: Mapping[str, Any]
    duration: float
    """In seconds."""
    success: bool
    result: Any = None
    error: str | None = None
    extra: Mapping[str, Any] = field(default_factory=dict)
    """Additional metadata, such as the session."""

    @property
    def memory(self) -> tuple[str, dict[str, Any]]:
        """The text and the metadata of its memory."""
        parameters = capped(self.parameters)
        result = capped(self.result) if self.success else None
        error = None if self.success else str(capped(self.error or "unknown error"))
        outcome = f"Result: {result}" if self.success else f"Error: {error}"
        metadata = {
            "memory_type": "tool_execution",
            "tool_name": self.tool,
            "success": self.success,
            "duration": self.duration,
            "parameters": parameters,
            "result_summary": result,
            "error": error,
        }
        return f"Tool {self.tool} executed with params: {parameters}\n{outcome}", {**self.extra, **metadata}


def run_of(
    tool: str, parameters: Mapping[str, Any], duration: float, outcome: Any, extra: Mapping[str, Any]
) -> ToolRun:
    """Return the run of a tool that ended with a result or an exception.

    A result with a false `success`, or a true `is_error` as in MCP, is a failure with the reason in `error` or
    `content`. If `success` is true, the result is in `data`.
    """
    if isinstance(outcome, BaseException):
        return ToolRun(tool, parameters, duration, success=False, error=_error_text(outcome), extra=extra)
    success = read_field(outcome, "success")
    if success is False or read_field(outcome, "is_error") is True:
        reasons = (read_field(outcome, name) for name in ("error", "content"))
        reason = next((one for one in reasons if one is not None), None)
        error = reason if isinstance(reason, str) or reason is None else str(capped(reason))
        return ToolRun(tool, parameters, duration, success=False, error=error, extra=extra)
    data = read_field(outcome, "data") if success is True else None
    return ToolRun(tool, parameters, duration, success=True, result=outcome if data is None else data, extra=extra)


def _error_text(error: BaseException) -> str:
    """Return the message of an exception, with the message of its cause unless it contains that.

    The message of a `KeyError` is only the missing key, so its type is added.
    """
    name, message = type(error).__name__, str(error)
    text = f"{name}: {message}" if message and isinstance(error, KeyError) else message or name
    cause = str(error.__cause__ or "")
    return text if cause in text else f"{text}: {cause}"


def capped(value: Any) -> Any:
    """Return a value as JSON data without secrets. If it is longer than `MOST_CHARS`, it becomes truncated text."""
    plain = without_secrets(_Pruning().pruned(value))
    if isinstance(plain, str):
        return shortened(plain, MOST_CHARS)
    text = json.dumps(plain, ensure_ascii=False)
    return plain if len(text) <= MOST_CHARS else shortened(text, MOST_CHARS)


class _Pruning:
    """Converts the first part of a value to JSON data, without reading all of a large one."""

    def __init__(self) -> None:
        self._room = _READ_CHARS

    def pruned(self, value: Any, depth: int = 0) -> Any:
        """Return a value as JSON data, truncated at the limit."""
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
        part = text[: max(self._room, 0)]
        self._room -= len(part)
        return well_formed(part)

    def _first(self, parts: Iterable[_Part]) -> Iterator[_Part]:
        for part in parts:
            if self._room <= 0:
                return
            yield part


def _first(holder: Any, *names: str) -> Any:
    return next((value for name in names if (value := read_field(holder, name)) is not None), None)
