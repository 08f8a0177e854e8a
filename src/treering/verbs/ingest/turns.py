"""Messages of a conversation as segments: one per turn, and several for a long one."""

import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import datetime, timedelta
from itertools import groupby, pairwise
from types import MappingProxyType
from typing import Annotated

from pydantic import AfterValidator, BeforeValidator, Field

from treering.core.canonical import Instant, chain_hashes, message_key, render_time
from treering.core.characters import well_formed
from treering.core.evidence import Section, Segment, Turn
from treering.core.fencing import without_recalled
from treering.core.objects import CallerModel
from treering.core.patch import NAME, shortened
from treering.core.secrets.redaction import redact
from treering.ports.adapter import SegmentDraft
from treering.ports.format import Segmenter
from treering.verbs.envelope import Value

TURNS_BEFORE = 2
"""The number of preceding turns whose end is embedded together with a turn."""
PAUSE = timedelta(hours=4)
"""After a longer pause, a conversation is about something else."""
_TAIL_CHARS = 200
_SHORT_TURN = 600
_WHOLE = Section()
_MODELS = frozenset({"assistant", "model", "ai", "bot"})
_NAMES = r"(?:think(?:ing)?|reason(?:ing)?|thoughts?)"
_THOUGHT = re.compile(
    rf"\s*<({_NAMES})>.*?(?:</\1>\s*|\Z)|"
    # The form of Open WebUI.
    r'\s*<details type="reasoning"[^>]*>.*?(?:</details>\s*|\Z)|'
    # If the prompt itself opens the thought, the answer only contains its end.
    rf"(?:[^`<\n]*\n)+[^\S\n]*</{_NAMES}>\s*",
    re.IGNORECASE | re.DOTALL,
)

_Text = Annotated[str, AfterValidator(well_formed)]
_Optional = Annotated[_Text, BeforeValidator(lambda given: "" if given is None else given)]


class Message(CallerModel, Value):
    """One message of a conversation."""

    content: _Text = Field(description="Text of the message.")
    role: _Optional = Field(default="", description="user, assistant, system, tool, or a role in a meeting.")
    name: _Optional = Field(default="", description="Name of the speaker, if the role does not identify them.")
    id: _Optional = Field(default="", description="Id of the message in its origin.")
    at: Instant | None = Field(default=None, description="Time of the message.")

    @property
    def speaker(self) -> str:
        """The name, or else the role."""
        return self.name or self.role

    @property
    def key(self) -> str:
        """A hash of speaker and text that distinguishes it from other messages."""
        return message_key(self.role or self.name, self.content)


def without_thoughts(message: Message) -> Message:
    """Return a message without the reasoning of a model before its answer."""
    text = spoken_words(message.role or message.name, message.content)
    return message if text == message.content else message.model_copy(update={"content": text})


def spoken_words(role: str, text: str) -> str:
    """Return the text of a message; for a model's without `<think>…</think>`, even if that is not closed.

    Reasoning is at the beginning. Such tags further down, in a code block for example, are part of the answer.
    """
    while role.casefold() in _MODELS and (match := _THOUGHT.match(text)):
        text = text[match.end() :]
    return text


@dataclass(frozen=True, slots=True)
class Cleaned:
    """A text without recalled passages and secrets."""

    text: str
    recalled: int = 0
    """The number of recalled passages that were dropped."""
    secrets: tuple[str, ...] = ()
    """Kind and line of each redacted secret."""


def cleaned(text: str, *, redact_secrets: bool = True, repeated: Mapping[str, str] = MappingProxyType({})) -> Cleaned:
    """Remove recalled text and secrets from a text; `repeated` as in `core.screening.redact`."""
    left, recalled = without_recalled(text)
    if not redact_secrets:
        return Cleaned(left, recalled)
    result = redact(left, repeated)
    secrets = tuple(f"{secret.kind}, line {secret.line}" for secret in result.findings)
    return Cleaned(result.text, recalled, secrets)


