"""Sessions of Copilot CLI, which are lines of events."""

from collections.abc import Iterable, Iterator, Sequence

from treering.extensions.conversations.conversation import (
    ConversationDraft,
    Line,
    Parsed,
    Said,
    read_session,
    tool_line,
)
from treering.extensions.conversations.loose_json import Record, first_moment, listed, record, words


def are_events(values: Sequence[object]) -> bool:
    """Return whether these are events of a session of Copilot CLI: one begins it."""
    return any(_begins(record(one)) for one in values)


def read_copilot(lines: Iterable[Line]) -> Iterator[Parsed]:
    """Read the session of a file: its messages in order, with a short line for each tool call.

    Results of tools, events of subagents, and requests that the program made are skipped.
    """
    return read_session(ConversationDraft("copilot-cli"), lines, _take)


_ROLES = {"user.message": "user", "assistant.message": "assistant"}


def _begins(line: Record) -> bool:
    data = record(line.get("data"))
    return line.get("type") == "session.start" and bool(words(data.get("copilotVersion")))


def _take(line: Record, draft: ConversationDraft) -> bool:
    kind, data = words(line.get("type")), record(line.get("data"))
    if line.get("agentId"):
        return bool(kind)
    if _begins(line):
        draft.id = draft.id or words(data.get("sessionId"))
        for name, key in {"folder": "cwd", "branch": "branch"}.items():
            if fact := words(record(data.get("context")).get(key)):
                draft.metadata.setdefault(name, fact)
    elif kind == "tool.execution_complete":
        failed = data.get("success") is False or bool(record(data.get("shellExecution")).get("exitCode"))
        output = record(data.get("result")).get("content") or record(data.get("error")).get("message")
        draft.work.answer(words(data.get("toolCallId")), output, failed=failed)
    elif kind in _ROLES and data.get("source") in (None, "user"):
        calls = [record(one) for one in listed(data.get("toolRequests"))]
        for one in calls:
            draft.work.call(words(one.get("name")), one.get("arguments"), words(one.get("toolCallId")))
        tools = [tool_line(words(one.get("name")) or "tool", one.get("arguments")) for one in calls]
        spoken = Said(words(data.get("content")).strip(), tuple(filter(None, tools)))
        draft.say(spoken, _ROLES[kind], identity=words(data.get("messageId")), at=first_moment(line, "timestamp"))
    return bool(kind)
