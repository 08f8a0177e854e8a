"""Treering for Pydantic AI: a capability that gives an agent a memory, and its tools alone.

from treering.client import MemorySystemClient
from treering.pydantic_ai import TreeringMemory

agent = Agent(model, capabilities=[TreeringMemory(MemorySystemClient())])
"""

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from treering.frameworks.pydantic_ai import TreeringMemory, memory_toolset

__all__ = ["TreeringMemory", "memory_toolset"]


def __getattr__(name: str) -> Any:
    # Imported on first use, as in `treering`; where the framework is not installed, the error names the extra.
    from treering.frameworks.extras import offered

    return offered("pydantic_ai", name, __all__)


def __dir__() -> list[str]:
    return sorted({*globals(), *__all__})
