"""Generating a wiki as a workflow: only what changed is written, a new generation replaces all or nothing."""

import asyncio
import json
import subprocess
import sys
import threading
from pathlib import Path

import pytest
from generation_parts import FILES, FileWriter, OneFile, bodies, git, kept, make_repository
from langgraph.checkpoint.memory import InMemorySaver

from space_parts import open_space
from treering import Conflict, InvalidInput, NotFound
from treering.extensions.wiki.memories.space_memories import SpaceWikiMemories
from treering.extensions.wiki.memories.wiki_memory import WikiMemoryDraft, WikiMemoryType, WikiRepository
from treering.frameworks.wiki_generation import generate as generating
from treering.wiki import WikiPage, generate_wiki

APP, ROUTES = FILES
PAGES = {"overview.md", "modules/app.md", "modules/routes.md"}
KILLED = Path(__file__).with_name("killed_generation.py")


@pytest.fixture
def space():
    with open_space(channel="user") as space:
        yield space


@pytest.fixture
def folder(tmp_path):
    return make_repository(tmp_path / "acme")


def generate(space, writer, force=False, **given):
    return asyncio.run(generate_wiki("acme", force, space=space, writer=writer, **given))


def change(folder, path=APP, text="# Changed.\n"):
    (folder / path).write_text(text + FILES[path], encoding="utf-8")


def test_a_page_that_only_the_space_keeps_is_reported_by_the_check_of_the_change_that_takes_its_lines_away(folder):
    address = f"sqlite:{folder}/.treering/treering.db"
    for read_on_branch in (False, True):
        git(folder, "checkout", "-q", "-B", "main")
        git(folder, "checkout", "-q", "-B", "feature")
        if read_on_branch:
            change(folder, ROUTES, "# Moved down.\n")
            commit(folder)
        with open_space(address, channel="user") as space:
            space.ingest("repo", input={"path": str(folder)})
            generate(space, FileWriter(), repository=folder)
        assert rotten_pages(folder) == []
        (folder / APP).write_text(FILES[APP].replace("class App", "class Server"), encoding="utf-8")
        git(folder, "rm", "-qf", ROUTES)
        commit(folder)
        told = rotten_pages(folder)
        assert [(one["title"], one["path"]) for one in told] == [("app", APP), ("routes", ROUTES)]
        assert told[0]["reason"].startswith(f"It cites {APP}:1-2, which has changed since it was cited.")
        assert told[1]["reason"].startswith(f"It cites {ROUTES}:1-2, which is deleted.")
        git(folder, "checkout", "-q", "main")


def rotten_pages(folder):
    command = [sys.executable, "-m", "treering", "check", "--json"]
    told = subprocess.run(command, cwd=folder, check=False, capture_output=True, timeout=120)
    return [one for one in json.loads(told.stdout)["findings"] if one["rule"] == "rotten-page"]


def commit(folder):
    git(folder, "-c", "user.name=Ada", "-c", "user.email=ada@example.org", "commit", "-qam", "Change")


def remember(space, text, **about):
    draft = WikiMemoryDraft(text, WikiMemoryType.PATTERN_FOUND, "page_agent", ("src",))
    SpaceWikiMemories(space.engine).store(WikiRepository.of("acme", **about), draft)


def remembered(space):
    return {one.content for one in SpaceWikiMemories(space.engine).by_files(WikiRepository.of("acme"), ["src"])}


def test_only_pages_whose_sources_changed_are_written_again_and_the_report_says_how_many_and_why(space, folder):
    first = generate(space, FileWriter(), repository=folder)
    assert (first.status, first.pages, first.kept, first.resumed) == ("complete", 3, 0, False)
    assert set(first.written) == PAGES
    assert set(first.written.values()) == {"it is new"}
    writer = FileWriter()
    assert generate(space, writer).kept == 3
    change(folder)
    second = generate(space, writer)
    assert (dict(second.written), second.kept) == ({"modules/app.md": "its sources changed"}, 2)
    (folder / ROUTES).unlink()
    third = generate(space, writer)
    assert (set(third.written), third.kept, third.removed) == ({"overview.md"}, 1, ("modules/routes.md",))
    assert writer.wrote == ["modules/app.md", "overview.md"]
    assert set(bodies(space)) == PAGES - {"modules/routes.md"}


