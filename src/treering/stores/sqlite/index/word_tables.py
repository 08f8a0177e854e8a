"""Ranking of current passages by words, with postings in memory that follow the file."""

import threading
from collections.abc import Iterable, Sequence
from typing import Any
from weakref import WeakSet

import apsw
import numpy as np

from treering.ports.search import MOST_COUNTED, Scored
from treering.retrieval.index.tables import Keys, PackedTable
from treering.retrieval.index.word_table import Postings, Scores, WeighedPostings, WordTable, best, only
from treering.stores.rows.followed_table import FollowedTable, SavedTable
from treering.stores.rows.passage_log import Moment
from treering.stores.rows.reach import role_term
from treering.stores.sqlite.filters import ALWAYS
from treering.stores.sqlite.index.passage_log import SqliteLog
from treering.stores.sqlite.index.tables import WORDS
from treering.stores.sqlite.index.words import (
    COLUMNS,
    PLAIN_TERM,
    WEIGHTS,
    frequent_terms,
    numbers_in,
    passages_with,
    ranked_rows,
    totals,
    vocabulary,
)
from treering.stores.sqlite.reading import in_batches, integers
from treering.stores.sqlite.sight import fts_query

# One number for each occurrence of a term: the key of the passage, and the first letter of the column.
_POSTINGS = "SELECT group_concat(doc * 256 + unicode(col)) FROM {words} WHERE term = ?"


_LENGTHS = f"SELECT group_concat(id), group_concat(hex(sz), '') FROM {WORDS}_docsize"  # noqa: S608 - our table


_COLUMNS = 4
_COUNTING: WeakSet[apsw.Connection] = WeakSet()
"""The connections that have the function `occurrences`."""

_MATCHES = f"SELECT rowid, occurrences({WORDS}, {{weights}}) FROM {WORDS} WHERE {WORDS} MATCH ? AND rowid >= ?"  # noqa: S608 - our table
_ROLE_WEIGHTS = (0.0, 0.0, 0.0, 1.0)
"""Roles are terms in the column of scopes."""

MIN_SAVED_PASSAGES = 50_000
"""Lengths and postings of a smaller space are read from the database in a few milliseconds."""
SAVED_SHARE = 1 / 16
"""The least share of passages with a term whose postings are saved."""

FREQUENT_FROM = 50_000
"""The least number of passages with a frequent term. Below, reading its postings takes a few milliseconds at most."""
FREQUENT_SHARE = 1 / 4
"""The least share of passages with a frequent term, which adds 2.4 at most to the BM25 score of a passage."""
ENOUGH_TERMS = 3
"""Frequent terms of a question do not count if at least this number of its other terms occur.

Without this number, two of 160 questions about repositories lost their answer among five; with it, none.
"""


