"""Ranking current passages by words from postings in memory, which follow the file.

FTS5 computes `bm25()` row by row, and a question of everyday words matches a quarter of a space. The postings of a
term are read from its index when somebody first asks for it, and ranked as arrays: to the same scores.
"""

import re
import threading
from collections.abc import Sequence

import apsw
import numpy as np

from treering.ports.search import Scored
from treering.retrieval.index.tables import Keys, Postings, Scores, WordTable, best, only
from treering.stores.rows.fold import role_term
from treering.stores.rows.passage_log import Moment
from treering.stores.sqlite.index.tables import WORDS, integers
from treering.stores.sqlite.index.vectors import SqliteLog, catch_up

_FEW = 500  # keys in one statement
_ASKED_FOR = "temp.asked_words"
_POSTINGS = f"SELECT group_concat(doc), group_concat(substr(col, 1, 1), '') FROM {_ASKED_FOR} WHERE term = ?"  # noqa: S608 - ours
_LENGTHS = f"SELECT group_concat(id), group_concat(hex(sz), '') FROM {WORDS}_docsize"  # noqa: S608 - our table
_COLUMNS = 4
# What FTS5 makes of it is the term itself: see `fts5.WORD_TOKENIZER`.
_PLAIN = re.compile(r"[a-z0-9_\u0080-\U0010ffff]+")


class WordTables:
    """Postings of terms of current passages. Safe to use from many threads."""

    def __init__(self, weights: Sequence[float], columns: Sequence[str]) -> None:
        self._lock = threading.Lock()
        self._table = WordTable()
        self._seen: Moment | None = None
        self._weights = np.zeros(256)
        self._weights[[ord(column[0]) for column in columns]] = weights

    def rank(
        self,
        connection: apsw.Connection,
        terms: Sequence[str],
        limit: int,
        *,
        role: str = "",
        among: Keys | None = None,
    ) -> tuple[list[Scored], list[Scored]] | None:
        """Rank all current passages (`among`: some of them) by BM25, and those of places in a role by themselves.

        `None` where FTS5 has to do it: for phrases, and for a moment gone by.
        """
        if not all(map(_PLAIN.fullmatch, terms)):
            return None
        with self._lock:
            self._seen = catch_up(connection, self._seen, load=self._load, reread=self._reread)
            if self._seen != SqliteLog(connection).moment():
                return None
            scores = self._table.scores([self._postings(connection, term) for term in terms])
            in_role = self._in_role(connection, role) if role else None
        scores = scores if among is None else only(scores, among)
        return _scored(*best(scores, limit)), _scored(*best(scores, limit, among=in_role.keys)) if in_role else []

    def _postings(self, connection: apsw.Connection, term: str) -> Postings:
        if (known := self._table.find(term)) is None:
            known = self._read(connection, term)
            self._table.keep(term, known)
        return known

    def _in_role(self, connection: apsw.Connection, role: str) -> Postings:
        """Return the passages of places in a role, which their index term tells."""
        term = role_term(role)
        if (known := self._table.find(term)) is None:
            documents, _ = self._documents(connection, term)
            keys = np.unique(integers(documents)).astype(np.int32)
            known = Postings(keys, np.ones(len(keys), np.float32))
            self._table.keep(term, known)
        return known

    def _documents(self, connection: apsw.Connection, term: str) -> tuple[str | None, str | None]:
        sql = f"CREATE VIRTUAL TABLE IF NOT EXISTS {_ASKED_FOR} USING fts5vocab(main, {WORDS}, instance)"
        connection.execute(sql)
        documents, columns = next(connection.execute(_POSTINGS, (term,)))
        return documents, columns

    def _read(self, connection: apsw.Connection, term: str) -> Postings:
        documents, columns = self._documents(connection, term)
        keys = integers(documents)
        counts = self._weights[np.frombuffer((columns or "").encode(), np.uint8)]
        counted = np.flatnonzero(counts)  # scopes weigh nothing, and a term of text is not a term of scopes
        keys, counts = keys[counted], counts[counted]
        if not len(keys):
            return Postings(keys.astype(np.int32), counts.astype(np.float32))
        firsts = np.flatnonzero(np.concatenate([[True], keys[1:] != keys[:-1]]))
        sums = np.add.reduceat(counts, firsts)
        return Postings(keys[firsts].astype(np.int32), sums.astype(np.float32))

    def _load(self, connection: apsw.Connection) -> None:
        keys, lengths = _lengths_in(next(connection.execute(_LENGTHS)))
        self._table = WordTable()
        self._table.begin(keys, lengths, **_totals(connection))

    def _reread(self, connection: apsw.Connection, changed: Sequence[int]) -> None:
        keys, lengths = [], []
        for start in range(0, len(changed), _FEW):
            batch = changed[start : start + _FEW]
            rows = connection.execute(f"{_LENGTHS} WHERE id IN ({','.join('?' * len(batch))})", batch)
            for found, of_each in map(_lengths_in, rows):
                keys.append(found)
                lengths.append(of_each)
        self._table.renew(changed, np.concatenate(keys), np.concatenate(lengths), **_totals(connection))


def _scored(keys: Keys, scores: Scores) -> list[Scored]:
    return [Scored(key, score) for key, score in zip(keys.tolist(), scores.tolist(), strict=True)]


def _totals(connection: apsw.Connection) -> dict[str, int]:
    """Return how many rows there are, and how many terms they have together: FTS5 keeps both in row 1."""
    block = next(connection.execute(f"SELECT block FROM {WORDS}_data WHERE id = 1"))[0]  # noqa: S608 - our table
    numbers = _numbers(block).tolist() or [0]
    return {"rows": numbers[0], "total": sum(numbers[1:])}


def _lengths_in(row: tuple[str | None, str | None]) -> tuple[Keys, Keys]:
    """Read keys, and how many terms each has in all columns."""
    keys = integers(row[0])
    return keys, _numbers(bytes.fromhex(row[1] or "")).reshape(len(keys), _COLUMNS).sum(axis=1)


def _numbers(block: bytes) -> Keys:
    """Read SQLite's numbers of seven bits a byte, of which all but the last byte have the eighth bit set."""
    data = np.frombuffer(block, np.uint8).astype(np.int64)
    ends = np.flatnonzero(data < 0x80)
    sizes = np.diff(ends, prepend=-1)
    numbers = data[ends]
    for back in range(1, int(sizes.max(initial=1))):
        longer = sizes > back
        numbers[longer] |= (data[ends[longer] - back] & 0x7F) << (7 * back)
    return numbers
