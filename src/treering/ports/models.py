"""Ports for models of texts: embedders, rerankers and extractors."""

from collections.abc import Callable, Sequence
from contextlib import suppress
from dataclasses import dataclass
from hashlib import blake2b
from threading import Lock
from typing import Literal, NamedTuple, Protocol
from unicodedata import category
from weakref import ReferenceType, ref

import numpy as np
import numpy.typing as npt

from treering.core.evidence import Triple

Vector = npt.NDArray[np.float32]
"""`float32[dim]`, unit length; or `float32[n, dim]` with rows of unit length."""


class Embedder(Protocol):
    """Embed text into vectors of unit length, so that a dot product is a cosine.

    A vector must depend only on the text and `model_id`, not on other texts in the batch: vectors are cached by
    content, and a rebuilt index must equal one that grew.
    """

    @property
    def model_id(self) -> str:
        """The identity of the vectors: model, quantization, dimension, and version of the text preparation.

        Vectors are comparable if and only if their `model_id` is equal.
        """
        ...

    @property
    def dimension(self) -> int:
        """Length of every vector."""
        ...

    @property
    def unrelated_below(self) -> float:
        """The cosine below which a text without shared words counts as unrelated to a question: -1 to 1.

        It depends on the model: some put all texts close together, others spread them. To find it, embed questions with
        matching and unrelated texts, and choose the cosine that separates the two best.
        """
        ...

    def embed_documents(self, texts: Sequence[str]) -> Vector:
        """Embed stored texts: `float32[n, dim]`, unit length, in the order given. Empty texts are allowed."""
        ...

    def embed_query(self, text: str) -> Vector:
        """Embed a query: `float32[dim]`, unit length."""
        ...


class _QueryVectors:
    """A cache of the vectors of recent questions, by embedder and a hash of the text.

    First in, first out, regardless of use: a host's store finds the text of a question by its vector
    (`extensions.engines.host.QuestionRecorder`), and evicts in the same order.
    """

    def __init__(self) -> None:
        self._vectors: dict[tuple[int, str, bytes], tuple[ReferenceType[Embedder], Vector]] = {}
        self._lock = Lock()

    def of(self, embedder: Embedder, text: str) -> Vector:
        hashed = blake2b(text.encode("utf-8", "surrogatepass"), digest_size=16).digest()
        key = (id(embedder), embedder.model_id, hashed)
        with self._lock:
            known = self._vectors.get(key)
        if known and known[0]() is embedder:
            return known[1]
        vector = embedder.embed_query(text)
        with suppress(TypeError):  # an embedder with slots may not be weakly referenced
            self._add(key, ref(embedder), np.array(vector, np.float32))
        return vector

    def _add(self, key: tuple[int, str, bytes], embedder: "ReferenceType[Embedder]", vector: Vector) -> None:
        vector.flags.writeable = False
        with self._lock:
            self._vectors.pop(key, None)
            self._vectors[key] = (embedder, vector)
            while len(self._vectors) > MOST_QUERIES:
                del self._vectors[next(iter(self._vectors))]


MOST_QUERIES = 256
"""Questions whose vectors are cached: 0.4 MB at 384 dimensions."""

_QUERIES = _QueryVectors()


def query_vector(embedder: Embedder, text: str) -> Vector:
    """Embed a query, or return its vector from the cache of recent queries."""
    return _QUERIES.of(embedder, text)


def prose_share_of(embedder: Embedder) -> float:
    """Return the weight of an embedder's cosines among paragraphs of prose, relative to 1 for the built-in model.

    An embedder with vectors that are less informative for prose has the attribute `prose_share`.
    """
    share: float = getattr(embedder, "prose_share", 1.0)
    return share


