"""The index in the ledger's own database. Writes are searchable at once."""

from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager, nullcontext
from functools import partial

import apsw

from treering.core.canonical import render_time
from treering.ports.index import Change
from treering.ports.models import Embedder, Extractor
from treering.ports.passages import Passage
from treering.retrieval.index.passages import gist_hash
from treering.retrieval.index.projection import Entry, steps_of
from treering.retrieval.index.ties import Ties
from treering.stores.rows.fold import (
    MOST_NAMED,
    NOWHERE,
    PASSAGE_COLUMNS,
    ErasedRow,
    Part,
    PassageFold,
    Place,
    PlacedRow,
    Value,
    compared,
    passage_values,
)
from treering.stores.rows.packing import REINDEX, rows_of
from treering.stores.rows.reach import PassingCache
from treering.stores.rows.upkeep import (
    EPOCH,
    MOST_AT_ONCE,
    SHOWN,
    STEP_SECONDS,
    CarriedIndex,
    FollowingIndex,
    IndexUpkeep,
    Replay,
)
from treering.stores.rows.vectors import is_damaged
from treering.stores.sqlite.database import Database
from treering.stores.sqlite.index.graph import (
    SqliteGraph,
    graph_contents,
    graph_damage,
    kept_ties,
    records_of,
    settle_ties,
)
from treering.stores.sqlite.index.tables import (
    FULL_TEXT,
    PROJECTION_VERSION,
    TABLES,
    WAITING,
    create_tables,
    drop_passages,
    has_digests,
    has_tables,
)
from treering.stores.sqlite.index.text import (
    SqlitePassages,
    SqliteTextSearch,
    add_days,
    add_places,
    purge_names,
    remove_days,
    remove_places,
    settle_names,
)
from treering.stores.sqlite.index.vector_queue import (
    IS_QUICK,
    clear_queue,
    forget_unused,
    log_vectors,
    queue_differences,
    settle_texts,
    waiting_counted,
    wrong_counts,
)
from treering.stores.sqlite.index.vectors import SqliteQuickVectors, SqliteVectors
from treering.stores.sqlite.index.words import (
    add_words,
    lost_terms,
    purge_words,
    remove_words,
    word_contents,
    word_totals,
)
from treering.stores.sqlite.ledger.object_tables import ObjectTables
from treering.stores.sqlite.reading import read_state, stored_scalar, write_state


class SqliteIndex(FollowingIndex[apsw.Connection]):
    """`ports.index.Index` over the ledger's `Database`. It is a `Follower` of the ledger."""

    def __init__(
        self,
        database: Database,
        *,
        model_id: str,
        dimension: int,
        quick: Embedder | None = None,
        extractor: Extractor | None = None,
        most_at_once: int = MOST_AT_ONCE,
        step_seconds: float = STEP_SECONDS,
    ) -> None:
        self._database = database
        passing = PassingCache()
        self.vectors: SqliteVectors = SqliteVectors(database, passing, model_id, dimension)
        super().__init__(self.vectors, extractor, most_at_once)
        if quick and quick.model_id != model_id:
            self.quick: SqliteQuickVectors | None = SqliteQuickVectors(database, passing, quick, (model_id, dimension))
        self._at_once = partial((self.quick or self.vectors).embed_at_once, quick) if quick else None
        self.passages: SqlitePassages = SqlitePassages(database)
        self.text: SqliteTextSearch = SqliteTextSearch(database, passing)
        self.graph: SqliteGraph = SqliteGraph(database)
        self.upkeep: IndexUpkeep[apsw.Connection] = IndexUpkeep(
            self.replay,
            read=database.read,
            write=database.write,
            read_whole=database.read_fresh,
            step_seconds=step_seconds,
        )

    def one_moment(self) -> AbstractContextManager[object]:
        """Hold one snapshot of the file. A database in memory has one connection, which is not held."""
        return nullcontext() if self._database.in_memory else self._database.read()

    def ties_of(self, parts: Sequence[Part]) -> Mapping[Part, Ties]:
        """Return the ties that the graph stores for current passages; nothing if the graph is outdated."""
        with rows_of("the graph", hint=REINDEX), self._database.read() as connection:
            return kept_ties(connection, parts) if self.replay(connection).is_made() else {}

    def replay(self, connection: apsw.Connection) -> "SqliteReplay":
        """Return the replay for a connection."""
        return SqliteReplay(connection, self._extractor, at_once=self._at_once, carried=self.carried)


