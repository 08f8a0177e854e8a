"""SQL for an administrator: roles, partitions on several disks, a distributed Postgres."""

from collections.abc import Sequence
from dataclasses import dataclass

from psycopg.sql import Identifier

from treering.core.errors import InvalidInput
from treering.extensions.postgres.access_keys import MADE
from treering.extensions.postgres.access_keys import TABLE as ACCESS_KEYS
from treering.extensions.postgres.connection.schema import PARTITIONS, SCHEMA, TABLES, UNUSED_TABLES

_NAMES = "space_names"
_STEPS = "migrations"
_OPEN = ",".join((_STEPS, ACCESS_KEYS, *UNUSED_TABLES))
"""Tables that belong to no space."""
_SHARDS = 16


@dataclass(frozen=True, slots=True)
class Wanted:
    """The parts of the plan. Roles and tablespaces must exist. A part without a name is left out."""

    writer: str = ""
    """The role of writing programs."""
    reader: str = ""
    """A read-only role, for reports and on a standby."""
    tablespaces: tuple[str, ...] = ()
    citus: bool = False


def plan_of(wanted: Wanted) -> str:
    """Return SQL to run once as the owner of the tables, with comments that explain each part."""
    if wanted.citus and wanted.tablespaces:
        raise InvalidInput(
            "Citus places distributed tables on its servers, so tablespaces cannot be used with --citus.",
            hint="Print one of the two plans.",
        )
    parts = [_BEFORE]
    if wanted.citus:
        parts.append(_distributed())
    if wanted.tablespaces:
        parts.append(_on_disks(wanted.tablespaces))
    if wanted.writer:
        parts.append(_granted(wanted.writer, "writes", "SELECT, INSERT, UPDATE, DELETE", wanted))
        parts.append(_KEYS.format(made=MADE.strip(), table=f"{SCHEMA}.{ACCESS_KEYS}", name=_quoted(wanted.writer)))
    if wanted.reader:
        parts.append(_granted(wanted.reader, "only reads", "SELECT", wanted))
    return "\n\n".join(parts) + "\n"


EXEMPT = f"""SELECT CASE
  WHEN r.rolsuper THEN 'is a superuser'
  WHEN r.rolbypassrls THEN 'has BYPASSRLS'
  WHEN EXISTS (SELECT FROM pg_roles s WHERE (s.rolsuper OR s.rolbypassrls) AND pg_has_role(r.oid, s.oid, 'MEMBER'))
    THEN 'is a member of a superuser, or of a role with BYPASSRLS'
  WHEN EXISTS (
    SELECT FROM pg_class c JOIN pg_namespace n ON n.oid = c.relnamespace WHERE n.nspname = '{SCHEMA}'
      AND (pg_has_role(r.oid, c.relowner, 'MEMBER') OR pg_has_role(r.oid, n.nspowner, 'MEMBER'))
  ) THEN 'owns tables of Treering, or is a member of their owner, and may lift row-level security'
  WHEN EXISTS (
    SELECT FROM pg_class c JOIN pg_namespace n ON n.oid = c.relnamespace WHERE n.nspname = '{SCHEMA}'
      AND c.relkind IN ('r', 'p') AND c.relname <> ALL('{{{_OPEN}}}')
      AND NOT c.relrowsecurity AND has_table_privilege(r.oid, c.oid, 'SELECT')
  ) THEN 'may read a table whose row-level security was disabled'
  ELSE '' END FROM pg_roles r WHERE r.rolname = """  # noqa: S608 - our own names
"""Returns why row-level security does not apply to a role; empty if it does."""

_BEFORE = """\
-- Run this with psql as the owner of the tables, after the first space was opened: that makes them.
-- psql --set ON_ERROR_STOP=1 --file PLAN DATABASE"""


def _granted(role: str, does: str, rights: str, wanted: Wanted) -> str:
    """Return the grants for a role on tables and their partitions, which have the same row-level security."""
    name = _quoted(role)
    tables = ", ".join(f"{SCHEMA}.{table}" for table in (_NAMES, *TABLES))
    on_partitions = _ON_PARTITIONS.format(schema=SCHEMA, rights=rights, literal=f"'{role}'")
    return "\n".join(
        (
            f"-- A role that {does}. Row-level security holds it to the space it has opened; a role that it does not",
            "-- hold is refused here: superusers, the owner of the tables, and their members are for administration.",
            _CHECKED.format(exempt=EXEMPT, literal=f"'{role}'"),
            f"GRANT USAGE ON SCHEMA {SCHEMA} TO {name};",
            f"GRANT SELECT ON {SCHEMA}.{_STEPS} TO {name};",
            f"GRANT {rights} ON {tables} TO {name};",
            *([] if wanted.citus else [on_partitions]),
        )
    )


_KEYS = """\
-- A server with access keys reads them and records their use. Only the owner of the tables makes and revokes keys.
{made}
GRANT SELECT, UPDATE (used) ON {table} TO {name};"""

