"""JSON lines: sessions of coding agents, messages one by one, or a conversation per line."""

import re
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import replace
from itertools import chain, islice
from typing import BinaryIO

from treering.core.fencing import without_surroundings
from treering.extensions.conversations import messages
from treering.extensions.conversations.conversation import (
    ConversationDraft,
    Line,
    Parsed,
    Said,
    Unread,
    named_apart,
    read_session,
    said,
    tool_line,
)
from treering.extensions.conversations.loose_json import (
    Malformed,
    Record,
    first_moment,
    first_words,
    listed,
    over_limit,
    parse,
    record,
    words,
)

_LOOKED_AT = 50

_Reader = Callable[[Iterable[Line]], Iterator[Parsed]]


def are_lines_of_cursor(values: Sequence[object]) -> bool:
    """Return whether these are lines of a transcript of Cursor's agent: most of them are messages."""
    return sum(_speaks(record(one)) for one in values) > len(values) / 2


def read_cursor(lines: Iterable[Line]) -> Iterator[Parsed]:
    """Read the transcript of a file, which contains no times and no id.

    Additions of the program to a request, and lines about the end of a turn, are skipped.
    """
    return read_session(ConversationDraft("cursor"), lines, _take_cursor)


_ROLES = frozenset({"user", "assistant"})
_REQUEST = re.compile(r"<user_query>\s*(.*?)\s*</user_query>", re.DOTALL)


def _speaks(line: Record) -> bool:
    content = record(line.get("message")).get("content")
    return "type" not in line and words(line.get("role")) in _ROLES and isinstance(content, str | list)


def _take_cursor(line: Record, draft: ConversationDraft) -> bool:
    if not _speaks(line):
        return bool(words(line.get("type")) or words(line.get("role")))
    content = record(line.get("message")).get("content")
    draft.work.take(content)
    spoken = said(content)
    own = "\n\n".join(_REQUEST.findall(spoken.words)) or spoken.words
    draft.say(replace(spoken, words=own), words(line.get("role")))
    return True


def are_lines_of_codex(values: Sequence[object]) -> bool:
    """Return whether these are lines of a session of Codex: one begins it, or is a message."""
    return any(_begins(record(one)) or _is_codex_message(record(one)) for one in values)


def read_codex(lines: Iterable[Line]) -> Iterator[Parsed]:
    """Read the session of a file: its messages in order, with a short line for each tool call.

    Results of tools, thoughts, instructions, and additions of the program to a request are skipped.
    """
    return read_session(ConversationDraft("codex"), lines, _take_codex)


_META, _ITEM = "session_meta", "response_item"
_CALLS = frozenset({"function_call", "custom_tool_call", "local_shell_call"})
_RESULTS = frozenset({"function_call_output", "custom_tool_call_output", "local_shell_call_output"})
_PUT_BEFORE = re.compile(
    r"\s*(?:<(?:environment_context|user_instructions|INSTRUCTIONS|permissions|skills?_instructions|skill|apps"
    r"|collaboration_mode|turn_aborted|subagent_notification|user_shell_command|hook_prompt|recommended_plugins)\b"
    r"|# AGENTS\.md instructions)"
)
"""The beginnings of parts of a request that are additions of the program."""


def _begins(line: Record) -> bool:
    return line.get("type") == _META and bool(record(line.get("payload")))


def _is_codex_message(line: Record) -> bool:
    payload = record(line.get("payload"))
    return line.get("type") == _ITEM and payload.get("type") == "message" and bool(words(payload.get("role")))


def _begin(payload: Record, draft: ConversationDraft) -> None:
    # A continued session repeats the beginning of the earlier one; the first line is its own.
    draft.id = draft.id or first_words(payload, "id", "session_id")
    if folder := first_words(payload, "cwd"):
        draft.metadata.setdefault("folder", folder)
    if branch := first_words(record(payload.get("git")), "branch"):
        draft.metadata.setdefault("branch", branch)


def _take_codex(line: Record, draft: ConversationDraft) -> bool:
    if _begins(line):
        _begin(record(line.get("payload")), draft)
    elif line.get("type") == _ITEM:
        _add_codex(line, record(line.get("payload")), draft)
    return bool(words(line.get("type")))


