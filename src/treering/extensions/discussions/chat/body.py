"""The body of a chat request: its messages read, and its text edited without touching anything else.

A body belongs to the client and the upstream, whose fields and numbers are not ours to know. So nothing is written
anew: only the strings that change are replaced where they stand in the JSON text.
"""

import json
import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from json import JSONDecoder

from treering.core.characters import well_formed
from treering.core.fencing import without_recalled
from treering.extensions.discussions.identity import without_tags
from treering.verbs.ingest.turns import Message

Json = Mapping[str, "Json"] | Sequence["Json"] | str | bool | None


def _left_alone(_number: str) -> None:
    """Read a number as nothing: nobody looks at it, and one of thousands of digits is too long for Python."""


_DECODER = JSONDecoder(parse_int=_left_alone, parse_float=_left_alone, parse_constant=_left_alone)
_SPACE = re.compile(r"[ \t\n\r]*")
MOST_MESSAGES = 2_000
"""So many of the newest messages are remembered: storing takes some milliseconds for each that is new."""
_LEADING = ("system", "developer")
_USER = "user"
_TEXT_PART = "text"
_PARTS = {
    **dict.fromkeys(("image_url", "input_image", "image"), "image"),
    **dict.fromkeys(("input_audio", "audio", "audio_url"), "audio"),
    **dict.fromkeys(("file", "input_file"), "file"),
    **dict.fromkeys(("video_url", "input_video", "video"), "video"),
}
"""Parts that are no text, by their type."""


@dataclass(frozen=True, slots=True)
class ChatBody:
    """A chat request that could be read."""

    text: str
    """The JSON text, without the tags that may name a discussion."""
    messages: tuple[Message, ...]
    """What was said last, as far as it is text; a message without text is empty. At most `MOST_MESSAGES`."""
    tags: tuple[str, ...] = ()
    """The discussions that tags name, unchecked: each once."""
    user: str | None = None
    """The field `user`."""

    def with_recalled(self, block: str) -> bytes:
        """Return the body with a recalled text for the model.

        It goes to the end of the system message that leads the conversation, or becomes one: many upstreams take
        only one, and only in front.
        """
        edit = _insertion(self.text, block)
        return _edited(self.text, [edit]).encode()

    @property
    def data(self) -> bytes:
        """The body as it is passed on where nothing is recalled."""
        return self.text.encode()


def read_chat_body(data: bytes, *, tags: bool) -> ChatBody | None:
    """Read a chat request; return `None` if it is not one, and leave the error to the upstream.

    `tags`: the client may name the discussion by a tag, in its first system message or else in the last message of
    the user. Nobody else's words name one: what a tool gave, or what an answer repeats, is text.
    """
    try:
        text = data.decode()
        asked, _ = _DECODER.raw_decode(text, _after_space(text, 0))
        if not isinstance(asked, Mapping) or not isinstance(asked.get("messages"), list):
            return None
        user = asked.get("user")
        body = ChatBody(text, _said(asked["messages"][-MOST_MESSAGES:]), user=user if isinstance(user, str) else None)
        return _without_tags(body) if tags else body
    except (ValueError, RecursionError):
        return None


def text_of(content: Json) -> str:
    """Return the text of a message's content: a string, parts of which some are text, or nothing.

    Without text, parts are named: a message that is a picture alone is `[image]`.
    """
    match content:
        case str():
            return well_formed(content)
        case list():
            parts = [part for part in content if isinstance(part, Mapping)]
            texts = [text for part in parts if isinstance(text := part.get("text"), str)]
            if any(map(str.strip, texts)):
                return well_formed("\n".join(texts))
            return "\n".join(f"[{name}]" for part in parts if (name := _PARTS.get(str(part.get("type")), "")))
        case _:
            return ""


@dataclass(frozen=True, slots=True)
class _Part:
    """A value, and where it stands in the JSON text."""

    start: int
    end: int
    value: Json


@dataclass(frozen=True, slots=True)
class _Edit:
    start: int
    end: int
    text: str


def _said(messages: Sequence[Json]) -> tuple[Message, ...]:
    return tuple(_message(one) for one in messages)


def _message(data: Json) -> Message:
    if not isinstance(data, Mapping):
        return Message(content="")
    role, name = data.get("role"), data.get("name")
    return Message(
        content=text_of(data.get("content")),
        role=well_formed(role) if isinstance(role, str) else "",
        name=well_formed(name) if isinstance(name, str) else "",
    )