@dataclass(frozen=True, slots=True)
class TurnWriter:
    """Writes messages as segments. `segmenter` splits messages of more than `max_chars` characters."""

    segmenter: Segmenter
    max_chars: int

    def write(
        self, messages: Sequence[Message], *, first: int = 0, before: Sequence[Message] = (), chain: str = ""
    ) -> list[SegmentDraft]:
        """Return the segments of messages; empty messages have none, but retain their position.

        `first` is the position of the first one, `before` are the messages before it, `chain` is the hash of the
        last of them.
        """
        all_messages = [*before, *messages]
        chains = chain_hashes((message.key for message in messages), after=chain)
        return [
            segment
            for at, (message, own) in enumerate(zip(messages, chains, strict=True))
            if message.content.strip()
            for segment in self._turn(message, first + at, own, _context(all_messages[: len(before) + at], message.at))
        ]

    def _turn(self, message: Message, turn: int, chain: str, before: str) -> Iterator[SegmentDraft]:
        speaker = shortened(message.speaker, NAME)
        role = shortened(message.role, NAME) if message.role != message.speaker else ""
        place = Turn(turn=turn, message_id=message.id, speaker=speaker, role=role, at=message.at, chain=chain)
        date = f" ({render_time(message.at)[:10]})" if message.at else ""
        for piece in self._pieces(message.content):
            gist = _speech(speaker, piece)
            # A long turn names its subject itself; a short one is often an answer to the turn before it.
            gist = f"{before}\n{gist}" if before and len(piece) <= _SHORT_TURN else gist
            yield SegmentDraft(place, piece, heading=speaker + date, gist=gist)

    def _pieces(self, content: str) -> Sequence[str]:
        if len(content) <= self.max_chars:
            return [content]
        return [piece.text for piece in self.segmenter(content, max_chars=self.max_chars)]


def stored_turns(segments: Iterable[Segment]) -> Iterator[tuple[Turn, list[Segment]]]:
    """Yield the turns of a stored conversation, each with its segments, in order."""
    placed = [(segment.locator, segment) for segment in segments if isinstance(segment.locator, Turn)]
    for _, group in groupby(placed, key=lambda pair: pair[0].turn):
        pairs = list(group)
        yield pairs[0][0], [segment for _, segment in pairs]


def _context(earlier: Sequence[Message], at: datetime | None) -> str:
    """Return the ends of the last two turns; with them, an answer is found by what it answers.

    Worth 2 to 4 points of recall on LoCoMo (docs/decisions). Turns before a pause are left out.
    """
    turns = [message for message in earlier[-2 * TURNS_BEFORE :] if message.content.strip()][-TURNS_BEFORE:]
    if at is not None:
        turns = [turn for turn in turns if turn.at is None or at - turn.at <= PAUSE]
    return "\n".join(_speech(message.speaker, message.content.strip()[-_TAIL_CHARS:]) for message in turns)


def _speech(speaker: str, words: str) -> str:
    return f"{speaker}: {words}" if speaker else words


def lossless(segmenter: Segmenter) -> Segmenter:
    """Wrap a segmenter so that its pieces include the gaps between them, and add up to the text."""

    def cut(text: str, *, max_chars: int) -> list[SegmentDraft]:
        pieces = list(segmenter(text, max_chars=max_chars))
        starts = _starts(text, pieces)
        if starts is None:
            return [SegmentDraft(_WHOLE, text[at : at + max_chars]) for at in range(0, len(text), max_chars)]
        ends = [*starts[1:], len(text)]
        return [replace(piece, text=text[start:end]) for piece, start, end in zip(pieces, starts, ends, strict=True)]

    return cut


def _starts(text: str, pieces: Sequence[SegmentDraft]) -> list[int] | None:
    """Return the start of each piece, the first being 0; `None` if one does not occur literally in the text."""
    starts, at = [0], 0
    for before, piece in pairwise(pieces):
        at = text.find(piece.text, at + len(before.text))
        if at < 0:
            return None
        starts.append(at)
    return starts if pieces else None