def _add_codex(line: Record, payload: Record, draft: ConversationDraft) -> None:
    role, kind, call = words(payload.get("role")), words(payload.get("type")), first_words(payload, "call_id", "id")
    if kind in _CALLS:
        role, spoken = "tool", _used(payload)
        given = payload.get("arguments", payload.get("input", payload.get("action")))
        draft.work.call(words(payload.get("name")), given, call)
    elif kind in _RESULTS:
        draft.work.answer(call, payload.get("output"))
        return
    elif _is_codex_message(line) and role in _ROLES:
        spoken = said(_own_parts(payload.get("content")))
    else:
        return
    draft.say(spoken, role, identity=words(payload.get("id")), at=first_moment(line, "timestamp"))


def _parts(content: object) -> Sequence[object]:
    return listed(content) or [content]


def _own_parts(content: object) -> list[object]:
    return [one for one in _parts(content) if not _PUT_BEFORE.match(words(record(one).get("text")) or words(one))]


def _used(payload: Record) -> Said:
    given = payload.get("arguments", payload.get("input", payload.get("action")))
    arguments = parse(given.encode("utf-8", "replace")) if isinstance(given, str) else given
    name = first_words(payload, "name") or "shell"
    return Said(tools=(tool_line(name, given if isinstance(arguments, Malformed) else _gist(arguments)),))


def _gist(given: object) -> object:
    """Return the arguments of a tool call; a command as one text."""
    command = record(given).get("command", record(given).get("cmd"))
    if command is None:
        return given
    return " ".join(map(words, listed(command))) or words(command)


def are_lines_of_gemini(values: Sequence[object]) -> bool:
    """Return whether these are lines of a session of Gemini CLI: one names the session and its project."""
    return any(_is_head_of_gemini(record(one)) for one in values)


def read_gemini(lines: Iterable[Line]) -> Iterator[Parsed]:
    """Read the session of a file: its final messages in order, with a short line for each tool call.

    Later lines replace earlier ones with the same id. Results of tools, thoughts, and additions of the program or its
    hooks to a request are skipped.
    """
    draft, messages_by_id = ConversationDraft("gemini-cli"), dict[str, Record]()
    for number, value in lines:
        line, changed = record(value), record(record(value).get("$set"))
        if _is_head_of_gemini(line):
            draft.id = draft.id or words(line.get("sessionId"))
            draft.created = draft.created or first_moment(line, "startTime")
        elif (name := words(line.get("id"))) and words(line.get("type")):
            messages_by_id[name] = line
        elif name := words(line.get("$rewindTo")):
            known = [*messages_by_id]
            messages_by_id = {
                one: messages_by_id[one] for one in known[: known.index(name) if name in messages_by_id else len(known)]
            }
        elif isinstance(changed.get("messages"), list):
            whole = map(record, listed(changed["messages"]))
            messages_by_id = {words(one.get("id")) or f"{number}.{place}": one for place, one in enumerate(whole)}
        elif not changed:
            yield Unread(f"line {number}", "it is not a message")
    for line in messages_by_id.values():
        _add_gemini(line, draft)
    if draft.messages:
        yield draft.finished()


_GEMINI_ROLES = {"user": "user", "gemini": "assistant"}


def _is_head_of_gemini(line: Record) -> bool:
    return bool(words(line.get("sessionId")) and words(line.get("projectHash")))


def _add_gemini(line: Record, draft: ConversationDraft) -> None:
    role = _GEMINI_ROLES.get(words(line.get("type")))
    parts = [one for one in _parts(line.get("content")) if "functionResponse" not in record(one)]
    if role is None or not (parts or line.get("toolCalls")):
        return
    spoken = said(parts)
    own = without_surroundings(spoken.words) if role == "user" else spoken.words
    calls = [record(one) for one in listed(line.get("toolCalls"))]
    for call in calls:
        draft.work.call(words(call.get("name")), call.get("args"), words(call.get("id")))
        draft.work.answer(words(call.get("id")), call.get("result"), failed=call.get("status") == "error" or None)
    tools = [tool_line(first_words(call, "name"), _gist(call.get("args"))) for call in calls]
    spoken = Said(own, (*spoken.tools, *tools), spoken.other)
    draft.say(spoken, role, identity=words(line.get("id")), at=first_moment(line, "timestamp"))


def are_events_of_copilot(values: Sequence[object]) -> bool:
    """Return whether these are events of a session of Copilot CLI: one begins it."""
    return any(_begins_copilot(record(one)) for one in values)


def read_copilot(lines: Iterable[Line]) -> Iterator[Parsed]:
    """Read the session of a file: its messages in order, with a short line for each tool call.

    Results of tools, events of subagents, and requests that the program made are skipped.
    """
    return read_session(ConversationDraft("copilot-cli"), lines, _take_copilot)


_COPILOT_ROLES = {"user.message": "user", "assistant.message": "assistant"}


