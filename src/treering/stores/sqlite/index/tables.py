"""The tables of the index. All of them except vectors and jobs can be rebuilt from the ledger."""

import re
from functools import partial

import apsw

from treering.stores.rows import upkeep
from treering.stores.rows.upkeep import SHOWN
from treering.stores.sqlite.reading import read_state, write_state

WORD_TOKENIZER = "ascii tokenchars '_'"
"""FTS5 tokenizer that splits the output of `index_text` only at spaces."""

IDENTIFIER_TOKENIZER = "trigram"
"""FTS5 tokenizer for `identifier_text`. Finds any substring of three or more characters, ignoring case."""

PROJECTION_VERSION = 9
"""Incremented when tables, passages or the analysis of text change. An older space is rebuilt when it is opened."""

WORDS = "passage_words"
WORDS_HISTORY = "passage_words_history"
NAMES = "passage_names"
NAMES_HISTORY = "passage_names_history"
FULL_TEXT = (WORDS, WORDS_HISTORY, NAMES, NAMES_HISTORY)


def _words(name: str) -> str:
    return (
        f"CREATE VIRTUAL TABLE IF NOT EXISTS {name} USING fts5(title, heading, body, scope, "
        f"content='', contentless_delete=1, tokenize=\"{WORD_TOKENIZER}\")"
    )


def _names(name: str) -> str:
    return (
        f"CREATE VIRTUAL TABLE IF NOT EXISTS {name} USING fts5(name, "
        f"content='', contentless_delete=1, tokenize='{IDENTIFIER_TOKENIZER}')"
    )


JOBS = "CREATE TABLE IF NOT EXISTS jobs(row INTEGER PRIMARY KEY, id TEXT NOT NULL UNIQUE, body BLOB NOT NULL)"

KEPT: tuple[str, ...] = (
    "CREATE TABLE IF NOT EXISTS index_state(name TEXT PRIMARY KEY, value INTEGER NOT NULL) WITHOUT ROWID",
    # A text exists as long as any passage has it, current or not. Its vectors are deleted with it.
    "CREATE TABLE IF NOT EXISTS passage_texts(id INTEGER PRIMARY KEY, hash BLOB NOT NULL UNIQUE)",
    """CREATE TABLE IF NOT EXISTS passage_models(
         id INTEGER PRIMARY KEY, name TEXT NOT NULL, dimension INTEGER NOT NULL, UNIQUE(name, dimension))""",
    # `digest`: of the vector, its text and its model (`rows.vectors`). Added to spaces of older versions on a write.
    """CREATE TABLE IF NOT EXISTS passage_vectors(
         key INTEGER PRIMARY KEY, model_id INTEGER NOT NULL, text_id INTEGER NOT NULL, vector BLOB NOT NULL,
         digest BLOB)""",
    "CREATE UNIQUE INDEX IF NOT EXISTS passage_vectors_by_text ON passage_vectors(text_id, model_id)",
    """CREATE TABLE IF NOT EXISTS vector_queue(
         model_id INTEGER NOT NULL, text_id INTEGER NOT NULL, priority INTEGER NOT NULL,
         PRIMARY KEY(model_id, text_id)) WITHOUT ROWID""",
    "CREATE INDEX IF NOT EXISTS vector_queue_by_priority ON vector_queue(model_id, priority, text_id)",
    # Passages whose vectors changed, for tables in memory of other connections.
    "CREATE TABLE IF NOT EXISTS vector_log(position INTEGER PRIMARY KEY AUTOINCREMENT, key INTEGER NOT NULL)",
    # `renewed`: seconds on the monotonic clock of the machine. (`leases`, of older versions, contained times of day.)
    """CREATE TABLE IF NOT EXISTS held_leases(
         name TEXT PRIMARY KEY, owner TEXT NOT NULL, process INTEGER NOT NULL, renewed REAL NOT NULL,
         seconds REAL NOT NULL) WITHOUT ROWID""",
    JOBS,
)
"""Tables that a rebuild retains."""

