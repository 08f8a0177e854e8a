"""The port of search by text: words, parts of names, places and days, with filters inside."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from enum import IntEnum
from typing import Protocol, runtime_checkable

import numpy as np
import numpy.typing as npt

from treering.ports.passages import AskedDays, Reach

MOST_COUNTED = 2_000
"""Where the passages that have a term are counted, counting ends here: such a term is a common one."""


@dataclass(frozen=True, slots=True)
class TextQuery:
    """What to look for, as `retrieval.text.analysis` prepares it.

    `words` are terms of the word index. `identifiers` are names as typed, folded, for the index of parts of names.
    `phrases` are what stood in double quotes, each as terms of the word index one after the other. `emphasis` are
    terms among the words that count twice: what a long text says in its title, or again and again.
    """

    words: tuple[str, ...] = ()
    identifiers: tuple[str, ...] = ()
    phrases: tuple[str, ...] = ()
    emphasis: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class Scored:
    """A passage key and its raw score in one arm; higher is better."""

    key: int
    score: float


@dataclass(frozen=True, slots=True)
class NamePart:
    """A name to look for inside of others. Where the term `whole` occurs in anything current, it is left out."""

    name: str
    whole: str = ""


@dataclass(frozen=True, slots=True)
class TextRequest:
    """One search by text. What is empty is not looked for."""

    reach: Reach
    limit: int
    """Of each ranking but that by days."""
    words: tuple[str, ...] = ()
    """Terms, and phrases of several terms with a space between each two; any of them is enough.

    One that stands there twice counts twice.
    """
    names: tuple[NamePart, ...] = ()
    place: str = ""
    """An object id, segment id, origin, title or heading, or the end of one."""
    days: tuple[AskedDays, ...] = ()
    days_limit: int = 2_000
    counted: tuple[str, ...] = ()
    """Terms of which is asked how many current passages in the scopes of the reach have them. No filter counts."""
    words_in: str = ""
    """A role of places (`retrieval.index.code_places`) whose passages are ranked by the same words once more, alone."""


@dataclass(frozen=True, slots=True)
class TextFound:
    """What one search by text found, best first."""

    words: Sequence[Scored] = ()
    """By BM25 over the words."""
    names: Sequence[Scored] = ()
    """By BM25 over stretches of names."""
    places: Sequence[Scored] = ()
    """By how much of an id, origin, title or heading it is, from 0 to 1."""
    days: Sequence[Scored] = ()
    """Turns said on days asked for, or that speak of them; then the newest.

    A period that only in part is asked for counts by that part; of several the best counts.
    """
    counts: Mapping[str, int] = field(default_factory=dict)
    """By each of the terms to be counted that occurs: how many passages have it, at most `MOST_COUNTED`."""
    passages: int = 0
    """How many passages those terms were looked for in, at most `MOST_COUNTED`; 0 where none were to be counted."""
    words_in: Sequence[Scored] = ()
    """What `words` are, of places in the role asked for alone; the scores compare with those in `words`."""


class TextSearch(Protocol):
    """Search by text in one space."""

    def search(self, requests: Sequence[TextRequest]) -> Sequence[TextFound]:
        """Search for several requests, in one round trip; the answers are in their order."""
        ...


# The port of search by meaning: vectors of passages, and the queue of texts that wait for one.


Vector = npt.NDArray[np.float32]


@dataclass(frozen=True, slots=True, eq=False)
class NearRequest:
    """What to compare with some vectors (`float32[dimension]`, unit length).

    The `limits[i]` passages nearest to `vectors[i]` are looked for, and `keys` are compared besides. `quick[i]` is what
    `vectors[i]` is to the quick model, where there are passages that have a vector of that model alone; `vectors` is
    empty where all have.
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
    """By vector: the cosine of each passage in `found` or asked for by key that has a vector."""
    quick: Sequence[Mapping[int, float]] = ()
    """By vector of the quick model: the cosines of passages that have a vector of that model alone."""


@dataclass(frozen=True, slots=True)
class Lag:
    """How many live passages wait for their vector, of how many.

    `behind`: how many objects or changes the index does not know yet, because it is being made anew, or lives
    elsewhere and is late (`ports.index.Behind`). Their passages are in neither of the two numbers. `quick`: how many of
    those that wait have a vector of the quick model meanwhile.
    """

    pending: int
    total: int
    behind: int = 0
    quick: int = 0

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
    """The vectors that one model made for one space; what another model made is never mixed with them."""

    def search(self, requests: Sequence[NearRequest]) -> Sequence[Near]:
        """Compare for several requests, in one round trip; the answers are in their order."""
        ...

    def lag(self) -> Lag:
        """Tell how far vectors lag behind."""
        ...

    def pending(self, limit: int) -> Sequence[Pending]:
        """Return texts that wait for a vector, those first that gain most (`index.projection.priority_of`)."""
        ...

    def add(self, vectors: Mapping[str, Vector]) -> None:
        """Keep vectors by content hash, durably; a text never needs embedding twice.

        Raises `InvalidInput` for a vector of another dimension.
        """
        ...


@runtime_checkable
class ChosenPending(Protocol):
    """An ability that vectors may have: they tell which texts of some passages wait, so that these come first."""

    def pending_of(self, keys: Sequence[int]) -> Sequence[Pending]:
        """Return those of the texts of some passages, by key, that wait for a vector."""
        ...


@runtime_checkable
class KeptVectors(Protocol):
    """An ability that an index may have: it gives back the vectors it keeps, so that another one need not make them."""

    def known(self, text_hashes: Sequence[str]) -> Mapping[str, Vector]:
        """Return the vectors of those of the texts, by content hash, that have one of this model."""
        ...


class VectorClaims(Protocol):
    """Shares out the texts that wait for a vector among any number of processes, each text to one of them.

    A claim is given up by `Vectors.add` of its text, by `give_back`, or by not being renewed: what a process that died
    had claimed is anybody's once its time is over. `owner` is new for every run.
    """

    def claim(self, owner: str, limit: int, *, seconds: float) -> Sequence[Pending]:
        """Claim at most so many unclaimed texts for so many seconds; return them.

        Nobody is waited for. The order is that of `Vectors.pending`.
        """
        ...

    def renew(self, owner: str, *, seconds: float) -> None:
        """Keep what `owner` still has claimed for so many seconds from now on."""
        ...

    def give_back(self, owner: str) -> None:
        """Let others have what `owner` has claimed and not done."""
        ...

    def claimed_by_others(self, owner: str) -> int:
        """Count the texts that others are at."""
        ...


# The port of the entity graph: which passages speak of what, and what they say is related.


Nodes = npt.NDArray[np.int64]
"""Node numbers, as the view that gave them counts them: passages, entities and objects.

Not negative. They may be far apart: a walk gives the nodes it meets numbers of its own.
"""


class EdgeType(IntEnum):
    """Why two nodes are tied."""

    MENTION = 0
    """A passage mentions an entity."""
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
    statement i (see `retrieval.index.ties.word_code`) are `words[bounds[i]:bounds[i + 1]]`, `uint16`.
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
        """Return the nodes of those of the entity keys (`retrieval.extraction.names.entity_key`) that are known."""
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
