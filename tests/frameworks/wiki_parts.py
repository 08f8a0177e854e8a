"""A wiki of a repository for tests of agents: a space, a store that fails as planned, and the middleware."""

import asyncio
from uuid import UUID, uuid4

from langchain.agents import create_agent
from langchain.agents.middleware import AgentMiddleware
from langchain_core.messages import HumanMessage, ToolMessage
from scripted_agents import PARTS, FailingStore, Scripted, says, stores

import treering
from treering.extensions.wiki.memories.space_memories import SpaceWikiMemories
from treering.langchain import WikiMemoryMiddleware, WikiRunContext
from treering.wiki import WikiMemoryService

FLASK, TYPER = UUID("0f0e0d0c-0b0a-4908-8706-050403020100"), uuid4()
WRITE = HumanMessage("Write the page about routes of requests.")
PAGE = "# Routes\n\n" + "A request is routed to a view. " * 20
DONE = says("# Routes\n\nA short page.")


class Wiki:
    """A space, a store over it that fails as planned, and one instance of the middleware."""

    def __init__(self):
        self.space = treering.open(":memory:", **PARTS)
        self.store = FailingStore(SpaceWikiMemories(self.space.engine))
        self.service = WikiMemoryService(self.store)
        self.middleware = WikiMemoryMiddleware("page_agent", service=self.service)

    def agent(self, *script, middleware=(), **options):
        """Return an agent and its model."""
        model = Scripted(script=list(script))
        return create_agent(model, middleware=[self.middleware, *middleware], **options), model

    def run(self, *script, context=WikiRunContext(FLASK), state=None, config=None, **options):  # noqa: B008 - frozen
        """Run an agent, and return its last state and what its model was shown."""
        agent, model = self.agent(*script, **options)
        return agent.invoke({"messages": [WRITE], **(state or {})}, config, context=context), model.seen

    def keep(self, content, *, repository=FLASK, kind="structural_decision", **options):
        result = asyncio.run(self.service.store_memory(repository, content, kind, "structure_agent", **options))
        return result["memory_id"]

    def found(self, query="routes", *, repository=FLASK, **options):
        options = {"score_threshold": 0.0, "limit": 100, **options}
        result = asyncio.run(self.service.search_memories(repository, query, **options))
        return result["memories"]

    def contents(self, repository=FLASK, **options):
        """Return the texts of all memories about a file."""
        result = asyncio.run(self.service.get_memories_by_files(repository, ["src"], **options))
        return sorted(one["content"] for one in result["memories"])


def stored(content, number="call-1", **more):
    return stores(content, number, file_paths=["src/app.py"], **more)


def answers(state, name):
    """Return what tools of this name answered."""
    return [one for one in state["messages"] if isinstance(one, ToolMessage) and one.name == name]


class LosesReplies(AgentMiddleware):
    """Loses the first replies of tools that have done their work."""

    def __init__(self, replies=1):
        super().__init__()
        self.left = replies

    def wrap_tool_call(self, request, handler):
        return self._lost(handler(request))

    async def awrap_tool_call(self, request, handler):
        return self._lost(await handler(request))

    def _lost(self, answer):
        if self.left:
            self.left -= 1
            raise TimeoutError("no reply")
        return answer
