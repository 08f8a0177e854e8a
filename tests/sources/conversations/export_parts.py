"""Small exports, and short ways to read them."""

import io
import json
import zipfile
from collections.abc import Mapping, Sequence
from typing import Any

from treering.extensions.conversations.conversation import Conversation, Conversations
from treering.extensions.conversations.exports import read_conversations

ONE = "6f0d1c2e-93a4-4b5c-8d6e-7f8091a2b3c4"
TWO = "7a1e2d3f-04b5-4c6d-9e7f-8091a2b3c4d5"


def read(content: object, name: str) -> Conversations:
    """Read a file that holds a JSON value, or a text, or bytes."""
    if isinstance(content, bytes):
        return read_conversations(content, name)
    text = content if isinstance(content, str) else json.dumps(content)
    return read_conversations(text.encode(), name)


def only(content: object, name: str) -> Conversation:
    """Read a file that holds one conversation and nothing that cannot be read."""
    found = read(content, name)
    assert found.problems == ()
    (conversation,) = found.conversations
    return conversation


def told(conversation: Conversation) -> list[tuple[str, str]]:
    """Return who says what."""
    return [(message.speaker, message.content) for message in conversation.messages]


def lines(*values: object) -> str:
    """Write JSON lines; a text stands as it is."""
    return "\n".join(value if isinstance(value, str) else json.dumps(value) for value in values) + "\n"


def packed(members: Mapping[str, object]) -> bytes:
    """Make a zip file of JSON values or bytes."""
    stream = io.BytesIO()
    with zipfile.ZipFile(stream, "w", zipfile.ZIP_DEFLATED) as archive:
        for name, value in members.items():
            archive.writestr(name, value if isinstance(value, bytes) else json.dumps(value))
    return stream.getvalue()


def chatgpt(*messages: tuple[str, str], identity: str = ONE, title: str = "Tea", **fields: Any) -> dict[str, Any]:
    """Make a conversation of ChatGPT from who says what, on one way from the root to the current node."""
    nodes = {"root": node(None, None)}
    for at, (role, text) in enumerate(messages):
        nodes[f"n{at}"] = node(f"n{at - 1}" if at else "root", message(role, text, at=at))
    current = f"n{len(messages) - 1}" if messages else "root"
    return {"id": identity, "title": title, "create_time": 1.7e9, "mapping": nodes, "current_node": current, **fields}


def node(parent: str | None, said: Mapping[str, Any] | None) -> dict[str, Any]:
    """Make a node of ChatGPT's tree."""
    return {"parent": parent, "children": [], "message": said}


def message(role: str, *parts: object, at: int = 0, kind: str = "text", **fields: Any) -> dict[str, Any]:
    """Make a message of ChatGPT."""
    content = {"content_type": kind, "parts": list(parts)}
    return {"id": f"m{at}", "author": {"role": role}, "create_time": 1.7e9 + at, "content": content, **fields}


def claude_line(role: str, content: object, **fields: Any) -> dict[str, Any]:
    """Make a line of a session of Claude Code."""
    said = {"role": role, "content": content}
    return {"type": role, "sessionId": ONE, "timestamp": "2026-01-15T10:30:00Z", "message": said, **fields}


def slack(days: Mapping[str, Sequence[Mapping[str, Any]]], **members: object) -> bytes:
    """Make a Slack export with two people and the channel #tea; `days` by `channel/date`."""
    users = [
        {"id": "U00000ADA", "team_id": "T00000ACME", "name": "ada", "profile": {"real_name": "Ada Lovelace"}},
        {"id": "U00000BOB", "team_id": "T00000ACME", "name": "bob", "real_name": "Bob Hope"},
    ]
    channels = [{"id": "C00000TEA", "name": "tea", "created": 1_700_000_000, "members": ["U00000ADA"]}]
    files = {f"{day}.json": list(said) for day, said in days.items()}
    return packed({"users.json": users, "channels.json": channels, **files, **members})
