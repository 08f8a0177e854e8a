"""Embedding models: a function of the host, a folder, or any provider through pydantic-ai (extra `llm`)."""

from __future__ import annotations

import json
import unicodedata
import weakref
from abc import ABC, abstractmethod
from asyncio import wait_for
from collections.abc import Callable, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import nullcontext
from importlib.util import find_spec
from pathlib import Path
from typing import TYPE_CHECKING, Any, Protocol

import numpy as np

from treering.core.errors import InvalidInput, MissingExtra, TreeringError, Unavailable
from treering.extensions.encoder.language_models import (
    ENDPOINT,
    EXTRA,
    TIMEOUT_SECONDS,
    endpoint_provider,
    providers,
)
from treering.extensions.encoder.onnx import LONGEST, SCHEME, FolderNetwork, files_in
from treering.extensions.encoder.provider_calls import ModelLoop, opening, translating
from treering.models.shipped import readable
from treering.ports.models import Embedder, Vector

if TYPE_CHECKING:
    from pydantic_ai.embeddings import EmbeddingModel

    from treering.system.settings import Settings

EmbeddingFunction = Callable[[list[str]], Sequence[Sequence[float]]]
"""Returns a vector for each text, in order. Vectors may have any length, and always the same dimension."""

_EMPTY = " "  # some models refuse an empty text


class MeasuredEmbedder(ABC):
    """An `Embedder` that embeds a few texts at the beginning, to measure its dimension and unrelated cosines."""

    unrelated_below: float
    dimension: int
    _name: str

    @property
    def model_id(self) -> str:
        """The name of the model and its dimension."""
        return f"{self._name}:{self.dimension}"

    def _measure(self) -> None:
        self.unrelated_below, self.dimension = unrelated_below(self._embedded)

    def embed_documents(self, texts: Sequence[str]) -> Vector:
        """Embed stored texts: `float32[n, dim]`, unit length, in the order given."""
        return self._embedded(texts, query=False) if texts else np.empty((0, self.dimension), np.float32)

    def embed_query(self, text: str) -> Vector:
        """Embed a question: `float32[dim]`, unit length."""
        return np.asarray(self._embedded([text], query=True)[0], np.float32)

    @abstractmethod
    def _embedded(self, texts: Sequence[str], *, query: bool) -> Vector: ...


class FunctionEmbedder(MeasuredEmbedder):
    """An `Embedder` over a function. It is called at once with a few texts, to measure the cosines of unrelated texts.

    `name` identifies the model: vectors of the same name and dimension are compared. Raises `Unavailable` if the
    function fails.
    """

    def __init__(self, embed: EmbeddingFunction, name: str) -> None:
        self._embed = embed
        self._name = name
        self._measure()

    def _embedded(self, texts: Sequence[str], *, query: bool) -> Vector:  # noqa: ARG002 - one function for both
        try:
            rows = self._embed([text.encode("utf-8", "replace").decode() or _EMPTY for text in texts])
        except TreeringError:
            raise
        except Exception as error:
            # A function of the host may raise anything.
            raise Unavailable(
                f"The embedding model {self._name} failed: {error!r}", hint="Fix the embedding model, then try again."
            ) from error
        return unit_vectors(rows, count=len(texts), model=self._name)


def unit_vectors(rows: Sequence[Sequence[float]], *, count: int, model: str) -> Vector:
    """Return rows as `float32[n, dim]` of unit length. Raises `Unavailable` unless they are `count` nonzero vectors."""
    try:
        vectors = np.asarray(rows, np.float32)
    except (ValueError, TypeError):
        vectors = np.empty(0, np.float32)
    if vectors.ndim != 2 or len(vectors) != count or not vectors.shape[1]:
        raise Unavailable(
            f"{model} did not return {count} vectors of equal length for {count} texts.", hint="Use another model."
        )
    lengths = np.linalg.norm(vectors, axis=1, keepdims=True)
    if not np.isfinite(lengths).all() or not lengths.all():
        raise Unavailable(f"{model} returned a zero vector.", hint="Use another model.")
    unit: Vector = (vectors / lengths).astype(np.float32)
    return unit


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
"""Questions, each with a text that answers it and is unrelated to the other questions."""


