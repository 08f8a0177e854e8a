"""Reading in rounds: searches say what they want to know as values, and what several want is asked for in one call.

A search is a generator. It yields a request and is sent the answer; its result is what it returns. So it says what it
reads and in which order, and not from where; and a store in another place is asked few questions instead of many.
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
    """A view of the graph, for a read in reach."""

    reach: Reach


@dataclass(frozen=True, slots=True)
class ModelRequest:
    """Work of a model, which reads nothing of the space and may take seconds: no moment is held meanwhile."""

    work: Callable[[], Any]


ReadRequest = TextRequest | NearRequest | PassageRequest | GraphRequest | ObjectRequest

Steps = Generator[ReadRequest | ModelRequest, Any, Result]
"""A search: yields requests, is sent `TextFound`, `Near`, `PassagesFound`, `GraphView` or `ObjectsFound` for them.

For a `ModelRequest` it is sent what the work gives.
"""

OnlySome = Callable[[Sequence[PassagesFound]], Sequence[PassagesFound]]
"""Takes out of what was read of passages what a search is not to see."""


def run(search: Steps[Result], *, index: Index, ledger: Ledger) -> Result:
    """Run one search to its end."""
    results: list[Result] = run_together([search], index=index, ledger=ledger)
    return results[0]


def run_together(
    searches: Sequence[Steps[Any]], *, index: Index, ledger: Ledger, only: OnlySome | None = None
) -> list[Any]:
    """Run searches side by side; return their results, in their order. `only`: what of the passages read they see.

    In each round one port is asked, for all searches that wait for it: the one that comes first in a search. So
    searches that took different ways meet again at the next port that both need.

    All that is read is of one moment, up to the work of a model: that is done once nothing else waits, and what is
    read after it is of a later moment. A database that is held while a model thinks cannot tidy up.
    """
    ports = _ports(index, ledger, only)
    running = _Running(searches)
    while running.waiting:
        with one_moment(index):
            while reading := running.reading:
                check_interrupt()
                kind = next(kind for kind in ports if any(isinstance(request, kind) for request in reading.values()))
                asked = {at: request for at, request in reading.items() if isinstance(request, kind)}
                for at, answer in zip(asked, ports[kind](list(asked.values())), strict=True):
                    running.send(at, answer)
        for at, request in list(running.waiting.items()):
            if isinstance(request, ModelRequest):
                running.send(at, request.work())
    return running.results


def _ports(
    index: Index, ledger: Ledger, only: OnlySome | None
) -> Mapping[type[Any], Callable[[list[Any]], Sequence[Any]]]:
    """Return what answers each kind of request, in the order in which a search comes to them."""
    return {
        TextRequest: index.text.search,
        NearRequest: lambda requests: nearest(requests, index),
        PassageRequest: (lambda requests: only(index.passages.read(requests))) if only else index.passages.read,
        GraphRequest: lambda requests: _views(requests, index),
        ObjectRequest: ledger.read,
    }


def _views(requests: Sequence[GraphRequest], index: Index) -> list[GraphView]:
    """Return a view for each request. Filters are not asked of the graph: one view serves all of one scope."""
    views: dict[Reach, GraphView] = {}
    found = []
    for request in requests:
        reach = replace(request.reach, where=EVERYTHING)
        if reach not in views:
            views[reach] = index.graph.view(reach)
        found.append(views[reach])
    return found


def nearest(requests: Sequence[NearRequest], index: Index) -> list[Near]:
    """Compare for several requests: with the vectors of the space's model, and of the quick one where these are asked.

    What has a vector of both counts as what the space's own says of it.
    """
    own = [_with(one, one.vectors) for one in requests]
    quick = [_with(one, one.quick) for one in requests]
    nothing = Near(frozenset(), ())
    found = list(index.vectors.search(own)) if any(one.vectors for one in own) else [nothing] * len(requests)
    meanwhile = quick_vectors(index)
    if meanwhile is None or not any(one.vectors for one in quick):
        return found
    both = zip(found, meanwhile.search(quick), strict=True)
    return [_merged(of_own, of_quick) for of_own, of_quick in both]


def _with(request: NearRequest, vectors: tuple[Vector, ...]) -> NearRequest:
    return replace(request, vectors=vectors, limits=request.limits[: len(vectors)], quick=())


def _merged(own: Near, quick: Near) -> Near:
    known = own.cosines[0] if own.cosines else {}
    others = [{key: of for key, of in cosines.items() if key not in known} for cosines in quick.cosines]
    return Near(own.found | quick.found, own.cosines, others)


def lag_of(index: Index) -> Lag:
    """Tell how far vectors lag behind, and how many of the passages that wait have one of the quick model."""
    lag, quick = index.vectors.lag(), quick_vectors(index)
    if quick is None or not lag.pending:
        return lag
    waiting = quick.lag()
    return replace(lag, quick=min(lag.pending, waiting.total - waiting.pending))


@dataclass(slots=True)
class _Running:
    """Searches under way: what each waits for, and what came of those that have ended."""

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


# Looking something up by its text alone, without ranking it against anything else.


def make_whole(index: Index, *, told: Callable[[Behind], None] = lambda _: None) -> None:
    """Finish an index that is being made anew, or is late, telling after each step how far it is.

    For whoever takes what is not found for absent. A search that says what it may lack need not wait. Raises
    `Unavailable` where the space cannot be written.
    """
    while index.upkeep.behind().total:
        told(index.upkeep.advance())


def look_up(index: Index, request: TextRequest) -> list[PassageHead]:
    """Return the heads of what a search by text finds, each once: by words, then by names, by place and by days."""
    (hits,) = index.text.search([request])
    keys = dict.fromkeys(hit.key for hit in (*hits.words, *hits.names, *hits.places, *hits.days))
    (found,) = index.passages.read([PassageRequest(tuple(keys))])
    return [found.heads[key] for key in keys if key in found.heads]
