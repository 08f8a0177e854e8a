"""A whole space on a real Postgres server, and the memory of a project and of a chat in it."""

import json
from contextlib import contextmanager

import pytest
from postgres_spaces import new_space

from space_parts import decide, note, open_space, status
from treering.core.errors import InvalidInput
from treering.parts.projects.project import ProjectMemory
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


def test_what_one_process_writes_another_finds_at_once(address):
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


def test_a_space_on_a_server_is_not_copied_as_a_file(address, tmp_path):
    with open_space(address) as space, pytest.raises(InvalidInput, match="is not a file") as caught:
        space.backup(tmp_path / "copy.db")
    assert "pg_dump" in caught.value.hint


def test_the_memory_of_a_project_lies_in_a_space_on_a_server(address):
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


def test_the_memory_of_a_discussion_lies_in_a_space_on_a_server(address, tmp_path, monkeypatch, capsys):
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
