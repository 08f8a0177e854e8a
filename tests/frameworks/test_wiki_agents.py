"""A wiki that agents write: they read the repository and nothing else, remember, cite what holds, and keep a budget."""

import asyncio
import re
from uuid import uuid4

import pytest
from generation_parts import FILES, bodies, make_repository
from langchain_core.language_models import BaseChatModel
from langchain_core.messages import HumanMessage, ToolMessage
from langchain_core.outputs import ChatGeneration, ChatResult
from pydantic import PrivateAttr
from scripted_agents import recalls, says, stores

from space_parts import open_space
from treering import Budget
from treering.core.errors import InvalidInput, Unavailable
from treering.extensions.wiki.agent_pages import page_with_citations, usable_plan
from treering.extensions.wiki.citing import Citations
from treering.extensions.wiki.memories.space_memories import SpaceWikiMemories
from treering.extensions.wiki.memories.wiki_memory import WikiRepository
from treering.extensions.wiki.work_tree import WikiMaterial, read_repository
from treering.frameworks.wiki_generation.repository_tools import MOST_LINES, RepositoryTools
from treering.langchain import WIKI_MEMORY_SYSTEM_PROMPT, WikiMemoryMiddleware
from treering.testing import HashingEmbedder
from treering.wiki import (
    EmbeddingTool,
    MemoryType,
    PageKind,
    PagePlan,
    WikiMemoryRepository,
    WikiMemoryService,
    WikiPlan,
    WikiWorkflowState,
    create_page_agent,
    create_structure_agent,
    generate_wiki,
    wiki_workflow,
)

APP, ROUTES = FILES
ABOUT = WikiRepository.of("acme")
PAGES = ["modules/app.md", "modules/routes.md"]
PLAN = {
    "title": "Acme",
    "description": "A wiki.",
    "pages": [
        {"path": page, "title": page, "kind": "module", "purpose": "A module.", "relevant_files": [file]}
        for page, file in zip(PAGES, FILES, strict=True)
    ],
}


class Author(BaseChatModel):
    """A model that plans two pages and writes them: it answers from what it is shown, and keeps that."""

    edition: str = "first"
    _seen: list = PrivateAttr(default_factory=list)
    _messages: list = PrivateAttr(default_factory=list)

    @property
    def _llm_type(self):
        return "author"

    @property
    def seen(self):
        """By page, or `plan`, what was shown at each call."""
        return self._seen

    @property
    def messages(self):
        """By page, or `plan`, the messages of each call."""
        return self._messages

    def bind_tools(self, tools, **options):
        return self

    def _generate(self, messages, stop=None, run_manager=None, **options):
        text = "\n".join(str(message.text) for message in messages)
        task = re.search(r"Write the page (\S+), titled", text)
        page = task[1] if task else "plan"
        self._seen.append((page, text))
        self._messages.append((page, list(messages)))
        answered = [message.name for message in messages if isinstance(message, ToolMessage)]
        message = self.page(page, answered) if task else self.plan(answered)
        return ChatResult(generations=[ChatGeneration(message=message)])

    def plan(self, answered):
        if not answered:
            decision = stores(f"Pages follow modules in the {self.edition} edition.", file_paths=["src"])
            return says("", ("list_folder", {"path": "src"}, "l"), recalls("pages follow modules"), decision)
        return says("", ("WikiStructure", PLAN, "s"))

    def page(self, page, answered):
        file = FILES_OF[page]
        if not answered:
            return says("", ("read_lines", {"path": file}, "r"))
        body = f"# {page}\n\nIn the {self.edition} edition it is [a class](source:{file}#L1-L2)."
        cited = {"path": file, "first_line": 1, "last_line": 2, "quote": "class"}
        return says("", ("WikiPageText", {"body": body, "citations": [cited]}, "p"))


FILES_OF = dict(zip(PAGES, FILES, strict=True))


@pytest.fixture
def space():
    with open_space(channel="user") as space:
        yield space


@pytest.fixture
def folder(tmp_path):
    return make_repository(tmp_path / "acme")


