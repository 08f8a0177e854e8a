"""Reading the arguments of a call as models and clients write them.

Models fill fields they do not need with `null` or `""`, and some clients send an object as its JSON text. Both are read
as intended; everything else is left to the checks of the modes.
"""

import json
from collections.abc import Mapping
from functools import cache
from typing import Any

from pydantic import BaseModel, ValidationError

from treering.core.canonical import PREFIXES
from treering.core.objects import PAYLOADS
from treering.core.scope import ROOT
from treering.extensions.mcp.listing import Schema, resolved
from treering.verbs.catalog import TOOLS
from treering.verbs.crystallize.drafting import EVIDENCE_NAMES, KnowledgeFields
from treering.verbs.crystallize.knowledge import SupersedeInput
from treering.verbs.crystallize.work import NEW_OBJECT_FIELDS
from treering.verbs.envelope import Envelope, Mode, Tool

_EMPTY = (None, "")
_ENVELOPE = frozenset(Envelope.model_fields)


def read_arguments(verb: str, arguments: Mapping[str, Any]) -> dict[str, Any]:
    """Return a call without fields that are given as `null` or `""`, its JSON texts read as objects.

    Fields of the input or options that are on the top level are moved there. Without a mode, the first mode that takes
    the input is used. In the input of a call that changes an object, `null` stays, because it empties a field.
    """
    call = {name: value for name, value in arguments.items() if value not in _EMPTY}
    tool = TOOLS[verb]
    if isinstance(options := call.get("options"), str):
        call["options"] = _json_of(options, dict)
    mode = tool.modes.get(str(call["mode"])) if "mode" in call else _mode_meant(tool, call)
    if isinstance(given := call.get("input"), str):
        call["input"] = _input_in(given, mode)
    if mode:
        call = _gathered(call, mode)
        if mode.name != tool.default:
            call["mode"] = mode.name
    if isinstance(call.get("options"), dict):
        call["options"] = _read(call["options"], _schema_of(mode.options)) if mode else _without_nulls(call["options"])
    if isinstance(call.get("input"), dict):
        call["input"] = _read_input(call["input"], mode) if mode else _without_nulls(call["input"])
    return call


def _gathered(call: dict[str, Any], mode: Mode) -> dict[str, Any]:
    """Return a call with the top-level fields of a mode moved into its input and options."""
    beside = {name: value for name, value in call.items() if name not in _ENVELOPE}
    inputs = {name: value for name, value in beside.items() if name in input_names(mode)}
    if "scope" in input_names(mode) and not str(call.get("scope", ROOT)).startswith(ROOT):
        inputs["scope"] = call[
            "scope"
        ]  # the files that a rule is for, such as `tests/`: a scope of the space has a root
    options = {
        name: value
        for name, value in beside.items()
        if name in {*mode.options.model_fields, "max_tokens"} - inputs.keys()
    }
    own = {name: value for name, value in call.items() if name not in {*inputs, *options}}
    for part, fields in (("input", inputs), ("options", options)):
        if fields and isinstance(own.get(part, {}), dict):
            own[part] = {**fields, **own.get(part, {})}
        elif fields:
            own |= fields  # refused as unknown fields, since the input is a text
    return own


def _mode_meant(tool: Tool, call: Mapping[str, Any]) -> Mode:
    """Return the first mode, starting with the default, that accepts the fields of a call without a mode."""
    given = _json_of(call.get("input", {}), dict)
    default = tool.find("")
    beside = {name: value for name, value in call.items() if name not in _ENVELOPE}
    if not isinstance(given, dict) or not (given or beside):
        return default
    fields = {**beside, **given}
    taking = next((mode for mode in tool.modes.values() if _takes(mode, fields)), None)
    return taking or next((mode for mode in tool.modes.values() if _changes(mode, fields)), default)


