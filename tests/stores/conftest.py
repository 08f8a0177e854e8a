import psycopg
import pytest
from postgres_spaces import new_space

import postgres_server


@pytest.fixture(scope="session")
def server():
    """A Postgres server for all tests of one process, or the database that `TREERING_TEST_POSTGRES` names."""
    if postgres_server.GIVEN:
        yield postgres_server.GivenServer()
        return
    try:
        started = postgres_server.new_server()
    except postgres_server.CannotStart as error:
        pytest.skip(f"no Postgres server can be started here: {error}")
    yield started
    postgres_server.remove(started)


@pytest.fixture
def database(server):
    """The name of an empty database of the tests' server."""
    name = f"d{new_space()}"
    with psycopg.connect(server.url("postgres", "postgres"), autocommit=True) as owner:
        owner.execute(f"CREATE DATABASE {name} OWNER treering_owner")
        yield name
        owner.execute(f"DROP DATABASE {name} WITH (FORCE)")
