"""How the walk came to a passage: the way back along which most of its mass came."""

from collections.abc import Sequence

import numpy as np

from treering.derived.association import TIE_WEIGHTS, Association
from treering.ports.graph import EdgeType, Graph
from treering.ports.reach import Reach

LONGEST = 6
"""Nodes of a path. Half the mass is lost at every step, so longer ways carry next to nothing."""


def path_to(key: int, association: Association, *, graph: Graph, reach: Reach) -> list[int]:
    """Return the nodes from where the walk began to a passage, that passage last.

    From the passage backwards, each step goes to the neighbour that held most mass for it, until one the walk
    began from; a passage that was itself a beginning is reached from another all the same, where there is one.
    """
    path = [2 * key]
    while len(path) < LONGEST:
        before = _heaviest(path, association, graph, reach)
        if before is None:
            break
        path.append(before)
        if before in association.seeds or before in association.begun:
            break
    return path[::-1]


def tell_path(path: Sequence[int], *, graph: Graph, titles: dict[int, str]) -> list[str]:
    """Write a path in names: entities by theirs, passages by the titles given for their keys."""
    names = graph.names([node for node in path if node % 2])
    return [names.get(node, "") if node % 2 else titles.get(node // 2, "") for node in path]


def _heaviest(path: Sequence[int], association: Association, graph: Graph, reach: Reach) -> int | None:
    edges = graph.edges(np.array(path[-1:], np.int64), reach=reach)
    told = (edges.tie != EdgeType.PART) & ~np.isin(edges.target, path)
    targets, which = np.unique(edges.target[told], return_inverse=True)
    if not len(targets):
        return None
    weights = np.bincount(which, TIE_WEIGHTS[edges.tie[told]], len(targets)) * association.walk.of(targets)
    best = int(np.argmax(weights))
    return int(targets[best]) if weights[best] > 0 else None
