"""Documents of the collection: their fields, which of them a repository sees, and what they say."""

import json
import re
from collections.abc import Mapping, Sequence
from datetime import UTC, datetime
from typing import Any

import numpy as np
from bson.binary import Binary, BinaryVectorDtype

from treering.core.canonical import digest
from treering.memories.wiki_memory import KeptWikiMemory, WikiMemoryDraft, WikiRepository
from treering.ports.embedder import Vector

Row = dict[str, Any]
Condition = dict[str, Any]

REPOSITORY, BRANCH, GENERATION, STATUS = "repository_id", "branch", "generation", "status"
TYPE, AGENT, FILES = "memory_type", "source_agent", "file_paths"
CONTENT, EMBEDDING, EMBEDDED = "content", "embedding", "embedding_metadata"
KEY, CREATED, UPDATED = "idempotency_key", "created_at", "updated_at"
MODEL, DIMENSION = "model", "dimension"
FILTERS = (REPOSITORY, TYPE, BRANCH, GENERATION, AGENT, STATUS)
"""What searches narrow by, inside an index."""
ACTIVE, WITHDRAWN = "active", "withdrawn"

_VECTOR_HEADER = 2
"""Bytes in front of the numbers of a BSON vector: their type and a padding."""


def new_row(
    identity: str,
    repository: WikiRepository,
    draft: WikiMemoryDraft,
    *,
    content: str,
    generation: str,
    vector: Vector,
    model: str,
    key: str | None,
    now: datetime,
) -> Row:
    """Return the document of a memory. A key is kept as long as the memory stands."""
    row = {
        "_id": identity,
        REPOSITORY: repository.repository_id,
        BRANCH: repository.branch or "",
        "commit": repository.commit,
        GENERATION: generation,
        TYPE: draft.memory_type.value,
        CONTENT: content,
        EMBEDDING: Binary.from_vector(vector.tolist(), BinaryVectorDtype.FLOAT32),
        AGENT: draft.source_agent,
        FILES: list(draft.file_paths),
        "related_pages": list(draft.related_pages),
        EMBEDDED: {MODEL: model, DIMENSION: len(vector)},
        STATUS: ACTIVE,
        CREATED: now,
        UPDATED: now,
    }
    return row if key is None else {**row, KEY: key}


def key_of(repository: WikiRepository, generation: str, key: str | None) -> str | None:
    """Return what an idempotency key is kept as: apart by repository, branch and generation."""
    told = [repository.repository_id, repository.branch or "", generation, key]
    return digest(json.dumps(told)) if key else None


def memory_of(row: Mapping[str, Any], score: float | None = None) -> KeptWikiMemory:
    """Return what a document says."""
    return KeptWikiMemory(
        id=str(row["_id"]),
        repository_id=str(row.get(REPOSITORY, "")),
        memory_type=str(row.get(TYPE, "")),
        content=str(row.get(CONTENT, "")),
        source_agent=str(row.get(AGENT, "")),
        file_paths=tuple(row.get(FILES) or ()),
        related_pages=tuple(row.get("related_pages") or ()),
        embedding_metadata=dict(row.get(EMBEDDED) or {}),
        created_at=_in_utc(row[CREATED]),
        updated_at=_in_utc(row[UPDATED]),
        score=score,
    )


def vector_of(row: Mapping[str, Any], *, model: str, dimension: int) -> Vector | None:
    """Return the vector of a document; `None` where it is of another model, or none."""
    made_by = row.get(EMBEDDED) or {}
    if not isinstance(made_by, Mapping) or made_by.get(MODEL) != model:
        return None
    match row.get(EMBEDDING):
        case bytes() as packed if len(packed) == _VECTOR_HEADER + 4 * dimension:
            return np.frombuffer(packed, "<f4", offset=_VECTOR_HEADER)
        case list() as numbers if len(numbers) == dimension:
            return np.asarray(numbers, np.float32)
        case _:
            return None


def seen(repository: WikiRepository, generations: Mapping[str, str]) -> Condition:
    """Return the condition for what a repository sees: its branch and what holds for all, each in its generation.

    `generations`: by branch, the generation that is seen; a branch without one has the empty text.
    """
    branches = dict.fromkeys((repository.branch or "", ""))
    apart = [{BRANCH: branch, GENERATION: generations.get(branch, "")} for branch in branches]
    where: Condition = {REPOSITORY: repository.repository_id, STATUS: ACTIVE}
    return {**where, **apart[0]} if len(apart) == 1 else {**where, "$or": apart}


def owned(repository: WikiRepository) -> Condition:
    """Return the condition for all that a repository, branch or generation owns."""
    named = {REPOSITORY: repository.repository_id, BRANCH: repository.branch, GENERATION: repository.generation}
    return {name: value for name, value in named.items() if value is not None}


def about(paths: Sequence[str]) -> Condition:
    """Return the condition for memories about any of some files, or files below one of them."""
    below: list[Condition] = [{FILES: {"$regex": f"^{re.escape(path)}/"}} for path in paths]
    return {"$or": [{FILES: {"$in": list(paths)}}, *below]}


def _in_utc(time: datetime) -> datetime:
    return time if time.tzinfo else time.replace(tzinfo=UTC)
