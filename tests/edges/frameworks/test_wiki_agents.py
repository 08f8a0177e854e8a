"""A wiki that agents write: they read the repository and nothing else, remember, cite what holds, and keep a budget."""

import asyncio
import re

import pytest
from generation_parts import FILES, bodies, make_repository
from langchain_core.language_models import BaseChatModel
from langchain_core.messages import ToolMessage
from langchain_core.outputs import ChatGeneration, ChatResult
from pydantic import PrivateAttr
from scripted_agents import recalls, says, stores

from space_parts import open_space
from treering import Budget
from treering.edges.frameworks.wiki_generation.agent_tools import MOST_LINES, RepositoryTools
from treering.edges.wiki_repository import WikiMaterial, read_repository
from treering.memories.wiki.agent_pages import QuotedLines, page_with_citations, usable_plan
from treering.memories.wiki.citing import Citations
from treering.memories.wiki.space_memories import SpaceWikiMemories
from treering.memories.wiki_memory import WikiRepository
from treering.wiki import PageKind, PagePlan, WikiPlan, generate_wiki

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

    @property
    def _llm_type(self):
        return "author"

    @property
    def seen(self):
        """By page, or `plan`, what was shown at each call."""
        return self._seen

    def bind_tools(self, tools, **options):
        return self

    def _generate(self, messages, stop=None, run_manager=None, **options):
        text = "\n".join(str(message.text) for message in messages)
        task = re.search(r"Write the page (\S+), titled", text)
        page = task[1] if task else "plan"
        self._seen.append((page, text))
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


def test_the_plan_is_asked_for_again_only_where_there_are_other_files(space, folder):
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
    return WikiMaterial(space, ABOUT, "run", read, Citations(space.engine, read.place, read.tree), memories, None)


@pytest.mark.parametrize(
    "path", ["../secret.txt", "src/../../secret.txt", "/etc/passwd", ".git/config", "link.py", "ignored.env", "src", ""]
)
def test_agents_read_files_of_the_repository_and_no_others(space, folder, tmp_path, path):
    (tmp_path / "secret.txt").write_text("the secret", encoding="utf-8")
    (folder / "link.py").symlink_to(tmp_path / "secret.txt")
    (folder / ".gitignore").write_text("*.env\n", encoding="utf-8")
    (folder / "ignored.env").write_text("the secret", encoding="utf-8")
    tools = RepositoryTools(material(space, folder))
    assert "There is no text file" in tools.read_lines(path)
    assert "class App" in tools.read_lines(APP)


def test_a_file_that_a_link_has_replaced_since_is_not_read(space, folder, tmp_path):
    tools = RepositoryTools(material(space, folder))
    (tmp_path / "other").mkdir()
    (tmp_path / "other" / "app.py").write_text("the secret", encoding="utf-8")
    (folder / "src" / "acme").rename(tmp_path / "moved")
    (folder / "src" / "acme").symlink_to(tmp_path / "other")
    assert "There is no text file" in tools.read_lines(APP)


def test_the_tools_list_folders_search_and_bound_what_they_answer(space, folder):
    key = "AKIA" + "Q3EGZVD5XKM2WNRP"
    (folder / "long.py").write_text(f"key = '{key}'\n" + "x = 1\n" * 1_000, encoding="utf-8")
    tools = RepositoryTools(material(space, folder))
    assert "src/" in tools.list_folder()
    assert "app.py (" in tools.list_folder("src/acme/")
    assert "There is no folder" in tools.list_folder("..")
    read = tools.read_lines("long.py")
    assert f"read on from line {MOST_LINES + 1}" in read
    assert key not in read
    assert "there are none" in tools.read_lines(APP, 90, 95)
    assert f"{APP}#L1-L5" in tools.search_repository("Serves requests")
    assert "query is empty" in tools.search_repository(" ")


def test_citations_that_do_not_hold_are_dropped_and_told_and_quotes_find_their_lines(space, folder):
    page = PagePlan("app.md", "App", PageKind.MODULE, "It.", (APP,))
    body = (
        f"[holds](source:{APP}#L4-L5) [moved](source:{APP}#L1) [no lines](source:{APP}#L90-L91) "
        f"[no words](source:{APP}#L2) [no file](source:gone.py#L1) [self](page:app.md#top) [no page](page:gone.md)"
    )
    quoted = [
        QuotedLines(APP, 4, 5, "def handle(self): return"),
        QuotedLines(APP, 1, 1, 'return "served"'),
        QuotedLines(APP, 2, 2, "words that nobody wrote"),
    ]
    made, notes = page_with_citations(
        WikiPlan("Acme", "", (page,)), page, body, quoted, material(space, folder).citations
    )
    assert made.body == (
        f"# App\n\n[holds](source:{APP}#L4-L5) [moved](source:{APP}#L5-L5) no lines "
        "no words no file [self](page:app.md#top) no page\n"
    )
    assert [(one.first_line, one.last_line) for one in made.citations] == [(4, 5), (5, 5)]
    assert len(notes) == 4


def test_a_plan_is_made_fit_for_a_wiki_and_what_was_changed_is_told():
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