class WordTables(FollowedTable[SqliteLog]):
    """Postings of terms of current passages, in memory and in a mapped file. Thread-safe."""

    def __init__(self, saved: SavedTable[SqliteLog] | None = None) -> None:
        super().__init__(saved)
        self._lock = threading.Lock()
        self._table = WordTable()
        self._scored: tuple[Moment | None, Sequence[str], Scores] | None = None
        """The last scores, because one question is ranked for several roles."""
        self._frequencies: dict[str, int] = {}
        """By term, the number of passages with it when it was counted."""

    def rank(
        self,
        connection: apsw.Connection,
        terms: Sequence[str],
        limit: int,
        *,
        role: str = "",
        among: Keys | None = None,
    ) -> tuple[list[Scored], list[Scored]] | None:
        """Rank all current passages (or those `among`) by BM25, and those of places in a role separately.

        Returns `None` for a moment in the past, which needs FTS5.
        """
        with self._lock:
            if not self._is_current(connection):
                return None
            scores = self._scores(connection, terms)
            in_role = self._postings(connection, role_term(role), _ROLE_WEIGHTS) if role else None
        ranked = _scored(*best(scores, limit, among=among))
        if in_role is None or not len(in_role.keys):
            return ranked, []
        scores = scores if among is None else only(scores, among)
        return ranked, _scored(*best(scores, limit, among=in_role.keys))

    def counts(self, connection: apsw.Connection, terms: Iterable[str]) -> dict[str, int]:
        """Count the current passages with each term whose postings are in memory or saved, up to `MOST_COUNTED`."""
        with self._lock:
            held = self._table.held(terms) if self._is_current(connection) else ()
            known = {term: self._known(connection, term, WEIGHTS) for term in held}
        return {term: min(len(postings.keys), MOST_COUNTED) for term, postings in known.items() if postings}

    def _is_current(self, connection: apsw.Connection) -> bool:
        """Bring the table up to date with a connection; return whether it is not ahead of it."""
        log = SqliteLog(connection)
        self._follow(log)
        return self._seen == log.moment()

    def _scores(self, connection: apsw.Connection, terms: Sequence[str]) -> Scores:
        """Return the score of each passage by key. The result must not be modified."""
        if self._scored is None or self._scored[:2] != (self._seen, terms):
            postings = [
                self._postings(connection, term) if PLAIN_TERM.fullmatch(term) else _phrase(connection, term)
                for term in self._without_frequent(connection, terms)
            ]
            self._scored = (self._seen, terms, self._table.scores(postings))
        return self._scored[2]

    def _without_frequent(self, connection: apsw.Connection, terms: Sequence[str]) -> Sequence[str]:
        """Leave out frequent terms if enough others occur, because their postings take most of the time to read."""
        most = self._most_counted()
        if self._table.rows <= most:
            return terms
        counts = {term: self._frequency(connection, term) for term in terms if PLAIN_TERM.fullmatch(term)}
        if sum(0 < count <= most for count in counts.values()) < ENOUGH_TERMS:
            return terms
        return [term for term in terms if counts.get(term, 0) <= most]

    def _most_counted(self) -> float:
        """Return the number of passages above which a term is frequent."""
        return max(FREQUENT_FROM, FREQUENT_SHARE * self._table.rows)

    def _frequency(self, connection: apsw.Connection, term: str) -> int:
        if (known := self._table.having(term)) is not None:
            return known
        if term not in self._frequencies:
            self._frequencies[term] = passages_with(connection, term)
        return self._frequencies[term]

    def _postings(self, connection: apsw.Connection, term: str, weights: Sequence[float] = WEIGHTS) -> Postings:
        known = self._known(connection, term, weights)
        if known is None:
            known = _read(connection, term, weights)
            self._table.keep(term, known)
        return known

    def _known(self, connection: apsw.Connection, term: str, weights: Sequence[float]) -> Postings | None:
        """Return the postings of a term from memory or the file, after looking up passages that were added since."""
        return self._table.renewed(term, lambda first: _looked_up(connection, term, first, weights))

    def _min_saved(self) -> int:
        return MIN_SAVED_PASSAGES

    def _size(self) -> int:
        return self._table.rows

    def _packed(self, log: SqliteLog) -> PackedTable:
        frequent = frequent_terms(log.connection, int(SAVED_SHARE * self._table.rows), int(self._most_counted()))
        return self._table.packed(frequent, lambda term: _read(log.connection, term, WEIGHTS))

    def _unpack(self, packed: PackedTable) -> None:
        table = WordTable()
        table.unpack(packed)
        self._table, self._frequencies = table, {}

    def _detach(self, _: SqliteLog) -> None:
        self._table.detach()

    def _load(self, log: SqliteLog) -> None:
        keys, lengths = _lengths_in(next(log.connection.execute(_LENGTHS)))
        self._table, self._frequencies = WordTable(), {}
        self._table.begin(keys, lengths, **totals(log.connection))

    def _reread(self, log: SqliteLog, changed: Sequence[int]) -> None:
        rows = map(_lengths_in, in_batches(log.connection, f"{_LENGTHS} WHERE id IN (?*)", changed))
        keys, lengths = zip(*rows, strict=True)
        self._table.renew(changed, np.concatenate(keys), np.concatenate(lengths), **totals(log.connection))


def _looked_up(connection: apsw.Connection, term: str, first: int, weights: Sequence[float]) -> dict[int, float]:
    """Return the occurrences of a term in the passages that contain it, from a key on, weighted by column."""
    if connection not in _COUNTING:
        connection.register_fts5_function("occurrences", _occurrences)
        _COUNTING.add(connection)
    sql = _MATCHES.format(weights=", ".join(map(str, weights)))
    return {key: count for key, count in connection.execute(sql, (fts_query([term]), first)) if count}


def _occurrences(table: apsw.FTS5ExtensionApi, *weights: Any) -> float:
    """Return the number of occurrences of the first phrase of a query in a row, weighted by column."""
    found = (weight * len(table.phrase_column_offsets(0, column)) for column, weight in enumerate(weights))
    return float(sum(found))


def _read(connection: apsw.Connection, term: str, weights: Sequence[float]) -> Postings:
    words = vocabulary(connection, WORDS, "instance")
    places = integers(next(connection.execute(_POSTINGS.format(words=words), (term,)))[0])
    of_column = np.zeros(256)
    of_column[[ord(column[0]) for column in COLUMNS]] = weights
    keys, counts = places >> 8, of_column[places & 255]
    counted = np.flatnonzero(counts)  # scope terms have no weight, and differ from all terms of text
    keys, counts = keys[counted], counts[counted]
    if not len(keys):
        return Postings(keys.astype(np.int32), counts.astype(np.float32))
    firsts = np.flatnonzero(np.concatenate([[True], keys[1:] != keys[:-1]]))
    sums = np.add.reduceat(counts, firsts)
    return Postings(keys[firsts].astype(np.int32), sums.astype(np.float32))


def _phrase(connection: apsw.Connection, term: str) -> WeighedPostings:
    """Return the score of a phrase in each passage. FTS5 adds up the scores of the parts of a query."""
    rows = list(ranked_rows(connection, WORDS, fts_query([term]), WEIGHTS, ALWAYS, -1))
    return WeighedPostings(np.array([key for key, _ in rows], np.int32), np.array([score for _, score in rows]))


def _scored(keys: Keys, scores: Scores) -> list[Scored]:
    return [Scored(key, score) for key, score in zip(keys.tolist(), scores.tolist(), strict=True)]


def _lengths_in(row: tuple[str | None, str | None]) -> tuple[Keys, Keys]:
    """Parse the keys and numbers of terms of passages."""
    keys = integers(row[0])
    return keys, numbers_in(bytes.fromhex(row[1] or "")).reshape(len(keys), _COLUMNS).sum(axis=1)
