import threading
from pathlib import Path

import numpy as np
import pytest
from graph_stage import all_nodes, around, edges_of, known_graph, stated
from index_stage import open_space, seen

from treering.core.errors import Corrupt
from treering.ports.models import Entity, Extraction
from treering.ports.passages import Reach
from treering.retrieval.extraction.built_in import BuiltInExtractor
from treering.retrieval.extraction.names import entity_key
from treering.stores.sqlite.database import Database
from treering.stores.sqlite.index.graph import name_code
from treering.stores.sqlite.index.index import SqliteIndex
from treering.stores.sqlite.ledger.ledger import SqliteLedger
from treering.testing.builders import Builder
from treering.testing.fakes import SteppingClock

ADA, BABBAGE = "ada lovelace", "charles babbage"


@pytest.fixture
def space():
    opened = open_space()
    yield opened
    opened.ledger.close()


@pytest.fixture
def path(tmp_path):
    return str(tmp_path / "space.db")


@pytest.fixture
def two(path):
    """One space, opened twice as two processes would."""
    here, there = open_space(path), open_space(path)
    yield here, there
    for each in (here, there):
        each.ledger.close()


def agrees(space) -> bool:
    """Tell whether the graph says of every node what the ledger does."""
    known = known_graph(space)
    wanted = edges_of(known, [*known.names, *(2 * key for key in known.ties)])
    return edges_of(space.index.graph, all_nodes(space)) == wanted


HOSTILE = (
    "\0",
    "\0Ada\0Lovelace\0 met Charles\0Babbage.",
    "\ufeff\u202eAda\u202c \u200dLovelace\ufffe",
    "'; DROP TABLE graph_nodes; --",
    "A" * 20_000,
    "Ada " * 5_000,
    "((((" * 2_000 + "[[[[" * 2_000,
    "Ⓐⓓⓐ ﷺ ﬀ ẞ İstanbul ǅ",
    "e\u0301" * 500,
    "\u0301" * 200,
    "1,234,567.89% of 12/31/1999 – 99:99 … №5",
    "👩‍👩‍👧‍👦 met 🏴󠁧󠁢󠁥󠁮󠁧󠁿.",
    "def f(:\n  import\nclass\n\tfrom . import *",
    "- \n* \n1. \n# \n| | |\n",
    '{"a": [1, {"b": null}]',
)


@pytest.mark.parametrize("role", ["prose", "symbol", "code", "data"])
@pytest.mark.parametrize("kind", ["markdown", "conversation"])
def test_any_text_can_be_written(space, role, kind):
    source = space.make.source(*HOSTILE, title=HOSTILE[1], kind=kind)
    parts = [part.model_copy(update={"role": role, "heading": part.excerpt[:300]}) for part in source.segments]
    space.commit(source.model_copy(update={"segments": tuple(parts)}))
    assert space.index.passages.count(seen()) == len([text for text in HOSTILE if text.strip()])
    assert space.index.upkeep.differences() == []
    assert agrees(space)


class OddNames:
    """An extractor that finds half a surrogate pair in every text."""

    extractor_id = "odd-1"

    def extract(self, excerpts):
        return [Extraction((Entity("half \ud83d", "name"),)) for _ in excerpts]


def opened_with(extractor, path):
    database, clock = Database(path), SteppingClock()
    index = SqliteIndex(database, model_id="none", dimension=8, extractor=extractor)
    return index, SqliteLedger(database, clock=clock, followers=[index])


def test_graph_of_another_extractor_is_rebuilt_on_opening(path):
    space = open_space(path)
    space.commit(space.make.source("Ada Lovelace met Charles Babbage.", title=""))
    space.ledger.close()
    index, ledger = opened_with(OddNames(), path)
    assert index.graph.view(Reach("/")).named([ADA]) == {}
    [(name, node)] = index.graph.view(Reach("/")).named([entity_key("half \ud83d")]).items()
    assert index.graph.view(Reach("/")).names([node]) == {node: name}
    assert index.upkeep.differences() == []
    ledger.close()
    index, ledger = opened_with(BuiltInExtractor(), path)
    assert index.graph.view(Reach("/")).named([ADA])
    ledger.close()


