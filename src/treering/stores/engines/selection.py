"""Which engine searches the vectors of a space: chosen in the space, opened when it is needed, and searched."""

import logging
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager, contextmanager
from dataclasses import dataclass, replace
from threading import RLock

import numpy as np

from treering.core.errors import InvalidInput, TreeringError, Unavailable
from treering.ports.index import Index, Upkeep, one_moment, quick_vectors
from treering.ports.passages import Passages
from treering.ports.runtime import Clock, Leases
from treering.ports.search import ChosenPending, Graph, Lag, Near, NearRequest, Pending, TextSearch, Vector, Vectors
from treering.ports.vector_engine import ENGINE, ChosenEngine, Describe, EngineReport, Keys, VectorFeed
from treering.retrieval.index.engine_following import (
    EngineFollower,
    EngineInUse,
    EngineKeeping,
    EngineTail,
    EngineUpkeep,
)
from treering.stores.engines.engine_address import FORMS, EngineAddress, EngineBackend, backend_of, parse_engine_address

_LOG = logging.getLogger(__name__)
_LEASE_SECONDS = 60.0
_RETRY_SECONDS = 10.0
_WAIT_SECONDS = 0.2
_ANOTHER_MODEL = "Choose another engine address, or refill this engine with your model: `treering index rebuild`."


@dataclass(frozen=True, slots=True)
class _Opened:
    chosen: ChosenEngine
    address: EngineAddress
    used: EngineInUse
    follower: EngineFollower