def _takes(mode: Mode, fields: Mapping[str, Any]) -> bool:
    given = {name: value for name, value in fields.items() if name in input_names(mode)}
    if not given or fields.keys() - given.keys() - mode.options.model_fields.keys() - {"max_tokens"}:
        return False
    new = NEW_OBJECT_FIELDS.get(mode.input)
    if new and given.get("id"):
        return _changes(mode, given)
    try:
        (new or mode.input).model_validate(_read_input(given, mode))
    except ValidationError:
        return False
    return True


def _changes(mode: Mode, fields: Mapping[str, Any]) -> bool:
    """Return whether a mode changes the object whose id is among the fields."""
    return mode.input in NEW_OBJECT_FIELDS and str(fields.get("id")).startswith(f"{PREFIXES[mode.name]}:")


@cache
def input_names(mode: Mode) -> frozenset[str]:
    """Return the names of all fields that the input of a mode may have."""
    new = NEW_OBJECT_FIELDS.get(mode.input)
    return frozenset({*mode.input.model_fields, *(new.model_fields if new else ())} | mode.input.SHORT_NAMES)


def _read_input(given: dict[str, Any], mode: Mode) -> dict[str, Any]:
    new = KnowledgeFields if mode.input is SupersedeInput else NEW_OBJECT_FIELDS.get(mode.input)
    if new is None:
        return _read(given, _schema_of(mode.input))
    schema = _merged(_schema_of(new), _schema_of(mode.input))
    read = _read(given, schema)
    emptied = {name: None for name, value in given.items() if value is None} if read.get("id") else {}
    return read | emptied


def _input_in(text: str, mode: Mode | None) -> Any:
    """Return the fields in a JSON text; any other text is returned unchanged."""
    fields = _json_of(text, dict)
    if not isinstance(fields, dict) or mode is None:
        return text
    return fields if fields.keys() <= input_names(mode) else text


def _read(fields: dict[str, Any], schema: Schema, root: Schema | None = None) -> dict[str, Any]:
    root = root or schema
    known, required = schema["properties"], schema.get("required", ())
    if "evidence_refs" in known:
        known = {**known, **dict.fromkeys(EVIDENCE_NAMES, known["evidence_refs"])}
    read = {
        name: _read_value(value, known.get(name, {}), root)
        for name, value in fields.items()
        if not _is_left_out(value, known.get(name), root, required=name in required)
    }
    kind = PAYLOADS.get(str(read.get("kind")))
    if kind is not None and isinstance(payload := read.get("payload"), dict) and not read.get("id"):
        read["payload"] = _read(payload, _schema_of(kind))
    return read


def _read_value(value: Any, schema: Schema, root: Schema) -> Any:
    schema = resolved(schema, root)
    match schema.get("type"):
        case "object":
            value = _json_of(value, dict)
            return _read(value, schema, root) if isinstance(value, dict) and "properties" in schema else value
        case "array":
            value = _json_of(value, list)
            items = schema.get("items", {})
            return [_read_value(one, items, root) for one in value] if isinstance(value, list) else value
        case _:
            return value


def _is_left_out(value: Any, schema: Schema | None, root: Schema, *, required: bool) -> bool:
    """Return whether a value stands for a missing field: an empty text does if the field takes no texts."""
    if value != "" or schema is None or required:
        return value is None
    return not isinstance(schema.get("default"), str) or "enum" in resolved(schema, root)


def _json_of(value: Any, kind: type) -> Any:
    """Return the value of a JSON text if it has one of the kinds, else the value unchanged."""
    if not isinstance(value, str):
        return value
    try:
        read = json.loads(value)
    except (ValueError, RecursionError):
        return value
    return read if isinstance(read, kind) else value


def _without_nulls(fields: dict[str, Any]) -> dict[str, Any]:
    return {name: value for name, value in fields.items() if value is not None}


@cache
def _schema_of(model: type[BaseModel]) -> Schema:
    return {"properties": {}, **model.model_json_schema(by_alias=True)}


def _merged(new: Schema, own: Schema) -> Schema:
    """Return the schema of an input that makes a new object or changes one: no field of it is always needed."""
    return {
        "properties": {**new["properties"], **own["properties"]},
        "$defs": {**new.get("$defs", {}), **own.get("$defs", {})},
    }
