"""Transcripts of Cursor's agent: a message per line, with who speaks beside it."""

import re
from collections.abc import Iterable, Iterator, Sequence

from treering.edges.sources.conversations.conversation import ConversationDraft, Parsed, Unread
from treering.edges.sources.conversations.parts import OTHER_PARTS, said
from treering.edges.sources.loose_json import Record, record, words
from treering.tools.turns import Message

Line = tuple[int, object]
"""The number of a line from 1, and what stands there."""


def are_lines(values: Sequence[object]) -> bool:
    """Tell whether these are lines of a transcript: in most of them somebody speaks."""
    return sum(_speaks(record(one)) for one in values) > len(values) / 2


def read(lines: Iterable[Line]) -> Iterator[Parsed]:
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
    spoken = said(record(line.get("message")).get("content"))
    draft.counts.update({OTHER_PARTS: spoken.other} if spoken.other else {})
    own = "\n\n".join(_REQUEST.findall(spoken.words)) or spoken.words
    content = "\n".join(filter(None, [own, *spoken.tools]))
    if content:
        # A line in which only tools are used is not a word of anybody's.
        role = words(line.get("role")) if own else "tool"
        draft.messages.append(Message(content=content, role=role))
