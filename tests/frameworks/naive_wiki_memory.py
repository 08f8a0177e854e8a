"""A memory for wiki agents as one writes it first, with the faults of that: tests show each to fail on it."""

from itertools import count
from uuid import UUID

from langchain.agents.middleware import AgentMiddleware, AgentState
from langchain_core.messages import SystemMessage
from langchain_core.tools import tool


class TypedCollection:
    """Documents that are compared as a database compares them: a UUID is not the text of it.

    `as_text`: ids are compared as texts all the same. `indexed`: there is an index to search by.
    """

    def __init__(self, *, as_text=True, indexed=True):
        self.documents = []
        self.failing = []
        self._as_text = as_text
        self._indexed = indexed
        self._ids = count(1)

    def insert(self, document):
        if self.failing and self.failing.pop(0) == "before":
            raise OSError("cannot connect to 10.0.0.7 as admin:hunter2")
        self.documents.append({"id": f"id{next(self._ids)}", **document})
        return self.documents[-1]["id"]

    def of(self, repository_id):
        return [one for one in self.documents if self._same(one["repository_id"], repository_id)]

    def nearest(self, repository_id, query, limit):
        if not self._indexed:
            return []  # what such a server answers
        words = set(query.lower().split())
        found = [(len(words & set(one["content"].lower().split())), one) for one in self.of(repository_id)]
        return [one for score, one in sorted(found, key=lambda pair: -pair[0]) if score][:limit]

    def delete(self, repository_id):
        gone = self.of(repository_id)
        self.documents = [one for one in self.documents if one not in gone]
        return len(gone)

    def _same(self, one, other):
        return str(one) == str(other) if self._as_text else one == other


class NaiveService:
    """Turns every error into a result, compares ids as texts, and filters by type what a limit has left."""

    def __init__(self, collection):
        self._collection = collection

    async def store_memory(self, repository_id, content, memory_type, source_agent, file_paths=None):
        try:
            document = {
                "repository_id": repository_id,
                "content": content[:4000],
                "memory_type": memory_type,
                "source_agent": source_agent,
                "file_paths": file_paths or [],
            }
            return {"status": "success", "memory_id": self._collection.insert(document)}
        except Exception as error:  # noqa: BLE001 - one of the faults
            return {"status": "error", "error": str(error)}

    async def search_memories(self, repository_id, query, limit=10, memory_type=None):
        found = self._collection.nearest(str(repository_id), query, limit)
        if memory_type:
            found = [one for one in found if one["memory_type"] == memory_type]
        return {"status": "success", "memories": found}

    async def purge_memories(self, repository_id):
        return {"status": "success", "deleted_count": self._collection.delete(str(repository_id))}


class NaiveMiddleware(AgentMiddleware):
    """Takes the repository from the first state it sees, and keeps it on the instance."""

    state_schema = AgentState

    def __init__(self, source_agent, service, system_prompt="Use your memory."):
        super().__init__()
        self.source_agent = source_agent
        self.system_prompt = system_prompt
        self._service = service
        self._repository_id = None

        @tool(description="Store a memory.")
        async def store_memory(content: str, memory_type: str, file_paths: list[str] | None = None) -> str:
            if self._repository_id is None:
                return "Error: repository_id not yet available from agent state"
            result = await self._service.store_memory(
                self._repository_id, content, memory_type, self.source_agent, file_paths
            )
            if result["status"] == "success":
                return f"Memory stored successfully (ID: {result['memory_id']})"
            return f"Failed to store memory: {result['error']}"

        @tool(description="Recall memories.")
        async def recall_memories(query: str, limit: int = 5, memory_type: str | None = None) -> str:
            if self._repository_id is None:
                return "Error: repository_id not yet available from agent state"
            result = await self._service.search_memories(self._repository_id, query, limit, memory_type)
            memories = result["memories"]
            if not memories:
                return "No relevant memories found."
            lines = [f"- [{one['memory_type']}] {one['content'][:300]}..." for one in memories]
            return f"Found {len(memories)} relevant memories:\n" + "\n".join(lines)

        self.tools = [store_memory, recall_memories]

    async def awrap_model_call(self, request, handler):
        if self._repository_id is None:
            told = request.state.get("repository_id")
            if told is not None:
                self._repository_id = told if isinstance(told, UUID) else UUID(str(told))
        blocks = request.system_message.content_blocks if request.system_message is not None else []
        content = [*blocks, {"type": "text", "text": f"\n\n{self.system_prompt}"}]
        return await handler(request.override(system_message=SystemMessage(content=content)))