def _without_tags(body: ChatBody) -> ChatBody:
    system, user = _naming(_messages_of(body.text))
    edits: list[_Edit] = []
    named: list[tuple[str, ...]] = []
    for message in (system, user):
        texts = [(literal, str(literal.value)) for literal in _texts(body.text, message)]
        named.append(tuple(dict.fromkeys(name for _, text in texts for name in _named(text))))
        edits += [
            _Edit(literal.start, literal.end, json.dumps(bare))
            for literal, text in texts
            if (bare := without_tags(text).text) != text
        ]
    text = _edited(body.text, sorted(edits, key=lambda edit: edit.start))
    return replace(body, text=text, tags=named[0] or named[1], messages=tuple(map(_bare, body.messages)))


def _naming(messages: Iterable[_Part]) -> tuple[_Part | None, _Part | None]:
    """Return the first system message and the last one of the user."""
    system: _Part | None = None
    user: _Part | None = None
    for message in messages:
        role = _role(message)
        system = message if system is None and role in _LEADING else system
        user = message if role == _USER else user
    return system, user


def _named(text: str) -> Iterator[str]:
    """Yield the ids that a text names itself, and not what it quotes of this memory."""
    own, _ = without_recalled(text)
    yield from (name.strip() for name in without_tags(own).ids)


def _bare(message: Message) -> Message:
    """Return a message of the user without tags: each was the last one once, and is told again with the next."""
    tagged = without_tags(message.content) if message.role == _USER else None
    return message.model_copy(update={"content": tagged.text}) if tagged and tagged.ids else message


def _role(message: _Part) -> Json:
    return message.value.get("role") if isinstance(message.value, Mapping) else None


def _texts(text: str, message: _Part | None) -> Iterator[_Part]:
    """Yield every string of a message that is its text."""
    content = _member(text, message, "content") if message else None
    match content:
        case _Part(value=str()):
            yield content
        case _Part(value=list()):
            parts = (_member(text, part, _TEXT_PART) for part in _elements(text, content.start))
            yield from (part for part in parts if part and isinstance(part.value, str))


def _insertion(text: str, block: str) -> _Edit:
    leading = _leading(_messages_of(text))
    content = _member(text, leading, "content") if leading else None
    match content:
        case _Part(value=str()):
            at = content.end - 1  # before the closing quote
            return _Edit(at, at, json.dumps(f"\n\n{block}")[1:-1])
        case _Part(value=list()):
            at, comma = content.end - 1, "," if content.value else ""
            return _Edit(at, at, comma + json.dumps({"type": _TEXT_PART, "text": block}))
        case _:
            messages = _array(text)
            at, comma = messages.start + 1, "," if messages.value else ""
            return _Edit(at, at, json.dumps({"role": "system", "content": block}) + comma)


def _leading(messages: Iterable[_Part]) -> _Part | None:
    """Return the last of the system messages that stand in front."""
    last: _Part | None = None
    for message in messages:
        if _role(message) not in _LEADING:
            break
        last = message
    return last


def _messages_of(text: str) -> Iterator[_Part]:
    return _elements(text, _array(text).start)


def _array(text: str) -> _Part:
    """Return the list of messages, which a body has that could be read."""
    messages = _member(text, _Part(_after_space(text, 0), len(text), {}), "messages")
    if messages is None:
        raise ValueError("no messages")
    return messages


def _member(text: str, holder: _Part, name: str) -> _Part | None:
    """Return a member of an object; the last of several of one name, as JSON is commonly read."""
    if not isinstance(holder.value, Mapping):
        return None
    found = [part for key, part in _members(text, holder.start) if key == name]
    return found[-1] if found else None


def _members(text: str, start: int) -> Iterator[tuple[str, _Part]]:
    """Yield the members of the object that begins at `start`, in a text that is known to be JSON."""
    at = _after_space(text, start + 1)
    while text[at] != "}":
        key, end = _DECODER.raw_decode(text, at)
        value = _part(text, _after_space(text, end) + 1)
        yield key, value
        at = _next(text, value)


def _elements(text: str, start: int) -> Iterator[_Part]:
    """Yield the elements of the array that begins at `start`."""
    at = _after_space(text, start + 1)
    while text[at] != "]":
        value = _part(text, at)
        yield value
        at = _next(text, value)


def _part(text: str, at: int) -> _Part:
    start = _after_space(text, at)
    value, end = _DECODER.raw_decode(text, start)
    return _Part(start, end, value)


def _next(text: str, part: _Part) -> int:
    at = _after_space(text, part.end)
    return _after_space(text, at + 1) if text[at] == "," else at


def _after_space(text: str, at: int) -> int:
    found = _SPACE.match(text, at)
    return found.end() if found else at


def _edited(text: str, edits: Sequence[_Edit]) -> str:
    """Apply edits, which are in order and do not overlap."""
    parts, at = [], 0
    for edit in edits:
        parts += [text[at : edit.start], edit.text]
        at = edit.end
    return "".join([*parts, text[at:]])
