"""Claude.ai's `conversations.json`: each conversation with its `chat_messages`."""

from collections.abc import Sequence

from treering.edges.sources.conversations.branches import BRANCHES, way_to
from treering.edges.sources.conversations.conversation import Conversation, ConversationDraft
from treering.edges.sources.conversations.parts import OTHER_PARTS, Said, said
from treering.edges.sources.loose_json import Record, first_moment, first_words, listed, record, words
from treering.tools.turns import Message


def claims(found: Record) -> bool:
    """Tell whether an object is a conversation of Claude.ai."""
    messages = found.get("chat_messages")
    return isinstance(messages, list) and all(isinstance(one, dict) and "sender" in one for one in messages)


def read(found: Record) -> Conversation:
    """Read its messages with the texts attached to them; thoughts and the use of tools are no part of it."""
    draft = ConversationDraft(
        "claude",
        id=words(found.get("uuid")),
        title=words(found.get("name")),
        created=first_moment(found, "created_at"),
        updated=first_moment(found, "updated_at"),
    )
    messages = [record(one) for one in listed(found.get("chat_messages"))]
    way = _current(found, messages)
    for message in way:
        _take(message, draft)
    if len(way) < len(messages):
        draft.counts[BRANCHES] = len(messages) - len(way)
    return draft.finished()


_ROLES = {"human": "user", "user": "user", "assistant": "assistant"}


def _current(found: Record, messages: Sequence[Record]) -> Sequence[Record]:
    """Follow the parents up from the current or else the last message; without parents all messages are one way."""
    by_id = {words(one.get("uuid")): one for one in messages if words(one.get("uuid"))}
    parents = {name: words(one.get("parent_message_uuid")) for name, one in by_id.items()}
    if len(by_id) < len(messages) or not any(parent in by_id for parent in parents.values()):
        return messages
    leaf = words(found.get("current_leaf_message_uuid"))
    return [by_id[name] for name in way_to(leaf if leaf in by_id else next(reversed(by_id)), parents)]


def _take(message: Record, draft: ConversationDraft) -> None:
    spoken = said(message.get("content"))
    spoken = spoken if spoken.words else said(words(message.get("text")))
    attached = [_attached(record(one)) for one in listed(message.get("attachments"))]
    files = [_file(record(one)) for one in (*listed(message.get("files")), *listed(message.get("files_v2")))]
    named = list(dict.fromkeys(filter(None, (one.words for one in (*attached, *files)))))
    content = "\n\n".join(filter(None, [spoken.words, *named]))
    other = spoken.other + sum(one.other for one in (*attached, *files))
    draft.counts.update({OTHER_PARTS: other} if other else {})
    if content.strip():
        sender = words(message.get("sender"))
        role, at = _ROLES.get(sender, sender), first_moment(message, "created_at")
        draft.messages.append(Message(content=content, role=role, id=words(message.get("uuid")), at=at))


def _attached(found: Record) -> Said:
    text, name = words(found.get("extracted_content")).strip(), first_words(found, "file_name")
    head = f"[attachment: {name}]" if name else "[attachment]"
    return Said(f"{head}\n{text}") if text else Said(head, other=1)


def _file(found: Record) -> Said:
    name = first_words(found, "file_name")
    return Said(f"[file: {name}]", other=1) if name else Said()
