"""What a person writes into a page comes back through `ingest`: as a proposal, with the page as its evidence."""

import subprocess
from dataclasses import replace

import pytest

from treering.extensions.wiki.files.addresses import file_addresses
from treering.extensions.wiki.files.folder import WikiFolder
from treering.extensions.wiki.files.manifest import MANIFEST
from treering.extensions.wiki.files.regions import END, KEEP
from treering.ports.ledger import Selection
from wiki_by_hand import small_wiki

SOURCES = Selection(types=("source",))


def git(folder, *arguments):
    subprocess.run(
        ["git", "-c", "user.name=a", "-c", "user.email=a@example.org", *arguments],
        cwd=folder,
        check=True,
        capture_output=True,
    )


def commit_all(folder):
    git(folder, "init", "-q")
    git(folder, "add", "-A")
    git(folder, "commit", "-q", "-m", "First")


@pytest.fixture
def tree(tmp_path):
    (tmp_path / "src").mkdir()
    (tmp_path / "src" / "app.py").write_text("def route():\n    return 1\n" * 5)
    (tmp_path / "README.md").write_text("# Acme\n\nA shop.\n")
    WikiFolder(tmp_path / "wiki", file_addresses("wiki")).publish(*small_wiki())
    return tmp_path


def edit(tree, before="Rules match paths.", after="Rules match hosts and paths."):
    page = tree / "wiki" / "modules" / "routing.md"
    page.write_text(page.read_text().replace(before, after))


def ingested(space, tree, mode="path", where=""):
    return space.ingest(mode, input={"path": str(tree / where)})


def outcomes(report):
    return {item.origin.rpartition("#")[2].rpartition("/wiki/")[2]: (item.outcome, item.why) for item in report.items}


def test_unchanged_pages_are_no_evidence(space, tree):
    report = ingested(space, tree)
    assert report.counts["skipped"] == 5
    assert report.counts["created"] == 2
    assert space.query("search", input={"query": "Rules match paths"}).hits == ()


def test_an_edit_is_proposed_with_the_page_as_its_evidence_and_nothing_is_written(space, tree):
    edit(tree)
    report = ingested(space, tree, where="wiki/modules/routing.md")
    assert (report.status, report.counts) == ("proposed", {"proposed": 1})
    (patch,) = space.proposals()
    source, knowledge = (operation.object for operation in patch.operations if operation.op == "create")
    assert [part.excerpt for part in source.segments] == ["Rules match hosts and paths."]
    assert (source.segments[0].locator.start, source.segments[0].locator.end) == (line_of(tree), line_of(tree))
    assert knowledge.payload.subject == "Routing > Rules"
    assert knowledge.payload.object == "Rules match hosts and paths."
    assert knowledge.evidence_refs[0].source_id == source.id
    assert space.query("search", input={"query": "hosts and paths"}).hits == ()


def line_of(tree):
    lines = (tree / "wiki/modules/routing.md").read_text().splitlines()
    return lines.index("Rules match hosts and paths.") + 1


def test_a_proposal_that_is_approved_is_known_from_then_on(open_space, tree):
    space = open_space(actor="ada", channel="user")
    edit(tree)
    ingested(space, tree)
    (patch,) = space.proposals()
    space.approve(patch.id)
    assert space.query("search", input={"query": "hosts and paths"}).hits
    assert "proposed" not in ingested(space, tree).counts
    assert space.proposals() == ()


def test_the_same_edit_is_proposed_once_and_not_again_when_it_was_turned_down(open_space, tree):
    space = open_space(actor="ada", channel="user")
    edit(tree)
    ingested(space, tree)
    assert ingested(space, tree).counts["proposed"] == 1
    (patch,) = space.proposals()
    space.reject(patch.id)
    report = ingested(space, tree)
    assert space.proposals() == ()
    assert ("skipped", "rejected by a reviewer, and unchanged since") in outcomes(report).values()
    edit(tree, "hosts and paths", "hosts alone")
    ingested(space, tree)
    assert len(space.proposals()) == 1


def test_each_page_is_a_proposal_of_its_own(space, tree):
    edit(tree)
    (tree / "wiki" / "overview.md").write_text("# Overview\n\nAll of it differs.\n")
    ingested(space, tree)
    assert len(space.proposals()) == 2


def test_a_region_is_kept_as_a_source_and_states_nothing(space, tree):
    with (tree / "wiki" / "overview.md").open("a") as file:
        file.write(f"\n{KEEP}\nAsk the warehouse team first.\n{END}\n")
    ingested(space, tree)
    (hit, *_) = space.query("search", input={"query": "warehouse team"}).hits
    assert "Ask the warehouse team first." in hit.text
    assert space.proposals() == ()


def test_passages_that_a_person_removed_state_nothing(space, tree):
    edit(tree, "Rules match paths.\n\n", "")
    report = ingested(space, tree)
    assert space.proposals() == ()
    assert any("deleted passages" in why for _, why in outcomes(report).values())


def test_a_manifest_that_cannot_be_read_hides_no_file(space, tree):
    (tree / "wiki" / MANIFEST).write_text("{")
    ingested(space, tree)
    assert space.query("search", input={"query": "Rules match paths"}).hits


