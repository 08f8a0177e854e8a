import pytest

import postgres_server

# The contract's asserts explain themselves like those of any test module.
pytest.register_assert_rewrite("treering.testing.ledger_contract")


@pytest.fixture(scope="session")
def server():
    """A Postgres server for all tests of one process."""
    try:
        started = postgres_server.new_server()
    except postgres_server.CannotStart as error:
        pytest.skip(f"no Postgres server can be started here: {error}")
    yield started
    postgres_server.remove(started)
