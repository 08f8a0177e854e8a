"""The port of search by text: words, parts of names, places and days, with filters inside."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from enum import IntEnum
from typing import NamedTuple, Protocol, runtime_checkable

import numpy as np
import numpy.typing as npt

from treering.ports.passages import AskedDays, Reach

MOST_COUNTED = 2_000
"""Passages with a term are only counted up to this number; beyond it, the term is treated as common."""


@dataclass(frozen=True, slots=True)
class TextQuery:
    """A prepared text query (`retrieval.text.analysis`).

    `words` are terms of the word index. `identifiers` are names as typed, folded, for the index of parts of names.
    `phrases` are the quoted phrases, each as consecutive terms of the word index. `emphasis` are words that count
    twice: the title of a long text, or repeated words.
    """

    words: tuple[str, ...] = ()
    identifiers: tuple[str, ...] = ()
    phrases: tuple[str, ...] = ()
    emphasis: tuple[str, ...] = ()


class Scored(NamedTuple):
    """A passage key and its raw score in one arm; higher is better."""

    key: int
    score: float


@dataclass(frozen=True, slots=True)
class NamePart:
    """A name to look for inside others. If the term `whole` occurs in current passages, the name is skipped."""

    name: str
    whole: str = ""


@dataclass(frozen=True, slots=True)
class TextRequest:
    """One search by text. Empty fields are not searched."""

    reach: Reach
    limit: int
    """The limit of each ranking except the one by days."""
    words: tuple[str, ...] = ()
    """Terms, and phrases of several terms separated by spaces; any of them matches.

    A repeated term counts twice.
    """
    names: tuple[NamePart, ...] = ()
    place: str = ""
    """An object id, segment id, origin, title or heading, or the end of one."""
    days: tuple[AskedDays, ...] = ()
    days_limit: int = 2_000
    counted: tuple[str, ...] = ()
    """Terms whose number of current passages in the scopes of the reach is requested, regardless of filters."""
    words_in: str = ""
    """A role of places (`retrieval.index.code_places`) whose passages are also ranked separately by the same words."""


@dataclass(frozen=True, slots=True)
class TextFound:
    """The results of one search by text, best first."""

    words: Sequence[Scored] = ()
    """By BM25 over the words."""
    names: Sequence[Scored] = ()
    """By BM25 over parts of names."""
    places: Sequence[Scored] = ()
    """By the share of an id, origin, title or heading that matches, from 0 to 1."""
    days: Sequence[Scored] = ()
    """Turns from the requested days or about them; then the newest.

    A period that overlaps only partly counts in proportion; the best period counts.
    """
    counts: Mapping[str, int] = field(default_factory=dict)
    """By requested term that occurs: the number of passages with it, at most `MOST_COUNTED`."""
    passages: int = 0
    """The number of passages in which terms were counted, at most `MOST_COUNTED`; 0 if none were to be counted."""
    words_in: Sequence[Scored] = ()
    """The results for `words` only in places of the requested role; the scores are comparable with those in `words`."""


class TextSearch(Protocol):
    """Search by text in one space."""

    def search(self, requests: Sequence[TextRequest]) -> Sequence[TextFound]:
        """Search for several requests, in one round trip; the answers are in their order."""
        ...


Vector = npt.NDArray[np.float32]


@dataclass(frozen=True, slots=True, eq=False)
class NearRequest:
    """Vectors to compare (`float32[dimension]`, unit length).

    Finds the `limits[i]` passages nearest to `vectors[i]`, and also compares `keys`. `quick[i]` is the vector of the
    quick model for `vectors[i]`, if some passages have only that model's vector; `vectors` is empty if all have.
    """

    reach: Reach
    vectors: tuple[Vector, ...]
    limits: tuple[int, ...]
    keys: tuple[int, ...] = ()
    quick: tuple[Vector, ...] = ()


@dataclass(frozen=True, slots=True)
class Near:
    """The passages that are nearest to any of the vectors, and exact cosines."""

    found: frozenset[int]
    cosines: Sequence[Mapping[int, float]]
    """By vector: the cosine of each passage in `found` or in the requested keys that has a vector."""
    quick: Sequence[Mapping[int, float]] = ()
    """By vector of the quick model: the cosines of passages that only have a vector of that model."""


@dataclass(frozen=True, slots=True)
class Lag:
    """The number of live passages that are not embedded yet, of how many.

    `behind`: the number of objects or changes that the index does not contain yet, because it is being rebuilt or is
    behind in another database (`ports.index.Behind`). Their passages are in neither of the two numbers. `quick`: how
    many of the pending ones have a vector of the quick model. `exact`: whether the numbers are counted; otherwise they
    are upper bounds for a part of the space, and `behind` is at most 1.
    """

    pending: int
    total: int
    behind: int = 0
    quick: int = 0
    exact: bool = True

    @property
    def without(self) -> int:
        """Count the passages that have no vector at all."""
        return self.pending - self.quick


@dataclass(frozen=True, slots=True)
class Pending:
    """A text that waits to be embedded, by content hash."""

    text_hash: str
    text: str


class Vectors(Protocol):
    """The vectors of one model for one space; vectors of different models are never mixed."""

    def search(self, requests: Sequence[NearRequest]) -> Sequence[Near]:
        """Compare for several requests, in one round trip; the answers are in their order."""
        ...

    def lag(self) -> Lag:
        """Return how far embedding is behind."""
        ...

    def pending(self, limit: int) -> Sequence[Pending]:
        """Return texts without a vector, most useful first (`index.projection.priority_of`)."""
        ...

    def add(self, vectors: Mapping[str, Vector]) -> None:
        """Store vectors by content hash, durably; a text is never embedded twice.

        Raises `InvalidInput` for a vector of another dimension.
        """
        ...


@runtime_checkable
class ChosenPending(Protocol):
    """An optional ability of vectors: they return which texts of some passages are pending, to embed those first."""

    def pending_of(self, keys: Sequence[int]) -> Sequence[Pending]:
        """Return the texts of some passages, by key, that are not embedded yet."""
        ...


@runtime_checkable
class KeptVectors(Protocol):
    """An optional ability of an index: it returns its stored vectors, so that another one need not compute them."""

    def known(self, text_hashes: Sequence[str]) -> Mapping[str, Vector]:
        """Return the vectors of this model for those texts, by content hash, that have one."""
        ...


class VectorClaims(Protocol):
    """Share pending texts among any number of processes, each text with one of them.

    A claim ends with `Vectors.add` of its text, with `give_back`, or if it is not renewed: texts claimed by a process
    that died become free when their time is over. `owner` is new for every run.
    """

    def claim(self, owner: str, limit: int, *, seconds: float) -> Sequence[Pending]:
        """Claim at most this many unclaimed texts for this many seconds; return them.

        Never waits. The order is that of `Vectors.pending`.
        """
        ...

    def renew(self, owner: str, *, seconds: float) -> None:
        """Extend the claims of `owner` to this many seconds from now."""
        ...

    def give_back(self, owner: str) -> None:
        """Release the unfinished claims of `owner`."""
        ...

    def claimed_by_others(self, owner: str) -> int:
        """Count the texts claimed by other owners."""
        ...


Nodes = npt.NDArray[np.int64]
"""Node numbers of a view: passages, entities and objects.

