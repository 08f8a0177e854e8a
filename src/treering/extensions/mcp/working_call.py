"""Correct a call that was refused for its fields, to show a working call with the error."""

from collections.abc import Collection, Mapping
from difflib import get_close_matches
from typing import Any

from pydantic import BaseModel, ValidationError

from treering.core.objects import PAYLOADS, TYPES
from treering.extensions.mcp.arguments import input_names
from treering.extensions.mcp.listing import Schema, resolved
from treering.verbs.catalog import EXAMPLES, TOOLS, kinds_of
from treering.verbs.crystallize.work import NEW_OBJECT_FIELDS
from treering.verbs.envelope import AskingInput, Mode

_CHARS = 200
"""Characters of a text of the caller that are repeated."""
_ROUNDS = 3
"""How often refused values are replaced before an example of the catalogue is shown instead."""


def working_call(verb: str, call: Mapping[str, Any], *, wrong: Collection[str] = ()) -> dict[str, Any] | None:
    """Return a corrected form of a refused call that the mode accepts; `None` if there is none.

    `call`: as `read_arguments` returns it. `wrong`: names of fields whose values were refused.
    Misspelled names are corrected, unknown names and wrong values left out; `<name>` replaces a missing value.
    """
    tool = TOOLS[verb]
    close = get_close_matches(str(call.get("mode", tool.default)), tool.modes, n=1)
    if not close:
        return None
    mode = tool.modes[close[0]]
    names = input_names(mode)
    given, options = (value if isinstance(value := call.get(part), dict) else {} for part in ("input", "options"))
    beside = {name: value for name, value in call.items() if name not in {"mode", "scope", "input", "options"}}
    if given.get("id") and (new := NEW_OBJECT_FIELDS.get(mode.input)):  # its own model takes any values of a change
        wrong = {*wrong, *(_wrong_fields(new, given) - mode.input.model_fields.keys())}
    known = _renamed({**beside, **given}, names)
    if "kind" in wrong and mode.name in TYPES:
        known["kind"] = kinds_of(mode.name)[0]
    fields = _mended(_model_of(mode, given), known, wrong)
    if fields is None or fields.keys() == {"id"} < given.keys():
        examples = (dict(one) for one in EXAMPLES[verb].values())
        return next((one for one in examples if one.get("mode", tool.default) == mode.name), None)
    chosen = _mended(mode.options, _renamed(options, mode.options.model_fields), wrong)
    text = mode.input.TEXT if issubclass(mode.input, AskingInput) else ""
    if text and text not in fields and "filter" not in (chosen or {}):  # a search needs one of both
        fields = {**fields, text: f"<{text}>"}
    shown: dict[str, Any] = {"mode": mode.name, "scope": call.get("scope"), "input": fields, "options": chosen}
    return {name: value for name, value in shown.items() if value}


def _model_of(mode: Mode, given: Mapping[str, Any]) -> type[BaseModel]:
    return mode.input if given.get("id") else NEW_OBJECT_FIELDS.get(mode.input, mode.input)


def _renamed(fields: Mapping[str, Any], known: Any) -> dict[str, Any]:
    """Return the fields under the nearest known names, without those that have none."""
    renamed: dict[str, Any] = {}
    for name, value in fields.items():
        close = [name] if name in known else get_close_matches(name, known, n=1)
        for one in close:
            renamed.setdefault(one, value[:_CHARS] if isinstance(value, str) else value)
    return renamed


def _mended(model: type[BaseModel], fields: dict[str, Any], refused: Collection[str]) -> dict[str, Any] | None:
    """Return fields that a model takes, without optional ones that were refused; `None` if they cannot be found."""
    schema = {"properties": {}, **model.model_json_schema(by_alias=True)}
    needed = {"id", *schema.get("required", ())}
    fields = {name: value for name, value in fields.items() if name in needed or name not in refused}
    for _ in range(_ROUNDS):
        wrong = _wrong_fields(model, fields)
        if not wrong:
            return _with_payload(fields, refused)
        accepted = {name: value for name, value in fields.items() if name not in wrong}
        missing = [name for name in schema.get("required", ()) if name in wrong]
        missing += [one for one in _optional(schema, accepted)[:1] if "" in wrong]  # it needs one of several
        fields = {**accepted, **{name: _stand_in(name, schema["properties"][name], schema) for name in missing}}
    return None


def _optional(schema: Schema, given: Mapping[str, Any]) -> list[str]:
    """Return further fields that a call could have, except numbers."""
    known: Schema = schema["properties"]
    return [name for name in known if name not in given and resolved(known[name], schema).get("type") != "integer"]


def _wrong_fields(model: type[BaseModel], fields: Mapping[str, Any]) -> set[str]:
    try:
        model.model_validate(fields)
    except ValidationError as error:
        return {str(problem["loc"][0]) if problem["loc"] else "" for problem in error.errors(include_url=False)}
    return set()


def _with_payload(fields: dict[str, Any], refused: Collection[str]) -> dict[str, Any] | None:
    """Return the fields of knowledge with the required fields of its payload; other fields unchanged."""
    kind = PAYLOADS.get(str(fields.get("kind")))
    if kind is None or fields.get("id"):
        return fields
    known = fields.get("payload")
    own = {name: fields[name] for name in kind.model_fields if name in fields}
    payload = _mended(kind, {**_renamed(known if isinstance(known, dict) else {}, kind.model_fields), **own}, refused)
    rest = {name: value for name, value in fields.items() if name not in {"payload", *own}}
    return None if payload is None else {**rest, **payload}


def _stand_in(name: str, schema: Schema, root: Schema) -> Any:
    """Return an example value of a field's type."""
    schema = resolved(schema, root)
    match schema.get("type"):
        case "array":
            return [_stand_in(name.removesuffix("s"), schema.get("items", {}), root)]
        case "object":
            required = schema.get("required", ())
            return {one: _stand_in(one, schema["properties"][one], root) for one in required}
        case "integer" | "number":
            return schema.get("minimum", 1)
        case "boolean":
            return False
        case _:
            return next(iter(schema.get("enum", ())), f"<{name}>")
