"""Transcripts of Cursor's agent: a message per line, with its role and no time."""

import re
from collections.abc import Iterable, Iterator

from treering.edges.sources.conversations.conversation import ConversationDraft, Parsed, Unread
from treering.edges.sources.conversations.parts import OTHER_PARTS, said
from treering.edges.sources.loose_json import record, words
from treering.tools.turns import Message

Line = tuple[int, object]


def is_line(found: object) -> bool:
    """Tell whether this is a line in which somebody speaks."""
    line = record(found)
    inside = record(line.get("message"))
    return words(line.get("role")) in ("user", "assistant") and isinstance(inside.get("content"), str | list)


def read(lines: Iterable[Line]) -> Iterator[Parsed]:
    """Read the conversation of a file: what was said, in order, and shortly which tools were used."""
    draft = ConversationDraft("cursor")
    for number, found in lines:
        line = record(found)
        if is_line(found):
            role, spoken = words(line.get("role")), said(record(line.get("message")).get("content"))
            own = _own_words(spoken.words) if role == "user" else spoken.words
            draft.counts.update({OTHER_PARTS: spoken.other} if spoken.other else {})
            content = "\n".join(filter(None, [own, *spoken.tools]))
            if content:
                draft.messages.append(Message(content=content, role=role if own else "tool"))
        elif not words(line.get("type")):
            yield Unread(f"line {number}", "it is not a message")
    yield draft.finished()


_QUERY = re.compile(r"<user_query>(.*?)</user_query>", re.DOTALL)


def _own_words(text: str) -> str:
    """Return what somebody typed, without what the program put around it."""
    typed = [one.strip() for one in _QUERY.findall(text)]
    return "\n\n".join(filter(None, typed)) if typed else text
