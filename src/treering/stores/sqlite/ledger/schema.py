"""The tables of a ledger, as numbered migrations. A file of any older version must open forever."""

from collections.abc import Mapping, Sequence
from contextlib import suppress

import apsw

from treering.core.errors import Corrupt, InvalidInput
from treering.core.objects import Knowledge, Object, parse_object
from treering.core.writing.integrity import references_of
from treering.stores.rows.damage import row_of
from treering.stores.rows.packing import unpack, unpack_json, unpack_object
from treering.stores.sqlite.files import APPLICATION_ID, ARRIVING_ID

REFERRERS = """
CREATE TABLE referrers(
  target TEXT NOT NULL, referrer TEXT NOT NULL, PRIMARY KEY(target, referrer)
) WITHOUT ROWID;
CREATE INDEX referrers_by_referrer ON referrers(referrer);
"""
# Sources refer to nothing, and are the majority of objects.
_BODIES = "SELECT id, body FROM revisions WHERE id NOT LIKE 'src:%'"


def keep_referrer(connection: apsw.Connection, item: Object) -> None:
    """Store the references of a revision. Earlier ones are retained for reads of the past."""
    sql = "INSERT OR IGNORE INTO referrers(target, referrer) VALUES(?, ?)"
    connection.executemany(sql, [(target, item.id) for target in references_of(item)])


def _fill_referrers(connection: apsw.Connection) -> None:
    """Store the references of all revisions of a space of an older version."""
    for identity, body in connection.execute(_BODIES):
        # Damaged rows do not prevent opening a space. They are reported when they are read, and by lint audit.
        with suppress(Corrupt), row_of(identity):
            keep_referrer(connection, parse_object(unpack_json(body)))


_FIRST = """
CREATE TABLE objects(
  id TEXT PRIMARY KEY, type TEXT NOT NULL, kind TEXT NOT NULL, status TEXT NOT NULL, scope TEXT NOT NULL,
  revision INTEGER NOT NULL, title TEXT NOT NULL, channel TEXT NOT NULL,
  created_at TEXT NOT NULL, updated_at TEXT NOT NULL,
  origin TEXT, fingerprint TEXT, slug TEXT, duplicate_key TEXT, claim_key TEXT
) WITHOUT ROWID;
CREATE INDEX objects_by_scope ON objects(scope, type);
CREATE INDEX objects_by_origin ON objects(scope, origin) WHERE origin IS NOT NULL;
CREATE INDEX objects_by_slug ON objects(scope, kind, slug) WHERE slug IS NOT NULL;
CREATE INDEX objects_by_duplicate_key ON objects(duplicate_key) WHERE duplicate_key IS NOT NULL;
CREATE INDEX objects_by_claim_key ON objects(claim_key) WHERE claim_key IS NOT NULL;

CREATE TABLE revisions(
  row INTEGER PRIMARY KEY, id TEXT NOT NULL, revision INTEGER NOT NULL, seq INTEGER NOT NULL, body BLOB NOT NULL
);
CREATE UNIQUE INDEX revisions_by_id ON revisions(id, revision);

CREATE TABLE texts(row INTEGER PRIMARY KEY, hash BLOB NOT NULL UNIQUE, body BLOB NOT NULL);
CREATE TABLE segments(
  source_id TEXT NOT NULL, segment_id TEXT NOT NULL, text_row INTEGER NOT NULL REFERENCES texts(row),
  place BLOB NOT NULL, vanished INTEGER, PRIMARY KEY(source_id, segment_id)
) WITHOUT ROWID;
CREATE INDEX segments_by_text ON segments(text_row);

CREATE TABLE dependencies(
  target TEXT NOT NULL, dependent TEXT NOT NULL, PRIMARY KEY(target, dependent)
) WITHOUT ROWID;
CREATE INDEX dependencies_by_dependent ON dependencies(dependent);

CREATE TABLE links(
  row INTEGER PRIMARY KEY, type TEXT NOT NULL, source TEXT NOT NULL, target TEXT NOT NULL, patch_id TEXT NOT NULL,
  added INTEGER NOT NULL, removed INTEGER
);
CREATE INDEX links_by_source ON links(source, target, type);
CREATE INDEX links_by_target ON links(target);

CREATE TABLE patches(id TEXT PRIMARY KEY, status TEXT NOT NULL, body BLOB NOT NULL) WITHOUT ROWID;
CREATE INDEX patches_by_status ON patches(status, id);
CREATE TABLE receipts(key TEXT PRIMARY KEY, body BLOB NOT NULL) WITHOUT ROWID;

CREATE TABLE audit(
  seq INTEGER PRIMARY KEY, target TEXT NOT NULL, timestamp TEXT NOT NULL, hash TEXT NOT NULL, body BLOB NOT NULL
);
CREATE INDEX audit_by_target ON audit(target, seq);
CREATE INDEX audit_by_time ON audit(timestamp);
"""

