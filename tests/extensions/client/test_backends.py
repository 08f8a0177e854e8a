"""Every backend by name passes one suite, against the real server; what a backend is given is used and left open."""

import shutil
from functools import partial
from uuid import uuid4

import client_parts
import psycopg
import pymongo
import pytest
import redis
import redis.asyncio
from host_stores import Document, KeywordStore
from psycopg.rows import dict_row
from psycopg_pool import ConnectionPool

import mongo_server
import redis_server
import treering
from treering.client import BlockingMemoryClient, MemorySystemClient, VectorStoreAdapter
from treering.testing import MemoryClientContract, MemoryEngineContract

pytestmark = pytest.mark.usefixtures("own_folder")


@pytest.fixture(scope="session", params=[False, True], ids=["hashes", "vector sets"])
def redis_url(request):
    try:
        server = redis_server.new_server(vector_sets=request.param)
    except redis_server.CannotStart as error:
        pytest.skip(f"no such Redis server can be started here: {error}")
    yield server.url
    redis_server.remove(server)


@pytest.fixture(scope="session")
def mongo_url():
    with mongo_server.running() as server:
        yield server.url


class TestSqlite(MemoryClientContract):
    @pytest.fixture
    def open_client(self, open_with):
        return open_with(backend="sqlite")


class TestInMemory(MemoryClientContract):
    lasting = False

    @pytest.fixture
    def open_client(self, open_with):
        return open_with(backend="in_memory")


class TestFaiss(MemoryEngineContract):
    engine = "FAISS flat"

    @pytest.fixture
    def open_client(self, open_with):
        return open_with(backend="faiss", sqlite={"path": "memory"})

    @pytest.fixture
    def lose_engine(self, tmp_path):
        return lambda: shutil.rmtree(tmp_path / "data" / "memory.db.faiss")


class TestPostgres(MemoryClientContract):
    @pytest.fixture
    def open_client(self, open_with, postgres):
        return open_with(backend="postgres", postgres={"url": postgres.url(), "space": uuid4().hex})


@pytest.mark.nightly
class TestPostgresWithAnEngine(MemoryClientContract):
    """A ledger on a server, and an engine beside it in files."""

    engine = "FAISS flat"

    @pytest.fixture
    def open_client(self, open_with, postgres, tmp_path):
        ledger = {"url": postgres.url(), "space": uuid4().hex}
        folder = {"path": str(tmp_path / "vectors")}
        return open_with(backend="postgres", vector_store={"backend": "faiss"}, postgres=ledger, faiss=folder)


@pytest.mark.nightly
class TestPostgresPool(MemoryClientContract):
    """A pool that the host opened, with settings of its own, and closes."""

    @pytest.fixture
    def open_client(self, open_with, postgres):
        settings = {"row_factory": dict_row, "autocommit": False}
        with ConnectionPool(postgres.url(), kwargs=settings, min_size=0, max_size=4, open=True) as pool:
            yield open_with(pool, backend="postgres", postgres={"space": uuid4().hex})
            with pool.connection() as connection:
                assert connection.execute("SELECT 1 AS one").fetchall() == [{"one": 1}]
                assert not connection.autocommit


@pytest.mark.nightly
class TestPgvector(MemoryEngineContract):
    """A ledger in a file, and a Postgres with pgvector that searches its vectors."""

    engine = "pgvector"

    @pytest.fixture
    def open_client(self, open_with, pgvector_url):
        return open_with(backend="sqlite", vector_store={"backend": "postgres"}, postgres={"url": pgvector_url})

    @pytest.fixture
    def lose_engine(self, pgvector_url):
        def lose():
            with psycopg.connect(pgvector_url, autocommit=True) as connection:
                connection.execute("DROP SCHEMA treering_vectors CASCADE")

        return lose


@pytest.mark.nightly
class TestPgvectorPool(MemoryClientContract):
    """A pool that the host opened, with settings of its own, and closes."""

    engine = "pgvector"

    @pytest.fixture
    def open_client(self, open_with, pgvector_url):
        settings = {"row_factory": dict_row, "autocommit": False}
        with ConnectionPool(pgvector_url, kwargs=settings, min_size=0, max_size=4, open=True) as pool:
            yield open_with(pool, backend="sqlite", vector_store={"backend": "postgres"})
            with pool.connection() as connection:
                shown = "SELECT coalesce(current_setting('hnsw.ef_search', true), '') AS breadth"
                assert connection.execute(shown).fetchone()["breadth"] != "200"
                assert connection.prepare_threshold is not None
                assert not connection.autocommit


