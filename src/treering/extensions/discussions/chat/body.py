"""The body of a chat request: reading its messages, and editing its text without changing anything else.

The fields and numbers of a body belong to the client and the upstream. So the body is not serialized again: only the
strings that change are replaced in the JSON text.
"""

import json
import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import takewhile
from json import JSONDecoder

from treering.core.characters import well_formed
from treering.core.fencing import without_recalled
from treering.extensions.discussions.identity import without_tags
from treering.verbs.ingest.turns import Message

Json = Mapping[str, "Json"] | Sequence["Json"] | str | bool | None


def _ignored(_number: str) -> None:
    """Ignore numbers: they are not needed, and Python rejects those with thousands of digits."""


_DECODER = JSONDecoder(parse_int=_ignored, parse_float=_ignored, parse_constant=_ignored)
_SPACE = re.compile(r"[ \t\n\r]*")
MAX_MESSAGES = 2_000
"""The maximum number of latest messages that are stored: storing takes some milliseconds per new message."""
_LEADING = ("system", "developer")
_USER = "user"
_TEXT_PART = "text"
_PARTS = {
    **dict.fromkeys(("image_url", "input_image", "image"), "image"),
    **dict.fromkeys(("input_audio", "audio", "audio_url"), "audio"),
    **dict.fromkeys(("file", "input_file"), "file"),
    **dict.fromkeys(("video_url", "input_video", "video"), "video"),
}
"""The names of parts without text, by type."""


@dataclass(frozen=True, slots=True)
class ChatBody:
    """A chat request that could be read."""

    text: str
    """The JSON text, without the tags that may name a discussion."""
    messages: tuple[Message, ...]
    """The text of the latest messages, empty for those without text. At most `MAX_MESSAGES`."""
    tags: tuple[str, ...] = ()
    """The discussions that tags name, unchecked and distinct."""
    user: str | None = None
    """The field `user`."""

    def with_recalled(self, block: str) -> bytes:
        """Return the body with a recalled text for the model.

        The text is appended to the leading system message, or becomes one: many upstreams accept only one, and only at
        the beginning.
        """
        return _edited(self.text, [_insertion(self.text, block)]).encode()

    @property
    def data(self) -> bytes:
        """The body to forward if nothing is recalled."""
        return self.text.encode()


def read_chat_body(data: bytes, *, tags: bool) -> ChatBody | None:
    """Read a chat request; return `None` if it is not one, and leave the error to the upstream.

    `tags`: the client may name the discussion by a tag in its first system message, or else in the last user message.
    Tags in other messages are text: results of tools and answers may quote them.
    """
    try:
        text = data.decode()
        request, _ = _DECODER.raw_decode(text, _after_space(text, 0))
        if not isinstance(request, Mapping) or not isinstance(request.get("messages"), list):
            return None
        user = request.get("user")
        messages = tuple(map(_message, request["messages"][-MAX_MESSAGES:]))
        body = ChatBody(text, messages, user=user if isinstance(user, str) else None)
        return _without_tags(body) if tags else body
    except (ValueError, RecursionError):
        return None


