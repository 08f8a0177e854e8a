"""The verbs, project memory and discussion memory run on the toy store unchanged."""

import subprocess
from contextlib import contextmanager

import pytest

from toy_store.toy_engine import toy_engine
from treering.core.patch import Author
from treering.core.policy import Policy
from treering.extensions.discussions.generators.generator import DiscussionSettings
from treering.extensions.discussions.memory import DiscussionMemory
from treering.extensions.discussions.search import DiscussionSearch
from treering.extensions.projects.project import ProjectMemory
from treering.retrieval.index.passages import passages_of
from treering.surfaces.python.space import Space
from treering.verbs.ingest.turns import Message

BEES = "# Bees\n\nBees live in a hive. Ada Lovelace keeps three hives.\n"
ANTS = "# Ants\n\nAnts dig a hill. Charles Babbage met Ada Lovelace.\n"
CODE = 'def upload_file(path):\n    """Give up after five attempts at the gateway."""\n    return path\n'


def on(engine):
    """Return the verbs of an engine as methods."""
    return Space("toy:", engine, lambda: None, None)


@pytest.fixture
def space():
    return on(toy_engine())


@pytest.fixture
def folder(tmp_path):
    made = tmp_path / "notes"
    made.mkdir()
    (made / "bees.md").write_text(BEES)
    (made / "ants.md").write_text(ANTS)
    return made


@pytest.fixture
def filled(space, folder):
    space.ingest("path", input={"path": str(folder)})
    space.engine.vectoriser.finish(lambda *_: None)
    return space


def found(space, text, **options):
    return [hit.title for hit in space.query("search", input={"text": text}, options=options).hits]


def decide(space, title, **fields):
    """Crystallize a decision on the best hit of its title; return its id."""
    hit = space.query("search", input={"text": title}).hits[0]
    given = {
        "kind": "decision",
        "title": title,
        "payload": {"question": f"Why {title}?", "outcome": title},
        "evidence_refs": [{"source_id": hit.source_id, "segment_id": hit.segment_id}],
        "status": "active",
        **fields,
    }
    report = space.crystallize("knowledge", input=given)
    return next(identity for identity in report.ids if identity.startswith("know:"))


def test_a_folder_is_read_and_found_by_words_meaning_and_the_graph(filled):
    assert filled.engine.index.vectors.lag().pending == 0
    assert found(filled, "where do bees live?")[0] == "Bees"
    assert set(found(filled, "Who met Ada Lovelace?")) == {"Bees", "Ants"}
    assert found(filled, "zebra migration") == []


def test_a_folder_that_is_read_again_is_found_as_it_is_now(filled, folder):
    (folder / "bees.md").write_text("# Wasps\n\nWasps live in a nest.\n")
    (folder / "ants.md").unlink()
    report = filled.ingest("path", input={"path": str(folder)})
    assert report.status == "ok"
    assert found(filled, "wasps") == ["Wasps"]
    assert {*found(filled, "bees hive"), *found(filled, "ants hill")} <= {"Wasps"}
    assert filled.lint("reindex").differences == ()
    assert len(filled.engine.jobs.recent(9, scope="/")) == 2


def test_a_repository_is_read_with_its_symbols(space, tmp_path):
    root = tmp_path / "repo"
    root.mkdir()
    (root / "client.py").write_text(CODE)
    (root / "README.md").write_text("# Uploader\n\nUploads files to the gateway.\n")
    for command in (["init", "-q"], ["add", "."], ["-c", "user.name=a", "-c", "user.email=a@b", "commit", "-qm", "x"]):
        subprocess.run(["git", *command], cwd=root, check=True)
    assert space.ingest("repo", input={"path": str(root)}).status == "ok"
    assert "client.py" in space.query("search", input={"text": "upload_file"}).hits[0].title
    pack = space.query("context", input={"task": "how does upload_file give up?"}).pack
    assert any("client.py" in citation.place for citation in pack.citations)


def test_pages_and_what_is_related_are_shown(filled):
    decision = decide(filled, "Bees live in a hive")
    assert filled.query("page", input={"id": decision}).status == "ok"
    assert filled.query("related", input={"id": decision}).status == "ok"
    assert decision in {hit.object_id for hit in filled.query("search", input={"text": "bees live in a hive"}).hits}


def test_knowledge_goes_stale_with_its_evidence_and_the_past_is_still_found(filled, folder):
    decision = decide(filled, "Bees live in a hive")
    then = filled.engine.ledger.sequence()
    (folder / "bees.md").write_text("# Nothing\n\nNothing at all.\n")
    assert decision in filled.ingest("path", input={"path": str(folder)}).staled
    shown = {hit.object_id for hit in filled.query("search", input={"text": "bees live in a hive"}).hits}
    assert decision not in shown
    past = filled.query("search", input={"text": "bees live in a hive"}, options={"as_of": then})
    assert decision in {hit.object_id for hit in past.hits}


