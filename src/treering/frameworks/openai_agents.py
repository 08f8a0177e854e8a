"""OpenAI Agents SDK: sessions whose items lie in a space."""

from collections.abc import Awaitable, Callable, Mapping
from typing import Any, cast

from agents import TResponseInputItem
from agents.memory import SessionABC, SessionSettings
from agents.run import CallModelData, ModelInputData

from treering.core.arguments import check_count
from treering.extensions.client.blocking import MOST_RETRIEVED
from treering.extensions.client.items.documents import TYPE
from treering.extensions.client.record_names import RecordCollection
from treering.extensions.client.records import RecordEntry, RecordLog, searchable
from treering.frameworks.client import AnyClient, blocking, content_text, in_thread, recalled_text

_HOME = "openai-agents"
_REASON = "A session of the OpenAI Agents SDK"
_MESSAGE = "message"


class TreeringSession(SessionABC):
    """A session of the OpenAI Agents SDK: `Runner.run(agent, text, session=TreeringSession("user-1", client))`.

    Items are stored word for word, except redacted secrets. `client.retrieve` finds the messages of users and agents,
    with this `session_id` and without one. `erase`: pop and clear permanently; otherwise removed items are withdrawn
    and stay in the history of the space. Many processes may use one session.
    """

    def __init__(
        self,
        session_id: str,
        client: AnyClient,
        *,
        session_settings: SessionSettings | dict[str, Any] | None = None,
        erase: bool = False,
    ) -> None:
        self.session_id = session_id
        settings = session_settings or SessionSettings()
        self.session_settings = SessionSettings().resolve(settings) if isinstance(settings, dict) else settings
        self._client = blocking(client)
        self._erase = erase

    async def get_items(self, limit: int | None = None) -> list[TResponseInputItem]:
        """Return the items, oldest first; of more than `limit` these last ones."""
        most = self.session_settings.limit if limit is None and self.session_settings else limit
        found = await in_thread(lambda: self._log.entries(most))
        return [_item(record.value) for record in found]

    async def add_items(self, items: list[TResponseInputItem]) -> None:
        """Put items at the end, durably."""
        entries = [self._entry(cast("Mapping[str, Any]", item)) for item in items]
        await in_thread(lambda: self._log.append(entries, reason=_REASON))

    async def pop_item(self) -> TResponseInputItem | None:
        """Remove and return the last item; `None` if there is none."""
        popped = await in_thread(lambda: self._log.pop(reason=_REASON, erase=self._erase))
        return _item(popped.value) if popped else None

    async def clear_session(self) -> None:
        """Take all items away."""
        await in_thread(lambda: self._log.clear(reason=_REASON, erase=self._erase))

    @property
    def _log(self) -> RecordLog:
        return RecordLog(self._client.records, RecordCollection((_HOME,), self.session_id))

    def _entry(self, item: Mapping[str, Any]) -> RecordEntry:
        role = item.get("role")
        return RecordEntry(dict(item), searchable(_text(item)), {TYPE: _MESSAGE, **({"role": role} if role else {})})


def recall_before_model(
    client: AnyClient, *, top_k: int = 5
) -> Callable[[CallModelData[Any]], Awaitable[ModelInputData]]:
    """Return a `call_model_input_filter` that inserts memories before the user's last message, as data.

    Only the model sees them: they do not become items of the session.
    """
    used = blocking(client)
    check_count(top_k, name="top_k", most=MOST_RETRIEVED - 1)  # one more is read

    async def recall(data: CallModelData[Any]) -> ModelInputData:
        given = data.model_data
        asked = [at for at, item in enumerate(given.input) if _role(item) == "user"]
        if not asked:
            return given
        question = _text(cast("Mapping[str, Any]", given.input[asked[-1]]))
        # The session has just stored the question itself.
        found = await in_thread(lambda: used.retrieve(question, top_k + 1))
        text = recalled_text([one for one in found if one.content != question][:top_k])
        if not text:
            return given
        shown = cast("TResponseInputItem", {"role": "user", "content": text})
        return ModelInputData([*given.input[: asked[-1]], shown, *given.input[asked[-1] :]], given.instructions)

    return recall


def _item(value: Mapping[str, Any]) -> TResponseInputItem:
    return cast("TResponseInputItem", dict(value))


def _role(item: Any) -> object:
    return item.get("role") if isinstance(item, Mapping) else None


def _text(item: Mapping[str, Any]) -> str:
    """Return the text of a message, or "" for tool calls and other items."""
    return content_text(item.get("content")) if item.get("role") in {"user", "assistant"} else ""
