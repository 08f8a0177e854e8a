"""Vectors of one space in pgvector: how long the graph takes to build, its disk, how fast it answers, and its recall.

Vectors are made up: they crowd around centres, some centres more than others. The table in memory, which is what a
space has without an engine, answers the same questions. `TREERING_BENCH_POSTGRES` names the database, which needs the
extension; `TREERING_BENCH_VECTORS` how many vectors (100,000).
"""

import os
import time
from collections.abc import Callable, Iterator
from uuid import uuid4

import numpy as np
import numpy.typing as npt

from benchmarks.figures import Figure, Missing, Row, at_least
from benchmarks.ledgers import NO_SERVER, SERVER
from benchmarks.plan import Plan
from treering.ports.vector_engine import EngineState, Keys, VectorChanges
from treering.retrieval.index.tables import VectorTable
from treering.stores.engines.engine_address import parse_engine_address
from treering.stores.engines.pgvector import PgvectorEngine, open_pgvector

_DIMENSION = 384
_PER_CENTRE = 200
_SPREAD = 1.2  # how far vectors stand from their centre, beside its length
_SIZE = "TREERING_BENCH_VECTORS"
_VECTORS, _QUICK_VECTORS = 100_000, 21_000
_AT_ONCE = 5_000
_QUERIES = 200
_SLOW = 20  # questions that every vector is compared with in the server
_BATCH_SIZE = 20
_LIMIT = 50  # what a search of a space asks for

Matrix = npt.NDArray[np.float32]


def measure(plan: Plan) -> list[Row]:
    """Fill an engine, build its graph, and ask."""
    server = os.environ.get(SERVER)
    if not server:
        return [Missing("vectors in pgvector", NO_SERVER)]
    count = _QUICK_VECTORS if plan.quick else int(os.environ.get(_SIZE, _VECTORS))
    address = parse_engine_address(server.replace("postgresql:", "pgvector:", 1))
    engine = open_pgvector(address, uuid4().hex, _DIMENSION)
    try:
        return list(_measured(engine, count, server))
    finally:
        engine.drop()
        engine.close()


def clusters(count: int) -> Iterator[Matrix]:
    """Return vectors of unit length, some at a time."""
    chance = np.random.default_rng(1)
    centres = chance.normal(size=(count // _PER_CENTRE, _DIMENSION)).astype(np.float32)
    centres /= np.linalg.norm(centres, axis=1, keepdims=True)
    popularity = 1 / np.arange(1, len(centres) + 1) ** 0.5
    for start in range(0, count, _AT_ONCE):
        size = min(_AT_ONCE, count - start)
        near = centres[chance.choice(len(centres), size, p=popularity / popularity.sum())]
        away = chance.normal(size=near.shape).astype(np.float32) * (_SPREAD / _DIMENSION**0.5)
        vectors = near + away
        yield vectors / np.linalg.norm(vectors, axis=1, keepdims=True)


def _measured(engine: PgvectorEngine, count: int, server: str) -> Iterator[Row]:
    table, matrix = VectorTable(_DIMENSION), np.empty((count, _DIMENSION), np.float32)
    table.reserve(count, count)
    began, done = time.perf_counter(), 0
    engine.begin(EngineState("benchmark", "m", loaded=-1))
    for vectors in clusters(count):
        keys = np.arange(done, done + len(vectors), dtype=np.int64)
        held = dict(zip(keys.tolist(), vectors, strict=True))
        engine.apply(VectorChanges("m", tuple(held), held), EngineState("benchmark", "m", loaded=int(keys[-1])))
        table.add(keys, vectors)
        matrix[done : done + len(vectors)] = vectors
        done += len(vectors)
    engine.apply(VectorChanges("m"), EngineState("benchmark", "m"))
    yield Figure(f"{count:,} vectors: fill", count / (time.perf_counter() - began), "per s")
    yield Figure("— disk per vector before the graph", _disk(server) / count, "B")
    queries = _queries(matrix)
    best = [
        nearest for start in range(0, _QUERIES, _BATCH_SIZE) for nearest in _best(matrix, queries[start:][:_BATCH_SIZE])
    ]
    compared, took = _asked(queries[:_SLOW], lambda query: _found(engine, query))
    yield _times("— a search, every vector compared", took)
    yield Figure(f"— recall of the nearest {_LIMIT}, every vector compared", _recall(compared, best), "", at_least(1))
    began = time.perf_counter()
    engine.flush()
    yield Figure("— build the graph", time.perf_counter() - began, "s")
    yield Figure("— disk per vector with the graph", _disk(server) / count, "B")
    _asked(queries, lambda query: _found(engine, query))  # so that pages are in memory
    for name, search in (
        ("by the graph", lambda query: _found(engine, query)),
        ("by the table in memory", lambda query: table.search(query, limit=_LIMIT)[0]),
    ):
        near, took = _asked(queries, search)
        yield _times(f"— a search {name}", took)
        wanted = at_least(0.95) if name == "by the graph" else None
        yield Figure(f"— recall of the nearest {_LIMIT} {name}", _recall(near, best), "", wanted)


def _queries(matrix: Matrix) -> Matrix:
    """Return questions: near some of the vectors."""
    chance = np.random.default_rng(2)
    some = matrix[chance.choice(len(matrix), _QUERIES, replace=False)]
    away = chance.normal(size=some.shape).astype(np.float32) * np.float32(_SPREAD / 2 / _DIMENSION**0.5)
    near = some + away
    queries: Matrix = near / np.linalg.norm(near, axis=1, keepdims=True)
    return queries


def _best(matrix: Matrix, queries: Matrix) -> list[Keys]:
    cosines = matrix @ queries.T
    return list(np.argpartition(-cosines, _LIMIT, axis=0)[:_LIMIT].T)


def _found(engine: PgvectorEngine, query: Matrix) -> Keys:
    keys = engine.search(query, _LIMIT, None)
    return np.zeros(0, np.int64) if keys is None else keys


def _asked(queries: Matrix, search: Callable[[Matrix], Keys]) -> tuple[list[Keys], list[float]]:
    found, took = list[Keys](), list[float]()
    for query in queries:
        began = time.perf_counter()
        found.append(search(query))
        took.append(1000 * (time.perf_counter() - began))
    return found, took


def _recall(found: list[Keys], best: list[Keys]) -> float:
    hits = sum(len(np.intersect1d(one, other)) for one, other in zip(found, best, strict=False))
    return hits / (_LIMIT * len(found))


def _times(name: str, took: list[float]) -> Figure:
    middle, late = np.percentile(took, (50, 95))
    return Figure(f"{name}, p50", float(middle), "ms", None, f"p95 {late:.1f} ms")


def _disk(server: str) -> float:
    """Return the bytes of all tables and graphs of engines."""
    import psycopg

    sql = (
        "SELECT sum(pg_total_relation_size(c.oid)) FROM pg_class c JOIN pg_namespace n ON n.oid = c.relnamespace "
        "WHERE n.nspname = 'treering_vectors' AND c.relkind = 'r' AND c.relname <> 'engines'"
    )
    with psycopg.connect(server) as connection:
        row = connection.execute(sql).fetchone()
    return float(row[0]) if row else 0.0
