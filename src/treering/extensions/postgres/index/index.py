"""The index in the ledger's own database. Writes are searchable at once."""

from collections.abc import Iterator, Mapping, Sequence
from functools import partial
from itertools import chain

from treering.extensions.postgres.connection.failures import from_column
from treering.extensions.postgres.connection.space import PostgresSpace
from treering.extensions.postgres.connection.transactions import Row, Statement, Transaction
from treering.extensions.postgres.index.graph_rows import RECORDS, kept_ties, names_of, numbers_of
from treering.extensions.postgres.index.index_state import (
    LOADED_AT_ONCE,
    PassageSight,
    PostgresLog,
    read_ahead_states,
    sight,
    sights,
    sights_and_states,
)
from treering.extensions.postgres.index.replay import PostgresReplay
from treering.extensions.postgres.index.text import PostgresTextSearch, on_days, passages_named
from treering.extensions.postgres.index.vectors import PostgresQuickVectors, PostgresVectors
from treering.ports.models import Embedder, Extractor
from treering.ports.passages import PassageHead, PassageRequest, PassagesFound, Reach
from treering.retrieval.index.ties import DIALOGUE_KINDS
from treering.stores.rows.damage import REINDEX, rows_of
from treering.stores.rows.graph import FollowedGraph, FollowedGraphView, GraphReads
from treering.stores.rows.upkeep import MOST_AT_ONCE, STEP_SECONDS, FollowingIndex, IndexUpkeep


class PostgresIndex(FollowingIndex[Transaction]):
    """`ports.index.Index` over a `PostgresSpace`. It is a `LedgerFollower` of the ledger."""

    def __init__(
        self,
        space: PostgresSpace,
        *,
        model_id: str,
        dimension: int,
        quick: Embedder | None = None,
        extractor: Extractor | None = None,
        most_at_once: int = MOST_AT_ONCE,
        step_seconds: float = STEP_SECONDS,
    ) -> None:
        self._space = space
        self.vectors: PostgresVectors = PostgresVectors(space, model_id, dimension)
        super().__init__(self.vectors, extractor, most_at_once, read=space.read, kept_ties=kept_ties)
        if quick and quick.model_id != model_id:
            self.quick: PostgresQuickVectors | None = PostgresQuickVectors(space, quick, (model_id, dimension))
        self._at_once = partial((self.quick or self.vectors).embed_at_once, quick) if quick else None
        self.passages: PostgresPassages = PostgresPassages(space)
        self.text: PostgresTextSearch = PostgresTextSearch(space)
        self.graph: PostgresGraph = PostgresGraph(space)
        self.upkeep: IndexUpkeep[Transaction] = IndexUpkeep(
            self.replay, read=space.read, write=space.write, read_whole=space.read, step_seconds=step_seconds
        )

    def replay(self, transaction: Transaction) -> PostgresReplay:
        """Return the replay for a transaction."""
        return PostgresReplay(transaction, self._extractor, at_once=self._at_once, carried=self.carried)

    def read_ahead(self, transaction: Transaction) -> None:
        """Read the data that any change needs."""
        read_ahead_states(transaction)


_TIED = (
    "SELECT g.key, p.scope_id, g.body FROM graph_passages g JOIN passages p ON p.space = g.space AND p.key = g.key "
    "WHERE g.space = %(space)s AND g.key = ANY(%(keys)s::bigint[])"
)


class PostgresGraph:
    """`ports.search.Graph` over a `PostgresSpace`. Thread-safe."""

    def __init__(self, space: PostgresSpace) -> None:
        self._space = space
        self._followed = FollowedGraph[PostgresGraphRows](
            GraphReads(space.read, numbers_of, names_of, PostgresGraphRows)
        )

    def view(self, reach: Reach) -> FollowedGraphView:
        """Return the current graph for a read at the scope of `reach`."""
        with rows_of("the graph", hint=REINDEX), self._space.read() as transaction:
            [seen] = sights_and_states(transaction, [reach])
            return self._followed.view(PostgresGraphRows(transaction), seen.scopes)


class PostgresGraphRows(PostgresLog):
    """`rows.graph.GraphRows` over a transaction."""

    def records(self) -> Iterator[tuple[int, bytes]]:
        """Return all records, by passage key."""
        return self.transaction.stream("graph", RECORDS, at_once=LOADED_AT_ONCE)

    def records_of(self, keys: Sequence[int]) -> Sequence[tuple[int, int, bytes]]:
        """Return key, scope and record of passages. Passages without a record are left out."""
        return self.transaction.rows(_TIED, keys=list(keys))


