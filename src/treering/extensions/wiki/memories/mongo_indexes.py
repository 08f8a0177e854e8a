"""The regular and search indexes of the collection."""

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from typing import Any, Literal

from pymongo import IndexModel
from pymongo.errors import OperationFailure
from pymongo.operations import SearchIndexModel

from treering.extensions.wiki.memories.mongo_rows import CONTENT, EMBEDDING, FILTERS, KEY, UPDATED
from treering.extensions.wiki.memories.wiki_memory import (
    AGENT,
    FILES,
    REPOSITORY,
    TYPE,
)

State = Literal["ready", "building", "failed", "other", "missing", "not offered"]
"""`other`: the index exists but is not usable, because fields are missing or the dimension differs."""

_NO_SEARCH_NODE = frozenset({59, 115, 31082, 40324, 6047401})
"""Error codes of servers without search indexes: unknown command or stage, not configured."""

INDEXES = (
    IndexModel([(REPOSITORY, 1)]),
    IndexModel([(REPOSITORY, 1), (TYPE, 1)]),
    IndexModel([(REPOSITORY, 1), (FILES, 1)]),
    IndexModel([(REPOSITORY, 1), (UPDATED, -1)]),
    IndexModel([(KEY, 1)], unique=True, sparse=True),
)


@dataclass(frozen=True, slots=True)
class SearchIndexes:
    """The names of the search indexes, and the dimension of the vectors."""

    vectors: str
    texts: str
    dimension: int

    def models(self) -> Mapping[str, SearchIndexModel]:
        """Return the definition of each index."""
        filters = [{"type": "filter", "path": name} for name in FILTERS]
        vector = {"type": "vector", "path": EMBEDDING, "numDimensions": self.dimension, "similarity": "cosine"}
        fields = {CONTENT: {"type": "string"}, **{name: {"type": "token"} for name in FILTERS}}
        texts = {"mappings": {"dynamic": False, "fields": fields}}
        return {
            self.vectors: SearchIndexModel({"fields": [vector, *filters]}, self.vectors, "vectorSearch"),
            self.texts: SearchIndexModel(texts, self.texts, "search"),
        }

    def states(self, collection: Any) -> Mapping[str, State]:
        """Return the state of each index on the server."""
        try:
            indexes = {str(one.get("name")): one for one in collection.list_search_indexes()}
        except OperationFailure as error:
            if is_no_search_node(error):
                return dict.fromkeys((self.vectors, self.texts), "not offered")
            raise
        return {
            self.vectors: _state(indexes.get(self.vectors), self._finds_vectors),
            self.texts: _state(indexes.get(self.texts), _finds_texts),
        }

    def _finds_vectors(self, definition: Mapping[str, Any]) -> bool:
        fields = {str(one.get("path")): one for one in definition.get("fields", ()) if isinstance(one, Mapping)}
        vector = fields.get(EMBEDDING, {})
        fits = (vector.get("numDimensions"), vector.get("similarity")) == (self.dimension, "cosine")
        return fits and all(fields.get(name, {}).get("type") == "filter" for name in FILTERS)


def is_no_search_node(error: OperationFailure) -> bool:
    """Return whether a server failed because it has no search node."""
    return error.code in _NO_SEARCH_NODE


def vector_stage(index: str, vector: list[float], where: Mapping[str, Any], limit: int) -> dict[str, Any]:
    """Return the stage that finds the nearest documents to a vector that match a condition."""
    search = {
        "index": index,
        "path": EMBEDDING,
        "queryVector": vector,
        "numCandidates": min(10 * limit, 10_000),
        "limit": limit,
        "filter": _filter(where),
    }
    return {"$vectorSearch": search}


def text_stage(index: str, query: str, where: Mapping[str, Any]) -> dict[str, Any]:
    """Return the stage that finds documents with words of a query that match a condition."""
    text = {"text": {"query": query, "path": CONTENT}}
    return {"$search": {"index": index, "compound": {"must": [text], "filter": list(_clauses(where))}}}


def _filter(where: Mapping[str, Any]) -> dict[str, Any]:
    """Convert a condition to the form of `$vectorSearch`, with explicit operators."""
    parts: list[dict[str, Any]] = [
        {"$or": [_filter(one) for one in value]} if name == "$or" else {name: {"$eq": value}}
        for name, value in where.items()
    ]
    return {"$and": parts}


def _clauses(where: Mapping[str, Any]) -> Iterator[dict[str, Any]]:
    """Convert a condition to clauses of `$search`."""
    for name, value in where.items():
        if name == "$or":
            either = [{"compound": {"filter": list(_clauses(one))}} for one in value]
            yield {"compound": {"should": either, "minimumShouldMatch": 1}}
        else:
            yield {"equals": {"path": name, "value": value}}


def _finds_texts(definition: Mapping[str, Any]) -> bool:
    fields = (definition.get("mappings") or {}).get("fields") or {}
    return CONTENT in fields and all(name in fields for name in (*FILTERS, AGENT))


def _state(index: Mapping[str, Any] | None, is_usable: Callable[[Mapping[str, Any]], bool]) -> State:
    if index is None:
        return "missing"
    if str(index.get("status", "")).upper() == "FAILED":
        return "failed"
    if not is_usable(index.get("latestDefinition") or {}):
        return "other"
    return "ready" if index.get("queryable") else "building"
