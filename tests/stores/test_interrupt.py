import threading

import pytest

from treering.core.errors import TimedOut
from treering.ports.runtime import check_between_steps, interruptible, uninterrupted
from treering.stores.sqlite.database import MEMORY, Database

ENDLESS = "WITH RECURSIVE n(i) AS (SELECT 1 UNION ALL SELECT i + 1 FROM n) SELECT count(*) FROM n"


class Checks:
    """Lets so many checks pass, then ends the work."""

    def __init__(self, passing):
        self.passing, self.made = passing, 0

    def __call__(self):
        self.made += 1
        if self.made > self.passing:
            raise TimedOut("Over.")


@pytest.fixture(params=["file", MEMORY])
def database(request, tmp_path):
    opened = Database(request.param if request.param == MEMORY else str(tmp_path / "a.db"))
    with opened.write() as connection:
        connection.execute("CREATE TABLE t(a)")
    yield opened
    opened.close()


def rows(database):
    return database.row("SELECT count(*) FROM t")[0]


def test_a_query_that_would_never_end_ends_and_the_connection_is_good_for_the_next_one(database):
    with interruptible(Checks(3)), pytest.raises(TimedOut):
        database.rows(ENDLESS)
    assert rows(database) == 0


def test_work_that_has_to_end_reads_nothing_more(database):
    with interruptible(Checks(0)), pytest.raises(TimedOut):
        rows(database)


def test_a_write_that_has_to_end_is_not_made(database):
    checks = Checks(1)
    with interruptible(checks), pytest.raises(TimedOut), database.write() as connection:
        connection.execute("INSERT INTO t VALUES (1)")
    assert rows(database) == 0


def test_a_long_statement_of_a_write_ends_and_nothing_of_it_stays(database):
    with interruptible(Checks(3)), pytest.raises(TimedOut), database.write() as connection:
        connection.execute(f"INSERT INTO t VALUES (1); {ENDLESS}").fetchall()
    assert rows(database) == 0


def test_what_was_committed_is_never_reported_as_ended(database):
    checks = Checks(2)  # at the beginning, and right before the commit
    with interruptible(checks):
        with database.write() as connection:
            connection.execute("INSERT INTO t VALUES (1)")
        checks.passing = 0
        assert rows(database) == 1
        with pytest.raises(TimedOut):
            check_between_steps()


def test_work_is_ended_by_its_own_check_and_not_by_that_of_another_thread(database):
    seen = []
    with interruptible(Checks(0)):
        thread = threading.Thread(target=lambda: seen.append(rows(database)))
        thread.start()
        thread.join()
        with uninterrupted():
            seen.append(rows(database))
    assert seen == [0, 0]