_ON_PARTITIONS = """\
-- Statements about a space name its partitions. Without these rights they name the tables, which costs the server more.
DO $treering$ DECLARE one regclass; BEGIN
  FOR one IN SELECT i.inhrelid::regclass FROM pg_inherits i JOIN pg_class t ON t.oid = i.inhparent
    WHERE t.relnamespace = '{schema}'::regnamespace AND t.relkind = 'p'
  LOOP EXECUTE format('GRANT {rights} ON %s TO %I', one, {literal}); END LOOP;
END $treering$;"""

_CHECKED = """\
DO $treering$ DECLARE exempt text; BEGIN
  exempt := ({exempt}{literal});
  IF exempt <> '' THEN
    RAISE EXCEPTION USING MESSAGE = format('The role %L %s: spaces are not protected from it.', {literal}, exempt),
      HINT = 'Name a role of its own for programs, which owns nothing: CREATE ROLE name LOGIN.';
  END IF;
END $treering$;"""


def _on_disks(tablespaces: Sequence[str]) -> str:
    """Return SQL that spreads the partitions over tablespaces. Partitions with the same number share a disk."""
    lines = [
        "-- Partitions on several disks: the rows of one space lie on one of them, with their indexes.",
        "-- Each table is locked while it is copied. First make the tablespaces (CREATE TABLESPACE), as a superuser,",
        "-- and grant CREATE on them to the owner of the tables.",
    ]
    for number in range(PARTITIONS):
        place = _quoted(tablespaces[number % len(tablespaces)])
        lines += [f"ALTER TABLE {SCHEMA}.{table}_{number} SET TABLESPACE {place};" for table in TABLES]
        lines.append(_INDEXES_MOVED.format(schema=SCHEMA, number=number, place=place))
    return "\n".join(lines)


_INDEXES_MOVED = """\
DO $$ DECLARE one regclass; BEGIN
  FOR one IN SELECT indexrelid::regclass FROM pg_index i JOIN pg_class c ON c.oid = i.indrelid
    WHERE c.relnamespace = '{schema}'::regnamespace AND c.relkind = 'r' AND c.relname LIKE '%\\_{number}'
  LOOP EXECUTE format('ALTER INDEX %s SET TABLESPACE {place}', one); END LOOP;
END $$;"""


def _distributed() -> str:
    """Return SQL that distributes all tables by space, colocated, and copies the names of spaces to every server."""
    first = next(iter(TABLES))
    together = f", colocate_with => '{SCHEMA}.{first}'"
    lines = [
        _CITUS.replace("{schema}", SCHEMA),
        f"SET citus.shard_count = {_SHARDS};",
        "SET citus.shard_replication_factor = 1;",
        *(_once(table, f"create_reference_table('{SCHEMA}.{table}')") for table in (_NAMES, _STEPS)),
    ]
    for table in TABLES:
        beside = "" if table == first else together
        lines.append(_once(table, f"create_distributed_table('{SCHEMA}.{table}', 'space'{beside})"))
    return "\n".join(lines)


_CITUS = """\
-- A distributed Postgres (Citus). Run this at its coordinator, with all workers added, as the owner of the database,
-- and again after a version of Treering that adds tables.
-- All rows of a space are on one server, in all tables: a commit uses one server.
-- One space is as fast as one server. Programs connect to the coordinator.
DO $$ BEGIN
  IF EXISTS (
    SELECT FROM pg_class c WHERE c.relnamespace = '{schema}'::regnamespace AND c.relkind = 'p'
      AND NOT EXISTS (SELECT FROM pg_dist_partition d WHERE d.logicalrelid = c.oid)
  ) THEN
    RAISE EXCEPTION USING MESSAGE = 'The tables have partitions: they were made before this server loaded Citus.',
      HINT = 'Make a new database with the extension citus, open a space there, run this plan there, '
        'and copy the spaces with treering move.';
  END IF;
END $$;
-- Row-level security on the workers goes by settings of the transaction, which Citus hands on only if it is told to.
-- Without this line a role that is held to row-level security sees no rows at all.
DO $$ BEGIN
  EXECUTE format($q$ALTER DATABASE %I SET citus.propagate_set_commands = 'local'$q$, current_database());
END $$;
SET citus.propagate_set_commands = 'local';
-- A shard is moved, and a worker added, by a subscription of the owner of the tables. Row-level security that is forced
-- on the owner stops it. Programs need a role of their own, which row-level security holds in any case.
DO $$ DECLARE one regclass; BEGIN
  FOR one IN SELECT c.oid FROM pg_class c WHERE c.relnamespace = '{schema}'::regnamespace AND c.relforcerowsecurity
  LOOP EXECUTE format('ALTER TABLE %s NO FORCE ROW LEVEL SECURITY', one); END LOOP;
END $$;"""


def _once(table: str, call: str) -> str:
    """Return a call of a Citus function for a table that is not distributed yet."""
    there = f"SELECT FROM pg_dist_partition WHERE logicalrelid = '{SCHEMA}.{table}'::regclass"
    return f"SELECT {call} WHERE NOT EXISTS ({there});"


def _quoted(name: str) -> str:
    if not name or "\0" in name or "'" in name or "$treering$" in name:
        raise InvalidInput(
            f"{name!r} is not a valid name of a role or tablespace.", hint="Give the name as shown by psql."
        )
    return Identifier(name).as_string()
