"""Transcripts: messages from a client, cleaned and ready to be compared with the stored ones."""

from collections.abc import Collection, Mapping

from treering.core.arguments import check_items
from treering.core.canonical import digest
from treering.core.screening import RecentDigests, repeatable_secrets
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
    # A password that one message calls so is redacted in all of them.
    repeated = repeatable_secrets(one.content for one in messages if digest(one.content) not in _CLEAN)
    spoken = (message for message in messages if message.role.casefold() not in _NOT_SPOKEN)
    clean = (_without_noise(without_thoughts(message), repeated) for message in spoken)
    return [LogEntry(message.key, message) for message in clean if message.content]


def _without_noise(message: Message, repeated: Mapping[str, str]) -> Message:
    content = _cleaned(message.content, repeated).strip()
    return message if content == message.content else message.model_copy(update={"content": content})


def _cleaned(content: str, repeated: Mapping[str, str]) -> str:
    key = digest(content)
    if key in _CLEAN and not any(value in content for value in repeated):
        return content
    text = cleaned(content, repeated=repeated).text
    if text == content:
        _CLEAN.add(key)
    return text


_CLEAN = RecentDigests(most=32_768)
"""Digests of clean contents. A client sends all of its messages again with every new one."""
