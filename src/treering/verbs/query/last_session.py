"""A summary of the last conversation by rules: request, edited files, failures and next step."""

import re
from collections.abc import Iterator, Mapping, Sequence
from datetime import datetime
from pathlib import PurePath
from typing import Any

from treering.core.characters import one_line
from treering.core.counting import counted_things
from treering.core.evidence import Turn
from treering.core.fencing import without_recalled
from treering.core.filters import And, Compare
from treering.core.objects import Source
from treering.ports.ledger import Altered, Ledger, Selection
from treering.verbs.query.authorship import Authorship

_KIND = "conversation"
_FACTS = ("folder", "branch", "session")
"""Metadata of the sessions of coding agents."""
_NEWEST = 20
"""Conversations begun last, among which the one with the newest message is looked for."""
_MAX_QUOTE_CHARS = 140
_MAX_COMMAND_CHARS = 80
_SHOWN_FILES = 3
MIN_REQUEST_WORDS = 4
"""A shorter request, such as "go on" or "commit this", does not say what a session was about."""
_SENTENCE = re.compile(r"(?<=\D[.!?])\s+(?=[A-Z`*])|\n+")
_STEP = re.compile(
    r"^\W*(?:next(?: steps?| up)?|still to do|to ?do|remaining|left to do)(?:\W*|\W*[:,–—-]\W*(.+))$", re.IGNORECASE
)
_STEP_LAST = re.compile(r"\s(?:(?:comes?|is|are|follows?) next|remains?(?: to be done)?|(?:is|are) left)\W*$")
_MAX_SENTENCE_CHARS = 300
"""A longer sentence announces no step; it also bounds the time of the patterns."""


def last_conversation(ledger: Ledger, scope: str, *, as_of: datetime | int | None, altered: Altered) -> Source | None:
    """Return the session with the newest message; if there are none, the conversation with the newest message.

    Conversations have scopes of their own, below the one asked. Conversations that a sync brought are of other people.
    """
    where = And((Compare("kind", "eq", _KIND), Compare("status", "eq", "active")))
    selection = Selection(scope=scope, descend=True, types=("source",), where=where, as_of=as_of, newest=_NEWEST)
    conversations = [item for item in ledger.select(selection, altered=altered) if isinstance(item, Source)]
    conversations.sort(key=lambda one: (is_session(one), ended(one)), reverse=True)
    authorship = Authorship(ledger)
    return next((one for one in conversations if authorship.other_author(one.id) is None), None)


def is_session(conversation: Source) -> bool:
    """Return whether a conversation is a session of a coding agent, and not a chat or a discussion of people."""
    return any(name in conversation.metadata for name in _FACTS)


def ended(conversation: Source) -> datetime:
    """Return the time of the newest message."""
    return max((turn.at for turn, _ in _turns(conversation) if turn.at), default=conversation.captured_at)


def recalled(conversation: Source) -> str:
    """Return the date and branch of a conversation, and its request, edits, failure and next step.

    Empty if none of these four is known, as for a conversation between people.
    """
    branch = conversation.metadata.get("branch")
    heading = f"{ended(conversation):%d %b}{f', branch {one_line(branch)}' if isinstance(branch, str) else ''}"
    request = _request(conversation)
    facts = conversation.metadata.get("session")
    work = _of_tools(facts, conversation.metadata.get("folder")) if isinstance(facts, Mapping) else ()
    planned = facts.get("next") if isinstance(facts, Mapping) else ""
    step = _announced(conversation) or (planned if isinstance(planned, str) else "")
    details = [*work, *([f"Next: “{one_line(step, most=_MAX_QUOTE_CHARS)}”"] if step else [])]
    if request:
        return ". ".join([f"{heading}: “{request}”", *details])
    return ". ".join([heading, *details]) if details else ""


def _of_tools(facts: Mapping[str, Any], folder: object) -> Iterator[str]:
    match facts:
        case {"edited": [*paths], "edited_files": int(count)} if paths:
            more = f" and {count - _SHOWN_FILES} more" if count > _SHOWN_FILES else ""
            named = ", ".join(_path(str(path), folder) for path in paths[:_SHOWN_FILES])
            yield f"Edited {counted_things(count, 'file')}: {named}{more}"
    match facts:
        case {"failing": {"command": str(command), "line": str(line), **others}}:
            label = "Failed before the last edits" if others.get("edited_since") else "Failing"
            yield f"{label}: `{one_line(command, most=_MAX_COMMAND_CHARS)}` ({one_line(line, most=_MAX_QUOTE_CHARS)})"


def _path(path: str, folder: object) -> str:
    """Return a path as seen from the folder of the session."""
    pure = PurePath(path)
    is_below = isinstance(folder, str) and folder and pure.is_relative_to(folder)
    return one_line((pure.relative_to(str(folder)) if is_below else pure).as_posix())


def _request(conversation: Source) -> str:
    """Return the last request of the user that is meaningful by itself; if all are short, the last one."""
    requests = [own for own in _words_of(conversation, "user") if own]
    telling = [own for own in requests if len(own.split()) >= MIN_REQUEST_WORDS and not own.startswith("/")]
    return one_line((telling or requests)[-1], most=_MAX_QUOTE_CHARS) if requests else ""


def _announced(conversation: Source) -> str:
    """Return the next step that the last answer announces; empty if it announces none, or a request came after it."""
    turns = [turn for turn, _ in _turns(conversation)]
    if not turns or turns[-1].speaker == "user":
        return ""
    pieces = _SENTENCE.split(_words_of(conversation, turns[-1].speaker)[-1])
    lines = [line.strip() for line in pieces if line.strip() and len(line) <= _MAX_SENTENCE_CHARS]
    for place, line in enumerate(lines):
        if step := _STEP.match(line):
            return (step[1] or _after(lines, place)).strip()
        if step := _STEP_LAST.search(line):
            return line[: step.start()].lstrip("-*• ")
    return ""


def _after(lines: Sequence[str], place: int) -> str:
    return lines[place + 1].lstrip("-*•0123456789.) ") if place + 1 < len(lines) else ""


def _words_of(conversation: Source, speaker: str) -> list[str]:
    """Return the words of a speaker, one text for each turn, without text recalled from this memory."""
    texts: dict[int, str] = {}
    for turn, excerpt in _turns(conversation):
        if turn.speaker == speaker:
            texts[turn.turn] = texts.get(turn.turn, "") + excerpt
    return [without_recalled(text)[0].strip() for text in texts.values()]


def _turns(conversation: Source) -> Iterator[tuple[Turn, str]]:
    for segment in conversation.segments:
        if isinstance(segment.locator, Turn):
            yield segment.locator, segment.excerpt
