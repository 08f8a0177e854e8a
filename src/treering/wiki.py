"""Wikis of repositories, and what the agents that write them remember.

from treering.wiki import WikiMemoryService, generate_wiki

service = WikiMemoryService()
await service.store_memory(repository_id, "Pages follow the packages.", "structural_decision", "structure_agent")

report = await generate_wiki(repository_id, repository="path/to/the/work/tree", …)
"""

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from treering.edges.frameworks.wiki_generation.generate import generate_wiki
    from treering.edges.frameworks.wiki_generation.standalone import (
        WikiWorkflowState,
        create_page_agent,
        create_structure_agent,
        wiki_workflow,
    )
    from treering.edges.mongo_memories.document import WikiMemory
    from treering.edges.mongo_memories.store import MongoWikiMemories
    from treering.edges.wiki_files.folder import WikiFolder
    from treering.edges.wiki_files.operations import WikiStatus, WikiWritten
    from treering.edges.wiki_memory_repository import EmbeddingTool, WikiMemoryRepository
    from treering.edges.wiki_memory_service import WikiMemoryService
    from treering.edges.wiki_repository import WikiMaterial
    from treering.memories.wiki.citing import PageStatus
    from treering.memories.wiki.generating import WikiReport
    from treering.memories.wiki.pages import (
        LineCitation,
        PageKind,
        PagePlan,
        PublishedWiki,
        WikiPage,
        WikiPlan,
        WikiPublisher,
        WikiWriter,
    )
    from treering.memories.wiki_memory import MemoryType, WikiGenerationStore, WikiMemoryStore, WikiMemoryType

_GENERATION = "treering.edges.frameworks.wiki_generation"
_MONGO = "treering.edges.mongo_memories"
_HOMES = {
    _GENERATION: ["WikiWorkflowState", "create_page_agent", "create_structure_agent", "generate_wiki", "wiki_workflow"],
    f"{_MONGO}.document": ["WikiMemory"],
    f"{_MONGO}.store": ["MongoWikiMemories"],
    "treering.edges.wiki_files.folder": ["WikiFolder"],
    "treering.edges.wiki_files.operations": ["WikiStatus", "WikiWritten"],
    "treering.edges.wiki_memory_repository": ["EmbeddingTool", "WikiMemoryRepository"],
    "treering.edges.wiki_memory_service": ["WikiMemoryService"],
    "treering.edges.wiki_repository": ["WikiMaterial"],
    "treering.memories.wiki.citing": ["PageStatus"],
    "treering.memories.wiki.generating": ["WikiReport"],
    "treering.memories.wiki.pages": [
        "LineCitation",
        "PageKind",
        "PagePlan",
        "PublishedWiki",
        "WikiPage",
        "WikiPlan",
        "WikiPublisher",
        "WikiWriter",
    ],
    "treering.memories.wiki_memory": ["MemoryType", "WikiGenerationStore", "WikiMemoryStore", "WikiMemoryType"],
}
_OF_MONGODB = {"beanie": "beanie", "pymongo": "mongodb", "bson": "mongodb"}
"""Extras by the packages that they bring."""
_HOME_OF = {name: home for home, names in _HOMES.items() for name in names}
__all__ = [
    "EmbeddingTool",
    "LineCitation",
    "MemoryType",
    "MongoWikiMemories",
    "PageKind",
    "PagePlan",
    "PageStatus",
    "PublishedWiki",
    "WikiFolder",
    "WikiGenerationStore",
    "WikiMaterial",
    "WikiMemory",
    "WikiMemoryRepository",
    "WikiMemoryService",
    "WikiMemoryStore",
    "WikiMemoryType",
    "WikiPage",
    "WikiPlan",
    "WikiPublisher",
    "WikiReport",
    "WikiStatus",
    "WikiWorkflowState",
    "WikiWriter",
    "WikiWritten",
    "create_page_agent",
    "create_structure_agent",
    "generate_wiki",
    "wiki_workflow",
]


def __getattr__(name: str) -> Any:
    # Imported on first use, as in `treering`.
    if name not in _HOME_OF:
        raise AttributeError(f"module 'treering.wiki' has no attribute {name!r}")
    home = _HOME_OF[name]
    if home == _GENERATION:  # where LangGraph is not installed, the error names the extra
        from treering.edges.frameworks.extras import FRAMEWORKS, imported

        needed = "langgraph" if name == "generate_wiki" else "langchain"
        return imported(home, name, FRAMEWORKS[needed])
    try:
        return getattr(import_module(home), name)
    except ModuleNotFoundError as error:
        if not home.startswith(_MONGO) or error.name not in _OF_MONGODB:
            raise
        from treering.core.errors import MissingExtra

        raise MissingExtra(_OF_MONGODB[error.name], needed_for=f"treering.wiki.{name}") from error


def __dir__() -> list[str]:
    return sorted({*globals(), *__all__})
