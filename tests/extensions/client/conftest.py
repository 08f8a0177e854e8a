"""A blocking memory client in memory."""

import client_parts
import psycopg
import pytest

import neo4j_server
import postgres_server


@pytest.fixture
def client():
    with client_parts.blocking() as opened:
        yield opened


@pytest.fixture(params=["sqlite", "in_memory"])
def configured(request, tmp_path):
    """A configuration of each backend."""
    return client_parts.config(backend=request.param, sqlite={"path": str(tmp_path / "memory.db")})


@pytest.fixture(scope="session")
def postgres():
    try:
        server = postgres_server.new_server()
    except postgres_server.CannotStart as error:
        pytest.skip(f"no Postgres server can be started here: {error}")
    yield server
    postgres_server.remove(server)


@pytest.fixture(scope="session")
def pgvector_url(postgres):
    """The address of a database that has pgvector."""
    with psycopg.connect(postgres.url("postgres", "postgres"), autocommit=True) as admin:
        if not admin.execute("SELECT 1 FROM pg_available_extensions WHERE name = 'vector'").fetchone():
            pytest.skip("this Postgres server has no pgvector")
        admin.execute(f"CREATE DATABASE vectors OWNER {postgres_server.OWNER}")
    with psycopg.connect(postgres.url("vectors", "postgres")) as admin:
        admin.execute("CREATE EXTENSION vector")
    return postgres.url("vectors")


@pytest.fixture(scope="session")
def bolt():
    try:
        server = neo4j_server.new_server()
    except neo4j_server.CannotStart as error:
        pytest.skip(f"no server that speaks Bolt can be started here: {error}")
    yield server
    neo4j_server.remove(server)


@pytest.fixture
def own_folder(tmp_path, monkeypatch):
    """Keep what a configuration does not place in a folder of the test's own."""
    monkeypatch.setenv("TREERING_DATA_DIR", str(tmp_path / "data"))


@pytest.fixture
def open_with():
    """Open clients of one test with some keys, and others that it adds."""

    def opener(connection=None, store=None, **keys):
        def open_client(channel="agent", **more):
            given = {} if "backend" in more else {"connection": connection, "vector_store": store}
            return client_parts.asynchronous(client_parts.config(**{**keys, **more}), channel=channel, **given)

        return open_client

    return opener