def generate(space, model, force=False, **given):
    return asyncio.run(generate_wiki("acme", force, space=space, model=model, **given))


def remembered(space):
    return {one.content for one in SpaceWikiMemories(space.engine).by_files(ABOUT, ["src"])}


def asked(model):
    return sorted({page for page, _ in model.seen})


def test_agents_write_a_wiki_and_remember_from_run_to_run_until_a_new_generation(space, folder):
    first, second, third = Author(), Author(edition="second"), Author(edition="third")
    assert generate(space, first, repository=folder).statuses == {"fresh": 2}
    old = "Pages follow modules in the first edition."
    assert old in remembered(space)
    (folder / "src/acme/new.py").write_text("NEW = 1\n", encoding="utf-8")  # so that the plan is asked for again
    (folder / APP).write_text("# Changed.\n" + FILES[APP], encoding="utf-8")
    report = generate(space, second)
    assert (set(report.written), report.kept, asked(second)) == ({PAGES[0]}, 1, [PAGES[0], "plan"])
    assert all(old in text for page, text in second.seen if page == "plan")
    before = remembered(space)
    assert {old, "Pages follow modules in the second edition."} <= before
    report = generate(space, third, force=True)
    assert (report.deleted_count, set(report.written)) == (len(before), set(PAGES))
    assert not [text for _, text in third.seen if "first edition" in text or "second edition" in text]
    assert "Pages follow modules in the third edition." in remembered(space)
    assert not remembered(space) & {old, "Pages follow modules in the second edition."}
    assert "third edition" in bodies(space)[PAGES[0]]


def test_the_plan_is_requested_again_only_where_there_are_other_files(space, folder):
    generate(space, Author(), repository=folder)
    (folder / APP).write_text("# Changed.\n" + FILES[APP], encoding="utf-8")
    model = Author()
    generate(space, model)
    assert asked(model) == [PAGES[0]]


def test_a_budget_stops_a_run_before_the_call_that_it_does_not_allow_and_the_next_run_goes_on(space, folder):
    generate(space, Author(), repository=folder)
    before, memories = bodies(space), remembered(space)
    budget, model = Budget(requests=4), Author(edition="second")
    report = generate(space, model, force=True, budget=budget, at_once=1)
    assert (report.status, report.pages, len(report.written), len(model.seen)) == ("stopped", 2, 1, 4)
    assert "The model budget does not allow another call" in report.stopped_by
    assert (bodies(space), remembered(space)) == (before, memories)
    model = Author(edition="second")
    report = generate(space, model, force=True)
    assert (report.status, report.resumed, asked(model)) == ("complete", True, [PAGES[1]])
    assert (report.usage.requests, report.estimate.requests > 0) == (6, True)
    assert report.usage.input_tokens > 100


def test_what_pages_take_is_estimated_before_and_may_be_declined(space, folder):
    told, model = [], Author()
    report = generate(space, model, repository=folder, confirm=lambda estimate: told.append(estimate))
    assert (report.status, report.estimate, asked(model), bodies(space)) == ("stopped", told[0], ["plan"], {})
    (folder / APP).write_text("# Long.\n" * 10_000 + FILES[APP], encoding="utf-8")
    assert generate(space, model).estimate.input_tokens > told[0].input_tokens + 20_000


def material(space, folder):
    read = read_repository(space, folder)
    memories = SpaceWikiMemories(space.engine)
    return WikiMaterial(space, ABOUT, "run", read, Citations(space.engine, read.place, read.tree.lines), memories, None)


def tools_over(given):
    return RepositoryTools(given.space, lambda _runtime: given.read)


@pytest.mark.parametrize(
    "path", ["../secret.txt", "src/../../secret.txt", "/etc/passwd", ".git/config", "link.py", "ignored.env", "src", ""]
)
def test_agents_read_files_of_the_repository_and_no_others(space, folder, tmp_path, path):
    (tmp_path / "secret.txt").write_text("the secret", encoding="utf-8")
    (folder / "link.py").symlink_to(tmp_path / "secret.txt")
    (folder / ".gitignore").write_text("*.env\n", encoding="utf-8")
    (folder / "ignored.env").write_text("the secret", encoding="utf-8")
    tools = tools_over(material(space, folder))
    assert "There is no text file" in tools.read_lines(path, None)
    assert "class App" in tools.read_lines(APP, None)


