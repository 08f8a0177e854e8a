"""The description of the four tools for clients, rendered from the catalogue.

A model reads it in every conversation before any call, so it is short. The description of a tool names all modes with
all their fields; mode `help` describes each field (`mode_help`). Many clients refuse `oneOf` and objects without
properties, so the schema is plain, and names the required fields of each mode.
"""

import json
import sys
from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any

from pydantic import BaseModel

from treering.verbs.catalog import TOOLS
from treering.verbs.crystallize.drafting import KnowledgeFields, NodeFields, WorkItemFields
from treering.verbs.crystallize.work import NEW_OBJECT_FIELDS
from treering.verbs.envelope import WRITES, AskingInput, Mode, Tool

Schema = dict[str, Any]

PREFIX = "wiki."
DEFAULT_TOKENS = 2_000
"""Bound of an answer if the call has none."""

GRANTED = replace(WRITES, reads_files=True)
"""The maximal rights of an agent; reading files only if the server allows it. Other modes are not listed.

A server that may fetch web pages also grants and lists that.
"""
HELP = "help"
"""The mode of every tool that describes all fields of its other modes (`mode_help`)."""
_UNLISTED = frozenset({"max_tokens", "timezone"})
"""Options that are not listed: an agent's server knows its time zone, and mode `help` describes them."""
_LEGEND = "* needed. More: mode help, input.mode."
_ALIKE = {
    KnowledgeFields.__name__: "knowledge",
    WorkItemFields.__name__: "work_item",
    NodeFields.__name__: "node",
}
"""Nested fields that a mode of its own spells out."""
_KEPT = ("type", "enum", "default")
_MOST_NESTED = 2
_FEW = 4


def tool_listing(*, urls: bool = False) -> list[Schema]:
    """Return the tools as the protocol lists them, as JSON data. `urls`: pages of the web may be fetched."""
    return [_listed(granted_modes(tool, urls=urls)) for tool in TOOLS.values()]


def rendered() -> str:
    """Return the listing as stored in `listing.json`."""
    return json.dumps(tool_listing(), indent=1, ensure_ascii=False) + "\n"


def granted_modes(tool: Tool, *, urls: bool = False) -> Tool:
    """Return a tool with the modes that an agent may use; `urls`: also those that fetch pages."""
    granted = replace(GRANTED, fetches=urls)
    return replace(tool, modes={name: mode for name, mode in tool.modes.items() if not mode.rights.beyond(granted)})


def _listed(tool: Tool) -> Schema:
    modes = "\n".join(f"- {_mode_text(mode, default=mode.name == tool.default)}" for mode in tool.modes.values())
    return {
        "name": PREFIX + tool.name,
        "description": f"{tool.summary}\n{_LEGEND}\n{modes}\noptions: {_options_text(tool)}",
        "inputSchema": _input_schema(tool),
        "annotations": _annotations(tool),
    }


def _annotations(tool: Tool) -> dict[str, bool]:
    """Return the annotations of a tool: the most that its modes do."""
    rights, hints = tool.rights, {"readOnlyHint": not tool.rights.writes}
    if rights.writes:  # to what only reads, the protocol gives the next two no meaning
        hints["destructiveHint"] = rights.destroys
        hints["idempotentHint"] = all(mode.repeatable or not mode.rights.writes for mode in tool.modes.values())
    return {**hints, "openWorldHint": rights.fetches}


def _mode_text(mode: Mode, *, default: bool) -> str:
    fields = [one for one in fields_of(mode) if not (one.name == "id" and mode.input in NEW_OBJECT_FIELDS)]
    changes = "; or id + changes" if mode.input in NEW_OBJECT_FIELDS else ""
    takes = f"input: {' '.join(map(_name, fields))}{changes}." if fields else ""
    note = _note(NEW_OBJECT_FIELDS.get(mode.input, mode.input))
    name = f"{mode.name}{' (default)' if default else ''}:"
    return " ".join(filter(None, (name, mode.summary, takes, note)))


def _note(model: type[BaseModel]) -> str:
    """Return a model's docstring without its first paragraph."""
    return " ".join((model.__doc__ or "").partition("\n\n")[2].split())


def _options_text(tool: Tool) -> str:
    """List all options, each with the modes that take it, except those that all modes take."""
    by_modes: dict[tuple[str, ...], list[str]] = {}
    named: dict[str, list[str]] = {}
    for mode in tool.modes.values():
        for name in mode.options.model_fields:
            if name not in _UNLISTED:
                named.setdefault(name, []).append(mode.name)
    for name, modes in named.items():
        by_modes.setdefault(tuple(modes), []).append(name)
    return "; ".join(f"{_modes_text(tool, modes)}{' '.join(names)}" for modes, names in by_modes.items())


def _modes_text(tool: Tool, modes: Sequence[str]) -> str:
    """List the modes that take an option, or the one that does not, if it is the only one."""
    others = [name for name in tool.modes if name not in modes]
    if len(others) == 1 and len(modes) > 1:
        return f"all but {others[0]}: "
    return f"{', '.join(modes)}: " if others else ""