class TestRedis(MemoryEngineContract):
    engine = "Redis"

    @pytest.fixture
    def open_client(self, open_with, redis_url):
        return open_with(backend="redis", redis={"url": redis_url})

    @pytest.fixture
    def lose_engine(self, redis_url):
        return lambda: flush(redis_url)


@pytest.mark.nightly
class TestRedisClient(MemoryEngineContract):
    """A client that the host opened, and closes. Those of hashes are given one that decodes what it reads."""

    engine = "Redis"

    @pytest.fixture
    def open_client(self, open_with, redis_url):
        with redis.Redis.from_url(redis_url) as client:
            decodes = not client.execute_command("COMMAND LIST", "FILTERBY", "PATTERN", "vadd")
        with redis.Redis.from_url(redis_url, decode_responses=decodes) as client:
            yield open_with(client, backend="redis")
            assert client.ping()

    @pytest.fixture
    def lose_engine(self, redis_url):
        return lambda: flush(redis_url)


@pytest.mark.nightly
class TestNeo4j(MemoryEngineContract):
    engine = "Neo4j"

    @pytest.fixture
    def open_client(self, open_with, bolt):
        return open_with(backend="neo4j", neo4j={"url": bolt.url()})

    @pytest.fixture
    def lose_engine(self, bolt):
        return bolt.empty


@pytest.mark.nightly
class TestNeo4jDriver(MemoryClientContract):
    """A driver that the host opened, and closes."""

    engine = "Neo4j"

    @pytest.fixture
    def open_client(self, open_with, bolt):
        with bolt.driver() as driver:
            yield open_with(driver, backend="neo4j")
            driver.verify_connectivity()


@pytest.mark.nightly
class TestMongo(MemoryEngineContract):
    engine = "MongoDB"

    @pytest.fixture
    def open_client(self, open_with, mongo_url):
        return open_with(backend="mongodb", mongodb={"url": mongo_url})

    @pytest.fixture
    def lose_engine(self, mongo_url):
        def lose():
            with pymongo.MongoClient(mongo_url) as client:
                client.drop_database("tests")

        return lose


@pytest.mark.nightly
class TestMongoClient(MemoryClientContract):
    """A client that the host opened, and closes."""

    engine = "MongoDB"

    @pytest.fixture
    def open_client(self, open_with, mongo_url):
        with pymongo.MongoClient(mongo_url) as client:
            yield open_with(client, backend="mongodb")
            assert client.admin.command("ping")


class TestHostStore(MemoryEngineContract):
    engine = "KeywordStore of the host"

    @pytest.fixture
    def store(self):
        return KeywordStore()

    @pytest.fixture
    def open_client(self, open_with, store):
        adapter = VectorStoreAdapter(store, document=Document)
        yield open_with(store=adapter, backend="sqlite", sqlite={"path": "memory"})
        assert store.documents.pop("foreign")

    @pytest.fixture
    def lose_engine(self, store, tmp_path):
        def lose():
            (tmp_path / "data" / "memory.db.handed").unlink()
            store.documents = {"foreign": store.documents["foreign"]}

        return lose


def flush(url):
    with redis.Redis.from_url(url) as client:
        client.flushdb()


def test_faiss_can_be_a_graph_in_a_folder_of_its_own(open_with, tmp_path):
    keys = {"path": str(tmp_path / "graph"), "kind": "hnsw"}
    open_client = open_with(backend="in_memory", vector_store={"backend": "faiss"}, faiss=keys)
    with open_client().sync as client:
        client.store("A finding")
        report = client.catch_up()
        assert (report.state, report.kind, report.vectors) == ("ready", "FAISS hnsw", 1)
    assert not (tmp_path / "graph").exists()


def test_an_engine_in_memory_needs_a_folder_of_its_own(open_with):
    with pytest.raises(treering.InvalidInput, match=r"memory\.faiss\.path is not set"):
        open_with(backend="in_memory", vector_store={"backend": "faiss"})()


def test_unreachable_server_is_reported_without_its_password(open_with):
    client = open_with(backend="redis", redis={"url": "redis://:hunter2@127.0.0.1:1/0"})().sync
    with pytest.raises(treering.Unavailable, match="Cannot reach") as refused:
        client.store("A finding")
    assert "hunter2" not in f"{refused.value}{refused.value.hint}{client.config!r}"
    client.close()