def test_a_file_that_a_link_has_replaced_since_is_not_read(space, folder, tmp_path):
    tools = tools_over(material(space, folder))
    (tmp_path / "other").mkdir()
    (tmp_path / "other" / "app.py").write_text("the secret", encoding="utf-8")
    (folder / "src" / "acme").rename(tmp_path / "moved")
    (folder / "src" / "acme").symlink_to(tmp_path / "other")
    assert "There is no text file" in tools.read_lines(APP, None)


def test_the_tools_list_folders_search_and_bound_what_they_answer(space, folder):
    key = "AKIA" + "Q3EGZVD5XKM2WNRP"
    (folder / "long.py").write_text(f"key = '{key}'\n" + "x = 1\n" * 1_000, encoding="utf-8")
    tools = tools_over(material(space, folder))
    assert "src/" in tools.list_folder(None)
    assert "app.py (" in tools.list_folder(None, "src/acme/")
    assert "There is no folder" in tools.list_folder(None, "..")
    read = tools.read_lines("long.py", None)
    assert f"read on from line {MOST_LINES + 1}" in read
    assert key not in read
    assert "there are none" in tools.read_lines(APP, None, 90, 95)
    assert f"{APP}#L1-L5" in tools.search_repository("Serves requests", None)
    space.embed_pending()
    assert "No result answers the question" in tools.search_repository("Which xylophone did Cleopatra play?", None)
    assert "query is empty" in tools.search_repository(" ", None)


def test_citations_that_do_not_hold_are_dropped_and_reported_and_quotes_find_their_lines(space, folder):
    page = PagePlan("app.md", "App", PageKind.MODULE, "It.", (APP,))
    body = (
        f"[holds](source:{APP}#L4-L5) [moved](source:{APP}#L1) [no lines](source:{APP}#L90-L91) "
        f"[no words](source:{APP}#L2) [no file](source:gone.py#L1) [self](page:app.md#top) [no page](page:gone.md)"
    )
    quotes = {
        (APP, 4, 5): "def handle(self): return",
        (APP, 1, 1): 'return "served"',
        (APP, 2, 2): "words that nobody wrote",
    }
    made, notes = page_with_citations(
        WikiPlan("Acme", "", (page,)), page, body, quotes, material(space, folder).citations
    )
    assert made.body == (
        f"# App\n\n[holds](source:{APP}#L4-L5) [moved](source:{APP}#L5-L5) no lines "
        "no words no file [self](page:app.md#top) no page\n"
    )
    assert [(one.first_line, one.last_line) for one in made.citations] == [(4, 5), (5, 5)]
    assert len(notes) == 4


def test_numbers_follow_moved_citations_and_other_links_are_reported(space, folder):
    page = PagePlan("modules/app.md", "App", PageKind.MODULE, "It.", (APP,))
    other = PagePlan("modules/routes.md", "Routes", PageKind.MODULE, "It.", ())
    body = (
        f"[app.py, lines 1 to 2](source:{APP}#L1-L2) [routes](routes.md) [again](modules/routes.md#top) "
        "[gone](gone.md) `[code](gone.md)` [web](https://example.org/a.md)"
    )
    quotes = {(APP, 1, 2): "def handle(self): return", (APP, 4, 5): "def handle"}
    plan = WikiPlan("Acme", "", (page, other))
    made, notes = page_with_citations(plan, page, body, quotes, material(space, folder).citations)
    assert made.body == (
        f"# App\n\n[app.py, lines 4 to 5](source:{APP}#L4-L5) [routes](page:modules/routes.md) "
        "[again](page:modules/routes.md#top) gone `[code](gone.md)` [web](https://example.org/a.md)\n"
    )
    assert notes == (
        "a link to the page 'gone.md', which is not planned",
        f"a citation of {APP}#L4-L5, which no link names",
    )


