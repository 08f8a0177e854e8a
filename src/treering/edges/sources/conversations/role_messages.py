"""Messages with a role and a content, as most programs write them: OpenAI's form, DeepSeek, Gemini and the like."""

from collections.abc import Iterable, Sequence

from treering.edges.sources.conversations.conversation import Conversation, ConversationDraft
from treering.edges.sources.conversations.parts import OTHER_PARTS, Said, said, tool_line
from treering.edges.sources.loose_json import Record, first_moment, first_words, listed, record, words
from treering.tools.turns import Message

NOT_SPOKEN = "message(s) of the system or of tools were left out"
"""What a conversation's notes say of messages nobody spoke."""


def claims(found: Record) -> bool:
    """Tell whether an object holds messages."""
    return are_messages(_messages(found))


def are_messages(found: Sequence[object]) -> bool:
    """Tell whether these are messages, and some of them a person's; a few may be of a role unknown here."""
    roles = [_role(record(one)) for one in found]
    known = sum(map(bool, roles)) > _MOST * len(roles)
    return known and "user" in roles and all(isinstance(one, dict) and _has_content(one) for one in found)


def is_message(found: object) -> bool:
    """Tell whether this is one message, whoever's."""
    return bool(_role(record(found))) and _has_content(record(found))


def read(found: Record) -> Conversation:
    """Read a conversation with its messages."""
    draft = _begun(found)
    draft.title = first_words(found, "title", "name")
    take(map(record, _messages(found)), draft)
    return draft.finished()


def of_messages(found: Iterable[Record], identity: str = "") -> Conversation:
    """Read messages that stand by themselves as one conversation."""
    draft = ConversationDraft("messages", id=identity)
    take(found, draft)
    return draft.finished()


def session_of(found: Record) -> str:
    """Return the conversation a message says it belongs to; empty where it says nothing."""
    return first_words(found, "session_id", "sessionId", "conversation_id", "conversationId", "chat_id", "thread_id")


def take(found: Iterable[Record], draft: ConversationDraft) -> None:
    """Add what is said in messages to a conversation."""
    for message in found:
        role = _role(message)
        spoken = _spoken(message) if role in {"user", "assistant"} else Said()
        if role not in {"user", "assistant"}:
            draft.counts[NOT_SPOKEN] += 1
        draft.counts.update({OTHER_PARTS: spoken.other} if spoken.other else {})
        if spoken:
            draft.messages.append(_message(message, role, spoken))


_MOST = 0.6
_HOLDERS = ("messages", "conversation", "conversations")
_CONTENTS = {
    "role": ("content", "text", "parts", "message"),
    "sender": ("text", "content", "message"),
    "author": ("content", "text"),
    "from": ("value", "text"),
    "type": ("content",),
}
"""Which members say who speaks, and with each of them, which say what: a `type` by itself says little."""
_TIMES = ("timestamp", "created_at", "create_time", "createdAt", "time", "date", "inserted_at")
_ROLES = {
    **dict.fromkeys(("user", "human", "you", "prompter"), "user"),
    **dict.fromkeys(("assistant", "model", "gemini", "ai", "bot", "chatgpt", "claude", "gpt"), "assistant"),
    **dict.fromkeys(("system", "developer", "tool", "function", "info", "error", "warning", "ipython"), "other"),
}


def _messages(found: Record) -> Sequence[object]:
    return next((listed(found[name]) for name in _HOLDERS if isinstance(found.get(name), list)), ())


def _begun(found: Record) -> ConversationDraft:
    return ConversationDraft(
        "messages",
        id=first_words(found, "id", "uuid", "conversation_id", "conversationId", "sessionId", "session_id", "chat_id"),
        created=first_moment(found, "created_at", "create_time", "createdAt", "startTime", "inserted_at", "timestamp"),
        updated=first_moment(found, "updated_at", "update_time", "updatedAt", "lastUpdated"),
    )


def _role(message: Record) -> str:
    """Return `user`, `assistant` or `other`; empty for what is not a message."""
    return next((role for name in _CONTENTS if (role := _role_in(message, name))), "")


def _role_in(message: Record, name: str) -> str:
    told = words(message.get(name)) or words(record(message.get(name)).get("role"))
    has_content = "tool_calls" in message or any(member in message for member in _CONTENTS[name])
    return _ROLES.get(told.strip().lower(), "") if has_content else ""


def _has_content(message: Record) -> bool:
    contents = [message[name] for names in _CONTENTS.values() for name in names if name in message]
    return all(one is None or isinstance(one, str | list | dict) for one in contents)


def _spoken(message: Record) -> Said:
    members = (name for names in _CONTENTS.values() for name in names)
    spoken = said(next((message[name] for name in members if message.get(name)), None))
    calls = [record(record(one).get("function")) for one in listed(message.get("tool_calls"))]
    lines = [tool_line(first_words(call, "name") or "tool", call.get("arguments")) for call in calls if call]
    return Said(spoken.words, (*spoken.tools, *filter(None, lines)), spoken.other)


def _message(message: Record, role: str, spoken: Said) -> Message:
    return Message(
        content=spoken.text,
        role=role if spoken.words else "tool",
        name=first_words(message, "name") if role == "user" else "",
        id=first_words(message, "id", "uuid"),
        at=first_moment(message, *_TIMES),
    )
