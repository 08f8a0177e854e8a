"""Reading passages by key: what a hit needs of them, who may see them, what stands beside them."""

from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from treering.ports.passages import MOST_NAMED, AskedDays, PassageHead, PassageRequest, PassagesFound, Reach
from treering.retrieval.index.code_names import name_code
from treering.retrieval.index.passages import MAX_DAYS
from treering.retrieval.index.ties import DIALOGUE_KINDS
from treering.stores.postgres.connection.exchange import Row
from treering.stores.postgres.connection.failures import from_column
from treering.stores.postgres.connection.space import PostgresSpace
from treering.stores.postgres.connection.transactions import Transaction
from treering.stores.postgres.index.filters import PassageSight, sight, sights
from treering.stores.rows.packing import REINDEX, rows_of

PassageQuery = tuple[str, dict[str, Any]]

_HEADS = (
    "SELECT p.key, p.object_id, p.part, p.type, p.kind, s.scope, p.role, p.title, p.heading, coalesce(p.origin, ''), "
    "p.place_role FROM passages p JOIN passage_scopes s ON s.space = p.space AND s.id = p.scope_id "
    "WHERE p.space = %(space)s AND p.key = ANY(%(keys)s::bigint[])"
)
# Beside a turn stands what has the next or the last position in the same object, of the same time.
_BESIDE = (
    "SELECT p.key, n.key FROM passages p JOIN passages n ON n.space = p.space AND n.object_id = p.object_id "
    "AND n.position IN (p.position - 1, p.position + 1) AND n.until_seq IS NOT DISTINCT FROM p.until_seq "
    "WHERE p.space = %(space)s AND p.key = ANY(%(keys)s::bigint[]) AND p.kind = ANY(%(kinds)s::text[]) "
    "ORDER BY n.position"
)


class PostgresPassages:
    """`ports.passages.Passages` over a `PostgresSpace`."""

    def __init__(self, space: PostgresSpace) -> None:
        self._space = space

    def read(self, requests: Sequence[PassageRequest]) -> Sequence[PassagesFound]:
        """Read passages for several requests, all of one moment."""
        with rows_of("the index", hint=REINDEX), self._space.read() as transaction:
            known = iter(sights(transaction, [request.reach for request in requests if request.reach]))
            return [_found(transaction, one, next(known) if one.reach else None) for one in requests]

    def count(self, reach: Reach) -> int:
        """Count the passages in reach."""
        with rows_of("the index", hint=REINDEX), self._space.read() as transaction:
            seen = sight(transaction, reach).condition()
            sql = f"SELECT count(*) FROM passages p WHERE p.space = %(space)s AND {seen.sql}"  # noqa: S608 - only our own SQL
            return int(transaction.first(sql, **seen.bindings))


def _found(transaction: Transaction, request: PassageRequest, seen: PassageSight | None) -> PassagesFound:
    keys = list(request.keys)
    queries: list[PassageQuery] = [(_HEADS, {"keys": keys})] if keys else []
    queries += [_visible(keys, seen)] if keys and seen else []
    queries += [(_BESIDE, {"keys": keys, "kinds": sorted(DIALOGUE_KINDS)})] if keys and request.beside else []
    answers = iter(transaction.together(queries) if queries else ())
    heads = _heads(next(answers, ()))
    visible = frozenset(key for (key,) in next(answers, ())) if seen else frozenset[int]()
    beside: dict[int, list[int]] = {}
    for key, other in next(answers, ()) if request.beside else ():
        beside.setdefault(key, []).append(other)
    named = passages_named(transaction, request.named, seen) if request.named and seen else {}
    others = (key for found in (beside, named) for each in found.values() for key in each)
    more = [key for key in dict.fromkeys(others) if key not in heads]
    heads |= _heads(transaction.rows(_HEADS, keys=more)) if more else {}
    return PassagesFound(heads, visible, beside, _dated(transaction, request, heads), named)


