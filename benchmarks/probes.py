"""What runs in a process of its own: `python -m benchmarks.probes NAME JSON` prints its answer as JSON."""

import json
import sys
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from functools import partial
from typing import TYPE_CHECKING, Any

from benchmarks.costs import Cost, cost_of, typical
from benchmarks.processes import peak_memory
from benchmarks.scale_steps import STEPS

if TYPE_CHECKING:
    from treering.ports.ledger import Ledger

Answer = dict[str, Any]


def open_and_answer(address: str, question: str) -> Answer:
    """Open a space and ask; the built-in model encodes the question."""
    began = time.perf_counter()
    import treering
    from benchmarks.synthetic import StandIn

    embedder = StandIn(encoding=True)
    imported = time.perf_counter()
    with treering.open(address, background=False, embedder=embedder) as space:
        opened = time.perf_counter()
        embedder.embed_query(question)
        encoded = time.perf_counter()
        space.query("search", input={"text": question}, options={"descend": True})
        answered = time.perf_counter()
    return {
        "import": imported - began,
        "open": opened - imported,
        "load and encode": encoded - opened,
        "answer": answered - encoded,
        "cpu": time.process_time(),
        "memory": peak_memory(),
    }


def start_on_paragraphs(path: str, question: str) -> Answer:
    """Open a space and ask once; the built-in model encodes the question. Memory is that above the imports."""
    import treering
    from benchmarks.paragraphs import RandomVectors

    embedder = RandomVectors(encoding=True)
    before = peak_memory()
    with treering.open(f"sqlite:{path}", background=False, embedder=embedder) as space:
        space.query("search", input={"text": question})
    return {"cpu": time.process_time(), "memory": peak_memory() - before}


def start_of_script(path: str, question: str) -> Answer:
    """Do the same with full text and a matrix in one script."""
    from pathlib import Path

    from benchmarks.plain_script import Script
    from treering.extensions.encoder.onnx import BgeSmall

    encoder = BgeSmall()
    before = peak_memory()
    Script.opened(Path(path)).ask(question, encoder.embed_query(question))
    return {"cpu": time.process_time(), "memory": peak_memory() - before}


