"""Vectors of one space in pgvector: how long the graph takes to build, its disk, how fast it answers, and its recall.

The vectors are those that the static model makes of real texts: paragraphs of a file of texts, or else of the programs
and documents that came with this Python. Questions are texts that are not among them. The table in memory, which is
what a space has without an engine, answers the same questions. `TREERING_BENCH_POSTGRES` names the database, which
needs the extension; `TREERING_BENCH_VECTORS` how many vectors (100,000); `TREERING_BENCH_TEXTS` a file of texts, one a
line, as JSON strings. Where there are fewer texts than wanted, there are fewer vectors.
"""

import json
import os
import re
import sysconfig
import time
from collections.abc import Callable, Iterator
from itertools import islice
from pathlib import Path
from uuid import uuid4

import numpy as np
import numpy.typing as npt

from benchmarks.figures import Figure, Missing, Row, at_least, at_most
from benchmarks.ledgers import NO_SERVER, SERVER
from benchmarks.plan import Plan
from treering.extensions.engines.engine_address import parse_engine_address
from treering.extensions.engines.pgvector import PgvectorEngine, open_pgvector
from treering.models.static_model import StaticEmbedder
from treering.ports.vector_engine import EngineState, Keys, VectorChanges
from treering.retrieval.index.tables import VectorTable

_SIZE, _TEXTS = "TREERING_BENCH_VECTORS", "TREERING_BENCH_TEXTS"
_VECTORS, _QUICK_VECTORS = 100_000, 21_000
_PARAGRAPH = re.compile(r"\n\s*\n")
_SHORTEST, _LONGEST = 120, 700  # characters of a paragraph
_READ = frozenset({".py", ".md", ".rst", ".txt"})
_ASKED_EVERY = 97  # one text of so many is a question
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
    model = StaticEmbedder()
    engine = open_pgvector(address, uuid4().hex, model.dimension)
    try:
        return list(_measured(engine, model, count, server))
    finally:
        engine.drop()
        engine.close()


def _texts() -> Iterator[str]:
    """Return distinct texts."""
    seen: set[int] = set()
    for text in _lines() if os.environ.get(_TEXTS) else _paragraphs():
        known = hash(text)
        if known not in seen:
            seen.add(known)
            yield text


def _lines() -> Iterator[str]:
    with Path(os.environ[_TEXTS]).open(encoding="utf-8") as lines:
        yield from map(json.loads, lines)


def _paragraphs() -> Iterator[str]:
    """Return paragraphs of all programs and documents of this Python, short ones joined to the next."""
    for folder in dict.fromkeys(sysconfig.get_path(name) for name in ("stdlib", "purelib", "platlib")):
        for path in sorted(Path(folder).rglob("*")):
            if path.suffix not in _READ or not path.is_file():
                continue
            held = ""
            for part in _PARAGRAPH.split(path.read_text(encoding="utf-8", errors="ignore")):
                held = f"{held}\n\n{part}".strip()
                if len(held) >= _SHORTEST:
                    yield held[:_LONGEST]
                    held = ""


def _made(model: StaticEmbedder, count: int) -> tuple[Matrix, Matrix]:
    """Return the vectors of as many texts as wanted, or of all there are, and those of questions."""
    held, asked = [], []
    for number, text in enumerate(islice(_texts(), count + count // _ASKED_EVERY)):
        (held if number % _ASKED_EVERY else asked).append(text)
    chosen = np.random.default_rng(2).permutation(len(asked))[:_QUERIES]
    return model.embed_documents(held), np.stack([model.embed_query(asked[number]) for number in chosen])


def _measured(engine: PgvectorEngine, model: StaticEmbedder, wanted: int, server: str) -> Iterator[Row]:
    matrix, queries = _made(model, wanted)
    count = len(matrix)
    table = VectorTable(model.dimension)
    table.reserve(count, count)
    began = time.perf_counter()
    engine.begin(EngineState("benchmark", "m", loaded=-1))
    for start in range(0, count, _AT_ONCE):
        vectors = matrix[start : start + _AT_ONCE]
        keys = np.arange(start, start + len(vectors), dtype=np.int64)
        held = dict(zip(keys.tolist(), vectors, strict=True))
        engine.apply(VectorChanges("m", tuple(held), held), EngineState("benchmark", "m", loaded=int(keys[-1])))
        table.add(keys, vectors)
    yield Figure(f"{count:,} vectors: fill", count / (time.perf_counter() - began), "per s")
    yield Figure("— disk per vector before the graph", _disk(server) / count, "B")
    batches = range(0, len(queries), _BATCH_SIZE)
    best = [nearest for start in batches for nearest in _best(matrix, queries[start:][:_BATCH_SIZE])]
    compared, took = _asked(queries[:_SLOW], lambda query: _found(engine, query))
    yield _times("— a search, every vector compared", took)
    yield Figure(f"— recall of the nearest {_LIMIT}, every vector compared", _recall(compared, best), "", at_least(1))
    began = time.perf_counter()
    engine.apply(VectorChanges("m"), EngineState("benchmark", "m"))
    yield Figure("— build the graph", time.perf_counter() - began, "s")
    yield Figure("— disk per vector with the graph", _disk(server) / count, "B")
    _asked(queries, lambda query: _found(engine, query))  # so that pages are in memory
    for name, search in (
        ("by the graph", lambda query: _found(engine, query)),
        ("by the table in memory", lambda query: table.search(query, limit=_LIMIT)[0]),
    ):
        near, took = _asked(queries, search)
        yield _times(f"— a search {name}", took)
        wanted = None
        if name == "by the graph":
            wanted = at_least(0.95)
            yield Figure("— a search by the graph, p95", float(np.percentile(took, 95)), "ms", at_most(60))
        yield Figure(f"— recall of the nearest {_LIMIT} {name}", _recall(near, best), "", wanted)


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
