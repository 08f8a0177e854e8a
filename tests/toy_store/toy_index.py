"""An index in tables of its own, which a second ledger's changes feed: slow, short, and right."""

from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from threading import RLock

from toy_store.toy_tables import Row, ToyTables, differing
from toy_store.toy_text import found
from treering.core.errors import InvalidInput
from treering.ports.index import Behind
from treering.ports.ledger import Ledger
from treering.ports.passages import MOST_NAMED, PassageRequest, PassagesFound, Reach
from treering.ports.search import EdgeType, GraphView, Lag, Near, NearRequest, Pending, TextFound, TextRequest, Vector
from treering.retrieval.index.projection import FeedPosition, follow, priority_of
from treering.retrieval.index.ties import is_turn
from treering.retrieval.search.fusion import day_share

_STEP = 100


class ToyIndex:
    """`ports.index.Index`, and itself most of its parts. A late one applies changes only when told to catch up."""

    def __init__(self, ledger: Ledger, *, dimension: int, late: bool = False) -> None:
        self.tables = ToyTables()
        self.text = self.passages = self.graph = self.upkeep = self
        self.vectors = ToyVectors(self, dimension)
        self._ledger = ledger
        self._late = late
        self._lock = RLock()

    def catch_up(self, limit: int | None = None) -> FeedPosition:
        with self._lock:
            return follow(self._ledger, self.tables, limit)

    def search(self, requests: Sequence[TextRequest]) -> Sequence[TextFound]:
        with self.reading() as tables:
            return [found(tables, request) for request in requests]

    def read(self, requests: Sequence[PassageRequest]) -> Sequence[PassagesFound]:
        with self.reading() as tables:
            return [_read(tables, request) for request in requests]

    def count(self, reach: Reach) -> int:
        with self.reading() as tables:
            return len(tables.seen(reach))

    def places(self, reach: Reach) -> Sequence[tuple[str, str]]:
        with self.reading() as tables:
            return sorted((row.passage.object_id, row.passage.part) for row in tables.seen(reach))

    def view(self, reach: Reach) -> GraphView:
        with self.reading() as tables:
            return tables.graph.view(reach)

    def remains(self, object_ids: Sequence[str]) -> int:
        gone = set(object_ids)
        with self.reading() as tables:
            rows = sum(row.passage.object_id in gone for row in tables.rows.values())
            own = (name for _, ties in tables.graph.ties.values() for name, tie in ties.nodes if tie is EdgeType.PART)
            return rows + sum(name in gone for name in own)

    def behind(self) -> Behind:
        with self.reading() as tables:
            there = self._ledger.sequence()
            return Behind(tables.cursor, there) if tables.cursor < there else Behind(0, 0)

    def advance(self) -> Behind:
        self.catch_up(_STEP)
        return self.behind()

    def rebuild(self) -> int:
        with self._lock:
            vectors, upto = dict(self.tables.vectors), self.tables.cursor
            self.tables.clear()
            self.catch_up(upto if self._late else None)
            self.tables.vectors = vectors
            self.tables.keep_vectors()
            return len(self.tables.rows)

    def differences(self) -> list[str]:
        with self.reading() as tables:
            anew = ToyTables()
            follow(self._ledger, anew, tables.cursor)
            return list(differing(tables, anew))[:20]

    @contextmanager
    def reading(self) -> Iterator[ToyTables]:
        """Hold the tables, up to date unless this index is late."""
        with self._lock:
            if not self._late:
                self.catch_up()
            yield self.tables


def _read(tables: ToyTables, request: PassageRequest) -> PassagesFound:
    asked = [tables.rows[key] for key in request.keys if key in tables.rows]
    beside = {row.key: near for row in asked if (near := _beside(tables, row))} if request.beside else {}
    named = _named(tables, request)
    rows = {row.key: row for row in (*asked, *(row for near in (*beside.values(), *named.values()) for row in near))}
    shares = {key: day_share(row.passage, request.days) for key, row in rows.items()}
    return PassagesFound(
        heads={key: row.head() for key, row in rows.items()},
        visible=frozenset(row.key for row in asked if request.reach and row.is_seen(request.reach)),
        beside={key: [row.key for row in near] for key, near in beside.items()},
        dated={key: share for key, share in shares.items() if share},
        named={name: [row.key for row in found] for name, found in named.items()},
    )


def _named(tables: ToyTables, request: PassageRequest) -> dict[str, list[Row]]:
    if request.reach is None or not request.named:
        return {}
    seen = sorted((row for row in tables.seen(request.reach) if row.is_current), key=lambda row: row.key)
    found = {name: [row for row in seen if name in row.entry.code_names] for name in request.named}
    return {name: rows[:MOST_NAMED] for name, rows in found.items() if rows}


def _beside(tables: ToyTables, row: Row) -> list[Row]:
    def is_beside(other: Row) -> bool:
        same = other.passage.object_id == row.passage.object_id and other.until == row.until
        return same and abs(other.entry.position - row.entry.position) == 1

    near = filter(is_beside, tables.rows.values()) if is_turn(row.passage) else ()
    return sorted(near, key=lambda other: other.entry.position)


class ToyVectors:
    def __init__(self, index: ToyIndex, dimension: int) -> None:
        self._index = index
        self._dimension = dimension

    def search(self, requests: Sequence[NearRequest]) -> Sequence[Near]:
        with self._index.reading() as tables:
            return [_near(tables, request) for request in requests]

    def lag(self) -> Lag:
        with self._index.reading() as tables:
            current = tables.current()
            return Lag(len(_waiting(tables)), len(current), self._index.behind().waiting)

    def pending(self, limit: int) -> Sequence[Pending]:
        with self._index.reading() as tables:
            waiting = _waiting(tables)
        waiting.sort(key=lambda row: (_priority(row), row.number))
        texts = {row.text_hash: row.passage.gist for row in waiting}
        return [Pending(text_hash, text) for text_hash, text in texts.items()][:limit]

    def add(self, vectors: Mapping[str, Vector]) -> None:
        for vector in vectors.values():
            if vector.shape != (self._dimension,):
                raise InvalidInput("A vector is of another shape.", hint=f"Give {self._dimension} values.")
        with self._index.reading() as tables:
            tables.vectors |= vectors
            tables.keep_vectors()


def _waiting(tables: ToyTables) -> list[Row]:
    return [row for row in tables.current() if row.text_hash not in tables.vectors and _priority(row) is not None]


def _priority(row: Row) -> int | None:
    return priority_of(row.passage.kind, row.passage.role, row.passage.place_role)


def _near(tables: ToyTables, request: NearRequest) -> Near:
    seen = {
        row.key: tables.vectors[row.text_hash] for row in tables.seen(request.reach) if row.text_hash in tables.vectors
    }
    nearest: set[int] = set()
    for vector, limit in zip(request.vectors, request.limits, strict=True):
        nearest.update(sorted(seen, key=lambda key: (-float(seen[key] @ vector), key))[:limit])
    compared = [tables.rows[key] for key in sorted(nearest.union(request.keys)) if key in tables.rows]
    known = {row.key: tables.vectors[row.text_hash] for row in compared if row.text_hash in tables.vectors}
    cosines = [{key: float(other @ vector) for key, other in known.items()} for vector in request.vectors]
    return Near(frozenset(nearest), cosines)
