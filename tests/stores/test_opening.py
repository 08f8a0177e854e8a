from concurrent.futures import ThreadPoolExecutor
from threading import Barrier

import apsw
import pytest
from index_stage import open_space

from treering.core.errors import Unavailable
from treering.stores.sqlite.database import Database
from treering.stores.sqlite.index.index import SqliteIndex
from treering.stores.sqlite.ledger.ledger import SqliteLedger
from treering.testing.fakes import SteppingClock


@pytest.fixture
def path(tmp_path):
    """A space with one source in it."""
    space = open_space(str(tmp_path / "space.db"))
    space.commit(space.make.source("Bees hum."))
    space.ledger.close()
    return space.database.path


@pytest.fixture
def held(path):
    """The space, while somebody writes."""
    database = Database(path)
    with database.write():
        yield path
    database.close()


def opened(path, dimension=64):
    database, clock = Database(path, wait_seconds=0.05), SteppingClock()
    index = SqliteIndex(database, model_id=f"hashing/{dimension}", dimension=dimension)
    try:
        return index, SqliteLedger(database, clock=clock, followers=[index])
    except Unavailable:
        database.close()
        raise


def test_a_space_that_is_as_it_should_be_is_opened_while_another_writes(held):
    index, ledger = opened(held)
    assert ledger.sequence() == 1
    assert index.vectors.lag().pending == 1
    ledger.close()


def test_a_space_that_does_not_know_the_model_waits_for_the_writer(held):
    with pytest.raises(Unavailable):
        opened(held, dimension=32)


def test_what_knows_the_model_by_looking_only_keeps_its_vectors_too(path):
    space = open_space(path)
    space.embed()
    assert space.index.vectors.lag().pending == 0
    space.ledger.close()


@pytest.mark.parametrize(
    "missing", ["TABLE jobs", "INDEX passages_by_text", "TABLE graph_passages", "TABLE passage_days"]
)
def test_opening_creates_missing_tables(path, missing):
    connection = apsw.Connection(path)
    connection.execute(f"DROP {missing}")
    connection.close()
    _, ledger = opened(path)
    ledger.close()
    connection = apsw.Connection(path)
    (name,) = missing.split()[1:]
    assert list(connection.execute("SELECT 1 FROM sqlite_schema WHERE name = ?", (name,)))
    connection.close()


def test_many_make_one_new_file_at_once_and_none_is_refused(tmp_path):
    together = Barrier(6)

    def make(name: str) -> None:
        together.wait()
        Database(name).close()

    with ThreadPoolExecutor(6) as pool:
        for n in range(40):
            list(pool.map(make, [str(tmp_path / f"{n}.db")] * 6))
