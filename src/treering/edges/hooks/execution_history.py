"""The bridge from a host's execution history to its memory."""

from typing import Any

from treering.edges.memory_client import MemorySystemClient
from treering.memories.client.execution_traces import traces_of


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
