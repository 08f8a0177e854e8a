"""Treering for Google ADK: a memory service.

from treering.client import MemorySystemClient
from treering.google_adk import TreeringMemoryService

service = TreeringMemoryService(MemorySystemClient())
"""

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from treering.frameworks.google_adk import TreeringMemoryService

__all__ = ["TreeringMemoryService"]


def __getattr__(name: str) -> Any:
    # Imported on first use, as in `treering`; where the framework is not installed, the error names the extra.
    from treering.frameworks.extras import offered

    return offered("google_adk", name, __all__)


def __dir__() -> list[str]:
    return sorted({*globals(), *__all__})
