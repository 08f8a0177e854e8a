"""A whole space on a real Postgres server, and the memory of a project and of a chat in it."""

import json
import shutil
from contextlib import closing, contextmanager

import psycopg
import pytest
from postgres_spaces import new_space

import treering
from acceptance.test_trees_of_histories import History, held, ingest, remember, standing
from postgres_server import needs_own_server
from sources.git_scratch import Scratch
from space_parts import decide, note, open_space, status
from treering.core.errors import InvalidInput, Unavailable
from treering.extensions.projects.project import ProjectMemory
from treering.extensions.sharing.merging import difference
from treering.spaces.wiring import ERASURE_KEY
from treering.surfaces.cli import run


@pytest.fixture
def address(server):
    return server.url(space=new_space())


def test_a_space_is_ingested_asked_written_to_and_checked(address):
    with open_space(address) as space:
        evidence = note(space, "The queue is kept in Redis, because jobs must survive a restart.", origin="queue.md")
        known = decide(space, "Redis for the queue", evidence)
        found = space.query("search", input={"text": "Where is the queue kept?"})
        assert known in {hit.object_id for hit in found.hits}
        pack = space.query("context", input={"task": "change where the queue is kept"}).pack
        assert known in {item.object_id for item in pack.items}
        assert space.lint("audit").verified
        assert space.lint("reindex").differences == ()
    with open_space(address) as space:
        assert status(space, known) == "active"
        assert space.query("search", input={"text": "survive a restart"}).hits


def test_other_process_finds_a_write_at_once(address):
    with open_space(address) as one, open_space(address) as other:
        for text in ("Bees hum.", "Ants dig.", "Moths fly."):
            evidence = note(one, text, origin=text)
            hits = other.query("search", input={"text": text.split()[0]}).hits
            assert [hit.object_id for hit in hits][:1] == [evidence["source_id"]]


def test_erased_text_is_found_no_more_and_leaves_nothing_in_the_index(address):
    with open_space(address, channel="user") as space:
        evidence = note(space, "Xyzzy met Plugh.", origin="secret")
        space.erase([evidence["source_id"]])
        assert space.query("search", input={"text": "Xyzzy"}).hits == ()
        assert space.engine.index.upkeep.remains([evidence["source_id"]]) == 0
        assert space.lint("reindex").differences == ()


@pytest.fixture
def erased_elsewhere(address, tmp_path, monkeypatch):
    """A text that the server with the data folder `first` erased."""
    text = {"text": "Mila Orlov was treated for scabies in room nine.", "origin": "note:mila"}
    with on_server(address, tmp_path / "first", monkeypatch) as space:
        [item] = space.ingest("source", input=text).items
        space.erase([item.source_id])
        assert space.ingest("source", input=text).counts == {"skipped": 1}
    return text


@contextmanager
def on_server(address, data, monkeypatch):
    with monkeypatch.context() as patched:
        patched.setenv("TREERING_DATA_DIR", str(data))
        with open_space(address, channel="user") as space:
            yield space


def test_server_with_another_erasure_key_reads_nothing_in(address, erased_elsewhere, tmp_path, monkeypatch):
    with on_server(address, tmp_path / "second", monkeypatch) as space:
        for call in (
            lambda: space.ingest("source", input=erased_elsewhere),
            lambda: space.ingest("source", input={"text": "Another text.", "origin": "note:other"}),
        ):
            with pytest.raises(Unavailable, match=r"another `erasure\.key`") as caught:
                call()
            assert "Copy erasure.key" in caught.value.hint
        assert not space.query("search", input={"text": "Mila"}).hits
    shutil.copy(tmp_path / "first" / ERASURE_KEY, tmp_path / "second" / ERASURE_KEY)
    with on_server(address, tmp_path / "second", monkeypatch) as space:
        assert space.ingest("source", input=erased_elsewhere).counts == {"skipped": 1}


def test_server_with_another_erasure_key_reads_what_is_wanted_again(address, erased_elsewhere, tmp_path, monkeypatch):
    with on_server(address, tmp_path / "second", monkeypatch) as space:
        report = space.ingest("source", input=erased_elsewhere, options={"again": True})
        assert report.counts == {"created": 1}
        receipt = space.erase([report.items[0].source_id])
        assert "another `erasure.key`" in receipt.out_of_reach[-1]
    with on_server(address, tmp_path / "first", monkeypatch) as space:
        assert space.ingest("source", input=erased_elsewhere).counts == {"skipped": 1}