They are not negative, and may be sparse; a walk renumbers the nodes it visits.
"""


class EdgeType(IntEnum):
    """The reason for an edge."""

    MENTION = 0
    """A passage mentions an entity."""
    TITLE = 1
    """A passage's source has this title."""
    FACT = 2
    """A passage states a relation between two entities."""
    FORM = 3
    """A name and its plain form (without accents, endings, order of words), which near-equal names share."""
    PART = 4
    """A passage is part of an object."""
    LINK = 5
    """An object refers to another."""


@dataclass(frozen=True, slots=True)
class Edges:
    """Edges out of some nodes, unordered: `int64[m]` each, but `tie` `uint8[m]`.

    `source` indexes the requested nodes; `target` is a node number. Two passages with the same statement give two
    edges.
    """

    source: npt.NDArray[np.int64]
    target: Nodes
    tie: npt.NDArray[np.uint8]


@dataclass(frozen=True, slots=True)
class Statements:
    """The statements of some passages.

    `passage` indexes the requested passages; `subject` and `object` are nodes: `int64[m]`. The words of statement i
    (see `retrieval.index.ties.word_code`) are `words[bounds[i]:bounds[i + 1]]`, `uint16`.
    """

    passage: npt.NDArray[np.int64]
    subject: Nodes
    object: Nodes
    bounds: npt.NDArray[np.int64]
    words: npt.NDArray[np.uint16]


class GraphView(Protocol):
    """The graph for one read: its state when the view was created, limited to visible passages.

    A walk is local: it costs no round trip. A remote store caches its graph in memory, and updates it when a view is
    created. Names and statements, of which a search needs few, may be read when they are requested.
    """

    def of_passages(self, keys: npt.NDArray[np.int64]) -> Nodes:
        """Return the nodes of passages, by key."""
        ...

    def passages_of(self, nodes: Nodes) -> npt.NDArray[np.int64]:
        """Return the keys of the passages of nodes, -1 for nodes without one."""
        ...

    def named(self, keys: Sequence[str]) -> Mapping[str, int]:
        """Return the nodes of the known entity keys (`retrieval.extraction.names.entity_key`)."""
        ...

    def names(self, nodes: Sequence[int]) -> Mapping[int, str]:
        """Return the keys of entities, the ids of objects."""
        ...

    def edges(self, nodes: Nodes) -> Edges:
        """Return all edges out of some nodes that come from passages in reach (by scope, ignoring filters)."""
        ...

    def degrees(self, nodes: Nodes) -> npt.NDArray[np.int64]:
        """Count the edges that `edges` would return for each node."""
        ...

    def statements(self, passages: Sequence[int]) -> Statements:
        """Return the statements of passages, by passage key."""
        ...


class Graph(Protocol):
    """The graph of current knowledge in one space. It reveals nothing that the caller may not see."""

    def view(self, reach: Reach) -> GraphView:
        """Return the graph as a read at the scope of `reach` may walk it, in one round trip."""
        ...
