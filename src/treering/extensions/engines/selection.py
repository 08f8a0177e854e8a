"""The engine of a space: chosen in the space, opened on demand, updated, and searched."""

import logging
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager, ExitStack, contextmanager
from dataclasses import dataclass, replace
from functools import partial
from threading import RLock

from treering.core.errors import InvalidInput, TreeringError, Unavailable
from treering.extensions.engines.engine_address import (
    ANOTHER_MODEL,
    FORMS,
    EngineBackend,
    backend_of,
    parse_engine_address,
)
from treering.extensions.engines.engine_mirror import MAX_COMPARED, PAGE, EngineMirror
from treering.ports.index import Behind, Index, Upkeep, one_moment, quick_vectors
from treering.ports.passages import Passages
from treering.ports.runtime import Clock, Leases
from treering.ports.search import ChosenPending, Graph, Lag, Near, NearRequest, Pending, TextSearch, Vector, Vectors
from treering.ports.vector_engine import ENGINE, ChosenEngine, Describe, EngineReport, VectorFeed

_LOG = logging.getLogger(__name__)
_LEASE_SECONDS = 60.0
_RETRY_SECONDS = 10.0
_WAIT_SECONDS = 0.2


@dataclass(frozen=True, slots=True)
class _Opened:
    chosen: ChosenEngine
    mirror: EngineMirror


