"""Sessions of Codex: a JSON object per line, each with a `type` and a `payload`."""

import re
from collections.abc import Iterable, Iterator, Sequence

from treering.edges.sources.conversations.conversation import ConversationDraft, Parsed, Unread
from treering.edges.sources.conversations.parts import OTHER_PARTS, Said, said, tool_line
from treering.edges.sources.loose_json import Malformed, Record, first_moment, first_words, listed, parse, record, words
from treering.tools.turns import Message

Line = tuple[int, object]
"""The number of a line from 1, and what stands there."""


def are_lines(values: Sequence[object]) -> bool:
    """Tell whether these are lines of a session: one says which it is, or who speaks."""
    return any(_begins(record(one)) or _speaks(record(one)) for one in values)


def read(lines: Iterable[Line]) -> Iterator[Parsed]:
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
            _add(line, record(line.get("payload")), draft)
    if draft.messages:
        yield draft.finished()


_META, _ITEM = "session_meta", "response_item"
_ROLES = frozenset({"user", "assistant"})
_CALLS = frozenset({"function_call", "custom_tool_call", "local_shell_call"})
_PUT_BEFORE = re.compile(
    r"\s*(?:<(?:environment_context|user_instructions|INSTRUCTIONS|permissions|skills?_instructions|skill|apps"
    r"|collaboration_mode|turn_aborted|subagent_notification|user_shell_command|hook_prompt|recommended_plugins)\b"
    r"|# AGENTS\.md instructions)"
)
"""How a part of a request begins that the program wrote, and no person."""


def _begins(line: Record) -> bool:
    return line.get("type") == _META and bool(record(line.get("payload")))


def _speaks(line: Record) -> bool:
    payload = record(line.get("payload"))
    return line.get("type") == _ITEM and payload.get("type") == "message" and bool(words(payload.get("role")))


def _begin(payload: Record, draft: ConversationDraft) -> None:
    # A session that continues another one repeats how that began: the first line is its own.
    draft.id = draft.id or first_words(payload, "id", "session_id")
    if folder := first_words(payload, "cwd"):
        draft.metadata.setdefault("folder", folder)


def _add(line: Record, payload: Record, draft: ConversationDraft) -> None:
    role = words(payload.get("role"))
    if words(payload.get("type")) in _CALLS:
        role, spoken = "tool", _used(payload)
    elif _speaks(line) and role in _ROLES:
        spoken = said(_own_parts(payload.get("content")))
    else:
        return
    draft.counts.update({OTHER_PARTS: spoken.other} if spoken.other else {})
    if spoken:
        at = first_moment(line, "timestamp")
        draft.messages.append(Message(content=spoken.text, role=role, id=words(payload.get("id")), at=at))


def _own_parts(content: object) -> list[object]:
    parts = listed(content) or [content]
    return [one for one in parts if not _PUT_BEFORE.match(words(record(one).get("text")) or words(one))]


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