def index(address: str, passages: int) -> Answer:
    """Put made-up passages and their vectors into a new space."""
    import treering
    from benchmarks.synthetic import PER_DOCUMENT, StandIn, documents, fill

    content = documents(-(-passages // PER_DOCUMENT))
    embedder = StandIn()
    before = peak_memory()
    with treering.open(address, background=False, embedder=embedder) as space:
        filled = cost_of(partial(fill, space, content))
        embedded = cost_of(space.embed_pending)
    vectors = embedded.cpu - embedder.spent
    return {"text": filled.cpu, "vectors": vectors, "memory": peak_memory() - before}


def load_graph(address: str) -> Answer:
    """Bring the entity graph of a space into memory, by a first look at it."""
    import numpy as np

    import treering
    from benchmarks.synthetic import StandIn
    from treering.ports.passages import Reach

    with treering.open(address, background=False, embedder=StandIn()) as space:
        before = peak_memory()
        graph = space.engine.index.graph
        loaded = cost_of(lambda: graph.view(Reach("/", descend=True)).edges(np.array([2], np.int64)))
    return {**_plain(loaded), "memory": peak_memory() - before}


def index_project(folder: str, passages: int) -> Answer:
    """Put documents with given triples into a project; retrieve; put in and take out one by one."""
    import treering
    from benchmarks.data import load
    from benchmarks.synthetic import StandIn

    collection = load("musique-triples").collections[0]
    given = collection.passages[:passages]
    docs = [f"{passage.title}\n{passage.text}" for passage in given]
    more = [f"{doc} And so on." for doc in docs[:_ADDED]]
    stated = [passage.triples for passage in given]
    queries = [question.text for question in collection.questions]
    embedder = StandIn()
    before = peak_memory()
    with treering.open_projects(folder, embedder=embedder, background=False) as projects:
        indexed = cost_of(partial(projects.index, "benchmark", docs, triples=stated, wait=True))
        memory = peak_memory() - before
        encoded = embedder.spent
        for query in queries:
            embedder.embed_query(query)  # remembered from here on
        projects.retrieve("benchmark", queries[:1])
        asked = [cost_of(partial(projects.retrieve, "benchmark", [query])) for query in queries]
        added = [cost_of(partial(projects.index, "benchmark", [doc])) for doc in more]
        deleted = [cost_of(partial(projects.delete, "benchmark", [doc])) for doc in more]
    return {
        "triples": sum(map(len, stated)),
        "cpu": indexed.cpu - encoded,
        "memory": memory,
        "peak": peak_memory(),
        "retrieve": _plain(typical(asked)),
        "add": _plain(typical(added)),
        "delete": _plain(typical(deleted)),
    }


def ingest_repo(address: str, path: str) -> Answer:
    """Bring a repository in, without vectors."""
    import treering
    from benchmarks.synthetic import StandIn
    from treering.verbs.envelope import Report

    with treering.open(address, background=False, embedder=StandIn()) as space:
        given = {"path": path}
        options = {"max_items": 0}
        reports: list[Report] = []
        cost = cost_of(lambda: reports.append(space.ingest("repo", input=given, options=options)))
        counts = reports[0].model_dump()["counts"]
        passages = space.engine.index.vectors.lag().total
    return {**_plain(cost), "counts": counts, "passages": passages, "memory": peak_memory()}


def embed_pending(address: str) -> Answer:
    """Make the vectors of a space, by stand-in."""
    import treering
    from benchmarks.synthetic import StandIn

    embedder = StandIn()
    with treering.open(address, background=False, embedder=embedder) as space:
        cost = cost_of(space.embed_pending)
    return {"cpu": cost.cpu - embedder.spent}


def record(address: str, seconds: float) -> Answer:
    """Record one work item after the other, each durable before the next."""
    import treering
    from treering.core.errors import TreeringError

    made: list[str] = []
    errors: list[str] = []
    longest = 0.0
    with treering.open(address, background=False) as space:
        for number in _racing(seconds):
            began = time.monotonic()
            try:
                given = {"kind": "task", "title": f"Check the bolts of beam {number}"}
                made += space.crystallize("work_item", input=given).ids
            except TreeringError as error:
                errors.append(str(error))
            longest = max(longest, time.monotonic() - began)
    return {"made": made, "errors": errors, "longest": longest}


def insert(path: str, seconds: float) -> Answer:
    """Insert one row after the other into a plain SQLite file, each durable before the next."""
    import apsw

    connection = apsw.Connection(path)
    connection.set_busy_timeout(20_000)
    for pragma in ("journal_mode=WAL", "synchronous=FULL"):
        connection.execute(f"PRAGMA {pragma}")
    made = 0
    for number in _racing(seconds):
        connection.execute("BEGIN IMMEDIATE; INSERT INTO t VALUES(?); COMMIT", (f"row {number}" * 20,))
        made += 1
    return {"made": made}


def commit(address: str, seconds: float, indexed: bool) -> Answer:
    """Commit one new node after the other to a ledger, alone or with its index, each durable before the next."""
    import os

    import treering
    from treering.testing import Builder, SteppingClock

    make = Builder(SteppingClock(seed=f"{os.getpid()}"))
    ledger = treering.open_ledger(address) if indexed else _ledger_alone(address)
    made, longest, spent = 0, 0.0, 0.0
    for number in _racing(seconds):
        began, cpu = time.monotonic(), time.process_time()
        ledger.commit(make.patch(make.node(f"Beam {number} of {os.getpid()}")))
        made, longest, spent = made + 1, max(longest, time.monotonic() - began), spent + time.process_time() - cpu
    ledger.close()
    return {"made": made, "longest": longest, "cpu": spent}


def insert_rows(address: str, seconds: float, indexed: bool) -> Answer:
    """Write what `commit` stores, with the driver and nothing else, each time in one transaction and one round trip."""
    import os

    from benchmarks.ledgers import copied_tables

    made, longest, spent = 0, 0.0, 0.0
    with copied_tables(address, lambda: _commit_once(address, indexed)) as (connection, turn, inserts):
        for number in _racing(seconds):
            began, cpu = time.monotonic(), time.process_time()
            with connection.pipeline(), connection.transaction(), connection.cursor() as cursor:
                cursor.execute(turn)
                for insert, row in inserts:
                    cursor.execute(insert, (os.getpid() * 10**8 + number, *row))
            made, longest, spent = made + 1, max(longest, time.monotonic() - began), spent + time.process_time() - cpu
    return {"made": made, "longest": longest, "cpu": spent}


def use_spaces(addresses: Sequence[str], seconds: float) -> Answer:
    """Commit to one space after the other and, every fourth time, search what was committed; tell how long each took.

    A commit is durable, and what was written is found, before the next begins.
    """
    import os
    import random
    from contextlib import ExitStack

    import treering
    from benchmarks.synthetic import StandIn
    from treering.testing import Builder, SteppingClock

    make, chance = Builder(SteppingClock(seed=f"{os.getpid()}")), random.Random(os.getpid())
    embedder = StandIn()
    commits: list[float] = []
    queries: list[float] = []
    made = [0] * len(addresses)
    with ExitStack() as opened:
        spaces = [
            opened.enter_context(treering.open(address, background=False, embedder=embedder)) for address in addresses
        ]
        for number in _racing(seconds):
            which = number % len(spaces)
            began = time.perf_counter()
            title = f"Beam {number} of {os.getpid()}"
            spaces[which].engine.ledger.commit(make.patch(make.node(title)))
            commits.append(time.perf_counter() - began)
            made[which] += 1
            if not chance.randrange(4):
                began = time.perf_counter()
                spaces[which].query("search", input={"text": title})
                queries.append(time.perf_counter() - began)
    return {"commits": commits, "queries": queries, "made": made}


def write_and_search(addresses: Sequence[str], seconds: float) -> Answer:
    """Commit to one space after the other, then search them for what was committed; count both."""
    import os
    from contextlib import ExitStack

    import treering
    from benchmarks.synthetic import StandIn
    from treering.testing import Builder, SteppingClock

    make, embedder = Builder(SteppingClock(seed=f"{os.getpid()}")), StandIn()
    commits = searches = 0
    with ExitStack() as opened:
        spaces = [
            opened.enter_context(treering.open(address, background=False, embedder=embedder)) for address in addresses
        ]
        middle: float | None = None
        for number in _racing(2 * seconds):
            middle = middle or time.monotonic() + seconds
            space, title = spaces[number % len(spaces)], f"Beam {number} of {os.getpid()}"
            if time.monotonic() < middle:
                space.engine.ledger.commit(make.patch(make.node(title)))
                commits += 1
            else:
                space.query("search", input={"text": title})
                searches += 1
    return {"commits": commits, "searches": searches}


def _commit_once(address: str, indexed: bool) -> None:
    import treering
    from treering.testing import Builder, SteppingClock

    make = Builder(SteppingClock(seed=f"{time.monotonic_ns()}"))
    ledger = treering.open_ledger(address) if indexed else _ledger_alone(address)
    ledger.commit(make.patch(make.node(f"Beam {time.monotonic_ns()}")))
    ledger.close()


def _ledger_alone(address: str) -> "Ledger":
    from treering.extensions.postgres.connection.space import PostgresSpace
    from treering.extensions.postgres.connection.target import target_of
    from treering.extensions.postgres.ledger.ledger import PostgresLedger
    from treering.stores.sqlite.database import Database
    from treering.stores.sqlite.ledger.ledger import SqliteLedger
    from treering.system.address import parse_address
    from treering.system.machine import SystemClock

    if address.startswith("sqlite:"):
        return SqliteLedger(Database(address.removeprefix("sqlite:")), clock=SystemClock())
    return PostgresLedger(PostgresSpace(target_of(parse_address(address, named="the database"))), clock=SystemClock())


def load_encoder(question: str) -> Answer:
    """Load the built-in model and encode one question."""
    before = peak_memory()
    encoded = cost_of(lambda: _encode(question))
    return {**_plain(encoded), "memory": peak_memory() - before}


def _encode(question: str) -> None:
    from treering.extensions.encoder.onnx import BgeSmall

    BgeSmall().embed_query(question)


def _racing(seconds: float) -> Iterator[int]:
    """Say that this process is ready, wait for the word to go, then count for so many seconds."""
    print("ready", flush=True)
    sys.stdin.readline()
    end, number = time.monotonic() + seconds, 0
    while time.monotonic() < end:
        yield number
        number += 1


def _plain(cost: Cost) -> Answer:
    return {"wall": cost.wall, "cpu": cost.cpu}


_ADDED = 24

PROBES: Mapping[str, Callable[..., Answer]] = {
    probe.__name__: probe
    for probe in (
        open_and_answer,
        index,
        load_graph,
        index_project,
        ingest_repo,
        embed_pending,
        record,
        insert,
        commit,
        insert_rows,
        use_spaces,
        write_and_search,
        load_encoder,
        start_on_paragraphs,
        start_of_script,
    )
} | STEPS

if __name__ == "__main__":
    print(json.dumps(PROBES[sys.argv[1]](**json.loads(sys.argv[2]))))