_TEXTS = "SELECT text_id FROM waiting_texts WHERE object_id = ?"

AtOnce = Callable[[apsw.Connection, Mapping[int, str]], None]
"""Embeds texts, by number, in the transaction that writes them."""


class SqliteReplay(Replay):
    """`rows.upkeep.Replay` over a connection. `ledger`: the connection to read histories from, if it is another one.

    `at_once` embeds new texts; `carried` copies vectors and ties from the source of a copied space.
    """

    version = PROJECTION_VERSION

    def __init__(
        self,
        connection: apsw.Connection,
        extractor: Extractor,
        *,
        ledger: apsw.Connection | None = None,
        at_once: AtOnce | None = None,
        carried: CarriedIndex[apsw.Connection] | None = None,
    ) -> None:
        super().__init__(extractor)
        self._at_once = at_once
        self._carried = carried
        self._connection = connection
        self._ledger = ledger or connection

    def is_made(self) -> bool:
        """Return whether all tables exist, and this version and extractor created the passages or are creating them."""
        return has_tables(self._connection) and super().is_made()

    def prepare(self, *, most_at_once: int) -> None:
        """Create missing tables; rebuild the passages of another version or extractor. In a write transaction."""
        create_tables(self._connection)
        super().prepare(most_at_once=most_at_once)

    def remains(self, object_ids: Sequence[str]) -> int:
        """Count the passages, queued texts and graph records of objects."""
        tables = ("passages", *(["waiting_texts"] if self._is_under_way() else []))
        counts = (self._count(f"{table} WHERE object_id = ?", one) for table in tables for one in object_ids)
        return sum(counts) + records_of(self._connection, object_ids)

    def differences(self) -> list[str]:
        """Describe the differences between the passages and a rebuild. Changes nothing."""
        return _differences(self._connection, self)

    def apply(self, changes: Sequence[Change]) -> None:
        """Update the passages of changed objects and their records in the graph."""
        apply_changes(self._connection, changes, self.extractor, self._at_once, self._carried)

    def replay(self, object_ids: Sequence[str]) -> None:
        """Create the passages of objects without any from their histories."""
        for identity in object_ids:
            self.apply(list(_history(self._ledger, identity)))

    def all_objects(self) -> list[str]:
        """Return the ids of all objects except erased ones, in order."""
        return self._column("SELECT DISTINCT id FROM revisions ORDER BY id")

    def read_state(self, name: str) -> int:
        """Return a number in the state of the index, or 0."""
        return read_state(self._connection, name)

    def write_state(self, name: str, value: int) -> None:
        """Store a number in the state of the index."""
        write_state(self._connection, name, value)

    def clear(self) -> None:
        """Remove the passages. Texts and their vectors are retained. Tables in memory are loaded again."""
        drop_passages(self._connection)
        create_tables(self._connection)
        clear_queue(self._connection)
        self.write_state(EPOCH, self.read_state(EPOCH) + 1)

    def _is_worth_waiting(self, most_at_once: int) -> bool:
        """Return whether a rebuild would take long, and the stored passages have their texts."""
        columns = {name for _, name, *_ in self._connection.execute("PRAGMA table_info(passages)")}
        work = max(self._count("(SELECT DISTINCT id FROM revisions)"), self._count("passages"))
        return work > most_at_once and {"object_id", "text_id"} <= columns

    def _keep_texts(self, *, anew: bool) -> None:
        if anew:
            self._connection.execute("DROP TABLE IF EXISTS waiting_texts")
        self._connection.execute("DROP TABLE IF EXISTS waiting_objects")
        for statement in WAITING:
            self._connection.execute(statement)
        self._connection.execute("INSERT OR IGNORE INTO waiting_texts SELECT object_id, text_id FROM passages")

    def _let_all_wait(self) -> None:
        self._connection.execute("INSERT INTO waiting_objects SELECT DISTINCT id FROM revisions")

    def _count_waiting(self) -> int:
        return self._count("waiting_objects")

    def _find_waiting(self, object_ids: Sequence[str]) -> Collection[str]:
        sql = "SELECT 1 FROM waiting_objects WHERE object_id = ?"
        return [one for one in object_ids if next(self._connection.execute(sql, (one,)), None)]

    def _first_waiting(self) -> list[str]:
        return self._column("SELECT object_id FROM waiting_objects ORDER BY object_id LIMIT 1")

    def _forget_waiting(self, object_ids: Sequence[str]) -> None:
        for identity in object_ids:
            texts = [row for (row,) in self._connection.execute(_TEXTS, (identity,))]
            self._connection.execute("DELETE FROM waiting_texts WHERE object_id = ?", (identity,))
            self._connection.execute("DELETE FROM waiting_objects WHERE object_id = ?", (identity,))
            forget_unused(self._connection, texts)

    def _stop_waiting(self) -> None:
        self._connection.execute("DROP TABLE IF EXISTS waiting_objects")
        self._connection.execute("DROP TABLE IF EXISTS waiting_texts")

    def _drop_damaged_vectors(self) -> None:
        gone = [(key,) for key in _damaged_vectors(self._connection)]
        self._connection.executemany("DELETE FROM passage_vectors WHERE key = ?", gone)

    def _forget_unused_texts(self) -> int:
        unused = "NOT IN (SELECT text_id FROM passages)"
        self._connection.execute(f"DELETE FROM passage_vectors WHERE text_id {unused}")  # noqa: S608 - a constant
        self._connection.execute(f"DELETE FROM passage_texts WHERE id {unused}")  # noqa: S608 - a constant
        return self._count("passages")

    def _count(self, rows: str, *bindings: str) -> int:
        return int(next(self._connection.execute(f"SELECT count(*) FROM {rows}", bindings))[0])  # noqa: S608 - our tables

    def _column(self, sql: str) -> list[str]:
        return [value for (value,) in self._connection.execute(sql)]


