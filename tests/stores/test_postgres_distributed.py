"""Tables of a distributed Postgres, on an ordinary server that looks as if it had loaded Citus."""

import psycopg
import pytest
from postgres_spaces import new_space
from psycopg import errors

import treering
from treering.extensions.postgres.connection.schema import TABLES
from treering.extensions.postgres.plan import Wanted, plan_of
from treering.testing.fakes import HashingEmbedder

PLAN = plan_of(Wanted(citus=True))
CITUS = """
CREATE TABLE pg_dist_partition(logicalrelid regclass);
CREATE FUNCTION create_reference_table(relation regclass) RETURNS void LANGUAGE sql
  AS 'INSERT INTO pg_dist_partition VALUES(relation)';
CREATE FUNCTION create_distributed_table(relation regclass, col text, colocate_with text DEFAULT '') RETURNS void
  LANGUAGE sql AS 'INSERT INTO pg_dist_partition VALUES(relation)';
"""
"""Stands for what the plan calls: it shows that the plan is SQL, and what it calls, not what Citus does then."""


@pytest.fixture
def loaded(server, database):
    """A superuser's connection to a database that looks as if its server had loaded Citus."""
    with psycopg.connect(server.url(database, "postgres"), autocommit=True) as connection:
        connection.execute(f"ALTER DATABASE {database} SET citus.shard_count = 16")
        connection.execute(CITUS)
        yield connection


def test_tables_have_no_partitions_where_citus_distributes_them(server, database, loaded):
    with treering.open(server.url(database, space="a"), background=False, embedder=HashingEmbedder()) as space:
        space.ingest("source", input={"text": "Bees hum at noon.", "origin": "bees.md"})
        space.embed_pending()
        for _ in range(2):
            loaded.execute(PLAN)
        assert space.query("search", input={"text": "bees"}).hits
        assert space.lint("audit").verified
    taken = [name for (name,) in loaded.execute("SELECT logicalrelid::text FROM pg_dist_partition")]
    assert sorted(taken) == sorted(f"treering.{table}" for table in ("space_names", "migrations", *TABLES))
    tables = "SELECT count(*) FROM pg_class WHERE relnamespace = 'treering'::regnamespace AND relkind IN ('p', 'r')"
    assert loaded.execute(f"{tables} AND (relkind = 'p' OR relispartition)").fetchone() == (0,)
    assert loaded.execute("SHOW citus.propagate_set_commands").fetchone() == ("local",)


def test_the_same_columns_and_indexes_are_made_with_citus_and_without(server, database, loaded):
    for address in (server.url(database, space="a"), server.url(space=new_space())):
        treering.open_ledger(address).close()
    columns = (
        "SELECT table_name, column_name, data_type, is_nullable FROM information_schema.columns "
        "WHERE table_schema = 'treering' AND table_name !~ '_[0-7]$' ORDER BY 1, 2"
    )
    indexes = (
        "SELECT replace(pg_get_indexdef(indexrelid), ' ON ONLY ', ' ON ') FROM pg_index i JOIN pg_class c "
        "ON c.oid = i.indrelid WHERE c.relnamespace = 'treering'::regnamespace AND NOT c.relispartition ORDER BY 1"
    )
    policies = "SELECT tablename, policyname, qual FROM pg_policies WHERE tablename !~ '_[0-7]$' ORDER BY 1, 2"
    with psycopg.connect(server.url("tests", "postgres")) as plain:
        for sql in (columns, indexes, policies):
            assert loaded.execute(sql).fetchall() == plain.execute(sql).fetchall()


def test_the_plan_for_citus_refuses_tables_that_have_partitions(server, database):
    treering.open_ledger(server.url(database, space="a")).close()
    with psycopg.connect(server.url(database, "postgres"), autocommit=True) as connection:
        connection.execute(CITUS)
        with pytest.raises(errors.RaiseException, match="partitions") as caught:
            connection.execute(PLAN)
        assert "treering move" in caught.value.diag.message_hint
        assert connection.execute("SELECT count(*) FROM pg_dist_partition").fetchone() == (0,)
