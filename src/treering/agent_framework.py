"""Treering for Microsoft Agent Framework: providers of context and of history.

from treering.agent_framework import TreeringContextProvider
from treering.client import MemorySystemClient

providers = [TreeringContextProvider(MemorySystemClient(), "ann")]
"""

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from treering.frameworks.agent_framework import TreeringContextProvider, TreeringHistoryProvider

__all__ = ["TreeringContextProvider", "TreeringHistoryProvider"]


def __getattr__(name: str) -> Any:
    # Imported on first use, as in `treering`; where the framework is not installed, the error names the extra.
    from treering.frameworks.extras import offered

    return offered("agent_framework", name, __all__)


def __dir__() -> list[str]:
    return sorted({*globals(), *__all__})
