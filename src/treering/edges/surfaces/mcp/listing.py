"""What a client is told of the four tools, rendered from the catalogue.

Many clients refuse `oneOf` and objects without properties. So each tool has a plain schema: a `mode`, and `input`
and `options` with the fields of all modes side by side, each saying in which mode it means what.
"""

import json
import sys
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

from pydantic import BaseModel

from treering.core.errors import TreeringError
from treering.tools.catalog import TOOLS
from treering.tools.crystallize_activity import ActivityFields, ActivityInput
from treering.tools.crystallize_knowledge import KnowledgeInput
from treering.tools.crystallize_node import NodeInput
from treering.tools.crystallize_work import WorkItemInput
from treering.tools.drafting import KnowledgeFields, NodeFields, WorkItemFields
from treering.tools.envelope import Envelope, Mode, Report, Tool
from treering.tools.rights import WRITES

Schema = dict[str, Any]

PREFIX = "wiki."
DEFAULT_TOKENS = 2_000
"""Bound of an answer where the call names none."""

MAX_TOKENS: Schema = {
    "type": "integer",
    "default": DEFAULT_TOKENS,
    "description": "Bound of the answer",
}
_OPEN: Mapping[type[BaseModel], type[BaseModel]] = {
    ActivityInput: ActivityFields,
    KnowledgeInput: KnowledgeFields,
    WorkItemInput: WorkItemFields,
    NodeInput: NodeFields,
}
"""Inputs that take the fields of a new object beside their own, and which fields those are."""
_ALIKE = {
    KnowledgeFields.__name__: "knowledge",
    WorkItemFields.__name__: "work_item",
    NodeFields.__name__: "node",
}
"""Nested fields that a mode of its own spells out."""

GRANTED = replace(WRITES, reads_files=True)
"""What an agent may do at most; files only where the server may read some. What goes beyond it is not listed."""
_KEPT = ("type", "enum", "default")
_MOST_NESTED = 2


def tool_listing() -> list[Schema]:
    """Return the tools as the protocol lists them, as JSON data."""
    return [_listed(_granted(tool)) for tool in TOOLS.values()]


def rendered() -> str:
    """Write the listing as it is shipped, in `listing.json`."""
    return json.dumps(tool_listing(), indent=1, ensure_ascii=False) + "\n"


def _granted(tool: Tool) -> Tool:
    """Return a tool with the modes that an agent may be let use."""
    return replace(tool, modes={name: mode for name, mode in tool.modes.items() if not mode.rights.beyond(GRANTED)})


def _listed(tool: Tool) -> Schema:
    return {
        "name": PREFIX + tool.name,
        "description": f"{tool.summary}\n\nModes:\n{_modes_text(tool)}",
        "inputSchema": _input_schema(tool),
        "outputSchema": _output_schema(),
        "annotations": _annotations(tool),
    }


def _annotations(tool: Tool) -> dict[str, bool]:
    """Say what a tool does at most, in the words of the protocol."""
    rights, hints = tool.rights, {"readOnlyHint": not tool.rights.writes}
    if rights.writes:  # to what only reads, the protocol gives the next two no meaning
        hints["destructiveHint"] = rights.destroys
        hints["idempotentHint"] = all(mode.repeatable or not mode.rights.writes for mode in tool.modes.values())
    return {**hints, "openWorldHint": rights.fetches}


def _modes_text(tool: Tool) -> str:
    return "\n".join(f"- {_mode_text(mode, default=mode.name == tool.default)}" for mode in tool.modes.values())


def _mode_text(mode: Mode, *, default: bool) -> str:
    needed = [f"input.{field.name}" for field in _fields(mode.name, mode.input) if field.required]
    needs = (
        f"Needs {', '.join(needed)}{' (new) or input.id (change)' if mode.input in _OPEN else ''}." if needed else ""
    )
    note = _note(_OPEN.get(mode.input, mode.input))
    return " ".join(filter(None, (f"{mode.name}{' (default)' if default else ''}:", mode.summary, needs, note)))


def _note(model: type[BaseModel]) -> str:
    """Return what a model's docstring says beyond its first paragraph."""
    return " ".join((model.__doc__ or "").partition("\n\n")[2].split())


def _input_schema(tool: Tool) -> Schema:
    own = Envelope.model_fields
    takes = [field for mode in tool.modes.values() for field in _fields(mode.name, mode.input)]
    ways = [
        field
        for mode in tool.modes.values()
        for field in _fields(mode.name, mode.options)
        if field.name != "max_tokens"
    ]
    return {
        "type": "object",
        "properties": {
            "mode": {"type": "string", "enum": list(tool.modes), "default": tool.default},
            "scope": {"type": "string", "default": "/", "description": own["scope"].description},
            "input": _object(takes, modes=list(tool.modes)),
            "options": _object(ways, modes=list(tool.modes), also={"max_tokens": MAX_TOKENS}),
        },
        "additionalProperties": False,
    }


def _output_schema() -> Schema:
    """Describe what every report has. Clients check answers against this, errors too: so nothing is required."""
    shared = Report.model_json_schema(mode="serialization")
    fields = {name: {"type": shared["properties"][name]["type"]} for name in ("status", "warnings", "ids")}
    error = ", ".join(TreeringError("").as_dict())
    note = f"A report, with more by mode; or an error: {error}."
    return {"type": "object", "description": note, "properties": fields}