def test_a_model_that_never_fits_the_schema_is_reported_after_few_calls(space, folder):
    class Misfit(Author):
        def plan(self, answered):
            return says("", ("WikiStructure", {"content": "A wiki."}, f"s{len(answered)}"))

    model = Misfit()
    with pytest.raises(Unavailable, match="structure_agent gave no valid result in 4 attempts"):
        generate(space, model, repository=folder)
    assert len(model.seen) == 4


def test_a_plan_is_made_fit_for_a_wiki_and_what_was_changed_is_reported():
    pages = [
        PagePlan("../out.md", "Out of it", PageKind.MODULE, "It.", (APP, "gone.py")),
        PagePlan("app.md", "App", PageKind.MODULE, "It.", ()),
        PagePlan("App.md", "App again", PageKind.MODULE, "It.", ()),
        PagePlan("index.md", "Index", PageKind.OVERVIEW, "All.", ()),
    ]
    plan, notes = usable_plan(WikiPlan("Acme", "", tuple(pages)), {APP})
    assert [page.path for page in plan.pages] == ["out-of-it.md", "app.md", "index-2.md"]
    assert plan.pages[0].relevant_files == (APP,)
    assert len(notes) == 4


class TestNamesAsAHostTypesThem:
    """A workflow of a host with nodes of its own, in the names of the plan that asked for this memory."""

    @pytest.fixture
    def author(self, tmp_path, monkeypatch):
        monkeypatch.setenv("TREERING_SPACE", f"sqlite:{tmp_path / 'host.db'}")
        monkeypatch.setenv("TREERING_BACKGROUND", "0")
        return Author()

    def test_agents_without_parameters_take_the_repository_from_the_state_in_their_config(
        self, folder, author, monkeypatch
    ):
        monkeypatch.setenv("TREERING_WIKI_MODEL", "host:author")
        monkeypatch.setattr("langchain.agents.factory.init_chat_model", lambda name: author)
        state = WikiWorkflowState(
            repository_id=uuid4(), repository_url="", branch="main", repo_dir=str(folder), force_regenerate=True
        )
        repository_id = state["repository_id"]

        async def host():
            if state.get("force_regenerate", False):
                await WikiMemoryService.purge_for_repository(repository_id)
            agent = await create_structure_agent()
            planned = await agent.ainvoke({"messages": [HumanMessage("Plan the wiki.")]}, config={"state": state})
            page = await create_page_agent()
            task = HumanMessage(f"Write the page {PAGES[0]}, titled 'x'.")
            written = await page.ainvoke({"messages": [task]}, config={"state": state})
            service = WikiMemoryService(wiki_memory_repo=WikiMemoryRepository(), embedding_tool=EmbeddingTool())
            async with service:
                kept = await service.get_memories_by_files(repository_id, ["src"], branch=state["branch"])
            return planned["structured_response"], written["structured_response"], kept

        plan, page, kept = asyncio.run(host())
        assert [one.path for one in plan.pages] == PAGES
        assert "a class" in page.body
        (shown,) = [message.text for message in self.seen(author, "read_lines")]
        assert "class App:" in shown
        assert "Pages follow modules in the first edition." in {one["content"] for one in kept["memories"]}

    def seen(self, author, tool):
        messages = [one for _, shown in author.messages for one in shown]
        return {one.id: one for one in messages if isinstance(one, ToolMessage) and one.name == tool}.values()

    def test_a_run_that_names_no_folder_reads_none(self, space, author):
        agent = asyncio.run(create_page_agent(author, space=space))
        task = HumanMessage(f"Write the page {PAGES[0]}, titled 'x'.")
        state = agent.invoke({"messages": [task]}, config={"state": {"repository_id": "acme"}})
        (refused,) = [one for one in state["messages"] if getattr(one, "name", "") == "read_lines"]
        assert (refused.status, "repo_dir is missing" in refused.text) == ("error", True)

    def test_an_agent_without_a_model_says_which_setting_names_one(self, author):
        with pytest.raises(InvalidInput, match="No model is named") as refused:
            asyncio.run(create_structure_agent())
        assert "TREERING_WIKI_MODEL" in refused.value.hint

    def test_the_workflow_is_invoked_with_a_state_and_gives_structure_and_pages(self, folder, author):
        async def generate(repository_id, force_regenerate=False):
            initial_state = {
                "repository_id": repository_id,
                "force_regenerate": force_regenerate,
                "repo_dir": str(folder),
            }
            return await wiki_workflow.ainvoke(initial_state)

        result = asyncio.run(generate(uuid4(), force_regenerate=True))
        assert result["structure"].title == "acme"
        assert {page.plan.path for page in result["pages"]} == {page.path for page in result["structure"].pages}
        assert (result["report"].status, result["report"].forced) == ("complete", True)

    def test_the_data_access_searches_by_a_vector_and_the_service_takes_it_by_its_names(self, space):
        repository_id, other = uuid4(), uuid4()
        repo, tool = WikiMemoryRepository(space), EmbeddingTool(space.engine.embedder)

        async def host():
            service = WikiMemoryService(wiki_memory_repo=repo, embedding_tool=tool)
            for text, kind in (
                ("Routes follow the packages.", MemoryType.STRUCTURAL_DECISION),
                ("Handlers return early.", MemoryType.PATTERN_FOUND),
            ):
                for one in (repository_id, other):
                    told = await service.store_memory(
                        repository_id=one,
                        content=text,
                        memory_type=kind,
                        source_agent="page_agent",
                        file_paths=["src/app.py"],
                    )
                    assert told["status"] == "success"
            vector = await tool.create_embedding("Handlers return early.")
            near = await repo.vector_search(repository_id=repository_id, query_embedding=vector, limit=10)
            kind = MemoryType.STRUCTURAL_DECISION
            typed = await repo.vector_search(repository_id, vector, memory_type=kind, score_threshold=0.0)
            by_files = await repo.find_by_file_paths(repository_id, ["src/app.py"])
            deleted = await repo.delete_by_repository(repository_id)
            left = [len(await repo.find_by_file_paths(one, ["src"])) for one in (repository_id, other)]
            return near, typed, by_files, deleted, left

        near, typed, by_files, deleted, left = asyncio.run(host())
        assert near[0].content == "Handlers return early."
        assert repo.serialize(near[0])["score"] == 1.0
        assert [one.memory_type for one in typed] == ["structural_decision"]
        assert len(by_files) == 2
        assert (deleted, left) == (2, [0, 2])

    def test_a_vector_of_another_length_is_refused(self, space):
        with pytest.raises(InvalidInput, match="not a nonzero vector of"):
            asyncio.run(WikiMemoryRepository(space).vector_search("acme", [1.0, 0.0]))

    def test_a_tool_of_another_model_is_refused_and_one_of_a_host_is_used(self, space, author):
        class Tool:
            calls = 0

            async def create_embedding(self, text):
                self.calls += 1
                return [float(one) for one in HashingEmbedder().embed_query(text)]

        tool = Tool()
        with pytest.raises(InvalidInput, match="the embedding tool is a different one"):
            WikiMemoryService(space, tool)
        with pytest.raises(InvalidInput, match="no method create_embedding"):
            WikiMemoryService(WikiMemoryRepository(), object())

        async def host():
            async with WikiMemoryService(WikiMemoryRepository(), tool) as service:
                await service.store_memory("acme", "Routes follow the packages.", "structural_decision", "page_agent")
                return await service.search_memories("acme", "Routes follow the packages.")

        assert asyncio.run(host())["count"] == 1
        assert tool.calls > 0

    def test_an_error_has_the_name_of_the_class_of_its_exception(self, space):
        async def host(service):
            return await service.search_memories("acme", "")

        assert asyncio.run(host(WikiMemoryService(space)))["error_type"] == "InvalidInput"

    def test_the_guidance_is_the_one_that_the_middleware_gives(self, space):
        assert WikiMemoryMiddleware("page_agent", service=WikiMemoryService(space)).system_prompt == (
            WIKI_MEMORY_SYSTEM_PROMPT
        )