class SelectedEngine:
    """`ports.vector_engine.EngineSelection`, and the engine in use for an index and its background work.

    The choice is read whenever the engine is needed, so that all processes use the same one. An engine that failed is
    tried again after a while; meanwhile, the space's own vectors answer.
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
        page: int = PAGE,
        compared: int = MAX_COMPARED,
    ) -> None:
        self.feed = feed
        self._leases = leases
        self._clock = clock
        self._backends = backends
        self._model = model
        self._dimension = dimension
        self._describe = describe
        self._page = page
        self.compared = compared
        self._owner = clock.random_bytes(8).hex()
        self._lock = RLock()
        self._open: _Opened | None = None
        self._problem: TreeringError | None = None
        self._retry = 0.0

    def is_due(self) -> bool:
        """Return whether the engine in use has enough changes to apply."""
        mirror = self.in_use()
        try:
            return mirror is not None and mirror.is_due()
        except TreeringError as error:
            self.failed(error)
            return False

    def in_use(self) -> EngineMirror | None:
        """Return the engine to search with, or `None` if none is chosen or it failed recently."""
        if self._problem and self._clock.elapsed() < self._retry:
            return None
        try:
            # Not fresh, because every search asks. A search with an earlier engine, or none, has the same results.
            return self._opened(fresh=False)
        except TreeringError as error:
            self.failed(error)
            return None

    def failed(self, error: TreeringError) -> None:
        """Store why the engine failed, and do not use it for a while."""
        if self._problem is None or self._problem.message != error.message:
            _LOG.warning("The engine of this space is unavailable, using its own vectors: %s %s", error, error.hint)
        self._problem, self._retry = error, self._clock.elapsed() + _RETRY_SECONDS

    def use(self, address: str) -> EngineReport:
        """Use the engine at an address from now on, and drop the data of an earlier one. `advance` fills it."""
        given = parse_engine_address(address)
        before = self.feed.chosen()
        if before and before.address == given.url:
            return self.report()
        if before and parse_engine_address(before.address).kept_at == given.kept_at:
            self.feed.choose(replace(before, address=given.url))
            return self.report()
        chosen = ChosenEngine(given.url, self._clock.random_bytes(8).hex())
        with ExitStack() as closing:
            mirror = self._new_mirror(chosen)
            closing.callback(mirror.engine.close)
            if mirror.engine.state() is not None:
                raise InvalidInput(
                    f"{given} contains the vectors of another space.",
                    hint="Choose another engine address, or delete the vectors there.",
                )
            if before:
                self._drop_quietly()
            self.feed.choose(chosen)
            with self._lock:
                self.close()
                self._open = _Opened(chosen, mirror)
            closing.pop_all()
        self._problem = None
        return self.report()

    def report(self) -> EngineReport:
        """Return the state of the engine, after trying it."""
        chosen = self.feed.chosen()
        if chosen is None:
            return EngineReport("none")
        report = EngineReport("failing", str(parse_engine_address(chosen.address)), total=self.feed.count())
        try:
            return self._reported(report)
        except TreeringError as error:
            return replace(report, problem=error.message, hint=error.hint)

    def advance(self) -> bool:
        """Apply a batch of changes, or wait for the process that does; return whether more are left."""
        mirror = self._opened()
        if mirror is None:
            return False
        with self._leased() as held:
            if held:
                more = mirror.advance()
                self._problem = None
                return more
        time.sleep(_WAIT_SECONDS)
        return True

    def follow(self, goes_on: Callable[[], bool]) -> None:
        """Apply changes in the background if there are enough, as long as `goes_on` returns true."""
        mirror = self.in_use()
        if mirror is None:
            return
        try:
            while goes_on() and mirror.is_due() and goes_on():
                with self._leased() as held:
                    while held and goes_on() and mirror.advance():
                        self._leases.take(ENGINE, self._owner, seconds=_LEASE_SECONDS)
                if not held:
                    return  # another process does it
        except TreeringError as error:
            self.failed(error)

    def rebuild(self) -> EngineReport:
        """Delete the data of the engine, damaged or not, and fill it again. Raises the errors of the engine."""
        mirror = self._opened()
        if mirror is None:
            raise InvalidInput("This space has no engine.", hint=f"Set one with `treering index use` and {FORMS}.")
        with self._writing():
            mirror.begin()
        self._problem = None
        return self.report()

    def drop(self) -> EngineReport:
        """Drop the data of the engine, and use the space's own vectors. Reports data that could not be dropped."""
        report = self.report()
        if report.state == "none":
            return report
        problem = self._drop_quietly()
        self.feed.choose(None)
        self.close()
        return replace(report, problem=problem.message if problem else "", hint=problem.hint if problem else "")

    def to_forget(self) -> int:
        """Return the number of erased passages that may still be in the engine; 1 if it cannot be asked."""
        if self.feed.chosen() is None:
            return 0
        try:
            mirror = self._opened()
            return mirror.to_forget() if mirror else 0
        except TreeringError as error:
            self.failed(error)
            return 1

    def forget(self) -> bool:
        """Apply all changes, including erasures; return whether it succeeded."""
        try:
            while self.advance():
                pass
        except TreeringError as error:
            self.failed(error)
            return False
        return True

    def begin_anew(self) -> None:
        """Delete the data of the engine."""
        if self.feed.chosen() is not None:
            try:
                self.rebuild()
            except TreeringError as error:
                self.failed(error)

    def differences(self) -> Sequence[str]:
        """Describe why the engine cannot be used, or that its number of vectors is wrong."""
        report = self.report()
        if report.state == "failing":
            return [f"the engine {report.address} cannot be used: {report.problem}"]
        if report.state == "ready" and report.vectors != report.total:
            return [f"the engine {report.address} has {report.vectors} vectors, the space {report.total}"]
        return []

    def index_over(self, own: Index) -> "EngineIndex":
        """Return an index whose vectors the engine in use searches."""
        return EngineIndex.over(own, self)

    def close(self) -> None:
        """Close the engine, if it is open."""
        with self._lock:
            if self._open:
                self._open.mirror.engine.close()
                self._open = None

    def _opened(self, *, fresh: bool = True) -> EngineMirror | None:
        """Return the chosen engine, opened. Raises the errors of opening it."""
        chosen = self.feed.chosen(fresh=fresh)
        with self._lock:
            if self._open and self._open.chosen != chosen:
                self.close()
                self._problem = None
            if chosen and self._open is None:
                self._open = _Opened(chosen, self._new_mirror(chosen))
            return self._open.mirror if self._open else None

    def _new_mirror(self, chosen: ChosenEngine) -> EngineMirror:
        address = parse_engine_address(chosen.address)
        backend = backend_of(address, self._backends)
        engine = backend.open(address, chosen.mark, self._dimension)
        mark = f"{chosen.mark} {self._model} {self._dimension}"
        describe = self._describe if backend.shows_graph else None
        return EngineMirror(
            engine, self.feed, mark, self._dimension, describe=describe, collects=backend.collects, page=self._page
        )

    def _reported(self, report: EngineReport) -> EngineReport:
        mirror = self._opened()
        if mirror is None:
            return EngineReport("none")
        report = replace(report, kind=mirror.engine.kind)
        state = mirror.engine.state()
        if state is None:
            return replace(report, state="loading", waiting=report.total)
        if not mirror.is_its_own(state):
            return replace(report, problem="It contains the vectors of another model.", hint=ANOTHER_MODEL)
        report = replace(report, vectors=state.count)
        if state.loaded is not None:
            return replace(report, state="loading", waiting=max(report.total - state.count, 0))
        changes = self.feed.since(state.moment, 1)
        waiting = report.total if changes is None else len(changes.keys) + changes.left
        return replace(report, state="following" if waiting else "ready", waiting=waiting)

    def _drop_quietly(self) -> TreeringError | None:
        try:
            mirror = self._opened()
            if mirror:
                with self._writing():
                    mirror.engine.drop()
        except TreeringError as error:
            return error
        return None

    @contextmanager
    def _writing(self) -> Iterator[None]:
        """Hold the lease, waiting for its owner. Raises `Unavailable` after more than the length of a lease."""
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
        """Try to hold the lease for writing to the engine; yield whether it is held."""
        held = self._leases.take(ENGINE, self._owner, seconds=_LEASE_SECONDS)
        try:
            yield held
        finally:
            if held:
                self._leases.take(ENGINE, self._owner, seconds=0)


def nearest(vectors: dict[int, Vector], vector: Vector, keys: Sequence[int], limit: int) -> list[int]:
    """Return the passages nearest to a vector, best first, then by ascending key."""
    known = [key for key in dict.fromkeys(keys) if key in vectors]
    return sorted(known, key=lambda key: (-float(vectors[key] @ vector), key))[:limit]


