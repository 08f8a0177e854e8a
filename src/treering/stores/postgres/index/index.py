"""Search in the ledger's own database: what was written is found as soon as it is written."""

from collections.abc import Iterator, Sequence

from treering.ports.models import Extractor
from treering.ports.passages import Reach
from treering.stores.postgres.connection.space import PostgresSpace
from treering.stores.postgres.connection.transactions import Transaction
from treering.stores.postgres.index.index_state import (
    LOADED_AT_ONCE,
    PostgresLog,
    integers,
    read_ahead_states,
    sights_and_states,
)
from treering.stores.postgres.index.passages import PostgresPassages
from treering.stores.postgres.index.replay import PostgresReplay
from treering.stores.postgres.index.text import PostgresTextSearch
from treering.stores.postgres.index.vectors import PostgresVectors
from treering.stores.rows.graph import FollowedGraphView, NamedGraph, PackedNames
from treering.stores.rows.packing import REINDEX, rows_of
from treering.stores.rows.upkeep import MOST_AT_ONCE, STEP_SECONDS, FollowingIndex, IndexUpkeep


class PostgresIndex(FollowingIndex[Transaction]):
    """`ports.index.Index` over a `PostgresSpace`, and the `LedgerFollower` that keeps it in step."""

    def __init__(
        self,
        space: PostgresSpace,
        *,
        model_id: str,
        dimension: int,
        extractor: Extractor | None = None,
        most_at_once: int = MOST_AT_ONCE,
        step_seconds: float = STEP_SECONDS,
    ) -> None:
        self.vectors = PostgresVectors(space, model_id, dimension)
        super().__init__(self.vectors, extractor, most_at_once)
        self.passages = PostgresPassages(space)
        self.text = PostgresTextSearch(space)
        self.graph = PostgresGraph(space)
        self.upkeep = IndexUpkeep(
            self.replay, read=space.read, write=space.write, read_whole=space.read, step_seconds=step_seconds
        )

    def replay(self, transaction: Transaction) -> PostgresReplay:
        """Return what makes passages from histories in a transaction."""
        return PostgresReplay(transaction, self._extractor)

    def read_ahead(self, transaction: Transaction) -> None:
        """Read what following any change needs."""
        read_ahead_states(transaction)


# Questions to the graph: answered from a table in memory that follows the database.


_RECORDS = "SELECT key, body FROM graph_passages WHERE space = %(space)s"
_TIED = (
    "SELECT g.key, p.scope_id, g.body FROM graph_passages g JOIN passages p ON p.space = g.space AND p.key = g.key "
    "WHERE g.space = %(space)s AND g.key = ANY(%(keys)s::bigint[])"
)
_NAMES = (
    "SELECT string_agg(int8send(id), ''), string_agg(substring(digest FOR 8), ''), "
    "string_agg(int8send(length(name)::bigint), ''), string_agg(name, '') FROM (SELECT id, digest, name "
    "FROM graph_nodes WHERE space = %(space)s AND id > %(after)s ORDER BY id) AS names"
)


class PostgresGraph:
    """`ports.search.Graph` over a `PostgresSpace`. Safe to use from many threads."""

    def __init__(self, space: PostgresSpace) -> None:
        self._space = space
        self._followed = NamedGraph()

    def view(self, reach: Reach) -> FollowedGraphView:
        """Return the graph as it stands now, for a read at the scope of `reach`."""
        with rows_of("the graph", hint=REINDEX), self._space.read() as transaction:
            [seen] = sights_and_states(transaction, [reach])
            return self._followed.view(PostgresGraphRows(transaction), seen.scopes)


class PostgresGraphRows(PostgresLog):
    """`rows.graph.NamedGraphRows` over a transaction."""

    def records(self) -> Iterator[tuple[int, bytes]]:
        """Return all records, by passage key."""
        return ((key, body) for key, body in self.transaction.stream("graph", _RECORDS, at_once=LOADED_AT_ONCE))

    def records_of(self, keys: Sequence[int]) -> Sequence[tuple[int, int, bytes]]:
        """Return key, scope and record of those of the passages that have one."""
        return [(key, scope, body) for key, scope, body in self.transaction.rows(_TIED, keys=list(keys))]

    def names_after(self, number: int) -> PackedNames:
        """Return the names whose numbers are greater, in the order of their numbers."""
        [(numbers, codes, lengths, text)] = self.transaction.rows(_NAMES, after=number)
        return PackedNames.joined(integers(numbers), codes or b"", integers(lengths), text or b"")
