"""One JSON document: a list of conversations, a list of messages, or a single conversation."""

import json
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass, replace
from itertools import chain, islice

from treering.edges.sources.conversations import chatgpt, claude_ai, claude_code, role_messages
from treering.edges.sources.conversations.conversation import Conversation, Parsed, Unread, beginning
from treering.edges.sources.loose_json import (
    Malformed,
    Record,
    elements,
    listed,
    over_limit,
    parse,
    record,
)


@dataclass(frozen=True, slots=True)
class Form:
    """A form in which a conversation is one JSON object: how to tell it, and how to read it."""

    claims: Callable[[Record], bool]
    read: Callable[[Record], Conversation]


FORMS = (
    Form(chatgpt.claims, chatgpt.read),
    Form(claude_ai.claims, claude_ai.read),
    Form(role_messages.claims, role_messages.read),
)


def read(data: bytes, *, most_bytes: int) -> Iterator[Parsed] | None:
    """Read a document; `None`: it holds no conversations. A broken one does not hide the others of a list.

    `most_bytes` bounds what is parsed as a whole: an element of a list, or the document where it is an object.
    """
    data = _in_utf8(data)
    match data[:1]:
        case b"[":
            return _read_list(data, most_bytes)
        case b"{":
            return _read_object(_parsed(data, most_bytes))
        case _:
            return None


_LOOKED_AT = 20


def _in_utf8(data: bytes) -> bytes:
    encoding = json.detect_encoding(data[:4])
    known = data if encoding in {"utf-8", "utf-8-sig"} else data.decode(encoding, "replace").encode()
    return known.removeprefix(b"\xef\xbb\xbf").lstrip()


def _read_list(data: bytes, most_bytes: int) -> Iterator[Parsed] | None:
    """Read a list element by element: only one of them is in memory as more than bytes."""
    found = (_parsed(element, most_bytes) for element in elements(data))
    first = list(islice(found, _LOOKED_AT))
    readable = [value for value in first if not isinstance(value, Malformed)]
    if readable and 2 * sum(_form(value) is not None for value in readable) >= len(readable):
        return _conversations(chain(first, found))
    if role_messages.are_messages(readable):
        return _messages(chain(first, found))
    return None


def _parsed(element: bytes | Malformed, most_bytes: int) -> object:
    if isinstance(element, Malformed):
        return element
    return parse(element) if len(element) <= most_bytes else over_limit(most_bytes)


def _read_object(value: object) -> Iterator[Parsed] | None:
    found = record(value)
    if claude_code.claims(found):
        return claude_code.read_loglines(found)
    inside = listed(found.get("conversations"))
    if inside and 2 * sum(_form(one) is not None for one in inside) >= len(inside):
        return _conversations(inside)
    form = _form(found)
    return iter([form.read(found)]) if form else None


def _form(value: object) -> Form | None:
    found = record(value)
    return next((form for form in FORMS if found and form.claims(found)), None)


def _conversations(values: Iterable[object]) -> Iterator[Parsed]:
    for number, value in enumerate(values, start=1):
        form = _form(value)
        if isinstance(value, Malformed):
            yield Unread(f"conversation {number}", value.why)
        elif form is None:
            yield Unread(f"conversation {number}", "it is not a conversation of a form known here")
        else:
            conversation = form.read(record(value))
            yield conversation if conversation.id else replace(conversation, id=beginning(conversation))


def _messages(values: Iterable[object]) -> Iterator[Parsed]:
    messages: list[Record] = []
    for number, value in enumerate(values, start=1):
        if isinstance(value, Malformed):
            yield Unread(f"message {number}", value.why)
        elif not role_messages.is_message(value):
            yield Unread(f"message {number}", "it is not a message")
        else:
            messages.append(record(value))
    yield role_messages.of_messages(messages)
