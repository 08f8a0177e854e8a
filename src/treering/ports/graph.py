"""The port of the entity graph: which passages speak of what, and what they say is related."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from enum import IntEnum
from typing import Protocol

import numpy as np
import numpy.typing as npt

from treering.ports.reach import Reach

Nodes = npt.NDArray[np.int64]
"""Node numbers, as the view that gave them counts them: passages, entities and objects.

Not negative. They may be far apart: a walk gives the nodes it meets numbers of its own.
"""


class EdgeType(IntEnum):
    """Why two nodes are tied."""

    MENTION = 0
    """A passage speaks of an entity."""
    TITLE = 1
    """A passage's source is called so."""
    FACT = 2
    """A passage states something of two entities."""
    FORM = 3
    """A name and its plain form (without accents, endings, order of words), which near-equal names share."""
    PART = 4
    """A passage is part of an object."""
    LINK = 5
    """An object refers to another."""


@dataclass(frozen=True, slots=True)
class Edges:
    """Edges out of some nodes, in no order: `int64[m]` each, but `tie` `uint8[m]`.

    `source` indexes the nodes that were asked for; `target` is a node number. Two passages that state the same
    give two edges.
    """

    source: npt.NDArray[np.int64]
    target: Nodes
    tie: npt.NDArray[np.uint8]


@dataclass(frozen=True, slots=True)
class Statements:
    """What some passages state.

    `passage` indexes the passages that were asked for; `subject` and `object` are nodes: `int64[m]`. The words of
    statement i (see `derived.ties.word_code`) are `words[bounds[i]:bounds[i + 1]]`, `uint16`.
    """

    passage: npt.NDArray[np.int64]
    subject: Nodes
    object: Nodes
    bounds: npt.NDArray[np.int64]
    words: npt.NDArray[np.uint16]


class GraphView(Protocol):
    """The graph as one read may walk it: as it stood when the view was made, and what its passages vouch for.

    A view is near: asking it costs no round trip. A store elsewhere keeps its graph in memory, and brings it up to
    date when a view is made.
    """

    def of_passages(self, keys: npt.NDArray[np.int64]) -> Nodes:
        """Return the nodes of passages, by key."""
        ...

    def passages_of(self, nodes: Nodes) -> npt.NDArray[np.int64]:
        """Return the keys of the passages that nodes stand for, -1 for nodes that stand for none."""
        ...

    def named(self, keys: Sequence[str]) -> Mapping[str, int]:
        """Return the nodes of those of the entity keys (`derived.extraction.names.entity_key`) that are known."""
        ...

    def names(self, nodes: Sequence[int]) -> Mapping[int, str]:
        """Return the keys of entities, the ids of objects."""
        ...

    def edges(self, nodes: Nodes) -> Edges:
        """Return all edges out of some nodes that passages in reach (by scope; filters apart) vouch for."""
        ...

    def degrees(self, nodes: Nodes) -> npt.NDArray[np.int64]:
        """Count the edges that `edges` would give for each node."""
        ...

    def statements(self, passages: Sequence[int]) -> Statements:
        """Return what passages state, by passage key."""
        ...


class Graph(Protocol):
    """The graph of what is current in one space. Nothing of it shows what the asker may not see."""

    def view(self, reach: Reach) -> GraphView:
        """Return the graph as a read at the scope of `reach` may walk it, in one round trip."""
        ...