@needs_own_server
def test_administrator_deletes_marks_of_a_lost_erasure_key(server, erased_elsewhere, address, tmp_path, monkeypatch):
    name = address.rpartition("=")[2]
    with psycopg.connect(server.url(user="postgres")) as administrator:
        administrator.execute(
            "DELETE FROM treering.jobs WHERE id = 'erased' "
            "AND space = (SELECT space FROM treering.space_names WHERE name = %s)",
            (name,),
        )
    with on_server(address, tmp_path / "second", monkeypatch) as space:
        assert space.ingest("source", input=erased_elsewhere).counts == {"created": 1}


def test_a_space_on_a_server_is_not_copied_as_a_file(address, tmp_path):
    with open_space(address) as space, pytest.raises(InvalidInput, match="is not a file") as caught:
        space.backup(tmp_path / "copy.db")
    assert "pg_dump" in caught.value.hint


def test_the_memory_of_a_project_is_in_a_space_on_a_server(address):
    @contextmanager
    def engine_of(_, *, create):
        with open_space(address, create=create, channel="user") as space:
            yield space.engine

    memory = ProjectMemory(engine_of)
    memory.index("acme", ["Logging in was slow: the session table had no index.", "The gateway bans clients."])
    (found,) = memory.retrieve("acme", ["Why was the login slow?"], 1)
    assert found["docs"] == ["Logging in was slow: the session table had no index."]
    memory.delete("acme", found["docs"], erase=True)
    slow, banned = memory.retrieve("acme", ["Why was the login slow?", "Whom does the gateway ban?"], 5)
    assert (slow["docs"], banned["docs"]) == ([], ["The gateway bans clients."])


def test_the_memory_of_a_discussion_is_in_a_space_on_a_server(address, tmp_path, monkeypatch, capsys):
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("TREERING_SPACE", address)
    monkeypatch.setenv("TREERING_BACKGROUND", "0")
    said = ["We launch the Heron lamp on 12 May 2026.", "The price of the Heron lamp is 49 euros.", "And then?"]
    messages = [{"role": "user", "name": "Ada", "content": text} for text in said]
    (tmp_path / "chat.json").write_text(json.dumps(messages))
    assert run(["discussion", "record", "lamp", "chat.json"]) == 0
    capsys.readouterr()
    assert run(["discussion", "search", "lamp", "price of the lamp"]) == 0
    assert "49 euros" in capsys.readouterr().out


# A repository with several branches: what holds in each, and what a change of one does.


@pytest.mark.sampled(1)
@pytest.mark.parametrize("seed", [3, 11, 14])
def test_at_each_branch_a_space_on_a_server_answers_as_one_in_memory_does(address, tmp_path, seed):
    history = History(tmp_path, seed)
    known = {}
    with open_space(address) as space, open_space(":memory:") as other:
        for _ in range(8):
            for one in (space, other):
                ingest(one, history.scratch.folder)
            branch = history.git("branch", "--show-current")
            assert held(space, branch) == held(other, branch)
            if new := remember(space, branch, history.chance):
                known[new[0]] = new[1:]
            history.step()
        for branch in history.branches:
            history.git("switch", "-q", branch)
            for one in (space, other):
                ingest(one, history.scratch.folder)
            assert held(space, branch) == held(other, branch)
            for identity in standing(space, branch):
                path, words = known[identity]
                assert any(words in (history.scratch.folder / one).read_text() for one in (path, *history.files()))
        assert space.lint("audit").verified
        assert space.lint("reindex").differences == ()


@pytest.fixture
def repository(address, tmp_path, monkeypatch):
    """A repository whose space lies on the server: a page on `main`, and a decision that rests on it."""
    scratch = Scratch(tmp_path / "acme")
    scratch.commit({"docs/queue.md": "# Queue\n\nThe queue keeps lavender messages for a week.\n"})
    monkeypatch.chdir(scratch.folder)
    monkeypatch.setenv("TREERING_SPACE", address)
    monkeypatch.setenv("TREERING_BACKGROUND", "0")
    with open_space(address, channel="user", actor="ada") as space:
        ingest(space, scratch.folder)
        (hit,) = [one for one in space.query("search", input={"text": "lavender"}).hits if one.title == "Queue"]
        evidence = {"source_id": hit.source_id, "segment_id": hit.segment_id}
        decide(space, "Lavender stays for a week", status="active", evidence_refs=[evidence])
    return scratch


