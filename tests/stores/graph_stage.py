"""The graph of a space as names, and what it ought to be."""

from collections.abc import Iterable

import numpy as np
from index_stage import Space, seen

from treering.ports.ledger import Selection
from treering.ports.passages import Reach
from treering.ports.search import EdgeType, Graph
from treering.retrieval.extraction.built_in import BuiltInExtractor
from treering.retrieval.index.projection import entries_of, ties_in
from treering.testing.index_contract.graph import MemoryGraph

Edge = tuple[object, object, str]


def known_graph(space: Space) -> MemoryGraph:
    """Make the graph from what the ledger says now."""
    graph, extractor = MemoryGraph(), BuiltInExtractor()
    for head in space.ledger.select(Selection(descend=True)):
        item = space.ledger.get(head.id)
        for entry in entries_of(item):
            passage = entry.passage
            key = space.database.row(
                "SELECT key FROM passages WHERE object_id = ? AND part = ? AND until_seq IS NULL AND live",
                (passage.object_id, passage.part),
            )
            if passage.live:
                [ties] = ties_in([entry], extractor)
                graph.put(key[0], ties, passage.scope)
    return graph


def edges_of(graph: Graph, nodes: Iterable[int], reach: Reach | None = None) -> list[Edge]:
    """Return edges with names for numbers; passages stay keys."""
    asked = np.array(sorted(nodes), np.int64)
    view = graph.view(reach or seen())
    found = view.edges(asked)
    sources, targets = asked[found.source].tolist(), found.target.tolist()
    names = view.names([*sources, *targets])
    named = [
        (names.get(source, source), names.get(target, target), EdgeType(tie).name)
        for source, target, tie in zip(sources, targets, found.tie.tolist(), strict=True)
    ]
    return sorted(named, key=repr)


def stated(graph: Graph, passages: list[int]) -> list[tuple[object, ...]]:
    """Return statements with names for numbers."""
    view = graph.view(seen())
    found = view.statements(passages)
    names = view.names([*found.subject.tolist(), *found.object.tolist()])
    return sorted(
        (
            passages[place],
            names[subject],
            names[end],
            tuple(found.words[found.bounds[at] : found.bounds[at + 1]].tolist()),
        )
        for at, (place, subject, end) in enumerate(
            zip(found.passage.tolist(), found.subject.tolist(), found.object.tolist(), strict=True)
        )
    )


def all_nodes(space: Space) -> list[int]:
    numbers = [2 * number + 1 for (number,) in space.database.rows("SELECT id FROM graph_nodes")]
    return [*numbers, *(2 * key for (key,) in space.database.rows("SELECT key FROM passages"))]


def around(space: Space, name: str, **reach) -> list[tuple[object, str]]:
    """Return the edges out of an entity."""
    graph, reached = space.index.graph, seen(**reach)
    known = graph.view(reached).named([name])
    return [(target, tie) for _, target, tie in edges_of(graph, known.values(), reached)]