def has_meaning_to(embedder: Embedder, text: str) -> bool:
    """Return whether the vector of a text is meaningful: it has words or symbols that the model knows.

    Punctuation alone is meaningless to any model. An embedder with a vocabulary has a method `knows(text)`: texts
    without known words all get nearly the same vector and would count as similar.
    """
    if not any(sign.isalnum() or category(sign) == "So" for sign in text):
        return False
    knows: Callable[[str], bool] | None = getattr(embedder, "knows", None)
    return knows is None or knows(text)


def is_quick(embedder: Embedder) -> bool:
    """Return whether an embedder is cheap enough to embed a text in the transaction that writes it.

    It has the attribute `expected`. Its vectors are used until those of a larger model are ready.
    """
    return hasattr(embedder, "expected")


def expected_of(embedder: Embedder) -> tuple[float, float]:
    """Return the slope and offset from an embedder's cosines to those of a larger model.

    Both cosines are normalized: 0 for texts unrelated to that model, 1 for equal texts.
    """
    expected: tuple[float, float] = getattr(embedder, "expected", (1.0, 0.0))
    return expected


Rarity = Callable[[str], float]
"""Returns the rarity of a word in general text: from 0 for the most common ones to 1 for unknown words."""


def equally_rare(_word: str) -> float:
    """Return 1 for every word, for use without a vocabulary."""
    return 1.0


Scores = npt.NDArray[np.float32]
"""`float32[n]`: one score per text, higher is better, on a scale of the model's own."""


class Reranker(Protocol):
    """Score how well texts answer a question, from both together (a cross-encoder).

    More accurate than comparing vectors, at the cost of one model run per text, so only the best hits are reranked. A
    score must depend only on question, text and `model_id`, not on other texts.
    """

    @property
    def model_id(self) -> str:
        """The identity of the scores."""
        ...

    def score(self, question: str, texts: Sequence[str]) -> Scores:
        """Score each text by how well it answers, in the order given. Empty texts are allowed."""
        ...


Form = Literal["prose", "dialogue", "code", "data"]
EntityKind = Literal["name", "title", "date", "number", "phrase", "speaker", "symbol", "module", "heading"]


@dataclass(frozen=True, slots=True)
class Excerpt:
    """One passage to read.

    `title` is the title of its source, `heading` of the passage (a heading path, a symbol), `speaker` the speaker if it
    is a turn of a conversation.
    """

    text: str
    title: str = ""
    heading: str = ""
    form: Form = "prose"
    speaker: str = ""


@dataclass(frozen=True, slots=True)
class Entity:
    """Something that a text mentions, in its own words.

    `start` and `end` are character offsets in the excerpt's text, end exclusive; both are 0 if the entity comes from
    the title, the heading or the speaker.
    """

    name: str
    kind: EntityKind
    start: int = 0
    end: int = 0


@dataclass(frozen=True, slots=True)
class Extraction:
    """The entities and statements in one excerpt, in order of appearance; an entity may occur more than once."""

    entities: tuple[Entity, ...] = ()
    triples: tuple[Triple, ...] = ()


Statement = tuple[str, str, str]
"""The subject, the relation and the object of a triple."""


class PlainExtraction(NamedTuple):
    """The names of the entities and the statements of an `Extraction`, without places and kinds."""

    names: Sequence[str]
    statements: Sequence[Statement]

    @classmethod
    def of(cls, extraction: Extraction) -> "PlainExtraction":
        """Omit places and kinds."""
        stated = [(one.subject, one.relation, one.object) for one in extraction.triples]
        return cls([one.name for one in extraction.entities], stated)


class Extractor(Protocol):
    """Finds entities and triples.

    A method `extract_plainly(excerpts)` returns them as `PlainExtraction`s, which is faster.
    """

    @property
    def extractor_id(self) -> str:
        """The identity of the extraction: name and version; for a model also its name and the prompt version."""
        ...

    def extract(self, excerpts: Sequence[Excerpt]) -> Sequence[Extraction]:
        """Read excerpts, each by itself; return one extraction for each, in the order given."""
        ...
