"""Making passages from the histories of objects: all at once, or a few at a time beside reads.

Beside reads, every object is one of two: it waits, and has no passage, or all its history is applied. A change to one
that waits applies all its history. So what is written is found at once, and the end equals a rebuild at once.
"""

import time
from collections.abc import Iterable, Iterator, Mapping, Sequence
from zlib import crc32

import apsw

from treering.core.ids import render_time
from treering.ports.index import Behind, Change
from treering.ports.models import Extractor
from treering.ports.passages import Passage
from treering.retrieval.index.passages import gist_hash
from treering.retrieval.index.projection import Entry, steps_of
from treering.stores.rows.fold import (
    MOST_NAMED,
    NOWHERE,
    PASSAGE_COLUMNS,
    ErasedRow,
    PassageFold,
    Place,
    PlacedRow,
    compared,
    passage_values,
)
from treering.stores.rows.vectors import is_damaged
from treering.stores.sqlite.filters import stored_scalar
from treering.stores.sqlite.index.graph import graph_contents, graph_damage, settle_ties
from treering.stores.sqlite.index.tables import (
    FULL_TEXT,
    PROJECTION_VERSION,
    SHOWN,
    TABLES,
    TARGET,
    VERSION,
    WAITING,
    count_waiting,
    create_tables,
    drop_passages,
    has_digests,
    has_tables,
    is_under_way,
    read_state,
    write_state,
)
from treering.stores.sqlite.index.text import (
    add_days,
    add_places,
    purge_names,
    remove_days,
    remove_places,
    settle_names,
)
from treering.stores.sqlite.index.vectors import EPOCH, forget_unused, log_vectors, queue_differences, settle_texts
from treering.stores.sqlite.index.words import (
    add_words,
    lost_terms,
    purge_words,
    remove_words,
    word_contents,
    word_totals,
)
from treering.stores.sqlite.ledger.object_tables import ObjectTables

_EXTRACTOR = "extractor"
_TARGET_EXTRACTOR = "rebuild_extractor"
_TOTAL = "rebuild_total"
_TEXTS = "SELECT text_id FROM waiting_texts WHERE object_id = ?"


def is_made(connection: apsw.Connection, extractor: Extractor) -> bool:
    """Tell whether this version and this extractor made the passages, or are at it."""
    if is_under_way(connection):
        return read_state(connection, _TARGET_EXTRACTOR) == _number(extractor)
    made = read_state(connection, VERSION), read_state(connection, _EXTRACTOR)
    return made == (PROJECTION_VERSION, _number(extractor))


def note_made(connection: apsw.Connection, extractor: Extractor) -> None:
    """Note that this version and this extractor made the passages, of all objects."""
    write_state(connection, VERSION, PROJECTION_VERSION)
    write_state(connection, _EXTRACTOR, _number(extractor))
    connection.execute("DROP TABLE IF EXISTS waiting_objects")
    connection.execute("DROP TABLE IF EXISTS waiting_texts")


def clear_passages(connection: apsw.Connection) -> None:
    """Throw away the passages; texts and their vectors stay. Tables in memory start over."""
    drop_passages(connection)
    create_tables(connection)
    connection.execute("DELETE FROM vector_queue")
    write_state(connection, EPOCH, read_state(connection, EPOCH) + 1)


def is_worth_waiting(connection: apsw.Connection, *, most_at_once: int) -> bool:
    """Tell whether making the passages takes long, and what is there says which object has which text."""
    columns = {name for _, name, *_ in connection.execute("PRAGMA table_info(passages)")}
    counted = ("SELECT count(DISTINCT id) FROM revisions", "SELECT count(*) FROM passages")
    work = max(int(next(connection.execute(sql))[0]) for sql in counted)
    return work > most_at_once and {"object_id", "text_id"} <= columns


def begin_replay(connection: apsw.Connection, extractor: Extractor) -> None:
    """Throw away the passages and let all objects wait for theirs. In a write transaction."""
    if read_state(connection, VERSION):  # else an earlier replay was interrupted: its texts still wait
        connection.execute("DROP TABLE IF EXISTS waiting_texts")
    connection.execute("DROP TABLE IF EXISTS waiting_objects")
    for statement in WAITING:
        connection.execute(statement)
    connection.execute("INSERT OR IGNORE INTO waiting_texts SELECT object_id, text_id FROM passages")
    clear_passages(connection)
    connection.execute("INSERT INTO waiting_objects SELECT DISTINCT id FROM revisions")
    write_state(connection, _TOTAL, connection.changes())
    write_state(connection, VERSION, 0)
    write_state(connection, TARGET, PROJECTION_VERSION)
    write_state(connection, _TARGET_EXTRACTOR, _number(extractor))


