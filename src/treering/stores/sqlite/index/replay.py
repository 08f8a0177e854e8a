"""Create passages from the histories of objects, and compare them with the stored ones."""

from collections.abc import Collection, Iterator, Sequence

import apsw

from treering.ports.index import Change
from treering.stores.rows.fold import MOST_NAMED, NOWHERE, Place, compared
from treering.stores.rows.stored_vectors import is_damaged
from treering.stores.rows.upkeep import EPOCH, SHOWN, Replay
from treering.stores.sqlite.index.graph import graph_contents, graph_damage, records_of
from treering.stores.sqlite.index.projection import apply_changes
from treering.stores.sqlite.index.tables import (
    FULL_TEXT,
    PROJECTION_VERSION,
    TABLES,
    WAITING,
    create_tables,
    drop_passages,
    has_tables,
)
from treering.stores.sqlite.index.vector_queue import (
    IS_QUICK,
    clear_queue,
    forget_unused,
    queue_differences,
    wrong_counts,
)
from treering.stores.sqlite.index.words import lost_terms, word_contents, word_totals
from treering.stores.sqlite.ledger.object_tables import ObjectTables
from treering.stores.sqlite.reading import read_state, write_state

_TEXTS = "SELECT text_id FROM waiting_texts WHERE object_id = ?"


class SqliteReplay(Replay[apsw.Connection]):
    """`rows.upkeep.Replay` over a connection."""

    version = PROJECTION_VERSION

    def is_made(self) -> bool:
        """Return whether all tables exist, and this version and extractor created the passages or are creating them."""
        return has_tables(self.transaction) and super().is_made()

    def prepare(self, *, most_at_once: int) -> None:
        """Create missing tables; rebuild the passages of another version or extractor. In a write transaction."""
        create_tables(self.transaction)
        super().prepare(most_at_once=most_at_once)

    def remains(self, object_ids: Sequence[str]) -> int:
        """Count the passages, queued texts and graph records of objects."""
        tables = ("passages", *(["waiting_texts"] if self._is_under_way() else []))
        counts = (self._count(f"{table} WHERE object_id = ?", one) for table in tables for one in object_ids)
        return sum(counts) + records_of(self.transaction, object_ids)

    def differences(self) -> list[str]:
        """Describe the differences between the passages and a rebuild. Changes nothing."""
        return _differences(self.transaction, self)

    def apply(self, changes: Sequence[Change]) -> None:
        """Update the passages of changed objects and their records in the graph."""
        apply_changes(self.transaction, changes, self.extractor, self._at_once, self._carried)

    def replay(self, object_ids: Sequence[str]) -> None:
        """Create the passages of objects without any from their histories."""
        for identity in object_ids:
            self.apply(list(_history(self.transaction, identity)))

    def all_objects(self) -> list[str]:
        """Return the ids of all objects except erased ones, in order."""
        return self._column("SELECT DISTINCT id FROM revisions ORDER BY id")

    def read_state(self, name: str) -> int:
        """Return a number in the state of the index, or 0."""
        return read_state(self.transaction, name)

    def write_state(self, name: str, value: int) -> None:
        """Store a number in the state of the index."""
        write_state(self.transaction, name, value)

    def clear(self) -> None:
        """Remove the passages. Texts and their vectors are retained. Tables in memory are loaded again."""
        drop_passages(self.transaction)
        create_tables(self.transaction)
        clear_queue(self.transaction)
        self.write_state(EPOCH, self.read_state(EPOCH) + 1)

    def _is_worth_waiting(self, most_at_once: int) -> bool:
        """Return whether a rebuild would take long, and the stored passages have their texts."""
        columns = {name for _, name, *_ in self.transaction.execute("PRAGMA table_info(passages)")}
        work = max(self._count("(SELECT DISTINCT id FROM revisions)"), self._count("passages"))
        return work > most_at_once and {"object_id", "text_id"} <= columns

    def _keep_texts(self, *, anew: bool) -> None:
        if anew:
            self.transaction.execute("DROP TABLE IF EXISTS waiting_texts")
        self.transaction.execute("DROP TABLE IF EXISTS waiting_objects")
        for statement in WAITING:
            self.transaction.execute(statement)
        self.transaction.execute("INSERT OR IGNORE INTO waiting_texts SELECT object_id, text_id FROM passages")

    def _let_all_wait(self) -> None:
        self.transaction.execute("INSERT INTO waiting_objects SELECT DISTINCT id FROM revisions")

    def _count_waiting(self) -> int:
        return self._count("waiting_objects")

    def _find_waiting(self, object_ids: Sequence[str]) -> Collection[str]:
        sql = "SELECT 1 FROM waiting_objects WHERE object_id = ?"
        return [one for one in object_ids if next(self.transaction.execute(sql, (one,)), None)]

    def _first_waiting(self) -> list[str]:
        return self._column("SELECT object_id FROM waiting_objects ORDER BY object_id LIMIT 1")

    def _forget_waiting(self, object_ids: Sequence[str]) -> None:
        for identity in object_ids:
            texts = [row for (row,) in self.transaction.execute(_TEXTS, (identity,))]
            self.transaction.execute("DELETE FROM waiting_texts WHERE object_id = ?", (identity,))
            self.transaction.execute("DELETE FROM waiting_objects WHERE object_id = ?", (identity,))
            forget_unused(self.transaction, texts)

    def _stop_waiting(self) -> None:
        self.transaction.execute("DROP TABLE IF EXISTS waiting_objects")
        self.transaction.execute("DROP TABLE IF EXISTS waiting_texts")

    def _drop_damaged_vectors(self) -> None:
        gone = [(key,) for key in _damaged_vectors(self.transaction)]
        self.transaction.executemany("DELETE FROM passage_vectors WHERE key = ?", gone)

    def _forget_unused_texts(self) -> int:
        unused = "NOT IN (SELECT text_id FROM passages)"
        self.transaction.execute(f"DELETE FROM passage_vectors WHERE text_id {unused}")  # noqa: S608 - a constant
        self.transaction.execute(f"DELETE FROM passage_texts WHERE id {unused}")  # noqa: S608 - a constant
        return self._count("passages")

    def _count(self, rows: str, *bindings: str) -> int:
        return int(next(self.transaction.execute(f"SELECT count(*) FROM {rows}", bindings))[0])  # noqa: S608 - our tables

    def _column(self, sql: str) -> list[str]:
        return [value for (value,) in self.transaction.execute(sql)]


