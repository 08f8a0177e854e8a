"""How the walk came to a passage: the way back along which most of its mass came."""

from collections.abc import Mapping, Sequence

import numpy as np

from treering.derived.association import TIE_WEIGHTS, Association
from treering.derived.extraction.forms import plain_form
from treering.ports.graph import EdgeType, GraphView

LONGEST = 6
"""Nodes of a path. Half the mass is lost at every step, so longer ways carry next to nothing."""


class WaysBack:
    """Finds how one walk came to passages. Many ways lead through the same nodes: each is looked at once."""

    def __init__(self, association: Association) -> None:
        """Take what the walk found, and where it began."""
        self.view = association.view
        self._association = association
        self._before: dict[int, list[int]] = {}

    def path_to(self, key: int) -> list[int]:
        """Return the nodes from where the walk began to a passage, that passage last.

        From the passage backwards, each step goes to the neighbour that held most mass for it, until one the walk
        began from; a passage that was itself a beginning is reached from another all the same, where there is one.
        """
        path: list[int] = self.view.of_passages(np.array([key], np.int64)).tolist()
        while len(path) < LONGEST:
            before = next((node for node in self._heaviest(path[-1]) if node not in path), None)
            if before is None:
                break
            path.append(before)
            if before in self._association.seeds or before in self._association.begun:
                break
        return path[::-1]

    def _heaviest(self, node: int) -> list[int]:
        """Return the neighbours that held most mass for a node, as many as a path may have passed already and one."""
        if node not in self._before:
            edges = self.view.edges(np.array([node], np.int64))
            mass = self._association.walk.of(edges.target)
            # A node that much is tied to has many neighbours, of which the walk came to few.
            told = (edges.tie != EdgeType.PART) & (mass > 0)
            targets, which = np.unique(edges.target[told], return_inverse=True)
            weights = np.bincount(which, TIE_WEIGHTS[edges.tie[told]] * mass[told], len(targets))
            first = np.argsort(-weights, kind="stable")[:LONGEST]
            self._before[node] = targets[first[weights[first] > 0]].tolist()
        return self._before[node]


def passages_on(path: Sequence[int], view: GraphView) -> list[int]:
    """Return the keys of the passages among the nodes of a path, in its order."""
    keys = view.passages_of(np.array(path, np.int64))
    found: list[int] = keys[keys >= 0].tolist()
    return found


def tell_path(path: Sequence[int], view: GraphView, *, titles: Mapping[int, str]) -> list[str]:
    """Write a path in names: entities by theirs, passages by the titles given for their keys.

    The plain form of a name ("retri") stands between the names that share it; where one of them is beside it, it says
    nothing more and is left out.
    """
    keys: list[int] = view.passages_of(np.array(path, np.int64)).tolist()
    names = view.names([node for node, key in zip(path, keys, strict=True) if key < 0])
    entities = [names.get(node, "") if key < 0 else "" for node, key in zip(path, keys, strict=True)]
    return [
        titles.get(key, "") if key >= 0 else name
        for at, (key, name) in enumerate(zip(keys, entities, strict=True))
        if key >= 0 or not _is_form_of(name, [*entities[max(at - 1, 0) : at], *entities[at + 1 : at + 2]])
    ]


def _is_form_of(name: str, beside: Sequence[str]) -> bool:
    return any(other and other != name and plain_form(other) == name for other in beside)
