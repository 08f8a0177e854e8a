"""Strands Agents: a memory store over a space."""

from typing import Any

from strands.memory import MemoryEntry, MemoryStore
from strands.memory.types import AddMessagesContext, Metadata, SearchOptions
from strands.types.content import Message

from treering.core.canonical import canonical_json, digest
from treering.frameworks.client import AnyClient, KeyedText, TextCollection, in_thread

_HOME = "strands"
_REASON = "Memories of Strands Agents"
_ROLES = ("user", "assistant")


class TreeringMemoryStore(MemoryStore):
    """A store for the `MemoryManager` of Strands: `MemoryManager(stores=[TreeringMemoryStore(client, "ann")])`.

    `space`: the owner of the memories, such as a user or a team. A text added twice is stored once, because Strands may
    repeat a message. `extraction`: whether to also store messages of the conversation, without a model call.
    """

    def __init__(
        self,
        client: AnyClient,
        space: str = "default",
        *,
        name: str = "treering",
        description: str | None = "Memories of earlier conversations.",
        max_search_results: int = 5,
        writable: bool = True,
        extraction: Any = True,
    ) -> None:
        self.name = name
        self.description = description
        self.max_search_results = max_search_results
        self.writable = writable
        self.extraction: Any | None = extraction if writable else None
        self._texts = TextCollection(client, (_HOME, space), reason=_REASON)

    async def search(self, query: str, options: SearchOptions | None = None) -> list[MemoryEntry]:
        """Return the memories that answer a query best."""
        limit = (options or {}).get("max_search_results") or self.max_search_results
        found = await in_thread(lambda: self._texts.search(query, limit))
        return [
            MemoryEntry(one.text, metadata={**one.value, "id": one.id, "score": one.similarity_score}) for one in found
        ]

    async def add(self, content: str, metadata: Metadata | None = None) -> None:
        """Store a text."""
        key = digest(canonical_json([content, str(sorted((metadata or {}).items(), key=str))]))
        kept = KeyedText(key, content, value=dict(metadata or {}), metadata={"memory_type": "knowledge"})
        await in_thread(lambda: self._texts.keep([kept]))

    async def add_messages(self, messages: list[Message], context: AddMessagesContext | None = None) -> None:
        """Store the messages of users and the agent."""
        numbers = (context.sequence_numbers if context else None) or range(len(messages))
        texts = [
            # With the text, because numbers restart with every run.
            KeyedText(digest(canonical_json([number, message["role"], text])), text, metadata=_said_by(message))
            for number, message in zip(numbers, messages, strict=True)
            if message["role"] in _ROLES and (text := _text(message))
        ]
        await in_thread(lambda: self._texts.keep(texts))


def _said_by(message: Message) -> dict[str, Any]:
    return {"memory_type": "message", "role": message["role"]}


def _text(message: Message) -> str:
    return "\n".join(part["text"] for part in message["content"] if "text" in part)
