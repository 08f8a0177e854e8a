"""Update the rows of passages in the ledger's transactions."""

from collections.abc import Iterator, Mapping, Sequence

import apsw

from treering.core.canonical import render_time
from treering.ports.index import Change
from treering.ports.models import Extractor
from treering.ports.passages import Passage
from treering.retrieval.index.passages import gist_hash
from treering.retrieval.index.projection import Entry, Touched, steps_of
from treering.stores.rows.fold import PASSAGE_COLUMNS, ErasedRow, PassageFold, PlacedRow, Value, passage_values
from treering.stores.rows.upkeep import SHOWN, AtOnce, CarriedIndex
from treering.stores.sqlite.filters import stored_scalar
from treering.stores.sqlite.index.code_names import purge_names, settle_names
from treering.stores.sqlite.index.days import add_days, remove_days
from treering.stores.sqlite.index.graph import settle_ties
from treering.stores.sqlite.index.places import add_places, remove_places
from treering.stores.sqlite.index.vector_queue import CURRENT, log_vectors, settle_texts, waiting_counted
from treering.stores.sqlite.index.words import add_words, purge_words, remove_words
from treering.stores.sqlite.reading import read_state, write_state

_COLUMNS = ("key", "scope_id", "text_id", "from_seq", *PASSAGE_COLUMNS)


_INSERT = f"INSERT INTO passages({', '.join(_COLUMNS)}) VALUES({','.join('?' * len(_COLUMNS))})"


# Most scopes have a current passage, which an index finds at once.
_FORGET_SCOPES = (
    "DELETE FROM passage_scopes WHERE NOT EXISTS (SELECT 1 FROM passages p WHERE scope_id = passage_scopes.id AND "  # noqa: S608 - a constant
    f"{CURRENT}) AND NOT EXISTS (SELECT 1 FROM passages WHERE scope_id = passage_scopes.id)"
)


_AT_ONCE = 1_000  # passages that are collected before they are written


def apply_changes(
    connection: apsw.Connection,
    changes: Sequence[Change],
    extractor: Extractor,
    at_once: AtOnce[apsw.Connection] | None = None,
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
        connection.execute(_FORGET_SCOPES)
        purge_words(connection, fold.erased)
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

    def touch(self, key: int, step: Touched) -> None:
        self.write()
        passage = step.entry.passage
        sql = "UPDATE passages SET position = ?, updated_at = ? WHERE key = ?"
        self._connection.execute(sql, (step.entry.position, render_time(passage.updated_at), key))
        if passage.metadata != step.was.passage.metadata:
            self._connection.execute("DELETE FROM passage_metadata WHERE key = ?", (key,))
            self._keep_metadata([(key, passage)])

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
        rows = (
            (key, name, value if value.__class__ is str else stored_scalar(value))
            for key, one in passages
            for name, value in one.metadata.items()
        )
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
