"""Shared code of adapters: the client, threads for its work, and recalled text as data."""

import asyncio
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, TypeVar

from treering.core.arguments import check_type
from treering.core.fencing import fence
from treering.extensions.client.blocking import BlockingMemoryClient
from treering.extensions.client.client import MemorySystemClient
from treering.extensions.client.items.documents import MemoryItem
from treering.extensions.client.record_names import KeptRecord, RecordCollection, RecordDraft
from treering.extensions.client.records import searchable
from treering.verbs.engine import retry_on_conflict

AnyClient = MemorySystemClient | BlockingMemoryClient
_Answer = TypeVar("_Answer")
_MAKE_A_CLIENT = "Create one with treering.client.MemorySystemClient(config)."


def blocking(client: AnyClient) -> BlockingMemoryClient:
    """Return the blocking form of a client. Raises `InvalidInput` for anything else."""
    if isinstance(client, MemorySystemClient):
        return client.sync
    check_type(client, BlockingMemoryClient, name="client", expected="a memory client", hint=_MAKE_A_CLIENT)
    return client


def origins_of(client: BlockingMemoryClient, collection: RecordCollection, key: str) -> list[str]:
    """Return the origins that a record, or the records below a key, may have: of the client's user, and of no user."""
    return [collection.origin(key, user_id=user) for user in dict.fromkeys((client.user_id, None))]


async def in_thread(work: Callable[[], _Answer]) -> _Answer:
    """Do blocking work in a thread, off the event loop."""
    return await asyncio.to_thread(work)


def recalled_text(memories: Iterable[MemoryItem]) -> str:
    """Return memories as data for a model, each in a fence; nothing for none."""
    return "\n".join(map(fenced_memory, memories))


def fenced_memory(memory: MemoryItem) -> str:
    """Return a memory as data for a model, with its day, and a mark if it was replaced."""
    mark = f" [{memory.mark}]" if memory.mark else ""
    return fence(f"[{memory.timestamp:%Y-%m-%d}] {memory.content}{mark}", origin=memory.id)


def fenced_texts(texts: Iterable[tuple[str, str]]) -> str:
    """Return texts with their origins as data for a model, each in a fence."""
    return "\n".join(fence(text, origin=origin) for origin, text in texts)


def content_text(content: object) -> str:
    """Return the text of a message's content, which is a text or a list of parts, some of which have one."""
    if isinstance(content, str):
        return content
    parts = content if isinstance(content, list) else []
    texts = [part.get("text") for part in parts if isinstance(part, Mapping)]
    return "\n".join(text for text in texts if isinstance(text, str))


# Texts under keys of their own, for frameworks that hand over the same message more than once.


@dataclass(frozen=True, slots=True)
class KeyedText:
    """A text and its key: the same message always has the same key. `value`: the value for the framework."""

    key: str
    text: str
    value: Mapping[str, Any] = field(default_factory=dict)
    metadata: Mapping[str, Any] = field(default_factory=dict)


class TextCollection:
    """The texts of one collection. Repeated texts are stored once, and forgotten ones stay forgotten."""

    def __init__(self, client: AnyClient, path: Sequence[str], *, reason: str) -> None:
        self._client = blocking(client)
        self._collection = RecordCollection(tuple(path))
        self._reason = reason

    def keep(self, texts: Sequence[KeyedText]) -> None:
        """Store the texts with new keys in one patch, except recalled text."""
        said = {text.key: text for text in texts if searchable(text.text).strip()}
        if said and self._client.config.enabled:
            retry_on_conflict(lambda: self._keep(said))

    def search(self, query: str, limit: int) -> list[KeptRecord]:
        """Return the best matching texts for a query, without chance matches."""
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