def test_a_check_reports_what_a_change_does_to_what_a_space_on_a_server_knows(repository, capsys):
    repository.git("switch", "-q", "-c", "feature")
    repository.commit({"docs/queue.md": "# Queue\n\nThe queue keeps clover messages for a day.\n"})
    capsys.readouterr()
    assert run(["check", "--json"]) == 1
    found = json.loads(capsys.readouterr().out)["findings"]
    assert [(one["rule"], one["path"]) for one in found if one["rule"] == "stale-decision"] == [
        ("stale-decision", "docs/queue.md")
    ]


def test_what_a_branch_changed_is_reported_there_and_not_on_the_branch_that_it_left(repository, address, capsys):
    repository.git("switch", "-q", "-c", "feature")
    repository.commit({"docs/queue.md": "# Queue\n\nThe queue keeps clover messages for a day.\n"})
    with open_space(address, channel="user", actor="ada") as space:
        assert len(ingest(space, repository.folder).staled) == 1
        for at, word, missing in (("feature", "clover", "lavender"), ("main", "lavender", "clover")):
            texts = [hit.text for hit in space.query("search", "/", {"text": f"{word} messages"}, {"at": at}).hits]
            assert any(word in text for text in texts)
            assert not any(missing in text for text in texts if "keeps" in text)


# Spaces that grew apart: one in a file, one on a server.


def test_a_file_is_merged_into_a_space_on_a_server_and_the_other_way_round(address, tmp_path, monkeypatch, capsys):
    monkeypatch.setenv("TREERING_BACKGROUND", "0")
    file = f"sqlite:{tmp_path / 'ada.db'}"
    with open_space(file, channel="user", actor="ada") as space:
        note(space, "Bees hum at noon.", origin="bees")
    treering.move(file, address)
    for place, text, actor in ((file, "Ants dig deep.", "ada"), (address, "Moths fly at night.", "bob")):
        with open_space(place, channel="user", actor=actor) as space:
            evidence = note(space, text, origin=text)
            decide(space, f"As {actor} saw it", status="active", evidence_refs=[evidence])
    for place, other in ((address, file), (file, address)):
        capsys.readouterr()
        assert run(["merge", other, "--space", place, "--json"]) == 0
        assert json.loads(capsys.readouterr().out)["contested"] == []
        assert run(["merge", other, "--space", place]) == 0  # what was merged is merged again, and changes nothing
    for place in (address, file):
        with open_space(place) as space:
            for text in ("Bees", "Ants", "Moths"):
                assert space.query("search", input={"text": text}).hits
            assert space.lint("audit").verified
            assert space.lint("reindex").differences == ()
    with closing(treering.open_ledger(address)) as ours, closing(treering.open_ledger(file)) as theirs:
        assert difference(ours, theirs).differences == ()


def test_branches_that_two_people_read_are_in_the_merged_space_on_a_server(repository, address, tmp_path):
    file = f"sqlite:{tmp_path / 'bob.db'}"
    treering.move(address, file)
    repository.git("switch", "-q", "-c", "feature")
    repository.commit({"docs/bob.md": "# Bob\n\nBob keeps clover.\n"})
    with open_space(file, channel="user", actor="bob") as space:
        ingest(space, repository.folder)
    assert run(["merge", file, "--space", address]) == 0
    with open_space(address) as space:
        for at, is_there in (("feature", True), ("main", False)):
            hits = space.query("search", "/", {"text": "clover"}, {"at": at}).hits
            assert any("Bob keeps clover" in hit.text for hit in hits) == is_there
        assert space.lint("audit").verified
        assert space.lint("reindex").differences == ()


def test_of_two_spaces_that_read_a_repository_apart_each_is_on_the_branch_that_it_read(repository, address, tmp_path):
    file = f"sqlite:{tmp_path / 'bob.db'}"
    repository.git("switch", "-q", "-c", "feature")
    repository.commit({"docs/bob.md": "# Bob\n\nBob keeps clover.\n"})
    with open_space(file, channel="user", actor="bob") as space:
        ingest(space, repository.folder)
    for place, other in ((address, file), (file, address)):
        assert run(["merge", other, "--space", place]) == 0
        with open_space(place) as space:
            for at, is_there in (("feature", True), ("main", False)):
                hits = space.query("search", "/", {"text": "clover"}, {"at": at}).hits
                assert any("Bob keeps clover" in hit.text for hit in hits) == is_there
            assert space.lint("audit").verified
            assert space.lint("reindex").differences == ()
    with closing(treering.open_ledger(address)) as ours, closing(treering.open_ledger(file)) as theirs:
        assert difference(ours, theirs).differences == ()