class Embedding(Protocol):
    """Turns texts into vectors of unit length: `float32[n, dim]`."""

    def __call__(self, texts: list[str], *, query: bool) -> Vector:
        """Embed questions (`query`) or stored texts, in the order given."""
        ...


def unrelated_below(embed: Embedding) -> tuple[float, int]:
    """Return the cosine below which a text is unrelated to a question, and the dimension of the vectors.

    It is 3.5 standard deviations above the mean of unrelated texts, so that one of some thousands reaches it by chance.
    For the built-in model, this gives 0.62, as measured on real collections.
    """
    questions = embed([question for question, _ in PAIRS], query=True)
    texts = embed([text for _, text in PAIRS], query=False)
    unrelated = (questions @ texts.T)[~np.eye(len(PAIRS), dtype=bool)]
    cut = float(unrelated.mean() + _DEVIATIONS * unrelated.std())
    return min(cut, _HIGHEST), int(questions.shape[1])


_DEVIATIONS = 3.5
_HIGHEST = 0.99
"""An upper bound for models with almost equal vectors for all texts: a question still matches itself."""


_EMBEDDER_HINT = (
    "Give a folder with tokenizer.json and a sentence transformer as ONNX, as created by `optimum-cli export onnx`."
)


def open_folder_embedder(place: str, threads: int = 1) -> FolderEmbedder:
    """Open the embedding model at `onnx:FOLDER`. It embeds a few texts, to measure the cosines of unrelated texts.

    Raises `InvalidInput` if a file is missing or invalid.
    """
    return FolderEmbedder(Path(place.removeprefix(SCHEME)).expanduser(), threads=threads)


class FolderEmbedder(MeasuredEmbedder):
    """Embeds with the network in a folder: a sentence transformer, exported as ONNX.

    If the network returns a vector per token, the first one or the mean is used, as `1_Pooling/config.json` specifies;
    by default the mean. `config_sentence_transformers.json` specifies the prefixes of questions and texts. Texts are
    embedded one by one, as by `BgeSmall`. Thread-safe.
    """

    def __init__(self, folder: Path, *, threads: int = 1) -> None:
        files = files_in(folder, what="embedder", hint=_EMBEDDER_HINT)
        prompts = _config(folder / "config_sentence_transformers.json").get("prompts") or {}
        self._prompts = {role: str(prompts.get(role) or "") for role in ("query", "document")}
        self._first = bool(_config(folder / "1_Pooling" / "config.json").get("pooling_mode_cls_token"))
        self._threads = threads
        self._network = FolderNetwork.read(files, LONGEST, what="embedder", hint=_EMBEDDER_HINT)
        self._name = f"{folder.resolve().name}/{self._network.file.name}:{self._network.digest}"
        self._measure()

    def knows(self, text: str) -> bool:
        """Return whether the model's tokenizer knows at least half of the tokens of a text."""
        encoded = self._network.tokenizer.encode(readable(text, LONGEST), add_special_tokens=False)
        return 2 * sum(map(_is_unknown, encoded.tokens)) <= len(encoded.tokens)

    def _embedded(self, texts: Sequence[str], *, query: bool) -> Vector:
        prompt = self._prompts["query" if query else "document"]
        with ThreadPoolExecutor(self._threads) as pool:
            return np.stack(list(pool.map(lambda text: self._vector(prompt + text), texts)))

    def _vector(self, text: str) -> Vector:
        outputs = self._network.outputs(readable(text, LONGEST))
        vector = next((one[0] for one in outputs if one.ndim == 2), None)
        if vector is None:
            if outputs[0].ndim != 3:
                raise InvalidInput(
                    f"{self._name} returns an array of shape {outputs[0].shape}, not a vector.", hint=_EMBEDDER_HINT
                )
            vector = outputs[0][0, 0] if self._first else outputs[0][0].mean(axis=0)
        length = float(np.linalg.norm(vector))
        unit: Vector = np.asarray(vector / length if length else np.eye(1, len(vector))[0], np.float32)
        return unit


_UNKNOWN = frozenset({"[UNK]", "<unk>"})
"""Tokens for unknown words, in vocabularies of BERT and SentencePiece."""

_SIGNS_THAT_ARE_WORDS = ("CJK", "HIRAGANA", "KATAKANA")


