"""Mode `help` of every tool: all fields of a mode with what each means, and calls to copy."""

import json
from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Any

from treering.core.errors import InvalidInput, nearest
from treering.edges.surfaces.examples import EXAMPLES
from treering.edges.surfaces.mcp.listing import HELP, ModeField, fields_in, fields_of, granted_modes
from treering.tools.catalog import TOOLS
from treering.tools.envelope import Mode, Tool


def help_on(verb: str, given: Mapping[str, Any] | str, *, urls: bool = False) -> tuple[str, dict[str, Any]]:
    """Tell of one mode of a tool, or of all: as text, and as data.

    `given`: the input of the call, a mode's name or `{"mode": NAME}`. `urls`: also of the mode that fetches. Raises
    `InvalidInput` for a mode that is none.
    """
    tool = granted_modes(TOOLS[verb], urls=urls)
    modes = list(_asked(tool, given))
    text = "\n\n".join("\n".join(_lines(tool, mode)) for mode in modes)
    return text, {"verb": verb, "mode": HELP, "status": "ok", "modes": [_data(tool, mode) for mode in modes]}


def _asked(tool: Tool, given: Mapping[str, Any] | str) -> Iterable[Mode]:
    name = given if isinstance(given, str) else given.get("mode", "")
    if name in ("", HELP):
        return tool.modes.values()
    if name not in tool.modes:
        raise InvalidInput(
            f"{tool.name} has no mode {str(name)[:100]!r}.",
            hint=nearest(str(name), tool.modes),
            details={"known": list(tool.modes)},
        )
    return (tool.modes[name],)


def _lines(tool: Tool, mode: Mode) -> Iterator[str]:
    yield f"## {tool.name}, mode {mode.name}{' (default)' if mode.name == tool.default else ''}"
    yield mode.summary
    for part, fields in (("input", fields_of(mode)), ("options", fields_in(mode.options))):
        yield f"{part}:" if fields else f"{part}: none"
        yield from (_line(field) for field in fields)
    yield from (f"Such as ({what}): {json.dumps(call, ensure_ascii=False)}" for what, call in _examples(tool, mode))


def _line(field: ModeField) -> str:
    kind = str(field.schema.get("type", "any"))
    if kind == "array":
        kind = f"list of {field.schema.get('items', {}).get('type', 'any')}"
    values = "|".join(map(str, field.schema.get("enum", ())))
    told = [values or kind, "needed" if field.required else _default(field), field.says]
    return f"- {field.name}: {', '.join(filter(None, told))}"


def _default(field: ModeField) -> str:
    return f"default {json.dumps(field.schema['default'])}" if "default" in field.schema else ""


def _data(tool: Tool, mode: Mode) -> dict[str, Any]:
    def told(fields: Sequence[ModeField]) -> dict[str, Any]:
        return {one.name: {**one.schema, "description": one.says, "required": one.required} for one in fields}

    return {
        "mode": mode.name,
        "summary": mode.summary,
        "input": told(fields_of(mode)),
        "options": told(fields_in(mode.options)),
        "examples": [call for _, call in _examples(tool, mode)],
    }


def _examples(tool: Tool, mode: Mode) -> Iterator[tuple[str, Mapping[str, Any]]]:
    for what, call in EXAMPLES.get(f"wiki_{tool.name}", {}).items():
        if call.get("mode", tool.default) == mode.name:
            yield what, call
