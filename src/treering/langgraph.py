"""Treering for LangGraph: a store with semantic search, and a saver of checkpoints.

from treering.client import MemorySystemClient
from treering.langgraph import TreeringSaver, TreeringStore

client = MemorySystemClient()
graph = builder.compile(store=TreeringStore(client), checkpointer=TreeringSaver(client))
"""

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from treering.frameworks.langgraph import TreeringSaver, TreeringStore

__all__ = ["TreeringSaver", "TreeringStore"]


def __getattr__(name: str) -> Any:
    # Imported on first use, as in `treering`; where the framework is not installed, the error names the extra.
    from treering.frameworks.extras import offered

    return offered("langgraph", name, __all__)


def __dir__() -> list[str]:
    return sorted({*globals(), *__all__})
