"""Runs of wiki agents with LangChain's own middleware: results, last messages, retries, many at once."""

import asyncio
from concurrent.futures import ThreadPoolExecutor
from uuid import uuid4

import pytest

pytest.importorskip("langchain", reason="needs the package langchain")

from langchain.agents.middleware import (
    AgentMiddleware,
    ModelCallLimitMiddleware,
    ModelRetryMiddleware,
    SummarizationMiddleware,
    TodoListMiddleware,
    ToolRetryMiddleware,
)
from langchain.agents.structured_output import ToolStrategy
from langchain_core.messages import AIMessage, ToolMessage
from langchain_core.tools import StructuredTool, tool
from langgraph.checkpoint.memory import InMemorySaver
from langgraph.graph import END, START, StateGraph
from mcp import Client
from mcp.server import MCPServer
from pydantic import BaseModel
from scripted_agents import Scripted, recalls, says
from wiki_parts import DONE, FLASK, PAGE, WRITE, LosesReplies, Wiki, answers, stored

from treering.langchain import WikiAgentState, WikiRunContext


@pytest.fixture
def wiki():
    opened = Wiki()
    yield opened
    opened.space.close()


class Page(BaseModel):
    """A page of a plan."""

    title: str
    purpose: str = ""
    relevant_files: list[str] = []


class Plan(BaseModel):
    """The plan of a wiki."""

    title: str
    pages: list[Page] = []
    decisions: list[str] = []
    patterns: list[dict] = []


PLAN = {
    "title": "Flask",
    "pages": [
        {"title": "Overview", "purpose": "What Flask is."},
        {"title": "Routing", "purpose": "How a request finds its view.", "relevant_files": ["src/app.py"]},
    ],
    "decisions": ["One page for each package."],
    "patterns": [{"content": "Views are registered by decorators.", "file_paths": ["src/views.py"]}],
}


class TestStructuredResult:
    def planned(self, wiki, plan=PLAN, **options):
        return wiki.run(says("", ("Plan", plan, "plan")), response_format=ToolStrategy(Plan), **options)

    def test_decisions_are_kept_though_the_model_called_no_tool(self, wiki):
        state, _ = self.planned(wiki)
        assert state["structured_response"].title == "Flask"
        kept = {one["content"]: one for one in wiki.found("Flask page package views")}
        outline = 'The wiki "Flask" has 2 pages.\nOverview: What Flask is.\nRouting: How a request finds its view.'
        assert set(kept) == {outline, "One page for each package.", "Views are registered by decorators."}
        assert kept[outline]["memory_type"] == "structural_decision"
        assert kept[outline]["related_pages"] == ["Overview", "Routing"]
        assert kept[outline]["file_paths"] == ["src/app.py"]
        assert kept["Views are registered by decorators."]["memory_type"] == "pattern_found"
        assert wiki.contents() == [outline, "Views are registered by decorators."]

    def test_the_same_decision_of_a_later_run_is_kept_once(self, wiki):
        self.planned(wiki)
        self.planned(wiki)
        assert len(wiki.found("Flask page package views")) == 3
        self.planned(wiki, {**PLAN, "decisions": ["One page for each module of a package."]})
        assert len(wiki.found("Flask page package views")) == 4

    def test_a_store_that_fails_a_few_times_keeps_each_decision_once(self, wiki):
        wiki.store.plan("store", "before", "after", "before")
        self.planned(wiki)
        assert len(wiki.found("Flask page package views")) == 3

    def test_a_store_that_fails_for_good_does_not_take_the_result_away(self, wiki, caplog):
        wiki.store.plan("store", *["before"] * 12)
        state, _ = self.planned(wiki)
        assert state["structured_response"].title == "Flask"
        assert "was not stored" in caplog.text

    def test_a_long_plan_is_kept_as_far_as_it_fits(self, wiki):
        pages = [{"title": f"Page {n}", "purpose": "Says what is on it. " * 3} for n in range(200)]
        self.planned(wiki, {"title": "Long", "pages": pages})
        (kept,) = wiki.found("pages of the wiki")
        assert len(kept["content"]) <= 4_000

    def test_nothing_is_taken_of_a_result_that_states_no_decision(self, wiki):
        class Answer(BaseModel):
            """An answer."""

            text: str

        wiki.run(says("", ("Answer", {"text": PAGE}, "1")), response_format=ToolStrategy(Answer))
        assert wiki.found("routes page") == []