def test_a_server_that_went_away_takes_no_memory_with_it(open_with, caplog):
    server = redis_server.new_server(vector_sets=False)
    try:
        open_client = open_with(backend="redis", redis={"url": server.url})
        with open_client().sync as client:
            client.store("A finding about kinases")
            client.catch_up()
        server.stop()
        with open_client().sync as client:
            client.store("Another finding about kinases")
            assert len(client.retrieve("finding about kinases")) == 2
        assert "is unavailable" in caplog.text
    finally:
        redis_server.remove(server)


def test_backend_engine_takes_precedence_over_vector_store(open_with, caplog):
    with open_with(backend="faiss", vector_store={"backend": "neo4j"})().sync as client:
        client.store("A finding")
        assert client.catch_up().kind == "FAISS flat"
    assert "'neo4j' is ignored" in caplog.text


@pytest.mark.parametrize(
    ("backend", "driver"),
    [
        ("redis", redis.asyncio.Redis),
        ("redis", object),
        ("neo4j", object),
        ("mongodb", object),
        ("postgres", partial(ConnectionPool, "host=/nowhere", min_size=0, max_size=1, open=False)),
        ("postgres", object),
    ],
)
def test_a_driver_that_cannot_be_used_is_refused_before_anything_is_opened(open_with, tmp_path, backend, driver):
    with pytest.raises(treering.InvalidInput, match="connection: "):
        open_with(driver(), backend=backend)()
    assert not (tmp_path / "data").exists()


@pytest.mark.parametrize("kind", [BlockingMemoryClient, MemorySystemClient])
@pytest.mark.parametrize(
    ("backend", "connection"),
    [("neo4j", "bolt://localhost:7687"), ("redis", b"redis://"), ("postgres", {"url": "postgresql://h/db"})],
)
def test_the_constructor_refuses_an_address_as_a_connection(kind, backend, connection):
    with pytest.raises(treering.InvalidInput, match=f"connection: {type(connection).__name__} is not"):
        kind(client_parts.config(backend=backend), connection)


@pytest.mark.parametrize("name", ["vector_store", "embedder", "reranker"])
def test_the_constructor_refuses_other_objects_of_a_wrong_kind(name):
    with pytest.raises(treering.InvalidInput, match=f"{name}: object "):
        BlockingMemoryClient(client_parts.config(), **{name: object()})


def test_a_pool_that_is_not_open_is_reported(open_with, tmp_path):
    pool = ConnectionPool("host=/nowhere", min_size=0, max_size=2, open=False)
    client = open_with(pool, backend="postgres")().sync
    with pytest.raises(treering.Unavailable, match="pool that was given"):
        client.store("A finding")
    client.close()


def test_what_a_crash_left_on_this_machine_is_written_to_its_space_on_a_server(open_with, postgres, tmp_path):
    long = {"flush_interval": 10_000, "batch_size": 1_000}
    spaces = [{"url": postgres.url(), "space": uuid4().hex} for _ in range(2)]
    open_client = open_with(backend="postgres", storage=long)
    with open_client(postgres=spaces[0]).sync as client:
        client.store("A finding")
        (file,) = (tmp_path / "data" / "memories").glob("*.journal/*.journal")
        left = file.read_bytes()
    # As if that had been written by a process which was killed before it wrote to the space.
    (file.parent / "left.journal").write_bytes(left)
    with open_client(postgres=spaces[1]).sync as client:
        assert client.retrieve("finding") == []
    with open_client(postgres=spaces[0]).sync as client:
        assert len(client.retrieve("finding")) == 1
    assert not list(file.parent.iterdir())


def test_damaged_files_of_an_engine_are_reported(tmp_path):
    config = client_parts.config(backend="faiss", sqlite={"path": str(tmp_path / "memory.db")})
    with client_parts.blocking(config) as client:
        client.store("Kinase finding")
        assert client.catch_up().state == "ready"
    (vectors,) = tmp_path.glob("memory.db.faiss/*.treering")
    vectors.write_bytes(b"damaged")
    with client_parts.blocking(config) as client:
        client.store("Kinase plan")
        report = client.catch_up()
        assert (report.state, str(vectors) in report.problem) == ("failing", True)
        assert f"--space sqlite:{tmp_path / 'memory.db'}" in report.hint
        assert len(client.retrieve("kinase")) == 2
