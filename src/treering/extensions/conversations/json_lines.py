"""JSON lines: sessions of Claude Code, Codex, Cursor, Gemini CLI, messages one by one, or a conversation per line."""

import re
from collections.abc import Callable, Iterable, Iterator, Sequence
from itertools import chain, islice
from typing import BinaryIO

from treering.core.fencing import without_surroundings
from treering.extensions.conversations import messages
from treering.extensions.conversations.conversation import (
    OTHER_PARTS,
    ConversationDraft,
    Parsed,
    Said,
    Unread,
    named_apart,
    said,
    tool_line,
)
from treering.sources.reading.loose_json import (
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
from treering.verbs.ingest.turns import Message

# Transcripts of Cursor's agent: a message per line, with who speaks beside it.


CursorLine = tuple[int, object]
"""The number of a line from 1, and what stands there."""


def are_lines_of_cursor(values: Sequence[object]) -> bool:
    """Tell whether these are lines of a transcript: in most of them somebody speaks."""
    return sum(_speaks(record(one)) for one in values) > len(values) / 2


def read_cursor(lines: Iterable[CursorLine]) -> Iterator[Parsed]:
    """Read the transcript of a file. It names neither times nor itself: its file's name does.

    What the program puts around a request, and lines that say how a turn ended, are left out.
    """
    draft = ConversationDraft("cursor")
    for number, value in lines:
        line = record(value)
        if _speaks(line):
            _add(line, draft)
        elif not words(line.get("type")) and not words(line.get("role")):
            yield Unread(f"line {number}", "it is not a message")
    if draft.messages:
        yield draft.finished()


_ROLES = frozenset({"user", "assistant"})
_REQUEST = re.compile(r"<user_query>\s*(.*?)\s*</user_query>", re.DOTALL)


def _speaks(line: Record) -> bool:
    content = record(line.get("message")).get("content")
    return "type" not in line and words(line.get("role")) in _ROLES and isinstance(content, str | list)


def _add(line: Record, draft: ConversationDraft) -> None:
    content = record(line.get("message")).get("content")
    draft.work.take(content)
    spoken = said(content)
    draft.counts.update({OTHER_PARTS: spoken.other} if spoken.other else {})
    own = "\n\n".join(_REQUEST.findall(spoken.words)) or spoken.words
    text = "\n".join(filter(None, [own, *spoken.tools]))
    if text:
        # A line in which only tools are used is not a word of anybody's.
        role = words(line.get("role")) if own else "tool"
        draft.messages.append(Message(content=text, role=role))
        if role == "user":
            draft.work.request(own)


# Sessions of Codex: a JSON object per line, each with a `type` and a `payload`.


CodexLine = tuple[int, object]
"""The number of a line from 1, and what stands there."""


def are_lines_of_codex(values: Sequence[object]) -> bool:
    """Tell whether these are lines of a session: one says which it is, or who speaks."""
    return any(_begins(record(one)) or _is_codex_message(record(one)) for one in values)


def read_codex(lines: Iterable[CodexLine]) -> Iterator[Parsed]:
    """Read the session of a file: what was said, in order, and shortly which tools were used.

    Results of tools, thoughts, instructions, and what the program puts before a request are left out.
    """
    draft = ConversationDraft("codex")
    for number, value in lines:
        line = record(value)
        if not words(line.get("type")):
            yield Unread(f"line {number}", "it is not a message")
        elif _begins(line):
            _begin(record(line.get("payload")), draft)
        elif line.get("type") == _ITEM:
            _add_codex(line, record(line.get("payload")), draft)
    if draft.messages:
        yield draft.finished()


_META, _ITEM = "session_meta", "response_item"
_CALLS = frozenset({"function_call", "custom_tool_call", "local_shell_call"})
_RESULTS = frozenset({"function_call_output", "custom_tool_call_output", "local_shell_call_output"})
_PUT_BEFORE = re.compile(
    r"\s*(?:<(?:environment_context|user_instructions|INSTRUCTIONS|permissions|skills?_instructions|skill|apps"
    r"|collaboration_mode|turn_aborted|subagent_notification|user_shell_command|hook_prompt|recommended_plugins)\b"
    r"|# AGENTS\.md instructions)"
)
"""How a part of a request begins that the program wrote, and no person."""


def _begins(line: Record) -> bool:
    return line.get("type") == _META and bool(record(line.get("payload")))


def _is_codex_message(line: Record) -> bool:
    payload = record(line.get("payload"))
    return line.get("type") == _ITEM and payload.get("type") == "message" and bool(words(payload.get("role")))


def _begin(payload: Record, draft: ConversationDraft) -> None:
    # A session that continues another one repeats how that began: the first line is its own.
    draft.id = draft.id or first_words(payload, "id", "session_id")
    if folder := first_words(payload, "cwd"):
        draft.metadata.setdefault("folder", folder)
    if branch := first_words(record(payload.get("git")), "branch"):
        draft.metadata.setdefault("branch", branch)


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
    draft.counts.update({OTHER_PARTS: spoken.other} if spoken.other else {})
    if spoken:
        at = first_moment(line, "timestamp")
        draft.messages.append(Message(content=spoken.text, role=role, id=words(payload.get("id")), at=at))
        if role == "user":
            draft.work.request(spoken.words)


def _parts(content: object) -> Sequence[object]:
    return listed(content) or [content]


def _own_parts(content: object) -> list[object]:
    return [one for one in _parts(content) if not _PUT_BEFORE.match(words(record(one).get("text")) or words(one))]


def _used(payload: Record) -> Said:
    given = payload.get("arguments", payload.get("input", payload.get("action")))
    told = parse(given.encode("utf-8", "replace")) if isinstance(given, str) else given
    line = tool_line(first_words(payload, "name") or "shell", given if isinstance(told, Malformed) else _gist(told))
    return Said(tools=(line,) if line else ())


def _gist(given: object) -> object:
    """Return what a tool was given, a command as one text."""
    command = record(given).get("command", record(given).get("cmd"))
    if command is None:
        return given
    return " ".join(map(words, listed(command))) or words(command)


# Sessions of Gemini CLI: a message per line, which a later line of the same id replaces, and changes of the whole.


GeminiLine = tuple[int, object]
"""The number of a line from 1, and what stands there."""


def are_lines_of_gemini(values: Sequence[object]) -> bool:
    """Tell whether these are lines of a session: one names the session and the project it is of."""
    return any(_is_head_of_gemini(record(one)) for one in values)


def read_gemini(lines: Iterable[GeminiLine]) -> Iterator[Parsed]:
    """Read the session of a file: what was said at last, in order, and shortly which tools were used.

    Results of tools, thoughts, and what the program or its hooks put around a request are left out.
    """
    draft, told = ConversationDraft("gemini-cli"), dict[str, Record]()
    for number, value in lines:
        line, changed = record(value), record(record(value).get("$set"))
        if _is_head_of_gemini(line):
            draft.id = draft.id or words(line.get("sessionId"))
            draft.created = draft.created or first_moment(line, "startTime")
        elif (name := words(line.get("id"))) and words(line.get("type")):
            told[name] = line
        elif name := words(line.get("$rewindTo")):
            known = [*told]
            told = {one: told[one] for one in known[: known.index(name) if name in told else len(known)]}
        elif isinstance(changed.get("messages"), list):
            whole = map(record, listed(changed["messages"]))
            told = {words(one.get("id")) or f"{number}.{place}": one for place, one in enumerate(whole)}
        elif not changed:
            yield Unread(f"line {number}", "it is not a message")
    for line in told.values():
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
    draft.counts.update({OTHER_PARTS: spoken.other} if spoken.other else {})
    own = without_surroundings(spoken.words) if role == "user" else spoken.words
    calls = [record(one) for one in listed(line.get("toolCalls"))]
    for call in calls:
        draft.work.call(words(call.get("name")), call.get("args"), words(call.get("id")))
        draft.work.answer(words(call.get("id")), call.get("result"), failed=call.get("status") == "error" or None)
    tools = [tool_line(first_words(call, "name") or "tool", _gist(call.get("args"))) for call in calls]
    if content := "\n".join(filter(None, [own, *spoken.tools, *tools])):
        at, identity = first_moment(line, "timestamp"), words(line.get("id"))
        draft.messages.append(Message(content=content, role=role if own else "tool", id=identity, at=at))
        if role == "user":
            draft.work.request(own)


Line = tuple[int, object]


def read(stream: BinaryIO, *, most_bytes: int) -> Iterator[Parsed] | None:
    """Read lines one by one; `None`: they are no conversations. `most_bytes` bounds a single line."""
    lines = _lines(stream, most_bytes)
    first = list(islice(lines, _LOOKED_AT))
    values = [value for _, value in first if not isinstance(value, Malformed)]
    return next((reader(chain(first, lines)) for are_such, reader in _FORMS if are_such(values)), None)


_LOOKED_AT = 50
_Reader = Callable[[Iterable[Line]], Iterator[Parsed]]


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


def _each(reader: _Reader) -> _Reader:
    """Read lines by a reader of sessions, and name those that are no JSON."""

    def read_sessions(lines: Iterable[Line]) -> Iterator[Parsed]:
        problems: list[Unread] = []
        yield from reader(_readable(lines, problems))
        yield from problems

    return read_sessions


def _messages(lines: Iterable[Line]) -> Iterator[Parsed]:
    """Read messages line by line, grouped by the session they name."""
    sessions: dict[str, list[Record]] = {}
    problems: list[Unread] = []
    for number, value in _readable(lines, problems):
        if messages.is_message(value):
            sessions.setdefault(messages.session_of(record(value)), []).append(record(value))
        else:
            problems.append(Unread(f"line {number}", "it is not a message"))
    yield from problems
    yield from named_apart([messages.of_messages(found, name) for name, found in sessions.items()])


def _conversations(lines: Iterable[Line]) -> Iterator[Parsed]:
    problems: list[Unread] = []
    for number, value in _readable(lines, problems):
        if messages.claims_role_messages(record(value)):
            yield messages.read_role_messages(record(value))
        else:
            problems.append(Unread(f"line {number}", "it is not a conversation"))
    yield from problems


def _readable(lines: Iterable[Line], problems: list[Unread]) -> Iterator[Line]:
    for number, value in lines:
        if isinstance(value, Malformed):
            problems.append(Unread(f"line {number}", value.why))
        else:
            yield number, value


def _are_sessions(values: Sequence[object]) -> bool:
    """Tell whether somebody speaks in some lines, and most name their type."""
    typed = sum("type" in record(value) for value in values)
    return any(map(messages.is_line, values)) and typed > len(values) / 2


def _are_conversations(values: Sequence[object]) -> bool:
    return sum(messages.claims_role_messages(record(value)) for value in values) > len(values) / 2


_FORMS: tuple[tuple[Callable[[Sequence[object]], bool], _Reader], ...] = (
    (are_lines_of_codex, _each(read_codex)),
    (are_lines_of_gemini, _each(read_gemini)),
    (_are_sessions, _each(messages.read_claude_code)),
    (are_lines_of_cursor, _each(read_cursor)),
    (_are_conversations, _conversations),
    (messages.are_messages, _messages),
)