def _begins_copilot(line: Record) -> bool:
    data = record(line.get("data"))
    return line.get("type") == "session.start" and bool(words(data.get("copilotVersion")))


def _take_copilot(line: Record, draft: ConversationDraft) -> bool:
    kind, data = words(line.get("type")), record(line.get("data"))
    if line.get("agentId"):
        return bool(kind)
    if _begins_copilot(line):
        draft.id = draft.id or words(data.get("sessionId"))
        for name, key in {"folder": "cwd", "branch": "branch"}.items():
            if fact := words(record(data.get("context")).get(key)):
                draft.metadata.setdefault(name, fact)
    elif kind == "tool.execution_complete":
        failed = data.get("success") is False or bool(record(data.get("shellExecution")).get("exitCode"))
        output = record(data.get("result")).get("content") or record(data.get("error")).get("message")
        draft.work.answer(words(data.get("toolCallId")), output, failed=failed)
    elif kind in _COPILOT_ROLES and data.get("source") in (None, "user"):
        calls = [record(one) for one in listed(data.get("toolRequests"))]
        for one in calls:
            draft.work.call(words(one.get("name")), one.get("arguments"), words(one.get("toolCallId")))
        tools = tuple(tool_line(words(one.get("name")), one.get("arguments")) for one in calls)
        spoken, role = Said(words(data.get("content")).strip(), tools), _COPILOT_ROLES[kind]
        draft.say(spoken, role, identity=words(data.get("messageId")), at=first_moment(line, "timestamp"))
    return bool(kind)


def read(stream: BinaryIO, *, most_bytes: int) -> Iterator[Parsed] | None:
    """Read lines one by one; `None` if they are no conversations. `most_bytes` limits the length of a line."""
    lines = _lines(stream, most_bytes)
    first = list(islice(lines, _LOOKED_AT))
    values = [value for _, value in first if not isinstance(value, Malformed)]
    reader = next((reader for are_such, reader in _FORMS if are_such(values)), None)
    return _read(reader, chain(first, lines)) if reader else None


def _read(reader: _Reader, lines: Iterable[Line]) -> Iterator[Parsed]:
    """Read lines, and then report the invalid ones."""
    malformed: list[Unread] = []
    yield from reader(_readable(lines, malformed))
    yield from malformed


def _readable(lines: Iterable[Line], malformed: list[Unread]) -> Iterator[Line]:
    for number, value in lines:
        if isinstance(value, Malformed):
            malformed.append(Unread(f"line {number}", value.why))
        else:
            yield number, value


def _lines(stream: BinaryIO, most_bytes: int) -> Iterator[Line]:
    number = 0
    while line := stream.readline(most_bytes + 1):
        number += 1
        if len(line) > most_bytes:
            yield number, over_limit(most_bytes)
            while line and not line.endswith(b"\n"):
                line = stream.readline(most_bytes)
        elif text := line.strip().removeprefix(b"\xef\xbb\xbf"):
            yield number, parse(text)


def _messages(lines: Iterable[Line]) -> Iterator[Parsed]:
    """Read messages line by line, grouped by their session."""
    sessions: dict[str, list[Record]] = {}
    for number, value in lines:
        if messages.is_message(value):
            sessions.setdefault(messages.session_of(record(value)), []).append(record(value))
        else:
            yield Unread(f"line {number}", "it is not a message")
    yield from named_apart([messages.of_messages(group, name) for name, group in sessions.items()])


def _conversations(lines: Iterable[Line]) -> Iterator[Parsed]:
    for number, value in lines:
        if messages.claims_role_messages(record(value)):
            yield messages.read_role_messages(record(value))
        else:
            yield Unread(f"line {number}", "it is not a conversation")


def _are_sessions(values: Sequence[object]) -> bool:
    """Return whether some lines are messages of Claude Code, and most have a type."""
    typed = sum("type" in record(value) for value in values)
    return any(map(messages.is_line, values)) and typed > len(values) / 2


def _are_conversations(values: Sequence[object]) -> bool:
    return sum(messages.claims_role_messages(record(value)) for value in values) > len(values) / 2


_FORMS: tuple[tuple[Callable[[Sequence[object]], bool], _Reader], ...] = (
    (are_lines_of_codex, read_codex),
    (are_lines_of_gemini, read_gemini),
    (are_events_of_copilot, read_copilot),
    (_are_sessions, messages.read_claude_code),
    (are_lines_of_cursor, read_cursor),
    (_are_conversations, _conversations),
    (messages.are_messages, _messages),
)
