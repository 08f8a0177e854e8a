"""What all leases must do, as tests.

A backend's own test class inherits `LeaseContract`:

class TestMyLeases(LeaseContract):
    @pytest.fixture
    def leases(self, clock):
        return MyLeases(clock=clock)
"""

import os
import threading
from datetime import timedelta

import pytest

from treering.core.errors import InvalidInput
from treering.ports.lease import LONGEST_SECONDS, Leases
from treering.testing.clocks import START, SteppingClock


class LeaseContract:
    """Inherit this in a test class and return the fixture `leases`, new ones by the test's clock."""

    @pytest.fixture
    def clock(self) -> SteppingClock:
        return SteppingClock()

    def test_a_lease_has_one_owner(self, leases: Leases) -> None:
        assert leases.take("work", "ada", seconds=60)
        assert leases.take("work", "bob", seconds=60) is False
        assert leases.holder("work") == "ada"

    def test_leases_of_other_names_are_free(self, leases: Leases) -> None:
        assert leases.take("work", "ada", seconds=60)
        assert leases.take("rest", "bob", seconds=60)

    def test_an_owner_takes_its_lease_again(self, leases: Leases, clock: SteppingClock) -> None:
        leases.take("work", "ada", seconds=60)
        clock.set(START + timedelta(seconds=50))
        assert leases.take("work", "ada", seconds=60)
        clock.set(START + timedelta(seconds=100))
        assert leases.holder("work") == "ada"

    def test_a_lease_that_is_not_renewed_in_time_is_anybodys(self, leases: Leases, clock: SteppingClock) -> None:
        leases.take("work", "ada", seconds=60)
        clock.set(START + timedelta(seconds=59.5))
        assert leases.holder("work") == "ada"
        clock.set(START + timedelta(seconds=61))
        assert leases.holder("work") is None
        assert leases.take("work", "bob", seconds=60)
        assert not leases.take("work", "ada", seconds=60)

    def test_a_lease_is_given_back_with_no_seconds(self, leases: Leases) -> None:
        leases.take("work", "ada", seconds=60)
        leases.take("work", "ada", seconds=0)
        assert leases.holder("work") is None
        assert leases.take("work", "bob", seconds=60)

    def test_nobody_gives_back_what_another_holds(self, leases: Leases) -> None:
        leases.take("work", "ada", seconds=60)
        assert not leases.take("work", "bob", seconds=0)
        assert leases.holder("work") == "ada"

    def test_nobody_holds_what_was_never_taken(self, leases: Leases) -> None:
        assert leases.holder("work") is None
        assert list(leases.held()) == []
        assert leases.clear("work") is None

    def test_what_is_held_is_listed_by_name_with_its_times(self, leases: Leases, clock: SteppingClock) -> None:
        leases.take("work", "ada", seconds=60)
        leases.take("rest", "bob", seconds=30)
        leases.take("past", "eve", seconds=10)
        clock.set(START + timedelta(seconds=20))
        rest, work = leases.held()
        assert [(one.name, one.owner, one.process) for one in (rest, work)] == [
            ("rest", "bob", os.getpid()),
            ("work", "ada", os.getpid()),
        ]
        assert [work.renewed, work.left, rest.renewed, rest.left] == pytest.approx([20, 40, 20, 10], abs=0.1)

    def test_a_lease_can_be_taken_away_and_its_owner_learns_it_when_renewing(self, leases: Leases) -> None:
        leases.take("work", "ada", seconds=60)
        taken = leases.clear("work")
        assert taken is not None
        assert (taken.name, taken.owner) == ("work", "ada")
        assert leases.take("work", "bob", seconds=60)
        assert not leases.take("work", "ada", seconds=60)

    def test_nobody_takes_one_for_longer_than_a_day(self, leases: Leases) -> None:
        with pytest.raises(InvalidInput, match="too long"):
            leases.take("work", "ada", seconds=LONGEST_SECONDS + 1)
        assert leases.holder("work") is None
        assert leases.take("work", "ada", seconds=LONGEST_SECONDS)

    def test_of_many_threads_one_gets_the_lease(self, leases: Leases) -> None:
        begin, got = threading.Barrier(8), []

        def take(number: int) -> None:
            begin.wait(10)
            if leases.take("work", f"owner {number}", seconds=60):
                got.append(number)

        threads = [threading.Thread(target=take, args=(number,)) for number in range(8)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        assert len(got) == 1