class SelectedEngine:
    """`ports.vector_engine.EngineSelection`, and what an index and its background work need of the engine in use.

    What the space says is looked at whenever the engine is needed, so that every process uses the same. An engine that
    failed is tried again after a while; until then the space's own vectors answer.
    """

    def __init__(
        self,
        feed: VectorFeed,
        leases: Leases,
        clock: Clock,
        backends: Mapping[str, EngineBackend],
        *,
        model: str,
        dimension: int,
        describe: Describe | None = None,
    ) -> None:
        self.feed = feed
        self._leases = leases
        self._clock = clock
        self._backends = backends
        self._model = model
        self._dimension = dimension
        self._describe = describe
        self._owner = clock.random_bytes(8).hex()
        self._lock = RLock()
        self._open: _Opened | None = None
        self._problem: TreeringError | None = None
        self._retry = 0.0

    def is_due(self) -> bool:
        """Tell whether the engine in use has something to follow up that is worth it."""
        used = self.in_use()
        opened = self._open
        if used is None or opened is None:
            return False
        try:
            return opened.follower.is_due()
        except TreeringError as error:
            self.failed(error)
            return False

    def in_use(self) -> EngineInUse | None:
        """Return the engine to search with, or `None` where none is chosen, or it failed a moment ago."""
        if self._problem and self._clock.elapsed() < self._retry:
            return None
        try:
            # Every search asks. One that goes to an engine of before, or to none, finds the same.
            opened = self._opened(fresh=False)
        except TreeringError as error:
            self.failed(error)
            return None
        return opened.used if opened else None

    def failed(self, error: TreeringError) -> None:
        """Note why the engine cannot answer, and leave it alone for a while."""
        if self._problem is None or self._problem.message != error.message:
            _LOG.warning("The engine of this space is unavailable, using its own vectors: %s %s", error, error.hint)
        self._problem, self._retry = error, self._clock.elapsed() + _RETRY_SECONDS

    def use(self, address: str) -> EngineReport:
        """Use the engine at an address from now on, and drop what another one kept. `advance` fills it."""
        given = parse_engine_address(address)
        before = self.feed.chosen()
        if before and before.address == given.url:
            return self.report()
        if before and parse_engine_address(before.address).kept_at == given.kept_at:
            self.feed.choose(replace(before, address=given.url))
            return self.report()
        chosen = ChosenEngine(given.url, self._clock.random_bytes(8).hex())
        opened = self._made(chosen)
        try:
            if opened.used.engine.state() is not None:
                raise InvalidInput(
                    f"{given} contains the vectors of another space.",
                    hint="Choose another engine address, or delete the vectors there.",
                )
        finally:
            opened.used.engine.close()
        if before:
            self._drop_quietly()
        self.feed.choose(chosen)
        self._problem = None
        return self.report()

    def report(self) -> EngineReport:
        """Tell how the engine is, trying it."""
        chosen = self.feed.chosen()
        if chosen is None:
            return EngineReport("none")
        told = EngineReport("failing", str(parse_engine_address(chosen.address)), total=self.feed.count())
        try:
            return self._reported(told)
        except TreeringError as error:
            return replace(told, problem=error.message, hint=error.hint)

    def advance(self) -> bool:
        """Take over what waits for a moment, or wait for the process that does; tell whether more waits."""
        opened = self._opened()
        if opened is None:
            return False
        with self._leased() as held:
            if held:
                more = opened.follower.advance()
                self._problem = None
                return more
        time.sleep(_WAIT_SECONDS)
        return True

    def follow(self, goes_on: Callable[[], bool]) -> None:
        """Bring the engine up to date where that is worth it: in the background, for as long as that may go on."""
        used = self.in_use()
        opened = self._open
        if used is None or opened is None:
            return
        try:
            while goes_on() and opened.follower.is_due() and goes_on():
                with self._leased() as held:
                    while held and goes_on() and opened.follower.advance():
                        self._leases.take(ENGINE, self._owner, seconds=_LEASE_SECONDS)
                if not held:
                    return  # another process is at it
        except TreeringError as error:
            self.failed(error)

    def rebuild(self) -> EngineReport:
        """Throw away what the engine keeps, damaged or not, and begin anew. Raises what the engine raises."""
        opened = self._opened()
        if opened is None:
            raise InvalidInput("This space has no engine.", hint=f"Set one with `treering index use` and {FORMS}.")
        with self._writing():
            opened.follower.begin()
        self._problem = None
        return self.report()

    def drop(self) -> EngineReport:
        """Remove what the engine keeps, and use the space's own vectors. Tells what could not be removed."""
        told = self.report()
        if told.state == "none":
            return told
        problem = self._drop_quietly()
        self.feed.choose(None)
        self.close()
        return replace(told, problem=problem.message if problem else "", hint=problem.hint if problem else "")

    def to_forget(self) -> int:
        """Count what was erased and may still be in the engine; 1 where it cannot be asked."""
        if self.feed.chosen() is None:
            return 0
        try:
            opened = self._opened()
            return opened.follower.to_forget() if opened else 0
        except TreeringError as error:
            self.failed(error)
            return 1

    def forget(self) -> bool:
        """Have the engine take over what waits, erasures among it; tell whether it could."""
        try:
            while self.advance():
                pass
        except TreeringError as error:
            self.failed(error)
            return False
        return True

    def begin_anew(self) -> None:
        """Throw away what the engine keeps."""
        if self.feed.chosen() is not None:
            try:
                self.rebuild()
            except TreeringError as error:
                self.failed(error)

    def differences(self) -> Sequence[str]:
        """Say where the engine cannot be used, or keeps another number of vectors than it should."""
        told = self.report()
        if told.state == "failing":
            return [f"the engine {told.address} cannot be used: {told.problem}"]
        if told.state == "ready" and told.vectors != told.total:
            return [f"the engine {told.address} has {told.vectors} vectors, the space {told.total}"]
        return []

    def close(self) -> None:
        """Close the engine, if it is open."""
        with self._lock:
            if self._open:
                self._open.used.engine.close()
                self._open = None

    def _opened(self, *, fresh: bool = True) -> _Opened | None:
        """Return the engine that the space says, opened. Raises what opening it raises."""
        chosen = self.feed.chosen(fresh=fresh)
        with self._lock:
            if self._open and self._open.chosen != chosen:
                self.close()
                self._problem = None
            if chosen and self._open is None:
                self._open = self._made(chosen)
            return self._open

    def _made(self, chosen: ChosenEngine) -> _Opened:
        address = parse_engine_address(chosen.address)
        backend = backend_of(address, self._backends)
        engine = backend.open(address, chosen.mark, self._dimension)
        mark = f"{chosen.mark} {self._model} {self._dimension}"
        used = EngineInUse(engine, EngineTail(self.feed, self._dimension))
        describe = self._describe if backend.shows_graph else None
        return _Opened(chosen, address, used, EngineFollower(engine, self.feed, mark, describe=describe))

    def _reported(self, told: EngineReport) -> EngineReport:
        opened = self._opened()
        if opened is None:
            return EngineReport("none")
        engine = opened.used.engine
        told = replace(told, kind=engine.kind)
        state = engine.state()
        if state is None:
            return replace(told, state="loading", waiting=told.total)
        if not opened.follower.is_its_own(state):
            return replace(told, problem="It contains the vectors of another model.", hint=_ANOTHER_MODEL)
        told = replace(told, vectors=state.count)
        if state.loaded is not None:
            return replace(told, state="loading", waiting=max(told.total - state.count, 0))
        changes = self.feed.since(state.moment, 1)
        waiting = told.total if changes is None else len(changes.keys) + changes.left
        return replace(told, state="following" if waiting else "ready", waiting=waiting)

    def _drop_quietly(self) -> TreeringError | None:
        try:
            opened = self._opened()
            if opened:
                with self._writing():
                    opened.used.engine.drop()
        except TreeringError as error:
            return error
        return None

    @contextmanager
    def _writing(self) -> Iterator[None]:
        """Hold the lease, waiting for whoever has it. Raises `Unavailable` after more than the length of one."""
        end = self._clock.elapsed() + _LEASE_SECONDS + _RETRY_SECONDS
        while True:
            with self._leased() as held:
                if held:
                    yield
                    return
            if self._clock.elapsed() > end:
                raise Unavailable(
                    "Another process is writing to the engine.", hint=f"Wait for it, or run `treering unlock {ENGINE}`."
                )
            time.sleep(_WAIT_SECONDS)

    @contextmanager
    def _leased(self) -> Iterator[bool]:
        """Hold the lease of who writes to the engine; tell whether it was to be had."""
        held = self._leases.take(ENGINE, self._owner, seconds=_LEASE_SECONDS)
        try:
            yield held
        finally:
            if held:
                self._leases.take(ENGINE, self._owner, seconds=0)


