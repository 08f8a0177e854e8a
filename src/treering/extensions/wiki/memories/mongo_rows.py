"""Documents of the collection: their fields, which of them a repository sees, and what they say."""

import json
import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Any, Literal

import numpy as np
from bson.binary import Binary, BinaryVectorDtype
from pymongo import IndexModel
from pymongo.errors import OperationFailure
from pymongo.operations import SearchIndexModel

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
from treering.ports.models import Vector

Row = dict[str, Any]
Condition = dict[str, Any]

STATUS = "status"
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
    generation: str,
    vector: Vector,
    model: str,
    key: str | None,
    now: datetime,
) -> Row:
    """Return the document of a memory. A key is kept as long as the memory stands."""
    row = {
        "_id": identity,
        **fields_of(repository, draft, generation),
        BRANCH: repository.branch or "",
        CONTENT: draft.content,
        EMBEDDING: Binary.from_vector(vector.tolist(), BinaryVectorDtype.FLOAT32),
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
    times = _in_utc(row[CREATED]), _in_utc(row[UPDATED])
    return memory_with(str(row["_id"]), str(row.get(CONTENT, "")), row, dict(row.get(EMBEDDED) or {}), times, score)


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
    """Return the condition for what a repository sees: by branch, the generation that is seen, or the empty text."""
    apart = [{BRANCH: branch, GENERATION: generation} for branch, generation in generations.items()]
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


# The indexes of the collection: those every server has, and those of a search node, where there is one.


State = Literal["ready", "building", "failed", "other", "missing", "not offered"]
"""`other`: there is an index of the name, and searches cannot use it: it lacks fields, or has another dimension."""

_NO_SEARCH_NODE = frozenset({59, 115, 31082, 40324, 6047401})
"""Codes by which servers say that they know no search indexes: unknown commands and stages, not configured."""

INDEXES = (
    IndexModel([(REPOSITORY, 1)]),
    IndexModel([(REPOSITORY, 1), (TYPE, 1)]),
    IndexModel([(REPOSITORY, 1), (FILES, 1)]),
    IndexModel([(REPOSITORY, 1), (UPDATED, -1)]),
    IndexModel([(KEY, 1)], unique=True, sparse=True),
)


@dataclass(frozen=True, slots=True)
class SearchIndexes:
    """The indexes of a search node, by their names, for vectors of one dimension."""

    vectors: str
    texts: str
    dimension: int

    def models(self) -> Mapping[str, SearchIndexModel]:
        """Return how each is made."""
        filters = [{"type": "filter", "path": name} for name in FILTERS]
        vector = {"type": "vector", "path": EMBEDDING, "numDimensions": self.dimension, "similarity": "cosine"}
        fields = {CONTENT: {"type": "string"}, **{name: {"type": "token"} for name in FILTERS}}
        texts = {"mappings": {"dynamic": False, "fields": fields}}
        return {
            self.vectors: SearchIndexModel({"fields": [vector, *filters]}, self.vectors, "vectorSearch"),
            self.texts: SearchIndexModel(texts, self.texts, "search"),
        }

    def states(self, collection: Any) -> Mapping[str, State]:
        """Ask the server how each is."""
        try:
            found = {str(one.get("name")): one for one in collection.list_search_indexes()}
        except OperationFailure as error:
            if is_no_search_node(error):
                return dict.fromkeys((self.vectors, self.texts), "not offered")
            raise
        return {
            self.vectors: _state(found.get(self.vectors), self._finds_vectors),
            self.texts: _state(found.get(self.texts), _finds_texts),
        }

    def _finds_vectors(self, definition: Mapping[str, Any]) -> bool:
        fields = {str(one.get("path")): one for one in definition.get("fields", ()) if isinstance(one, Mapping)}
        vector = fields.get(EMBEDDING, {})
        fits = (vector.get("numDimensions"), vector.get("similarity")) == (self.dimension, "cosine")
        return fits and all(fields.get(name, {}).get("type") == "filter" for name in FILTERS)


def is_no_search_node(error: OperationFailure) -> bool:
    """Tell whether a server refused because it has no search node."""
    return error.code in _NO_SEARCH_NODE


def vector_stage(index: str, vector: list[float], where: Mapping[str, Any], limit: int) -> dict[str, Any]:
    """Return the stage that finds the documents nearest to a vector, among those of a condition."""
    wanted = {
        "index": index,
        "path": EMBEDDING,
        "queryVector": vector,
        "numCandidates": min(10 * limit, 10_000),
        "limit": limit,
        "filter": _filter(where),
    }
    return {"$vectorSearch": wanted}


def text_stage(index: str, query: str, where: Mapping[str, Any]) -> dict[str, Any]:
    """Return the stage that finds documents by the words of a query, among those of a condition."""
    said = {"text": {"query": query, "path": CONTENT}}
    return {"$search": {"index": index, "compound": {"must": [said], "filter": list(_clauses(where))}}}


def _filter(where: Mapping[str, Any]) -> dict[str, Any]:
    """Write a condition on fields as `$vectorSearch` takes it: every operator by its name."""
    parts: list[dict[str, Any]] = [
        {"$or": [_filter(one) for one in value]} if name == "$or" else {name: {"$eq": value}}
        for name, value in where.items()
    ]
    return {"$and": parts}


def _clauses(where: Mapping[str, Any]) -> Iterator[dict[str, Any]]:
    """Write a condition on fields as clauses of `$search`."""
    for name, value in where.items():
        if name == "$or":
            either = [{"compound": {"filter": list(_clauses(one))}} for one in value]
            yield {"compound": {"should": either, "minimumShouldMatch": 1}}
        else:
            yield {"equals": {"path": name, "value": value}}


def _finds_texts(definition: Mapping[str, Any]) -> bool:
    fields = (definition.get("mappings") or {}).get("fields") or {}
    return CONTENT in fields and all(name in fields for name in (*FILTERS, AGENT))


def _state(found: Mapping[str, Any] | None, finds: Any) -> State:
    if found is None:
        return "missing"
    if str(found.get("status", "")).upper() == "FAILED":
        return "failed"
    if not finds(found.get("latestDefinition") or {}):
        return "other"
    return "ready" if found.get("queryable") else "building"
