"""A workflow as it is written: JSON or YAML text into values."""

import json
from collections.abc import Iterable, Iterator, Mapping
from typing import Annotated, get_args

import yaml
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
from treering.memories.workflow.variables import Template

MOST_CHARS = 200_000
MOST_NODES = 200
MOST_DEPTH = 20
_HINT = "Write a list of nodes such as `- {id: answer, type: Standard, prompt: '{agent1Input}'}`, in JSON or YAML."


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


def read(text: str) -> object:
    """Read JSON or YAML. Raises `InvalidInput` for what is neither, is too long, or repeats itself by aliases."""
    if len(text) > MOST_CHARS:
        raise InvalidInput(
            f"The workflow has {len(text)} characters, more than {MOST_CHARS}.", hint="Keep long texts elsewhere."
        )
    try:
        return _json(text) if text.lstrip()[:1] in {"{", "["} else _yaml(text)
    except (yaml.YAMLError, ValueError, RecursionError) as error:
        reason = " ".join(str(error).split())
        raise InvalidInput(f"The workflow cannot be read: {reason}.", hint=_HINT) from error


def split(data: object) -> tuple[list[object], dict[str, object]]:
    """Return the nodes that are written, and everything else. Raises `InvalidInput` where there are none."""
    rest = {str(key): value for key, value in data.items()} if isinstance(data, Mapping) else {}
    nodes = rest.pop("nodes", None) if rest else data
    if not isinstance(nodes, list) or not nodes:
        raise InvalidInput("The workflow must hold a list of at least one node.", hint=_HINT)
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


def _json(text: str) -> object:
    try:
        return json.loads(text, object_pairs_hook=_once)
    except json.JSONDecodeError:
        return _flow(text)


def _flow(text: str) -> object:
    """Read what begins as JSON does, but is YAML; where it is not, the error that tells of JSON is the better one."""
    try:
        return _yaml(text)
    except yaml.YAMLError:
        return json.loads(text)


def _yaml(text: str) -> object:
    _check_shape(yaml.parse(text, Loader=yaml.SafeLoader))
    for mapping in _mappings(yaml.compose(text, Loader=yaml.SafeLoader)):
        _check_once([str(key.value) for key, _ in mapping.value])
    data: object = yaml.safe_load(text)
    return data


def _check_shape(events: Iterable[yaml.Event]) -> None:
    """Refuse what would take long: aliases of aliases grow without end, and deep nesting is read ever more slowly."""
    depth = 0
    for event in events:
        if isinstance(event, yaml.AliasEvent):
            problem = "it uses aliases (*name); write a text that is used twice under 'variables'"
            raise ValueError(problem)  # noqa: TRY004 - what is wrong is the text, not its type
        depth += isinstance(event, yaml.CollectionStartEvent) - isinstance(event, yaml.CollectionEndEvent)
        if depth > MOST_DEPTH:
            raise ValueError(f"it is nested more than {MOST_DEPTH} deep")


def _mappings(root: yaml.Node | None) -> Iterator[yaml.MappingNode]:
    waiting = [root]
    while waiting:
        match waiting.pop():
            case yaml.MappingNode() as mapping:
                yield mapping
                waiting += [value for _, value in mapping.value]
            case yaml.SequenceNode() as sequence:
                waiting += sequence.value
            case _:
                pass


def _once(pairs: list[tuple[str, object]]) -> dict[str, object]:
    _check_once([name for name, _ in pairs])
    return dict(pairs)


def _check_once(names: list[str]) -> None:
    if len(set(names)) < len(names):
        twice = next(name for name in names if names.count(name) > 1)
        raise ValueError(f"the key {twice!r} is written twice in one object")
