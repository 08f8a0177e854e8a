"""The tables of a database that holds spaces, by numbered versions, made by `migrating` in steps that resume.

Every table but the names of spaces and the directory of servers is keyed by the space first and partitioned by its
hash, so that partitions may lie on several disks, and a distributed Postgres can carry them. Row-level security shows a
session the rows of one space only (`space.PostgresSpace` names it in each transaction); the owner of the tables is held
to it, too. Superusers and roles with BYPASSRLS are not.
"""

from collections.abc import Sequence

from treering.edges.stores.postgres.directory_schema import DIRECTORY_STEP, MARK_STEP
from treering.edges.stores.postgres.index_schema import INDEX_INDEXES, INDEX_TABLES

SCHEMA = "treering"
PARTITIONS = 8

_TEXT = 'text COLLATE "C"'

_LEDGER_TABLES = {
    # The row is the lock of a space's writers; what it says of the end of the audit log saves them reading it there.
    "spaces": (
        f"space bigint PRIMARY KEY, sequence bigint NOT NULL, hash {_TEXT} NOT NULL, last_time {_TEXT}, "
        "policy_seq bigint, policy bytea"
    ),
    "objects": (
        f"space bigint NOT NULL, id {_TEXT} NOT NULL, type {_TEXT} NOT NULL, kind {_TEXT} NOT NULL, "
        f"status {_TEXT} NOT NULL, scope {_TEXT} NOT NULL, revision integer NOT NULL, title {_TEXT} NOT NULL, "
        f"channel {_TEXT} NOT NULL, created_at {_TEXT} NOT NULL, updated_at {_TEXT} NOT NULL, origin {_TEXT}, "
        f"fingerprint {_TEXT}, slug {_TEXT}, duplicate_key {_TEXT}, claim_key {_TEXT}, PRIMARY KEY(space, id)"
    ),
    "revisions": (
        f"space bigint NOT NULL, id {_TEXT} NOT NULL, revision integer NOT NULL, seq bigint NOT NULL, "
        "body bytea NOT NULL, PRIMARY KEY(space, id, revision)"
    ),
    "texts": "space bigint NOT NULL, hash bytea NOT NULL, body bytea NOT NULL, PRIMARY KEY(space, hash)",
    "segments": (
        f"space bigint NOT NULL, source_id {_TEXT} NOT NULL, segment_id {_TEXT} NOT NULL, hash bytea NOT NULL, "
        "place bytea NOT NULL, vanished integer, PRIMARY KEY(space, source_id, segment_id)"
    ),
    "dependencies": (
        f"space bigint NOT NULL, target {_TEXT} NOT NULL, dependent {_TEXT} NOT NULL, "
        "PRIMARY KEY(space, target, dependent)"
    ),
    "referrers": (
        f"space bigint NOT NULL, target {_TEXT} NOT NULL, referrer {_TEXT} NOT NULL, "
        "PRIMARY KEY(space, target, referrer)"
    ),
    "links": (
        f"space bigint NOT NULL, type {_TEXT} NOT NULL, source {_TEXT} NOT NULL, target {_TEXT} NOT NULL, "
        f"patch_id {_TEXT} NOT NULL, added bigint NOT NULL, removed bigint, PRIMARY KEY(space, added)"
    ),
    "patches": (
        f"space bigint NOT NULL, id {_TEXT} NOT NULL, status {_TEXT} NOT NULL, body bytea NOT NULL, "
        "PRIMARY KEY(space, id)"
    ),
    "receipts": (
        f"space bigint NOT NULL, hash bytea NOT NULL, key {_TEXT} NOT NULL, body bytea NOT NULL, "
        "PRIMARY KEY(space, hash)"
    ),
    "audit": (
        f"space bigint NOT NULL, seq bigint NOT NULL, target {_TEXT} NOT NULL, timestamp {_TEXT} NOT NULL, "
        f"hash {_TEXT} NOT NULL, body bytea NOT NULL, PRIMARY KEY(space, seq)"
    ),
    "jobs": (
        f"space bigint NOT NULL, id {_TEXT} NOT NULL, number bigint NOT NULL, body bytea NOT NULL, "
        "PRIMARY KEY(space, id)"
    ),
    "leases": (
        f"space bigint NOT NULL, name {_TEXT} NOT NULL, owner {_TEXT} NOT NULL, process bigint NOT NULL, "
        "renewed double precision NOT NULL, seconds double precision NOT NULL, PRIMARY KEY(space, name)"
    ),
}

_INDEXES = """
CREATE INDEX objects_by_name ON {schema}.objects(space, left(scope, 256), type, status, left(title, 200));
CREATE INDEX objects_by_origin ON {schema}.objects(space, left(scope, 256), left(origin, 300)) WHERE origin IS NOT NULL;
CREATE INDEX objects_by_slug ON {schema}.objects(space, left(scope, 256), kind, left(slug, 200)) WHERE slug IS NOT NULL;
CREATE INDEX objects_by_duplicate_key ON {schema}.objects(space, duplicate_key) WHERE duplicate_key IS NOT NULL;
CREATE INDEX objects_by_claim_key ON {schema}.objects(space, claim_key) WHERE claim_key IS NOT NULL;
CREATE INDEX segments_by_text ON {schema}.segments(space, hash);
CREATE INDEX dependencies_by_dependent ON {schema}.dependencies(space, dependent);
CREATE INDEX referrers_by_referrer ON {schema}.referrers(space, referrer);
CREATE INDEX links_by_source ON {schema}.links(space, source);
CREATE INDEX links_by_target ON {schema}.links(space, target);
CREATE INDEX patches_by_status ON {schema}.patches(space, status, id);
CREATE INDEX receipts_by_key ON {schema}.receipts(space, left(key, 200));
CREATE INDEX audit_by_target ON {schema}.audit(space, target, seq);
CREATE INDEX audit_by_time ON {schema}.audit(space, timestamp);
"""

