"""CrewAI: a storage of its memory over a space."""

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from datetime import datetime
from typing import Any

import numpy as np
from crewai.memory.storage.backend import EmbeddingDimensionMismatchError
from crewai.memory.types import MemoryRecord, ScopeInfo

from treering.extensions.client.items.documents import plain_value
from treering.extensions.client.record_names import RecordCollection, RecordDraft
from treering.extensions.client.records import searchable
from treering.frameworks.client import AnyClient, blocking, in_thread

_HOME = "crewai"
_REASON = "Memories of CrewAI"


class TreeringStorage:
    """A storage for CrewAI: `Memory(storage=TreeringStorage(client), embedder=…)`.

    CrewAI searches with vectors of its own embedder, which are stored with its records and compared exactly.
    `client.retrieve` also finds the texts. Deleted records are withdrawn; with `erase` they are deleted permanently.
    """

    def __init__(self, client: AnyClient, *, space: str = "default", erase: bool = False) -> None:
        self._client = blocking(client)
        self._collection = RecordCollection((_HOME, space))
        self._erase = erase

    def save(self, records: list[MemoryRecord]) -> None:
        """Store records in one patch; a record with the same id is replaced.

        Raises CrewAI's `EmbeddingDimensionMismatchError` if vectors are not as long as the stored ones.
        """
        _check_dimensions(one.embedding for one in [*self._one_stored(), *records])
        self._client.records.keep([self._draft(record) for record in records], reason=_REASON)

    def update(self, record: MemoryRecord) -> None:
        """Replace a record."""
        self.save([record])

    def get_record(self, record_id: str) -> MemoryRecord | None:
        """Return a record, or `None`."""
        found = self._client.records.get([self._collection.name(record_id)])
        return next((MemoryRecord.model_validate(one.value) for one in found.values()), None)

    def search(
        self,
        query_embedding: list[float],
        scope_prefix: str | None = None,
        categories: list[str] | None = None,
        metadata_filter: dict[str, Any] | None = None,
        limit: int = 10,
        min_score: float = 0.0,
    ) -> list[tuple[MemoryRecord, float]]:
        """Return the records whose vectors are nearest, with the cosine of each."""
        there = _passing(self._all(), scope_prefix, categories, metadata_filter)
        _check_dimensions([*(one.embedding for one in there), query_embedding])
        scored = ((one, _cosine(query_embedding, one.embedding)) for one in there if one.embedding)
        return sorted((found for found in scored if found[1] >= min_score), key=lambda found: -found[1])[:limit]

    def delete(
        self,
        scope_prefix: str | None = None,
        categories: list[str] | None = None,
        record_ids: list[str] | None = None,
        older_than: datetime | None = None,
        metadata_filter: dict[str, Any] | None = None,
    ) -> int:
        """Delete the records to which all that is given applies, and return how many there were."""
        names = [
            self._collection.name(one.id)
            for one in _passing(self._all(), scope_prefix, categories, metadata_filter)
            if (record_ids is None or one.id in record_ids) and (older_than is None or one.created_at < older_than)
        ]
        return self._client.records.remove(names, reason=_REASON, erase=self._erase)

    def list_records(self, scope_prefix: str | None = None, limit: int = 200, offset: int = 0) -> list[MemoryRecord]:
        """Return records of a scope, newest first."""
        there = sorted(_passing(self._all(), scope_prefix), key=lambda one: one.created_at, reverse=True)
        return there[offset : offset + limit]

    def get_scope_info(self, scope: str) -> ScopeInfo:
        """Return the contents of a scope."""
        there = self.list_records(scope, limit=1 << 62)
        return ScopeInfo(
            path=scope,
            record_count=len(there),
            categories=sorted({category for one in there for category in one.categories}),
            oldest_record=there[-1].created_at if there else None,
            newest_record=there[0].created_at if there else None,
            child_scopes=self.list_scopes(scope),
        )

    def list_scopes(self, parent: str = "/") -> list[str]:
        """Return the scopes right below one."""
        start = f"{parent.rstrip('/')}/"
        below = (one.scope.removeprefix(start) for one in self._all() if one.scope.startswith(start))
        return sorted({start + rest.split("/")[0] for rest in below if rest})

    def list_categories(self, scope_prefix: str | None = None) -> dict[str, int]:
        """Return how many records each category has."""
        return dict(Counter(category for one in _passing(self._all(), scope_prefix) for category in one.categories))

    def count(self, scope_prefix: str | None = None) -> int:
        """Return how many records a scope has."""
        return len(_passing(self._all(), scope_prefix))

    def reset(self, scope_prefix: str | None = None) -> None:
        """Delete all records of a scope."""
        self.delete(scope_prefix)

    async def asave(self, records: list[MemoryRecord]) -> None:
        """Store records."""
        await in_thread(lambda: self.save(records))

    async def asearch(self, query_embedding: list[float], **wanted: Any) -> list[tuple[MemoryRecord, float]]:
        """Return the records whose vectors are nearest."""
        return await in_thread(lambda: self.search(query_embedding, **wanted))

    async def adelete(self, **wanted: Any) -> int:
        """Delete the records to which all that is given applies."""
        return await in_thread(lambda: self.delete(**wanted))

    def _all(self) -> list[MemoryRecord]:
        return [MemoryRecord.model_validate(one.value) for one in self._client.records.all_of(self._collection)]

    def _one_stored(self) -> list[MemoryRecord]:
        record = self._client.records.last_of(self._collection, "")
        return [MemoryRecord.model_validate(record.value)] if record else []

    def _draft(self, record: MemoryRecord) -> RecordDraft:
        value = plain_value({**record.model_dump(mode="json"), "embedding": record.embedding})
        metadata = {"memory_type": "knowledge", "importance": record.importance, "tags": record.categories}
        return RecordDraft(self._collection.name(record.id), value, searchable(record.content), metadata)


def _passing(
    records: Iterable[MemoryRecord],
    scope: str | None,
    categories: Sequence[str] | None = None,
    metadata: Mapping[str, Any] | None = None,
) -> list[MemoryRecord]:
    below = (scope or "/").rstrip("/")
    return [
        one
        for one in records
        if (one.scope.rstrip("/") == below or one.scope.startswith(f"{below}/"))
        and (not categories or set(categories) & set(one.categories))
        and all(one.metadata.get(key) == value for key, value in (metadata or {}).items())
    ]


def _check_dimensions(embeddings: Iterable[list[float] | None]) -> None:
    first, *others = dict.fromkeys(len(one) for one in embeddings if one) or [0]
    for other in others:
        raise EmbeddingDimensionMismatchError(first, other)


def _cosine(first: Sequence[float], second: Sequence[float]) -> float:
    one, other = np.asarray(first, float), np.asarray(second, float)
    length = float(np.linalg.norm(one) * np.linalg.norm(other))
    return float(one @ other) / length if length else 0.0
