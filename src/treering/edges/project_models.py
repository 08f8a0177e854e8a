"""The models of project memory, by name: a language model that reads and answers, and an embedding model."""

from dataclasses import dataclass

from treering.edges.settings import Settings
from treering.ports.embedder import Embedder
from treering.ports.model import LanguageModel


@dataclass(frozen=True, slots=True)
class ProjectModels:
    """Which models project memory uses; an empty name is none, or the built-in embedder.

    With a URL, a name is that of a model behind an OpenAI-compatible endpoint; else it is `PROVIDER:MODEL`.
    """

    llm_model_name: str = ""
    llm_base_url: str = ""
    embedding_model_name: str = ""
    embedding_base_url: str = ""

    @classmethod
    def of(cls, settings: Settings) -> "ProjectModels":
        """Return those the environment names."""
        return cls(
            llm_model_name=settings.memory_llm_model,
            llm_base_url=settings.memory_llm_base_url,
            embedding_model_name=settings.memory_embedding_model,
            embedding_base_url=settings.memory_embedding_base_url,
        )

    def open_model(self) -> LanguageModel | None:
        """Open the language model, where one is named. Nothing is sent until it is asked. Raises as `open_model`."""
        if not self.llm_model_name:
            return None
        from treering.edges.models.pydantic_ai import open_model

        return open_model(_named(self.llm_model_name, self.llm_base_url), base_url=self.llm_base_url or None)

    def open_embedder(self) -> Embedder | None:
        """Open the embedding model, where one is named; it is asked at once. Raises as `open_embedder`."""
        if not self.embedding_model_name:
            return None
        from treering.edges.models.pydantic_ai_embedder import open_embedder

        name = _named(self.embedding_model_name, self.embedding_base_url)
        return open_embedder(name, base_url=self.embedding_base_url or None)


def _named(name: str, base_url: str) -> str:
    """Return `PROVIDER:MODEL`; a plain name without a URL, such as `gpt-4o-mini`, is a model of OpenAI's."""
    return name if base_url or ":" in name else f"openai:{name}"
