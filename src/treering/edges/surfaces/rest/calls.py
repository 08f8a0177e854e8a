"""The calls of the four tools as a program writes them: one model per mode, made from the catalogue."""

from collections.abc import Iterator, Mapping
from typing import Annotated, Any, Literal

from pydantic import BaseModel, Field, GetJsonSchemaHandler, WithJsonSchema, create_model
from pydantic_core import CoreSchema

from treering.core.scope import ROOT, ScopeGiven, scope_schema
from treering.tools.catalog import TOOLS
from treering.tools.crystallize_activity import ActivityFields, ActivityInput
from treering.tools.crystallize_knowledge import KnowledgeInput
from treering.tools.crystallize_node import NodeInput
from treering.tools.crystallize_work import LinkFields, WorkItemInput
from treering.tools.drafting import KnowledgeFields, NodeFields, WorkItemFields
from treering.tools.envelope import Envelope, Mode, TextInput, Tool, Value

SCOPE_PATTERN = r"^(/|(/(?!\.{1,2}(/|$))[^\s/\x00-\x1f][^/\x00-\x1f]{0,127}){1,16}/?)$"
_Scope = Annotated[ScopeGiven, WithJsonSchema(scope_schema(pattern=SCOPE_PATTERN))]


class _OrText:
    """Says in the schema of an input that a plain text may stand for it."""

    def __get_pydantic_json_schema__(self, schema: CoreSchema, handler: GetJsonSchemaHandler) -> dict[str, Any]:
        return {"anyOf": [handler(schema), {"type": "string", "minLength": 1}]}


class NewWorkItem(WorkItemFields):
    """Work to track, with its relations to other objects."""

    links: tuple[LinkFields, ...] = ()


class ActivityChange(ActivityInput):
    """What changes of an activity."""

    id: str = Field(min_length=1, description="The activity to change.")


class NodeChange(NodeInput):
    """What changes of a node."""

    id: str = Field(min_length=1, description="The node to change.")


class KnowledgeChange(KnowledgeInput):
    """Fields of knowledge that change."""

    id: str = Field(min_length=1, description="The knowledge to change.")


class WorkItemChange(WorkItemInput):
    """What changes of a work item."""

    id: str = Field(min_length=1, description="The work item to change.")


_OPEN: Mapping[type[Value], Mapping[str, type[Value]]] = {
    ActivityInput: {"New": ActivityFields, "Change": ActivityChange},
    NodeInput: {"New": NodeFields, "Change": NodeChange},
    KnowledgeInput: {"New": KnowledgeFields, "Change": KnowledgeChange},
    WorkItemInput: {"New": NewWorkItem, "Change": WorkItemChange},
}
"""Inputs that take two forms: a new object's fields without an id, or an id and what changes."""


def call_models(verb: str) -> tuple[type[BaseModel], ...]:
    """Return all forms a call of a verb may have."""
    return tuple(model for (of, _, _), model in _CALLS.items() if of == verb)


def call_model(verb: str, envelope: Envelope) -> type[BaseModel] | None:
    """Return the form a call should have, by its mode and by whether it names an object; none for an unknown mode."""
    mode = envelope.mode or TOOLS[verb].default
    changes = isinstance(envelope.input, Mapping) and envelope.input.get("id")
    form = "Change" if changes else "New"
    return _CALLS.get((verb, mode, "")) or _CALLS.get((verb, mode, form))


def _models(tool: Tool) -> Iterator[tuple[tuple[str, str, str], type[BaseModel]]]:
    for mode in tool.modes.values():
        for form, given in _OPEN.get(mode.input, {"": mode.input}).items():
            yield (tool.name, mode.name, form), _model(tool, mode, form, given)


def _model(tool: Tool, mode: Mode, form: str, given: type[Value]) -> type[BaseModel]:
    name = "".join(part.capitalize() for part in (tool.name, *mode.name.split("_"), form))
    is_default = mode.name == tool.default
    fields: dict[str, Any] = {
        "mode": (Literal["", mode.name], "") if is_default else (Literal[mode.name], ...),
        "scope": (_Scope, Field(default=ROOT, description=Envelope.model_fields["scope"].description)),
        "input": (Annotated[given, _OrText()] if issubclass(given, TextInput) else given, _needed(given)),
        "options": (mode.options, _needed(mode.options)),
    }
    return create_model(name, __base__=Value, __doc__=mode.summary, **fields)


def _needed(model: type[BaseModel]) -> Any:
    """Tell pydantic that a part must be there, where it has fields that must."""
    needed = any(one.is_required() for one in model.model_fields.values())
    return Field() if needed else Field(default_factory=dict)


_CALLS = {key: model for tool in TOOLS.values() for key, model in _models(tool)}
