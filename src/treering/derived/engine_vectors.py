"""Search by meaning with an engine beside the space: its answers, what it does not know yet, and exact cosines."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass

import numpy as np

from treering.core.errors import TreeringError
from treering.derived.engine_tail import EngineTail, nearest
from treering.ports.vector_engine import Keys, VectorEngine, VectorFeed
from treering.ports.vectors import Lag, Near, NearRequest, Pending, Vector, Vectors

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
    """`ports.vectors.Vectors` over the vectors that the space keeps, searched by an engine where one is in use.

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