class TestFinalText:
    def last(self, wiki, *script, **options):
        return wiki.run(*script, **options)[0]["messages"][-1]

    @pytest.mark.parametrize("remark", ["", "Done.", "I stored one structural decision for later generations."])
    def test_a_page_that_came_with_a_call_of_a_memory_tool_is_the_last_message(self, wiki, remark):
        last = self.last(wiki, says(PAGE, stored("Routes.")), says(remark))
        assert isinstance(last, AIMessage)
        assert last.text == PAGE.strip()
        assert not last.tool_calls

    def test_a_page_before_several_rounds_of_asides_is_the_last_message(self, wiki):
        todo = ("write_todos", {"todos": [{"content": "page", "status": "completed"}]}, "t")
        script = [says(PAGE, stored("One.", "1"), todo), says("", stored("Two.", "2")), says("Both are stored.")]
        assert self.last(wiki, *script, middleware=[TodoListMiddleware()]).text == PAGE.strip()

    @pytest.mark.parametrize(
        ("before", "final"),
        [
            ("Let me store this first.", PAGE),
            ("I have to think about this for a long time before I can say what it is. " * 5, "42"),
            (PAGE, "# Routes\n\nA shorter page, which says how routes are stored."),
            ("", "I have stored it."),
        ],
    )
    def test_an_answer_after_a_memory_tool_stays_what_it_is(self, wiki, before, final):
        assert self.last(wiki, says(before, stored("Routes.")), says(final)).text.strip() == final.strip()

    def test_a_page_before_other_tools_is_not_the_answer(self, wiki):
        @tool
        def read_text_file(path: str) -> str:
            """Read a file."""
            return "text"

        script = [says(PAGE, stored("Routes."), ("read_text_file", {"path": "a"}, "r")), says("I stored it.")]
        assert self.last(wiki, *script, tools=[read_text_file]).text == "I stored it."

    def test_a_run_that_is_stopped_after_a_memory_tool_ends_with_its_page(self, wiki):
        class Stops(AgentMiddleware):
            """Ends a run after its first tools."""

            def wrap_model_call(self, request, handler):
                if any(isinstance(message, ToolMessage) for message in request.messages):
                    return AIMessage("")
                return handler(request)

        assert self.last(wiki, says(PAGE, stored("Routes.")), middleware=[Stops()]).text == PAGE.strip()

    def test_a_limit_on_calls_does_not_replace_the_page(self, wiki):
        limit = ModelCallLimitMiddleware(run_limit=1, exit_behavior="end")
        last = self.last(wiki, says(PAGE, stored("Routes.")), middleware=[limit])
        assert last.text == PAGE.strip()


def stack(*inner):
    """Return the middleware of LangChain that stands behind the memory, with pauses of no length."""
    summary = Scripted(script=[says("What was said before.")] * 20)
    return [
        TodoListMiddleware(),
        SummarizationMiddleware(summary, trigger=("messages", 6), keep=("messages", 3)),
        ModelRetryMiddleware(max_retries=3, initial_delay=0.0),
        ToolRetryMiddleware(max_retries=3, initial_delay=0.0),
        *inner,
    ]