@dataclass(frozen=True, slots=True)
class _Field:
    """A field as one mode has it."""

    name: str
    mode: str
    schema: Schema
    says: str
    required: bool

    @property
    def explains_itself(self) -> bool:
        """Tell whether its name says all there is to say."""
        return not (self.says or self.required or "enum" in self.schema)


def _fields(mode: str, model: type[BaseModel]) -> list[_Field]:
    schema = model.model_json_schema(by_alias=True)
    own = [
        _Field(name, mode, _simple(prop, schema), _says(prop, schema), required=name in schema.get("required", ()))
        for name, prop in schema["properties"].items()
    ]
    known = {field.name for field in own}
    return own + [field for field in _fields_beside(mode, model) if field.name not in known]


def _fields_beside(mode: str, model: type[BaseModel]) -> list[_Field]:
    return _fields(mode, _OPEN[model]) if model in _OPEN else []


def _object(fields: Sequence[_Field], *, modes: Sequence[str], also: Mapping[str, Schema] | None = None) -> Schema:
    """Put the fields of all modes side by side; those that explain themselves are only named."""
    grouped: dict[str, list[_Field]] = {}
    for field in fields:
        grouped.setdefault(field.name, []).append(field)
    named = {name for name, variants in grouped.items() if all(one.explains_itself for one in variants)}
    told = {name: _property(variants, modes=modes) for name, variants in grouped.items() if name not in named}
    rest = [one for name in grouped if name in named for one in grouped[name]]
    words = _named(rest)
    return {"type": "object", **({"description": words} if words else {}), "properties": {**told, **(also or {})}}


def _named(fields: Sequence[_Field]) -> str:
    by_mode: dict[str, list[str]] = {}
    for field in fields:
        by_mode.setdefault(field.mode, []).append(field.name + ("[]" if field.schema.get("type") == "array" else ""))
    return "; ".join(f"{mode} also takes {', '.join(names)}" for mode, names in by_mode.items())


def _property(variants: list[_Field], *, modes: Sequence[str]) -> Schema:
    first = variants[0].schema
    shared = {key: value for key, value in first.items() if all(one.schema.get(key) == value for one in variants)}
    if shared.get("type") == "array":
        shared.setdefault("items", {"type": "string"})
    meanings: dict[str, list[str]] = {}
    for one in variants:
        differs = [f"one of {', '.join(map(str, one.schema['enum']))}"] if _differs("enum", one, shared) else []
        said = "; ".join([*filter(None, [one.says]), *differs])
        meanings.setdefault(said, []).append(one.mode)
    parts = [": ".join(filter(None, (_whose(names, modes), said))) for said, names in meanings.items()]
    description = " | ".join(filter(None, parts))
    return {**shared, **({"description": description} if description else {})}


def _whose(names: Sequence[str], modes: Sequence[str]) -> str:
    """Name modes, or the only one that is not meant; nothing where all are meant."""
    others = [mode for mode in modes if mode not in names]
    return f"not {others[0]}" if len(others) == 1 and len(names) > 1 else ", ".join(names) if others else ""


def _differs(key: str, field: _Field, shared: Schema) -> bool:
    return key in field.schema and key not in shared


def _simple(prop: Schema, root: Schema) -> Schema:
    """Keep of a field's schema what every client understands: type, enum, items, a telling default."""
    prop = _resolved(prop, root)
    kept = {key: prop[key] for key in _KEPT if prop.get(key)}
    if prop.get("type") == "array":
        items = _simple(prop.get("items", {}), root)
        kept["items"] = {key: value for key, value in items.items() if key in {"type", "enum"}}
    return kept


def _says(prop: Schema, root: Schema) -> str:
    """Say what a field means, and which fields nested objects have."""
    told = str(prop.get("description", "")).rstrip(".")
    nested = _resolved(prop, root)
    if nested.get("type") == "array":
        nested = _resolved(nested.get("items", {}), root)
    shape = _shape(nested, root, depth=0)
    return f"{told} {shape}".strip()


def _shape(schema: Schema, root: Schema, *, depth: int) -> str:
    if "properties" not in schema or depth == _MOST_NESTED:
        return ""
    if schema["title"] in _ALIKE:
        return f"{{fields as in mode {_ALIKE[schema['title']]}}}"
    required = schema.get("required", ())
    parts = []
    for name, prop in schema["properties"].items():
        inner = _resolved(prop, root)
        many = inner.get("type") == "array"
        inner = _resolved(inner.get("items", {}), root) if many else inner
        values = "|".join(map(str, inner.get("enum", ())))
        shape = _shape(inner, root, depth=depth + 1) or values
        parts.append(f"{name}{'*' if name in required else ''}{'[]' if many else ''}{' ' + shape if shape else ''}")
    return "{" + ", ".join(parts) + "}"


def _resolved(prop: Schema, root: Schema) -> Schema:
    """Follow a reference, and leave out that a field may be null."""
    if "$ref" in prop:
        target = root["$defs"][prop["$ref"].rpartition("/")[2]]
        return {**target, **{key: value for key, value in prop.items() if key != "$ref"}}
    choices = [choice for choice in prop.get("anyOf", ()) if choice.get("type") != "null"]
    if len(choices) == 1:
        return {**_resolved(choices[0], root), **{key: value for key, value in prop.items() if key != "anyOf"}}
    return prop


if __name__ == "__main__":
    # Renders `listing.json` anew: python -m treering.edges.surfaces.mcp.listing > …/listing.json
    sys.stdout.write(rendered())
