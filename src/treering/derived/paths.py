"""How the walk came to a passage: the way back along which most of its mass came."""

from collections.abc import Mapping, Sequence

import numpy as np

from treering.derived.association import TIE_WEIGHTS, Association
from treering.ports.graph import EdgeType, GraphView

LONGEST = 6
"""Nodes of a path. Half the mass is lost at every step, so longer ways carry next to nothing."""


def path_to(key: int, association: Association) -> list[int]:
    """Return the nodes from where the walk began to a passage, that passage last.

    From the passage backwards, each step goes to the neighbour that held most mass for it, until one the walk
    began from; a passage that was itself a beginning is reached from another all the same, where there is one.
    """
    path: list[int] = association.view.of_passages(np.array([key], np.int64)).tolist()
    while len(path) < LONGEST:
        before = _heaviest(path, association)
        if before is None:
            break
        path.append(before)
        if before in association.seeds or before in association.begun:
            break
    return path[::-1]


def passages_on(path: Sequence[int], view: GraphView) -> list[int]:
    """Return the keys of the passages among the nodes of a path, in its order."""
    keys = view.passages_of(np.array(path, np.int64))
    found: list[int] = keys[keys >= 0].tolist()
    return found


def tell_path(path: Sequence[int], view: GraphView, *, titles: Mapping[int, str]) -> list[str]:
    """Write a path in names: entities by theirs, passages by the titles given for their keys."""
    keys: list[int] = view.passages_of(np.array(path, np.int64)).tolist()
    names = view.names([node for node, key in zip(path, keys, strict=True) if key < 0])
    return [names.get(node, "") if key < 0 else titles.get(key, "") for node, key in zip(path, keys, strict=True)]


def _heaviest(path: Sequence[int], association: Association) -> int | None:
    edges = association.view.edges(np.array(path[-1:], np.int64))
    told = (edges.tie != EdgeType.PART) & ~np.isin(edges.target, path)
    targets, which = np.unique(edges.target[told], return_inverse=True)
    if not len(targets):
        return None
    weights = np.bincount(which, TIE_WEIGHTS[edges.tie[told]], len(targets)) * association.walk.of(targets)
    best = int(np.argmax(weights))
    return int(targets[best]) if weights[best] > 0 else None
