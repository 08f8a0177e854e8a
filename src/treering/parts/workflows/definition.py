"""A workflow as it is written, as data: what its nodes and its header may hold."""

from collections.abc import Iterator, Mapping
from typing import Annotated, get_args

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
from treering.parts.workflows.variables import Template

MOST_NODES = 200
HOW_TO_WRITE = (
    "Write a list of nodes such as `- {id: answer, type: Standard, prompt: '{agent1Input}'}`, in JSON or YAML."
)


def _as_template(value: object) -> Template:
    if isinstance(value, Template):
        return value
    if isinstance(value, str):
        return Template.parse(value)
    raise ValueError("it has to be a text")


def _as_text(value: object) -> object:
    """YAML reads `id: 1` as a number; it is a name all the same."""
    return str(value) if type(value) is int else value


Text = Annotated[
    InstanceOf[Template],
    BeforeValidator(_as_template),
    PlainSerializer(lambda template: template.text, return_type=str),
]
"""A text in which variables are put."""

NOTHING = Template()


class NodeSettings(BaseModel):
    """What is written of a node of any type. Keys may be written in camelCase or with underscores."""

    model_config = ConfigDict(
        frozen=True, extra="forbid", strict=True, alias_generator=to_camel, populate_by_name=True, allow_inf_nan=False
    )

    id: Annotated[str, BeforeValidator(_as_text)] = Field(default="", max_length=200)
    type: str
    title: str = ""
    return_to_user: bool = False


class AskingSettings(NodeSettings):
    """What is written of a node that asks a model."""

    endpoint_name: str = ""
    preset: str = ""
    system_prompt: Text = NOTHING
    max_output_tokens: PositiveInt | None = Field(
        default=None, validation_alias=AliasChoices("maxOutputTokens", "max_output_tokens", "maxResponseSizeInTokens")
    )


class Preset(BaseModel):
    """How a model is asked."""

    model_config = ConfigDict(frozen=True, extra="forbid", strict=True, populate_by_name=True)

    max_output_tokens: PositiveInt = Field(
        default=2_000,
        validation_alias=AliasChoices("maxOutputTokens", "max_output_tokens", "maxResponseSizeInTokens"),
    )


class Header(BaseModel):
    """What is written of a workflow besides its nodes.

    `endpoints`: the model each stands for unless another is given, such as `openai:gpt-5-mini`, or an empty text.
    `variables`: texts that every template may use.
    """

    model_config = ConfigDict(frozen=True, extra="forbid", strict=True)

    title: str = ""
    description: str = ""
    endpoints: dict[str, str] = {}
    presets: dict[str, Preset] = {}
    variables: dict[str, str] = {}


def split(data: object) -> tuple[list[object], dict[str, object]]:
    """Return the nodes that are written, and everything else. Raises `InvalidInput` where there are none."""
    rest = {str(key): value for key, value in data.items()} if isinstance(data, Mapping) else {}
    nodes = rest.pop("nodes", None) if rest else data
    if not isinstance(nodes, list) or not nodes:
        raise InvalidInput("The workflow must hold a list of at least one node.", hint=HOW_TO_WRITE)
    if len(nodes) > MOST_NODES:
        raise InvalidInput(f"The workflow has {len(nodes)} nodes, more than {MOST_NODES}.", hint="Split it.")
    return nodes, rest


def spellings(settings: type[BaseModel]) -> dict[str, tuple[str, ...]]:
    """Return for each field how its key may be written, the usual way first."""
    return {name: tuple(dict.fromkeys(_spellings(settings, name))) for name in settings.model_fields}


def template_fields(settings: type[BaseModel]) -> list[str]:
    """Return the fields in which variables are put."""
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
