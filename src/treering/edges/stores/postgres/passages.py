"""Reading passages by key: what a hit needs of them, who may see them, what stands beside them."""

from collections.abc import Mapping, Sequence
from typing import Any

from treering.derived.ties import DIALOGUE_KINDS
from treering.edges.ledger_rows.row_failures import REINDEX, rows_of
from treering.edges.stores.postgres.code_names import passages_named
from treering.edges.stores.postgres.columns import from_column
from treering.edges.stores.postgres.days import on_days
from treering.edges.stores.postgres.exchange import Row
from treering.edges.stores.postgres.reach import PassageSight, sight, sights
from treering.edges.stores.postgres.space import PostgresSpace
from treering.edges.stores.postgres.transactions import Transaction
from treering.ports.passages import PassageHead, PassageRequest, PassagesFound
from treering.ports.reach import Reach

Query = tuple[str, dict[str, Any]]

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
    queries: list[Query] = [(_HEADS, {"keys": keys})] if keys else []
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


def _visible(keys: Sequence[int], seen: PassageSight) -> Query:
    where = seen.condition()
    sql = f"SELECT p.key FROM passages p WHERE p.space = %(space)s AND p.key = ANY(%(keys)s::bigint[]) AND {where.sql}"  # noqa: S608 - only our own SQL
    return sql, {"keys": list(keys), **where.bindings}
