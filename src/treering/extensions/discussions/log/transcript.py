"""Transcripts: messages from a client, cleaned and ready to be compared with the stored ones."""

from collections.abc import Collection

from treering.core.arguments import check_items
from treering.core.canonical import digest
from treering.core.screening import RecentDigests
from treering.extensions.discussions.log.snapshot import LogEntry
from treering.verbs.ingest.turns import Message, cleaned, without_thoughts

_NOT_SPOKEN = frozenset({"system", "developer", "tool", "function"})


def transcript_of(messages: Collection[Message]) -> list[LogEntry]:
    """Return the messages that belong into a log.

    Remove recalled text, secrets and the thoughts of models. Omit messages that are then empty, and messages of the
    system and of tools.
    """
    check_items(
        messages,
        Message,
        name="messages",
        expected="a list of messages",
        hint="Give such as [Message(content='Hello')].",
    )
    spoken = (message for message in messages if message.role.casefold() not in _NOT_SPOKEN)
    clean = (_without_noise(without_thoughts(message)) for message in spoken)
    return [LogEntry(message.key, message) for message in clean if message.content]


def _without_noise(message: Message) -> Message:
    content = _cleaned(message.content).strip()
    return message if content == message.content else message.model_copy(update={"content": content})


def _cleaned(content: str) -> str:
    key = digest(content)
    if key in _CLEAN:
        return content
    text = cleaned(content).text
    if text == content:
        _CLEAN.add(key)
    return text


_CLEAN = RecentDigests(most=32_768)
"""Digests of clean contents. A client sends all of its messages again with every new one."""