def _history(ledger: apsw.Connection, identity: str) -> Iterator[Change]:
    rows = ledger.execute("SELECT seq FROM revisions WHERE id = ? ORDER BY revision", (identity,))
    revisions = ObjectTables(ledger).revisions(identity)
    earlier = [None, *revisions]
    for (seq,), before, after in zip(list(rows), earlier, revisions, strict=False):
        yield Change(seq, identity, before, after)


_COLUMNS = ("key", "scope_id", "text_id", "from_seq", *PASSAGE_COLUMNS)


_INSERT = f"INSERT INTO passages({', '.join(_COLUMNS)}) VALUES({','.join('?' * len(_COLUMNS))})"


_AT_ONCE = 1_000  # passages that are collected before they are written


def apply_changes(
    connection: apsw.Connection,
    changes: Sequence[Change],
    extractor: Extractor,
    at_once: AtOnce | None = None,
    carried: CarriedIndex[apsw.Connection] | None = None,
) -> None:
    """Update the passages of changed objects and their records in the graph."""
    rows = _Rows(connection)
    fold = PassageFold(rows)
    for change in changes:
        fold.apply(change, steps_of(change))
    rows.write()
    gists = carried.keep_vectors(connection, fold.gists) if carried else fold.gists
    texts = sorted(fold.texts)
    with waiting_counted(connection, texts, fold.gained):
        log_vectors(connection, fold.revealed)
        settle_texts(connection, texts, lost=fold.lost)
        if at_once:
            at_once(connection, gists)
    for ties in fold.ties(extractor, carried.ties if carried else None):
        settle_ties(connection, ties)
    settle_names(connection, gone=fold.gone, come=fold.come)
    if fold.shown:
        write_state(connection, SHOWN, read_state(connection, SHOWN) + fold.shown)
    if fold.erased:
        connection.execute("DELETE FROM passage_scopes WHERE id NOT IN (SELECT DISTINCT scope_id FROM passages)")
        purge_words(connection)
        purge_names(connection, fold.unnamed)


