"""Treering for Pydantic AI Harness: a store for the files of its `Memory` capability.

from pydantic_ai_harness.memory import Memory
from treering.client import MemorySystemClient
from treering.pydantic_ai_harness import TreeringFileStore

agent = Agent(model, capabilities=[Memory(store=TreeringFileStore(MemorySystemClient()))])
"""

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from treering.frameworks.pydantic_ai_harness import TreeringFileStore

__all__ = ["TreeringFileStore"]


def __getattr__(name: str) -> Any:
    # Imported on first use, as in `treering`; where the framework is not installed, the error names the extra.
    from treering.frameworks.extras import offered

    return offered("pydantic_ai_harness", name, __all__)


def __dir__() -> list[str]:
    return sorted({*globals(), *__all__})