# With this version, audit events and patches may have fields that older versions cannot read (the hash of a patch, the
# scope it was made at), and idempotency keys contain their request. Earlier rows are unchanged.
_SECOND = """
CREATE TABLE IF NOT EXISTS overwriting(seq INTEGER PRIMARY KEY, vacuumed INTEGER NOT NULL);
"""

# No table. The log may contain policies, which an older version would ignore; it therefore refuses the space.
_THIRD = ""

# The table of references, filled by `fill_referrers`. Decisions get a claim key (`_give_claim_keys`), because two
# decisions on one question contradict each other. Records and objects may have fields that older versions cannot read
# (operations of an applied patch, disputes, lines of evidence).
_FOURTH = REFERRERS

# No table. New rows are compressed with a dictionary (`rows.packing`), which older versions cannot read. Earlier rows
# are unchanged.
_FIFTH = ""

MIGRATIONS: Sequence[str] = (_FIRST, _SECOND, _THIRD, _FOURTH, _FIFTH)
"""`MIGRATIONS[n]` upgrades a database from version n to n + 1. Append only."""

VERSION = len(MIGRATIONS)
_CLAIMING_DECISIONS = 4
"""From this version on, the rows of decisions have claim keys."""
_WITH_REFERRERS = 4
_OURS = (APPLICATION_ID, ARRIVING_ID)

# Not part of a version: a space without them is only slower, and gets them when it is opened for writing.
_INDEXES: Mapping[str, str] = {
    "objects_by_name": "objects(scope, type, status, title)",
    "objects_by_kind": "objects(kind, status)",
}
# Redundant, because the index above begins with the same columns. A read-only space may still have it.
_NO_LONGER = "DROP INDEX IF EXISTS objects_by_scope"


def is_current(connection: apsw.Connection) -> bool:
    """Return whether this is a space with the current schema."""
    return bool(connection.pragma("application_id") in _OURS and connection.pragma("user_version") == VERSION)


def is_quick(connection: apsw.Connection) -> bool:
    """Return whether the indexes for looking up objects by title and by kind exist."""
    known = {name for (name,) in connection.execute("SELECT name FROM sqlite_schema WHERE type = 'index'")}
    return known.issuperset(_INDEXES)


def migrate(connection: apsw.Connection, path: str) -> None:
    """Upgrade the schema in the open transaction.

    Raises `InvalidInput` for a space of a newer version, `Corrupt` for the database of another program.
    """
    version = connection.pragma("user_version")
    application = connection.pragma("application_id")
    if version > VERSION:
        raise InvalidInput(
            f"{path} was written by a newer Treering (schema {version}; this version supports {VERSION}).",
            hint="Upgrade Treering: pip install --upgrade treering.",
        )
    if application not in (0, *_OURS) or (application == 0 and _has_tables(connection)):
        raise Corrupt(f"{path} is the database of another program.", hint="Choose another file for the space.")
    for script in MIGRATIONS[version:]:
        for statement in filter(str.strip, script.split(";")):
            connection.execute(statement)
    if 0 < version < _CLAIMING_DECISIONS:
        _give_claim_keys(connection)
    if version < _WITH_REFERRERS:
        _fill_referrers(connection)
    for name, columns in _INDEXES.items():
        connection.execute(f"CREATE INDEX IF NOT EXISTS {name} ON {columns}")
    connection.execute(_NO_LONGER)
    connection.pragma("user_version", VERSION)
    if application not in _OURS:
        connection.pragma("application_id", APPLICATION_ID)


def _give_claim_keys(connection: apsw.Connection) -> None:
    sql = (
        "SELECT o.id, r.body FROM objects o JOIN revisions r ON r.id = o.id AND r.revision = o.revision "
        "WHERE o.type = 'knowledge' AND o.kind = 'decision'"
    )
    for identity, body in list(connection.execute(sql)):
        with suppress(Corrupt):  # lint audit reports damaged rows
            item = unpack_object(unpack(body), lambda _: {})
            if isinstance(item, Knowledge):
                connection.execute("UPDATE objects SET claim_key = ? WHERE id = ?", (item.claim_key(), identity))


def _has_tables(connection: apsw.Connection) -> bool:
    return next(connection.execute("SELECT 1 FROM sqlite_schema LIMIT 1"), None) is not None
