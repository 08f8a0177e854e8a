"""Conversations as a file tells them, before they are kept."""

import re
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from datetime import UTC, datetime
from typing import Literal

from pydantic import JsonValue

from treering.core.canonical import digest, render_time
from treering.extensions.conversations.session_work import SESSION, SessionWork
from treering.sources.reading.loose_json import Record, first_words, listed, moment, record, words
from treering.verbs.ingest.known import AS_OF
from treering.verbs.ingest.turns import Message

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
    """A conversation while it is read. `counts` holds what a person should know, with how often.

    `ids_are_unique`: messages of one id are one message, which the last of them tells.
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

    def finished(self) -> Conversation:
        """Return it as a value. Where the file names no time, the first and the last message do."""
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
        """Return the messages, each once: a program may write them again, after a compaction for example."""
        found: dict[object, Message] = {}
        for place, message in enumerate(self.messages):
            identity = message.id if self.ids_are_unique else message
            before = found.setdefault(identity if message.id else place, message)
            if before.content != message.content:
                found[identity] = message
                self.counts[EDITED] += 1
        return tuple(found.values())


EDITED = "message(s) were rewritten: the last version counts"
"""What a conversation's notes say of messages of one id that differ."""


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


# What a message says: its words out of text, parts, pictures and the use of tools.


OTHER_PARTS = "part(s) without text are only named"
"""What a conversation's notes say of parts that only have a name in it."""


@dataclass(frozen=True, slots=True)
class Said:
    """The words of a message, the tools it uses (one short line each), and how many parts are no text."""

    words: str = ""
    tools: tuple[str, ...] = ()
    other: int = 0

    @property
    def text(self) -> str:
        """Return the words, and below them the tools."""
        return "\n".join(filter(None, [self.words, *self.tools]))

    def __bool__(self) -> bool:
        return bool(self.words or self.tools)


def said(content: object) -> Said:
    """Read a content: a text, a list of parts, or an object with either. Thoughts and results of tools are left out."""
    inside = record(content).get("parts", content)
    found = [_part(part) for part in (listed(inside) or [inside])]
    return Said(
        words="\n\n".join(one.words for one in found if one.words),
        tools=tuple(line for one in found for line in one.tools),
        other=sum(one.other for one in found),
    )


def tool_line(name: str, given: object) -> str:
    """Say in one short line which tool was used on what; empty where it was given nothing that tells."""
    gist = " ".join((words(given) or first_words(record(given), *_TELLING)).split())
    shown = gist if len(gist) <= _GIST_CHARS else gist[: _GIST_CHARS - 1] + "…"
    return f"[{name}] {shown}" if shown else ""


_GIST_CHARS = 160
_TELLING = tuple("command pattern query url file_path notebook_path path description prompt name".split())
_TOOLS = frozenset({"tool_use", "function_call", "tool_call", "functioncall", "server_tool_use"})
_SILENT = frozenset(
    "thinking redacted_thinking reasoning thought thoughts reasoning_recap tool_result function_response "
    "function_call_output token_budget tool_response web_search_tool_result flag".split()
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
        line = tool_line(first_words(found, "name", "tool_name") or "tool", found.get("input", found.get("arguments")))
        return Said(tools=(line,) if line else ())
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


# When a recording began, as far as its file tells.


def begun_at(name: str, heads: str) -> datetime | None:
    """Return the time a file's first lines or its name tell; where they tell a day only, its beginning in UTC.

    Known forms: ISO 8601, and `GMT20240501-150000` in names of recordings.
    """
    for text in (heads, name):
        if found := _COMPACT.search(text):
            return _compact(found)
        if found := _ISO.search(text):
            return moment(re.sub(r"[ _]", "T", found[0], count=1).replace(" ", ""))
    return None


_COMPACT = re.compile(r"(?<!\d)GMT(?P<day>\d{8})-(?P<time>\d{6})(?!\d)")
_ISO = re.compile(
    r"(?<![\d-])\d{4}-\d\d-\d\d(?:[T _]\d\d:\d\d(?::\d\d(?:\.\d{1,6})?)?(?: ?Z| ?[+-]\d\d:?\d\d)?)?(?![\d-])"
)


def _compact(found: re.Match[str]) -> datetime | None:
    try:
        time = datetime.strptime(found["day"] + found["time"], "%Y%m%d%H%M%S").replace(tzinfo=UTC)
    except ValueError:
        return None
    return moment(time.isoformat())


# Conversations that fork: where an answer was made anew or a question edited, one way is the current one.


BRANCHES = "message(s) on inactive branches were skipped"
"""What a conversation's notes say of the ways not taken."""


def way_to(leaf: str, parents: Mapping[str, str]) -> list[str]:
    """Return the nodes from the root to `leaf`; a circle ends where it closes."""
    way: dict[str, None] = {}
    node = leaf
    while node in parents and node not in way:
        way[node] = None
        node = parents[node]
    return list(reversed(way))


def leaves(parents: Mapping[str, str]) -> Iterable[str]:
    """Return the nodes nothing answers."""
    answered = set(parents.values())
    return [node for node in parents if node not in answered]
