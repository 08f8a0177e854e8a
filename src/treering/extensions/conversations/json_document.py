"""One JSON document: a list of conversations, a list of messages, or a single conversation."""

import json
import re
from collections.abc import Callable, Container, Iterable, Iterator, Sequence
from dataclasses import replace
from itertools import chain, islice, pairwise

from treering.extensions.conversations import messages as role_messages
from treering.extensions.conversations.conversation import (
    BRANCHES,
    Conversation,
    ConversationDraft,
    Parsed,
    Said,
    Unread,
    beginning,
    leaves,
    said,
    way_to,
)
from treering.extensions.conversations.loose_json import (
    Malformed,
    Record,
    elements,
    first_moment,
    first_words,
    listed,
    over_limit,
    parse,
    record,
    words,
)


def claims_claude_ai(document: Record) -> bool:
    """Return whether an object is a conversation of Claude.ai."""
    messages = document.get("chat_messages")
    return isinstance(messages, list) and all(isinstance(one, dict) and "sender" in one for one in messages)


def read_claude_ai(document: Record) -> Conversation:
    """Read a conversation of Claude.ai, with attached texts and without thoughts and tool calls."""
    draft = ConversationDraft(
        "claude",
        id=words(document.get("uuid")),
        title=words(document.get("name")),
        created=first_moment(document, "created_at"),
        updated=first_moment(document, "updated_at"),
    )
    messages = [record(one) for one in listed(document.get("chat_messages"))]
    way = _current(document, messages)
    for message in way:
        _take(message, draft)
    if len(way) < len(messages):
        draft.counts[BRANCHES] = len(messages) - len(way)
    return draft.finished()


_ROOTS = ("", "00000000-0000-4000-8000-000000000000")
"""The parents of a first message; there are several first messages if it was edited."""
_ROLES = {"human": "user", "user": "user", "assistant": "assistant"}


def _current(document: Record, messages: Sequence[Record]) -> Sequence[Record]:
    """Return the branch to the current or else the last message; without parents, all messages.

    Exports omit some messages. A message whose parent is missing follows the message before it.
    """
    by_id = {words(one.get("uuid")): one for one in messages if words(one.get("uuid"))}
    parents = {name: words(one.get("parent_message_uuid")) for name, one in by_id.items()}
    if len(by_id) < len(messages) or not any(parent in by_id for parent in parents.values()):
        return messages
    known = {*by_id, *_ROOTS}
    for before, name in pairwise(by_id):
        if parents[name] not in known:
            parents[name] = before
    leaf = words(document.get("current_leaf_message_uuid"))
    return [by_id[name] for name in way_to(leaf if leaf in by_id else next(reversed(by_id)), parents)]


def _take(message: Record, draft: ConversationDraft) -> None:
    spoken = said(message.get("content"))
    if not spoken.words and not any(map(_is_unspoken, listed(message.get("content")))):
        spoken = said(words(message.get("text")))
    attachments = [record(one) for one in listed(message.get("attachments"))]
    attached = [_attached(one) for one in attachments]
    read = {first_words(one, "file_name") for one in attachments}  # files lists them, too
    files = [_file(record(one), read) for one in (*listed(message.get("files")), *listed(message.get("files_v2")))]
    named = list(dict.fromkeys(filter(None, (one.words for one in (*attached, *files)))))
    content = "\n\n".join(filter(None, [spoken.words, *named]))
    other = spoken.other + sum(one.other for one in (*attached, *files))
    sender = words(message.get("sender"))
    role, at = _ROLES.get(sender, sender), first_moment(message, "created_at")
    draft.say(Said(content, other=other), role, identity=words(message.get("uuid")), at=at)


def _is_unspoken(part: object) -> bool:
    """Return whether a part is a thought or a tool call, which the text of the message also contains or replaces."""
    return words(record(part).get("type")) not in ("", "text")


def _attached(document: Record) -> Said:
    text, name = words(document.get("extracted_content")).strip(), first_words(document, "file_name")
    head = f"[attachment: {name}]" if name else "[attachment]"
    return Said(f"{head}\n{text}") if text else Said(head, other=1)


def _file(document: Record, read: Container[str]) -> Said:
    name = first_words(document, "file_name")
    return Said(f"[file: {name}]", other=1) if name and name not in read else Said()


def claims_chatgpt(document: Record) -> bool:
    """Return whether an object is a conversation of ChatGPT."""
    nodes = record(document.get("mapping"))
    if not nodes:
        return "mapping" in document and {"title", "create_time", "current_node"} <= document.keys()
    return all(isinstance(node, dict) and {"message", "parent", "children"} & node.keys() for node in nodes.values())


