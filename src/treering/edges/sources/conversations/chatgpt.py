"""ChatGPT's `conversations.json`: each conversation a tree of messages."""

import re

from treering.edges.sources.conversations.branches import BRANCHES, leaves, way_to
from treering.edges.sources.conversations.conversation import Conversation, ConversationDraft
from treering.edges.sources.conversations.parts import OTHER_PARTS, Said, said
from treering.edges.sources.loose_json import Record, first_moment, first_words, record, words
from treering.tools.turns import Message


def claims(found: Record) -> bool:
    """Tell whether an object is a conversation of ChatGPT."""
    nodes = record(found.get("mapping"))
    if not nodes:
        return "mapping" in found and {"title", "create_time", "current_node"} <= found.keys()
    return all(isinstance(node, dict) and {"message", "parent", "children"} & node.keys() for node in nodes.values())


def read(found: Record) -> Conversation:
    """Read the way to the current node; hidden messages, those of the system and of tools are no part of it."""
    nodes = {str(name): record(node) for name, node in record(found.get("mapping")).items()}
    draft = ConversationDraft(
        "chatgpt",
        id=first_words(found, "conversation_id", "id"),
        title=words(found.get("title")),
        created=first_moment(found, "create_time"),
        updated=first_moment(found, "update_time"),
    )
    if model := first_words(found, "default_model_slug"):
        draft.metadata["model"] = model
    way = _current(found, nodes)
    for name in way:
        _take(record(nodes[name].get("message")), draft)
    beside = sum(bool(_spoken(record(nodes[name].get("message")))) for name in nodes.keys() - set(way))
    if beside:
        draft.counts[BRANCHES] = beside
    return draft.finished()


_CITATION = re.compile("\ue200[^\ue201]{0,500}\ue201")
_SPEAKERS = frozenset({"user", "assistant"})
_UNSPOKEN = frozenset(
    "thoughts reasoning_recap execution_output user_editable_context model_editable_context tether_quote "
    "tether_browsing_display tether_browsing_code system_error app_pairing_content computer_output".split()
)


def _current(found: Record, nodes: dict[str, Record]) -> list[str]:
    parents = {name: words(node.get("parent")) for name, node in nodes.items()}
    current = words(found.get("current_node"))
    if current not in nodes:
        places = {name: at for at, name in enumerate(nodes)}
        current = max(leaves(parents), key=lambda name: (_time(nodes[name]), places[name]), default="")
    return way_to(current, parents)


def _time(node: Record) -> float:
    time = first_moment(record(node.get("message")), "create_time", "update_time")
    return time.timestamp() if time else 0.0


def _take(message: Record, draft: ConversationDraft) -> None:
    spoken = _spoken(message)
    if not spoken:
        return
    draft.counts.update({OTHER_PARTS: spoken.other} if spoken.other else {})
    draft.messages.append(
        Message(
            content=_CITATION.sub("", spoken.words).strip(),
            role=words(record(message.get("author")).get("role")),
            id=words(message.get("id")),
            at=first_moment(message, "create_time"),
        )
    )


def _spoken(message: Record) -> Said:
    """Return what a message says to the other side; nothing for one that is hidden or meant for a tool."""
    content, about = record(message.get("content")), record(message.get("metadata"))
    hidden = bool(about.get("is_visually_hidden_from_conversation")) or message.get("weight") == 0
    to_a_tool = message.get("recipient") not in {None, "", "all"} if _is_plain(message.get("recipient")) else True
    by = words(record(message.get("author")).get("role"))
    if hidden or to_a_tool or by not in _SPEAKERS or words(content.get("content_type")) in _UNSPOKEN:
        return Said()
    return said(content)


def _is_plain(value: object) -> bool:
    return value is None or isinstance(value, str)