def test_one_passage_more_or_less_touches_the_rows_of_no_other(space):
    texts = [f"Ada Lovelace met Person{place} in Town{place}." for place in range(30)]
    source = space.make.source(*texts, title="Meetings")
    space.commit(source)
    before = dict(space.database.rows("SELECT key, body FROM graph_passages"))
    known = dict(space.database.rows("SELECT name, id FROM graph_nodes"))
    space.reread(source, *texts[1:], "Ada Lovelace met Nobody.")
    after = dict(space.database.rows("SELECT key, body FROM graph_passages"))
    assert before.keys() - after.keys() == {1}
    assert {key: body for key, body in after.items() if key in before} == {k: before[k] for k in before if k != 1}
    still = dict(space.database.rows("SELECT name, id FROM graph_nodes"))
    assert all(still[name] == number for name, number in known.items() if name in still)
    assert space.index.graph.view(Reach("/")).named(["person0"]) == {}


def test_the_number_of_a_name_that_is_gone_is_not_given_to_another(space):
    source = space.make.source("Ada Lovelace met Charles Babbage.")
    space.commit(source)
    gone = {number for (number,) in space.database.rows("SELECT id FROM graph_nodes")}
    space.erase(source)
    space.commit(space.make.source("Grace Hopper met Howard Aiken."))
    assert gone.isdisjoint(number for (number,) in space.database.rows("SELECT id FROM graph_nodes"))


def test_names_with_equal_codes_are_distinguished(space):
    one, other = "kibimodi", "gudelabi"
    assert name_code(f"e{one}".encode()) == name_code(f"e{other}".encode())
    source = space.make.source(f"Ada Lovelace met {one.title()}.")
    space.commit(source)
    view = space.index.graph.view(Reach("/"))
    assert view.named([one, other]).keys() == {one}
    space.commit(space.make.source(f"Ada Lovelace met {other.title()}.", origin="another"))
    view = space.index.graph.view(Reach("/"))
    assert len(set(view.named([one, other]).values())) == 2
    assert agrees(space)
    space.erase(source)
    assert space.index.graph.view(Reach("/")).named([one, other]).keys() == {other}
    assert space.index.upkeep.differences() == []


def test_erasing_leaves_no_name_in_the_file_and_nothing_in_memory(path):
    space = open_space(path)
    secret = space.make.source("Xyzzy Plugh met Ada Lovelace in Abracadabra.", title="Opensesame", origin="1")
    other = space.make.source("Ada Lovelace met Charles Babbage.", origin="2")
    work = space.make.work("Look it up", source_refs=[secret.id])
    space.commit(secret, other, work)
    assert space.index.upkeep.remains([secret.id, other.id]) == 4
    assert around(space, "xyzzy plugh")
    space.erase(secret)
    assert space.index.upkeep.remains([secret.id]) == 0
    assert space.index.graph.view(Reach("/")).named(["xyzzy plugh", "abracadabra", "opensesame"]) == {}
    assert {target for target, tie in around(space, ADA) if tie == "MENTION"} == {4}
    assert stated(space.index.graph, [1]) == []
    assert agrees(space)
    space.ledger.compact()
    space.ledger.close()
    stored = Path(path).read_bytes().lower()
    for word in (b"xyzzy", b"plugh", b"abracadabra", b"opensesame"):
        assert word not in stored


def test_a_record_that_outlives_its_object_remains(space):
    source = space.make.source("Ada Lovelace met Charles Babbage.")
    space.commit(source)
    with space.database.write() as connection:
        connection.execute("DELETE FROM passages")
    assert space.index.upkeep.remains([source.id]) == 1
    assert edges_of(space.index.graph, all_nodes(space)) == []


def test_next_read_sees_writes_of_other_processes(two):
    here, there = two
    source = here.make.source("Ada Lovelace met Charles Babbage.")
    here.commit(source)
    assert agrees(there)
    here.reread(source, "Ada Lovelace met nobody.")
    assert agrees(there)
    assert around(there, BABBAGE) == []
    here.erase(source)
    assert edges_of(there.index.graph, range(30)) == []


def test_a_reader_that_fell_far_behind_catches_up(two, monkeypatch):
    monkeypatch.setattr("treering.stores.sqlite.index.vector_queue.MAX_LOG_ENTRIES", 2)
    here, there = two
    first = here.make.source("Ada Lovelace met Charles Babbage.")
    here.commit(first)
    assert agrees(there)
    for place in range(6):
        here.commit(here.make.source(f"Ada Lovelace met Person{place}.", origin=str(place)))
    here.move(first, "archived")
    assert agrees(there)


