"""Search by meaning with an engine beside the space: its answers, what it does not know yet, and exact cosines."""

import threading
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Protocol

import numpy as np

from treering.core.errors import TreeringError
from treering.ports.index import Behind, Index, Upkeep
from treering.ports.passages import Passages
from treering.ports.search import Graph, Lag, Near, NearRequest, Pending, TextSearch, Vector, Vectors
from treering.ports.vector_engine import Keys, VectorChanges, VectorEngine, VectorFeed
from treering.retrieval.index.tables import VectorTable, stored_form

# What changed since the moment that an engine's searches answer for: kept in memory, and searched exactly.


_BATCH = 2_000
MOST_CHANGED = 20_000
"""Passages that a tail may hold. Beyond, the built-in vectors are no dearer."""


class EngineTail:
    """The passages whose vectors came or went since a moment. Safe to use from many threads."""

    def __init__(self, feed: VectorFeed, dimension: int, *, most: int = MOST_CHANGED) -> None:
        self._feed = feed
        self._dimension = dimension
        self._most = most
        self._lock = threading.Lock()
        self._begin = ""
        self._reached = ""
        self._changed: set[int] = set()
        self._table = VectorTable(dimension)

    def follow(self, moment: str) -> bool:
        """Hold what changed since a moment; tell whether that was to be had, and is not too much."""
        with self._lock:
            if self._begin != moment:
                self._start(moment)
            while (changes := self._feed.since(self._reached, _BATCH)) is not None:
                self._take(changes)
                if not changes.left or len(self._changed) > self._most:
                    return len(self._changed) <= self._most
            self._begin = ""
            return False

    def __len__(self) -> int:
        return len(self._changed)

    def merged(self, engine: Keys, vector: Vector, limit: int, allowed: Keys | None) -> list[int]:
        """Put what an engine found together with the nearest of those that changed since."""
        kept = self.unchanged(engine)
        with self._lock:
            nearest, _ = self._table.search(vector, limit=limit, allowed=allowed)
        return [*kept, *nearest.tolist()]

    def unchanged(self, keys: Keys) -> list[int]:
        """Return those of some passages that did not change since."""
        with self._lock:
            return [key for key in keys.tolist() if key not in self._changed]

    def _start(self, moment: str) -> None:
        self._begin = self._reached = moment
        self._changed = set()
        self._table = VectorTable(self._dimension)

    def _take(self, changes: VectorChanges) -> None:
        self._reached = changes.moment
        if not changes.keys:
            return
        self._changed.update(changes.keys)
        gone = [key for key in changes.keys if key not in changes.vectors]
        self._table.discard(np.array(gone, np.int64))
        if changes.vectors:
            keys = np.array(list(changes.vectors), np.int64)
            self._table.add_stored(keys, stored_form(np.stack(list(changes.vectors.values()))))


def nearest(vectors: dict[int, Vector], vector: Vector, keys: Sequence[int], limit: int) -> list[int]:
    """Return the passages nearest to a vector, of those that have one: best first, equal ones by ascending key."""
    known = [key for key in dict.fromkeys(keys) if key in vectors]
    return sorted(known, key=lambda key: (-float(vectors[key] @ vector), key))[:limit]


WIDER = 4
"""So many times what is wanted is asked of an engine that cannot search with a filter."""
FEW_ALLOWED = 4_000
"""Passages that pass a filter and are compared one by one where an engine cannot search them exactly."""


@dataclass(frozen=True, slots=True)
class EngineInUse:
    """An engine, and what changed since its moment."""

    engine: VectorEngine
    tail: EngineTail


class EngineVectors:
    """`ports.search.Vectors` over the vectors that the space keeps, searched by an engine where one is in use.

    The space's own vectors stay whole: they give exact cosines, wait for the embedder, and answer whenever the engine
    cannot. `in_use` returns the engine, or `None`; `failed` is told why an engine could not answer. Up to `few`
    passages that pass a filter are compared one by one where the engine cannot search them.
    """

    def __init__(
        self,
        own: Vectors,
        feed: VectorFeed,
        in_use: Callable[[], EngineInUse | None],
        failed: Callable[[TreeringError], None],
        *,
        few: int = FEW_ALLOWED,
    ) -> None:
        self._few = few
        self._own = own
        self._feed = feed
        self._in_use = in_use
        self._failed = failed

    def search(self, requests: Sequence[NearRequest]) -> Sequence[Near]:
        """Compare for several requests. Requests about the past are answered by the space's own vectors."""
        used = self._in_use()
        if used is None or any(one.reach.withdrawn or one.reach.at is not None for one in requests):
            return self._own.search(requests)
        try:
            found = self._proposed(used, requests)
        except TreeringError as error:
            self._failed(error)
            found = None
        return self._own.search(requests) if found is None else self._compared(requests, found)

    def lag(self) -> Lag:
        """Tell how far vectors lag behind. What the engine does not know yet is searched all the same."""
        return self._own.lag()

    def pending(self, limit: int) -> Sequence[Pending]:
        """Return texts that wait for a vector."""
        return self._own.pending(limit)

    def add(self, vectors: Mapping[str, Vector]) -> None:
        """Keep vectors by content hash, durably. The engine learns of them through the feed."""
        self._own.add(vectors)

    def _proposed(self, used: EngineInUse, requests: Sequence[NearRequest]) -> list[list[list[int]]] | None:
        """Return passages among which the nearest are, by request and vector; `None` where the engine cannot tell."""
        moment = self._moment(used)
        if moment is None:
            return None
        allowed = self._feed.allowed([request.reach for request in requests])
        found: list[list[list[int]]] = []
        for request, keys in zip(requests, allowed, strict=True):
            each = [
                self._near(used, vector, limit, keys) if limit else []
                for vector, limit in zip(request.vectors, request.limits, strict=True)
            ]
            if any(one is None for one in each):
                return None
            found.append([one for one in each if one is not None])
        return found

    def _moment(self, used: EngineInUse) -> str | None:
        """Return the moment the engine answers for, once the tail since then is at hand."""
        for _ in range(2):
            moment = used.engine.sight()
            if moment is not None and used.tail.follow(moment):
                return moment
            used.engine.refresh()  # another process may have written since
        return None

    def _near(self, used: EngineInUse, vector: Vector, limit: int, allowed: Keys | None) -> list[int] | None:
        # What changed since may stand in front of what it finds, and is left out of it.
        keys = used.engine.search(vector, limit + len(used.tail), allowed)
        if keys is None and allowed is not None:
            if len(allowed) <= self._few:
                return [int(key) for key in allowed.tolist()]
            keys = _passing(used, vector, limit, allowed)
            if keys is None and len(allowed) <= FEW_ALLOWED:
                return [int(key) for key in allowed.tolist()]
        return None if keys is None else used.tail.merged(keys, vector, limit, allowed)

    def _compared(self, requests: Sequence[NearRequest], found: Sequence[Sequence[Sequence[int]]]) -> list[Near]:
        wanted = {key for one in found for keys in one for key in keys}.union(*(one.keys for one in requests))
        vectors = dict(self._feed.read(sorted(wanted)))
        return [_near_of(request, keys, vectors) for request, keys in zip(requests, found, strict=True)]


