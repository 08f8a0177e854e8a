"""The ledger on a real Postgres server keeps the contract of all ledgers."""

import pytest
from ledger_rules import LedgerRules
from postgres_spaces import new_space, open_target

from treering.extensions.postgres.ledger.jobs import PostgresJobs, PostgresLeases
from treering.extensions.postgres.ledger.ledger import PostgresLedger
from treering.testing import JobsContract, LeaseContract, LedgerContract


@pytest.fixture
def spaces(server):
    """Open new spaces; close them after the test."""
    opened = []

    def open_one():
        opened.append(open_target(server, new_space()))
        return opened[-1]

    yield open_one
    for space in opened:
        space.close()


class TestPostgresLedger(LedgerContract, LedgerRules):
    @pytest.fixture
    def open_ledger(self, spaces, clock):
        def open_ledger(policy=None):
            return PostgresLedger(spaces(), clock=clock, policy=policy, server_time=False)

        return open_ledger


class TestPostgresJobs(JobsContract):
    @pytest.fixture
    def open_jobs(self, spaces, clock):
        def open_jobs():
            space = spaces()
            jobs = PostgresJobs(space.read, space.write)
            return PostgresLedger(space, clock=clock, server_time=False, followers=[jobs]), jobs

        return open_jobs


class TestPostgresLeases(LeaseContract):
    @pytest.fixture
    def leases(self, spaces, clock):
        return PostgresLeases(spaces(), now=lambda _: clock.elapsed())

    def test_who_read_the_clock_a_moment_earlier_does_not_take_a_lease_away(self, spaces) -> None:
        space = spaces()
        early, late = PostgresLeases(space, now=lambda _: 100.0), PostgresLeases(space, now=lambda _: 100.5)
        assert late.take("work", "ada", seconds=60)
        assert not early.take("work", "bob", seconds=60)
        assert early.holder("work") == "ada"

    def test_a_lease_of_before_the_clock_was_set_back_is_anybodys(self, spaces) -> None:
        space = spaces()
        before, after = PostgresLeases(space, now=lambda _: 9_000.0), PostgresLeases(space, now=lambda _: 100.0)
        assert before.take("work", "ada", seconds=60)
        assert after.holder("work") is None
        assert after.take("work", "bob", seconds=60)