class TestRetries:
    @pytest.mark.parametrize("asynchronous", [False, True])
    def test_a_whole_stack_with_faults_everywhere_stores_each_memory_once(self, wiki, asynchronous):
        todo = ("write_todos", {"todos": [{"content": "write", "status": "in_progress"}]}, "t")
        agent, model = wiki.agent(
            says("", todo),
            TimeoutError("the model is busy"),
            says("", stored("One.", "1"), stored("Two.", "2", kind="pattern_found")),
            says("", recalls("one"), ("get_file_memories", {"file_paths": ["src"]}, "f")),
            RuntimeError("the model is busy again"),
            says(PAGE, stored("Three.", "3")),
            says("All is stored in memory."),
            middleware=stack(LosesReplies()),
        )
        wiki.store.plan("store", "before", "after", "after")
        wiki.store.plan("by_files", "before")
        state, context = {"messages": [WRITE]}, WikiRunContext(FLASK)
        if asynchronous:
            state = asyncio.run(agent.ainvoke(state, context=context))
        else:
            state = agent.invoke(state, context=context)
        assert wiki.contents() == ["One.", "Three.", "Two."]
        assert state["messages"][-1].text == PAGE.strip()
        assert wiki.middleware.system_prompt in model.seen[-1][0].text

    def test_a_memory_that_fails_for_good_is_reported_without_internals_and_the_run_goes_on(self, wiki):
        for method in ("store", "search", "by_files"):
            wiki.store.plan(method, *["before"] * 20)
        calls = [stored("One."), recalls("one"), ("get_file_memories", {"file_paths": ["src"]}, "f")]
        for middleware in ([], stack(), [ToolRetryMiddleware(max_retries=1, initial_delay=0.0, on_failure="error")]):
            state, seen = wiki.run(says("", *calls), DONE, middleware=middleware)
            for name, _, _ in calls:
                (answer,) = answers(state, name)
                assert answer.status == "error"
                assert "Cannot reach the memory." in answer.text
                assert "No relevant" not in answer.text
            assert "hunter2" not in str(seen)
            assert "10.0.0.7" not in str(state)

    def test_a_failure_of_another_tool_stays_its_own(self, wiki):
        @tool
        def read_text_file(path: str) -> str:
            """Read a file."""
            raise FileNotFoundError(path)

        with pytest.raises(FileNotFoundError):
            wiki.run(says("", ("read_text_file", {"path": "a"}, "1")), tools=[read_text_file])

    def test_a_run_that_broke_off_after_a_store_goes_on_in_its_thread_and_stores_once(self, wiki):
        saver, thread = InMemorySaver(), {"configurable": {"thread_id": "page-1"}}
        agent, _ = wiki.agent(says("", stored("Once.")), DONE, middleware=[LosesReplies()], checkpointer=saver)
        with pytest.raises(TimeoutError):
            agent.invoke({"messages": [WRITE]}, thread, context=WikiRunContext(FLASK))
        assert wiki.contents() == ["Once."]
        state = agent.invoke(None, thread, context=WikiRunContext(FLASK))
        assert wiki.contents() == ["Once."]
        assert "stored successfully" in answers(state, "store_memory")[0].text

    def test_a_tool_that_starts_an_agent_and_is_retried_stores_once(self, wiki):
        def inner():
            return wiki.agent(says("", stored("Inner.")), DONE)[0]

        @tool
        def delegate() -> str:
            """Ask another agent."""
            return inner().invoke({"messages": [WRITE]})["messages"][-1].text

        retry = ToolRetryMiddleware(max_retries=3, initial_delay=0.0)
        wiki.run(says("", ("delegate", {}, "1")), DONE, tools=[delegate], middleware=[retry, LosesReplies(2)])
        assert wiki.contents() == ["Inner."]

    def test_calls_with_the_same_number_in_other_runs_or_with_other_texts_are_other_memories(self, wiki):
        wiki.run(says("", stored("One.", "call_0")), DONE)
        wiki.run(says("", stored("One.", "call_0")), DONE)
        assert wiki.contents() == ["One.", "One."]
        thread = {"configurable": {"thread_id": "t"}}
        wiki.run(says("", stored("Two.", "call_0")), says("", stored("Three.", "call_0")), DONE, config=thread)
        assert wiki.contents() == ["One.", "One.", "Three.", "Two."]

    def test_a_call_that_a_model_spelled_wrong_is_answered_and_spelled_again(self, wiki):
        broken = AIMessage(
            "", invalid_tool_calls=[{"name": "store_memory", "args": '{"content": "Rou', "id": "1", "error": "cut"}]
        )
        agent, _ = wiki.agent(says("", stored("Routes.", "2")), DONE)
        state = agent.invoke({"messages": [WRITE, broken]}, context=WikiRunContext(FLASK))
        assert [answer.status for answer in answers(state, "store_memory")] == ["error", "success"]
        assert wiki.contents() == ["Routes."]


class TestManyAtOnce:
    REPOSITORIES = tuple(uuid4() for _ in range(8))

    def agent(self, wiki, number):
        """Return one of 24 agents, whose run has a fault of the model and two of its tools."""
        text = f"Decision of {self.REPOSITORIES[number % 8]} by agent {number}."
        script = [TimeoutError("busy"), says("", stored(text, "call_0")), says("", recalls("decision")), DONE]
        return wiki.agent(*script, middleware=stack(LosesReplies(2)))

    def given(self, number):
        repository = self.REPOSITORIES[number % 8]
        if number % 3:
            return {"messages": [WRITE]}, WikiRunContext(repository)
        return {"messages": [WRITE], "repository_id": str(repository)}, None

    def check(self, wiki, models):
        for position, repository in enumerate(self.REPOSITORIES):
            expected = [f"Decision of {repository} by agent {number}." for number in range(position, 24, 8)]
            assert wiki.contents(repository) == sorted(expected)
        for number, model in enumerate(models):
            shown = "".join(message.text for messages in model.seen for message in messages)
            others = {str(one) for one in self.REPOSITORIES} - {str(self.REPOSITORIES[number % 8])}
            assert not any(f"Decision of {other}" in shown for other in others)

    def test_agents_in_threads_never_mix_their_repositories(self, wiki):
        made = [self.agent(wiki, number) for number in range(24)]

        def run(number):
            state, context = self.given(number)
            return made[number][0].invoke(state, context=context)

        with ThreadPoolExecutor(8) as threads:
            list(threads.map(run, range(24)))
        self.check(wiki, [model for _, model in made])

    def test_agents_in_one_event_loop_never_mix_their_repositories(self, wiki):
        made = [self.agent(wiki, number) for number in range(24)]

        async def run():
            given = map(self.given, range(24))
            calls = (
                agent.ainvoke(state, context=context) for (agent, _), (state, context) in zip(made, given, strict=True)
            )
            await asyncio.gather(*calls)

        asyncio.run(run())
        self.check(wiki, [model for _, model in made])


