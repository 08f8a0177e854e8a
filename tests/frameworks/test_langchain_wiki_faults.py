"""Faults that a first memory for wiki agents has. Each test fails on that one (`naive`) and passes on ours."""

import asyncio
from uuid import UUID, uuid4

import pytest

pytest.importorskip("langchain", reason="needs the package langchain")

from langchain.agents import create_agent
from langchain.agents.middleware import AgentMiddleware, SummarizationMiddleware, ToolRetryMiddleware
from langchain_core.messages import HumanMessage, ToolMessage
from langchain_core.tools import tool
from naive_wiki_memory import NaiveMiddleware, NaiveService, TypedCollection
from scripted_agents import PARTS, FailingStore, Scripted, recalls, says, stores

import treering
from treering.extensions.wiki.memories.space_memories import SpaceWikiMemories
from treering.langchain import WikiAgentState, WikiMemoryMiddleware, WikiRunContext
from treering.wiki import WikiMemoryService

FLASK, TYPER = UUID("0f0e0d0c-0b0a-4908-8706-050403020100"), uuid4()
WRITE = HumanMessage("Write the page about routes.")


class Ours:
    """The middleware of this package over a space in memory."""

    def __init__(self, **_options):
        self.space = treering.open(":memory:", **PARTS)
        self.store = FailingStore(SpaceWikiMemories(self.space.engine))
        self.service = WikiMemoryService(self.store)
        self.middleware = WikiMemoryMiddleware("page_agent", service=self.service)

    def fail(self, *moments):
        self.store.plan("store", *moments)

    def summarizing(self, model):
        return SummarizationMiddleware(model, trigger=("messages", 8), keep=("messages", 4))

    async def regenerate(self, run):
        """Run an agent of a new generation, and take the old memories away when it is done."""
        await run(WikiRunContext(FLASK, generation="2"))
        await self.service.complete_generation(FLASK, "2")

    async def contents(self, repository):
        found = await self.service.get_memories_by_files(repository, ["src"])
        return sorted(one["content"] for one in found["memories"])

    def close(self):
        self.space.close()


class Naive:
    """A middleware as one writes it first."""

    def __init__(self, **options):
        self.collection = TypedCollection(**options)
        self.service = NaiveService(self.collection)
        self.middleware = NaiveMiddleware("page_agent", self.service)

    def fail(self, *moments):
        self.collection.failing += moments

    def summarizing(self, model):
        return SummarizationMiddleware(model)

    async def regenerate(self, run):
        """Take the old memories away, and run an agent."""
        await self.service.purge_memories(FLASK)
        await run(WikiRunContext(FLASK))

    async def contents(self, repository):
        return sorted(one["content"] for one in self.collection.documents if one["repository_id"] == repository)

    def close(self):
        pass


DESIGNS = [
    pytest.param(Ours, id="ours"),
    pytest.param(Naive, id="naive", marks=pytest.mark.xfail(strict=True, raises=(AssertionError, NotImplementedError))),
]


@pytest.fixture(params=DESIGNS)
def design(request):
    made = request.param(**getattr(request.function, "options", {}))
    yield made
    made.close()


def over(**options):
    """Let a test run over a collection with such options."""

    def marked(test):
        test.options = options
        return test

    return marked


def built(design, *script, middleware=(), declared=True, **options):
    """Return an agent and its model; `declared`: its own state schema keeps the keys of the workflow."""
    model = Scripted(script=list(script))
    schema = {"state_schema": WikiAgentState} if declared else {}
    stack = [design.middleware, *middleware]
    return create_agent(model, middleware=stack, context_schema=WikiRunContext, **schema, **options), model


async def run(design, repository, *script, **options):
    """Run an agent for a repository, and return its last state."""
    agent, _ = built(design, *script, **options)
    state = {"messages": [WRITE], "repository_id": repository}
    return await agent.ainvoke(state, context=WikiRunContext(repository))


def remembering(content, **more):
    return [says("", stores(content, file_paths=["src/app.py"], **more)), says("# Routes\n\nThe page.")]


def told(state, name):
    """Return what the tool of this name answered last."""
    return [one for one in state["messages"] if isinstance(one, ToolMessage) and one.name == name][-1]


def test_one_instance_keeps_the_memories_of_two_repositories_apart(design):
    async def both():
        await run(design, FLASK, *remembering("Of Flask."))
        await run(design, TYPER, *remembering("Of Typer."))
        return await design.contents(FLASK), await design.contents(TYPER)

    assert asyncio.run(both()) == (["Of Flask."], ["Of Typer."])


