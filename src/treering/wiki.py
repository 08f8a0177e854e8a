"""Wikis of repositories, and what the agents that write them remember.

from treering.wiki import WikiMemoryService, generate_wiki

service = WikiMemoryService()
await service.store_memory(repository_id, "Pages follow the packages.", "structural_decision", "structure_agent")

report = await generate_wiki(repository_id, repository="path/to/the/work/tree", …)
"""

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from treering.frameworks.wiki_generation.generate import generate_wiki
    from treering.frameworks.wiki_generation.standalone import (
        WikiWorkflowState,
        create_page_agent,
        create_structure_agent,
        wiki_workflow,
    )
    from treering.parts.wiki.files.folder import WikiFolder
    from treering.parts.wiki.memories.mongo_document import WikiMemory
    from treering.parts.wiki.memories.mongo_store import MongoWikiMemories
    from treering.parts.wiki.memories.repository import EmbeddingTool, WikiMemoryRepository
    from treering.parts.wiki.memories.service import WikiMemoryService
    from treering.parts.wiki.memories.wiki_memory import (
        MemoryType,
        WikiGenerationStore,
        WikiMemoryStore,
        WikiMemoryType,
    )
    from treering.parts.wiki.operations import WikiStatus, WikiWritten
    from treering.parts.wiki.pages import (
        LineCitation,
        PageKind,
        PagePlan,
        PublishedWiki,
        WikiPage,
        WikiPlan,
        WikiPublisher,
        WikiWriter,
    )
    from treering.parts.wiki.repository_material import WikiMaterial
    from treering.parts.wiki.writing.citing import PageStatus
    from treering.parts.wiki.writing.generating import WikiReport

_GENERATION = "treering.frameworks.wiki_generation"
_MONGO = "treering.parts.wiki.memories"
_HOMES = {
    _GENERATION: ["WikiWorkflowState", "create_page_agent", "create_structure_agent", "generate_wiki", "wiki_workflow"],
    f"{_MONGO}.document": ["WikiMemory"],
    f"{_MONGO}.store": ["MongoWikiMemories"],
    "treering.parts.wiki.files.folder": ["WikiFolder"],
    "treering.parts.wiki.operations": ["WikiStatus", "WikiWritten"],
    "treering.parts.wiki.memories.repository": ["EmbeddingTool", "WikiMemoryRepository"],
    "treering.parts.wiki.memories.service": ["WikiMemoryService"],
    "treering.parts.wiki.repository_material": ["WikiMaterial"],
    "treering.parts.wiki.writing.citing": ["PageStatus"],
    "treering.parts.wiki.writing.generating": ["WikiReport"],
    "treering.parts.wiki.pages": [
        "LineCitation",
        "PageKind",
        "PagePlan",
        "PublishedWiki",
        "WikiPage",
        "WikiPlan",
        "WikiPublisher",
        "WikiWriter",
    ],
    "treering.parts.wiki.memories.wiki_memory": [
        "MemoryType",
        "WikiGenerationStore",
        "WikiMemoryStore",
        "WikiMemoryType",
    ],
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
        from treering.frameworks.extras import FRAMEWORKS, imported

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