class EngineVectors:
    """`ports.search.Vectors` over the vectors of the space, searched by an engine if one is in use.

    The space's own vectors remain complete: they provide exact cosines, wait for the embedder, and answer if the engine
    fails. Up to `selected.compared` filtered passages are compared one by one if the engine cannot search them.
    """

    def __init__(self, own: Vectors, selected: SelectedEngine) -> None:
        self._own = own
        self._selected = selected
        self._feed = selected.feed

    def search(self, requests: Sequence[NearRequest]) -> Sequence[Near]:
        """Answer several requests. Requests about the past are answered by the space's own vectors."""
        mirror = self._selected.in_use()
        if mirror is None or any(one.reach.withdrawn or one.reach.at is not None for one in requests):
            return self._own.search(requests)
        try:
            candidates = self._proposed(mirror, requests) if mirror.sees() else None
        except TreeringError as error:
            self._selected.failed(error)
            candidates = None
        return self._own.search(requests) if candidates is None else self._compared(requests, candidates)

    def lag(self) -> Lag:
        """Return the lag of the space's own vectors. Changes that the engine lacks are searched separately."""
        return self._own.lag()

    def pending(self, limit: int) -> Sequence[Pending]:
        """Return texts that wait for an embedding."""
        return self._own.pending(limit)

    def pending_of(self, keys: Sequence[int]) -> Sequence[Pending]:
        """Return the texts of passages that wait for an embedding."""
        return self._own.pending_of(keys) if isinstance(self._own, ChosenPending) else ()

    def add(self, vectors: Mapping[str, Vector]) -> None:
        """Store vectors by content hash durably. The engine receives them through the feed."""
        self._own.add(vectors)

    def _proposed(self, mirror: EngineMirror, requests: Sequence[NearRequest]) -> list[list[list[int]]] | None:
        """Return candidates by request and vector; `None` if the engine cannot search."""
        candidates: list[list[list[int]]] = []
        for request, allowed in zip(requests, self._feed.allowed([one.reach for one in requests]), strict=True):
            each: list[list[int]] = []
            for vector, limit in zip(request.vectors, request.limits, strict=True):
                keys = mirror.nearest(vector, limit, allowed, compared=self._selected.compared) if limit else []
                if keys is None:
                    return None
                each.append(keys)
            candidates.append(each)
        return candidates

    def _compared(self, requests: Sequence[NearRequest], found: Sequence[Sequence[Sequence[int]]]) -> list[Near]:
        wanted = {key for one in found for keys in one for key in keys}.union(*(one.keys for one in requests))
        vectors = dict(self._feed.read(sorted(wanted)))
        return [_near_of(request, keys, vectors) for request, keys in zip(requests, found, strict=True)]


def _near_of(request: NearRequest, found: Sequence[Sequence[int]], vectors: dict[int, Vector]) -> Near:
    queries = zip(request.vectors, found, request.limits, strict=True)
    best = frozenset(key for vector, keys, limit in queries for key in nearest(vectors, vector, keys, limit))
    shown = [key for key in sorted(best.union(request.keys)) if key in vectors]
    return Near(best, [{key: float(vectors[key] @ vector) for key in shown} for vector in request.vectors])


@dataclass(frozen=True, eq=False)
class EngineIndex:
    """`ports.index.Index` of a space with an engine. Quick vectors are not in the engine."""

    own: Index
    """The index of the space itself."""
    passages: Passages
    text: TextSearch
    vectors: Vectors
    quick: Vectors | None
    graph: Graph
    upkeep: Upkeep
    one_moment: Callable[[], AbstractContextManager[object]]

    @classmethod
    def over(cls, own: Index, selected: SelectedEngine) -> "EngineIndex":
        """Return the index of a space with the engine in use."""
        return cls(
            own,
            own.passages,
            own.text,
            EngineVectors(own.vectors, selected),
            quick_vectors(own),
            own.graph,
            EngineUpkeep(own.upkeep, selected),
            partial(one_moment, own),
        )


class EngineUpkeep:
    """`ports.index.Upkeep` of the index and the engine. An engine that lacks changes is not behind."""

    def __init__(self, own: Upkeep, selected: SelectedEngine) -> None:
        self._own = own
        self._selected = selected
        self._unreachable = False

    def remains(self, object_ids: Sequence[str]) -> int:
        """Count the remains of objects in the space's index, and of erased passages in the engine."""
        return self._own.remains(object_ids) + self._selected.to_forget()

    def rebuild(self) -> int:
        """Rebuild the passages, and delete the data of the engine."""
        made = self._own.rebuild()
        self._selected.begin_anew()
        return made

    def behind(self) -> Behind:
        """Return the progress of the space's own index, else the number of erased passages in the engine."""
        own = self._own.behind()
        return own if own.total or self._unreachable else Behind(0, self._selected.to_forget())

    def advance(self) -> Behind:
        """Advance the space's own index, else apply erasures to the engine."""
        own = self._own.advance()
        if own.total:
            return own
        if self._selected.to_forget():
            self._unreachable = not self._selected.forget()
        return self.behind()

    def differences(self) -> Sequence[str]:
        """Describe the differences of both from their expected contents."""
        return [*self._own.differences(), *self._selected.differences()]