def test_the_graph_keeps_the_keys_of_the_state_that_name_the_repository(design):
    async def remembered():
        agent, _ = built(design, *remembering("By the state."), declared=False)
        state = await agent.ainvoke({"messages": [WRITE], "repository_id": FLASK, "pages": ["a"]})
        assert state.get("repository_id") == FLASK
        assert state.get("pages") == ["a"]
        return await design.contents(FLASK)

    assert asyncio.run(remembered()) == ["By the state."]


@over(as_text=False)
def test_a_purge_finds_what_was_stored_under_a_uuid(design):
    async def purged():
        await run(design, FLASK, *remembering("Of Flask."))
        result = await design.service.purge_memories(FLASK)
        return result["deleted_count"], await design.contents(FLASK)

    assert asyncio.run(purged()) == (1, [])


def test_a_type_is_a_condition_of_the_search_and_not_of_what_the_limit_has_left(design):
    async def recalled():
        for number in range(8):
            await run(design, FLASK, *remembering(f"Routes of requests {number}"))
        await run(design, FLASK, *remembering("All views have routes of requests somewhere", kind="pattern_found"))
        asked = recalls("routes of requests", memory_type="pattern_found", limit=2)
        return told(await run(design, FLASK, says("", asked), says("Page.")), "recall_memories").text

    assert "All views" in asyncio.run(recalled())


def test_memories_stand_when_a_new_generation_fails(design):
    async def failed():
        await run(design, FLASK, *remembering("Of the old wiki."))

        async def fails(context):
            agent, _ = built(design, says("", stores("Of the new wiki.")), RuntimeError("no answer"))
            await agent.ainvoke({"messages": [WRITE], "repository_id": FLASK}, context=context)

        with pytest.raises(RuntimeError, match="no answer"):
            await design.regenerate(fails)
        return await design.contents(FLASK)

    assert "Of the old wiki." in asyncio.run(failed())


def test_a_long_run_is_summarised_and_still_told_of_its_memory(design):
    @tool
    def read_text_file(path: str) -> str:
        """Read a file."""
        return f"The text of {path}."

    async def long():
        reading = [says("", ("read_text_file", {"path": f"{n}.py"}, f"read-{n}")) for n in range(12)]
        summary = design.summarizing(Scripted(script=[says("What was read.")] * 12))
        agent, model = built(design, *reading, says("# Routes"), middleware=[summary], tools=[read_text_file])
        await agent.ainvoke({"messages": [WRITE], "repository_id": FLASK}, context=WikiRunContext(FLASK))
        return model.seen

    seen = asyncio.run(long())
    assert design.middleware.system_prompt in seen[-1][0].text
    assert max(map(len, seen)) <= 12


def test_an_agent_runs_when_it_is_called_without_a_loop(design):
    agent, _ = built(design, *remembering("Without a loop."))
    agent.invoke({"messages": [WRITE], "repository_id": FLASK}, context=WikiRunContext(FLASK))
    assert asyncio.run(design.contents(FLASK)) == ["Without a loop."]


class LosesReplies(AgentMiddleware):
    """Loses the first two replies of a tool that has done its work, as a time limit does."""

    def __init__(self):
        super().__init__()
        self.left = 2

    async def awrap_tool_call(self, request, handler):
        answer = await handler(request)
        if self.left:
            self.left -= 1
            raise TimeoutError("no reply")
        return answer


def test_a_call_that_is_retried_stores_one_memory(design):
    async def retried():
        retry = ToolRetryMiddleware(max_retries=3, initial_delay=0.0)
        await run(design, FLASK, *remembering("Once."), middleware=[retry, LosesReplies()])
        return await design.contents(FLASK)

    assert asyncio.run(retried()) == ["Once."]


def test_a_store_that_fails_is_tried_again_by_the_retry_middleware(design):
    design.fail("before", "before")

    async def retried():
        retry = ToolRetryMiddleware(max_retries=3, initial_delay=0.0)
        await run(design, FLASK, *remembering("After two failures."), middleware=[retry])
        return await design.contents(FLASK)

    assert asyncio.run(retried()) == ["After two failures."]


def test_what_a_model_says_of_its_memory_does_not_replace_the_page(design):
    page = "# Routes\n\n" + "A request is routed to a view. " * 20

    async def written():
        script = [says(page, stores("Routes have a page.")), says("I have stored the decision in memory. Done!")]
        return await run(design, FLASK, *script)

    assert asyncio.run(written())["messages"][-1].text == page.strip()


@over(indexed=False)
def test_a_memory_is_recalled_where_no_vector_index_is_ready(design):
    async def recalled():
        await run(design, FLASK, *remembering("Routes of requests"))
        return told(await run(design, FLASK, says("", recalls("routes of requests")), says("Page.")), "recall_memories")

    assert "Routes of requests" in asyncio.run(recalled()).text