def _input_schema(tool: Tool) -> Schema:
    needed = {
        field.name: field.schema
        for mode in tool.modes.values()
        for field in fields_of(mode)
        # The text of a search is optional, but most searches have one.
        if field.required or (issubclass(mode.input, AskingInput) and field.name == mode.input.TEXT)
    }
    shown = needed or {field.name: field.schema for mode in tool.modes.values() for field in fields_of(mode)[:1]}
    return {
        "type": "object",
        "properties": {
            "mode": {"type": "string", "enum": [*tool.modes, HELP]},
            "scope": {"type": "string"},
            "input": {"type": "object", "properties": {name: _typed(schema) for name, schema in shown.items()}},
            "options": {"type": "object", "properties": {"max_tokens": {"type": "integer"}}},
        },
    }


def _typed(schema: Schema) -> Schema:
    """Return the type of a field, with the type of its items, for clients that check them."""
    plain = {"type": schema["type"]} if "type" in schema else {}
    return (
        {**plain, "items": {"type": schema["items"].get("type", "string")}} if plain.get("type") == "array" else plain
    )


def _name(field: "ModeField") -> str:
    kind = {"array": f"[{' '.join(field.parts)}]", "object": "{}"}.get(str(field.schema.get("type")), "")
    return f"{field.name}{kind}{'*' if field.required else ''}"


@dataclass(frozen=True, slots=True)
class ModeField:
    """A field as one mode has it."""

    name: str
    schema: Schema
    says: str
    required: bool
    parts: tuple[str, ...] = ()
    """Of a list of objects, the fields that one cannot do without, or the first few."""


def fields_of(mode: Mode) -> list[ModeField]:
    """Return the fields of a mode, including those of a new object if the mode can also change one."""
    own = fields_in(mode.input)
    known = {field.name for field in own}
    beside = fields_in(NEW_OBJECT_FIELDS[mode.input]) if mode.input in NEW_OBJECT_FIELDS else []
    return own + [field for field in beside if field.name not in known]


def fields_in(model: type[BaseModel]) -> list[ModeField]:
    """Return the fields of a model, with their descriptions and types."""
    schema = model.model_json_schema(by_alias=True)
    return [
        ModeField(
            name,
            _simple(prop, schema),
            _says(prop, schema),
            required=name in schema.get("required", ()),
            parts=_parts(prop, schema),
        )
        for name, prop in schema["properties"].items()
    ]


def _simple(prop: Schema, root: Schema) -> Schema:
    """Reduce a field's schema to keys that every client understands: type, enum, items, a useful default."""
    prop = resolved(prop, root)
    plain = {key: prop[key] for key in _KEPT if prop.get(key)}
    if prop.get("type") == "array":
        items = _simple(prop.get("items", {}), root)
        plain["items"] = {key: value for key, value in items.items() if key in {"type", "enum"}}
    return plain


def _says(prop: Schema, root: Schema) -> str:
    """Return the description of a field, with the fields of nested objects."""
    description = str(prop.get("description", "")).rstrip(".")
    nested = resolved(prop, root)
    if nested.get("type") == "array":
        nested = resolved(nested.get("items", {}), root)
    shape = _shape(nested, root, depth=0)
    return f"{description} {shape}".strip()


def _parts(prop: Schema, root: Schema) -> tuple[str, ...]:
    items = resolved(resolved(prop, root).get("items", {}), root)
    if items.get("title") in _ALIKE:
        return ()
    return tuple(f"{name}*" for name in items.get("required", ())) or tuple(items.get("properties", ()))[:_FEW]


def _shape(schema: Schema, root: Schema, *, depth: int) -> str:
    if "properties" not in schema or depth == _MOST_NESTED:
        return ""
    if schema["title"] in _ALIKE:
        return f"{{fields as in mode {_ALIKE[schema['title']]}}}"
    required = schema.get("required", ())
    parts = []
    for name, prop in schema["properties"].items():
        inner = resolved(prop, root)
        many = inner.get("type") == "array"
        inner = resolved(inner.get("items", {}), root) if many else inner
        values = "|".join(map(str, inner.get("enum", ())))
        shape = _shape(inner, root, depth=depth + 1) or values
        parts.append(f"{name}{'*' if name in required else ''}{'[]' if many else ''}{' ' + shape if shape else ''}")
    return "{" + ", ".join(parts) + "}"


def resolved(prop: Schema, root: Schema) -> Schema:
    """Follow a reference, and leave out that a field may be null."""
    if "$ref" in prop:
        target = root["$defs"][prop["$ref"].rpartition("/")[2]]
        return {**target, **{key: value for key, value in prop.items() if key != "$ref"}}
    choices = [choice for choice in prop.get("anyOf", ()) if choice.get("type") != "null"]
    if len(choices) == 1:
        return {**resolved(choices[0], root), **{key: value for key, value in prop.items() if key != "anyOf"}}
    return prop


if __name__ == "__main__":
    sys.stdout.write(rendered())
