"""Microsoft Agent Framework: a provider of context, and one of history, over a space."""

from collections.abc import Sequence
from typing import Any

from agent_framework import AgentSession, ContextProvider, HistoryProvider, Message, SessionContext, SupportsAgentRun

from treering.core.arguments import check_count
from treering.core.canonical import canonical_json, digest
from treering.extensions.client.blocking import MOST_RETRIEVED
from treering.extensions.client.record_names import RecordCollection
from treering.extensions.client.records import RecordEntry, RecordLog
from treering.frameworks.client import AnyClient, KeyedText, TextCollection, blocking, fenced_texts, in_thread

_HOME = "agent-framework"
_REASON = "Memories of Microsoft Agent Framework"


class TreeringContextProvider(ContextProvider):
    """Recall memories for the last message before a run, and store the messages after it.

    `Agent(…, context_providers=[TreeringContextProvider(client, "ann")])`. `space`: the owner of the memories, such as
    a user. Recalled memories are added as data in a user message.
    """

    def __init__(
        self, client: AnyClient, space: str = "default", *, top_k: int = 5, source_id: str = "treering"
    ) -> None:
        super().__init__(source_id)
        self._texts = TextCollection(client, (_HOME, "context", space), reason=_REASON)
        check_count(top_k, name="top_k", most=MOST_RETRIEVED)
        self._top_k = top_k

    async def before_run(
        self, *, agent: SupportsAgentRun, session: AgentSession, context: SessionContext, state: dict[str, Any]
    ) -> None:
        """Add memories to the context."""
        asked = next((one.text for one in reversed(context.input_messages) if one.role == "user"), "")
        found = await in_thread(lambda: self._texts.search(asked, self._top_k))
        if found:
            text = fenced_texts((one.id, one.text) for one in found)
            context.extend_messages(self, [Message(role="user", contents=[text])])

    async def after_run(
        self, *, agent: SupportsAgentRun, session: AgentSession, context: SessionContext, state: dict[str, Any]
    ) -> None:
        """Store the messages of the user and the agent."""
        number = state["runs"] = state.get("runs", 0) + 1
        said = [*context.input_messages, *(context.response.messages if context.response else [])]
        texts = [
            KeyedText(
                digest(canonical_json([session.session_id, number, place, message.text])),
                message.text,
                metadata={"memory_type": "message", "role": str(message.role), "session_id": session.session_id},
            )
            for place, message in enumerate(said)
        ]
        await in_thread(lambda: self._texts.keep(texts))


class TreeringHistoryProvider(HistoryProvider):
    """Store the messages of sessions word for word, except secrets."""

    def __init__(self, client: AnyClient, source_id: str = "treering-history", **options: Any) -> None:
        super().__init__(source_id, **options)
        self._client = blocking(client)

    async def get_messages(
        self, session_id: str | None, *, state: dict[str, Any] | None = None, **kwargs: Any
    ) -> list[Message]:
        """Return the messages of a session, oldest first."""
        found = await in_thread(lambda: self._log(session_id).entries())
        return [Message.from_dict(dict(one.value)) for one in found]

    async def save_messages(
        self, session_id: str | None, messages: Sequence[Message], *, state: dict[str, Any] | None = None, **kwargs: Any
    ) -> None:
        """Put messages at the end of a session."""
        entries = [RecordEntry(message.to_dict()) for message in messages]
        await in_thread(lambda: self._log(session_id).append(entries, reason=_REASON))

    def _log(self, session_id: str | None) -> RecordLog:
        path = (_HOME, "history", self.source_id, session_id or "default")
        return RecordLog(self._client.records, RecordCollection(path, hidden=True))