def advance_replay(connection: apsw.Connection, extractor: Extractor, *, seconds: float) -> Behind:
    """Make the passages of waiting objects for about so long, of one object at least. In a write transaction."""
    if not is_under_way(connection):
        return Behind(0, 0)
    end = time.monotonic() + seconds
    while waiting := _first_waiting(connection):
        _replay_waiting(connection, waiting, extractor)
        if time.monotonic() >= end:
            break
    behind = progress_of(connection)
    if not behind.waiting:
        note_made(connection, extractor)
    return behind


def progress_of(connection: apsw.Connection) -> Behind:
    """Tell how many objects have their passages, of how many."""
    if not is_under_way(connection):
        return Behind(0, 0)
    total = read_state(connection, _TOTAL)
    return Behind(total - count_waiting(connection), total)


def follow_changes(connection: apsw.Connection, changes: Sequence[Change], extractor: Extractor) -> None:
    """Apply changes in the transaction that wrote them; of an object that waits, all its history."""
    waiting = waiting_of(connection, [change.object_id for change in changes])
    _replay_waiting(connection, waiting, extractor)
    apply_changes(connection, [change for change in changes if change.object_id not in waiting], extractor)


def waiting_of(connection: apsw.Connection, object_ids: Iterable[str]) -> list[str]:
    """Return those of the objects whose passages are still to be made."""
    if not is_under_way(connection):
        return []
    sql = "SELECT 1 FROM waiting_objects WHERE object_id = ?"
    return [one for one in dict.fromkeys(object_ids) if next(connection.execute(sql, (one,)), None)]


def texts_waiting(connection: apsw.Connection, object_ids: Iterable[str]) -> int:
    """Count the texts that are kept for objects whose passages are still to be made."""
    if not is_under_way(connection):
        return 0
    sql = "SELECT count(*) FROM waiting_texts WHERE object_id = ?"
    return sum(int(next(connection.execute(sql, (one,)))[0]) for one in object_ids)


def replay_objects(
    ledger: apsw.Connection, target: apsw.Connection, object_ids: Iterable[str], extractor: Extractor
) -> None:
    """Apply whole histories, read from the ledger, to passages that know nothing of these objects."""
    for identity in object_ids:
        apply_changes(target, list(_changes(ledger, identity)), extractor)


def _replay_waiting(connection: apsw.Connection, object_ids: Sequence[str], extractor: Extractor) -> None:
    """Make the passages of some that wait; forget the texts that were theirs and are no more."""
    replay_objects(connection, connection, object_ids, extractor)
    for identity in object_ids:
        texts = [row for (row,) in connection.execute(_TEXTS, (identity,))]
        connection.execute("DELETE FROM waiting_texts WHERE object_id = ?", (identity,))
        connection.execute("DELETE FROM waiting_objects WHERE object_id = ?", (identity,))
        forget_unused(connection, texts)


def _first_waiting(connection: apsw.Connection) -> list[str]:
    return [identity for (identity,) in connection.execute("SELECT min(object_id) FROM waiting_objects") if identity]


def _changes(ledger: apsw.Connection, identity: str) -> Iterator[Change]:
    rows = ledger.execute("SELECT seq FROM revisions WHERE id = ? ORDER BY revision", (identity,))
    revisions = ObjectTables(ledger).revisions(identity)
    earlier = [None, *revisions]
    for (seq,), before, after in zip(list(rows), earlier, revisions, strict=False):
        yield Change(seq, identity, before, after)


def _number(extractor: Extractor) -> int:
    return crc32(extractor.extractor_id.encode())


# Keeping rows of passages in step with the ledger, inside its transactions: what `retrieval.index.projection` folds.


_COLUMNS = ("scope_id", "text_id", "from_seq", *PASSAGE_COLUMNS)
_INSERT = f"INSERT INTO passages({', '.join(_COLUMNS)}) VALUES({','.join('?' * len(_COLUMNS))})"


def apply_changes(connection: apsw.Connection, changes: Sequence[Change], extractor: Extractor) -> None:
    """Bring the passages of changed objects, and what the graph holds of them, up to date."""
    fold = PassageFold(_Rows(connection))
    for change in changes:
        fold.apply(change, steps_of(change))
    log_vectors(connection, fold.revealed)
    settle_texts(connection, sorted(fold.texts))
    for ties in fold.ties(extractor):
        settle_ties(connection, ties)
    settle_names(connection, gone=fold.gone, come=fold.come)
    if fold.shown:
        write_state(connection, SHOWN, read_state(connection, SHOWN) + fold.shown)
    if fold.erased:
        connection.execute("DELETE FROM passage_scopes WHERE id NOT IN (SELECT DISTINCT scope_id FROM passages)")
        purge_words(connection)
        purge_names(connection, fold.unnamed)