def _is_unknown(token: str) -> bool:
    """Return whether a token represents unknown text, or one foreign letter of a word."""
    sign = token.removeprefix("##").lstrip("▁")
    is_letter = len(sign) == 1 and not sign.isascii() and unicodedata.category(sign)[0] in "LM"
    return token in _UNKNOWN or (is_letter and not unicodedata.name(sign, "").startswith(_SIGNS_THAT_ARE_WORDS))


def _config(file: Path) -> Mapping[str, Any]:
    try:
        content = json.loads(file.read_text(encoding="utf-8"))
    except (OSError, ValueError):
        return {}
    return content if isinstance(content, dict) else {}


BATCH = 64
"""Texts in one request."""

LONGEST_CHARS = 8_000
"""The maximal number of characters that are sent: about 2,000 tokens, which every hosted model accepts."""

_HINT = (
    "Use PROVIDER:MODEL, such as openai:text-embedding-3-small, and set the provider's key; for "
    "an OpenAI-compatible endpoint give the model's own name and the URL."
)


def embedder_named(name: str, settings: Settings) -> Embedder:
    """Open the embedding model of a folder, `onnx:FOLDER`, or of a provider, `PROVIDER:MODEL`."""
    if name.startswith(SCHEME):
        return open_folder_embedder(name, settings.threads)
    return open_embedder(name, base_url=settings.embedder_url or None)


def open_embedder(name: str, *, base_url: str | None = None, api_key: str | None = None) -> Embedder:
    """Open an embedding model of a provider. It is called at once, to measure its dimension and cosines.

    `name`, `base_url` and `api_key` are as for `open_model`. Stored texts and questions are sent to the provider,
    without redacted secrets. Raises the errors of `open_model`, and `Unavailable` if the provider does not answer.
    """
    if find_spec("pydantic_ai") is None:
        raise MissingExtra(EXTRA, needed_for="An embedding model of a provider")
    with opening(f"The embedding model {name!r}", api_key, hint=_HINT):
        model = _endpoint(name, base_url, api_key) if base_url else _inferred(name, api_key)
    return PydanticAIEmbedder(model, secret=api_key)


class PydanticAIEmbedder(MeasuredEmbedder):
    """An `Embedder` over an embedding model of pydantic-ai. Thread-safe.

    A provider may return slightly different vectors for a text in another batch. Each text is therefore sent once, and
    its vector stored.
    """

    def __init__(self, model: EmbeddingModel, *, secret: str | None = None) -> None:
        self._model = model
        self._name = f"{model.system}:{model.model_name}"
        self._secret = secret
        self._loop = ModelLoop(nullcontext())
        weakref.finalize(self, self._loop.close)
        self._measure()

    def _embedded(self, texts: Sequence[str], *, query: bool) -> Vector:
        prepared = [_prepared(text) for text in texts]
        rows = [row for at in range(0, len(prepared), BATCH) for row in self._batch(prepared[at : at + BATCH], query)]
        if not rows:
            return np.empty((0, self.dimension), np.float32)
        return unit_vectors(rows, count=len(prepared), model=str(self._model.model_name))

    def _batch(self, texts: Sequence[str], query: bool) -> Sequence[Sequence[float]]:
        request = self._model.embed(list(texts), input_type="query" if query else "document")
        try:
            with translating(self._name, self._secret):
                result = self._loop.run(wait_for(request, TIMEOUT_SECONDS))
        except TimeoutError:
            raise Unavailable(f"{self._name} did not answer in time.", hint="Try again later.") from None
        if len(result.embeddings) != len(texts):
            problem = f"{len(result.embeddings)} vectors for {len(texts)} texts"
            raise Unavailable(
                f"{self._model.model_name} returned {problem}.", hint="Check that the URL points to its API."
            )
        return result.embeddings


def _prepared(text: str) -> str:
    # A lone surrogate, as in undecodable file names, makes a request invalid.
    return text[:LONGEST_CHARS].encode("utf-8", "replace").decode() or _EMPTY


def _inferred(name: str, api_key: str | None) -> EmbeddingModel:
    from pydantic_ai.embeddings import infer_embedding_model

    return infer_embedding_model(name, provider_factory=providers(api_key))


def _endpoint(name: str, base_url: str, api_key: str | None) -> EmbeddingModel:
    from pydantic_ai.embeddings.openai import OpenAIEmbeddingModel

    return OpenAIEmbeddingModel(name, provider=endpoint_provider(ENDPOINT, name, base_url, api_key))
