"""Search in the ledger's own database: what was written is found as soon as it is written."""

from collections.abc import Sequence

import apsw

from treering.derived.extraction.built_in import BuiltInExtractor
from treering.edges.stores.sqlite.database import Database
from treering.edges.stores.sqlite.failures import REINDEX, rows_of
from treering.edges.stores.sqlite.graph import records_of
from treering.edges.stores.sqlite.graph_tables import SqliteGraph
from treering.edges.stores.sqlite.passages import SqlitePassages
from treering.edges.stores.sqlite.projection import apply_changes
from treering.edges.stores.sqlite.rebuild import (
    passage_differences,
    passages_prepared,
    prepare_passages,
    rebuild_passages,
)
from treering.edges.stores.sqlite.text import SqliteTextSearch
from treering.edges.stores.sqlite.vectors import SqliteVectors
from treering.ports.extractor import Extractor
from treering.ports.projection import Change


class SqliteIndex:
    """`ports.index.Index` over the ledger's `Database`, and the `Follower` that keeps it in step.

    Hand it to the ledger as a follower before it is asked anything. Vectors are those of one model; what
    another model made is kept, but neither searched nor mixed. The graph is what one extractor (the built-in one
    unless another is given) finds; what another found is made anew when the space is opened.
    """

    def __init__(
        self, database: Database, *, model_id: str, dimension: int, extractor: Extractor | None = None
    ) -> None:
        self._extractor = extractor or BuiltInExtractor()
        self.passages = SqlitePassages(database)
        self.text = SqliteTextSearch(database)
        self.vectors = SqliteVectors(database, model_id, dimension)
        self.graph = SqliteGraph(database)
        self.upkeep = SqliteUpkeep(database, self._extractor)

    def is_prepared(self, connection: apsw.Connection) -> bool:
        """Tell whether the tables, the passages and the model are as `prepare` leaves them."""
        return passages_prepared(connection, self._extractor) and self.vectors.recognise(connection)

    def prepare(self, connection: apsw.Connection) -> None:
        """Make the tables where they are missing; make passages anew that another version made."""
        prepare_passages(connection, self._extractor)
        self.vectors.register(connection)

    def follow(self, connection: apsw.Connection, changes: Sequence[Change]) -> None:
        """Apply changes inside the ledger's write transaction."""
        apply_changes(connection, changes, self._extractor)


class SqliteUpkeep:
    """`ports.index.Upkeep` over the ledger's `Database`."""

    def __init__(self, database: Database, extractor: Extractor) -> None:
        self._database = database
        self._extractor = extractor

    def remains(self, object_ids: Sequence[str]) -> int:
        """Count the passages the index still holds of objects, in whatever state, and their records in the graph."""
        sql = "SELECT count(*) FROM passages WHERE object_id = ?"
        with rows_of("the index", hint=REINDEX), self._database.read() as connection:
            passages = sum(next(connection.execute(sql, (identity,)))[0] for identity in object_ids)
            return int(passages) + records_of(connection, object_ids)

    def rebuild(self) -> int:
        """Throw away the passages and make them anew from the ledger; return their number."""
        with self._database.write() as connection:
            return rebuild_passages(connection, self._extractor)

    def differences(self) -> Sequence[str]:
        """Compare with a rebuild without changing anything; say what differs (the first twenty)."""
        with rows_of("the index", hint=REINDEX), self._database.read_fresh() as connection:
            return passage_differences(connection, self._extractor)
