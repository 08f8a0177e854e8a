"""The definition of a workflow as data: its nodes, its header, and the templates in its texts."""

import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime
from typing import Annotated, ClassVar, get_args

from pydantic import (
    AliasChoices,
    BaseModel,
    BeforeValidator,
    ConfigDict,
    Field,
    InstanceOf,
    PlainSerializer,
    PositiveInt,
)
from pydantic.alias_generators import to_camel

from treering.core.errors import InvalidInput
from treering.extensions.discussions.log.blocks import StoredMessage
from treering.extensions.discussions.memory import Recollection

NAME = re.compile(r"[A-Za-z_][A-Za-z0-9_]*")
NUMBERED = re.compile(r"agent([1-9][0-9]{0,3})(Input|Output)")
"""The outputs of earlier nodes, and the inputs of the workflow: `{agent1Output}`, `{agent1Input}`."""

_MARK = re.compile(r"\{\{|\}\}|\{([A-Za-z_][A-Za-z0-9_]*)\}|[{}]")
_SHOWN_CHARS = 24


@dataclass(frozen=True, slots=True)
class Variable:
    """A placeholder in a template."""

    name: str


@dataclass(frozen=True, slots=True)
class Template:
    """A text with variables. Inserted values are never searched for variables."""

    parts: tuple[str | Variable, ...] = ()

    @classmethod
    def parse(cls, text: str) -> "Template":
        """Parse a template: `{name}` is a variable, `{{` and `}}` are literal braces.

        Raises `ValueError` for any other brace.
        """
        return cls(tuple(part for part in _parts(text) if part))

    @property
    def text(self) -> str:
        """The template in canonical form: equal texts are equal templates."""
        return "".join(
            part.replace("{", "{{").replace("}", "}}") if isinstance(part, str) else f"{{{part.name}}}"
            for part in self.parts
        )

    @property
    def names(self) -> tuple[str, ...]:
        """The variables in it, each once."""
        return tuple(dict.fromkeys(part.name for part in self.parts if isinstance(part, Variable)))

    def fill(self, value: Callable[[str], str]) -> str:
        """Return the text with the values of the variables."""
        return "".join(part if isinstance(part, str) else value(part.name) for part in self.parts)


@dataclass(frozen=True, slots=True)
class ChatContext:
    """The conversation of a workflow and its time. `now` is the same for all nodes of a run."""

    recollection: Recollection
    now: datetime
    discussion_id: str = ""
    system_prompt: str = ""


@dataclass(frozen=True, slots=True)
class ChatVariable:
    """A variable about the conversation or the time."""

    name: str
    meaning: str
    value: Callable[[ChatContext], str] = field(repr=False)


def transcript_text(messages: Sequence[StoredMessage], *, speakers: bool = True) -> str:
    """Return messages as text, one per line, with or without speakers, and without deleted ones."""
    spoken = (message for message in messages if not message.deleted)
    return "\n".join(f"{message.speaker}: {message.text}" if speakers else message.text for message in spoken)


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
    return f"the brace at character {at} ({shown}) does not belong to a {{name}}; double it for a literal brace"


def _last(count: int, *, speakers: bool) -> Callable[[ChatContext], str]:
    return lambda chat: transcript_text(chat.recollection.last_messages(count), speakers=speakers)


def _time_12h(now: datetime) -> str:
    return f"{now.hour % 12 or 12:02d}:{now.minute:02d} {'AM' if now.hour < 12 else 'PM'}"


# Names of months and days are spelled out: those of `strftime` depend on the locale.
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
    yield ChatVariable("current_state_document", "the current facts", lambda chat: chat.recollection.state())
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
"""The variables that every workflow in a conversation may use, by name."""

RECALLED = frozenset({"current_chat_summary", "current_state_document"})
"""Variables with recalled content, as opposed to the current messages."""


