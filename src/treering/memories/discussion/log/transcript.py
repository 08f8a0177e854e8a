"""Messages as a caller tells them, made ready to be compared and kept."""

from collections.abc import Iterable
from dataclasses import dataclass, field
from datetime import datetime

from treering.core.canonical import digest
from treering.tools.turns import Message, cleaned

_NOT_SPOKEN = frozenset({"system", "developer", "tool", "function"})


@dataclass(frozen=True, slots=True)
class TranscriptMessage:
    """A message that belongs into the log: cleaned, and with its key."""

    message: Message
    key: str

    @property
    def role(self) -> str:
        """Who said it, as far as comparing goes."""
        return self.message.role or self.message.name

    @property
    def at(self) -> datetime | None:
        """When it was said."""
        return self.message.at


def transcript_of(messages: Iterable[Message]) -> list[TranscriptMessage]:
    """Return the messages that belong into a log.

    Recalled text and secrets are taken out; what is empty then, or was said by the system or by a tool, is left out.
    """
    spoken = (message for message in messages if message.role.casefold() not in _NOT_SPOKEN)
    clean = (_without_noise(message) for message in spoken)
    return [TranscriptMessage(message, message.key) for message in clean if message.content]


def _without_noise(message: Message) -> Message:
    content = _cleaned(message.content).strip()
    return message if content == message.content else message.model_copy(update={"content": content})


def _cleaned(content: str) -> str:
    seen = digest(content)
    if seen in _FOUND_CLEAN:
        return content
    text = cleaned(content).text
    if text == content:
        _FOUND_CLEAN.add(seen)
    return text


@dataclass(slots=True)
class _Recent:
    """The last few tens of thousands of digests: a client sends all of its messages again with every new one."""

    most: int
    young: set[str] = field(default_factory=set)
    old: set[str] = field(default_factory=set)

    def __contains__(self, item: str) -> bool:
        return item in self.young or item in self.old

    def add(self, item: str) -> None:
        if len(self.young) >= self.most:
            self.young, self.old = set(), self.young
        self.young.add(item)


_FOUND_CLEAN = _Recent(most=32_768)
