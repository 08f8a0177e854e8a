from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest
from index_stage import open_space, seen

from treering.core.canonical import parse_time
from treering.ports.search import TextQuery
from treering.stores.sqlite.database import Database
from treering.stores.sqlite.index.tables import FULL_TEXT
from treering.stores.sqlite.jobs import SqliteJobs
from treering.stores.sqlite.ledger.ledger import SqliteLedger
from treering.stores.sqlite.reading import write_state
from treering.testing.builders import Builder
from treering.testing.fakes import SteppingClock
from treering.testing.index_contract.passages import as_code
from treering.testing.index_contract.stage import by_words


@pytest.fixture
def space():
    opened = open_space()
    yield opened
    opened.ledger.close()


@pytest.fixture
def path(tmp_path):
    return str(tmp_path / "space.db")


def test_what_was_withdrawn_scores_as_it_did_while_it_stood(space):
    bees = [space.make.source(f"Page {n} of the notes, on bees.", origin=f"bees{n}") for n in range(10)]
    others = [space.make.source(f"Page {n} of the notes.", origin=f"n{n}") for n in range(50)]
    space.commit(*bees, *others)
    query = TextQuery(words=("bee",))
    before = by_words(space.index, query, reach=seen(), limit=60)
    at = space.ledger.sequence()
    space.move(bees[0], "archived")
    past = by_words(space.index, query, reach=seen(at=at), limit=60)
    assert sorted(space.objects(past)) == sorted(space.objects(before))
    # One passage less is counted now, so the scores differ by that much and no more.
    assert [hit.score for hit in past] == pytest.approx([hit.score for hit in before], rel=0.15)


def test_an_unchanged_passage_keeps_its_key_when_its_source_is_read_again(space):
    source = space.make.source("Bees live in a hive.", "Ants live in a hill.")
    space.commit(source)
    key = by_words(space.index, TextQuery(words=("ant",)), reach=seen(), limit=1)[0].key
    space.reread(source, "Wasps live in a nest.", "Bees live in a hive.", "Ants live in a hill.")
    assert by_words(space.index, TextQuery(words=("ant",)), reach=seen(), limit=1)[0].key == key
    (updated_at,) = space.database.row("SELECT updated_at FROM passages WHERE key = ?", (key,))
    assert parse_time(updated_at) == space.ledger.get(source.id).updated_at


def test_filtered_search_sees_writes_of_an_ended_thread(path):
    space = open_space(path)
    filtered = seen(where={"kind": "note"})
    sources = []

    def write_and_search():
        sources.append(space.make.source("Bees live in a hive.", origin=f"bees{len(sources)}", kind="note"))
        space.commit(sources[-1])
        return space.objects(by_words(space.index, TextQuery(words=("bee",)), reach=filtered, limit=10))

    for _ in range(3):
        with ThreadPoolExecutor(1) as thread:
            assert sorted(thread.submit(write_and_search).result()) == sorted(one.id for one in sources)
    space.ledger.close()


def test_other_process_sees_writes(path):
    here, there = open_space(path), open_space(path)
    source = here.make.source("Bees live in a hive.")
    here.commit(source)
    assert there.find("bees") == [source.id]
    assert there.near("bees") == []
    here.embed()
    assert there.near("bees") == [source.id]
    here.move(source, "archived")
    assert there.near("bees") == there.find("bees") == []
    for each in (here, there):
        each.ledger.close()


def test_erased_words_are_nowhere_in_the_index_and_in_no_byte_of_the_file(path):
    space = open_space(path)
    secret = space.make.source(
        "The password is xyzzyplugh.", title="Swordfish", origin="/home/mellon", metadata={"k": "opensesame"}
    )
    other = space.make.source("Bees live in a hive.", "The weather is fine.", origin="b")
    space.commit(secret, other)
    space.embed()
    space.reread(secret, "No password.", "Another abracadabra.")
    space.embed()
    space.erase(secret)
    assert terms_of(space) & {"xyzzyplugh", "swordfish", "mellon", "abracadabra", "password"} == set()
    assert "bee" in terms_of(space)
    assert space.find("password", withdrawn=True) == space.find("password", at=2) == []
    assert space.index.passages.count(seen(withdrawn=True)) == 2
    assert space.database.row("SELECT count(*) FROM passage_vectors") == (2,)
    space.ledger.compact()
    space.ledger.close()
    stored = Path(path).read_bytes()
    for word in (b"xyzzy", b"plugh", b"wordfish", b"mellon", b"opensesame", b"abracadabra", secret.salt.encode()):
        assert word not in stored


