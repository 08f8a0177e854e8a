"""Wikis of repositories, and the memory of the agents that write them.

from treering.wiki import WikiMemoryService, generate_wiki

service = WikiMemoryService()
await service.store_memory(repository_id, "Pages follow the packages.", "structural_decision", "structure_agent")

report = await generate_wiki(repository_id, repository="path/to/the/work/tree", …)
"""

from treering.facades import lazily

_EXTRAS = {"beanie": "beanie", "pymongo": "mongodb", "bson": "mongodb", "langgraph": "langgraph"}

__getattr__, __dir__ = lazily(__name__, extras=_EXTRAS)
