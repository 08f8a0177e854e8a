"""An embedding model that a host gives as a function of texts."""

from collections.abc import Callable, Sequence
from typing import Protocol

import numpy as np

from treering.core.errors import TreeringError, Unavailable
from treering.ports.models import Vector

EmbeddingFunction = Callable[[list[str]], Sequence[Sequence[float]]]
"""Returns a vector for each text, in their order; of any length, and of the same dimension always."""

_EMPTY = " "  # some models refuse a text without any character


class FunctionEmbedder:
    """An `Embedder` over a function, which is asked for a few texts at once: they tell how it spreads texts.

    `name` names the model: vectors of the same name and dimension are compared. Raises `Unavailable` for what the
    function raises.
    """

    def __init__(self, embed: EmbeddingFunction, name: str) -> None:
        self._embed = embed
        self._name = name
        self.unrelated_below, self.dimension = unrelated_below(lambda texts, query: self._asked(texts))  # noqa: ARG005

    @property
    def model_id(self) -> str:
        """Name the model and its dimension."""
        return f"{self._name}:{self.dimension}"

    def embed_documents(self, texts: Sequence[str]) -> Vector:
        """Embed stored texts: `float32[n, dim]`, unit length, in the order given."""
        return self._asked(texts) if texts else np.empty((0, self.dimension), np.float32)

    def embed_query(self, text: str) -> Vector:
        """Embed what somebody asks: `float32[dim]`, unit length."""
        return np.asarray(self._asked([text])[0], np.float32)

    def _asked(self, texts: Sequence[str]) -> Vector:
        try:
            rows = self._embed([text.encode("utf-8", "replace").decode() or _EMPTY for text in texts])
        except TreeringError:
            raise
        except Exception as error:
            # A function of a host raises what it likes.
            raise Unavailable(f"The embedding model {self._name} failed: {error!r}", hint="Look at it.") from error
        return unit_vectors(rows, count=len(texts), model=self._name)


# Rows that an embedding model answers with, checked and brought to unit length.


def unit_vectors(rows: Sequence[Sequence[float]], *, count: int, model: str) -> Vector:
    """Return rows as `float32[n, dim]` of unit length. Raises `Unavailable` for what are not `count` directions."""
    try:
        vectors = np.asarray(rows, np.float32)
    except (ValueError, TypeError):
        vectors = np.empty(0, np.float32)
    if vectors.ndim != 2 or len(vectors) != count or not vectors.shape[1]:
        raise Unavailable(
            f"{model} did not answer with {count} vectors of equal length for {count} texts.", hint="Use another model."
        )
    lengths = np.linalg.norm(vectors, axis=1, keepdims=True)
    if not np.isfinite(lengths).all() or not lengths.all():
        raise Unavailable(f"{model} answered with a vector of zeros.", hint="Use another model.")
    unit: Vector = (vectors / lengths).astype(np.float32)
    return unit


# Finding the cosine below which a text says nothing about a question, for an embedding model nobody measured here.


PAIRS = (
    ("When is the cache flushed?", "The cache is emptied before the writer process is forked."),
    ("Who leads the payments team?", "Ada Lovelace has been head of payments since March."),
    ("How do I run the tests?", "Type `make check`; it formats, lints and runs all tests."),
    ("What bread did we bake?", "On Sunday they made a sourdough loaf with rye and caraway."),
    ("Why was the release delayed?", "Shipping moved to June because the signing key had expired."),
    ("Which database do sessions use?", "Sessions are kept in one SQLite file beside the server."),
    ("Where did Maria go on holiday?", "Maria spent two weeks hiking in the Dolomites in August."),
    ("def parse_date(text): what does it return?", "Returns a datetime in UTC, or None where the text names no day."),
    ("Is the API rate limited?", "Each key may send 600 requests per minute; more are answered with 429."),
    ("What did the doctor recommend?", "He was told to sleep more, drink less coffee and walk every day."),
    ("How large may an upload be?", "Files above 25 MB are refused by the gateway."),
    ("What is the capital of Australia?", "Canberra, not Sydney, is where the Australian parliament sits."),
)
"""Questions, each with a text that answers it; with the texts of the other pairs it has nothing to do."""


class Embedding(Protocol):
    """Turns texts into vectors of unit length: `float32[n, dim]`."""

    def __call__(self, texts: list[str], *, query: bool) -> Vector:
        """Embed questions (`query`) or stored texts, in the order given."""
        ...


def unrelated_below(embed: Embedding) -> tuple[float, int]:
    """Return the cosine below which a text says nothing about a question, and the dimension of the vectors.

    It is 3.5 standard deviations above the mean of texts that have nothing to do with a question: one of some
    thousands reaches it by chance. For the built-in model, whose cut was measured on real collections (0.62), this
    gives 0.62.
    """
    questions = embed([question for question, _ in PAIRS], query=True)
    texts = embed([text for _, text in PAIRS], query=False)
    unrelated = (questions @ texts.T)[~np.eye(len(PAIRS), dtype=bool)]
    cut = float(unrelated.mean() + _DEVIATIONS * unrelated.std())
    return min(cut, _HIGHEST), int(questions.shape[1])


_DEVIATIONS = 3.5
_HIGHEST = 0.99
"""A model that puts all texts in one place still has texts that are the question itself."""