@pytest.mark.parametrize("mode", ["structure", "semantic", "reindex", "audit"])
def test_every_lint_finds_a_sound_space_sound(filled, mode):
    decide(filled, "Bees live in a hive")
    assert filled.lint(mode).status in {"ok", "empty", "unchanged"}


def test_an_index_is_rebuilt_from_the_ledger(filled):
    before = found(filled, "bees")
    report = filled.lint("reindex", options={"apply": True})
    assert report.status == "ok"
    assert found(filled, "bees") == before
    assert filled.engine.index.vectors.lag().pending == 0


def test_what_is_erased_is_nowhere(filled):
    source = filled.query("search", input={"text": "bees"}).hits[0].source_id
    texts = [passage.text for passage in passages_of(filled.engine.ledger.get(source))]
    receipt = filled.erase([source], reason="asked for")
    assert [probe.name for probe in receipt.probes if probe.found] == []
    assert receipt.remaining == ()
    assert "Bees" not in found(filled, texts[0])


def test_what_an_agent_proposes_is_found_once_it_is_approved(filled):
    engine = filled.engine
    engine.ledger.change_policy(Policy(direct_channels=frozenset({"user"})), by=engine.author)
    agent = on(engine.with_author(Author(actor="bot", channel="agent")))
    given = {"kind": "decision", "title": "Ants win", "payload": {"question": "Who wins?", "outcome": "Ants"}}
    assert agent.crystallize("knowledge", input=given).status == "proposed"
    assert "Ants win" not in found(filled, "ants win")
    [proposal] = filled.proposals()
    filled.approve(proposal.id)
    assert "Ants win" in found(filled, "ants win")


def test_project_memory_keeps_finds_and_takes_out_documents():
    engines = {}

    @contextmanager
    def lend(project_id, *, create):
        yield engines.setdefault(project_id, toy_engine())

    memory = ProjectMemory(lend)
    cache, deploy = "The cache served stale pages; versioned keys fixed it.", "Deploys never run on a Friday."
    report = memory.index("acme", [cache, deploy, cache], wait=True)
    assert report.counts == {"created": 2, "unchanged": 1}
    (recalled,) = memory.retrieve("acme", ["stale cache pages"])
    assert recalled["docs"][0] == cache
    assert memory.delete("acme", [cache]).counts == {"deleted": 1}
    (recalled,) = memory.retrieve("acme", ["stale cache pages"])
    assert cache not in recalled["docs"]


def test_discussion_memory_appends_searches_sums_up_and_keeps_a_state(space):
    made_of_one = DiscussionSettings(max_messages=1, lookback=0)
    discussion = DiscussionMemory(space.engine, settings=made_of_one).open("talk")
    said = ["We decided to paint the boat blue.", "Yes, and the mast stays white.", "The harbour opens in May."]
    discussion.append([Message(role=("user", "assistant")[at % 2], content=text) for at, text in enumerate(said)])
    assert discussion.update().failed == 0
    assert [kept.text for kept in discussion.messages()] == said
    assert "blue" in discussion.search("which colour has the boat?")[0].text
    assert "blue" in discussion.search("the boat", DiscussionSearch(what="turns", mode="hybrid"))[0].text
    discussion.write_summary("The boat becomes blue.")
    assert discussion.summary() == "The boat becomes blue."
    discussion.edit_state("- paint the boat")
    assert discussion.state() == "- paint the boat"
    assert space.lint("reindex").differences == ()


def test_on_a_late_index_nothing_withdrawn_is_shown_and_catching_up_finds_the_rest(folder):
    space = on(toy_engine(late=True))
    space.ingest("path", input={"path": str(folder)})
    assert found(space, "bees") == []
    assert space.engine.index.catch_up().events == 0
    assert found(space, "bees") == ["Bees"]
    (folder / "bees.md").unlink()
    space.ingest("path", input={"path": str(folder)})
    assert found(space, "bees hive") == []
    assert space.engine.index.catch_up().events == 0
    assert list(space.engine.index.upkeep.differences()) == []


def test_a_late_index_says_so_and_what_is_erased_is_erased_in_it_too(folder):
    space = on(toy_engine(late=True))
    space.ingest("path", input={"path": str(folder)})
    report = space.query("search", input={"text": "bees"})
    assert (report.hits, report.empty.reason) == ((), "not_indexed_yet")
    assert any("not found yet" in warning for warning in report.warnings)
    space.engine.index.catch_up()
    (hit,) = space.query("search", input={"text": "bees"}).hits
    receipt = space.erase([hit.source_id])
    assert receipt.clean
    assert {probe.name: probe.found for probe in receipt.probes}["index rows"] == 0
