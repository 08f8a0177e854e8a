"""Templates: texts with `{names}` in them, and what the names of a conversation stand for."""

import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime

from treering.parts.discussions.log.blocks import StoredMessage
from treering.parts.discussions.memory import Recollection

NAME = re.compile(r"[A-Za-z_][A-Za-z0-9_]*")
NUMBERED = re.compile(r"agent([1-9][0-9]{0,3})(Input|Output)")
"""What nodes before gave, and what the workflow was given: `{agent1Output}`, `{agent1Input}`."""

_MARK = re.compile(r"\{\{|\}\}|\{([A-Za-z_][A-Za-z0-9_]*)\}|[{}]")
_SHOWN_CHARS = 24


@dataclass(frozen=True, slots=True)
class Variable:
    """A place in a template that a value is put into."""

    name: str


@dataclass(frozen=True, slots=True)
class Template:
    """A text with variables. What is put in for one is never read for variables again."""

    parts: tuple[str | Variable, ...] = ()

    @classmethod
    def parse(cls, text: str) -> "Template":
        """Read a template: `{name}` is a variable, `{{` and `}}` stand for braces.

        Raises `ValueError` for a brace that is neither.
        """
        return cls(tuple(part for part in _parts(text) if part))

    @property
    def text(self) -> str:
        """The template as it may be written: equal texts are equal templates."""
        return "".join(
            part.replace("{", "{{").replace("}", "}}") if isinstance(part, str) else f"{{{part.name}}}"
            for part in self.parts
        )

    @property
    def names(self) -> tuple[str, ...]:
        """The variables in it, each once."""
        return tuple(dict.fromkeys(part.name for part in self.parts if isinstance(part, Variable)))

    def fill(self, value: Callable[[str], str]) -> str:
        """Return the text with the value of each variable put in."""
        return "".join(part if isinstance(part, str) else value(part.name) for part in self.parts)


@dataclass(frozen=True, slots=True)
class ChatContext:
    """The conversation a workflow runs in, and when. `now` is the same for all nodes of a run."""

    recollection: Recollection
    now: datetime
    discussion_id: str = ""
    system_prompt: str = ""


@dataclass(frozen=True, slots=True)
class ChatVariable:
    """A variable that speaks of the conversation or of the time."""

    name: str
    meaning: str
    value: Callable[[ChatContext], str] = field(repr=False)


def said(messages: Sequence[StoredMessage], *, speakers: bool = True) -> str:
    """Write messages as text, each from a new line; with who said it, or without. Deleted ones say nothing."""
    return "\n".join(f"{kept.speaker}: {kept.text}" if speakers else kept.text for kept in messages if not kept.deleted)


def _parts(text: str) -> Iterator[str | Variable]:
    at = 0
    for mark in _MARK.finditer(text):
        yield text[at : mark.start()]
        at = mark.end()
        if mark[1]:
            yield Variable(mark[1])
        elif len(mark[0]) == 2:
            yield mark[0][0]
        else:
            raise ValueError(_lone(text, mark.start()))
    yield text[at:]


def _lone(text: str, at: int) -> str:
    shown = " ".join(text[max(at - 4, 0) : at + _SHOWN_CHARS].split())
    return f"the brace at character {at} ({shown}) belongs to no {{name}}; write it twice if it is meant as it stands"


def _last(count: int, *, speakers: bool) -> Callable[[ChatContext], str]:
    return lambda chat: said(chat.recollection.last_messages(count), speakers=speakers)


def _time_12h(now: datetime) -> str:
    return f"{now.hour % 12 or 12:02d}:{now.minute:02d} {'AM' if now.hour < 12 else 'PM'}"


# Names of months and days are written out: those of `strftime` depend on the machine's language.
_MONTHS = "January February March April May June July August September October November December".split()
_DAYS = "Monday Tuesday Wednesday Thursday Friday Saturday Sunday".split()
_COUNTS = {"one": 1, "two": 2, "three": 3, "four": 4, "five": 5, "ten": 10, "twenty": 20}


def _chat_variables() -> Iterator[ChatVariable]:
    for word, count in _COUNTS.items():
        what = "the last message" if count == 1 else f"the last {count} messages"
        yield ChatVariable(f"chat_user_prompt_last_{word}", what, _last(count, speakers=False))
        yield ChatVariable(f"templated_user_prompt_last_{word}", f"{what}, with speakers", _last(count, speakers=True))
    yield ChatVariable("chat_system_prompt", "the client's system prompt", lambda chat: chat.system_prompt)
    yield ChatVariable("system_prompts_as_string", "the same", lambda chat: chat.system_prompt)
    yield ChatVariable("current_chat_summary", "the rolling summary", lambda chat: chat.recollection.summary())
    yield ChatVariable("current_state_document", "what is true now", lambda chat: chat.recollection.state())
    yield ChatVariable("discussion_id", "the discussion's id", lambda chat: chat.discussion_id)
    yield ChatVariable("Discussion_Id", "the same", lambda chat: chat.discussion_id)
    yield ChatVariable("todays_date", "such as 2025-08-30 (UTC, as all times)", lambda chat: f"{chat.now:%Y-%m-%d}")
    yield ChatVariable("todays_date_iso", "the same", lambda chat: f"{chat.now:%Y-%m-%d}")
    yield ChatVariable("YYYY_MM_DD", "such as 2025_08_30", lambda chat: f"{chat.now:%Y_%m_%d}")
    yield ChatVariable("todays_date_pretty", "such as August 30, 2025", lambda chat: _pretty(chat.now))
    yield ChatVariable("current_time_12h", "such as 08:05 PM", lambda chat: _time_12h(chat.now))
    yield ChatVariable("current_time_24h", "such as 20:05", lambda chat: f"{chat.now:%H:%M}")
    yield ChatVariable("current_month_full", "such as August", lambda chat: _MONTHS[chat.now.month - 1])
    yield ChatVariable("current_day_of_week", "such as Saturday", lambda chat: _DAYS[chat.now.weekday()])
    yield ChatVariable("current_day_of_month", "such as 30", lambda chat: str(chat.now.day))


def _pretty(now: datetime) -> str:
    return f"{_MONTHS[now.month - 1]} {now.day}, {now.year}"


CHAT_VARIABLES: Mapping[str, ChatVariable] = {one.name: one for one in _chat_variables()}
"""All variables that every workflow of a conversation may use, by name."""

RECALLED = frozenset({"current_chat_summary", "current_state_document"})
"""Those that tell what was remembered, rather than what is being said."""
