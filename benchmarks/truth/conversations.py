"""Labelled conversations: what holds when they end, what no longer does, and questions whose answer changed."""

import json
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from datetime import datetime
from pathlib import Path
from typing import Literal

from pydantic import BaseModel, ConfigDict, Field

Kind = Literal[
    "update", "cancellation", "correction", "plan", "preference", "attribution",
    "coexist", "dates", "sessions", "group", "hard", "steady", "chat",
]  # fmt: skip

FOLDER = Path(__file__).parent
SETS = ("dev", "test", "chats", "chats_test", "talks", "talks_test")
"""Short conversations, long chats, and talks of 60 messages, each for fitting and for a last measurement."""


class _Part(BaseModel):
    model_config = ConfigDict(frozen=True, extra="forbid")


class Spoken(_Part):
    """A message."""

    speaker: str = Field(min_length=1)
    at: datetime
    text: str = Field(min_length=1)
    role: Literal["user", "assistant"] = "user"


class Labelled(_Part):
    """A statement by its key tokens, each with its spellings, and whose it is; empty for nobody in particular."""

    owner: str
    tokens: tuple[tuple[str, ...], ...] = Field(min_length=1)
    message: int
    unless: tuple[str, ...] = ()


class Question(_Part):
    """A question, the message that answers it, and those that did before."""

    ask: str
    answer: int
    stale: tuple[int, ...] = ()
    past: bool = False


class Conversation(_Part):
    """A conversation and what holds at its end."""

    id: str
    kind: Kind
    messages: tuple[Spoken, ...]
    holds: tuple[Labelled, ...] = ()
    ended: tuple[Labelled, ...] = ()
    never: tuple[Labelled, ...] = ()
    questions: tuple[Question, ...] = ()
    changes: tuple[tuple[int, int], ...] = ()
    """In talks: each message of which a later one changed something, with that one."""
    possible: tuple[tuple[int, int], ...] = ()
    """Further pairs that may count as changes; all others are unrelated."""


@dataclass(frozen=True, slots=True)
class Labels:
    """The conversations of a set."""

    conversations: Sequence[Conversation]

    @classmethod
    def of(cls, name: str) -> "Labels":
        """Read a set of `SETS`; empty if there is none."""
        files = sorted((FOLDER / name).glob("*.json"))
        return cls([one for file in files for one in read(file)])


def read(file: Path) -> list[Conversation]:
    """Read the conversations of a file."""
    return [Conversation.model_validate(one) for one in json.loads(file.read_text("utf-8"))]


def problems(conversation: Conversation) -> Iterator[str]:
    """Return what is wrong with the labels of a conversation."""
    count = len(conversation.messages)
    times = [one.at for one in conversation.messages]
    if any(time.tzinfo is None for time in times) or times != sorted(times):
        yield "the times need an offset and must be in order"
    places = [one.message for part in ("holds", "ended", "never") for one in getattr(conversation, part)]
    places += [place for one in conversation.questions for place in (one.answer, *one.stale)]
    places += [place for pair in (*conversation.changes, *conversation.possible) for place in pair]
    if any(not 0 <= place < count for place in places):
        yield f"a message number is not between 0 and {count - 1}"
    if not (conversation.holds or conversation.ended or conversation.never):
        yield "nothing is labelled"
