from collections import Counter

import apsw
import pytest
from index_stage import EMBEDDER, seen

from treering.ports.search import Lag
from treering.stores.sqlite.database import MEMORY, Database
from treering.stores.sqlite.index.index import SqliteIndex
from treering.stores.sqlite.index.vector_queue import wrong_counts
from treering.stores.sqlite.ledger.ledger import SqliteLedger
from treering.stores.sqlite.sight import passing_keys
from treering.testing.builders import Builder
from treering.testing.fakes import HashingEmbedder, SteppingClock
from treering.testing.index_contract.stage import near

_FEW, _MANY = 40, 160
_SQLITE_INTERNAL = ("REPLACE INTO 'main'", "INSERT INTO 'main'", "DELETE FROM 'main'", "PRAGMA 'main'")
"""Statements of FTS5 itself: it merges its segments from time to time."""


@pytest.fixture
def database():
    opened = Database(MEMORY)
    yield opened
    opened.close()


def _ledger(database):
    index = SqliteIndex(database, model_id="encoder", dimension=64, quick=EMBEDDER)
    clock = SteppingClock()
    return SqliteLedger(database, clock=clock, followers=[index]), index, Builder(clock)


def _traced(database):
    """Return a counter of the instructions that SQLite runs for each statement from now on."""
    steps = Counter()

    def note(event):
        steps[event["sql"]] += event["stmt_status"]["SQLITE_STMTSTATUS_VM_STEP"]

    with database.write() as connection:
        connection.trace_v2(apsw.SQLITE_TRACE_PROFILE, note)
    return steps


def _steps_of_a_note(texts):
    """Return the number of instructions that SQLite runs for each statement of a note and of the lag after it."""
    database = Database(MEMORY)
    ledger, index, make = _ledger(database)
    ledger.commit(
        make.patch(*(make.source(f"Bees number {number} hum.", origin=str(number)) for number in range(texts)))
    )
    steps = _traced(database)
    ledger.commit(make.patch(make.source("Ants dig.", origin="new")))
    assert index.vectors.lag() == Lag(texts + 1, texts + 1)
    assert index.quick.lag() == Lag(0, texts + 1)
    database.close()
    return {sql: count for sql, count in steps.items() if not sql.startswith(_SQLITE_INTERNAL)}


def test_note_runs_no_statement_that_grows_with_the_space():
    few, many = _steps_of_a_note(_FEW), _steps_of_a_note(_MANY)
    growing = {sql: (few.get(sql, 0), steps) for sql, steps in many.items() if steps > few.get(sql, 0) + _MANY - _FEW}
    assert growing == {}


def test_filter_by_type_reads_no_passages_of_sources(database):
    ledger, index, make = _ledger(database)
    ledger.commit(
        make.patch(*(make.source(f"Bees number {number} hum.", origin=str(number)) for number in range(_MANY)))
    )
    ledger.commit(make.patch(make.fact("hive", "holds", "bees")))
    steps = _traced(database)
    reach = seen(where={"type": "knowledge", "kind": "fact"})
    assert len(near(index, EMBEDDER.embed_query("hive"), reach=reach, limit=5)) <= 1
    with database.read() as connection:
        assert len(passing_keys(connection, reach, None)) == 1
    [filtered] = [count for sql, count in steps.items() if "passages_by_object" in sql]
    assert filtered < _MANY


def test_waiting_count_follows_repeated_texts(database):
    ledger, index, make = _ledger(database)
    twice = [make.source("Bees hum.", origin=str(number)) for number in range(2)]
    ledger.commit(make.patch(*twice, make.source("Ants dig.", origin="ants")))
    assert (index.vectors.lag(), index.quick.lag()) == (Lag(3, 3), Lag(0, 3))
    [bees] = [one for one in index.vectors.pending(9) if one.text == "Bees hum."]
    index.vectors.add({bees.text_hash: EMBEDDER.embed_query(bees.text)})
    assert (index.vectors.lag(), index.quick.lag()) == (Lag(1, 3), Lag(0, 1))
    ledger.commit(make.patch(make.source("Ants dig.", origin="more ants")))
    assert (index.vectors.lag(), index.quick.lag()) == (Lag(2, 4), Lag(0, 2))


def test_waiting_count_is_renewed_after_a_write_of_an_older_version(database):
    ledger, index, make = _ledger(database)
    ledger.commit(make.patch(make.source("Bees hum.")))
    with database.write() as connection:
        connection.execute("DELETE FROM vector_queue")
        connection.execute("INSERT INTO vector_log(key) VALUES(1)")
    assert index.vectors.lag() == Lag(0, 1)
    ledger.commit(make.patch(make.source("Ants dig.", origin="ants")))
    assert index.vectors.lag() == Lag(1, 2)
    with database.read() as connection:
        assert wrong_counts(connection) == 0


def test_waiting_count_of_a_new_model_includes_earlier_texts(database):
    ledger, _, make = _ledger(database)
    ledger.commit(make.patch(make.source("Bees hum.")))
    other = SqliteIndex(database, model_id="other", dimension=8, quick=HashingEmbedder(dimension=8))
    with database.write() as connection:
        other.prepare(connection)
    assert other.vectors.lag() == Lag(1, 1)
    ledger.commit(make.patch(make.source("Ants dig.", origin="ants")))
    assert other.vectors.lag() == Lag(2, 2)


def test_differences_report_a_wrong_waiting_count(database):
    ledger, index, make = _ledger(database)
    ledger.commit(make.patch(make.source("Bees hum.")))
    with database.write() as connection:
        connection.execute("UPDATE index_state SET value = 7 WHERE name GLOB 'waiting_passages:*'")
    assert index.upkeep.differences() == ["the number of passages that wait for an embedding is wrong"]
    index.upkeep.rebuild()
    assert index.upkeep.differences() == []
