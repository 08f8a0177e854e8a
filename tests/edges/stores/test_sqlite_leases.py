"""Leases in a space's file: one owner at a time, over all connections to it, until its time is over."""

import threading
from datetime import timedelta

import pytest

import space_parts
from treering.edges.stores.sqlite.leases import SqliteLeases
from treering.memories.leasing import held
from treering.testing.clocks import START, SteppingClock


@pytest.fixture
def path(tmp_path):
    return str(tmp_path / "space.db")


@pytest.fixture
def clock():
    return SteppingClock()


@pytest.fixture
def leases(open_space, clock):
    """Leases of a space in memory, by a clock that the test sets."""
    return SqliteLeases(open_space().engine.leases._database, clock)


def test_a_lease_has_one_owner(leases):
    assert leases.take("work", "ada", seconds=60)
    assert not leases.take("work", "bob", seconds=60)
    assert leases.holder("work") == "ada"


def test_leases_of_other_names_are_free(leases):
    assert leases.take("work", "ada", seconds=60)
    assert leases.take("rest", "bob", seconds=60)


def test_an_owner_takes_its_lease_again(leases, clock):
    leases.take("work", "ada", seconds=60)
    clock.set(START + timedelta(seconds=50))
    assert leases.take("work", "ada", seconds=60)
    clock.set(START + timedelta(seconds=100))
    assert leases.holder("work") == "ada"


def test_a_lease_that_is_not_renewed_in_time_is_anybodys(leases, clock):
    leases.take("work", "ada", seconds=60)
    clock.set(START + timedelta(seconds=61))
    assert leases.holder("work") is None
    assert leases.take("work", "bob", seconds=60)
    assert not leases.take("work", "ada", seconds=60)


def test_a_lease_is_given_back_with_no_seconds(leases):
    leases.take("work", "ada", seconds=60)
    leases.take("work", "ada", seconds=0)
    assert leases.holder("work") is None
    assert leases.take("work", "bob", seconds=60)


def test_nobody_gives_back_what_another_holds(leases):
    leases.take("work", "ada", seconds=60)
    assert not leases.take("work", "bob", seconds=0)
    assert leases.holder("work") == "ada"


def test_who_never_was_asked_for_holds_nothing(leases):
    assert leases.holder("work") is None


def test_two_connections_to_one_file_see_one_lease(open_space, path):
    one, two = open_space(path).engine.leases, open_space(path).engine.leases
    with held(one, "work", "ada", 60) as first, held(two, "work", "bob", 60) as second:
        assert first is not None
        assert second is None
        assert two.holder("work") == "ada"
    with held(two, "work", "bob", 60) as second:
        assert second is not None


def test_of_many_threads_one_gets_the_lease(open_space, path):
    spaces = [open_space(path) for _ in range(2)]
    begin = threading.Barrier(8)
    got = []

    def take(number):
        begin.wait(10)
        if spaces[number % 2].engine.leases.take("work", f"owner {number}", seconds=60):
            got.append(number)

    threads = [threading.Thread(target=take, args=(number,)) for number in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert len(got) == 1


def test_leases_are_no_part_of_what_is_exported(open_space):
    space = open_space()
    before = space_parts.records(space)
    space.engine.leases.take("work", "ada", seconds=60)
    assert space_parts.records(space) == before
