"""A lease over work: one holder, kept alive while the work lasts, given back after it, and its loss noticed."""

import threading

import pytest

from treering.core.errors import InvalidInput, Unavailable
from treering.verbs.leases import Lease, held

LONG = 600.0
SHORT = 0.06


class Board:
    """Leases that run out when they are told to; `takes` counts what was asked of them."""

    def __init__(self):
        self.owners = {}
        self.failing = False
        self.takes = 0
        self.taken_again = threading.Event()

    def take(self, name, owner, *, seconds):
        self.takes += 1
        if self.takes > 3:
            self.taken_again.set()
        if self.failing:
            raise Unavailable("The file is locked.")
        if self.owners.get(name, owner) != owner:
            return False
        if seconds:
            self.owners[name] = owner
        else:
            self.owners.pop(name, None)
        return True

    def holder(self, name):
        return self.owners.get(name)


def test_work_is_done_under_the_lease_and_it_is_given_back_after():
    board = Board()
    with held(board, "work", "ada", LONG) as lease:
        assert board.holder("work") == "ada"
        assert lease.renew()
        assert not lease.lost
    assert board.holder("work") is None


def test_whoever_comes_second_is_told_at_once():
    board = Board()
    with held(board, "work", "ada", LONG), held(board, "work", "bob", LONG) as second:
        assert second is None
        assert board.holder("work") == "ada"


def test_another_name_is_another_lease():
    board = Board()
    with held(board, "work", "ada", LONG), held(board, "rest", "bob", LONG) as second:
        assert second is not None


def test_lease_is_released_after_failure():
    board = Board()
    with pytest.raises(RuntimeError), held(board, "work", "ada", LONG):
        raise RuntimeError
    assert board.holder("work") is None


def test_whoever_waits_gets_the_lease_when_it_is_given_back():
    board = Board()
    board.owners["work"] = "ada"
    threading.Timer(0.05, board.owners.clear).start()
    with held(board, "work", "bob", LONG, wait_seconds=10) as lease:
        assert lease is not None
    assert board.holder("work") is None


def test_lease_timeout_returns_none():
    board = Board()
    board.owners["work"] = "ada"
    with held(board, "work", "bob", LONG, wait_seconds=0.1) as lease:
        assert lease is None


def test_the_heart_renews_the_lease_while_the_work_lasts():
    board = Board()
    with held(board, "work", "ada", SHORT) as lease:
        assert board.taken_again.wait(10)
        assert not lease.lost


def test_the_heart_stops_with_the_work():
    with held(Board(), "work", "ada", LONG):
        pass
    assert not [thread for thread in threading.enumerate() if thread.name == "lease work"]


def test_lease_taken_over_is_lost():
    board = Board()
    with held(board, "work", "ada", LONG) as lease:
        board.owners["work"] = "bob"
        assert not lease.renew()
        assert lease.lost
        board.owners.clear()
        assert not lease.renew()
    assert board.holder("work") is None


def test_a_lost_lease_is_not_given_back_over_the_head_of_its_new_owner():
    board = Board()
    with held(board, "work", "ada", LONG) as lease:
        board.owners["work"] = "bob"
        lease.renew()
    assert board.holder("work") == "bob"


def test_the_heart_notices_that_the_lease_was_taken_over():
    board = Board()
    lease = Lease(board, "work", "ada", SHORT)
    board.owners["work"] = "bob"
    lease.beat()
    assert lease.lost


def test_a_store_that_fails_twice_in_a_row_loses_the_lease():
    board = Board()
    lease = Lease(board, "work", "ada", SHORT)
    board.failing = True
    lease.beat()
    assert lease.lost
    assert board.takes == 2


def test_giving_back_never_hides_how_the_work_ended():
    board = Board()
    with held(board, "work", "ada", LONG):
        board.failing = True


@pytest.mark.parametrize("seconds", [0, -1])
def test_a_lease_of_no_length_is_refused(seconds):
    with pytest.raises(InvalidInput), held(Board(), "work", "ada", seconds):
        pass
