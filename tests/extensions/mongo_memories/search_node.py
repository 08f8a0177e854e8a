"""A stand-in for the search node of MongoDB, in front of a collection: it answers `$vectorSearch` and `$search`.

No server that runs here has one. It refuses what the documentation of MongoDB says is refused (fields that the index
does not hold, operators that filters do not know, a vector of another dimension, too few candidates), and follows
behind the server: it finds what `follow` has shown it.
"""

from collections.abc import Mapping
from typing import Any

import numpy as np
from pymongo.errors import OperationFailure

_OPERATORS = {"$eq", "$ne", "$gt", "$gte", "$lt", "$lte", "$in", "$nin", "$exists"}
_REFUSED = 8


class SearchNode:
    """A collection with a search node beside it."""

    def __init__(self, collection: Any) -> None:
        self._collection = collection
        self._indexes: dict[str, dict[str, Any]] = {}
        self._known: dict[str, dict[str, Any]] = {}
        self.asked: list[str] = []
        self.is_down = False

    def __getattr__(self, name: str) -> Any:
        return getattr(self._collection, name)

    def list_search_indexes(self) -> list[dict[str, Any]]:
        return list(self._indexes.values())

    def create_search_indexes(self, models: Any) -> list[str]:
        for model in models:
            document = model.document
            self._indexes[document["name"]] = {
                "name": document["name"],
                "type": document["type"],
                "status": "BUILDING",
                "queryable": False,
                "latestDefinition": document["definition"],
            }
        return [model.document["name"] for model in models]

    def follow(self) -> None:
        """Finish the indexes, and show them all documents as they are now."""
        for one in self._indexes.values():
            one.update(status="READY", queryable=True)
        self._known = {row["_id"]: row for row in self._collection.find({})}

    def aggregate(self, pipeline: list[dict[str, Any]]) -> list[dict[str, Any]]:
        stage, *rest = pipeline
        (name,) = stage
        if self.is_down:
            raise OperationFailure("the search node is gone", 8)
        self.asked.append(name)
        found = {"$vectorSearch": self._by_vector, "$search": self._by_words}[name](stage[name])
        for further in rest:
            (operator,) = further
            if operator == "$limit":
                found = found[: further[operator]]
            else:
                ids = {row["_id"] for row in self._collection.find(further["$match"])}
                found = [one for one in found if one in ids]
        now = {row["_id"]: row for row in self._collection.find({"_id": {"$in": found}})}
        return [now[one] for one in found if one in now]

    def _by_vector(self, asked: Mapping[str, Any]) -> list[str]:
        definition = self._indexes[asked["index"]]["latestDefinition"]
        vector = next(one for one in definition["fields"] if one["type"] == "vector")
        filters = {one["path"] for one in definition["fields"] if one["type"] == "filter"}
        if len(asked["queryVector"]) != vector["numDimensions"] or asked["path"] != vector["path"]:
            raise OperationFailure("wrong dimension or path", _REFUSED)
        if not asked["limit"] <= asked["numCandidates"] <= 10_000:
            raise OperationFailure("numCandidates must be at least limit, and at most 10000", _REFUSED)
        _check(asked["filter"], filters)
        sought = np.asarray(asked["queryVector"])
        near = {
            name: float(sought @ np.asarray(row[vector["path"]].as_vector().data))
            for name, row in self._known.items()
            if _holds(asked["filter"], row)
        }
        return sorted(near, key=lambda name: -near[name])[: asked["limit"]]

    def _by_words(self, asked: Mapping[str, Any]) -> list[str]:
        mapped = self._indexes[asked["index"]]["latestDefinition"]["mappings"]["fields"]
        (said,) = asked["compound"]["must"]
        assert mapped[said["text"]["path"]]["type"] == "string"
        words = set(said["text"]["query"].lower().split())
        return [
            name
            for name, row in self._known.items()
            if words & set(row[said["text"]["path"]].lower().split())
            and all(_fits(clause, row, mapped) for clause in asked["compound"]["filter"])
        ]


def _check(where: Mapping[str, Any], filters: set[str]) -> None:
    for name, value in where.items():
        if name in ("$and", "$or", "$nor"):
            for one in value:
                _check(one, filters)
        elif name not in filters:
            raise OperationFailure(f"Path '{name}' needs to be indexed as filter", _REFUSED)
        elif isinstance(value, Mapping) and not set(value) <= _OPERATORS:
            raise OperationFailure("operator not supported", _REFUSED)


def _holds(where: Mapping[str, Any], row: Mapping[str, Any]) -> bool:
    ((name, value),) = where.items()
    if name in ("$and", "$or"):
        return {"$and": all, "$or": any}[name](_holds(one, row) for one in value)
    return row.get(name) == value["$eq"]


def _fits(clause: Mapping[str, Any], row: Mapping[str, Any], mapped: Mapping[str, Any]) -> bool:
    if "equals" in clause:
        path = clause["equals"]["path"]
        assert mapped[path]["type"] == "token"
        return row.get(path) == clause["equals"]["value"]
    inner = clause["compound"]
    if "should" in inner:
        return sum(_fits(one, row, mapped) for one in inner["should"]) >= inner["minimumShouldMatch"]
    return all(_fits(one, row, mapped) for one in inner["filter"])
