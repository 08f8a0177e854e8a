"""Texts under keys of their own, for frameworks that hand over the same message more than once."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from treering.edges.frameworks.client import AnyClient, blocking
from treering.memories.client.records.names import KeptRecord, RecordCollection, RecordDraft
from treering.memories.client.records.records import searchable
from treering.tools.retrying import retry_on_conflict

_ATTEMPTS = 20


@dataclass(frozen=True, slots=True)
class KeyedText:
    """A text and its key: a message has the same key whenever it comes. `value`: what the framework gets back."""

    key: str
    text: str
    value: Mapping[str, Any] = field(default_factory=dict)
    metadata: Mapping[str, Any] = field(default_factory=dict)


class TextCollection:
    """The texts of one collection. What comes again is kept once, and what was forgotten stays so."""

    def __init__(self, client: AnyClient, path: Sequence[str], *, reason: str) -> None:
        self._client = blocking(client)
        self._collection = RecordCollection(tuple(path))
        self._reason = reason

    def keep(self, texts: Sequence[KeyedText]) -> None:
        """Keep the texts whose keys were never used, in one patch; what was only recalled is not one."""
        said = {text.key: text for text in texts if searchable(text.text).strip()}
        if said and self._client.config.enabled:
            retry_on_conflict(lambda: self._keep(said), attempts=_ATTEMPTS)

    def search(self, query: str, limit: int) -> list[KeptRecord]:
        """Return the texts that answer a query best; those that cannot be told from chance are left out."""
        if not self._client.config.enabled:
            return []
        least = self._client.config.retrieval.min_similarity
        return self._client.records.search(self._collection, query, limit=limit, min_similarity=least)

    def forget(self, keys: Sequence[str]) -> None:
        """Withdraw texts."""
        names = [self._collection.name(key) for key in keys]
        self._client.records.remove(names, reason=self._reason)

    def _keep(self, texts: Mapping[str, KeyedText]) -> None:
        records = self._client.records
        names = {key: self._collection.name(key) for key in texts}
        used = records.used([*names.values()])
        drafts = [
            RecordDraft(names[key], text.value, searchable(text.text), text.metadata, expected_revision=0)
            for key, text in texts.items()
            if names[key] not in used
        ]
        records.write(drafts, reason=self._reason)
