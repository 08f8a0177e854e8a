"""Messages with a role and a content, as most programs write them: OpenAI's form, DeepSeek, Gemini and the like."""

import re
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, field, replace

from treering.extensions.conversations.conversation import (
    Conversation,
    ConversationDraft,
    Line,
    Parsed,
    Said,
    Unread,
    named_apart,
    said,
    tool_line,
)
from treering.extensions.conversations.loose_json import Record, first_moment, first_words, listed, record, words

NOT_SPOKEN = "message(s) of the system or of tools were skipped"
"""The note on messages of the system and of tools."""


def claims_role_messages(data: Record) -> bool:
    """Return whether an object contains messages."""
    return are_messages(_messages(data))


def are_messages(data: Sequence[object]) -> bool:
    """Return whether these are messages, some of them from a person; a few may have an unknown role."""
    roles = [_role(record(one)) for one in data]
    known = sum(map(bool, roles)) > _MOST * len(roles)
    return known and "user" in roles and all(isinstance(one, dict) and _has_content(one) for one in data)


def is_message(data: object) -> bool:
    """Return whether this is a message."""
    return bool(_role(record(data))) and _has_content(record(data))


def read_role_messages(data: Record) -> Conversation:
    """Read a conversation with its messages."""
    draft = _begun(data)
    draft.title = first_words(data, "title", "name")
    take(map(record, _messages(data)), draft)
    return draft.finished()


def of_messages(data: Iterable[Record], identity: str = "") -> Conversation:
    """Read separate messages as one conversation."""
    draft = ConversationDraft("messages", id=identity)
    take(data, draft)
    return draft.finished()


def session_of(data: Record) -> str:
    """Return the id of the conversation of a message; empty if it has none."""
    return first_words(data, "session_id", "sessionId", "conversation_id", "conversationId", "chat_id", "thread_id")


def take(data: Iterable[Record], draft: ConversationDraft) -> None:
    """Add messages to a conversation."""
    for message in data:
        role = _role(message)
        _note_tools(message, draft)
        spoken = _spoken(message) if role in {"user", "assistant"} else Said()
        if role not in {"user", "assistant"}:
            draft.counts[NOT_SPOKEN] += 1
        draft.say(
            spoken,
            role,
            name=first_words(message, "name") if role == "user" else "",
            identity=first_words(message, "id", "uuid"),
            at=first_moment(message, *_TIMES),
        )


_MOST = 0.6
_HOLDERS = ("messages", "conversation", "conversations")
_CONTENTS = {
    "role": ("content", "text", "parts", "message"),
    "sender": ("text", "content", "message"),
    "author": ("content", "text"),
    "from": ("value", "text"),
    "type": ("content",),
}
"""The members with the role, and for each of them those with the content: a `type` alone is ambiguous."""
_TIMES = ("at", "timestamp", "created_at", "create_time", "createdAt", "time", "date", "inserted_at")
_ROLES = {
    **dict.fromkeys(("user", "human", "you", "prompter"), "user"),
    **dict.fromkeys(("assistant", "model", "gemini", "ai", "bot", "chatgpt", "claude", "gpt"), "assistant"),
    **dict.fromkeys(("system", "developer", "tool", "function", "info", "error", "warning", "ipython"), "other"),
}


def _messages(data: Record) -> Sequence[object]:
    return next((listed(data[name]) for name in _HOLDERS if isinstance(data.get(name), list)), ())


def _begun(data: Record) -> ConversationDraft:
    return ConversationDraft(
        "messages",
        id=first_words(data, "id", "uuid", "conversation_id", "conversationId", "sessionId", "session_id", "chat_id"),
        created=first_moment(data, "created_at", "create_time", "createdAt", "startTime", "inserted_at", "timestamp"),
        updated=first_moment(data, "updated_at", "update_time", "updatedAt", "lastUpdated"),
    )


def _role(message: Record) -> str:
    """Return `user`, `assistant` or `other`; empty if it is not a message."""
    return next((role for name in _CONTENTS if (role := _role_in(message, name))), "")


def _role_in(message: Record, name: str) -> str:
    role = words(message.get(name)) or words(record(message.get(name)).get("role"))
    has_content = "tool_calls" in message or any(member in message for member in _CONTENTS[name])
    return _ROLES.get(role.strip().lower(), "") if has_content else ""


def _has_content(message: Record) -> bool:
    contents = [message[name] for names in _CONTENTS.values() for name in names if name in message]
    return all(one is None or isinstance(one, str | list | dict) for one in contents)


def _spoken(message: Record) -> Said:
    members = (name for names in _CONTENTS.values() for name in names)
    spoken = said(next((message[name] for name in members if message.get(name)), None))
    calls = [record(record(one).get("function")) for one in listed(message.get("tool_calls"))]
    lines = [tool_line(first_words(call, "name"), call.get("arguments")) for call in calls]
    return replace(spoken, tools=(*spoken.tools, *lines))


def _note_tools(message: Record, draft: ConversationDraft) -> None:
    draft.work.take(message.get("content"))
    for call in map(record, listed(message.get("tool_calls"))):
        function = record(call.get("function"))
        draft.work.call(words(function.get("name")), function.get("arguments"), words(call.get("id")))
    if answered := words(message.get("tool_call_id")):
        draft.work.answer(answered, message.get("content"))


