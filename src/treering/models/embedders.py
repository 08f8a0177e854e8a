"""Embedding models from outside: a function that a host gives, or any provider through pydantic-ai (extra `llm`)."""

from __future__ import annotations

import weakref
from asyncio import wait_for
from collections.abc import Callable, Sequence
from contextlib import nullcontext
from importlib.util import find_spec
from typing import TYPE_CHECKING, Protocol

import numpy as np

from treering.core.errors import InvalidInput, MissingExtra, TreeringError, Unavailable
from treering.models.language_models import ENDPOINT, EXTRA, TIMEOUT_SECONDS, endpoint_provider, provider_with_key
from treering.models.provider_calls import ModelLoop, missing_setting, translating
from treering.ports.models import Embedder, Vector

if TYPE_CHECKING:
    from pydantic_ai.embeddings import EmbeddingModel

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


# Embedding models of any provider, through pydantic-ai. Needs the extra `llm`; imported when one is opened.


BATCH = 64
"""Texts in one request."""

LONGEST_CHARS = 8_000
"""Characters of a text that are sent: about 2,000 tokens, which every hosted model takes."""

_HINT = (
    "Write PROVIDER:MODEL, such as openai:text-embedding-3-small, and set the provider's key; for an "
    "OpenAI-compatible endpoint give the model's own name and the URL."
)


def open_embedder(name: str, *, base_url: str | None = None, api_key: str | None = None) -> Embedder:
    """Open an embedding model. It is asked for a few texts at once, which tell its dimension and how it spreads them.

    `name`, `base_url` and `api_key` are as for `open_model`. From then on, what is stored and what is asked is sent to
    its provider, without secrets that were redacted. Raises what `open_model` raises, and `Unavailable` where the
    provider does not answer.
    """
    if find_spec("pydantic_ai") is None:
        raise MissingExtra(EXTRA, needed_for="An embedding model of a provider")
    from pydantic_ai.exceptions import UserError

    try:
        model = _endpoint(name, base_url, api_key) if base_url else _inferred(name, api_key)
    except (UserError, ValueError) as error:
        said = missing_setting(error, api_key)
        raise InvalidInput(f"The embedding model {name!r} cannot be opened. {said}", hint=_HINT) from None
    except ImportError as error:
        what = f"The embedding model {name!r} needs a package that is not installed."
        raise InvalidInput(what, hint=str(error)) from error
    return PydanticAIEmbedder(model, secret=api_key)


class PydanticAIEmbedder:
    """An `Embedder` over an embedding model of pydantic-ai. May be used from any thread.

    A provider may compute a text a little differently beside others; the same text is sent once and kept.
    """

    def __init__(self, model: EmbeddingModel, *, secret: str | None = None) -> None:
        self._model = model
        self._secret = secret
        self._loop = ModelLoop(nullcontext())
        weakref.finalize(self, self._loop.close)
        self.unrelated_below, self.dimension = unrelated_below(self._asked)

    @property
    def model_id(self) -> str:
        """Name the model: `provider:name:dimension`."""
        return f"{self._model.system}:{self._model.model_name}:{self.dimension}"

    def embed_documents(self, texts: Sequence[str]) -> Vector:
        """Embed stored texts: `float32[n, dim]`, unit length, in the order given. Raises as `open_embedder` does."""
        return self._asked(texts, query=False)

    def embed_query(self, text: str) -> Vector:
        """Embed what somebody asks: `float32[dim]`, unit length. Raises as `open_embedder` does."""
        (vector,) = self._asked([text], query=True)
        return np.asarray(vector, np.float32)

    def _asked(self, texts: Sequence[str], *, query: bool) -> Vector:
        prepared = [_prepared(text) for text in texts]
        rows = [row for at in range(0, len(prepared), BATCH) for row in self._batch(prepared[at : at + BATCH], query)]
        if not rows:
            return np.empty((0, self.dimension), np.float32)
        return unit_vectors(rows, count=len(prepared), model=str(self._model.model_name))

    def _batch(self, texts: Sequence[str], query: bool) -> Sequence[Sequence[float]]:
        name = f"{self._model.system}:{self._model.model_name}"
        asked = self._model.embed(list(texts), input_type="query" if query else "document")
        try:
            with translating(name, self._secret):
                found = self._loop.run(wait_for(asked, TIMEOUT_SECONDS))
        except TimeoutError:
            raise Unavailable(f"{name} did not answer in time.", hint="Try again later.") from None
        if len(found.embeddings) != len(texts):
            problem = f"{len(found.embeddings)} vectors for {len(texts)} texts"
            raise Unavailable(
                f"{self._model.model_name} answered with {problem}.", hint="Check that the URL is that of its API."
            )
        return found.embeddings


def _prepared(text: str) -> str:
    # A lone surrogate, as undecodable file names hold, is not a valid request.
    return text[:LONGEST_CHARS].encode("utf-8", "replace").decode() or _EMPTY


def _inferred(name: str, api_key: str | None) -> EmbeddingModel:
    from pydantic_ai.embeddings import infer_embedding_model

    if api_key is None:
        return infer_embedding_model(name)
    return infer_embedding_model(name, provider_factory=lambda provider: provider_with_key(provider, api_key))


def _endpoint(name: str, base_url: str, api_key: str | None) -> EmbeddingModel:
    from pydantic_ai.embeddings.openai import OpenAIEmbeddingModel

    return OpenAIEmbeddingModel(name, provider=endpoint_provider(ENDPOINT, name, base_url, api_key))