def text_of(content: Json) -> str:
    """Return the text of a message's content: a string, or a list of parts some of which are text.

    Without text, other parts are named: a message with only a picture is `[image]`.
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
    """A value and its position in the JSON text. `name`: its name in an object."""

    start: int
    end: int
    value: Json
    name: str = ""


@dataclass(frozen=True, slots=True)
class _Edit:
    start: int
    end: int
    text: str


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
    edits: list[_Edit] = []
    tags: tuple[str, ...] = ()
    for message in _tagged_messages(body.text):
        texts = [(literal, str(literal.value)) for literal in _texts(body.text, message)]
        tags = tags or tuple(dict.fromkeys(tag for _, text in texts for tag in _own_tags(text)))
        edits += [
            _Edit(literal.start, literal.end, json.dumps(bare))
            for literal, text in texts
            if (bare := without_tags(text).text) != text
        ]
    text = _edited(body.text, sorted(edits, key=lambda edit: edit.start))
    return replace(body, text=text, tags=tags, messages=tuple(map(_without_user_tags, body.messages)))


def _tagged_messages(text: str) -> list[_Part]:
    """Return the messages that may contain tags: the first system message, then the last user message."""
    messages = list(_children(text, _array(text)))
    system = next((message for message in messages if _role(message) in _LEADING), None)
    user = next((message for message in reversed(messages) if _role(message) == _USER), None)
    return [message for message in (system, user) if message]


def _own_tags(text: str) -> Iterator[str]:
    """Yield the ids of the tags in a text, except in quoted memories and in tags that a template left empty."""
    own, _ = without_recalled(text)
    yield from filter(None, (name.strip() for name in without_tags(own).ids))


def _without_user_tags(message: Message) -> Message:
    """Return a user message without tags: earlier ones had a tag when they were the last message."""
    tagged = without_tags(message.content) if message.role == _USER else None
    return message.model_copy(update={"content": tagged.text}) if tagged and tagged.ids else message


def _role(message: _Part) -> Json:
    return message.value.get("role") if isinstance(message.value, Mapping) else None


def _texts(text: str, message: _Part) -> Iterator[_Part]:
    """Yield every string of a message that is its text."""
    match content := _member(text, message, "content"):
        case _Part(value=str()):
            yield content
        case _Part(value=list()):
            parts = (_member(text, part, _TEXT_PART) for part in _children(text, content))
            yield from (part for part in parts if part and isinstance(part.value, str))


def _insertion(text: str, block: str) -> _Edit:
    messages = _array(text)
    leading = list(takewhile(lambda message: _role(message) in _LEADING, _children(text, messages)))
    match content := _member(text, leading[-1], "content") if leading else None:
        case _Part(value=str()):
            at = content.end - 1  # before the closing quote
            return _Edit(at, at, json.dumps(f"\n\n{block}")[1:-1])
        case _Part(value=list()):
            at, comma = content.end - 1, "," if content.value else ""
            return _Edit(at, at, comma + json.dumps({"type": _TEXT_PART, "text": block}))
        case _:
            at, comma = messages.start + 1, "," if messages.value else ""
            return _Edit(at, at, json.dumps({"role": "system", "content": block}) + comma)


def _array(text: str) -> _Part:
    """Return the list of messages of a valid body."""
    messages = _member(text, _Part(_after_space(text, 0), len(text), {}), "messages")
    if messages is None:
        raise ValueError("no messages")
    return messages


def _member(text: str, holder: _Part, name: str) -> _Part | None:
    """Return a member of an object; of several with the same name, the last one, like most JSON parsers."""
    if not isinstance(holder.value, Mapping):
        return None
    return {part.name: part for part in _children(text, holder)}.get(name)


def _children(text: str, holder: _Part) -> Iterator[_Part]:
    """Yield the members of an object, or the elements of a list, of valid JSON text."""
    at = _after_space(text, holder.start + 1)
    while text[at] not in "]}":
        name = ""
        if isinstance(holder.value, Mapping):
            name, end = _DECODER.raw_decode(text, at)
            at = _after_space(text, _after_space(text, end) + 1)
        value, end = _DECODER.raw_decode(text, at)
        yield _Part(at, end, value, name)
        at = _after_space(text, end)
        at = _after_space(text, at + 1) if text[at] == "," else at


def _after_space(text: str, at: int) -> int:
    match = _SPACE.match(text, at)
    return match.end() if match else at


def _edited(text: str, edits: Sequence[_Edit]) -> str:
    """Apply edits, which must be in order and must not overlap."""
    parts, at = [], 0
    for edit in edits:
        parts += [text[at : edit.start], edit.text]
        at = edit.end
    return "".join([*parts, text[at:]])