def _dated(transaction: Transaction, request: PassageRequest, heads: Mapping[int, PassageHead]) -> dict[int, float]:
    if not request.days or not heads:
        return {}
    sql, bindings = on_days(request.days, list(heads))
    return {key: float(score) for key, score in transaction.rows(sql, **bindings)}


def _heads(rows: Sequence[Row]) -> dict[int, PassageHead]:
    return {row[0]: PassageHead(row[0], *map(from_column, row[1:])) for row in rows}


def _visible(keys: Sequence[int], seen: PassageSight) -> PassageQuery:
    where = seen.condition()
    sql = f"SELECT p.key FROM passages p WHERE p.space = %(space)s AND p.key = ANY(%(keys)s::bigint[]) AND {where.sql}"  # noqa: S608 - only our own SQL
    return sql, {"keys": list(keys), **where.bindings}


# Finding passages of code by the names they vouch for: what they define, import and use.


_FORGET = (
    "DELETE FROM code_names n USING unnest(%(names)s::bigint[], %(keys)s::bigint[]) AS gone(name, key) "
    "WHERE n.space = %(space)s AND n.name = gone.name AND n.key = gone.key"
)


def settle_names(
    transaction: Transaction, *, gone: Mapping[int, Sequence[str]], come: Mapping[int, Sequence[str]]
) -> None:
    """Forget names that passages vouched for, then keep those that they vouch for now, both by key."""
    if left := _rows(gone):
        names, keys = ([row[place] for row in left] for place in range(2))
        transaction.later(_FORGET, names=names, keys=keys)
    transaction.insert("code_names", ("name bigint", "key bigint"), _rows(come), conflict="ON CONFLICT DO NOTHING")


def purge_names(transaction: Transaction, keys: Sequence[int]) -> None:
    """Forget all names of passages of which nothing else is known any more."""
    if keys:
        sql = "DELETE FROM code_names WHERE space = %(space)s AND key = ANY(%(keys)s::bigint[])"
        transaction.later(sql, keys=list(keys))


def passages_named(transaction: Transaction, names: Sequence[str], seen: PassageSight) -> dict[str, list[int]]:
    """Return the current passages that vouch for each name and that are seen, by key: `MOST_NAMED` of each."""
    if not names:
        return {}
    where = seen.condition()
    sql = (
        "SELECT asked.name, found.key FROM unnest(%(codes)s::bigint[]) AS asked(name) CROSS JOIN LATERAL ("  # noqa: S608 - only our own SQL
        "SELECT n.key FROM code_names n JOIN passages p ON p.space = n.space AND p.key = n.key "
        f"WHERE n.space = %(space)s AND n.name = asked.name AND {where.sql} ORDER BY n.key LIMIT {MOST_NAMED}) "
        "AS found ORDER BY found.key"
    )
    by_code: dict[int, list[int]] = {}
    codes = {name: name_code(name) for name in names}
    for code, key in transaction.rows(sql, codes=sorted(set(codes.values())), **where.bindings):
        by_code.setdefault(code, []).append(key)
    return {name: by_code[code] for name, code in codes.items() if code in by_code}


def _rows(names: Mapping[int, Iterable[str]]) -> list[tuple[int, int]]:
    return sorted({(name_code(name), key) for key, each in names.items() for name in each})


# Finding turns by time: said on the days asked for, or speaking of them.


DayQuery = tuple[str, dict[str, Any]]

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


def rank_days(asked: Sequence[AskedDays], seen: PassageSight, limit: int) -> DayQuery:
    """Ask for turns by how much of a period they tell of is asked for; then the newest first."""
    where = seen.condition()
    sql = (
        f"SELECT d.key, {_SCORE} AS score FROM {_ASKED} {_TOLD} "  # noqa: S608 - only our own SQL
        f"JOIN passages p ON p.space = %(space)s AND p.key = d.key WHERE {where.sql} "
        "GROUP BY d.key ORDER BY score DESC, d.key DESC LIMIT %(most)s"
    )
    return sql, {**_bound(asked), **where.bindings, "most": limit}


def on_days(asked: Sequence[AskedDays], keys: Sequence[int]) -> DayQuery:
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
