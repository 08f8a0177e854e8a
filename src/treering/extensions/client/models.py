"""The models of a memory client: the embedder and reranker that its configuration names or the host passes."""

from dataclasses import replace
from importlib.util import find_spec
from typing import TypeGuard, cast

from treering.core.errors import InvalidInput, MissingExtra
from treering.extensions.client.config import BUILT_IN_DIMENSION, BUILT_IN_MODEL, BUILT_IN_MODELS, MemoryConfig
from treering.extensions.client.items.weighing import NO_RERANKER
from treering.extensions.client.place import GivenEmbedder, warn_ignored
from treering.extensions.encoder.embedders import EmbeddingFunction, FunctionEmbedder
from treering.extensions.encoder.onnx import SCHEME
from treering.ports.models import Embedder, Reranker
from treering.spaces.wiring import EMBEDDERS, embedder_named, reranker_named
from treering.system.settings import Settings

_KEY = "memory.vector_store.embedding_model"
_SENTENCE = "sentence-transformers"
"""The package that runs models of Hugging Face here, whether they embed or rerank."""
_OWN = f"Or pass the client an `embedder`: an Embedder, or a function of texts; or name {BUILT_IN_MODEL!r}."


def check_embedder(config: MemoryConfig, given: GivenEmbedder | None) -> None:
    """Raise `InvalidInput` or `MissingExtra` for a model that is missing, or of another dimension. Opens nothing."""
    name = config.vector_store.embedding_model
    if _is_embedder(given):
        _check_dimension(config, given)
    elif given is None and name in BUILT_IN_MODELS:
        _check_index(config, BUILT_IN_DIMENSION)
    elif given is None and not (name in EMBEDDERS or name.startswith(SCHEME)):
        _check_package(name)


def embedder_of(config: MemoryConfig, given: GivenEmbedder | None, settings: Settings) -> Embedder | None:
    """Return the embedder to use, `None` for the built-in one. Raises what opening a model raises."""
    name = config.vector_store.embedding_model
    if given is None and name in BUILT_IN_MODELS:
        return None
    if given is None:
        embedder = embedder_named(_with_scheme(name), replace(settings, embedder_url=""))
    elif _is_embedder(given):
        embedder = given
    else:
        function = cast("EmbeddingFunction", given)
        embedder = FunctionEmbedder(function, _function_name(function) if name in BUILT_IN_MODELS else name)
    _check_dimension(config, embedder)
    return embedder


def reranker_of(config: MemoryConfig, given: Reranker | None, settings: Settings) -> tuple[Reranker | None, str]:
    """Return the reranker to use, and the reason if it is not the configured one."""
    name = config.retrieval.reranking_model
    if given is not None or name is None:
        return given, NO_RERANKER
    of_hugging_face = ":" not in name and "/" in name
    try:
        return reranker_named(f"{_SENTENCE}:{name}" if of_hugging_face else name, settings.threads), NO_RERANKER
    except (InvalidInput, MissingExtra) as error:
        warn_ignored(f"retrieval.reranking_model {name!r}", error.message)
        return None, error.message


def _is_embedder(given: GivenEmbedder | None) -> TypeGuard[Embedder]:
    return hasattr(given, "embed_documents")


def _function_name(function: object) -> str:
    return f"{getattr(function, '__module__', '')}.{getattr(function, '__qualname__', type(function).__qualname__)}"


def _with_scheme(name: str) -> str:
    """Return the name of a model for `embedder_named`; sentence transformers of Hugging Face run here."""
    return f"{_SENTENCE}:{name}" if name.startswith(f"{_SENTENCE}/") else name


def _check_package(name: str) -> None:
    if name.startswith((f"{_SENTENCE}/", f"{_SENTENCE}:")):
        if find_spec("sentence_transformers") is None:
            raise InvalidInput(
                f"{_KEY}: {name!r} is not built in.", hint=f"Run: pip install 'treering[llm]' {_SENTENCE}. {_OWN}"
            )
    elif ":" not in name:
        raise InvalidInput(
            f"{_KEY}: {name!r} is not built in.",
            hint=f"Use PROVIDER:MODEL, such as openai:text-embedding-3-small. {_OWN}",
        )
    if find_spec("pydantic_ai") is None:
        raise MissingExtra("llm", needed_for=f"{_KEY} {name!r}")


def _check_dimension(config: MemoryConfig, embedder: Embedder) -> None:
    _check_index(config, embedder.dimension)
    section = config.vector_store
    if section.embedding_model in BUILT_IN_MODELS:
        return  # any embedder of the host replaces the built-in model
    if "embedding_dimension" in section.model_fields_set and embedder.dimension != section.embedding_dimension:
        raise InvalidInput(
            f"memory.vector_store.embedding_dimension is {section.embedding_dimension}, but {embedder.model_id} "
            f"has {embedder.dimension}.",
            hint=f"Set it to {embedder.dimension}, omit it, or pass the embedder that matches it.",
        )


def _check_index(config: MemoryConfig, dimension: int) -> None:
    if config.engine != "neo4j":
        return
    try:
        config.neo4j.vector_index.check(dimension)
    except ValueError as error:
        raise InvalidInput(f"memory: {error}", hint="Correct the configuration.") from error
