"""Treering for CrewAI: a storage of its memory.

from treering.client import MemorySystemClient
from treering.crewai import TreeringStorage

memory = Memory(storage=TreeringStorage(MemorySystemClient()))
"""

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from treering.frameworks.crewai import TreeringStorage

__all__ = ["TreeringStorage"]


def __getattr__(name: str) -> Any:
    # Imported on first use, as in `treering`; where the framework is not installed, the error names the extra.
    from treering.frameworks.extras import offered

    return offered("crewai", name, __all__)


def __dir__() -> list[str]:
    return sorted({*globals(), *__all__})