def terms_of(space):
    """Read every term of every full-text table."""
    found = set()
    with space.database.write() as connection:
        for table in FULL_TEXT:
            connection.execute(f"CREATE VIRTUAL TABLE temp.vocabulary USING fts5vocab(main, {table}, 'row')")
            found |= {term for (term,) in connection.execute("SELECT term FROM temp.vocabulary")}
            connection.execute("DROP TABLE temp.vocabulary")
    return found


@pytest.mark.parametrize(
    "damage",
    [
        "DELETE FROM code_names WHERE key = 4",
        "UPDATE code_names SET name = name + 1 WHERE key = 4",
        "INSERT INTO code_names(name, key) VALUES(7, 4)",
        "INSERT INTO code_names(name, key) VALUES(7, 99)",
    ],
)
def test_differences_name_passages_that_are_found_by_other_names_of_code(space, damage):
    source = space.make.source("def total(): ...", "cart.total()", origin="repo:x#shop.py")
    space.commit(source)
    as_code(space, source, "shop.py", "i cart#", "c cart#total")
    assert list(space.index.upkeep.differences()) == []
    with space.database.write() as connection:
        connection.execute(damage)
    assert list(space.index.upkeep.differences())
    space.index.upkeep.rebuild()
    assert list(space.index.upkeep.differences()) == []


def test_differences_list_missing_changed_and_extra_rows(space):
    source = space.make.source("Bees live in a hive.", "Ants live in a hill.", "Moths fly.")
    space.commit(source)
    with space.database.write() as connection:
        connection.execute("DELETE FROM passages WHERE key = 1")
        connection.execute("UPDATE passages SET heading = 'Hills' WHERE key = 2")
        connection.execute("DELETE FROM passage_words WHERE rowid = 3")
    found = space.index.upkeep.differences()
    bees, ants, moths = (f"{source.id} {part.segment_id} (from 1)" for part in source.segments)
    assert f"{bees} is missing" in found
    assert f"{ants} does not match the ledger" in found
    assert f"{moths} does not match the ledger" in found
    assert "entries without a passage (from 0) should not be there" in found
    space.index.upkeep.rebuild()
    assert space.index.upkeep.differences() == []


def test_passages_of_another_version_are_rebuilt_on_opening(path):
    space = open_space(path)
    source = space.make.source("Bees live in a hive.")
    space.commit(source)
    space.embed()
    with space.database.write() as connection:
        write_state(connection, "projection_version", 0)
        connection.execute("DELETE FROM passages")
    space.ledger.close()
    again = open_space(path)
    assert again.find("bees") == again.near("bees") == [source.id]
    again.ledger.close()


def test_a_ledger_that_grew_without_an_index_is_indexed_when_it_is_opened_with_one(path):
    clock = SteppingClock()
    ledger, make = SqliteLedger(Database(path), clock=clock), Builder(clock)
    source = make.source("Bees live in a hive.")
    ledger.commit(make.patch(source))
    ledger.close()
    space = open_space(path)
    assert space.find("bees") == [source.id]
    space.ledger.close()


def test_jobs_are_remembered_across_openings_newest_first(path):
    space = open_space(path)
    jobs = SqliteJobs(space.database.read, space.database.write)
    jobs.save("job:1", {"state": "running", "done": 1, "scope": "/a"})
    jobs.save("job:2", {"state": "running", "done": 0, "scope": "/b"})
    jobs.save("job:1", {"state": "done", "done": 2, "scope": "/a"})
    space.ledger.close()
    again = open_space(path)
    jobs = SqliteJobs(again.database.read, again.database.write)
    assert jobs.find("job:1") == {"state": "done", "done": 2, "scope": "/a"}
    assert jobs.find("job:3") is None
    assert [row["state"] for row in jobs.recent(5, scope="/")] == ["running", "done"]
    assert jobs.recent(1, scope="/") == [{"state": "running", "done": 0, "scope": "/b"}]
    assert [row["state"] for row in jobs.recent(5, scope="/a/below")] == ["done"]
    again.ledger.close()