@pytest.mark.parametrize("commits", [True, False])
def test_edit_belongs_to_the_part_of_its_page(open_space, tree, commits):
    space = open_space(actor="ada", channel="user")
    git(tree, "init", "-q")
    git(tree, "add", "-A")
    git(tree, "commit", "-q", "-m", "First")
    edit(tree)
    if commits:
        git(tree, "commit", "-q", "-am", "Edit")
    report = space.ingest("repo", input={"path": str(tree)}, options={"worktree": not commits})
    assert report.counts["proposed"] == 1
    (patch,) = space.proposals()
    space.approve(patch.id)
    (fact,) = [one for one in space.query("search", input={"query": "hosts and paths"}).hits if one.type == "knowledge"]
    (subject,) = space.engine.ledger.get(fact.origin).subject_refs
    assert fact.origin in [one.id for one in space.query("page", input={"id": subject}).referrers]
    again = space.ingest("repo", input={"path": str(tree)}, options={"worktree": not commits})
    assert "proposed" not in again.counts


@pytest.mark.parametrize("tracked", [True, False])
def test_an_edit_that_is_not_committed_is_proposed_when_the_commit_is_read(space, tree, tracked):
    git(tree, "init", "-q")
    git(tree, "add", *(["-A"] if tracked else ["src", "README.md"]))
    git(tree, "commit", "-q", "-m", "First")
    assert "proposed" not in space.ingest("repo", input={"path": str(tree)}).counts
    edit(tree)
    report = space.ingest("repo", input={"path": str(tree)})
    assert (report.counts["proposed"], report.counts.get("failed")) == (1, None)
    (patch,) = space.proposals()
    assert "Rules match hosts and paths." in patch.model_dump_json()
    git(tree, "add", "-A")
    git(tree, "commit", "-q", "-m", "Edit")
    space.ingest("repo", input={"path": str(tree)})
    assert len(space.proposals()) == 1


def test_pages_that_are_rewritten_and_not_committed_are_proposed_by_nobody(space, tree):
    git(tree, "init", "-q")
    git(tree, "add", "-A")
    git(tree, "commit", "-q", "-m", "First")
    plan, pages = small_wiki()
    changed = [replace(page, body=page.body.replace("Rules match", "All rules match")) for page in pages[:-1]]
    WikiFolder(tree / "wiki", file_addresses("wiki")).publish(replace(plan, pages=plan.pages[:-1]), changed)
    report = space.ingest("repo", input={"path": str(tree)})
    assert space.proposals() == ()
    assert {item.outcome for item in report.items if "#wiki/" in item.origin} == {"skipped"}
    assert report.counts.get("failed") is None


def test_the_map_of_a_repository_reveals_nothing_of_its_wiki(space, tree):
    git(tree, "init", "-q")
    for text in ("one", "two", "three"):
        (tree / "wiki" / "overview.md").write_text(text)
        git(tree, "add", "-A")
        git(tree, "commit", "-q", "-m", text)
    space.ingest("repo", input={"path": str(tree)})
    (found,) = (one for one in space.engine.ledger.select(SOURCES) if one.kind == "repo")
    assert found.payload["files"] == 2
    assert found.payload["hot_spots"] == []


def test_accepted_description_replaces_the_purpose_on_other_pages(open_space, tmp_path):
    space = open_space(actor="ada", channel="user")
    folder = tmp_path / "shop"
    (folder / "shop").mkdir(parents=True)
    (folder / "shop/till.py").write_text('"""Empty words here."""\n\n\ndef sell():\n    return 1\n')
    commit_all(folder)
    ingested(space, folder, "repo")
    where = {"repository": str(folder)}
    space.perform("wiki build", input=where)
    (page,) = (folder / "wiki/modules").glob("*till*")
    page.write_text(page.read_text().replace("\nEmpty words here.", "\nCounts the coins of a day."))
    ingested(space, folder, "repo")
    assert space.perform("wiki status", input=where).conflicts == (f"modules/{page.name}",)
    (patch,) = space.proposals()
    space.approve(patch.id)
    built = space.perform("wiki build", input=where)
    assert "index.md" in built.written
    assert "Counts the coins of a day." in (folder / "wiki/index.md").read_text()
    assert "Counts the coins of a day." in page.read_text()
    assert space.perform("wiki status", input=where).in_order
    assert ingested(space, folder, "repo").counts.get("proposed") is None
    page.write_text(page.read_text().replace("coins", "notes"))
    assert space.perform("wiki status", input=where).conflicts == (f"modules/{page.name}",)


def test_status_lists_cited_files_that_changed_since_they_were_read(space, tmp_path):
    folder = tmp_path / "shop"
    folder.mkdir()
    (folder / "till.py").write_text('"""Counts coins."""\n\n\ndef sell():\n    return 1\n')
    commit_all(folder)
    ingested(space, folder, "repo")
    where = {"repository": str(folder)}
    space.perform("wiki build", input=where)
    assert space.perform("wiki status", input=where).unread == ()
    (folder / "till.py").write_text('"""Counts notes."""\n\n\ndef sell():\n    return 2\n')
    status = space.perform("wiki status", input=where)
    assert (status.unread, status.in_order) == (("till.py",), True)
    space.ingest("repo", input={"path": str(folder)}, options={"worktree": True})
    assert space.perform("wiki status", input=where).unread == ()
