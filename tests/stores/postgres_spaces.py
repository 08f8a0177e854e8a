"""Spaces on the tests' server: each test has one of its own, in one database."""

from contextlib import closing, contextmanager
from uuid import uuid4

import psycopg

from treering.extensions.postgres.connection import transactions
from treering.extensions.postgres.connection.space import PostgresSpace
from treering.extensions.postgres.connection.target import target_of
from treering.extensions.postgres.ledger.ledger import PostgresLedger
from treering.system.address import parse_address
from treering.testing.fakes import SteppingClock


def new_space():
    """Return the name of a space that nobody has."""
    return uuid4().hex


def target_in(server, space, **options):
    """Return a space of the tests' database."""
    return target_of(parse_address(server.url(space=space, **options), named=server.folder))


def open_target(server, space, **options):
    return PostgresSpace(target_in(server, space), **options)


@contextmanager
def opened(server, space, clock=None, **options):
    """Open the ledger of a space, timed by the test's clock."""
    with closing(open_target(server, space)) as opened_space:
        yield PostgresLedger(opened_space, clock=clock or SteppingClock(), server_time=False, **options)


class Sent:
    """What was sent to a server: all statements, and the round trips, each as its statements."""

    def __init__(self):
        self.trips = []

    @property
    def statements(self):
        return [statement for trip in self.trips for statement in trip]

    def clear(self):
        self.trips.clear()


@contextmanager
def sent_by(monkeypatch):
    """Note what connections send."""
    sent, execute, results = Sent(), psycopg.Connection.execute, transactions._results

    def executing(self, query, *arguments, **options):
        sent.trips.append([query])
        return execute(self, query, *arguments, **options)

    def exchanging(connection, messages):
        sent.trips.append([message.key[0].decode() for message in messages])
        return results(connection, messages)

    with monkeypatch.context() as patched:
        patched.setattr(psycopg.Connection, "execute", executing)
        patched.setattr(transactions, "_results", exchanging)
        yield sent
