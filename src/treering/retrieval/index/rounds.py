"""Run searches in rounds, so that requests of several searches are batched into one call.

A search is a generator that yields requests, is sent their answers, and returns its result. It determines what to read
in which order, but not from where, and a remote store gets few calls instead of many.
"""

from collections.abc import Callable, Generator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any, TypeVar

from treering.core.filters import EVERYTHING
from treering.ports.index import Behind, Index, one_moment, quick_vectors
from treering.ports.ledger import Ledger, ObjectRequest
from treering.ports.passages import PassageHead, PassageRequest, PassagesFound, Reach
from treering.ports.runtime import check_interrupt
from treering.ports.search import GraphView, Lag, Near, NearRequest, TextRequest, Vector

Result = TypeVar("Result")


@dataclass(frozen=True, slots=True)
class GraphRequest:
    """A request for a view of the graph in reach."""

    reach: Reach


@dataclass(frozen=True, slots=True)
class ModelRequest:
    """Work of a model, which does not read the space and may take seconds. No snapshot is held meanwhile."""

    work: Callable[[], Any]


ReadRequest = TextRequest | NearRequest | PassageRequest | GraphRequest | ObjectRequest

Steps = Generator[ReadRequest | ModelRequest, Any, Result]
"""A search. Its requests are answered with `TextFound`, `Near`, `PassagesFound`, `GraphView` or `ObjectsFound`.

A `ModelRequest` is answered with the result of its work.
"""

OnlySome = Callable[[Sequence[PassagesFound]], Sequence[PassagesFound]]
"""A filter for the passages that a search may see."""


def run(search: Steps[Result], *, index: Index, ledger: Ledger) -> Result:
    """Run one search and return its result."""
    results: list[Result] = run_together([search], index=index, ledger=ledger)
    return results[0]


def run_together(
    searches: Sequence[Steps[Any]], *, index: Index, ledger: Ledger, only: OnlySome | None = None
) -> list[Any]:
    """Run searches together; return their results in order. `only` filters the passages they read.

    Each round calls one port for all searches that wait for it: the port that comes first in a search. So searches
    that differ in between meet again at the next port that both need.

    All reads see one snapshot, until a model works. That happens when no read is waiting; later reads see a later
    snapshot, because a database with an open snapshot cannot clean up.
    """
    ports = _ports(index, ledger, only)
    running = _Running(searches)
    while running.waiting:
        with one_moment(index):
            while reading := running.reading:
                check_interrupt()
                kind = next(kind for kind in ports if any(isinstance(request, kind) for request in reading.values()))
                batch = {at: request for at, request in reading.items() if isinstance(request, kind)}
                for at, answer in zip(batch, ports[kind](list(batch.values())), strict=True):
                    running.send(at, answer)
        for at, request in list(running.waiting.items()):
            if isinstance(request, ModelRequest):
                running.send(at, request.work())
    return running.results


def _ports(
    index: Index, ledger: Ledger, only: OnlySome | None
) -> Mapping[type[Any], Callable[[list[Any]], Sequence[Any]]]:
    """Return the function that answers each kind of request, in the usual order of requests in a search."""
    return {
        TextRequest: index.text.search,
        NearRequest: lambda requests: nearest(requests, index),
        PassageRequest: (lambda requests: only(index.passages.read(requests))) if only else index.passages.read,
        GraphRequest: lambda requests: _views(requests, index),
        ObjectRequest: ledger.read,
    }


def _views(requests: Sequence[GraphRequest], index: Index) -> list[GraphView]:
    """Return a view for each request. The graph ignores filters, so requests in one scope share a view."""
    reaches = [
        reach if (reach := request.reach).where == EVERYTHING else replace(reach, where=EVERYTHING)
        for request in requests
    ]
    views = {reach: index.graph.view(reach) for reach in dict.fromkeys(reaches)}
    return [views[reach] for reach in reaches]


def nearest(requests: Sequence[NearRequest], index: Index) -> list[Near]:
    """Search the vectors of the space's embedder, and those of the quick model if requested.

    A passage with vectors of both counts by the space's embedder.
    """
    own = [_with(one, one.vectors) if one.quick else one for one in requests]
    nothing = [Near(frozenset(), ())] * len(requests)
    near = index.vectors.search(own) if any(one.vectors for one in own) else nothing
    if not any(one.quick for one in requests) or (quick_table := quick_vectors(index)) is None:
        return list(near)
    quick = [_with(one, one.quick) for one in requests]
    both = zip(near, quick_table.search(quick), strict=True)
    return [_merged(of_own, of_quick) for of_own, of_quick in both]


def _with(request: NearRequest, vectors: tuple[Vector, ...]) -> NearRequest:
    return replace(request, vectors=vectors, limits=request.limits[: len(vectors)], quick=())


def _merged(own: Near, quick: Near) -> Near:
    known = own.cosines[0] if own.cosines else {}
    others = [{key: of for key, of in cosines.items() if key not in known} for cosines in quick.cosines]
    return Near(own.found | quick.found, own.cosines, others)


def lag_of(index: Index) -> Lag:
    """Return the embedding backlog, with the number of waiting passages that have a vector of the quick model."""
    with one_moment(index):
        lag, quick = index.vectors.lag(), quick_vectors(index)
        if quick is None or not lag.pending:
            return lag
        waiting = quick.lag()
    return replace(lag, quick=min(lag.pending, waiting.total - waiting.pending))


@dataclass(slots=True)
class _Running:
    """Running searches: the request that each waits for, and the results of those that ended."""

    searches: Sequence[Steps[Any]]
    waiting: dict[int, ReadRequest | ModelRequest] = field(default_factory=dict)
    ended: dict[int, Any] = field(default_factory=dict)

    def __post_init__(self) -> None:
        for at in range(len(self.searches)):
            self.send(at, None)

    @property
    def reading(self) -> dict[int, ReadRequest]:
        return {at: request for at, request in self.waiting.items() if not isinstance(request, ModelRequest)}

    @property
    def results(self) -> list[Any]:
        return [self.ended[at] for at in range(len(self.searches))]

    def send(self, at: int, answer: Any) -> None:
        self.waiting.pop(at, None)
        try:
            self.waiting[at] = self.searches[at].send(answer)
        except StopIteration as end:
            self.ended[at] = end.value


def make_whole(index: Index, *, told: Callable[[Behind], None] = lambda _: None) -> None:
    """Bring an index up to date; call `told` with the progress after each step.

    For callers that cannot report a late index; searches report it instead. Raises `Unavailable` if the space cannot be
    written.
    """
    while index.upkeep.behind().total:
        told(index.upkeep.advance())


def look_up(index: Index, request: TextRequest) -> list[PassageHead]:
    """Search by text, without ranking: return distinct hits by words, then by names, by places and by days."""
    (hits,) = index.text.search([request])
    keys = dict.fromkeys(hit.key for hit in (*hits.words, *hits.names, *hits.places, *hits.days))
    (passages,) = index.passages.read([PassageRequest(tuple(keys))])
    return [passages.heads[key] for key in keys if key in passages.heads]