def test_a_rebuild_by_another_process_does_not_confuse_the_table_in_memory(two):
    here, there = two
    gone, stays = here.make.source("Grace Hopper met Howard Aiken."), here.make.source("Ada Lovelace.", origin="2")
    here.commit(gone, stays)
    assert agrees(there)
    here.erase(gone)
    here.index.upkeep.rebuild()
    assert agrees(there)


def test_a_snapshot_older_than_the_table_does_not_turn_it_back(two):
    here, there = two
    source = here.make.source("Ada Lovelace met Charles Babbage.")
    here.commit(source)
    with there.database.read():
        assert agrees(there)
        here.commit(here.make.source("Ada Lovelace met Grace Hopper.", origin="2"))
        ahead = threading.Thread(target=lambda: around(there, ADA))
        ahead.start()
        ahead.join()
        assert around(there, ADA)
    assert agrees(there)


def test_many_threads_ask_while_one_writes(path):
    space = open_space(path)
    source = space.make.source("Ada Lovelace met Charles Babbage.", title="")
    space.commit(source)
    done, wrong = threading.Event(), []

    def ask():
        while not done.is_set():
            nodes = space.index.graph.view(Reach("/")).named([ADA])
            found = space.index.graph.view(seen()).edges(np.array(list(nodes.values()), np.int64))
            if nodes and not len(found.source):
                wrong.append("an entity without edges")

    threads = [threading.Thread(target=ask) for _ in range(3)]
    for thread in threads:
        thread.start()
    for place in range(15):
        space.commit(space.make.source(f"Ada Lovelace met Person{place}.", origin=str(place), title=""))
    done.set()
    for thread in threads:
        thread.join()
    assert wrong == []
    assert agrees(space)
    space.ledger.close()


@pytest.mark.parametrize(
    "damage",
    [
        "UPDATE graph_passages SET body = substr(body, 1, length(body) - 4) WHERE key = 1",
        "UPDATE graph_passages SET body = X'00' WHERE key = 1",
        "DELETE FROM graph_passages WHERE key = 1",
        "UPDATE graph_passages SET body = (SELECT body FROM graph_passages WHERE key = 2) WHERE key = 1",
        "INSERT INTO graph_passages SELECT 99, body FROM graph_passages WHERE key = 1",
        "UPDATE graph_nodes SET name = X'65ff' WHERE id = 1",
        "UPDATE graph_nodes SET passages = passages + 1 WHERE id = 2",
        "DELETE FROM graph_nodes WHERE id = 3",
        "INSERT INTO graph_nodes(name, code, passages) VALUES(X'6578', 7, 0)",
    ],
)
def test_damage_is_found_and_repaired_by_a_rebuild(space, damage):
    space.commit(space.make.source("Ada Lovelace met Charles Babbage.", "Grace Hopper met Ada Lovelace."))
    assert space.index.upkeep.differences() == []
    with space.database.write() as connection:
        connection.execute(damage)
    assert space.index.upkeep.differences()
    space.index.upkeep.rebuild()
    assert space.index.upkeep.differences() == []
    assert agrees(space)


def test_damaged_record_is_corrupt_when_read(path):
    space = open_space(path)
    space.commit(space.make.source("Ada Lovelace met Charles Babbage."))
    with space.database.write() as connection:
        connection.execute("UPDATE graph_passages SET body = X'000102'")
    with pytest.raises(Corrupt) as error:
        edges_of(space.index.graph, [2])
    assert "reindex" in error.value.hint
    space.index.upkeep.rebuild()
    assert agrees(space)
    space.ledger.close()


class Moody:
    """An extractor that fails at some texts, as none should."""

    extractor_id = "moody-1"

    def extract(self, excerpts):
        if any("Hopper" in excerpt.text for excerpt in excerpts):
            raise RuntimeError("not that one")
        return BuiltInExtractor().extract(excerpts)


def test_a_write_that_fails_leaves_everything_as_it_was(path):
    index, ledger = opened_with(Moody(), path)
    make = Builder(SteppingClock())
    ledger.commit(make.patch(make.source("Ada Lovelace met Charles Babbage.")))
    before = edges_of(index.graph, range(30))
    with pytest.raises(RuntimeError, match="not that one"):
        ledger.commit(make.patch(make.source("Ada met Grace.", origin="2"), make.source("Grace Hopper.", origin="3")))
    assert edges_of(index.graph, range(30)) == before != []
    assert ledger.sequence() == 1
    assert index.upkeep.differences() == []
    ledger.close()