class _Rows:
    """`PassageRows` over a connection: each row is written at once. What it has looked up it remembers."""

    def __init__(self, connection: apsw.Connection) -> None:
        self._connection = connection
        self._scopes: dict[str, int] = {}

    def open_rows(self, object_id: str) -> Mapping[str, int]:
        sql = "SELECT part, key FROM passages WHERE object_id = ? AND until_seq IS NULL"
        return dict(self._connection.execute(sql, (object_id,)))

    def begin(self, entry: Entry, seq: int) -> PlacedRow:
        passage = entry.passage
        text_id = self._text_id(passage)
        row = (self._scope_id(passage.scope), text_id, seq, *passage_values(passage, entry.position))
        self._connection.execute(_INSERT, row)
        key = self._connection.last_insert_rowid()
        self._keep_metadata(key, passage)
        add_places(self._connection, key, passage)
        add_days(self._connection, key, passage)
        add_words(self._connection, key, passage, current=passage.live)
        return PlacedRow(key, text_id)

    def end(self, key: int, entry: Entry, seq: int) -> PlacedRow:
        passage = entry.passage
        self._connection.execute("UPDATE passages SET until_seq = ? WHERE key = ?", (seq, key))
        if passage.live:
            remove_words(self._connection, key, current=True)
            add_words(self._connection, key, passage, current=False)
        return PlacedRow(key, self._text_id(passage))

    def touch(self, key: int, entry: Entry) -> None:
        sql = "UPDATE passages SET position = ?, updated_at = ? WHERE key = ?"
        self._connection.execute(sql, (entry.position, render_time(entry.passage.updated_at), key))
        self._connection.execute("DELETE FROM passage_metadata WHERE key = ?", (key,))
        self._keep_metadata(key, entry.passage)

    def erase(self, object_id: str) -> Iterator[ErasedRow]:
        sql = "SELECT key, text_id, live AND until_seq IS NULL FROM passages WHERE object_id = ?"
        for key, text_id, current in list(self._connection.execute(sql, (object_id,))):
            remove_words(self._connection, key, current=bool(current))
            remove_places(self._connection, key)
            remove_days(self._connection, key)
            self._connection.execute("DELETE FROM passage_metadata WHERE key = ?", (key,))
            self._connection.execute("DELETE FROM passages WHERE key = ?", (key,))
            yield ErasedRow(key, text_id, bool(current))

    def _keep_metadata(self, key: int, passage: Passage) -> None:
        for name, value in passage.metadata.items():
            sql = "INSERT INTO passage_metadata(key, name, value) VALUES(?, ?, ?)"
            self._connection.execute(sql, (key, name, stored_scalar(value)))

    def _scope_id(self, scope: str) -> int:
        if scope not in self._scopes:
            self._connection.execute("INSERT OR IGNORE INTO passage_scopes(scope) VALUES(?)", (scope,))
            rows = self._connection.execute("SELECT id FROM passage_scopes WHERE scope = ?", (scope,))
            self._scopes[scope] = next(rows)[0]
        return self._scopes[scope]

    def _text_id(self, passage: Passage) -> int:
        digest = bytes.fromhex(gist_hash(passage))
        row = next(self._connection.execute("SELECT id FROM passage_texts WHERE hash = ?", (digest,)), None)
        if row:
            return int(row[0])
        self._connection.execute("INSERT INTO passage_texts(hash) VALUES(?)", (digest,))
        return self._connection.last_insert_rowid()


# Making passages anew from the ledger, and comparing what there is with what that would give.


_ROWS = (
    "SELECT object_id, part, from_seq, until_seq, position, type, kind, status, scope, role, title, heading, origin, "
    "channel, created_at, updated_at, live, hex(hash), place_role, p.key FROM passages p "
    "JOIN passage_scopes s ON s.id = p.scope_id JOIN passage_texts t ON t.id = p.text_id"
)

_Row = tuple[object, ...]


def passages_prepared(connection: apsw.Connection, extractor: Extractor) -> bool:
    """Tell whether all tables are there, with passages that this version and this extractor made or are making."""
    return has_tables(connection) and is_made(connection, extractor)


def prepare_passages(connection: apsw.Connection, extractor: Extractor, *, most_at_once: int) -> None:
    """Make missing tables; make passages anew that another version or extractor made. In a write transaction.

    Where these are more than `most_at_once`, it only begins with it: `advance_replay` goes on.
    """
    create_tables(connection)
    if is_made(connection, extractor):
        return
    if is_worth_waiting(connection, most_at_once=most_at_once):
        begin_replay(connection, extractor)
    else:
        rebuild_passages(connection, extractor)


