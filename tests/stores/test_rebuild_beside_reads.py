"""A space of another version is read and written while its index is made anew."""

import subprocess
import sys
from datetime import timedelta
from pathlib import Path

import pytest
from hypothesis import settings
from hypothesis.stateful import invariant, rule
from index_stage import Space, open_space
from test_sqlite_index_histories import Histories

from treering.ports.index import Behind
from treering.ports.search import Lag
from treering.stores.rows.upkeep import TARGET, VERSION
from treering.stores.sqlite.index.replay import SqliteReplay
from treering.stores.sqlite.index.tables import PROJECTION_VERSION
from treering.stores.sqlite.reading import read_state, write_state
from treering.testing.fakes import START, SteppingClock

_OTHER = PROJECTION_VERSION - 1
_STEPWISE = {"most_at_once": 0, "step_seconds": 0}


def age(space: Space) -> None:
    """Let the passages be those of another version."""
    with space.database.write() as connection:
        write_state(connection, VERSION, _OTHER)


def reopen(path: str, **options) -> Space:
    later = SteppingClock(start=START + timedelta(days=1))  # no id is made twice
    return open_space(path, clock=later, **(_STEPWISE | options))


def finish(space: Space) -> None:
    while space.index.upkeep.advance().waiting:
        pass


@pytest.fixture
def path(tmp_path):
    """A space of another version: three sources, the first of which has an earlier revision, all with vectors."""
    space = open_space(str(tmp_path / "space.db"))
    bees = space.make.source("Bees hum.", origin="bees")
    space.commit(bees)
    space.reread(bees, "Bees dance.")
    space.commit(space.make.source("Ants dig.", "Shared words.", origin="ants"))
    space.commit(space.make.source("Moths fly.", "Shared words.", origin="moths"))
    space.embed()
    age(space)
    space.ledger.close()
    return space.database.path


@pytest.fixture
def space(path):
    """The same, opened: nothing is made anew yet."""
    space = reopen(path)
    yield space
    space.ledger.close()


def source(space: Space, origin: str):
    identity = next(one for one in objects_of(space) if space.ledger.get(one).origin == origin)
    return space.ledger.get(identity)


def objects_of(space: Space) -> list[str]:
    return [one for (one,) in space.database.rows("SELECT DISTINCT id FROM revisions ORDER BY id")]


def vectors_of(space: Space) -> int:
    return int(space.database.row("SELECT count(*) FROM passage_vectors")[0])


def kept_for_nothing(space: Space) -> int:
    """Count the texts that no passage has, and no object that waits."""
    holders = ["passages", *(["waiting_texts"] if space.index.upkeep.behind().total else [])]
    unheld = " AND ".join(f"id NOT IN (SELECT text_id FROM {table})" for table in holders)
    return int(space.database.row(f"SELECT count(*) FROM passage_texts WHERE {unheld}")[0])


def test_a_large_space_of_another_version_is_open_before_its_index_is_made(space):
    assert space.index.vectors.lag() == Lag(0, 0, behind=3)
    assert space.find("ants") == []
    assert space.ledger.sequence() == 4


def test_small_index_is_rebuilt_on_opening(path):
    space = reopen(path, most_at_once=6)
    assert space.index.vectors.lag() == Lag(0, 5)
    assert space.index.upkeep.advance() == Behind(0, 0)
    space.ledger.close()


def test_a_space_with_few_objects_but_many_passages_is_large(path):
    space = reopen(path, most_at_once=5)
    assert space.index.vectors.lag().behind == 3
    space.ledger.close()


def test_each_step_is_found_at_once_and_the_end_equals_a_rebuild(space):
    steps = [space.index.upkeep.advance() for _ in range(3)]
    assert steps == [Behind(1, 3), Behind(2, 3), Behind(3, 3)]
    assert len(space.find("dance dig fly")) == 3
    assert space.index.vectors.lag() == Lag(0, 5)
    assert space.index.upkeep.differences() == []
    assert space.index.upkeep.advance() == Behind(0, 0)


def test_queued_objects_are_no_difference(space):
    assert space.index.upkeep.differences() == []
    space.index.upkeep.advance()
    assert space.index.upkeep.differences() == []


def test_vectors_of_texts_outlive_the_rebuild(space):
    before = vectors_of(space)
    finish(space)
    assert vectors_of(space) == before
    assert space.near("Moths fly.", limit=1) == [source(space, "moths").id]


def test_write_during_a_rebuild_is_found_at_once(space):
    new = space.make.source("Wasps sting.", origin="wasps")
    space.commit(new)
    assert space.find("wasps") == [new.id]
    assert space.index.vectors.lag().behind == 3


