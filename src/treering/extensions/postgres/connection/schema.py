"""The tables of a database for spaces, as numbered versions. `migrating` applies them in steps that can be resumed.

The key of every table except the names of spaces begins with the space, and the tables are partitioned by its hash, so
that partitions may be on several disks. A distributed Postgres distributes the tables itself; there they have no
partitions. Row-level security shows a session the rows of one space only (`space.PostgresSpace` sets it in each
transaction), also to the owner of the tables. It does not apply to superusers and roles with BYPASSRLS.
"""

import re
import time
from collections.abc import Callable, Iterator, Sequence
from functools import lru_cache

import psycopg
from psycopg import errors

from treering.core.errors import InvalidInput

_TEXT = 'text COLLATE "C"'

UNUSED_TABLES = ("servers", "placements", "membership")
"""Tables of databases of earlier versions, which shared spaces between servers. They may contain the server of one."""

INDEX_TABLES = {
    # Numbers in the state of the index, by name (`index.index_state`).
    "index_state": f"space bigint NOT NULL, name {_TEXT} NOT NULL, value bigint NOT NULL, PRIMARY KEY(space, name)",
    "passage_scopes": (f"space bigint NOT NULL, id integer NOT NULL, scope {_TEXT} NOT NULL, PRIMARY KEY(space, id)"),
    # A row is the state of a passage from `from_seq` until before `until_seq`. A change adds a row, except that
    # `updated_at`, `position` (in the object) and metadata are updated in place. `terms` and `trigrams`: the lengths
    # for ranking by words and by names.
    "passages": (
        f"space bigint NOT NULL, key bigint NOT NULL, object_id {_TEXT} NOT NULL, part {_TEXT} NOT NULL, "
        f"position integer NOT NULL, type {_TEXT} NOT NULL, kind {_TEXT} NOT NULL, status {_TEXT} NOT NULL, "
        f"scope_id integer NOT NULL, role {_TEXT} NOT NULL, title {_TEXT} NOT NULL, heading {_TEXT} NOT NULL, "
        f"origin {_TEXT}, channel {_TEXT} NOT NULL, created_at {_TEXT} NOT NULL, updated_at {_TEXT} NOT NULL, "
        "live boolean NOT NULL, text_id bigint NOT NULL, from_seq bigint NOT NULL, until_seq bigint, "
        f"place_role {_TEXT} NOT NULL, metadata jsonb NOT NULL, terms integer NOT NULL, trigrams integer NOT NULL, "
        "PRIMARY KEY(space, key)"
    ),
    # The packed full text of a passage, for phrases, parts of names, and rebuilding postings.
    "passage_words": (
        "space bigint NOT NULL, key bigint NOT NULL, words bytea NOT NULL, names bytea NOT NULL, "
        "PRIMARY KEY(space, key)"
    ),
    # Postings of runs of passages (`index.words`): of words (kind 0) and of trigrams of names (kind 1).
    "posting_runs": (
        "space bigint NOT NULL, run bigint NOT NULL, first bigint NOT NULL, last bigint NOT NULL, "
        "passages integer NOT NULL, word_buckets integer NOT NULL, name_buckets integer NOT NULL, "
        "PRIMARY KEY(space, run)"
    ),
    "postings": (
        "space bigint NOT NULL, run bigint NOT NULL, kind smallint NOT NULL, bucket integer NOT NULL, "
        "body bytea NOT NULL, PRIMARY KEY(space, run, kind, bucket)"
    ),
    # Reversed last characters of titles, headings and origins, so that "ends with" is a range in an index.
    "passage_endings": (
        f"space bigint NOT NULL, ending {_TEXT} NOT NULL, key bigint NOT NULL, PRIMARY KEY(space, ending, key)"
    ),
    # Periods of days on which a turn was written or that it mentions, as ordinals of Python.
    "passage_days": (
        "space bigint NOT NULL, key bigint NOT NULL, first integer NOT NULL, last integer NOT NULL, "
        "PRIMARY KEY(space, key, first, last)"
    ),
    # The current passages that define, import or use a name of code, by its number (`retrieval.index.code_names`).
    "code_names": "space bigint NOT NULL, name bigint NOT NULL, key bigint NOT NULL, PRIMARY KEY(space, name, key)",
    # The names in the ties of current passages. `digest`: of the name, which may be longer than an index entry. Numbers
    # of deleted names are never used again, because a table in memory may contain them.
    "graph_nodes": (
        "space bigint NOT NULL, id bigint NOT NULL, digest bytea NOT NULL, name bytea NOT NULL, "
        "passages integer NOT NULL, PRIMARY KEY(space, id)"
    ),
    # The ties of each passage, as packed by `retrieval.index.ties`.
    "graph_passages": "space bigint NOT NULL, key bigint NOT NULL, body bytea NOT NULL, PRIMARY KEY(space, key)",
    # A text exists as long as any passage has it, current or not. Its vectors are deleted with it.
    "passage_texts": "space bigint NOT NULL, id bigint NOT NULL, hash bytea NOT NULL, PRIMARY KEY(space, id)",
    "passage_models": (
        f"space bigint NOT NULL, id integer NOT NULL, name {_TEXT} NOT NULL, dimension integer NOT NULL, "
        "PRIMARY KEY(space, id)"
    ),
    "passage_vectors": (
        "space bigint NOT NULL, text_id bigint NOT NULL, model_id integer NOT NULL, vector bytea NOT NULL, "
        "digest bytea NOT NULL, PRIMARY KEY(space, text_id, model_id)"
    ),
    "vector_queue": (
        "space bigint NOT NULL, model_id integer NOT NULL, text_id bigint NOT NULL, priority integer NOT NULL, "
        "PRIMARY KEY(space, model_id, text_id)"
    ),
    # Passages that were added or removed or got a vector, for tables in memory.
    "vector_log": "space bigint NOT NULL, position bigint NOT NULL, key bigint NOT NULL, PRIMARY KEY(space, position)",
    # Queued objects and their texts. Vectors are retained as long as one of the objects has the text.
    "waiting_objects": f"space bigint NOT NULL, object_id {_TEXT} NOT NULL, PRIMARY KEY(space, object_id)",
    "waiting_texts": (
        f"space bigint NOT NULL, object_id {_TEXT} NOT NULL, text_id bigint NOT NULL, "
        "PRIMARY KEY(space, object_id, text_id)"
    ),
}

