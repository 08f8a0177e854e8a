"""Questions to the graph: answered from a table in memory that follows the file."""

from collections.abc import Iterator, Mapping, Sequence

from treering.edges.index_rows.graph import FollowedGraph, FollowedGraphView
from treering.edges.ledger_rows.row_failures import REINDEX, rows_of
from treering.edges.stores.sqlite.database import Database
from treering.edges.stores.sqlite.graph import names_of, numbers_of
from treering.edges.stores.sqlite.reach import sight
from treering.edges.stores.sqlite.vector_queue import SqliteLog
from treering.edges.stores.sqlite.whole_columns import Integers, shown_passages
from treering.ports.reach import Reach

_FEW = 500  # keys in one statement

_TIED = "SELECT g.key, p.scope_id, g.body FROM graph_passages g JOIN passages p ON p.key = g.key WHERE g.key IN "


class SqliteGraph:
    """`ports.graph.Graph` over the ledger's `Database`. Safe to use from many threads."""

    def __init__(self, database: Database) -> None:
        self._database = database
        self._followed = FollowedGraph[SqliteGraphRows](SqliteNames(database))

    def view(self, reach: Reach) -> FollowedGraphView:
        """Return the graph as it stands now, for a read at the scope of `reach`."""
        with rows_of("the graph", hint=REINDEX), self._database.read() as connection:
            return self._followed.view(SqliteGraphRows(connection), sight(connection, reach).scopes)


class SqliteNames:
    """`index_rows.graph.NodeNames`, read from the file when they are asked for."""

    def __init__(self, database: Database) -> None:
        self._database = database

    def numbers_of(self, keys: Sequence[str]) -> Mapping[str, int]:
        """Return the numbers of those of the entity keys that are known."""
        with rows_of("the graph", hint=REINDEX), self._database.read() as connection:
            return numbers_of(connection, keys)

    def names_of(self, numbers: Sequence[int]) -> Mapping[int, str]:
        """Return the keys of entities, the ids of objects."""
        with rows_of("the graph", hint=REINDEX), self._database.read() as connection:
            return names_of(connection, numbers)


class SqliteGraphRows(SqliteLog):
    """`index_rows.graph.GraphRows` over a connection inside a transaction."""

    def shown_passages(self) -> tuple[Integers, Integers, Integers]:
        """Return the keys of all current passages, and for each the number of its scope and of its text."""
        return shown_passages(self.connection)

    def records(self) -> Iterator[tuple[int, bytes]]:
        """Return all records, by passage key."""
        return self.connection.execute("SELECT key, body FROM graph_passages")

    def records_of(self, keys: Sequence[int]) -> Sequence[tuple[int, int, bytes]]:
        """Return key, scope and record of those of the passages that have one."""
        found: list[tuple[int, int, bytes]] = []
        for start in range(0, len(keys), _FEW):
            batch = keys[start : start + _FEW]
            found += self.connection.execute(f"{_TIED} ({','.join('?' * len(batch))})", batch)
        return found
