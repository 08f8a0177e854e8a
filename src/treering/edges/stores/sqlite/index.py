"""Search in the ledger's own database: what was written is found as soon as it is written."""

from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from typing import Any

import apsw

from treering.core.times import parse_time
from treering.derived.extraction.built_in import BuiltInExtractor
from treering.derived.passages import gist_hash, passages_of
from treering.edges.stores.sqlite.database import Database
from treering.edges.stores.sqlite.days import on_days, rank_days
from treering.edges.stores.sqlite.failures import REINDEX, rows_of
from treering.edges.stores.sqlite.graph import records_of
from treering.edges.stores.sqlite.graph_tables import SqliteGraph
from treering.edges.stores.sqlite.object_tables import ObjectTables
from treering.edges.stores.sqlite.places import rank_places
from treering.edges.stores.sqlite.projection import apply_changes
from treering.edges.stores.sqlite.reach import sight
from treering.edges.stores.sqlite.rebuild import (
    passage_differences,
    passages_prepared,
    prepare_passages,
    rebuild_passages,
)
from treering.edges.stores.sqlite.vectors import VectorTables
from treering.edges.stores.sqlite.words import known_words, rank_names, rank_words
from treering.ports.extractor import Extractor
from treering.ports.graph import Graph
from treering.ports.index import AskedDays, Lag, PassageHead, Pending, Scored, TextQuery, Vector
from treering.ports.projection import Change
from treering.ports.reach import Reach

_FEW = 500  # keys in one statement
_HEADS = (
    "SELECT key, object_id, part, type, kind, scope, role, title, heading, coalesce(origin, ''), updated_at "
    "FROM passages p JOIN passage_scopes s ON s.id = p.scope_id WHERE p.key IN "
)
# Beside a turn stands what has the next or the last position in the same object, of the same time.
_BESIDE = (
    "SELECT p.key, n.key FROM passages p JOIN passages n ON n.object_id = p.object_id "
    "AND n.position IN (p.position - 1, p.position + 1) AND n.until_seq IS p.until_seq "
    "WHERE p.kind IN ('conversation', 'meeting_record') AND p.key IN "
)


