"""The bridge from a host's execution history to its memory."""

import json
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from enum import Enum
from typing import Any

from treering.core.errors import InvalidInput
from treering.core.patch import shortened
from treering.core.screening import screened
from treering.parts.client.client import MemorySystemClient
from treering.parts.client.items.metadata import plain_value
from treering.parts.client.items.recording import KeyedMemory


class ExecutionHistoryMemoryBridge:
    """Stores execution histories: one memory for each step, and one for what failed."""

    def __init__(self, memory_client: MemorySystemClient) -> None:
        self.memory_client = memory_client

    async def ingest_execution_history(self, history: Any, session_id: str) -> int:
        """Store what a history holds that was not stored before, and return how many memories that are.

        Each step follows the one before; where any failed, there is one analysis of the failures. `history`: an object
        with `items`, or the items themselves; see `traces_of`. Raises `InvalidInput` for anything else.
        """
        return len(await self.memory_client.store_once(traces_of(history, session_id)))


# Execution histories as memories: one trace for each step, in order, and one analysis of what failed.


FAILURE_IMPORTANCE = 0.8
MOST_CHARS = 20_000
"""Of a result or an error in a trace; the rest is cut off."""
_SUCCESS = "success"
_FAILED = "failed"


@dataclass(frozen=True, slots=True)
class _Step:
    """One item of a history."""

    item: Any

    def __getattr__(self, name: str) -> Any:
        return self.item.get(name) if isinstance(self.item, Mapping) else getattr(self.item, name, None)

    @property
    def status_word(self) -> str:
        """The status as text: the value of a host's enumeration."""
        return str(self.status.value if isinstance(self.status, Enum) else self.status)

    @property
    def succeeded(self) -> bool:
        """Whether it was a success."""
        return self.status_word.casefold() == _SUCCESS

    @property
    def failed(self) -> bool:
        """Whether it failed; what is skipped or runs still has not."""
        return self.status_word.casefold() == _FAILED

    @property
    def content(self) -> str:
        """What is remembered of it."""
        said = f"Result: {_told(self.result)}" if self.succeeded else f"Error: {_told(self.error)}"
        return f"Tool {self.tool} - Step {self.step_name}\n{said}"

    @property
    def metadata(self) -> dict[str, Any]:
        """What is known of it."""
        return {
            "memory_type": "execution_trace",
            "tool": self.tool,
            "step_name": self.step_name,
            "status": self.status_word,
            "timestamp": self.timestamp,
            "duration": self.duration,
            "retry_count": self.retry_count or 0,
            "success": self.succeeded,
        }

    @property
    def identity(self) -> list[Any]:
        """What tells it from other steps. Nothing of its contents: an id outlives what is erased."""
        told = (self.step_name, self.tool, self.status_word, self.timestamp, self.retry_count)
        return [plain_value(one) for one in told]


def traces_of(history: Any, session_id: str) -> list[KeyedMemory]:
    """Return the memories of an execution history: each step follows the one before.

    `history`: an object with `items` and, where it has it, `get_failure_patterns`; or the items themselves. An item is
    an object or a mapping with `step_name`, `tool`, `status`, `result`, `error`, `timestamp`, `duration` and
    `retry_count`. The same step of the same session has the same key. Raises `InvalidInput` for anything else.
    """
    steps = [_Step(item) for item in _items(history)]
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
    found = items if isinstance(items, Sequence) else getattr(items, "items", None)
    if not isinstance(found, Sequence) or isinstance(found, str):
        raise InvalidInput(
            f"{type(history).__name__} is not an execution history: it has no list `items`.",
            hint="Give an object with `items`, or the list of them.",
        )
    return found


def _patterns(history: Any, steps: Iterable[_Step]) -> dict[str, int]:
    """Return how many steps failed for each kind of error, as the host tells them, else by what its errors begin with.

    There are none where no step failed.
    """
    failed = [step for step in steps if step.failed]
    host = getattr(history, "get_failure_patterns", None)
    told = plain_value(host()) if failed and callable(host) else {}
    return told or dict(Counter(_kind_of(step.error) for step in failed))


def _kind_of(error: Any) -> str:
    """Return the kind of an error: what stands before its first colon or line end, such as `TimeoutError`."""
    text = str(_told(error)).strip()
    return shortened(text.partition("\n")[0].partition(":")[0].strip() or "unknown", 80)


def _analysis(patterns: Mapping[str, int], session_id: str, steps: Iterable[_Step]) -> KeyedMemory:
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


def _told(value: Any) -> Any:
    """Return a result or an error without secrets and not too long."""
    plain = screened(plain_value(value)).value
    return plain if len(text := str(plain)) <= MOST_CHARS else shortened(text, MOST_CHARS)
