"""Treering for the Anthropic SDK: the memory tool of Claude over a space.

from treering.anthropic import TreeringMemoryTool
from treering.client import MemorySystemClient

tools = [TreeringMemoryTool(MemorySystemClient())]
"""

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from treering.frameworks.anthropic import AsyncTreeringMemoryTool, TreeringMemoryTool

__all__ = ["AsyncTreeringMemoryTool", "TreeringMemoryTool"]


def __getattr__(name: str) -> Any:
    # Imported on first use, as in `treering`; where the framework is not installed, the error names the extra.
    from treering.frameworks.extras import offered

    return offered("anthropic", name, __all__)


def __dir__() -> list[str]:
    return sorted({*globals(), *__all__})
