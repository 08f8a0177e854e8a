"""Embedding models of any provider, through pydantic-ai. Needs the extra `llm`; imported when one is opened."""

from __future__ import annotations

import weakref
from asyncio import wait_for
from collections.abc import Sequence
from contextlib import nullcontext
from importlib.util import find_spec
from typing import TYPE_CHECKING

import numpy as np

from treering.core.errors import InvalidInput, MissingExtra, Unavailable
from treering.models.function_embedder import unit_vectors, unrelated_below
from treering.models.provider_calls import ModelLoop, missing_setting, translating
from treering.models.pydantic_ai import ENDPOINT, EXTRA, TIMEOUT_SECONDS, endpoint_provider, provider_with_key
from treering.ports.models import Embedder, Vector

if TYPE_CHECKING:
    from pydantic_ai.embeddings import EmbeddingModel

BATCH = 64
"""Texts in one request."""

LONGEST_CHARS = 8_000
"""Characters of a text that are sent: about 2,000 tokens, which every hosted model takes."""

_EMPTY = " "  # providers refuse a text without any character
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
