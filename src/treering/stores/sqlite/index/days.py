"""Find turns by the days on which they were written or that they mention."""

from collections.abc import Iterable, Sequence

import apsw

from treering.ports.passages import AskedDays, Passage
from treering.ports.search import Scored
from treering.retrieval.index.passages import MAX_DAYS
from treering.stores.rows.fold import day_values
from treering.stores.sqlite.reading import in_batches
from treering.stores.sqlite.sight import Sight

# The share of a turn's period that is within the requested days. No period is longer than `MAX_DAYS`, so that the
# periods that may overlap are a short range of the index.
_SCORE = "max(a.weight * (min(d.last, a.last) - max(d.first, a.first) + 1.0) / (d.last - d.first + 1))"


_TOUCHED = f"d.first BETWEEN a.first - {MAX_DAYS} AND a.last AND d.last >= a.first"


def add_days(connection: apsw.Connection, passages: Iterable[tuple[int, Passage]]) -> None:
    """Index the days on which turns were written and the days they mention."""
    rows = ((key, *period) for key, one in passages for period in day_values(one))
    connection.executemany("INSERT INTO passage_days(key, first, last) VALUES(?, ?, ?)", rows)


def remove_days(connection: apsw.Connection, key: int) -> None:
    """Remove the days of a passage from the index."""
    connection.execute("DELETE FROM passage_days WHERE key = ?", (key,))


def rank_days(connection: apsw.Connection, asked: Sequence[AskedDays], sight: Sight, limit: int) -> list[Scored]:
    """Rank turns by the share of their period that is within the requested days; then the newest first."""
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
    """Return the scores of passages with requested days."""
    sql = (
        f"WITH {_asked(asked)} SELECT d.key, {_SCORE} "  # noqa: S608 - only our own SQL
        f"FROM passage_days d CROSS JOIN asked a ON {_TOUCHED} WHERE d.key IN (?*) GROUP BY d.key"
    )
    return dict(in_batches(connection, sql, keys if asked else (), before=_bound(asked)))


def _asked(asked: Sequence[AskedDays]) -> str:
    return f"asked(first, last, weight) AS (VALUES {','.join(['(?,?,?)'] * len(asked))})"


def _bound(asked: Sequence[AskedDays]) -> list[float]:
    return [value for days in asked for value in (days.first.toordinal(), days.last.toordinal(), days.weight)]