REBUILT: tuple[str, ...] = (
    "CREATE TABLE IF NOT EXISTS passage_scopes(id INTEGER PRIMARY KEY, scope TEXT NOT NULL UNIQUE)",
    # A row is the state of a passage from `from_seq` until before `until_seq`. A change adds a row, except that
    # `updated_at`, `position` (in the object) and metadata are updated in place.
    """CREATE TABLE IF NOT EXISTS passages(
         key INTEGER PRIMARY KEY, object_id TEXT NOT NULL, part TEXT NOT NULL, position INTEGER NOT NULL,
         type TEXT NOT NULL, kind TEXT NOT NULL, status TEXT NOT NULL, scope_id INTEGER NOT NULL,
         role TEXT NOT NULL, title TEXT NOT NULL, heading TEXT NOT NULL, origin TEXT, channel TEXT NOT NULL,
         created_at TEXT NOT NULL, updated_at TEXT NOT NULL, live INTEGER NOT NULL, text_id INTEGER NOT NULL,
         from_seq INTEGER NOT NULL, until_seq INTEGER, place_role TEXT NOT NULL)""",
    "CREATE INDEX IF NOT EXISTS passages_by_object ON passages(object_id, position)",
    "CREATE INDEX IF NOT EXISTS passages_by_part ON passages(part) WHERE part <> ''",
    "CREATE INDEX IF NOT EXISTS passages_by_text ON passages(text_id)",
    # Contains the columns that most filters use, so that the rows are not read.
    """CREATE INDEX IF NOT EXISTS passages_shown ON passages(scope_id, text_id, type, kind, role, status, place_role)
         WHERE live = 1 AND until_seq IS NULL""",
    # One value per row, with its own type. Booleans are blobs of one byte, so that they equal no number.
    """CREATE TABLE IF NOT EXISTS passage_metadata(
         key INTEGER NOT NULL, name TEXT NOT NULL, value, PRIMARY KEY(key, name)) WITHOUT ROWID""",
    # Reversed last characters of titles, headings and origins, so that "ends with" is a range in an index.
    """CREATE TABLE IF NOT EXISTS passage_endings(
         ending TEXT NOT NULL, key INTEGER NOT NULL, PRIMARY KEY(ending, key)) WITHOUT ROWID""",
    # Periods of days on which a turn was written or that it mentions, as ordinals of Python.
    """CREATE TABLE IF NOT EXISTS passage_days(
         key INTEGER NOT NULL, first INTEGER NOT NULL, last INTEGER NOT NULL, PRIMARY KEY(key, first, last))
         WITHOUT ROWID""",
    "CREATE INDEX IF NOT EXISTS passage_days_by_first ON passage_days(first, last)",
    # The current passages that define, import or use a name of code, by its number (`retrieval.index.code_names`).
    """CREATE TABLE IF NOT EXISTS code_names(
         name INTEGER NOT NULL, key INTEGER NOT NULL, PRIMARY KEY(name, key)) WITHOUT ROWID""",
    # The names in the ties of current passages. Numbers of deleted names are never used again, because a table in
    # memory may contain them. `code`: a hash of the name, for look-ups.
    """CREATE TABLE IF NOT EXISTS graph_nodes(
         id INTEGER PRIMARY KEY AUTOINCREMENT, name BLOB NOT NULL, code INTEGER NOT NULL,
         passages INTEGER NOT NULL)""",
    "CREATE INDEX IF NOT EXISTS graph_nodes_by_code ON graph_nodes(code)",
    # The ties of each passage, as packed by `retrieval.index.ties`.
    "CREATE TABLE IF NOT EXISTS graph_passages(key INTEGER PRIMARY KEY, body BLOB NOT NULL)",
    _words(WORDS),
    _words(WORDS_HISTORY),
    _names(NAMES),
    _names(NAMES_HISTORY),
)
"""Tables that a rebuild creates again."""

WAITING: tuple[str, ...] = (
    "CREATE TABLE IF NOT EXISTS waiting_objects(object_id TEXT PRIMARY KEY) WITHOUT ROWID",
    # The texts of queued objects. Their vectors are retained as long as one of the objects has the text.
    """CREATE TABLE IF NOT EXISTS waiting_texts(
         object_id TEXT NOT NULL, text_id INTEGER NOT NULL, PRIMARY KEY(object_id, text_id)) WITHOUT ROWID""",
    "CREATE INDEX IF NOT EXISTS waiting_texts_by_text ON waiting_texts(text_id)",
)
"""Tables that exist only during a rebuild in steps."""

SCHEMA = KEPT + REBUILT

_NAMES = frozenset(re.findall(r"IF NOT EXISTS (\w+)", "\n".join(SCHEMA)))

TABLES = (
    *re.findall(r"TABLE IF NOT EXISTS (\w+)", "\n".join(SCHEMA)),
    *(f"{table}_{part}" for table in FULL_TEXT for part in ("config", "data", "docsize", "idx")),
)
"""All tables of the index, including the internal ones of FTS5."""

_REBUILT_TABLES = (
    *("passage_scopes", "passages", "passage_metadata", "passage_endings", "passage_days"),
    "code_names",
    *("graph_nodes", "graph_passages"),
    *FULL_TEXT,
)


def has_tables(connection: apsw.Connection) -> bool:
    """Return whether all tables and indexes exist."""
    return {name for (name,) in connection.execute("SELECT name FROM sqlite_schema")} >= _NAMES


def create_tables(connection: apsw.Connection) -> None:
    """Create missing tables."""
    _drop_older_names(connection)
    for statement in SCHEMA:
        connection.execute(statement)
    # The vectors of an older version have no digests.
    if "digest" not in _columns_of(connection, "passage_vectors"):
        connection.execute("ALTER TABLE passage_vectors ADD COLUMN digest BLOB")


def _drop_older_names(connection: apsw.Connection) -> None:
    """Drop the graph names of an older version, which have no code. The whole index is rebuilt anyway."""
    columns = _columns_of(connection, "graph_nodes")
    if columns and "code" not in columns:
        connection.execute("DROP TABLE graph_nodes")


def _columns_of(connection: apsw.Connection, table: str) -> set[str]:
    return {name for _, name, *_ in connection.execute(f"PRAGMA table_info({table})")}


def drop_passages(connection: apsw.Connection) -> None:
    """Drop the tables that a rebuild creates again."""
    for table in _REBUILT_TABLES:
        connection.execute(f"DROP TABLE IF EXISTS {table}")
    write_state(connection, SHOWN, 0)


def is_under_way(connection: apsw.Connection) -> bool:
    """Return whether a rebuild in steps is running, so that some objects have no passages yet."""
    return upkeep.is_under_way(partial(read_state, connection), PROJECTION_VERSION)


def count_waiting(connection: apsw.Connection) -> int:
    """Count the objects that are queued for a rebuild."""
    if not is_under_way(connection):
        return 0
    return int(next(connection.execute("SELECT count(*) FROM waiting_objects"))[0])
