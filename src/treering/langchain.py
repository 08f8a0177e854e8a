"""Treering for LangChain: a vector store, a retriever, the history of a chat, and the memory of wiki agents.

from treering.client import MemorySystemClient
from treering.langchain import TreeringRetriever, WikiMemoryMiddleware

chain = TreeringRetriever(client=MemorySystemClient(), k=5) | prompt | model
agent = create_agent(model, tools, middleware=[WikiMemoryMiddleware("page_agent")])
"""

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from treering.frameworks.langchain.documents import (
        TreeringChatMessageHistory,
        TreeringRetriever,
        TreeringVectorStore,
    )
    from treering.frameworks.langchain.wiki.middleware import (
        WIKI_MEMORY_PROMPT,
        WIKI_MEMORY_SYSTEM_PROMPT,
        WikiMemoryMiddleware,
    )
    from treering.frameworks.langchain.wiki.scope import WikiAgentState, WikiRunContext

__all__ = [
    "WIKI_MEMORY_PROMPT",
    "WIKI_MEMORY_SYSTEM_PROMPT",
    "TreeringChatMessageHistory",
    "TreeringRetriever",
    "TreeringVectorStore",
    "WikiAgentState",
    "WikiMemoryMiddleware",
    "WikiRunContext",
]


def __getattr__(name: str) -> Any:
    # Imported on first use, as in `treering`; where the framework is not installed, the error names the extra.
    from treering.frameworks.extras import offered

    return offered("langchain", name, __all__)


def __dir__() -> list[str]:
    return sorted({*globals(), *__all__})
