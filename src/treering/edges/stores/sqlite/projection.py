"""Keeping rows of passages in step with the ledger, inside its transactions: what `derived.projection` folds."""

from collections.abc import Iterator, Mapping, Sequence

import apsw

from treering.core.times import render_time
from treering.derived.passages import gist_hash
from treering.derived.projection import Entry, steps_of
from treering.edges.index_rows.fold import ErasedRow, PassageFold, PlacedRow
from treering.edges.index_rows.rows import PASSAGE_COLUMNS, passage_values
from treering.edges.stores.sqlite.code_names import purge_names, settle_names
from treering.edges.stores.sqlite.days import add_days, remove_days
from treering.edges.stores.sqlite.filters import stored_scalar
from treering.edges.stores.sqlite.graph import settle_ties
from treering.edges.stores.sqlite.places import add_places, remove_places
from treering.edges.stores.sqlite.tables import SHOWN, read_state, write_state
from treering.edges.stores.sqlite.vector_queue import log_vectors, settle_texts
from treering.edges.stores.sqlite.words import add_words, purge_words, remove_words
from treering.ports.extractor import Extractor
from treering.ports.passages import Passage
from treering.ports.projection import Change

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
