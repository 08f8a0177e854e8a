"""Conversations as a file tells them, before they are kept."""

import re
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from datetime import datetime
from typing import Literal

from pydantic import JsonValue

from treering.core.canonical import digest
from treering.core.times import render_time
from treering.tools.conversation_exports import AS_OF
from treering.tools.turns import Message

Kind = Literal["conversation", "meeting_record"]


@dataclass(frozen=True, slots=True)
class Conversation:
    """One conversation or meeting: what was said, oldest first.

    `id` tells it from others of its file; it is empty where the file tells no other. `metadata` names the
    `format` and, where the file says so, `as_of`: until when it was told.
    """

    id: str
    title: str
    messages: tuple[Message, ...]
    kind: Kind = "conversation"
    created: datetime | None = None
    metadata: Mapping[str, JsonValue] = field(default_factory=dict)
    notes: tuple[str, ...] = ()
    """What a person should know of how it was read."""
    known_as: str = ""
    """A name that is the same in every export of it, such as `chatgpt:` and its UUID; else empty."""


@dataclass(frozen=True, slots=True)
class Unread:
    """A part of a file that could not be read: where it stands, such as `line 7`, and why."""

    place: str
    why: str


Parsed = Conversation | Unread
"""What reading one part of a file gave."""


@dataclass(frozen=True, slots=True)
class Conversations:
    """All conversations of a file, and what of it could not be read."""

    conversations: tuple[Conversation, ...]
    problems: tuple[str, ...] = ()


@dataclass(slots=True)
class ConversationDraft:
    """A conversation while it is read. `counts` holds what a person should know, with how often."""

    format: str
    id: str = ""
    title: str = ""
    kind: Kind = "conversation"
    created: datetime | None = None
    updated: datetime | None = None
    messages: list[Message] = field(default_factory=list)
    counts: Counter[str] = field(default_factory=Counter)
    metadata: dict[str, JsonValue] = field(default_factory=dict)

    def finished(self) -> Conversation:
        """Return it as a value. Where the file names no time, the first and the last message do."""
        times = [message.at for message in self.messages if message.at]
        until = max([*times, *([self.updated] if self.updated else [])], default=None)
        as_of: dict[str, JsonValue] = {AS_OF: render_time(until)} if until else {}
        return Conversation(
            id=fitting(self.id),
            title=" ".join(self.title.split())[:_TITLE_CHARS],
            messages=tuple(self.messages),
            kind=self.kind,
            created=self.created or min(times, default=None),
            metadata={"format": self.format, **as_of, **self.metadata},
            notes=tuple(f"{count} {what}" for what, count in self.counts.items()),
            known_as=_known_as(self.format, self.id),
        )


def fitting(name: str) -> str:
    """Return a name that may stand in an origin."""
    shown = _UNFIT.sub("-", name.strip())
    return shown if len(shown) <= _ID_CHARS else f"{shown[:_ID_CHARS]}-{digest(name)[:12]}"


def named_apart(found: Sequence[Conversation]) -> list[Conversation]:
    """Name the conversations of a file that come without an id by how they begin, so that a longer export keeps it."""
    if len(found) == 1:
        return list(found)
    return [one if one.id else replace(one, id=beginning(one)) for one in found]


def beginning(conversation: Conversation) -> str:
    """Name a conversation by its first message."""
    first = next(iter(conversation.messages), None)
    if first is None:
        return "empty"
    return fitting(first.id) if first.id else digest(f"{conversation.created}\n{first.key}")[:_KEY_CHARS]


def _known_as(form: str, identity: str) -> str:
    """Trust an id to be the only one of its kind only where it is random enough; `conv_001` is not."""
    return f"{form}:{identity.lower()}" if _UUID.fullmatch(identity) else ""


_TITLE_CHARS = 200
_ID_CHARS = 120
_KEY_CHARS = 16
_UNFIT = re.compile(r"[\s#\x00-\x1f\x7f]+")
_UUID = re.compile(r"[0-9a-fA-F]{8}(?:-[0-9a-fA-F]{4}){3}-[0-9a-fA-F]{12}")
