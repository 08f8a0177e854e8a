"""A directory of servers: where a space is, and who is told what when a server is away."""

import socket
import threading
from contextlib import closing

import psycopg
import pytest
from postgres_spaces import new_space

import treering
from treering.core.errors import Conflict, Denied, InvalidInput, NotFound, Unavailable
from treering.stores.postgres.connection.directory import Directory
from treering.stores.postgres.connection.target import database_of
from treering.stores.postgres.placing import add_server
from treering.system.address import parse_address
from treering.testing.builders import Builder
from treering.testing.fakes import HashingEmbedder, SteppingClock


def test_new_spaces_go_to_the_server_with_the_fewest_and_are_found_there(new_team):
    before, spaces = sum(new_team.counts().values()), [new_space() for _ in range(4)]
    for space in spaces:
        new_team.fill(space)
    counts = new_team.counts()
    assert sum(counts.values()) == before + 4
    assert abs(counts["a"] - counts["b"]) <= 1
    for space in spaces:
        placed = new_team.directory.find(space).server
        other = {"a": "b", "b": "a"}[placed]
        with closing(treering.open_ledger(new_team.own_address(placed, space), create=False)) as ledger:
            assert ledger.sequence() == 1
        with pytest.raises(NotFound):
            treering.open_ledger(new_team.own_address(other, space), create=False)


def test_a_space_of_a_directory_is_searched_as_any_other(team):
    with treering.open(team.address(new_space()), background=False, embedder=HashingEmbedder()) as space:
        space.ingest("source", input={"text": "Bees hum at noon.", "origin": "bees.md"})
        assert space.query("search", input={"text": "bees"}).hits


def test_a_server_brings_the_spaces_that_it_has_and_makes_no_more_by_itself(new_team, server, databases):
    database, space = databases.new(), new_space()
    with closing(treering.open_ledger(server.url(database, space=space))) as ledger:
        make = Builder(SteppingClock())
        ledger.commit(make.patch(make.node("Hive")))
    assert new_team.add("c", database) == 1
    with closing(treering.open_ledger(new_team.address(space), create=False)) as ledger:
        assert ledger.sequence() == 1
    with pytest.raises(InvalidInput, match="new space that the directory"):
        treering.open_ledger(server.url(database, space=new_space()))
    assert new_team.add("c", database) == 1
    assert new_team.counts() == {"a": 0, "b": 0, "c": 1}


def test_a_server_that_has_a_space_of_another_one_is_refused(team, server, databases):
    space, database = new_space(), databases.new()
    team.fill(space)
    treering.open_ledger(server.url(database, space=space)).close()
    with pytest.raises(Conflict, match=space):
        team.add("c", database)
    assert set(team.counts()) == {"a", "b"}


def test_one_database_is_one_server(team):
    with pytest.raises(Conflict, match="'a'"):
        team.add("c", team.databases["a"])


@pytest.mark.parametrize(
    ("name", "address", "said"),
    [
        ("a:b", "postgresql://db/x", "not a valid server name"),
        ("c", "postgresql://ada:hunter2@db/x", "contains a password"),
        ("c", "postgresql://db/x?space=y", "names a space"),
        ("c", "sqlite:x.db", "not a Postgres server"),
    ],
)
def test_a_server_that_cannot_be_one_is_refused_without_its_password(team, name, address, said):
    with pytest.raises(InvalidInput, match=said) as caught:
        add_server(team.directory, name, address)
    assert "hunter2" not in f"{caught.value} {caught.value.hint}"


def test_a_space_that_is_nowhere_is_only_placed_where_it_is_to_be_made(team):
    before = team.counts()
    with pytest.raises(NotFound, match="in the directory"):
        treering.open_ledger(team.address(new_space()), create=False)
    assert team.counts() == before


def test_many_who_make_a_space_at_once_make_one(team):
    space, begin, failed, before = new_space(), threading.Barrier(6), [], sum(team.counts().values())

    def open_it():
        begin.wait(20)
        try:
            treering.open_ledger(team.address(space)).close()
        except treering.TreeringError as error:
            failed.append(error)

    threads = [threading.Thread(target=open_it) for _ in range(6)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert failed == []
    assert sum(team.counts().values()) == before + 1


def test_a_directory_without_a_server_says_how_to_add_one(server, databases):
    with pytest.raises(InvalidInput, match="no server that accepts new spaces") as caught:
        treering.open_ledger(server.url(databases.new(), space="x", directory="on"))
    assert "servers add" in caught.value.hint


def test_only_the_owner_of_the_tables_sees_where_all_spaces_are(team, server):
    first, second = new_space(), new_space()
    team.fill(first)
    team.fill(second)
    role = f"r{new_space()}"
    with psycopg.connect(server.url("postgres", "postgres"), autocommit=True) as owner:
        owner.execute(f"CREATE ROLE {role} LOGIN")
    with psycopg.connect(server.url(team.name), autocommit=True) as owner:
        owner.execute(f"GRANT USAGE ON SCHEMA treering TO {role}")
        owner.execute(f"GRANT SELECT ON ALL TABLES IN SCHEMA treering TO {role}")
    with psycopg.connect(server.url(team.name, role)) as reading:
        reading.execute("SELECT set_config('treering.space_name', %s, false)", (first,))
        assert reading.execute("SELECT name FROM treering.placements").fetchall() == [(first,)]
    theirs = Directory(database_of(parse_address(server.url(team.name, role), named=server.folder)))
    with pytest.raises(Denied, match="owner"):
        add_server(theirs, "a", server.url(team.databases["a"], "treering_owner"))


def test_a_server_that_hangs_holds_up_no_space_of_another_one(team, server):
    space = new_space()
    team.fill(space)
    with closing(socket.create_server(("127.0.0.1", 0))) as silent:
        port = silent.getsockname()[1]
        address = f"postgresql://ada@127.0.0.1:{port}/x?space=y&connect_timeout=30&sslmode=disable"

        def wait_for_it():
            with pytest.raises(Unavailable):
                treering.open_ledger(address)

        waiting = threading.Thread(target=wait_for_it)
        waiting.start()
        accepted, _ = silent.accept()
        try:
            with closing(treering.open_ledger(team.address(space, application_name=new_space()))) as ledger:
                assert ledger.sequence() == 1
            assert waiting.is_alive()
        finally:
            accepted.close()
            waiting.join()