class SqliteIndex:
    """`ports.index.Index` over the ledger's `Database`, and the `Follower` that keeps it in step.

    Hand it to the ledger as a follower before it is asked anything. Vectors are those of one model; what
    another model made is kept, but neither searched nor mixed. The graph is what one extractor (the built-in one
    unless another is given) finds; what another found is made anew when the space is opened.
    """

    def __init__(
        self, database: Database, *, model_id: str, dimension: int, extractor: Extractor | None = None
    ) -> None:
        self._database = database
        self._vectors = VectorTables(model_id, dimension)
        self._graph = SqliteGraph(database)
        self._extractor = extractor or BuiltInExtractor()

    @property
    def graph(self) -> Graph:
        """The graph of what is current."""
        return self._graph

    def is_prepared(self, connection: apsw.Connection) -> bool:
        """Tell whether the tables, the passages and the model are as `prepare` leaves them."""
        return passages_prepared(connection, self._extractor) and self._vectors.recognise(connection)

    def prepare(self, connection: apsw.Connection) -> None:
        """Make the tables where they are missing; make passages anew that another version made."""
        prepare_passages(connection, self._extractor)
        self._vectors.register(connection)

    def follow(self, connection: apsw.Connection, changes: Sequence[Change]) -> None:
        """Apply changes inside the ledger's write transaction."""
        apply_changes(connection, changes, self._extractor)

    def by_words(self, query: TextQuery, *, reach: Reach, limit: int) -> Sequence[Scored]:
        """Rank by BM25 over the query's words and phrases; best first."""
        with self._read() as connection:
            return rank_words(connection, query, sight(connection, reach), limit)

    def by_names(self, query: TextQuery, *, reach: Reach, limit: int) -> Sequence[Scored]:
        """Rank by BM25 over substrings of names; best first."""
        with self._read() as connection:
            return rank_names(connection, query, sight(connection, reach), limit)

    def by_place(self, text: str, *, reach: Reach, limit: int) -> Sequence[Scored]:
        """Rank passages whose id, origin, title or heading is, or ends with, `text`."""
        with self._read() as connection:
            return rank_places(connection, text, sight(connection, reach), limit)

    def by_days(self, asked: Sequence[AskedDays], *, reach: Reach, limit: int) -> Sequence[Scored]:
        """Rank turns said on days asked for, or that speak of them; best first, then newest."""
        with self._read() as connection:
            return rank_days(connection, asked, sight(connection, reach), limit)

    def on_days(self, asked: Sequence[AskedDays], keys: Sequence[int]) -> Mapping[int, float]:
        """Return the scores `by_days` gives, of those of the keys that have one."""
        with self._read() as connection:
            return on_days(connection, asked, keys)

    def by_vector(self, vector: Vector, *, reach: Reach, limit: int) -> Sequence[Scored]:
        """Rank by cosine; best first."""
        with self._read() as connection:
            return self._vectors.rank(connection, vector, sight(connection, reach), limit)

    def similarities(self, vector: Vector, keys: Sequence[int]) -> Mapping[int, float]:
        """Return the exact cosine of those of the keys that have a vector."""
        with self._read() as connection:
            return self._vectors.similarities(connection, vector, keys)

    def vectors(self, keys: Sequence[int]) -> Mapping[int, Vector]:
        """Return the vectors of those of the keys that have one."""
        with self._read() as connection:
            return self._vectors.read(connection, keys)

    def neighbours(self, keys: Sequence[int]) -> Mapping[int, Sequence[int]]:
        """Give, for turns of a conversation, the turns before and after."""
        found: dict[int, list[int]] = {}
        for key, other in self._by_keys(f"{_BESIDE} (?*) ORDER BY n.position", keys):
            found.setdefault(key, []).append(other)
        return found

    def visible(self, keys: Sequence[int], *, reach: Reach) -> frozenset[int]:
        """Return those of the keys that a read in reach may see, filters included."""
        with self._read() as connection:
            seen = sight(connection, reach).condition()
            sql = f"SELECT p.key FROM passages p WHERE {seen.sql} AND p.key IN (?*)"  # noqa: S608 - only our own SQL
            return frozenset(key for (key,) in self._by_keys(sql, keys, before=seen.bindings))

    def heads(self, keys: Sequence[int]) -> Mapping[int, PassageHead]:
        """Return the heads of passages."""
        with self._read():
            rows = self._by_keys(f"{_HEADS} (?*)", keys)
            return {row[0]: PassageHead(*(*row[:10], parse_time(row[10]))) for row in rows}

    def count(self, reach: Reach) -> int:
        """Count the passages in reach."""
        with self._read() as connection:
            seen = sight(connection, reach).condition()
            sql = f"SELECT count(*) FROM passages p WHERE {seen.sql}"  # noqa: S608 - only our own SQL
            return int(next(connection.execute(sql, seen.bindings))[0])

    def knows(self, words: Sequence[str], *, reach: Reach) -> frozenset[str]:
        """Return those of the (stemmed) words that occur in anything current in the scopes of a reach."""
        with self._read() as connection:
            return known_words(connection, words, sight(connection, reach))

    def remains(self, object_ids: Sequence[str]) -> int:
        """Count the passages the index still holds of objects, in whatever state, and their records in the graph."""
        sql = "SELECT count(*) FROM passages WHERE object_id = ?"
        with self._read() as connection:
            passages = sum(next(connection.execute(sql, (identity,)))[0] for identity in object_ids)
            return int(passages) + records_of(connection, object_ids)

    def lag(self) -> Lag:
        """Tell how far vectors lag behind."""
        with self._read() as connection:
            return self._vectors.lag(connection)

    def pending(self, limit: int) -> Sequence[Pending]:
        """Return texts that wait for a vector: prose and symbols first, bodies of code and data last."""
        with self._read() as connection:
            waiting = self._vectors.waiting(connection, limit)
            texts = _gists(connection, {object_id for _, object_id, _ in waiting})
        return [Pending(text_hash, texts[text_hash]) for text_hash, _, _ in waiting if text_hash in texts]

    def add_vectors(self, vectors: Mapping[str, Vector]) -> None:
        """Keep vectors by content hash, durably."""
        with self._database.write() as connection:
            self._vectors.add(connection, vectors)

    def rebuild(self) -> int:
        """Throw away the passages and make them anew from the ledger; return their number."""
        with self._database.write() as connection:
            return rebuild_passages(connection, self._extractor)

    def differences(self) -> Sequence[str]:
        """Compare with a rebuild without changing anything; say what differs (the first twenty)."""
        with self._read(fresh=True) as connection:
            return passage_differences(connection, self._extractor)

    @contextmanager
    def _read(self, *, fresh: bool = False) -> Iterator[apsw.Connection]:
        """Hold a snapshot, and the rows of the index to what they should be."""
        with (
            rows_of("the index", hint=REINDEX),
            (self._database.read_fresh if fresh else self._database.read)() as held,
        ):
            yield held

    def _by_keys(self, sql: str, keys: Sequence[int], *, before: Sequence[Any] = ()) -> list[Any]:
        """Run a query whose `(?*)` stands for a list of keys, a few hundred at a time."""
        rows: list[Any] = []
        with self._read() as connection:
            for start in range(0, len(keys), _FEW):
                batch = keys[start : start + _FEW]
                rows += connection.execute(sql.replace("?*", ",".join("?" * len(batch))), (*before, *batch))
        return rows


def _gists(connection: apsw.Connection, object_ids: set[str]) -> dict[str, str]:
    """Read the texts to embed of some objects from the ledger, by content hash."""
    tables = ObjectTables(connection)
    objects = [item for identity in sorted(object_ids) if (item := tables.get(identity))]
    return {gist_hash(passage): passage.gist for item in objects for passage in passages_of(item)}