def _passing(used: EngineInUse, vector: Vector, limit: int, allowed: Keys) -> Keys | None:
    """Return the nearest that are allowed among the nearest of all; `None` where these are fewer than there are.

    Where a filter lets most passages pass, some more of the nearest hold as many that pass.
    """
    keys = used.engine.search(vector, WIDER * limit + len(used.tail), None)
    if keys is None:
        return None
    passing = keys[np.isin(keys, allowed)]
    enough = min(limit, len(used.tail.unchanged(allowed)))
    return passing if len(used.tail.unchanged(passing)) >= enough else None


def _near_of(request: NearRequest, found: Sequence[Sequence[int]], vectors: dict[int, Vector]) -> Near:
    asked = zip(request.vectors, found, request.limits, strict=True)
    best = frozenset(key for vector, keys, limit in asked for key in nearest(vectors, vector, keys, limit))
    shown = [key for key in sorted(best.union(request.keys)) if key in vectors]
    return Near(best, [{key: float(vectors[key] @ vector) for key in shown} for vector in request.vectors])


# An index whose vectors an engine beside the space searches; all other parts are the space's own.


class EngineKeeping(Protocol):
    """What the upkeep of an index needs of the engine in use. None of these raises where it cannot be reached."""

    def to_forget(self) -> int:
        """Count what was erased and may still be in the engine."""
        ...

    def forget(self) -> bool:
        """Let the engine forget what was erased; tell whether it could."""
        ...

    def begin_anew(self) -> None:
        """Throw away what the engine keeps. It takes all vectors over again."""
        ...

    def differences(self) -> Sequence[str]:
        """Say how what it keeps differs from what it should keep, where it knows everything."""
        ...


class EngineIndex:
    """`ports.index.Index` over the index of a space, with another part for vectors."""

    def __init__(self, own: Index, vectors: EngineVectors, keeping: EngineKeeping) -> None:
        self._own = own
        self._vectors = vectors
        self._upkeep = EngineUpkeep(own.upkeep, keeping)

    @property
    def passages(self) -> Passages:
        """The passages of the space's own index."""
        return self._own.passages

    @property
    def text(self) -> TextSearch:
        """Search by text in the space's own index."""
        return self._own.text

    @property
    def vectors(self) -> Vectors:
        """Search by meaning, with the engine in use."""
        return self._vectors

    @property
    def graph(self) -> Graph:
        """The graph of the space's own index."""
        return self._own.graph

    @property
    def upkeep(self) -> Upkeep:
        """What keeps the space's own index right, and has the engine forget what was erased."""
        return self._upkeep


class EngineUpkeep:
    """`ports.index.Upkeep` of both. An engine that is merely late is not behind: what it lacks is searched besides."""

    def __init__(self, own: Upkeep, keeping: EngineKeeping) -> None:
        self._own = own
        self._keeping = keeping
        self._unreachable = False

    def remains(self, object_ids: Sequence[str]) -> int:
        """Count what the space's index holds of objects, and what the engine has still to forget."""
        return self._own.remains(object_ids) + self._keeping.to_forget()

    def rebuild(self) -> int:
        """Make the passages anew, and throw away what the engine keeps."""
        made = self._own.rebuild()
        self._keeping.begin_anew()
        return made

    def behind(self) -> Behind:
        """Tell how far the space's own index is, else how much the engine has to forget."""
        own = self._own.behind()
        return own if own.total or self._unreachable else Behind(0, self._keeping.to_forget())

    def advance(self) -> Behind:
        """Go on with the space's own index, else have the engine forget what was erased."""
        own = self._own.advance()
        if own.total:
            return own
        if self._keeping.to_forget():
            self._unreachable = not self._keeping.forget()
        return self.behind()

    def differences(self) -> Sequence[str]:
        """Compare both with what they should hold."""
        return [*self._own.differences(), *self._keeping.differences()]
