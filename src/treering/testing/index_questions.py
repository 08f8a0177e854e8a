"""Short ways to ask the parts of an index for one thing."""

from collections.abc import Iterable, Mapping, Sequence
from datetime import date
from typing import Any

import numpy as np

from treering.core.filters import parse_filter
from treering.ports.index import Index
from treering.ports.passages import AskedDays, PassageHead, PassageRequest, PassagesFound, Reach
from treering.ports.search import (
    EdgeType,
    GraphView,
    NamePart,
    NearRequest,
    Scored,
    TextFound,
    TextQuery,
    TextRequest,
    Vector,
)

EVERYWHERE = Reach("/", descend=True)

Edge = tuple[object, object, str]
"""Both ends by name, of passages by key, and the name of the tie."""


def seen(
    scope: str = "/",
    *,
    descend: bool = True,
    where: Mapping[str, Any] | None = None,
    withdrawn: bool = False,
    at: int | None = None,
) -> Reach:
    """Return a reach, of everything where nothing is said."""
    return Reach(scope, descend=descend, where=parse_filter(where), withdrawn=withdrawn, at=at)


def search_text(index: Index, reach: Reach, limit: int, **wanted: Any) -> TextFound:
    """Search by text; return what was found in each arm."""
    (found,) = index.text.search([TextRequest(reach, limit, **wanted)])
    return found


def by_words(index: Index, query: TextQuery, *, reach: Reach, limit: int) -> list[Scored]:
    """Rank by the words and phrases of a query."""
    return list(search_text(index, reach, limit, words=(*query.words, *query.phrases)).words)


def by_names(index: Index, query: TextQuery, *, reach: Reach, limit: int) -> list[Scored]:
    """Rank by parts of names."""
    return list(search_text(index, reach, limit, names=tuple(map(NamePart, query.identifiers))).names)


def by_place(index: Index, text: str, *, reach: Reach, limit: int) -> list[Scored]:
    """Rank by an id, path, title or the end of one."""
    return list(search_text(index, reach, limit, place=text).places)


def by_days(index: Index, asked: Iterable[AskedDays], *, reach: Reach, limit: int) -> list[Scored]:
    """Rank turns by the days asked for."""
    return list(search_text(index, reach, 1, days=tuple(asked), days_limit=limit).days)


def counts(index: Index, words: Iterable[str], *, reach: Reach) -> dict[str, int]:
    """Count the current passages that have each of the terms; leave out terms that none has."""
    return dict(search_text(index, reach, 1, counted=tuple(words)).counts)


def near(index: Index, vector: Vector, *, reach: Reach, limit: int) -> dict[int, float]:
    """Return the cosines of the nearest passages, best first, by key."""
    (found,) = index.vectors.search([NearRequest(reach, (vector,), (limit,))])
    return dict(sorted(found.cosines[0].items(), key=lambda pair: (-pair[1], pair[0])))


def cosines(index: Index, vector: Vector, keys: Iterable[int]) -> dict[int, float]:
    """Return the cosines of those of the keys that have a vector."""
    (found,) = index.vectors.search([NearRequest(EVERYWHERE, (vector,), (0,), tuple(keys))])
    return dict(found.cosines[0])


def read(index: Index, keys: Iterable[int], reach: Reach | None = None, **wanted: Any) -> PassagesFound:
    """Read passages by key."""
    (found,) = index.passages.read([PassageRequest(tuple(keys), reach, **wanted)])
    return found


def heads(index: Index, keys: Iterable[int]) -> Mapping[int, PassageHead]:
    """Return the heads of passages."""
    return read(index, keys).heads


def visible(index: Index, keys: Iterable[int], *, reach: Reach) -> frozenset[int]:
    """Return those of the keys that a read in reach may see."""
    return read(index, keys, reach).visible


def beside(index: Index, keys: Iterable[int]) -> Mapping[int, Sequence[int]]:
    """Return the turns before and after turns."""
    return read(index, keys, beside=True).beside


def on_days(index: Index, asked: Iterable[AskedDays], keys: Iterable[int]) -> Mapping[int, float]:
    """Return how well passages tell of days."""
    return read(index, keys, days=tuple(asked)).dated


def days(first: str, last: str = "", weight: float = 1.0) -> AskedDays:
    """Return days asked for, written as `2023-05-08`; a single day where no last one is given."""
    return AskedDays(date.fromisoformat(first), date.fromisoformat(last or first), weight)


def names_in(view: GraphView, keys: Sequence[int]) -> set[str]:
    """Return the entities and objects that passages are tied to, by name."""
    edges = view.edges(view.of_passages(np.array(keys, np.int64)))
    return set(view.names(edges.target.tolist()).values())


def edges_between(view: GraphView, nodes: Sequence[int]) -> list[Edge]:
    """Return the edges out of nodes, sorted, with names for entities and objects and keys for passages."""
    asked = np.array(nodes, np.int64)
    found = view.edges(asked)
    sources, targets = asked[found.source].tolist(), found.target.tolist()
    called = _called(view, [*sources, *targets])
    ends = zip(sources, targets, found.tie.tolist(), strict=True)
    return sorted(((called[one], called[other], EdgeType(tie).name) for one, other, tie in ends), key=repr)


def edges_around(view: GraphView, keys: Iterable[int]) -> list[Edge]:
    """Return all edges that can be walked to from passages, as `edges_between` does."""
    reached = frontier = set(view.of_passages(np.array(sorted(keys), np.int64)).tolist())
    while frontier:
        frontier = set(view.edges(np.array(sorted(frontier), np.int64)).target.tolist()) - reached
        reached = reached | frontier
    return edges_between(view, sorted(reached))


def statements_of(view: GraphView, keys: Sequence[int]) -> list[tuple[int, str, str, tuple[int, ...]]]:
    """Return what passages state, sorted: the key of the passage, both ends by name, the codes of the words."""
    found = view.statements(keys)
    names = view.names([*found.subject.tolist(), *found.object.tolist()])
    rows = zip(found.passage.tolist(), found.subject.tolist(), found.object.tolist(), strict=True)
    said = [tuple(words.tolist()) for words in np.split(found.words, found.bounds[1:-1])] if len(found.passage) else []
    return sorted((keys[at], names[one], names[end], said[row]) for row, (at, one, end) in enumerate(rows))


def _called(view: GraphView, nodes: Sequence[int]) -> dict[int, object]:
    keys = view.passages_of(np.array(nodes, np.int64)).tolist()
    named = view.names([node for node, key in zip(nodes, keys, strict=True) if key < 0])
    return {node: named.get(node) if key < 0 else key for node, key in zip(nodes, keys, strict=True)}
