"""What people are told, and what is done for them, while the index of a space of another version is made anew."""

import subprocess
import threading
import time
from functools import partial

import pytest

import treering
from treering.models.vectoriser import BackgroundVectoriser
from treering.ports.search import Lag
from treering.stores.rows.upkeep import VERSION
from treering.stores.sqlite import opening
from treering.stores.sqlite.database import Database
from treering.stores.sqlite.index.index import SqliteIndex
from treering.stores.sqlite.reading import write_state
from treering.surfaces.cli import run
from treering.testing.fakes import HashingEmbedder

_PATIENCE = 30
_TEXTS = ("Bees hum.", "Ants dig.", "Moths fly by night.")


@pytest.fixture
def address(tmp_path, monkeypatch):
    """A space of another version with three sources; any size counts as large, and a step is one object."""
    address = f"sqlite:{tmp_path / 'space.db'}"
    with opened(address) as space:
        items = [{"kind": "note", "origin": text, "title": "Animals", "text": text} for text in _TEXTS]
        space.ingest("source", input={"items": items})
        space.embed_pending()
    database = Database(str(tmp_path / "space.db"))
    with database.write() as connection:
        write_state(connection, VERSION, 1)
    database.close()
    monkeypatch.setattr(opening, "SqliteIndex", partial(SqliteIndex, most_at_once=0, step_seconds=0))
    return address


def opened(address, **options):
    given = {"background": False, "embedder": HashingEmbedder(), "channel": "user"} | options
    return treering.open(address, **given)


@pytest.fixture
def space(address):
    with opened(address, whole=False) as space:
        yield space


def search(space, text, **options):
    return space.query("search", input={"text": text}, options=options)


def test_where_nothing_runs_in_the_background_it_is_whole_when_it_is_open(address):
    with opened(address) as space:
        assert space.engine.index.vectors.lag() == Lag(0, 3)
        assert [hit.origin for hit in search(space, "moths").hits] == ["Moths fly by night."]


def test_a_search_says_how_many_objects_it_does_not_know(space):
    answer = search(space, "moths")
    assert "3 new or changed objects are not found yet" in answer.warnings[0]
    assert (answer.empty.reason, answer.empty.count) == ("not_indexed_yet", 3)
    space.engine.index.upkeep.advance()
    warnings = search(space, "bees ants moths").warnings
    assert any("2 new or changed objects are not found yet" in one for one in warnings)


def test_lint_says_it_and_finds_no_difference(space):
    audit, reindex = space.lint("audit"), space.lint("reindex")
    assert audit.verified
    assert audit.differences == reindex.differences == ()
    assert "3 new or changed objects are not found yet" in audit.warnings[0]
    assert "3 new or changed objects are not found yet" in reindex.warnings[0]
    waited = space.lint("reindex", options={"wait": True})
    assert waited.warnings == ()
    assert space.engine.index.vectors.lag() == Lag(0, 3)


def test_recorded_knowledge_says_that_duplicates_may_be_missed(space):
    fact = {"kind": "fact", "title": "Bees hum", "payload": {"subject": "bees", "predicate": "do", "value": "hum"}}
    report = space.crystallize("knowledge", input=fact)
    assert report.status == "ok"
    assert "3 new or changed objects are not found yet" in report.warnings[0]


def test_whoever_waits_for_vectors_waits_for_the_index_first(space):
    told = []
    space.embed_pending(lambda *step: told.append(step))
    assert told[:3] == [("indexing", 1, 3), ("indexing", 2, 3), ("indexing", 3, 3)]
    assert space.engine.index.vectors.lag() == Lag(0, 3)
    assert search(space, "moths").warnings == ()


def test_the_worker_behind_an_open_space_finishes_it(address):
    with opened(address, background=True) as space:
        until = time.monotonic() + _PATIENCE
        while space.engine.index.vectors.lag() != Lag(0, 3) and time.monotonic() < until:
            time.sleep(0.01)
        assert space.engine.index.vectors.lag() == Lag(0, 3)
        assert space.engine.index.upkeep.differences() == []


def test_a_worker_that_is_stopped_leaves_the_rest_to_the_next(space):
    engine = space.engine
    upkeep, stopping = engine.index.upkeep, threading.Event()

    class Stopped:
        """Upkeep that stops the worker after its first step."""

        def behind(self):
            return upkeep.behind()

        def advance(self):
            stopping.set()
            worker._stopping.set()
            return upkeep.advance()

    worker = BackgroundVectoriser(
        engine.index.vectors, engine.leases, HashingEmbedder(), engine.clock, upkeep=Stopped()
    )
    worker.start()
    assert stopping.wait(_PATIENCE)
    worker.stop()
    assert worker.last_error is None
    assert engine.index.vectors.lag().behind == 2
    space.embed_pending()
    assert engine.index.vectors.lag() == Lag(0, 3)


def test_an_erasure_of_a_source_that_waits_leaves_nothing(space):
    identity = next(iter(space.engine.ledger.events())).target
    receipt = space.erase([identity], reason="Asked for.")
    assert receipt.clean
    assert not receipt.remaining
    space.embed_pending()
    assert len(search(space, "bees ants moths").hits) == 2


def test_a_document_that_the_index_does_not_know_yet_is_erased_with_its_earlier_copies(tmp_path, address):
    text = "The cache served stale pages; versioned keys fixed it."
    memory = treering.open_projects(tmp_path / "p", channel="user", background=False, embedder=HashingEmbedder())
    with memory:
        memory.index("acme", [text])
        memory.delete("acme", [text])
        memory.index("acme", [text])
        with memory.engine("acme") as engine:
            own = engine.index.own
            with own.vectors._hold_to_write() as connection:
                write_state(connection, VERSION, 1)
                own.prepare(connection)
            assert engine.index.upkeep.behind().waiting == 2
        assert len(memory.delete("acme", [text], erase=True).erasure.ids) == 2


class TestCommands:
    def test_a_question_is_answered_and_a_process_finishes_the_index(self, address, monkeypatch, capsys):
        started = []

        def note(arguments, **options):
            started.append((arguments, options))
            return real([arguments[0], "-c", ""], **options)

        real = subprocess.Popen
        monkeypatch.setattr(subprocess, "Popen", note)
        monkeypatch.setenv("TREERING_BACKGROUND", "1")
        assert run(["query", "--mode", "search", "--space", address, "moths"]) == 0
        assert "being rebuilt" in capsys.readouterr().out
        ((arguments, _),) = started
        assert arguments[-2:] == ["vectors", "--quiet"]

    def test_a_question_waits_for_the_index_where_no_process_may_finish_it(self, address, monkeypatch, capsys):
        monkeypatch.setenv("TREERING_BACKGROUND", "0")
        assert run(["query", "--mode", "search", "--space", address, "moths"]) == 0
        assert "Moths fly by night." in capsys.readouterr().out

    @pytest.mark.parametrize("flags", [[], ["--quiet"]])
    def test_the_command_for_vectors_finishes_it(self, address, monkeypatch, flags):
        monkeypatch.setenv("TREERING_BACKGROUND", "1")
        assert run(["vectors", "--space", address, *flags]) == 0
        with opened(address, whole=False) as space:
            assert space.engine.index.vectors.lag().behind == 0
            assert space.engine.index.upkeep.differences() == []
