"""Treering for LangChain: a vector store, a retriever and the history of a chat.

from treering.client import MemorySystemClient
from treering.langchain import TreeringRetriever

chain = TreeringRetriever(client=MemorySystemClient(), k=5) | prompt | model
"""

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from treering.edges.frameworks.langchain import TreeringChatMessageHistory, TreeringRetriever, TreeringVectorStore

__all__ = ["TreeringChatMessageHistory", "TreeringRetriever", "TreeringVectorStore"]


def __getattr__(name: str) -> Any:
    # Imported on first use, as in `treering`; where the framework is not installed, the error names the extra.
    from treering.edges.frameworks.extras import offered

    return offered("langchain", name, __all__)


def __dir__() -> list[str]:
    return sorted({*globals(), *__all__})
