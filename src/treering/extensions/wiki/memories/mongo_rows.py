"""Documents of the collection: their fields, conversion to memories, and query conditions."""

import json
import re
from collections.abc import Mapping, Sequence
from datetime import UTC, datetime
from typing import Any
from uuid import UUID

import numpy as np
from bson.binary import Binary, BinaryVectorDtype

from treering.core.canonical import digest
from treering.extensions.wiki.memories.wiki_memory import (
    AGENT,
    BRANCH,
    FILES,
    GENERATION,
    REPOSITORY,
    TYPE,
    KeptWikiMemory,
    WikiMemoryDraft,
    WikiRepository,
    fields_of,
    memory_with,
)
from treering.ports.models import Embedder, Vector
from treering.ports.runtime import Clock

Row = dict[str, Any]
Condition = dict[str, Any]

STATUS = "status"
CONTENT, EMBEDDING, EMBEDDED = "content", "embedding", "embedding_metadata"
KEY, CREATED, UPDATED = "idempotency_key", "created_at", "updated_at"
MODEL, DIMENSION = "model", "dimension"
FILTERS = (REPOSITORY, TYPE, BRANCH, GENERATION, AGENT, STATUS)
"""The fields used as filters in search indexes."""
ACTIVE, WITHDRAWN = "active", "withdrawn"

_VECTOR_HEADER = 2
"""Bytes before the numbers of a BSON vector: data type and padding."""


def new_row(
    repository: WikiRepository,
    draft: WikiMemoryDraft,
    generation: str,
    key: str | None,
    embedder: Embedder,
    clock: Clock,
) -> Row:
    """Return the document of a memory. The idempotency key is removed when the memory is withdrawn."""
    vector, now = embedder.embed_documents([draft.content])[0], clock.now()
    row = {
        "_id": str(UUID(bytes=clock.random_bytes(16), version=4)),
        **fields_of(repository, draft, generation),
        BRANCH: repository.branch or "",
        CONTENT: draft.content,
        EMBEDDING: Binary.from_vector(vector.tolist(), BinaryVectorDtype.FLOAT32),
        EMBEDDED: {MODEL: embedder.model_id, DIMENSION: len(vector)},
        STATUS: ACTIVE,
        CREATED: now,
        UPDATED: now,
    }
    return row if key is None else {**row, KEY: key}


def key_of(repository: WikiRepository, generation: str, key: str | None) -> str | None:
    """Return the stored form of an idempotency key, unique by repository, branch and generation."""
    parts = [repository.repository_id, repository.branch or "", generation, key]
    return digest(json.dumps(parts)) if key else None


def memory_of(row: Mapping[str, Any], score: float | None = None) -> KeptWikiMemory:
    """Return the memory of a document."""
    times = _in_utc(row[CREATED]), _in_utc(row[UPDATED])
    return memory_with(str(row["_id"]), str(row.get(CONTENT, "")), row, dict(row.get(EMBEDDED) or {}), times, score)


def vector_of(row: Mapping[str, Any], *, model: str, dimension: int) -> Vector | None:
    """Return the vector of a document, or `None` if it has none or one of another model."""
    embedded = row.get(EMBEDDED) or {}
    if not isinstance(embedded, Mapping) or embedded.get(MODEL) != model:
        return None
    match row.get(EMBEDDING):
        case bytes() as packed if len(packed) == _VECTOR_HEADER + 4 * dimension:
            return np.frombuffer(packed, "<f4", offset=_VECTOR_HEADER)
        case list() as numbers if len(numbers) == dimension:
            return np.asarray(numbers, np.float32)
        case _:
            return None


def seen(repository: WikiRepository, generations: Mapping[str, str]) -> Condition:
    """Return the condition for visible memories. `generations`: the visible generation of each branch, or ""."""
    apart = [{BRANCH: branch, GENERATION: generation} for branch, generation in generations.items()]
    where: Condition = {REPOSITORY: repository.repository_id, STATUS: ACTIVE}
    return {**where, **apart[0]} if len(apart) == 1 else {**where, "$or": apart}


def owned(repository: WikiRepository) -> Condition:
    """Return the condition for all memories of a repository, branch or generation."""
    named = {REPOSITORY: repository.repository_id, BRANCH: repository.branch, GENERATION: repository.generation}
    return {name: value for name, value in named.items() if value is not None}


def about(paths: Sequence[str]) -> Condition:
    """Return the condition for memories about some files or folders."""
    below: list[Condition] = [{FILES: {"$regex": f"^{re.escape(path)}/"}} for path in paths]
    return {"$or": [{FILES: {"$in": list(paths)}}, *below]}


def _in_utc(time: datetime) -> datetime:
    return time if time.tzinfo else time.replace(tzinfo=UTC)
