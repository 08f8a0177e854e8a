"""The check of the file's pages finds damage, and nothing but damage."""

import threading
import time
from concurrent.futures import ThreadPoolExecutor

import apsw
import pytest
from index_stage import open_space

from space_parts import decide, note
from treering.core.errors import Corrupt, TreeringError, Unavailable
from treering.stores.sqlite.database import Database


@pytest.fixture(params=["file", "memory"])
def address(request, tmp_path):
    return ":memory:" if request.param == "memory" else f"sqlite:{tmp_path / 'space.db'}"


def test_an_audit_after_searches_and_writes_finds_no_damage(open_space, address):
    space = open_space(address)
    for number in range(20):
        space.query("search", input={"text": "bees hum"})
        note(space, f"Bees hum, says note {number}.", origin=f"note:{number}")
        decide(space, f"Hum {number}")
        report = space.lint("audit")
        assert (report.problem, report.differences) == ("", ())


def test_an_export_after_searches_and_writes_is_made(open_space, address, tmp_path):
    space = open_space(address)
    for number in range(12):
        space.query("search", input={"text": "bees hum"})
        note(space, f"Bees hum, says note {number}.", origin=f"note:{number}")
        decide(space, f"Hum {number}")
        space.export(tmp_path / f"export-{number}")


def test_many_threads_that_search_write_and_audit_find_no_damage(open_space, tmp_path):
    space = open_space(f"sqlite:{tmp_path / 'space.db'}")

    def work(name):
        problems = []
        for number in range(6):
            space.query("search", input={"text": "bees hum"})
            note(space, f"Bees hum, says {name} in note {number}.", origin=f"{name}:{number}")
            report = space.lint("audit")
            problems += [report.problem, *report.differences]
        return problems

    with ThreadPoolExecutor(4) as pool:
        assert {problem for found in pool.map(work, "abcd") for problem in found} == {""}


def test_a_write_that_failed_leaves_no_damage_to_be_found(address):
    space = open_space(address.removeprefix("sqlite:"))
    for number in range(12):
        space.find("bees")
        fact, wrong = space.make.node(f"Bees {number}"), space.make.node("Bees")
        with pytest.raises(TreeringError):
            space.commit(fact, fact)
        space.commit(wrong)
        space.ledger.verify()
        assert space.index.upkeep.differences() == []
    space.ledger.close()


def test_damaged_full_text_is_detected(tmp_path):
    space = open_space(str(tmp_path / "space.db"))
    space.commit(space.make.source("Bees hum."))
    space.find("bees")
    other = apsw.Connection(space.database.path)
    other.execute("UPDATE passage_words_data SET block = x'00010203' WHERE id > 10")
    other.close()
    with pytest.raises(Corrupt, match="damaged"):
        space.ledger.verify()
    space.ledger.close()


LONG = "WITH RECURSIVE n(i) AS (SELECT 1 UNION ALL SELECT i + 1 FROM n WHERE i < 2000000) SELECT max(i) FROM n"


@pytest.mark.parametrize("reading", ["read", "read_fresh"])
def test_reads_end_with_unavailable_when_the_space_is_closed(tmp_path, reading):
    for attempt in range(5):
        database = Database(str(tmp_path / f"{attempt}.db"))
        begun = threading.Barrier(5)

        def use(database=database, begun=begun):
            with getattr(database, reading)() as connection:
                begun.wait(30)
                while True:
                    list(connection.execute(LONG))

        with ThreadPoolExecutor(4) as pool:
            uses = [pool.submit(use) for _ in range(4)]
            begun.wait(30)
            time.sleep(0.05)  # in the middle of the statement
            database.close()
        errors = [use.exception() for use in uses]
        assert [(type(error), "closed" in str(error)) for error in errors] == [(Unavailable, True)] * 4


def test_a_read_that_was_left_half_way_ends_with_its_space(open_space, tmp_path):
    space = open_space(f"sqlite:{tmp_path / 'space.db'}")
    for number in range(3):
        note(space, f"Bees hum, says note {number}.", origin=f"note:{number}")
    half_way = space.engine.ledger.records()
    next(half_way)
    note(space, "Written since.", origin="note:since")
    assert space.query("search", input={"text": "written since"}).hits
    space.close()
    with pytest.raises(TreeringError) as caught:
        list(half_way)
    assert caught.value.code == "unavailable"
