"""Finding turns by time: said on the days asked for, or speaking of them."""

from collections.abc import Sequence
from typing import Any

from treering.derived.passages import MAX_DAYS
from treering.edges.stores.postgres.reach import PassageSight
from treering.ports.passages import AskedDays

Query = tuple[str, dict[str, Any]]

# How much of what is told lies within what is asked. No period is longer than `MAX_DAYS`, so that those that may
# reach into the days asked for are a short range of the index.
_SCORE = (
    "max(a.weight * (least(d.last, a.last) - greatest(d.first, a.first) + 1.0::double precision) "
    "/ (d.last - d.first + 1))"
)
_ASKED = (
    "unnest(%(day_firsts)s::integer[], %(day_lasts)s::integer[], %(day_weights)s::double precision[]) "
    "AS a(first, last, weight)"
)
_TOLD = (
    f"JOIN passage_days d ON d.space = %(space)s AND d.first BETWEEN a.first - {MAX_DAYS} AND a.last "
    "AND d.last >= a.first"
)


def rank_days(asked: Sequence[AskedDays], seen: PassageSight, limit: int) -> Query:
    """Ask for turns by how much of a period they tell of is asked for; then the newest first."""
    where = seen.condition()
    sql = (
        f"SELECT d.key, {_SCORE} AS score FROM {_ASKED} {_TOLD} "  # noqa: S608 - only our own SQL
        f"JOIN passages p ON p.space = %(space)s AND p.key = d.key WHERE {where.sql} "
        "GROUP BY d.key ORDER BY score DESC, d.key DESC LIMIT %(most)s"
    )
    return sql, {**_bound(asked), **where.bindings, "most": limit}


def on_days(asked: Sequence[AskedDays], keys: Sequence[int]) -> Query:
    """Ask for the scores of those of the keys that tell of days asked for."""
    sql = (
        f"SELECT d.key, {_SCORE} FROM {_ASKED} {_TOLD} "  # noqa: S608 - only our own SQL
        "WHERE d.key = ANY(%(keys)s::bigint[]) GROUP BY d.key"
    )
    return sql, {**_bound(asked), "keys": list(keys)}


def _bound(asked: Sequence[AskedDays]) -> dict[str, Any]:
    return {
        "day_firsts": [days.first.toordinal() for days in asked],
        "day_lasts": [days.last.toordinal() for days in asked],
        "day_weights": [float(days.weight) for days in asked],
    }
