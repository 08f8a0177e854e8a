"""Search in the ledger's own database: what was written is found as soon as it is written."""

import time
from collections.abc import Iterator, Sequence

from treering.ports.index import Behind, Change
from treering.ports.models import Extractor
from treering.ports.passages import Reach
from treering.retrieval.extraction.built_in import BuiltInExtractor
from treering.stores.postgres.connection.space import PostgresSpace
from treering.stores.postgres.connection.transactions import Transaction
from treering.stores.postgres.index.graph_rows import records_of
from treering.stores.postgres.index.index_state import (
    LOADED_AT_ONCE,
    PostgresLog,
    integers,
    read_ahead_states,
    sights_and_states,
)
from treering.stores.postgres.index.passages import PostgresPassages
from treering.stores.postgres.index.replay import (
    advance_replay,
    follow_changes,
    is_made,
    passage_differences,
    prepare_passages,
    progress_of,
    rebuild_passages,
    texts_waiting,
)
from treering.stores.postgres.index.text import PostgresTextSearch
from treering.stores.postgres.index.vectors import PostgresVectors
from treering.stores.rows.graph import FollowedGraphView, NamedGraph, PackedNames
from treering.stores.rows.packing import REINDEX, rows_of

MOST_AT_ONCE = 2_000
"""Passages that are made anew while a space is opened; more are made beside reads."""

STEP_SECONDS = 0.2
"""How long one step of making passages anew holds writers up."""


class PostgresIndex:
    """`ports.index.Index` over a `PostgresSpace`, and the `LedgerFollower` that keeps it in step.

    Hand it to the ledger as a follower before it is asked anything. Vectors are those of one model; what another
    model made is kept, but neither searched nor mixed. The graph is what one extractor finds (the built-in one unless
    another is given); what another found is made anew when the space is opened: up to `most_at_once` passages then,
    more by `upkeep.advance` in steps of `step_seconds`.
    """

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
        self._extractor = extractor or BuiltInExtractor()
        self._most_at_once = most_at_once
        self.passages = PostgresPassages(space)
        self.text = PostgresTextSearch(space)
        self.vectors = PostgresVectors(space, model_id, dimension)
        self.graph = PostgresGraph(space)
        self.upkeep = PostgresUpkeep(space, self._extractor, step_seconds)

    def is_prepared(self, transaction: Transaction) -> bool:
        """Tell whether the passages and the model are as `prepare` leaves them."""
        return is_made(transaction, self._extractor) and self.vectors.recognise(transaction)

    def prepare(self, transaction: Transaction) -> None:
        """Make passages anew that another version made, or begin with it; make the model known."""
        prepare_passages(transaction, self._extractor, most_at_once=self._most_at_once)
        self.vectors.register(transaction)

    def read_ahead(self, transaction: Transaction) -> None:
        """Read what following any change needs."""
        read_ahead_states(transaction)

    def follow(self, transaction: Transaction, changes: Sequence[Change]) -> None:
        """Apply changes inside the ledger's write transaction."""
        follow_changes(transaction, changes, self._extractor)


class PostgresUpkeep:
    """`ports.index.Upkeep` over a `PostgresSpace`."""

    def __init__(self, space: PostgresSpace, extractor: Extractor, step_seconds: float) -> None:
        self._space = space
        self._extractor = extractor
        self._step_seconds = step_seconds

    def remains(self, object_ids: Sequence[str]) -> int:
        """Count what the index holds of objects, in whatever state: passages, texts that wait, records of the graph."""
        sql = "SELECT count(*) FROM passages WHERE space = %(space)s AND object_id = ANY(%(ids)s::text[])"
        with rows_of("the index", hint=REINDEX), self._space.read() as transaction:
            passages = int(transaction.first(sql, ids=list(object_ids)))
            return passages + texts_waiting(transaction, object_ids) + records_of(transaction, object_ids)

    def behind(self) -> Behind:
        """Tell how far it is with making passages anew, where that was begun."""
        with self._space.read() as transaction:
            return progress_of(transaction)

    def advance(self) -> Behind:
        """Make passages anew for a moment, where that was begun; tell how far it is then."""
        behind = self.behind()
        if not behind.total:
            return behind
        with self._space.write() as transaction:
            behind = advance_replay(transaction, self._extractor, seconds=self._step_seconds)
        time.sleep(self._step_seconds / 10)  # or writers would wait for their turn as long as this goes on
        return behind

    def rebuild(self) -> int:
        """Throw away the passages and make them anew from the ledger; return their number."""
        with self._space.write() as transaction:
            return rebuild_passages(transaction, self._extractor)

    def differences(self) -> Sequence[str]:
        """Compare with a rebuild without changing anything; say what differs (the first twenty)."""
        with rows_of("the index", hint=REINDEX), self._space.read() as transaction:
            return passage_differences(transaction, self._extractor)


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
