"""Treering for Haystack: a document store, and a retriever that searches it.

from treering.client import BlockingMemoryClient
from treering.haystack import TreeringDocumentRetriever, TreeringDocumentStore

store = TreeringDocumentStore(BlockingMemoryClient())
"""

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from treering.frameworks.haystack import TreeringDocumentRetriever, TreeringDocumentStore

__all__ = ["TreeringDocumentRetriever", "TreeringDocumentStore"]


def __getattr__(name: str) -> Any:
    # Imported on first use, as in `treering`; where the framework is not installed, the error names the extra.
    from treering.frameworks.extras import offered

    return offered("haystack", name, __all__)


def __dir__() -> list[str]:
    return sorted({*globals(), *__all__})
