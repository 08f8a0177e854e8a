"""Google ADK: a memory service over a space."""

from collections.abc import Mapping, Sequence
from typing import Any

from google.adk.events import Event
from google.adk.memory import BaseMemoryService
from google.adk.memory.base_memory_service import SearchMemoryResponse
from google.adk.memory.memory_entry import MemoryEntry
from google.adk.sessions import Session
from google.genai.types import Content

from treering.core.arguments import check_count
from treering.core.canonical import canonical_json, digest
from treering.extensions.client.blocking import MOST_RETRIEVED
from treering.extensions.client.items.documents import ROLE, USER
from treering.frameworks.client import AnyClient, KeyedText, TextCollection, blocking, in_thread

_HOME = "google-adk"
_REASON = "Memories of Google ADK"
_PERSON = "user"


class TreeringMemoryService(BaseMemoryService):
    """A memory service: `Runner(…, memory_service=TreeringMemoryService(client))`.

    Every user of every app has separate memories. They belong to the user of the client if it has one, otherwise to the
    user that ADK names; `client.retrieve` of another user does not find them. Sessions may be added repeatedly: an
    event is stored once, by its id, and a deleted one is not restored.
    """

    def __init__(self, client: AnyClient, *, top_k: int = 10) -> None:
        self._client = blocking(client)
        check_count(top_k, name="top_k", most=MOST_RETRIEVED)
        self._top_k = top_k

    async def add_session_to_memory(self, session: Session) -> None:
        """Store the messages of a session."""
        await self.add_events_to_memory(
            app_name=session.app_name, user_id=session.user_id, events=session.events, session_id=session.id
        )

    async def add_events_to_memory(
        self,
        *,
        app_name: str,
        user_id: str,
        events: Sequence[Event],
        session_id: str | None = None,
        custom_metadata: Mapping[str, object] | None = None,
    ) -> None:
        """Store the messages of some events."""
        own = {
            **(custom_metadata or {}),
            "memory_type": "message",
            "session_id": session_id,
            USER: self._owner(user_id),
        }
        texts = [
            _keyed_text(event.id, event.content, event.author, {**own, "timestamp": event.timestamp})
            for event in events
            if event.content
        ]
        await in_thread(lambda: self._texts(app_name, user_id).keep(texts))

    async def add_memory(
        self,
        *,
        app_name: str,
        user_id: str,
        memories: Sequence[MemoryEntry],
        custom_metadata: Mapping[str, object] | None = None,
    ) -> None:
        """Store memories unchanged."""
        texts = [
            _keyed_text(
                memory.id or digest(canonical_json(memory.content.model_dump(mode="json"))),
                memory.content,
                memory.author,
                {
                    **memory.custom_metadata,
                    **(custom_metadata or {}),
                    "timestamp": memory.timestamp,
                    USER: self._owner(user_id),
                },
            )
            for memory in memories
        ]
        await in_thread(lambda: self._texts(app_name, user_id).keep(texts))

    async def search_memory(self, *, app_name: str, user_id: str, query: str) -> SearchMemoryResponse:
        """Return the best matches for a query."""
        found = await in_thread(lambda: self._texts(app_name, user_id).search(query, self._top_k))
        memories = [
            MemoryEntry(
                id=one.key,
                content=Content.model_validate(one.value["content"]),
                author=one.value["author"],
                timestamp=str(one.metadata["timestamp"]),
            )
            for one in found
        ]
        return SearchMemoryResponse(memories=memories)

    async def delete_memory(self, *, app_name: str, user_id: str, memory_id: str | None = None) -> None:
        """Withdraw a memory by its id from `search_memory`."""
        if memory_id is not None:
            await in_thread(lambda: self._texts(app_name, user_id).forget([memory_id]))

    def _owner(self, user_id: str) -> str:
        return self._client.user_id or user_id

    def _texts(self, app_name: str, user_id: str) -> TextCollection:
        return TextCollection(self._client, (_HOME, app_name, user_id), reason=_REASON)


def _keyed_text(key: str, content: Content, author: str | None, metadata: Mapping[str, Any]) -> KeyedText:
    text = "\n".join(part.text for part in content.parts or [] if part.text and not part.thought)
    told = {name: value for name, value in {ROLE: _role(content, author), **metadata}.items() if value is not None}
    kept = content.model_dump(mode="json", exclude_none=True)
    return KeyedText(key, text, value={"content": kept, "author": author}, metadata=told)


def _role(content: Content, author: str | None) -> str | None:
    """Return the role of a content; without one, of its author: the user, or the name of an agent."""
    return content.role or ("model" if author and author != _PERSON else author)
