"""The collection as a Beanie document class, for programs that read and write it directly."""

from datetime import UTC, datetime
from typing import Any, ClassVar
from uuid import UUID, uuid4

import numpy as np
from beanie import Document
from bson.binary import Binary
from pydantic import Field, field_validator
from pymongo import IndexModel

from treering.extensions.wiki.memories.mongo_indexes import INDEXES
from treering.extensions.wiki.memories.mongo_rows import ACTIVE
from treering.extensions.wiki.memories.mongo_store import COLLECTION
from treering.extensions.wiki.memories.wiki_memory import MOST_CHARS, WikiMemoryType, WikiRepository


def _now() -> datetime:
    return datetime.now(UTC)


class WikiMemory(Document):
    """A memory of a wiki agent as stored by `MongoWikiMemories`. Register it with `init_beanie`.

    `embedding` is read as a list of numbers, whatever its stored form. A vector set by a program is searched if
    `embedding_metadata` names the `model` of the store; otherwise the memory is found by its words.
    """

    id: str = Field(default_factory=lambda: str(uuid4()))  # type: ignore[assignment]  # Beanie's own ids are ObjectIds
    repository_id: str
    """UUIDs are normalized, so that every spelling is the same repository."""
    branch: str = ""
    commit: str | None = None
    generation: str = ""
    memory_type: WikiMemoryType
    content: str = Field(max_length=MOST_CHARS)
    embedding: list[float] = Field(default_factory=list)
    source_agent: str
    file_paths: list[str] = Field(default_factory=list)
    related_pages: list[str] = Field(default_factory=list)
    embedding_metadata: dict[str, Any] = Field(default_factory=dict)
    status: str = ACTIVE
    created_at: datetime = Field(default_factory=_now)
    updated_at: datetime = Field(default_factory=_now)

    @field_validator("repository_id", mode="before")
    @classmethod
    def _in_one_spelling(cls, given: str | UUID) -> str:
        return WikiRepository.of(given).repository_id

    @field_validator("embedding", mode="before")
    @classmethod
    def _as_numbers(cls, given: Any) -> Any:
        return np.asarray(given.as_vector().data).tolist() if isinstance(given, Binary) else given

    class Settings:
        """Settings for Beanie."""

        name = COLLECTION
        indexes: ClassVar[list[IndexModel]] = list(INDEXES)