def test_a_repository_is_known_by_its_id_once_its_folder_was_named(space, folder):
    with pytest.raises(InvalidInput, match="does not know the repository"):
        generate(space, FileWriter())
    generate(space, FileWriter(), repository=folder)
    assert generate(space, FileWriter()).kept == 3


def test_an_option_of_a_name_that_there_is_not_is_refused_before_anything_is_read(space, folder):
    with pytest.raises(TypeError, match="unexpected keyword argument 'publishr'"):
        generate(space, FileWriter(), repository=folder, publishr="wiki")
    with pytest.raises(InvalidInput, match="does not know the repository"):
        generate(space, FileWriter())


def test_a_folder_outside_of_git_has_a_wiki_too(space, tmp_path):
    place = tmp_path / "plain" / APP
    place.parent.mkdir(parents=True)
    place.write_text(FILES[APP], encoding="utf-8")
    assert generate(space, FileWriter(), repository=tmp_path / "plain").statuses == {"fresh": 2}
    [page] = [one for path, one in kept(space).pages(kept(space).current()).items() if path == "modules/app.md"]
    assert str(page.citations[0]) == f"{APP}#L1-L2"


def test_a_folder_inside_of_a_repository_is_refused_by_the_name_of_the_repository(space, folder):
    with pytest.raises(InvalidInput, match="is inside the repository"):
        generate(space, FileWriter(), repository=folder / "src")


def test_branches_have_wikis_of_their_own(space, folder):
    generate(space, FileWriter(), repository=folder)
    change(folder)
    assert generate(space, FileWriter("On a branch"), repository=folder, branch="next").written.keys() == PAGES
    assert "It says" in bodies(space)["modules/app.md"]
    assert "On a branch" in bodies(space, branch="next")["modules/app.md"]


def test_what_is_kept_of_a_wiki_is_not_found_by_searches(space, folder):
    generate(space, FileWriter("A wombat digs burrows"), repository=folder)
    generate(space, FileWriter("A wombat digs burrows"), force=True)
    found = space.query("search", input={"text": "A wombat digs burrows. Overview."}, options={"descend": True}).hits
    assert not [hit.origin for hit in found if hit.origin.startswith("record:")]
    assert not space.query("search", input={"text": "wombat burrows"}, options={"descend": True}).hits
    report = space.lint("audit")
    assert (report.problem, report.differences) == ("", ())


def test_a_new_generation_replaces_the_old_one_with_its_memories(space, folder):
    generate(space, FileWriter("Old"), repository=folder)
    remember(space, "An old memory")
    seen = []

    class Remembering(FileWriter):
        def write(self, plan, page):
            about = self.material.repository
            seen.extend(self.material.memories.by_files(about, ["src"]) if not self.wrote else [])
            remember(space, f"New of {page.path}", generation=about.generation)
            assert remembered(space) == {"An old memory"}
            return super().write(plan, page)

    report = generate(space, Remembering("New"), force=True, at_once=1)
    assert (report.forced, report.deleted_count, seen) == (True, 1, [])
    assert remembered(space) == {f"New of {path}" for path in PAGES}
    assert "New" in bodies(space)["modules/app.md"]
    assert generate(space, FileWriter()).generation == report.generation


def test_a_generation_that_fails_leaves_all_as_it_was_and_the_next_call_writes_the_rest(space, folder):
    generate(space, FileWriter("Old"), repository=folder)
    remember(space, "An old memory")
    before, failing = bodies(space), FileWriter("New", fails=["modules/routes.md"])
    with pytest.raises(RuntimeError, match=r"modules/routes\.md cannot be written"):
        generate(space, failing, force=True)
    assert (bodies(space), remembered(space)) == (before, {"An old memory"})
    after = FileWriter("New")
    report = generate(space, after, force=True)
    assert (report.resumed, report.deleted_count, after.wrote) == (True, 1, ["modules/routes.md"])
    assert all("New" in body for path, body in bodies(space).items() if path != "overview.md")