def read_chatgpt(document: Record) -> Conversation:
    """Read the current branch of a conversation, without hidden messages and those of the system and of tools."""
    nodes = {str(name): record(node) for name, node in record(document.get("mapping")).items()}
    draft = ConversationDraft(
        "chatgpt",
        id=first_words(document, "conversation_id", "id"),
        title=words(document.get("title")),
        created=first_moment(document, "create_time"),
        updated=first_moment(document, "update_time"),
    )
    if model := first_words(document, "default_model_slug"):
        draft.metadata["model"] = model
    way = _current_branch(document, nodes)
    for name in way:
        _take_node(record(nodes[name].get("message")), draft)
    skipped = sum(bool(_spoken(record(nodes[name].get("message")))) for name in nodes.keys() - set(way))
    if skipped:
        draft.counts[BRANCHES] = skipped
    return draft.finished()


_CITATION = re.compile("\ue200[^\ue201]{0,500}\ue201")
_SPEAKERS = frozenset({"user", "assistant"})
_TO_ALL = (None, "", "all")
_UNSPOKEN = frozenset(
    "thoughts reasoning_recap execution_output user_editable_context model_editable_context tether_quote "
    "tether_browsing_display tether_browsing_code system_error app_pairing_content computer_output".split()
)


def _current_branch(document: Record, nodes: dict[str, Record]) -> list[str]:
    parents = {name: words(node.get("parent")) for name, node in nodes.items()}
    current = words(document.get("current_node"))
    if current not in nodes:
        places = {name: at for at, name in enumerate(nodes)}
        current = max(leaves(parents), key=lambda name: (_time(nodes[name]), places[name]), default="")
    return way_to(current, parents)


def _time(node: Record) -> float:
    time = first_moment(record(node.get("message")), "create_time", "update_time")
    return time.timestamp() if time else 0.0


def _take_node(message: Record, draft: ConversationDraft) -> None:
    spoken = _spoken(message)
    own = Said(_CITATION.sub("", spoken.words).strip(), other=spoken.other)
    role, at = words(record(message.get("author")).get("role")), first_moment(message, "create_time")
    draft.say(own, role, identity=words(message.get("id")), at=at)


def _spoken(message: Record) -> Said:
    """Return the text of a message; empty for hidden messages, and those to or from tools."""
    content, about = record(message.get("content")), record(message.get("metadata"))
    hidden = bool(about.get("is_visually_hidden_from_conversation")) or message.get("weight") == 0
    by, kind = words(record(message.get("author")).get("role")), words(content.get("content_type"))
    # Code of an assistant goes to a tool, whatever recipient an export names; content for people is text.
    to_a_tool = message.get("recipient") not in _TO_ALL or (by == "assistant" and kind == "code")
    thought = kind in _UNSPOKEN or message.get("channel") == "analysis"
    return Said() if hidden or to_a_tool or thought or by not in _SPEAKERS else said(content)


_Reader = Callable[[Record], Conversation]

_FORMS: tuple[tuple[Callable[[Record], bool], _Reader], ...] = (
    (claims_chatgpt, read_chatgpt),
    (claims_claude_ai, read_claude_ai),
    (role_messages.claims_role_messages, role_messages.read_role_messages),
)
"""Formats of a conversation as one JSON object, with their tests and readers."""


def read(data: bytes, *, most_bytes: int) -> Iterator[Parsed] | None:
    """Read a document; `None` if it contains no conversations. A broken one does not hide the others of a list.

    `most_bytes` limits parts that are parsed as a whole: an element of a list, or a document that is an object.
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
    """Read a list element by element: only one element at a time is decoded."""
    values = (_parsed(element, most_bytes) for element in elements(data))
    first = list(islice(values, _LOOKED_AT))
    readable = [value for value in first if not isinstance(value, Malformed)]
    if readable and 2 * sum(_reader_of(value) is not None for value in readable) >= len(readable):
        return _conversations(chain(first, values))
    if role_messages.are_messages(readable):
        return _messages(chain(first, values))
    return None


def _parsed(element: bytes | Malformed, most_bytes: int) -> object:
    if isinstance(element, Malformed):
        return element
    return parse(element) if len(element) <= most_bytes else over_limit(most_bytes)


def _read_object(value: object) -> Iterator[Parsed] | None:
    document = record(value)
    if role_messages.claims_claude_code(document):
        return role_messages.read_loglines(document)
    inside = listed(document.get("conversations"))
    if inside and 2 * sum(_reader_of(one) is not None for one in inside) >= len(inside):
        return _conversations(inside)
    read_one = _reader_of(document)
    return iter([read_one(document)]) if read_one else None


def _reader_of(value: object) -> _Reader | None:
    document = record(value)
    return next((reader for claims, reader in _FORMS if document and claims(document)), None)


def _conversations(values: Iterable[object]) -> Iterator[Parsed]:
    for number, value in enumerate(values, start=1):
        read_one = _reader_of(value)
        if isinstance(value, Malformed):
            yield Unread(f"conversation {number}", value.why)
        elif read_one is None:
            yield Unread(f"conversation {number}", "it is not a conversation of a form known here")
        else:
            conversation = read_one(record(value))
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
