"""Conversations as read from a file, before they are stored."""

import re
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from datetime import datetime
from typing import Literal

from pydantic import JsonValue

from treering.core.canonical import digest, render_time
from treering.core.patch import shortened
from treering.extensions.conversations.loose_json import Record, first_words, listed, moment, record, words
from treering.extensions.conversations.session_work import SESSION, SessionWork
from treering.verbs.ingest.known import AS_OF
from treering.verbs.ingest.turns import Message

Kind = Literal["conversation", "meeting_record"]


@dataclass(frozen=True, slots=True)
class Conversation:
    """One conversation or meeting with its messages, oldest first.

    `id` is unique in its file, and empty if the file contains only one. `metadata` contains the `format` and, if known,
    `as_of`: the time up to which it was exported.
    """

    id: str
    title: str
    messages: tuple[Message, ...]
    kind: Kind = "conversation"
    created: datetime | None = None
    metadata: Mapping[str, JsonValue] = field(default_factory=dict)
    notes: tuple[str, ...] = ()
    """Notes on how it was read."""
    known_as: str = ""
    """A name that is the same in every export of it, such as `chatgpt:` and its UUID; else empty."""


@dataclass(frozen=True, slots=True)
class Unread:
    """A part of a file that could not be read: its place, such as `line 7`, and the reason."""

    place: str
    why: str


Parsed = Conversation | Unread
"""The result of reading one part of a file."""


@dataclass(frozen=True, slots=True)
class Conversations:
    """The conversations of a file, and the problems of unreadable parts."""

    conversations: tuple[Conversation, ...]
    problems: tuple[str, ...] = ()


@dataclass(slots=True)
class ConversationDraft:
    """A conversation being read. `counts`: notes, with their number of occurrences.

    `ids_are_unique`: messages with the same id are versions of one message; the last one counts.
    """

    format: str
    id: str = ""
    title: str = ""
    kind: Kind = "conversation"
    created: datetime | None = None
    updated: datetime | None = None
    messages: list[Message] = field(default_factory=list)
    counts: Counter[str] = field(default_factory=Counter)
    metadata: dict[str, JsonValue] = field(default_factory=dict)
    ids_are_unique: bool = False
    work: SessionWork = field(default_factory=SessionWork)

    def count_other(self, parts: int) -> None:
        """Note parts without text."""
        if parts:
            self.counts[OTHER_PARTS] += parts

    def say(self, spoken: "Said", role: str, *, name: str = "", identity: str = "", at: datetime | None = None) -> None:
        """Add a message, unless it is empty. One with tool calls only has the role `tool`."""
        self.count_other(spoken.other)
        if not spoken:
            return
        role = role if spoken.words else "tool"
        self.messages.append(Message(content=spoken.text, role=role, name=name, id=identity, at=at))
        if role == "user":
            self.work.request(spoken.words)

    def finished(self) -> Conversation:
        """Return the conversation. If the file contains no times, those of the messages are used."""
        messages = self._each_once()
        times = [message.at for message in messages if message.at]
        until = max([*times, *([self.updated] if self.updated else [])], default=None)
        as_of: dict[str, JsonValue] = {AS_OF: render_time(until)} if until else {}
        facts = self.work.facts()
        session: dict[str, JsonValue] = {SESSION: facts} if facts else {}
        return Conversation(
            id=fitting(self.id),
            title=" ".join(self.title.split())[:_TITLE_CHARS],
            messages=messages,
            kind=self.kind,
            created=self.created or min(times, default=None),
            metadata={"format": self.format, **as_of, **session, **self.metadata},
            notes=tuple(f"{count} {what}" for what, count in self.counts.items()),
            known_as=_known_as(self.format, self.id),
        )

    def _each_once(self) -> tuple[Message, ...]:
        """Return the distinct messages: a program may write them again, for example after a compaction."""
        distinct: dict[object, Message] = {}
        for place, message in enumerate(self.messages):
            identity = message.id if self.ids_are_unique else message
            before = distinct.setdefault(identity if message.id else place, message)
            if before.content != message.content:
                distinct[identity] = message
                self.counts[EDITED] += 1
        return tuple(distinct.values())


EDITED = "message(s) were rewritten: the last version counts"
"""The note on messages with the same id and different content."""


def fitting(name: str) -> str:
    """Return a name that is valid in an origin."""
    shown = _UNFIT.sub("-", name.strip())
    return shown if len(shown) <= _ID_CHARS else f"{shown[:_ID_CHARS]}-{digest(name)[:12]}"


def named_apart(conversations: Sequence[Conversation]) -> list[Conversation]:
    """Give conversations without an id one derived from their beginning, which stays the same in longer exports."""
    if len(conversations) == 1:
        return list(conversations)
    return [one if one.id else replace(one, id=beginning(one)) for one in conversations]


def beginning(conversation: Conversation) -> str:
    """Return an id derived from the first message."""
    first = next(iter(conversation.messages), None)
    if first is None:
        return "empty"
    return fitting(first.id) if first.id else digest(f"{conversation.created}\n{first.key}")[:_KEY_CHARS]


def _known_as(form: str, identity: str) -> str:
    """Return a global name for a random id, which is unique; `conv_001` is not."""
    return f"{form}:{identity.lower()}" if _UUID.fullmatch(identity) else ""