def is_line(data: object) -> bool:
    """Return whether this is a line of Claude Code with a message."""
    line = record(data)
    return line.get("type") in ("user", "assistant") and words(record(line.get("message")).get("role")) != ""


def claims_claude_code(data: Record) -> bool:
    """Return whether an object is a session of Claude Code with `loglines`."""
    lines = listed(data.get("loglines"))
    return bool(lines) and any(map(is_line, lines))


def read_loglines(data: Record) -> Iterator[Parsed]:
    """Read the sessions of an object with `loglines`."""
    yield from read_claude_code(enumerate(listed(data.get("loglines")), start=1))


def read_claude_code(lines: Iterable[Line]) -> Iterator[Parsed]:
    """Read the sessions of a file: their messages in order, with a short line for each tool call.

    Results of tools, thoughts, notes of the program and messages between subagents are skipped.
    """
    sessions = _Sessions()
    for number, line in lines:
        problem = sessions.take(line)
        if problem:
            yield Unread(f"line {number}", problem)
    yield from sessions.finished()


_REMINDER = re.compile(r"<system-reminder>.*?(?:</system-reminder>|\Z)", re.DOTALL)
_COMMAND = re.compile(r"<command-name>\s*/?(?P<name>[^<]{1,100})</command-name>")
_ARGUMENTS = re.compile(r"<command-args>(?P<given>[^<]{0,2000})</command-args>")
_NOISE = (
    "<local-command-stdout>",
    "<local-command-stderr>",
    "<local-command-caveat>",
    "<bash-stdout>",
    "<bash-stderr>",
    "<task-notification>",
    "[Request interrupted by user",
    "Caveat: The messages below were generated by the user while running local commands.",
)
_ASIDE = "message(s) between subagents were skipped"
_RETOLD = "message(s) that summarize earlier messages were skipped"


@dataclass(slots=True)
class _Session:
    draft: ConversationDraft
    aside: ConversationDraft
    """Messages between subagents; used if the session has no others."""

    def finished(self) -> Conversation:
        if self.draft.messages or not self.aside.messages:
            if self.aside.messages:
                self.draft.counts[_ASIDE] = len(self.aside.messages)
            return self.draft.finished()
        self.aside.title = self.draft.title
        return self.aside.finished()


@dataclass(slots=True)
class _Sessions:
    by_id: dict[str, _Session] = field(default_factory=dict)
    titles: list[str] = field(default_factory=list)
    last: str = ""

    def take(self, data: object) -> str:
        """Process a line; return the problem with it, if any."""
        line = record(data)
        kind = words(line.get("type"))
        if kind == "summary":
            self.titles.append(words(line.get("summary")))
        if kind in {"user", "assistant"}:
            return self._speak(line)
        return "" if kind else "it is not a message"

    def finished(self) -> Sequence[Conversation]:
        """Return the sessions. A title may be in the file of its session, or of one that continues it."""
        drafts = [session.draft for session in self.by_id.values()]
        if len(drafts) == 1 and self.titles:
            drafts[0].title = self.titles[-1]
        return named_apart([session.finished() for session in self.by_id.values()])

    def _speak(self, line: Record) -> str:
        message = record(line.get("message"))
        if not message or not isinstance(message.get("content"), str | list):
            return "it is a message without content"
        session = self._session(line)
        draft = session.aside if line.get("isSidechain") is True else session.draft
        session.draft.work.take(message.get("content"))
        if line.get("isCompactSummary") is True:
            draft.counts[_RETOLD] += 1
        elif not (line.get("isMeta") is True or line.get("isApiErrorMessage") is True):
            _add(line, said(message.get("content")), draft)
        return ""

    def _session(self, line: Record) -> _Session:
        # A line without a session belongs to the same one as the previous line.
        self.last = first_words(line, "sessionId", "session_id") or self.last
        if self.last not in self.by_id:
            helper = first_words(line, "agentId") or "helpers"
            aside = _claude_code(f"{self.last}/{helper}" if self.last else "")
            self.by_id[self.last] = _Session(_claude_code(self.last), aside)
        session = self.by_id[self.last]
        if folder := first_words(line, "cwd"):
            session.draft.metadata.setdefault("folder", folder)
        if branch := first_words(line, "gitBranch"):
            session.draft.metadata["branch"] = branch
        return session


def _claude_code(identity: str) -> ConversationDraft:
    return ConversationDraft("claude-code", id=identity, ids_are_unique=True)


def _add(line: Record, spoken: Said, draft: ConversationDraft) -> None:
    spoken = replace(spoken, words=_own_words(spoken.words))
    draft.say(spoken, words(line.get("type")), identity=words(line.get("uuid")), at=first_moment(line, "timestamp"))


def _own_words(text: str) -> str:
    """Return the typed text of a message, without additions of the program."""
    left = _REMINDER.sub("", text).strip()
    command, given = _COMMAND.search(left), _ARGUMENTS.search(left)
    if left.startswith("<command-") and command:
        return f"/{command['name'].strip()} {given['given'].strip() if given else ''}".strip()
    return "" if left.startswith(_NOISE) else left