def _history(ledger: apsw.Connection, identity: str) -> Iterator[Change]:
    rows = ledger.execute("SELECT seq FROM revisions WHERE id = ? ORDER BY revision", (identity,))
    revisions = ObjectTables(ledger).revisions(identity)
    earlier = [None, *revisions]
    for (seq,), before, after in zip(list(rows), earlier, revisions, strict=False):
        yield Change(seq, identity, before, after)


_ROWS = (
    "SELECT object_id, part, from_seq, until_seq, position, type, kind, status, scope, role, title, heading, origin, "
    "channel, created_at, updated_at, live, hex(hash), place_role, p.key FROM passages p "
    "JOIN passage_scopes s ON s.id = p.scope_id JOIN passage_texts t ON t.id = p.text_id"
)


_Row = tuple[object, ...]


def _differences(connection: apsw.Connection, here: SqliteReplay) -> list[str]:
    if damaged := damaged_tables(connection):
        # Contents read from a damaged table would lead to wrong differences in the others.
        return [f"the table {table} is damaged" for table in damaged][:MOST_NAMED]
    anew = apsw.Connection("")  # a private temporary file, which SQLite deletes
    try:
        create_tables(anew)
        _copy_models(connection, anew)
        identities = here.all_objects()
        waiting = set(here.waiting_among(identities))
        for identity in identities:
            if identity not in waiting:
                apply_changes(anew, list(_history(connection, identity)), here.extractor)
        differences = [*compared(_contents(anew), _contents(connection)), *_damage(connection)]
        if read_state(anew, SHOWN) != read_state(connection, SHOWN):
            differences.append("the number of current passages is wrong")
        if wrong_counts(connection):
            differences.append("the number of passages that wait for an embedding is wrong")
        if word_totals(anew) != word_totals(connection):
            differences.append("the full-text totals of all passages are wrong")
        return differences[:MOST_NAMED]
    finally:
        anew.close()


def damaged_tables(connection: apsw.Connection) -> list[str]:
    """Return the tables of the index that are damaged, or whose indexes are."""
    known = {name for (name,) in connection.execute("SELECT name FROM sqlite_schema WHERE type = 'table'")}
    return [
        table
        for table in TABLES
        if table in known and list(connection.execute(f"PRAGMA integrity_check({table})")) != [("ok",)]
    ]


def _copy_models(source: apsw.Connection, target: apsw.Connection) -> None:
    models = source.execute("SELECT id, name, dimension FROM passage_models")
    target.executemany("INSERT INTO passage_models(id, name, dimension) VALUES(?, ?, ?)", models)


def _contents(connection: apsw.Connection) -> dict[Place, int]:
    """Return a hash of the content of each passage's rows."""
    words = word_contents(connection)
    metadata = _grouped(connection, "SELECT key, name, value FROM passage_metadata ORDER BY key, name")
    endings = _grouped(connection, "SELECT key, ending FROM passage_endings ORDER BY key, ending")
    days = _grouped(connection, "SELECT key, first, last FROM passage_days ORDER BY key, first, last")
    names = _grouped(connection, "SELECT key, name FROM code_names ORDER BY key, name")
    ties = graph_contents(connection)
    contents: dict[Place, int] = {}
    for *row, key in connection.execute(_ROWS):
        full_text = tuple(words.pop((table, key), None) for table in FULL_TEXT)
        groups = (part.pop(key, None) for part in (metadata, endings, days, names))
        contents[row[0], row[1], row[2]] = hash((*row, *groups, full_text, ties.pop(key, None)))
    if words or metadata or endings or days or names or ties:
        contents[NOWHERE] = -1
    return contents


def _grouped(connection: apsw.Connection, sql: str) -> dict[int, tuple[_Row, ...]]:
    groups: dict[int, list[_Row]] = {}
    for key, *values in connection.execute(sql):
        groups.setdefault(key, []).append(tuple(values))
    return {key: tuple(values) for key, values in groups.items()}


def _damage(connection: apsw.Connection) -> Iterator[str]:
    yield from graph_damage(connection)
    yield from (f"{count} terms of {table} cannot be found" for table, count in lost_terms(connection).items())
    if damaged := sum(1 for _ in _damaged_vectors(connection)):
        yield f"{damaged} vectors are damaged"
    for model_id, name in list(connection.execute(f"SELECT id, name FROM passage_models WHERE NOT {IS_QUICK}")):  # noqa: S608
        if wrong := queue_differences(connection, model_id):
            yield f"{wrong} texts are incorrectly queued, or not queued, for {name}"


_VECTOR_ROWS = (
    "SELECT v.key, m.name, m.dimension, t.hash, v.vector, v.digest FROM passage_vectors v "
    "LEFT JOIN passage_models m ON m.id = v.model_id LEFT JOIN passage_texts t ON t.id = v.text_id"
)


def _damaged_vectors(connection: apsw.Connection) -> Iterator[int]:
    for key, *row in connection.execute(_VECTOR_ROWS):
        if is_damaged(*row):
            yield key
