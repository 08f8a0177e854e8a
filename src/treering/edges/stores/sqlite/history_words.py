"""Ranking text that is no longer current by the statistics of text that is.

The full-text table of the past is small and lopsided: its own document frequencies would make a word that was
edited once look common. So its rows are scored here, by the formula of FTS5's `bm25()` (k1 = 1.2, b = 0.75; Robertson
and Zaragoza 2009) with what the current table says of how common a word and how long a passage is. Scores of both
tables are then on one scale.
"""

from collections.abc import Mapping, Sequence
from math import log

import apsw

from treering.edges.stores.sqlite.tables import WORDS, WORDS_HISTORY

_K1 = 1.2
_B = 0.75
_LEAST_IDF = 1e-6  # as FTS5: a word in most passages counts next to nothing, not against
_FEW = 500  # keys in one statement


def score_history(connection: apsw.Connection, terms: Sequence[str], weights: Mapping[str, float]) -> dict[int, float]:
    """Return the score of every past passage that has any of the (single) terms, by key."""
    _name_vocabularies(connection)
    total = next(connection.execute(f"SELECT count(*) FROM {WORDS}_docsize"))[0]  # noqa: S608 - our table
    found = {term: _weighted_counts(connection, term, weights) for term in terms}
    lengths = _lengths(connection, WORDS_HISTORY, sorted(set().union(*found.values())))
    usual = _usual_length(connection) or sum(lengths.values()) / max(1, len(lengths))
    scores: dict[int, float] = {}
    for term, counts in found.items():
        rarity = _idf(total, _documents_with(connection, term))
        for key, count in counts.items():
            norm = _K1 * (1 - _B + _B * lengths.get(key, usual) / (usual or 1))
            scores[key] = scores.get(key, 0.0) + rarity * count * (_K1 + 1) / (count + norm)
    return scores


def _name_vocabularies(connection: apsw.Connection) -> None:
    for name, table, kind in (("now", WORDS, "row"), ("past", WORDS_HISTORY, "instance")):
        connection.execute(
            f"CREATE VIRTUAL TABLE IF NOT EXISTS temp.vocabulary_{name} USING fts5vocab(main, {table}, {kind})"
        )


def _documents_with(connection: apsw.Connection, term: str) -> int:
    row = next(connection.execute("SELECT doc FROM temp.vocabulary_now WHERE term = ?", (term,)), None)
    return int(row[0]) if row else 0


def _weighted_counts(connection: apsw.Connection, term: str, weights: Mapping[str, float]) -> dict[int, float]:
    sql = "SELECT doc, col, count(*) FROM temp.vocabulary_past WHERE term = ? GROUP BY doc, col"
    counts: dict[int, float] = {}
    for key, column, count in connection.execute(sql, (term,)):
        if weights[column]:
            counts[key] = counts.get(key, 0.0) + weights[column] * count
    return counts


def _lengths(connection: apsw.Connection, table: str, keys: Sequence[int]) -> dict[int, int]:
    """Return how many terms passages have in all columns, from FTS5's own record of it."""
    lengths: dict[int, int] = {}
    for start in range(0, len(keys), _FEW):
        batch = keys[start : start + _FEW]
        marks = ",".join("?" * len(batch))
        sql = f"SELECT id, sz FROM {table}_docsize WHERE id IN ({marks})"  # noqa: S608 - our tables and marks
        lengths |= {key: sum(_varints(sizes)) for key, sizes in connection.execute(sql, batch)}
    return lengths


def _usual_length(connection: apsw.Connection) -> float:
    """Return the mean length of current passages: FTS5 keeps their number and each column's total in row 1."""
    row = next(connection.execute(f"SELECT block FROM {WORDS}_data WHERE id = 1"), None)  # noqa: S608 - our table
    rows, *totals = _varints(row[0]) if row and row[0] else [0]
    return sum(totals) / rows if rows else 0.0


def _idf(total: int, having: int) -> float:
    return max(_LEAST_IDF, log((total - having + 0.5) / (having + 0.5))) if total >= having else _LEAST_IDF


def _varints(data: bytes) -> list[int]:
    """Read SQLite's variable-length integers: seven bits a byte, the high bit says that more follows.

    Nine-byte ones use all bits of their last byte; counts of terms never get that large.
    """
    numbers, value = [], 0
    for byte in data:
        value = (value << 7) | (byte & 0x7F)
        if not byte & 0x80:
            numbers.append(value)
            value = 0
    return numbers