_TITLE_CHARS = 200
_ID_CHARS = 120
_KEY_CHARS = 16
_UNFIT = re.compile(r"[\s#\x00-\x1f\x7f]+")
_UUID = re.compile(r"[0-9a-fA-F]{8}(?:-[0-9a-fA-F]{4}){3}-[0-9a-fA-F]{12}")


Line = tuple[int, object]
"""The number of a line from 1, and its value."""


def read_session(
    draft: ConversationDraft, lines: Iterable[Line], take: Callable[[Record, ConversationDraft], bool]
) -> Iterator[Parsed]:
    """Read the lines of a session into a draft. `take` adds a line, and returns whether it belongs to a session."""
    for number, value in lines:
        if not take(record(value), draft):
            yield Unread(f"line {number}", "it is not a message")
    if draft.messages:
        yield draft.finished()


OTHER_PARTS = "part(s) without text are only named"
"""The note on parts that are only named."""


@dataclass(frozen=True, slots=True)
class Said:
    """The text of a message, its tool calls (`tool_line`), and the number of parts without text."""

    words: str = ""
    tools: tuple[str, ...] = ()
    other: int = 0

    @property
    def text(self) -> str:
        """The text, and below it the tool calls."""
        return "\n".join(filter(None, [self.words, *self.tools]))

    def __bool__(self) -> bool:
        return bool(self.text)


def said(content: object) -> Said:
    """Read a text, a list of parts, or an object with either. Thoughts and results of tools are skipped."""
    inside = record(content).get("parts", content)
    parts = [_part(part) for part in (listed(inside) or [inside])]
    return Said(
        words="\n\n".join(one.words for one in parts if one.words),
        tools=tuple(line for one in parts for line in one.tools),
        other=sum(one.other for one in parts),
    )


def tool_line(name: str, given: object) -> str:
    """Return a short line about a tool call; empty if its arguments contain nothing telling."""
    gist = " ".join((words(given) or first_words(record(given), *_TELLING)).split())
    return f"[{name or 'tool'}] {shortened(gist, _GIST_CHARS)}" if gist else ""


_GIST_CHARS = 160
_TELLING = tuple("command pattern query url file_path notebook_path path description prompt name".split())
_TOOLS = frozenset({"tool_use", "function_call", "tool_call", "functioncall", "server_tool_use"})
_SILENT = frozenset(
    "thinking redacted_thinking reasoning thought thoughts reasoning_recap tool_result function_response "
    "function_call_output injected_prompt_block token_budget tool_response web_search_tool_result flag".split()
)
_AFFIXES = re.compile(r"^(?:input_|real_time_user_)|(?:_asset_pointer|_url)$")


def _part(part: object) -> Said:
    if isinstance(part, str):
        return Said(words(part).strip())
    found = record(part)
    kind = first_words(found, "type", "content_type").lower()
    if not found or kind in _SILENT or found.get("thought") is True:
        return Said()
    if kind in _TOOLS:
        given = found.get("input", found.get("arguments"))
        return Said(tools=(tool_line(first_words(found, "name", "tool_name"), given),))
    text = first_words(found, "text", "value").strip()
    return Said(text) if text else _named(found, kind)


def _named(found: Record, kind: str) -> Said:
    if kind in _TEXTUAL:  # an empty text
        return Said()
    name = first_words(found, "file_name", "filename", "name")
    what = _AFFIXES.sub("", kind)[:_KIND_CHARS] or "attachment"
    return Said(f"[{what}: {name}]" if name else f"[{what}]", other=1)


_TEXTUAL = frozenset({"text", "input_text", "output_text", "audio_transcription", "markdown"})
_KIND_CHARS = 40


def begun_at(name: str, heads: str) -> datetime | None:
    """Return the time in a file's first lines or its name; a day without a time begins at midnight UTC.

    Known forms: ISO 8601, and `GMT20240501-150000` in names of recordings.
    """
    for text in (heads, name):
        if match := _COMPACT.search(text):
            return moment(f"{match['day']}T{match['time']}Z")
        if match := _ISO.search(text):
            return moment(re.sub(r"[ _]", "T", match[0], count=1).replace(" ", ""))
    return None


_COMPACT = re.compile(r"(?<!\d)GMT(?P<day>\d{8})-(?P<time>\d{6})(?!\d)")
_ISO = re.compile(
    r"(?<![\d-])\d{4}-\d\d-\d\d(?:[T _]\d\d:\d\d(?::\d\d(?:\.\d{1,6})?)?(?: ?Z| ?[+-]\d\d:?\d\d)?)?(?![\d-])"
)


BRANCHES = "message(s) on inactive branches were skipped"
"""The note on skipped branches."""


def way_to(leaf: str, parents: Mapping[str, str]) -> list[str]:
    """Return the nodes from the root to `leaf`; a cycle ends where it closes."""
    way: dict[str, None] = {}
    node = leaf
    while node in parents and node not in way:
        way[node] = None
        node = parents[node]
    return list(reversed(way))


def leaves(parents: Mapping[str, str]) -> Iterable[str]:
    """Return the nodes without successors."""
    answered = set(parents.values())
    return [node for node in parents if node not in answered]