def test_a_run_that_asks_for_something_else_gives_up_the_one_that_failed_and_its_memories(space, folder):
    class Failing(FileWriter):
        def write(self, plan, page):
            given_up.append(self.material.repository)
            remember(space, "Half a generation", generation=given_up[0].generation)
            raise RuntimeError("it failed")

    given_up = []
    generate(space, FileWriter("Old"), repository=folder)
    with pytest.raises(RuntimeError, match="it failed"):
        generate(space, Failing(), force=True, at_once=1)
    memories = SpaceWikiMemories(space.engine)
    assert memories.by_files(given_up[0], ["src"])
    assert kept(space).open_run().force
    report = generate(space, FileWriter())
    assert (report.resumed, report.kept) == (False, 3)
    assert kept(space).open_run() is None
    assert not memories.by_files(given_up[0], ["src"])


@pytest.mark.parametrize(
    ("body", "problem"),
    [
        ("# Overview\n\n## Nothing\n", "it has no text"),
        ("# Overview\n\nSee [it](page:gone.md).\n", r"links to the page 'gone\.md'"),
        ("# Overview\n\nSee [it](source:src/acme/app.py#L1-L2).\n", "is not among its citations"),
        ("# Overview\n\nSee [it](source:src/acme/app.py).\n", "is not among its citations"),
    ],
)
def test_pages_that_are_not_valid_are_not_published_and_rewritten_by_the_next_call(
    space, folder, tmp_path, body, problem
):
    class Wrong(FileWriter):
        def write(self, plan, page):
            right = super().write(plan, page)
            return right if page.relevant_files else WikiPage(page, body, ())

    place = OneFile(tmp_path / "wiki.md")
    with pytest.raises(InvalidInput, match=problem):
        generate(space, Wrong(), repository=folder, publisher=place)
    assert bodies(space) == {}
    assert not place.file.exists()
    writer = FileWriter()
    assert generate(space, writer, publisher=place).resumed
    assert writer.wrote == ["overview.md"]


def test_lines_that_moved_are_cited_where_they_are_and_the_page_is_not_written_again(space, folder):
    class Citing(FileWriter):
        """Its overview cites a file that it is not made of."""

        def write(self, plan, page):
            right = super().write(plan, page)
            if page.relevant_files:
                return right
            body = f"{right.body}\nSee [`App`](source:{APP}#L1-L2).\n"
            return WikiPage(page, body, (self.material.citations.cite(APP, 1, 2),))

    generate(space, Citing(), repository=folder)
    change(folder, text="# One.\n# Two.\n")
    report = generate(space, Citing())
    assert (set(report.written), report.statuses) == ({"modules/app.md"}, {"fresh": 3})
    assert f"[`App`](source:{APP}#L3-L4)" in bodies(space)["overview.md"]
    (folder / APP).write_text("class Other:\n    pass\n", encoding="utf-8")
    assert generate(space, Citing()).written["overview.md"] == "lines it cites changed"


def test_a_wiki_that_another_run_replaced_is_not_switched_to_and_its_files_are_put_back(space, folder, tmp_path):
    class Overtaken(OneFile):
        def publish(self, plan, pages):
            told = super().publish(plan, pages)
            if not overtaken:
                overtaken.append(kept(space).begin(force=True))
            return told

    overtaken, place = [], tmp_path / "wiki.md"
    generate(space, FileWriter("Old"), repository=folder, publisher=OneFile(place))
    before = (bodies(space), place.read_text(encoding="utf-8"))
    with pytest.raises(Conflict, match="Another run of this wiki has started"):
        generate(space, FileWriter("New"), force=True, publisher=Overtaken(place))
    assert (bodies(space), place.read_text(encoding="utf-8")) == before


