"""Questions to the graph: answered from a table in memory that follows the database."""

from treering.edges.stores.postgres.space import PostgresSpace
from treering.ports.graph import GraphView
from treering.ports.reach import Reach


class PostgresGraph:
    """`ports.graph.Graph` over a `PostgresSpace`."""

    def __init__(self, space: PostgresSpace) -> None:
        self._space = space

    def view(self, reach: Reach) -> GraphView:
        """Return the graph as it stands now, for a read at the scope of `reach`."""
        raise NotImplementedError
