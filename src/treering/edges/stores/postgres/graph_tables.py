"""Questions to the graph: answered from a table in memory that follows the database."""

from collections.abc import Iterator, Sequence

from treering.edges.index_rows.graph import FollowedGraphView, NamedGraph
from treering.edges.index_rows.name_table import PackedNames
from treering.edges.ledger_rows.row_failures import REINDEX, rows_of
from treering.edges.stores.postgres.followed_rows import LOADED_AT_ONCE, PostgresLog, integers, sights_and_states
from treering.edges.stores.postgres.space import PostgresSpace
from treering.ports.reach import Reach

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
    """`ports.graph.Graph` over a `PostgresSpace`. Safe to use from many threads."""

    def __init__(self, space: PostgresSpace) -> None:
        self._space = space
        self._followed = NamedGraph()

    def view(self, reach: Reach) -> FollowedGraphView:
        """Return the graph as it stands now, for a read at the scope of `reach`."""
        with rows_of("the graph", hint=REINDEX), self._space.read() as transaction:
            [seen] = sights_and_states(transaction, [reach])
            return self._followed.view(PostgresGraphRows(transaction), seen.scopes)


class PostgresGraphRows(PostgresLog):
    """`index_rows.graph.NamedGraphRows` over a transaction."""

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