def test_a_change_to_an_object_that_waits_makes_all_its_passages(space):
    moths = source(space, "moths")
    space.reread(moths, "Moths like light.", "Shared words.")
    assert space.find("light") == [moths.id]
    assert space.find("fly", withdrawn=True, at=4) == [moths.id]
    assert space.index.vectors.lag().behind == 2
    finish(space)
    assert space.index.upkeep.differences() == []


def test_erasing_an_object_that_waits_leaves_none_of_its_vectors(space):
    bees = source(space, "bees")
    assert space.index.upkeep.remains([bees.id]) > 0
    space.erase(bees)
    assert space.index.upkeep.remains([bees.id]) == 0
    # Of the two texts of the bees, one was a former one; the others have three different texts.
    assert vectors_of(space) == 3
    finish(space)
    assert vectors_of(space) == 3
    assert space.index.upkeep.differences() == []


def test_a_text_that_another_object_shares_keeps_its_vector(space):
    space.index.upkeep.advance()
    made = next(one for one in ("bees", "ants", "moths") if space.index.upkeep.remains([source(space, one).id]))
    for origin in {"ants", "moths"} - {made}:
        space.erase(source(space, origin))
        break
    finish(space)
    assert space.index.vectors.lag().pending == 0
    assert space.index.upkeep.differences() == []


def test_another_opening_goes_on_where_the_first_was(path):
    first = reopen(path)
    first.index.upkeep.advance()
    first.ledger.close()
    second = reopen(path)
    assert second.index.upkeep.advance() == Behind(2, 3)
    second.ledger.close()


def test_a_process_that_is_killed_loses_at_most_one_step(path):
    here = Path(__file__).parent
    with subprocess.Popen(
        [sys.executable, str(here / "replay_process.py"), path], stdout=subprocess.PIPE, text=True
    ) as process:
        done = int(process.stdout.readline())
        process.kill()
    space = reopen(path)
    assert space.index.vectors.lag().behind <= 3 - done
    finish(space)
    assert space.index.vectors.lag() == Lag(0, 5)
    assert space.index.upkeep.differences() == []
    space.ledger.close()


def test_a_rebuild_at_once_ends_the_one_that_is_under_way(space):
    space.index.upkeep.advance()
    assert space.index.upkeep.rebuild() == 6
    assert space.index.vectors.lag() == Lag(0, 5)
    assert space.index.upkeep.advance() == Behind(0, 0)


def test_interrupted_rebuild_of_another_version_retains_vectors(path):
    space = reopen(path)
    before = vectors_of(space)
    space.index.upkeep.advance()
    with space.database.write() as connection:
        write_state(connection, TARGET, _OTHER)
    space.ledger.close()
    space = reopen(path)
    assert kept_for_nothing(space) == 0
    assert space.index.upkeep.advance() == Behind(1, 3)
    finish(space)
    assert vectors_of(space) == before
    assert space.index.upkeep.differences() == []
    space.ledger.close()


def test_an_older_treering_makes_it_whole_at_once_and_this_one_begins_again_after_it(path):
    space = reopen(path)
    space.index.upkeep.advance()
    # An older version knows nothing of what waits: it finds a version that is not its own, and leaves its own.
    with space.database.write() as connection:
        waiting = list(connection.execute("SELECT object_id FROM waiting_objects"))
        while SqliteReplay(connection, space.index._extractor).advance(seconds=1).waiting:
            pass
        connection.execute("CREATE TABLE waiting_objects(object_id TEXT PRIMARY KEY) WITHOUT ROWID")
        connection.executemany("INSERT INTO waiting_objects VALUES(?)", waiting)
        write_state(connection, VERSION, _OTHER)
    space.ledger.close()
    space = reopen(path)
    assert space.index.vectors.lag().behind == 3
    finish(space)
    assert space.index.upkeep.differences() == []
    space.ledger.close()


class BesideReads(Histories):
    """The same histories, while the index is made anew every now and then."""

    def __init__(self):
        super().__init__()
        self.space.ledger.close()
        self.space = open_space(**_STEPWISE)

    @rule()
    def open_with_another_version(self):
        with self.space.database.write() as connection:
            if read_state(connection, VERSION):
                write_state(connection, VERSION, _OTHER)
            else:
                write_state(connection, TARGET, _OTHER)
            self.space.index.prepare(connection)

    @rule()
    def go_on(self):
        self.space.index.upkeep.advance()

    @invariant()
    def a_text_is_kept_for_a_passage_or_for_an_object_that_waits(self):
        assert kept_for_nothing(self.space) == 0

    def teardown(self):
        finish(self.space)
        assert self.space.index.vectors.lag().behind == 0
        assert self.space.index.upkeep.differences() == []
        super().teardown()


TestBesideReads = BesideReads.TestCase
TestBesideReads.settings = settings(max_examples=25, stateful_step_count=20, deadline=None)
