"""Spaces on a distributed Postgres, where one is named: `TREERING_TEST_CITUS`, the address of a coordinator.

`postgresql://SUPERUSER@HOST/DATABASE`, with the extension, all workers added, and no tables of Treering yet.
"""

import os
from contextlib import closing
from dataclasses import replace
from pathlib import Path

import psycopg
import pytest
from postgres_spaces import new_space

import treering
from treering.extensions.postgres.connection.schema import TABLES
from treering.extensions.postgres.connection.target import database_of
from treering.extensions.postgres.plan import Wanted, plan_of
from treering.system.address import parse_address
from treering.testing.builders import Builder
from treering.testing.fakes import HashingEmbedder, SteppingClock

COORDINATOR = os.environ.get("TREERING_TEST_CITUS", "")
ROLE = "treering_app"

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
        connection.execute(f"CREATE ROLE {ROLE} LOGIN")
        for _ in range(2):
            connection.execute(plan)
        yield connection


def test_every_table_is_distributed_by_the_space_and_all_lie_together(coordinator):
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


def test_a_space_lies_on_one_server(coordinator):
    space, make = new_space(), Builder(SteppingClock())
    with closing(treering.open_ledger(address(space))) as ledger:
        ledger.commit(make.patch(make.node("Hive")))
        assert ledger.verify().seq == 1
    [number] = coordinator.execute("SELECT space FROM treering.space_names WHERE name = %s", (space,)).fetchone()
    plan = coordinator.execute(f"EXPLAIN (COSTS off) SELECT * FROM treering.audit WHERE space = {number}").fetchall()
    assert any("Task Count: 1" in line for (line,) in plan)