class TestSurroundings:
    def test_file_tools_of_an_mcp_server_work_beside_the_memory(self, wiki, tmp_path):
        (tmp_path / "app.py").write_text("ROUTES = {}")
        server = MCPServer("files")

        @server.tool()
        def read_text_file(path: str) -> str:
            """Read a file."""
            return (tmp_path / path).read_text()

        async def run():
            async with Client(server) as session:

                async def call(**arguments):
                    return (await session.call_tool("read_text_file", arguments)).content[0].text

                (told,) = (await session.list_tools()).tools
                reading = StructuredTool(
                    name=told.name, description=told.description, args_schema=told.input_schema, coroutine=call
                )
                agent, model = wiki.agent(
                    says("", ("read_text_file", {"path": "app.py"}, "1")),
                    says(PAGE, stored("Routes are kept in one mapping.", "2")),
                    says("The memory is stored."),
                    tools=[reading],
                    middleware=stack(),
                )
                state = await agent.ainvoke({"messages": [WRITE]}, context=WikiRunContext(FLASK))
                return state, {one.name for one in model.tools}

        state, tools = asyncio.run(run())
        assert tools >= {"read_text_file", "store_memory", "write_todos"}
        assert "ROUTES = {}" in str(answers(state, "read_text_file")[0].content)
        assert state["messages"][-1].text == PAGE.strip()
        assert wiki.contents() == ["Routes are kept in one mapping."]

    @pytest.mark.parametrize("by", ["context", "state"])
    def test_an_agent_that_is_a_node_of_a_workflow_has_the_repository_of_the_workflow(self, wiki, by):
        agent, _ = wiki.agent(says("", stored("In a workflow.")), DONE)
        graph = StateGraph(WikiAgentState, context_schema=WikiRunContext)
        graph.add_node("page", agent)
        graph.add_edge(START, "page")
        graph.add_edge("page", END)
        workflow = graph.compile()
        if by == "context":
            workflow.invoke({"messages": [WRITE]}, context=WikiRunContext(FLASK))
        else:
            workflow.invoke({"messages": [WRITE], "repository_id": FLASK})
        assert wiki.contents() == ["In a workflow."]

    def test_a_task_of_no_words_is_told_the_decisions_on_structure(self, wiki):
        wiki.keep("One page for each package.")
        agent, model = wiki.agent(DONE)
        agent.invoke({"messages": []}, context=WikiRunContext(FLASK))
        assert "One page for each package." in model.seen[0][1].text


class TestWorkflow:
    """What a program that generates wikis does with the memory: once, again, and anew."""

    def test_memories_of_a_first_generation_are_kept_and_recalled_by_the_next(self, wiki):
        wiki.run(says("", stored("Routes of requests have one page.")), DONE)
        state, seen = wiki.run(says("", recalls("routes of requests")), DONE)
        assert "Routes of requests have one page." in seen[0][1].text
        assert "Routes of requests have one page." in answers(state, "recall_memories")[0].text
        assert wiki.contents() == ["Routes of requests have one page."]

    def test_a_new_generation_replaces_the_memories_when_it_is_complete_and_a_failed_one_does_not(self, wiki):
        wiki.run(says("", stored("Old.")), DONE)
        context = WikiRunContext(FLASK, generation="2")
        with pytest.raises(RuntimeError, match="no answer"):
            wiki.run(says("", stored("Half.")), RuntimeError("no answer"), context=context)
        assert wiki.contents() == ["Old."]
        wiki.run(says("", stored("New.")), DONE, context=WikiRunContext(FLASK, generation="3"))
        completed = asyncio.run(wiki.service.complete_generation(FLASK, "3"))
        assert completed["deleted_count"] == 2
        assert wiki.contents() == ["New."]

    def test_a_stored_memory_has_a_vector_and_the_best_match_comes_first(self, wiki):
        for text in ("Templates are rendered by Jinja.", "Routes of requests map to views.", "Requests are routed."):
            wiki.run(says("", stored(text)), DONE)
        assert wiki.space.engine.index.vectors.lag().pending == 3
        wiki.space.engine.vectoriser.finish(lambda *_: None)
        assert wiki.space.engine.index.vectors.lag().pending == 0
        assert wiki.found("routes of requests")[0]["content"] == "Routes of requests map to views."