MOST_NODES = 200
HOW_TO_WRITE = (
    "Write a list of nodes such as `- {id: answer, type: Standard, prompt: '{agent1Input}'}`, in JSON or YAML."
)


def _as_template(value: object) -> Template:
    if isinstance(value, Template):
        return value
    if isinstance(value, str):
        return Template.parse(value)
    raise ValueError("it must be a text")


def _as_text(value: object) -> object:
    """Return numbers as text: YAML reads `id: 1` as a number."""
    return str(value) if type(value) is int else value


Text = Annotated[
    InstanceOf[Template],
    BeforeValidator(_as_template),
    PlainSerializer(lambda template: template.text, return_type=str),
]
"""A text with variables."""

NOTHING = Template()


class NodeSettings(BaseModel):
    """The settings of a node of any type. Keys may be in camelCase or with underscores."""

    model_config: ClassVar[ConfigDict] = ConfigDict(
        frozen=True, extra="forbid", strict=True, alias_generator=to_camel, populate_by_name=True, allow_inf_nan=False
    )

    id: Annotated[str, BeforeValidator(_as_text)] = Field(default="", max_length=200)
    type: str
    title: str = ""
    return_to_user: bool = False


class AskingSettings(NodeSettings):
    """The settings of a node that calls a model."""

    endpoint_name: str = ""
    preset: str = ""
    system_prompt: Text = NOTHING
    max_output_tokens: PositiveInt | None = Field(
        default=None, validation_alias=AliasChoices("maxOutputTokens", "max_output_tokens", "maxResponseSizeInTokens")
    )


class Preset(BaseModel):
    """Parameters of model calls."""

    model_config: ClassVar[ConfigDict] = ConfigDict(frozen=True, extra="forbid", strict=True, populate_by_name=True)

    max_output_tokens: PositiveInt = Field(
        default=2_000,
        validation_alias=AliasChoices("maxOutputTokens", "max_output_tokens", "maxResponseSizeInTokens"),
    )


class Header(BaseModel):
    """The settings of a workflow besides its nodes.

    `endpoints`: the default model of each endpoint, such as `openai:gpt-5-mini`, or an empty text. `variables`: texts
    for all templates.
    """

    model_config: ClassVar[ConfigDict] = ConfigDict(frozen=True, extra="forbid", strict=True)

    title: str = ""
    description: str = ""
    endpoints: dict[str, str] = {}
    presets: dict[str, Preset] = {}
    variables: dict[str, str] = {}


def split(data: object) -> tuple[list[object], dict[str, object]]:
    """Return the nodes, and everything else. Raises `InvalidInput` if there are no nodes."""
    rest = {str(key): value for key, value in data.items()} if isinstance(data, Mapping) else {}
    nodes = rest.pop("nodes", None) if rest else data
    if not isinstance(nodes, list) or not nodes:
        raise InvalidInput("The workflow must contain a list of at least one node.", hint=HOW_TO_WRITE)
    if len(nodes) > MOST_NODES:
        raise InvalidInput(f"The workflow has {len(nodes)} nodes; the maximum is {MOST_NODES}.", hint="Split it.")
    return nodes, rest


def spellings(settings: type[BaseModel]) -> dict[str, tuple[str, ...]]:
    """Return the spellings of each field's key, the preferred one first."""
    return {name: tuple(dict.fromkeys(_spellings(settings, name))) for name in settings.model_fields}


def template_fields(settings: type[BaseModel]) -> list[str]:
    """Return the fields that are templates."""
    return [name for name, info in settings.model_fields.items() if _holds_template(info.annotation)]


def _spellings(settings: type[BaseModel], name: str) -> Iterator[str]:
    info = settings.model_fields[name]
    match info.validation_alias or info.alias:
        case AliasChoices(choices=choices):
            yield from (choice for choice in choices if isinstance(choice, str))
        case str(alias):
            yield alias
        case _:
            pass
    yield name


def _holds_template(annotation: object) -> bool:
    return annotation is Template or Template in get_args(annotation)