class _Rows:
    """`PassageRows` over a connection.

    New passages are collected, and written together before rows are read or ended. Numbers of scopes are cached.
    """

    def __init__(self, connection: apsw.Connection) -> None:
        self._connection = connection
        self._scopes: dict[str, int] = {}
        self._begun: list[tuple[int, Passage]] = []
        self._rows: list[tuple[Value, ...]] = []
        self._texts: dict[bytes, int] = {}
        """Numbers of new texts."""
        self._next_key = self._next_text = 0

    def write(self) -> None:
        """Write the collected passages."""
        begun = self._begun
        if not begun:
            return
        run = self._connection.executemany
        run(
            "INSERT INTO passage_texts(id, hash) VALUES(?, ?)", ((number, text) for text, number in self._texts.items())
        )
        run(_INSERT, self._rows)
        self._keep_metadata(begun)
        add_places(self._connection, begun)
        add_days(self._connection, begun)
        for current in (True, False):
            add_words(self._connection, [one for one in begun if one[1].live == current], current=current)
        self._begun, self._rows, self._texts = [], [], {}
        self._next_key = self._next_text = 0

    def open_rows(self, object_id: str) -> Mapping[str, int]:
        self.write()
        sql = "SELECT part, key FROM passages WHERE object_id = ? AND until_seq IS NULL"
        return dict(self._connection.execute(sql, (object_id,)))

    def begin(self, entry: Entry, seq: int) -> PlacedRow:
        passage = entry.passage
        text_id = self._text_id(passage)
        self._next_key = key = self._next_key or self._next("passages", "key")
        self._next_key += 1
        scope = self._scope_id(passage.scope)
        self._rows.append((key, scope, text_id, seq, *passage_values(passage, entry.position)))
        self._begun.append((key, passage))
        if len(self._begun) >= _AT_ONCE:
            self.write()
        return PlacedRow(key, text_id)

    def end(self, key: int, entry: Entry, seq: int) -> PlacedRow:
        self.write()
        passage = entry.passage
        self._connection.execute("UPDATE passages SET until_seq = ? WHERE key = ?", (seq, key))
        if passage.live:
            remove_words(self._connection, key, current=True)
            add_words(self._connection, [(key, passage)], current=False)
        return PlacedRow(key, self._text_id(passage))

    def touch(self, key: int, entry: Entry) -> None:
        self.write()
        sql = "UPDATE passages SET position = ?, updated_at = ? WHERE key = ?"
        self._connection.execute(sql, (entry.position, render_time(entry.passage.updated_at), key))
        self._connection.execute("DELETE FROM passage_metadata WHERE key = ?", (key,))
        self._keep_metadata([(key, entry.passage)])

    def erase(self, object_id: str) -> Iterator[ErasedRow]:
        self.write()
        sql = "SELECT key, text_id, live AND until_seq IS NULL FROM passages WHERE object_id = ?"
        for key, text_id, current in list(self._connection.execute(sql, (object_id,))):
            remove_words(self._connection, key, current=bool(current))
            remove_places(self._connection, key)
            remove_days(self._connection, key)
            self._connection.execute("DELETE FROM passage_metadata WHERE key = ?", (key,))
            self._connection.execute("DELETE FROM passages WHERE key = ?", (key,))
            yield ErasedRow(key, text_id, bool(current))

    def _keep_metadata(self, passages: Sequence[tuple[int, Passage]]) -> None:
        rows = ((key, name, stored_scalar(value)) for key, one in passages for name, value in one.metadata.items())
        self._connection.executemany("INSERT INTO passage_metadata(key, name, value) VALUES(?, ?, ?)", rows)

    def _scope_id(self, scope: str) -> int:
        if scope not in self._scopes:
            self._connection.execute("INSERT OR IGNORE INTO passage_scopes(scope) VALUES(?)", (scope,))
            rows = self._connection.execute("SELECT id FROM passage_scopes WHERE scope = ?", (scope,))
            self._scopes[scope] = next(rows)[0]
        return self._scopes[scope]

    def _text_id(self, passage: Passage) -> int:
        digest = bytes.fromhex(gist_hash(passage))
        if digest in self._texts:
            return self._texts[digest]
        row = next(self._connection.execute("SELECT id FROM passage_texts WHERE hash = ?", (digest,)), None)
        if row:
            return int(row[0])
        self._next_text = number = self._next_text or self._next("passage_texts", "id")
        self._next_text += 1
        self._texts[digest] = number
        return number

    def _next(self, table: str, number: str) -> int:
        """Return the next row number of a table."""
        sql = f"SELECT coalesce(max({number}), 0) + 1 FROM {table}"  # noqa: S608 - our tables
        return int(next(self._connection.execute(sql))[0])


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
        SqliteReplay(anew, here.extractor, ledger=connection).replay([one for one in identities if one not in waiting])
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
    "SELECT v.key, m.name, m.dimension, t.hash, v.vector, {digest} FROM passage_vectors v "
    "LEFT JOIN passage_models m ON m.id = v.model_id LEFT JOIN passage_texts t ON t.id = v.text_id"
)


def _damaged_vectors(connection: apsw.Connection) -> Iterator[int]:
    sql = _VECTOR_ROWS.format(digest="v.digest" if has_digests(connection) else "NULL")
    for key, *row in connection.execute(sql):
        if is_damaged(*row):
            yield key