_HEADS = (
    "SELECT p.key, p.object_id, p.part, p.type, p.kind, s.scope, p.role, p.title, p.heading, coalesce(p.origin, ''), "
    "p.place_role FROM passages p JOIN passage_scopes s ON s.space = p.space AND s.id = p.scope_id "
    "WHERE p.space = %(space)s AND p.key = ANY(%(keys)s::bigint[])"
)
# The neighbors of a turn have the next or the previous position in the same object and the same state. One look-up for
# each, by the index on objects: a join could read all passages of the space.
_BESIDE = (
    "SELECT p.key, n.key FROM unnest(%(keys)s::bigint[]) AS asked(key) CROSS JOIN LATERAL "
    "(SELECT key, object_id, position, until_seq FROM passages WHERE space = %(space)s AND key = asked.key "
    "AND kind = ANY(%(kinds)s::text[]) LIMIT 1) AS p CROSS JOIN LATERAL "
    "(SELECT key, position, until_seq FROM passages WHERE space = %(space)s AND object_id = p.object_id "
    "AND position = ANY(ARRAY[p.position - 1, p.position + 1])) AS n "
    "WHERE n.until_seq IS NOT DISTINCT FROM p.until_seq ORDER BY n.position"
)


class PostgresPassages:
    """`ports.passages.Passages` over a `PostgresSpace`."""

    def __init__(self, space: PostgresSpace) -> None:
        self._space = space

    def read(self, requests: Sequence[PassageRequest]) -> Sequence[PassagesFound]:
        """Answer several requests from one snapshot."""
        with rows_of("the index", hint=REINDEX), self._space.read() as transaction:
            known = iter(sights(transaction, [request.reach for request in requests if request.reach]))
            return [_find_passages(transaction, one, next(known) if one.reach else None) for one in requests]

    def count(self, reach: Reach) -> int:
        """Return the number of passages in reach."""
        with rows_of("the index", hint=REINDEX), self._space.read() as transaction:
            seen = sight(transaction, reach).condition()
            sql = f"SELECT count(*) FROM passages p WHERE p.space = %(space)s AND {seen.sql}"  # noqa: S608 - only our own SQL
            return int(transaction.first(sql, **seen.bindings))

    def places(self, reach: Reach) -> Sequence[tuple[str, str]]:
        """Return the object and the part of each passage in reach, ordered by object."""
        with rows_of("the index", hint=REINDEX), self._space.read() as transaction:
            seen = sight(transaction, reach).condition()
            sql = f"SELECT p.object_id, p.part FROM passages p WHERE p.space = %(space)s AND {seen.sql} ORDER BY 1, 2"  # noqa: S608 - only our own SQL
            return [(identity, part) for identity, part in transaction.rows(sql, **seen.bindings)]


def _find_passages(transaction: Transaction, request: PassageRequest, seen: PassageSight | None) -> PassagesFound:
    keys = list(request.keys)
    queries: list[Statement] = [(_HEADS, {"keys": keys})] if keys else []
    queries += [_visible(keys, seen)] if keys and seen else []
    queries += [(_BESIDE, {"keys": keys, "kinds": sorted(DIALOGUE_KINDS)})] if keys and request.beside else []
    answers = iter(transaction.together(queries) if queries else ())
    heads = _heads(next(answers, ()))
    visible = frozenset(key for (key,) in next(answers, ())) if seen else frozenset[int]()
    beside: dict[int, list[int]] = {}
    for key, other in next(answers, ()) if request.beside else ():
        beside.setdefault(key, []).append(other)
    named = passages_named(transaction, request.named, seen) if request.named and seen else {}
    others = chain.from_iterable((*beside.values(), *named.values()))
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


def _visible(keys: Sequence[int], seen: PassageSight) -> Statement:
    where = seen.condition()
    sql = f"SELECT p.key FROM passages p WHERE p.space = %(space)s AND p.key = ANY(%(keys)s::bigint[]) AND {where.sql}"  # noqa: S608 - only our own SQL
    return sql, {"keys": list(keys), **where.bindings}
