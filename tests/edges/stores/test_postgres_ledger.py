"""The ledger on a real Postgres server keeps the contract of all ledgers."""

import pytest
from postgres_spaces import new_space, open_target

from treering.edges.stores.postgres.jobs import PostgresJobs
from treering.edges.stores.postgres.leases import PostgresLeases
from treering.edges.stores.postgres.ledger import PostgresLedger
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


class TestPostgresLedger(LedgerContract):
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
            return PostgresLedger(space, clock=clock, server_time=False), PostgresJobs(space)

        return open_jobs


class TestPostgresLeases(LeaseContract):
    @pytest.fixture
    def leases(self, spaces, clock):
        return PostgresLeases(spaces(), now=lambda _: clock.elapsed())
