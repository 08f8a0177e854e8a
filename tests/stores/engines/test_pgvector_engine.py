"""pgvector: it passes the contracts against a real server, exact below the size from which it has a graph."""

from itertools import count

import numpy as np
import psycopg
import pytest

import postgres_server
from treering.core.errors import Corrupt, InvalidInput, Unavailable
from treering.extensions.engines import pgvector
from treering.extensions.engines.engine_address import parse_engine_address
from treering.extensions.engines.pgvector import open_pgvector
from treering.ports.vector_engine import EngineState, VectorChanges
from treering.testing.index_contract import EMBEDDER, LateIndexContract
from treering.testing.index_contract.vectors import ByMeaning, Upkeeping
from treering.testing.vector_engine_contract import VectorEngineContract, some_vectors, take_over

_marks = count()
_DIMENSION = 64
_MANY = 3_000


@pytest.fixture(scope="module")
def server():
    """A server with two databases; only `tests` has pgvector."""
    try:
        started = postgres_server.new_server()
    except postgres_server.CannotStart as error:
        pytest.skip(f"no Postgres server can be started here: {error}")
    with psycopg.connect(started.url("postgres", "postgres"), autocommit=True) as admin:
        if not admin.execute("SELECT 1 FROM pg_available_extensions WHERE name = 'vector'").fetchone():
            postgres_server.remove(started)
            pytest.skip("this Postgres server has no pgvector")
        admin.execute(f"CREATE DATABASE plain OWNER {postgres_server.OWNER}")
    with psycopg.connect(started.url("tests", "postgres")) as admin:
        admin.execute("CREATE EXTENSION vector")
    yield started
    postgres_server.remove(started)


def url_of(server, database="tests", **options):
    return server.url(database, **options).replace("postgresql:", "pgvector:")


def engine_at(server, mark="a-mark", dimension=EMBEDDER.dimension, **options):
    return open_pgvector(parse_engine_address(url_of(server, **options)), mark, dimension)


@pytest.fixture
def open_new_engine(server):
    opened = []

    def open_new_engine(**options):
        opened.append(engine_at(server, f"mark-{next(_marks)}", **options))
        return opened[-1]

    yield open_new_engine
    for engine in opened:
        engine.drop()
        engine.close()


class TestPgvectorEngine(VectorEngineContract):
    @pytest.fixture
    def open_engine(self, server):
        opened = []

        def open_engine():
            opened.append(engine_at(server))
            return opened[-1]

        yield open_engine
        for engine in opened:
            engine.close()


class TestVectorsInPgvector(ByMeaning, Upkeeping):
    @pytest.fixture
    def open_index(self, open_composed):
        return open_composed


@pytest.mark.nightly
class TestLateIndexWithPgvector(LateIndexContract):
    @pytest.fixture
    def open_index(self, open_late):
        return open_late


def clustered(amount, seed=3):
    """Return vectors by key that crowd around a few centres, as those of texts do."""
    chance = np.random.default_rng(seed)
    centres = chance.normal(size=(amount // 50, _DIMENSION))
    vectors = centres[chance.integers(0, len(centres), amount)] + 0.5 * chance.normal(size=(amount, _DIMENSION))
    vectors /= np.linalg.norm(vectors, axis=1, keepdims=True)
    return dict(enumerate(vectors.astype(np.float32), start=1))


def recall(engine, vectors, queries):
    """Return the share of the ten nearest that is found."""
    keys, matrix = np.array(list(vectors)), np.stack(list(vectors.values()))
    hits = 0
    for query in queries:
        nearest = keys[np.argsort(-(matrix @ query), kind="stable")[:10]]
        hits += len(set(nearest.tolist()) & set(engine.search(query, 10, None).tolist()))
    return hits / (10 * len(queries))


@pytest.fixture
def graphed(server, monkeypatch):
    """An engine that has a graph, and what it keeps."""
    monkeypatch.setattr(pgvector, "EXACT_ROWS", _MANY)
    engine, vectors = engine_at(server, f"mark-{next(_marks)}", _DIMENSION), clustered(_MANY)
    take_over(engine, vectors)
    yield engine, vectors
    engine.drop()
    engine.close()


def test_many_vectors_that_crowd_are_found_through_a_graph(graphed):
    engine, vectors = graphed
    assert engine.kind == "pgvector HNSW"
    assert recall(engine, vectors, list(clustered(100, seed=3).values())) >= 0.95
    assert len(engine.search(vectors[1], 1_000, None)) == 1_000


def test_graph_follows_later_changes(graphed):
    engine, vectors = graphed
    more = {key + _MANY: vector for key, vector in clustered(200, seed=4).items()}
    gone = tuple(range(1, 500))
    engine.apply(VectorChanges("m2", (*gone, *more), more), EngineState("a-space", "m2"))
    left = {key: vector for key, vector in {**vectors, **more}.items() if key not in gone}
    assert engine.state().count == len(left)
    assert recall(engine, left, list(more.values())[:20]) >= 0.95


def test_among_the_passages_that_a_filter_allows_every_vector_is_compared(graphed):
    engine, vectors = graphed
    allowed = np.arange(7, _MANY, 13, dtype=np.int64)
    matrix = np.stack([vectors[key] for key in allowed.tolist()])
    exact = allowed[np.argsort(-(matrix @ vectors[1]), kind="stable")[:20]].tolist()
    found = engine.search(vectors[1], 20, allowed).tolist()
    assert found == exact


def test_few_vectors_are_all_compared_and_the_engine_says_so(open_new_engine):
    engine = open_new_engine()
    take_over(engine, some_vectors(20))
    assert engine.kind == "pgvector, every vector compared"


def test_spaces_share_a_database_and_see_nothing_of_each_other(open_new_engine):
    one, two = open_new_engine(), open_new_engine()
    take_over(one, some_vectors(20))
    assert two.state() is None
    take_over(two, some_vectors(5))
    two.drop()
    assert one.state() == EngineState("a-space", "m1", count=20)


def test_database_without_pgvector_is_refused_with_a_hint(server):
    engine = engine_at(server, database="plain")
    assert engine.state() is None
    with pytest.raises(Unavailable) as refused:
        take_over(engine, some_vectors(5))
    assert "CREATE EXTENSION vector" in refused.value.hint
    engine.close()


def test_damaged_table_or_state_is_refused_with_a_hint(server, open_new_engine):
    engine = open_new_engine()
    take_over(engine, some_vectors(5))
    with psycopg.connect(server.url()) as other:
        other.execute(f"DROP TABLE {engine._table}")
    with pytest.raises(Corrupt, match="does not exist any more"):
        engine.search(some_vectors(1)[1], 5, None)
    with psycopg.connect(server.url()) as other:
        other.execute("UPDATE treering_vectors.engines SET state = '['")
    with pytest.raises(Corrupt) as refused:
        engine.state()
    assert "treering index rebuild" in refused.value.hint


def test_unreachable_server_is_reported_without_the_password(tmp_path):
    url = f"pgvector://user:secret@/db?host={tmp_path}"
    engine = open_pgvector(parse_engine_address(url), "mark", 3)
    with pytest.raises(Unavailable) as refused:
        engine.state()
    assert "secret" not in str(refused.value)
    engine.close()


def test_too_many_vector_components_are_refused(server):
    with pytest.raises(InvalidInput, match="4,000"):
        engine_at(server, dimension=4_001)


def test_an_address_with_an_unknown_option_is_refused():
    with pytest.raises(InvalidInput, match="not a Postgres address"):
        open_pgvector(parse_engine_address("pgvector://host/db?colour=red"), "mark", 3)
