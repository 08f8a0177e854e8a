"""Finding turns by time: said on the days asked for, or speaking of them."""

from collections.abc import Sequence

import apsw

from treering.derived.passages import MAX_DAYS
from treering.edges.index_rows.rows import day_values
from treering.edges.stores.sqlite.reach import Sight
from treering.ports.passages import AskedDays, Passage
from treering.ports.text import Scored

_FEW = 500  # keys in one statement

# How much of what is told lies within what is asked. No period is longer than `MAX_DAYS`, so that those that may
# reach into the days asked for are a short range of the index.
_SCORE = "max(a.weight * (min(d.last, a.last) - max(d.first, a.first) + 1.0) / (d.last - d.first + 1))"
_TOUCHED = f"d.first BETWEEN a.first - {MAX_DAYS} AND a.last AND d.last >= a.first"


def add_days(connection: apsw.Connection, key: int, passage: Passage) -> None:
    """Make a turn findable by the day it was said and the days it speaks of."""
    rows = [(key, *period) for period in day_values(passage)]
    if rows:
        connection.executemany("INSERT INTO passage_days(key, first, last) VALUES(?, ?, ?)", rows)


def remove_days(connection: apsw.Connection, key: int) -> None:
    """Forget the days of a passage."""
    connection.execute("DELETE FROM passage_days WHERE key = ?", (key,))


def rank_days(connection: apsw.Connection, asked: Sequence[AskedDays], sight: Sight, limit: int) -> list[Scored]:
    """Rank turns by how much of a period they tell of is asked for; then the newest first."""
    if not asked:
        return []
    seen = sight.condition()
    sql = (
        f"WITH {_asked(asked)} SELECT d.key, {_SCORE} AS score "  # noqa: S608 - only our own SQL
        f"FROM asked a CROSS JOIN passage_days d ON {_TOUCHED} CROSS JOIN passages p ON p.key = d.key "
        f"WHERE {seen.sql} GROUP BY d.key ORDER BY score DESC, d.key DESC LIMIT ?"
    )
    rows = connection.execute(sql, (*_bound(asked), *seen.bindings, limit))
    return [Scored(key, score) for key, score in rows]


def on_days(connection: apsw.Connection, asked: Sequence[AskedDays], keys: Sequence[int]) -> dict[int, float]:
    """Return the scores of those of the keys that tell of days asked for."""
    scores: dict[int, float] = {}
    for start in range(0, len(keys) if asked else 0, _FEW):
        batch = keys[start : start + _FEW]
        sql = (
            f"WITH {_asked(asked)} SELECT d.key, {_SCORE} "  # noqa: S608 - only our own SQL
            f"FROM passage_days d CROSS JOIN asked a ON {_TOUCHED} "
            f"WHERE d.key IN ({','.join('?' * len(batch))}) GROUP BY d.key"
        )
        scores |= dict(connection.execute(sql, (*_bound(asked), *batch)))
    return scores


def _asked(asked: Sequence[AskedDays]) -> str:
    return f"asked(first, last, weight) AS (VALUES {','.join(['(?,?,?)'] * len(asked))})"


def _bound(asked: Sequence[AskedDays]) -> list[float]:
    return [value for days in asked for value in (days.first.toordinal(), days.last.toordinal(), days.weight)]
