"""Treering for LlamaIndex: a memory block and a retriever.

from treering.client import MemorySystemClient
from treering.llama_index import TreeringMemoryBlock

memory = Memory.from_defaults(memory_blocks=[TreeringMemoryBlock(client=MemorySystemClient())])
"""

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from treering.frameworks.llama_index import TreeringMemoryBlock, TreeringNodeRetriever

__all__ = ["TreeringMemoryBlock", "TreeringNodeRetriever"]


def __getattr__(name: str) -> Any:
    # Imported on first use, as in `treering`; where the framework is not installed, the error names the extra.
    from treering.frameworks.extras import offered

    return offered("llama_index", name, __all__)


def __dir__() -> list[str]:
    return sorted({*globals(), *__all__})
