"""Spaces on a distributed Postgres, where one is named: `TREERING_TEST_CITUS`, the address of a coordinator.

`postgresql://SUPERUSER@HOST/DATABASE`, with the extension and all workers added. Afterwards the role `treering_app` can
run the suites of ledger and index there: `TREERING_TEST_POSTGRES=postgresql://treering_app@HOST/DATABASE`.
`TREERING_TEST_CITUS_RESTART` is a shell command that ends a worker with `kill -9` and starts it again.
"""

import os
import subprocess
import sys
import time
from contextlib import closing, suppress
from dataclasses import replace
from pathlib import Path

import psycopg
import pytest
from postgres_spaces import new_space
from psycopg import errors

import treering
from treering.extensions.postgres.connection.schema import TABLES
from treering.extensions.postgres.connection.target import database_of
from treering.extensions.postgres.plan import Wanted, plan_of
from treering.system.address import parse_address
from treering.testing.builders import Builder
from treering.testing.fakes import HashingEmbedder, SteppingClock

COORDINATOR = os.environ.get("TREERING_TEST_CITUS", "")
RESTART = os.environ.get("TREERING_TEST_CITUS_RESTART", "")
ROLE = "treering_app"
WRITER = Path(__file__).with_name("cluster_process.py")

pytestmark = pytest.mark.skipif(not COORDINATOR, reason="TREERING_TEST_CITUS names no coordinator of a Citus")


def address(space, **changes):
    """Return the address of a space at the coordinator."""
    server = parse_address(COORDINATOR, named=Path())
    return replace(server, options=(*server.options, ("space", space)), **changes)


@pytest.fixture(scope="module")
def coordinator():
    """The coordinator with the printed plan, run twice; and an ordinary role that writes."""
    treering.open_ledger(address(new_space())).close()
    plan = plan_of(Wanted(writer=ROLE, reader="", tablespaces=(), citus=True))
    server = database_of(parse_address(COORDINATOR, named=Path()))
    with psycopg.connect(server.conninfo, autocommit=True) as connection:
        with suppress(errors.DuplicateObject):
            connection.execute(f"CREATE ROLE {ROLE} LOGIN")
        for _ in range(2):
            connection.execute(plan)
        yield connection


def test_every_table_is_distributed_by_the_space_and_all_are_together(coordinator):
    rows = coordinator.execute("SELECT table_name::text, distribution_column, colocation_id FROM citus_tables")
    found = {name.removeprefix("treering."): (column, group) for name, column, group in rows}
    assert {found[table][0] for table in TABLES} == {"space"}
    assert len({found[table][1] for table in TABLES}) == 1
    assert set(found) == {"space_names", "migrations", *TABLES}


def test_ordinary_role_sees_only_its_space(coordinator):
    spaces = [new_space() for _ in range(4)]
    for space in spaces:
        with treering.open(address(space, user=ROLE), background=False, embedder=HashingEmbedder()) as opened:
            opened.ingest("source", input={"text": f"Bees hum in {space}.", "origin": "bees.md"})
            opened.embed_pending()
    for space in spaces:
        with treering.open(address(space, user=ROLE), background=False, embedder=HashingEmbedder()) as opened:
            hits = opened.query("search", input={"text": "bees"}).hits
            assert [space in hit.text for hit in hits] == [True]
            assert opened.lint("audit").verified


def test_space_is_on_one_server(coordinator):
    space, make = new_space(), Builder(SteppingClock())
    with closing(treering.open_ledger(address(space))) as ledger:
        ledger.commit(make.patch(make.node("Hive")))
        assert ledger.verify().seq == 1
    [number] = coordinator.execute("SELECT space FROM treering.space_names WHERE name = %s", (space,)).fetchone()
    plan = coordinator.execute(f"EXPLAIN (COSTS off) SELECT * FROM treering.audit WHERE space = {number}").fetchall()
    assert any("Task Count: 1" in line for (line,) in plan)


@pytest.fixture
def writers(coordinator, tmp_path):
    """Eight processes that write to two spaces each, which they print; and the spaces."""
    stop = tmp_path / "stop"
    spaces = [(new_space(), new_space()) for _ in range(8)]
    running = []
    for pair in spaces:
        places = [address(space, user=ROLE).url for space in pair]
        command = [sys.executable, str(WRITER), *places, str(stop)]
        running.append(subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True))
    yield running, spaces, stop
    for process in running:
        process.kill()
        process.communicate()


@pytest.mark.skipif(not RESTART, reason="TREERING_TEST_CITUS_RESTART names no command")
def test_cluster_keeps_acknowledged_writes(writers):
    running, spaces, stop = writers
    begun = [process.stdout.readline() for process in running]
    for disturb in (move_shard, restart_worker, move_shard):
        disturb()
        time.sleep(5)
    stop.touch()
    outputs = [process.communicate(timeout=300) for process in running]
    assert [process.returncode for process in running] == [0] * 8, outputs
    for pair, first, (rest, _) in zip(spaces, begun, outputs, strict=True):
        acknowledged = [line.split() for line in (first + rest).splitlines()]
        for place, space in enumerate(pair):
            ids = [source for number, source in acknowledged if int(number) == place]
            with closing(treering.open_ledger(address(space, user=ROLE))) as ledger:
                assert ledger.verify().seq == len(ids)
                assert ledger.heads(ids).keys() == set(ids)


def move_shard():
    """Move one shard of each table, with the spaces in it, to the other worker while it is written to."""
    with psycopg.connect(database_of(parse_address(COORDINATOR, named=Path())).conninfo, autocommit=True) as connection:
        shard = connection.execute(
            "SELECT shardid, s.nodename, s.nodeport, n.nodename, n.nodeport FROM citus_shards s JOIN pg_dist_node n "
            "ON n.noderole = 'primary' AND n.shouldhaveshards AND n.nodeport <> s.nodeport "
            "WHERE table_name = 'treering.spaces'::regclass ORDER BY random() LIMIT 1"
        ).fetchone()
        connection.execute("SELECT citus_move_shard_placement(%s, %s, %s, %s, %s)", shard)


def restart_worker():
    subprocess.run(RESTART, shell=True, check=True, timeout=120)