_DIRECTORY = f"""
CREATE TABLE {{schema}}.space_names(
  name {_TEXT} PRIMARY KEY, space bigint NOT NULL UNIQUE GENERATED ALWAYS AS IDENTITY
);
{{fence_names}}
"""


def _fence(table: str, seen: str) -> str:
    """Write what shows a session only the rows that `seen` is true of. The owner of a table is not an exception."""
    return (
        f"ALTER TABLE {SCHEMA}.{table} ENABLE ROW LEVEL SECURITY; "
        f"ALTER TABLE {SCHEMA}.{table} FORCE ROW LEVEL SECURITY; "
        f"CREATE POLICY own_space ON {SCHEMA}.{table} USING ({seen});"
    )


def _partitioned(table: str, columns: str) -> str:
    """Write a table with its partitions. Each has the fence: one that is read by its own name passes its parent's."""
    seen = "space = nullif(current_setting('treering.space', true), '')::bigint"
    lines = [f"CREATE TABLE {SCHEMA}.{table}({columns}) PARTITION BY HASH (space);", _fence(table, seen)]
    for number in range(PARTITIONS):
        part = f"{table}_{number}"
        lines.append(
            f"CREATE TABLE {SCHEMA}.{part} PARTITION OF {SCHEMA}.{table} "
            f"FOR VALUES WITH (MODULUS {PARTITIONS}, REMAINDER {number});"
        )
        lines.append(_fence(part, seen))
    return "\n".join(lines)


def _same_rights(table: str, *, like: str) -> str:
    """Write what gives roles the rights on a new table that they have on another one."""
    return f"""
DO $$ DECLARE one record; BEGIN
  FOR one IN SELECT grantee, privilege_type FROM information_schema.role_table_grants
    WHERE table_schema = '{SCHEMA}' AND table_name = '{like}' AND grantee <> current_user
      AND privilege_type IN ('SELECT', 'INSERT', 'UPDATE', 'DELETE')
  LOOP
    EXECUTE format('GRANT %s ON {SCHEMA}.{table} TO %s', one.privilege_type,
      CASE one.grantee WHEN 'PUBLIC' THEN 'PUBLIC' ELSE quote_ident(one.grantee) END);
  END LOOP;
END $$;"""  # noqa: S608 - our own names


_FIRST: Sequence[str] = (
    _DIRECTORY.format(
        schema=SCHEMA, fence_names=_fence("space_names", "name = current_setting('treering.space_name', true)")
    ),
    *(_partitioned(table, columns) for table, columns in _LEDGER_TABLES.items()),
    _INDEXES.format(schema=SCHEMA),
)

_INDEX: Sequence[str] = (
    *(_partitioned(table, columns) for table, columns in INDEX_TABLES.items()),
    INDEX_INDEXES.format(schema=SCHEMA),
)

_WORK_TABLES = {
    # Who is at it, and until when, in the server's seconds since 1970.
    "promised_work": (
        f"space bigint NOT NULL, kind {_TEXT} NOT NULL, key {_TEXT} NOT NULL, promised double precision NOT NULL, "
        f"times bigint NOT NULL, claimant {_TEXT} NOT NULL, claimed_until double precision NOT NULL, "
        "PRIMARY KEY(space, kind, key)"
    ),
}

TABLES = (*_LEDGER_TABLES, *INDEX_TABLES, *_WORK_TABLES)
"""All tables that are keyed by a space."""

QUEUES = ("vector_queue", "waiting_objects", "promised_work")
"""Tables whose rows say that a space has work waiting."""

FINDING = "treering.finding_work"
"""The setting with which a session sees the queues of all spaces (`waiting_spaces`)."""

_FOUND = (
    "CREATE POLICY found_by_workers ON {schema}.{table} FOR SELECT USING (current_setting('{setting}', true) = 'on');"
)

_WORK: Sequence[str] = (
    # Defaults that are constants rewrite no row.
    f"ALTER TABLE {SCHEMA}.vector_queue ADD COLUMN claimant {_TEXT} NOT NULL DEFAULT '', "
    "ADD COLUMN claimed_until double precision NOT NULL DEFAULT 0;",
    *(_partitioned(table, columns) for table, columns in _WORK_TABLES.items()),
    _same_rights("promised_work", like="jobs"),
    "\n".join(_FOUND.format(schema=SCHEMA, table=table, setting=FINDING) for table in ("space_names", *QUEUES)),
)

_ENGINE: Sequence[str] = (f"ALTER TABLE {SCHEMA}.spaces ADD COLUMN engine {_TEXT}",)

_SERVERS: Sequence[str] = (MARK_STEP.format(schema=SCHEMA), DIRECTORY_STEP.format(schema=SCHEMA))

Versions = Sequence[Sequence[str]]

VERSIONS: Versions = (_FIRST, _INDEX, _WORK, _ENGINE, _SERVERS)
"""`VERSIONS[n]` takes a database from version n to n + 1, in steps of one transaction each. Never edited, only
appended to."""
