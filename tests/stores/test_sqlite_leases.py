"""Leases in a space's file: one owner at a time, over all connections to it, until its time is over."""

import sqlite3
import threading

import pytest

import space_parts
from treering.verbs.leases import held


@pytest.fixture
def path(tmp_path):
    return str(tmp_path / "space.db")


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


def test_released_and_expired_leases_leave_no_names(open_space, path):
    space = open_space(path)
    leases = space.engine.leases
    leases.take("discussion:/users/ada", "a process that died", seconds=1e-9)
    leases.take("work", "ben", seconds=60)
    leases.take("later", "ben", seconds=60)
    leases.take("work", "ben", seconds=0)
    with sqlite3.connect(path) as database:
        assert database.execute("SELECT name FROM held_leases").fetchall() == [("later",)]
