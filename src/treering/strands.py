"""Treering for Strands Agents: a memory store.

from treering.client import MemorySystemClient
from treering.strands import TreeringMemoryStore

agent = Agent(plugins=[MemoryManager(stores=[TreeringMemoryStore(MemorySystemClient())])])
"""

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from treering.frameworks.strands import TreeringMemoryStore

__all__ = ["TreeringMemoryStore"]


def __getattr__(name: str) -> Any:
    # Imported on first use, as in `treering`; where the framework is not installed, the error names the extra.
    from treering.frameworks.extras import offered

    return offered("strands", name, __all__)


def __dir__() -> list[str]:
    return sorted({*globals(), *__all__})
