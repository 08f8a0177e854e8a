"""The indexes of the collection: those every server has, and those of a search node, where there is one."""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any, Literal

from pymongo import IndexModel
from pymongo.errors import OperationFailure
from pymongo.operations import SearchIndexModel

from treering.edges.mongo_memories.rows import AGENT, CONTENT, EMBEDDING, FILES, FILTERS, KEY, REPOSITORY, TYPE, UPDATED

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