def rebuild_passages(connection: apsw.Connection, extractor: Extractor) -> int:
    """Throw away the passages and make them anew; vectors of texts that are still there stay. Give their number."""
    drop_damaged(connection)
    clear_passages(connection)
    replay_objects(connection, connection, _all_objects(connection), extractor)
    note_made(connection, extractor)
    unused = "NOT IN (SELECT text_id FROM passages)"
    connection.execute(f"DELETE FROM passage_vectors WHERE text_id {unused}")  # noqa: S608 - a constant
    connection.execute(f"DELETE FROM passage_texts WHERE id {unused}")  # noqa: S608 - a constant
    return int(next(connection.execute("SELECT count(*) FROM passages"))[0])


def passage_differences(connection: apsw.Connection, extractor: Extractor) -> list[str]:
    """Say how the passages differ from those a rebuild would make. Changes nothing.

    Objects whose passages are still to be made are left out.
    """
    if damaged := damaged_tables(connection):
        # What is read from a damaged table says nothing about the others.
        return [f"the table {table} is damaged" for table in damaged][:MOST_NAMED]
    anew = apsw.Connection("")  # a private file that SQLite removes
    try:
        create_tables(anew)
        _copy_models(connection, anew)
        identities = _all_objects(connection)
        waiting = set(waiting_of(connection, identities))
        replay_objects(connection, anew, [one for one in identities if one not in waiting], extractor)
        found = [*compared(_contents(anew), _contents(connection)), *_damage(connection)]
        if read_state(anew, SHOWN) != read_state(connection, SHOWN):
            found.append("the number of current passages is wrong")
        if word_totals(anew) != word_totals(connection):
            found.append("what full text counts of all passages is wrong")
        return found[:MOST_NAMED]
    finally:
        anew.close()


def damaged_tables(connection: apsw.Connection) -> list[str]:
    """Check the inner structure of the index, and each table against what it is found by; name what is damaged."""
    known = {name for (name,) in connection.execute("SELECT name FROM sqlite_schema WHERE type = 'table'")}
    return [
        table
        for table in TABLES
        if table in known and list(connection.execute(f"PRAGMA integrity_check({table})")) != [("ok",)]
    ]


def _all_objects(ledger: apsw.Connection) -> list[str]:
    return [identity for (identity,) in ledger.execute("SELECT DISTINCT id FROM revisions ORDER BY id")]


def _copy_models(source: apsw.Connection, target: apsw.Connection) -> None:
    models = source.execute("SELECT id, name, dimension FROM passage_models")
    target.executemany("INSERT INTO passage_models(id, name, dimension) VALUES(?, ?, ?)", models)


def _contents(connection: apsw.Connection) -> dict[Place, int]:
    """Return a hash of everything the projection says of each row."""
    words = word_contents(connection)
    metadata = _grouped(connection, "SELECT key, name, value FROM passage_metadata ORDER BY key, name")
    endings = _grouped(connection, "SELECT key, ending FROM passage_endings ORDER BY key, ending")
    days = _grouped(connection, "SELECT key, first, last FROM passage_days ORDER BY key, first, last")
    names = _grouped(connection, "SELECT key, name FROM code_names ORDER BY key, name")
    ties = graph_contents(connection)
    contents: dict[Place, int] = {}
    for *row, key in connection.execute(_ROWS):
        found = tuple(words.pop((table, key), None) for table in FULL_TEXT)
        groups = (part.pop(key, None) for part in (metadata, endings, days, names))
        contents[row[0], row[1], row[2]] = hash((*row, *groups, found, ties.pop(key, None)))
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
    yield from (f"{count} terms of {table} are not found" for table, count in lost_terms(connection).items())
    if damaged := count_damaged(connection):
        yield f"{damaged} vectors are damaged"
    for model_id, name in list(connection.execute("SELECT id, name FROM passage_models")):
        if wrong := queue_differences(connection, model_id):
            yield f"{wrong} texts are wrongly queued, or not queued, for {name}"


# Finding stored vectors that are not what was kept, by their digests.


_VECTOR_ROWS = (
    "SELECT v.key, m.name, m.dimension, t.hash, v.vector, {digest} FROM passage_vectors v "
    "LEFT JOIN passage_models m ON m.id = v.model_id LEFT JOIN passage_texts t ON t.id = v.text_id"
)


def count_damaged(connection: apsw.Connection) -> int:
    """Count the vectors that are not what was kept. One without a digest, from an older version, passes."""
    return sum(1 for _ in _damaged(connection))


def drop_damaged(connection: apsw.Connection) -> None:
    """Forget the vectors that are not what was kept, in a write transaction."""
    gone = [(key,) for key in _damaged(connection)]
    connection.executemany("DELETE FROM passage_vectors WHERE key = ?", gone)


def _damaged(connection: apsw.Connection) -> Iterator[int]:
    sql = _VECTOR_ROWS.format(digest="v.digest" if has_digests(connection) else "NULL")
    for key, *row in connection.execute(sql):
        if is_damaged(*row):
            yield key
