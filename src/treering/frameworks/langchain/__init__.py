"""LangChain: documents and chats over a space (`langchain_core`), and the memory of wiki agents (`langchain`)."""

from importlib import import_module
from typing import Any

_HOMES = {
    "documents": ["TreeringChatMessageHistory", "TreeringRetriever", "TreeringVectorStore"],
    "wiki_middleware": ["WIKI_MEMORY_PROMPT", "WIKI_MEMORY_SYSTEM_PROMPT", "WikiMemoryMiddleware"],
    "wiki_tools": ["WikiAgentState", "WikiRunContext"],
}
_HOME_OF = {name: home for home, names in _HOMES.items() for name in names}


def __getattr__(name: str) -> Any:
    # Imported on first use: documents and chats need no more than `langchain_core`.
    if name not in _HOME_OF:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    return getattr(import_module(f"{__name__}.{_HOME_OF[name]}"), name)