def test_one_process_at_a_time_generates_a_wiki(space, folder, monkeypatch):
    monkeypatch.setattr(generating, "WAIT_SECONDS", 0.0)
    name = generating.lease_name(WikiRepository.of("acme"))
    assert space.engine.leases.take(name, "somebody", seconds=60)
    with pytest.raises(Conflict, match="Another process is generating this wiki"):
        generate(space, FileWriter(), repository=folder)
    assert generate(space, FileWriter(), repository=folder, branch="next").status == "complete"


def test_pages_are_written_side_by_side_and_no_more_than_requested(space, folder):
    at_work, most = [], []
    both = threading.Barrier(2)

    class Slow(FileWriter):
        def write(self, plan, page):
            at_work.append(page.path)
            most.append(len(at_work))
            if page.relevant_files:
                both.wait(timeout=60)
            written = super().write(plan, page)
            at_work.remove(page.path)
            return written

    generate(space, Slow(), repository=folder, at_once=2)
    assert max(most) == 2


def test_any_checkpointer_of_langgraph_will_do_and_keeps_nothing_of_a_run_that_is_complete(space, folder):
    class Looking(FileWriter):
        def write(self, plan, page):
            assert saver.storage
            return super().write(plan, page)

    saver = InMemorySaver()
    assert generate(space, Looking(), repository=folder, checkpointer=saver).pages == 3
    assert not saver.storage


def test_a_folder_holds_the_published_wiki_with_links_to_the_forge(space, folder, tmp_path):
    git(folder, "remote", "add", "origin", "https://github.com/acme/acme.git")
    report = generate(space, FileWriter(), repository=folder, publisher=tmp_path / "wiki")
    assert {path for path in report.published.written if path in PAGES} == PAGES
    text = (tmp_path / "wiki" / "modules" / "app.md").read_text(encoding="utf-8")
    assert f"https://github.com/acme/acme/blob/{report.commit}/{APP}#L1-L2" in text


def test_a_wiki_that_is_in_the_repository_is_not_about_itself(space, folder):
    given = {"repository": folder, "publisher": folder / "docs" / "wiki"}
    first = generate(space, None, **given)
    assert generate(space, None, **given).pages == first.pages
    third = generate(space, None, **given)
    assert (third.pages, third.kept) == (first.pages, first.pages)
    assert "docs/wiki" not in "\n".join(bodies(space).values())


@pytest.mark.parametrize(
    ("mode", "every"),
    [
        ("update", 4),
        pytest.param("force", 1, marks=pytest.mark.nightly),
        pytest.param("update", 1, marks=pytest.mark.torture),
    ],
)
def test_a_run_that_is_killed_at_any_step_leaves_the_old_wiki_or_the_new_one_and_is_gone_on_with(tmp_path, mode, every):
    command = [sys.executable, str(KILLED), str(tmp_path), mode, str(every)]
    done = subprocess.run(command, check=False, capture_output=True, text=True, timeout=7_200)
    assert (done.returncode, done.stderr) == (0, "")
    killed, moments = done.stdout.split(" of ")
    assert int(killed) == int(moments) > 4


def test_what_is_kept_can_be_published_later_and_rules_do_not_take_its_place(space, folder, tmp_path, monkeypatch):
    generate(space, FileWriter("By an agent"), repository=folder)
    monkeypatch.chdir(folder)
    place = tmp_path / "site"
    published = space.perform("wiki publish", input={"to": str(place), "generated": "acme"})
    assert set(published.written) >= PAGES
    assert "By an agent so" in (place / "modules/app.md").read_text()
    again = space.perform("wiki publish", input={"to": str(place), "generated": "acme"})
    assert again.written == ()
    standing = space.perform("wiki status", input={"to": str(place)})
    assert {page.state for page in standing.pages} == {"fresh"}


@pytest.mark.parametrize("named", [{"generated": "other"}, {"generated": "acme", "branch": "next"}])
def test_a_wiki_that_is_not_kept_is_reported_and_nothing_is_written(space, folder, tmp_path, monkeypatch, named):
    generate(space, FileWriter(), repository=folder)
    monkeypatch.chdir(folder)
    with pytest.raises(NotFound, match="has no wiki"):
        space.perform("wiki publish", input={"to": str(tmp_path / "site"), **named})
    assert not (tmp_path / "site").exists()