# Search by meaning with the engine in use: its answers, what it does not know yet, and exact cosines.


def nearest(vectors: dict[int, Vector], vector: Vector, keys: Sequence[int], limit: int) -> list[int]:
    """Return the passages nearest to a vector, of those that have one: best first, equal ones by ascending key."""
    known = [key for key in dict.fromkeys(keys) if key in vectors]
    return sorted(known, key=lambda key: (-float(vectors[key] @ vector), key))[:limit]


WIDER = 4
"""So many times what is wanted is asked of an engine that cannot search with a filter."""

FEW_ALLOWED = 4_000
"""Passages that pass a filter and are compared one by one where an engine cannot search them exactly."""


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

    def pending_of(self, keys: Sequence[int]) -> Sequence[Pending]:
        """Return those of the texts of some passages that wait for a vector."""
        return self._own.pending_of(keys) if isinstance(self._own, ChosenPending) else ()

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
    def quick(self) -> Vectors | None:
        """Search by the vectors of the quick model, which no engine follows."""
        return quick_vectors(self._own)

    def one_moment(self) -> AbstractContextManager[object]:
        """Hold one moment of the space's own index."""
        return one_moment(self._own)

    @property
    def graph(self) -> Graph:
        """The graph of the space's own index."""
        return self._own.graph

    @property
    def upkeep(self) -> Upkeep:
        """What keeps the space's own index right, and has the engine forget what was erased."""
        return self._upkeep