INDEX_INDEXES = """
CREATE INDEX passages_by_object ON {schema}.passages(space, object_id, position);
CREATE INDEX passages_by_part ON {schema}.passages(space, part) WHERE part <> '';
CREATE INDEX passages_by_text ON {schema}.passages(space, text_id);
CREATE UNIQUE INDEX passage_texts_by_hash ON {schema}.passage_texts(space, hash);
CREATE UNIQUE INDEX graph_nodes_by_digest ON {schema}.graph_nodes(space, digest);
CREATE INDEX passage_days_by_first ON {schema}.passage_days(space, first, last);
CREATE INDEX vector_queue_by_priority ON {schema}.vector_queue(space, model_id, priority, text_id);
CREATE INDEX waiting_texts_by_text ON {schema}.waiting_texts(space, text_id);
"""


SCHEMA = "treering"
PARTITIONS = 8
IS_DISTRIBUTED = "current_setting('citus.shard_count', true) IS NOT NULL"
"""Whether the server has loaded Citus."""


_LEDGER_TABLES = {
    # The row is the lock for writers. It also contains the end of the audit log, which they need.
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

_SPACE_NAMES = f"""
CREATE TABLE {{schema}}.space_names(
  name {_TEXT} PRIMARY KEY, space bigint NOT NULL UNIQUE GENERATED ALWAYS AS IDENTITY
);
{{fence_names}}
"""


_OWN, _FOUND_BY = "own_space", "found_by_workers"
POLICIES = (_OWN, _FOUND_BY)
"""The names of our policies of row-level security."""


def _fence(table: str, seen: str) -> str:
    """Return SQL that shows a session only the rows for which `seen` is true, also to the owner of the table."""
    return (
        f"ALTER TABLE {SCHEMA}.{table} ENABLE ROW LEVEL SECURITY; "
        f"ALTER TABLE {SCHEMA}.{table} FORCE ROW LEVEL SECURITY; "
        f"CREATE POLICY {_OWN} ON {SCHEMA}.{table} USING ({seen});"
    )


_OWN_ROWS = "space = nullif(current_setting('treering.space', true), '')::bigint"


def _whole(table: str, columns: str) -> str:
    """Return SQL for a table without partitions."""
    return f"CREATE TABLE {SCHEMA}.{table}({columns});\n{_fence(table, _OWN_ROWS)}"


def _partitioned(table: str, columns: str) -> str:
    """Return SQL for a table with partitions. Each has policies, because reading it bypasses those of the table."""
    lines = [f"CREATE TABLE {SCHEMA}.{table}({columns}) PARTITION BY HASH (space);", _fence(table, _OWN_ROWS)]
    for number in range(PARTITIONS):
        part = f"{table}_{number}"
        lines.append(
            f"CREATE TABLE {SCHEMA}.{part} PARTITION OF {SCHEMA}.{table} "
            f"FOR VALUES WITH (MODULUS {PARTITIONS}, REMAINDER {number});"
        )
        lines.append(_fence(part, _OWN_ROWS))
    return "\n".join(lines)


def _same_rights(table: str, *, like: str) -> str:
    """Return SQL that copies the rights of roles from another table."""
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


_WORK_TABLES = {
    # The claimant, and the end of the claim in server seconds since 1970.
    "promised_work": (
        f"space bigint NOT NULL, kind {_TEXT} NOT NULL, key {_TEXT} NOT NULL, promised double precision NOT NULL, "
        f"times bigint NOT NULL, claimant {_TEXT} NOT NULL, claimed_until double precision NOT NULL, "
        "PRIMARY KEY(space, kind, key)"
    ),
}

TABLES = (*_LEDGER_TABLES, *INDEX_TABLES, *_WORK_TABLES)
"""All tables whose key begins with the space."""

_NAMED = re.compile(rf"\b(FROM|JOIN|INTO|UPDATE)(\s+)({'|'.join(TABLES)})\b(\s*\()?")


@lru_cache(maxsize=2_000)
def in_partition(sql: str, number: int) -> str:
    """Return SQL with the names of partitions in place of their tables.

    For a table, the server locks all partitions, and determines the partition for each statement and inserted row,
    which is a fifth of the cost of a note.
    """
    return _NAMED.sub(lambda found: _named(number, *found.groups("")), sql)


def _named(number: int, word: str, between: str, table: str, columns: str) -> str:
    # The target of an insert keeps its name, because `ON CONFLICT` refers to it.
    named = f" AS {table}" if word == "INTO" else ""
    return f"{word}{between}{table}_{number}{named}{columns}"


QUEUES = ("vector_queue", "waiting_objects", "promised_work")
"""Tables with rows for waiting work of a space."""

FINDING = "treering.finding_work"
"""The setting that shows a session the queues of all spaces (`waiting_spaces`)."""

_FOUND = (
    f"CREATE POLICY {_FOUND_BY} ON {{schema}}.{{table}} FOR SELECT USING (current_setting('{{setting}}', true) = 'on');"
)

_ENGINE: Sequence[str] = (f"ALTER TABLE {SCHEMA}.spaces ADD COLUMN engine {_TEXT}",)

_MARK: Sequence[str] = (f"ALTER TABLE {SCHEMA}.spaces ADD COLUMN moving {_TEXT}",)
"""`spaces.moving` is set if this database does not serve the space (`primary.refusal`)."""

_INDEXED_BYTES = 2_000  # the limit of an index entry is 2,704
_BYTES_OF_NAMES = (
    "octet_length(scope) + octet_length(title) + octet_length(coalesce(origin, '')) + octet_length(coalesce(slug, ''))"
)
NAMED_BRIEFLY, NAMED_AT_LENGTH = f"{_BYTES_OF_NAMES} <= {_INDEXED_BYTES}", f"{_BYTES_OF_NAMES} > {_INDEXED_BYTES}"
"""The objects whose names are indexed; the few others are scanned."""
BRIEF_KEY, LONG_KEY = f"octet_length(key) <= {_INDEXED_BYTES}", f"octet_length(key) > {_INDEXED_BYTES}"
"""The same for idempotency keys."""

# With row-level security, indexes are used only for leakproof comparisons of columns. `left(origin, 300)`, as in the
# first version, is not leakproof, so that all objects of a space would be read.
_NAMES: Sequence[str] = (
    f"DROP INDEX {SCHEMA}.objects_by_name; CREATE INDEX objects_by_name "
    f"ON {SCHEMA}.objects(space, scope, type, status, title) WHERE {NAMED_BRIEFLY};",
    f"DROP INDEX {SCHEMA}.objects_by_origin; CREATE INDEX objects_by_origin "
    f"ON {SCHEMA}.objects(space, origin, scope) WHERE {NAMED_BRIEFLY} AND origin IS NOT NULL;",
    f"DROP INDEX {SCHEMA}.objects_by_slug; CREATE INDEX objects_by_slug "
    f"ON {SCHEMA}.objects(space, slug, scope, kind) WHERE {NAMED_BRIEFLY} AND slug IS NOT NULL;",
    f"CREATE INDEX objects_named_at_length ON {SCHEMA}.objects(space, id) WHERE {NAMED_AT_LENGTH};",
    f"DROP INDEX {SCHEMA}.receipts_by_key; CREATE INDEX receipts_by_key "
    f"ON {SCHEMA}.receipts(space, key) WHERE {BRIEF_KEY};",
    f"CREATE INDEX receipts_by_long_key ON {SCHEMA}.receipts(space, hash) WHERE {LONG_KEY};",
    f"CREATE INDEX jobs_by_number ON {SCHEMA}.jobs(space, number);",
)

# In the order of embedding: by priority, then the newest first.
_QUEUE: Sequence[str] = (
    f"DROP INDEX {SCHEMA}.vector_queue_by_priority; CREATE INDEX vector_queue_by_priority "
    f"ON {SCHEMA}.vector_queue(space, model_id, priority, text_id DESC);",
)

Versions = Sequence[Sequence[str]]


def _versions(write: Callable[[str, str], str]) -> Versions:
    """Return all versions. `write`: returns SQL for a table with a space, from its name and columns."""
    names = _fence("space_names", "name = current_setting('treering.space_name', true)")
    first = (
        _SPACE_NAMES.format(schema=SCHEMA, fence_names=names),
        *(write(table, columns) for table, columns in _LEDGER_TABLES.items()),
        _INDEXES.format(schema=SCHEMA),
    )
    index = (
        *(write(table, columns) for table, columns in INDEX_TABLES.items()),
        INDEX_INDEXES.format(schema=SCHEMA),
    )
    work = (
        # Constant defaults do not rewrite rows.
        f"ALTER TABLE {SCHEMA}.vector_queue ADD COLUMN claimant {_TEXT} NOT NULL DEFAULT '', "
        "ADD COLUMN claimed_until double precision NOT NULL DEFAULT 0;",
        *(write(table, columns) for table, columns in _WORK_TABLES.items()),
        _same_rights("promised_work", like="jobs"),
        "\n".join(_FOUND.format(schema=SCHEMA, table=table, setting=FINDING) for table in ("space_names", *QUEUES)),
    )
    return first, index, work, _ENGINE, _MARK, _NAMES, _QUEUE


VERSIONS = _versions(_partitioned)
"""`VERSIONS[n]` upgrades a database from version n to n + 1, in steps of one transaction each. Append only."""

_DISTRIBUTED_VERSIONS = _versions(_whole)
"""The same steps for a distributed Postgres, where each partition would be a distributed table with its own shards."""


_TURN = f"SELECT pg_advisory_xact_lock({0x7472_6565_7269_6E67})"
"""Waits for the migrations of other processes. Until the end of the transaction: poolers change the session then."""
_LOCK_MS = 300
_PAUSE_SECONDS = 0.3
_ATTEMPTS = 100


def is_current(connection: psycopg.Connection, versions: Versions = VERSIONS) -> bool:
    """Return whether the database has all steps of all versions. Raises `InvalidInput` for a newer database."""
    return next(_pending_steps(versions, _done(connection)), None) is None


def migrate(connection: psycopg.Connection, versions: Versions | None = None) -> None:
    """Apply the missing steps, each in its own transaction.

    One process applies them, and others wait. After an interruption, the next process continues. Spaces remain usable:
    a step that finds a table in use lets others go first and tries again. Raises `InvalidInput` for a database of a
    newer version, `psycopg.errors.LockNotAvailable` if a table is in use for very long. `connection` must not be in a
    transaction.
    """
    versions = versions or (_DISTRIBUTED_VERSIONS if is_distributed(connection) else VERSIONS)
    with connection.transaction():
        connection.execute(_TURN)
        connection.execute(f"CREATE SCHEMA IF NOT EXISTS {SCHEMA}")
        connection.execute(
            f"CREATE TABLE IF NOT EXISTS {SCHEMA}.migrations(version integer, step integer, PRIMARY KEY(version, step))"
        )
    for version, step in list(_pending_steps(versions, _done(connection))):
        _make(connection, versions[version - 1][step - 1], version, step)


def is_distributed(connection: psycopg.Connection) -> bool:
    """Return whether the server has loaded Citus."""
    row = connection.execute(f"SELECT {IS_DISTRIBUTED}").fetchone()
    return bool(row and row[0])


def _make(connection: psycopg.Connection, sql: str, version: int, step: int) -> None:
    """Apply a step, unless another process did. It waits for locks briefly, because a waiting lock blocks others."""
    for attempt in range(1, _ATTEMPTS + 1):
        try:
            with connection.transaction():
                connection.execute(_TURN)
                if (version, step) in _done(connection):
                    return
                connection.execute(f"SET LOCAL lock_timeout = '{_LOCK_MS}ms'")
                connection.execute(sql)
                noted = f"INSERT INTO {SCHEMA}.migrations(version, step) VALUES(%s, %s)"
                connection.execute(noted, (version, step))
        except errors.LockNotAvailable:
            if attempt == _ATTEMPTS:
                raise
            time.sleep(_PAUSE_SECONDS)
        else:
            return


def _done(connection: psycopg.Connection) -> set[tuple[int, int]]:
    try:
        rows = connection.execute(f"SELECT version, step FROM {SCHEMA}.migrations").fetchall()  # noqa: S608 - our own name
    except (errors.UndefinedTable, errors.InvalidSchemaName):
        return set()
    return {(version, step) for version, step in rows}


def _pending_steps(versions: Versions, done: set[tuple[int, int]]) -> Iterator[tuple[int, int]]:
    """Return the version and step of the missing steps, in order."""
    newest = max((version for version, _ in done), default=0)
    if newest > len(versions):
        raise InvalidInput(
            f"The database was written by a newer Treering (schema {newest}; this version supports {len(versions)}).",
            hint="Upgrade Treering: pip install --upgrade treering.",
        )
    for version, steps in enumerate(versions, start=1):
        yield from ((version, step) for step in range(1, len(steps) + 1) if (version, step) not in done)
