"""The embedding model of a memory client: the built-in one, one of a provider, or one that the host gives."""

from importlib.util import find_spec
from typing import TypeGuard, cast

from treering.core.errors import InvalidInput, MissingExtra
from treering.edges.models.function_embedder import EmbeddingFunction, FunctionEmbedder
from treering.memories.client.config import BUILT_IN_DIMENSION, BUILT_IN_MODEL, BUILT_IN_MODELS, MemoryConfig
from treering.ports.embedder import Embedder

GivenEmbedder = Embedder | EmbeddingFunction

_KEY = "memory.vector_store.embedding_model"
_SENTENCE = "sentence-transformers"
_OWN = f"Or give the client an `embedder`: an Embedder, or a function of texts; or name {BUILT_IN_MODEL!r}."


def check_embedder(config: MemoryConfig, given: GivenEmbedder | None) -> None:
    """Raise `InvalidInput` or `MissingExtra` for a model that cannot be had, or of another dimension. Opens nothing."""
    wanted = config.vector_store
    if given is None and wanted.embedding_model not in BUILT_IN_MODELS:
        _check_package(wanted.embedding_model)
    if _is_embedder(given):
        _check_dimension(config, given)
    elif given is None and wanted.embedding_model in BUILT_IN_MODELS:
        _check_index(config, BUILT_IN_DIMENSION)


def embedder_of(config: MemoryConfig, given: GivenEmbedder | None) -> Embedder | None:
    """Return the embedder to use, `None` for the built-in one. Raises what opening a model raises."""
    wanted = config.vector_store
    name = wanted.embedding_model
    if given is None and name in BUILT_IN_MODELS:
        return None
    if given is None:
        from treering.edges.models.pydantic_ai_embedder import open_embedder

        embedder = open_embedder(_named(name))
    elif _is_embedder(given):
        embedder = given
    else:
        function = cast("EmbeddingFunction", given)
        embedder = FunctionEmbedder(function, _function_name(function) if name in BUILT_IN_MODELS else name)
    _check_dimension(config, embedder)
    return embedder


def _is_embedder(given: GivenEmbedder | None) -> TypeGuard[Embedder]:
    return hasattr(given, "embed_documents")


def _function_name(function: object) -> str:
    return f"{getattr(function, '__module__', '')}.{getattr(function, '__qualname__', type(function).__qualname__)}"


def _named(name: str) -> str:
    """Return a model as `open_embedder` names it; one of Hugging Face's sentence transformers runs here."""
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
            hint=f"Write PROVIDER:MODEL, such as openai:text-embedding-3-small. {_OWN}",
        )
    if find_spec("pydantic_ai") is None:
        raise MissingExtra("llm", needed_for=f"{_KEY} {name!r}")


def _check_dimension(config: MemoryConfig, embedder: Embedder) -> None:
    _check_index(config, embedder.dimension)
    wanted = config.vector_store
    if wanted.embedding_model in BUILT_IN_MODELS:
        return  # whatever embedder is given stands in its place
    if "embedding_dimension" in wanted.model_fields_set and embedder.dimension != wanted.embedding_dimension:
        raise InvalidInput(
            f"memory.vector_store.embedding_dimension: it is {wanted.embedding_dimension}, "
            f"and {embedder.model_id} has {embedder.dimension}.",
            hint=f"Set it to {embedder.dimension}, leave it out, or give the embedder that has it.",
        )


def _check_index(config: MemoryConfig, dimension: int) -> None:
    if config.engine != "neo4j":
        return
    try:
        config.neo4j.vector_index.check(dimension)
    except ValueError as error:
        raise InvalidInput(f"memory: {error}", hint="Correct the configuration.") from error
