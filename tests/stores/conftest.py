import pytest
from postgres_team import Databases, Team

import postgres_server


@pytest.fixture(scope="session")
def server():
    """A Postgres server for all tests of one process."""
    try:
        started = postgres_server.new_server()
    except postgres_server.CannotStart as error:
        pytest.skip(f"no Postgres server can be started here: {error}")
    yield started
    postgres_server.remove(started)


@pytest.fixture(scope="session")
def template(server):
    return Databases(server)


@pytest.fixture
def databases(template):
    """New databases of the tests' server, with their tables."""
    before = len(template)
    yield template
    template.drop(template.made_since(before))


@pytest.fixture(scope="session")
def team(server, template):
    """A directory with two servers, `a` and `b`, which all tests of one process share."""
    return Team(server, template)


@pytest.fixture
def new_team(server, databases):
    """A directory with two servers that no other test has."""
    return Team(server, databases)
