"""Answer calls: open the space at the first one, and render its reports.

Importing this module loads search, models and parsers; the server imports it at the first call.
"""

import json
import threading
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import partial
from typing import Any

from pydantic import Field
from pydantic_core import to_jsonable_python

from treering.core.characters import visible_json
from treering.core.errors import InvalidInput, TreeringError, nearest
from treering.core.fencing import without_markers
from treering.extensions.mcp.answers import data_of, text_of
from treering.extensions.mcp.arguments import read_arguments
from treering.extensions.mcp.fitting import fit_json
from treering.extensions.mcp.listing import (
    DEFAULT_TOKENS,
    GRANTED,
    HELP,
    ModeField,
    fields_in,
    fields_of,
    granted_modes,
)
from treering.extensions.mcp.recent_answers import RecentAnswers
from treering.extensions.mcp.working_call import working_call
from treering.ports.adapter import FileAccess, NoFiles
from treering.ports.runtime import Check, interruptible
from treering.retrieval.text.analysis import cut_to_tokens
from treering.surfaces.python.space import Space, note_for_hooks, open_space
from treering.system.address import Address
from treering.verbs import catalog, everyday
from treering.verbs.catalog import EXAMPLES, TOOLS, kinds_of
from treering.verbs.engine import Progress
from treering.verbs.envelope import Envelope, Mode, Report, Tool, Value, parse

_ACTOR_CHARS = 80
_KIND_CHARS = 80
_KIND_MODES = ("knowledge", "work_item", "activity", "node")
"""The types of objects that `crystallize` creates."""
_RULE = "rule"
"""Another name of the kind `constraint`."""
Reporting = Callable[[str, Envelope], Report]
"""Runs a verb, by its name and the call."""
LINES_FOR_MODELS = 12
"""Lines of a hit; `benchmarks agents` measures how often the line that answers is among them."""


@dataclass(frozen=True, slots=True)
class ToolAnswer:
    """The answer to one call."""

    text: str
    data: dict[str, Any]
    is_error: bool = False


class _Bound(Value):
    """The option every call understands."""

    max_tokens: int = Field(default=DEFAULT_TOKENS, ge=50)


def answer_call(
    verb: str, arguments: Mapping[str, Any], report: Reporting, *, check: Check, urls: bool = False
) -> ToolAnswer:
    """Answer a call of a tool: with the report of its verb, with help, or with an error in its one shape.

    `check` raises the error that ends the work. `urls`: whether help lists the mode that fetches pages.
    """
    with interruptible(check):
        call = read_arguments(verb, arguments)
        try:
            _check_names(verb, arguments, call)
            envelope = parse(Envelope, call, where="call")
            bound = parse(_Bound, _only(envelope.options, "max_tokens"), where="options").max_tokens
            if envelope.mode == HELP:
                text, data = help_on(verb, envelope.input, urls=urls)
                return ToolAnswer(cut_to_tokens(text, max(bound, DEFAULT_TOKENS)), fit_json(data, max_tokens=bound))
            answer = report(verb, _bounded(verb, envelope, bound))
        except TreeringError as error:
            return error_answer(_with_example(error, verb, call))
        explain = bool(envelope.options.get("explain"))
        return ToolAnswer(text_of(answer, max_tokens=bound), data_of(answer, max_tokens=bound, explain=explain))


def _check_names(verb: str, given: Mapping[str, Any], call: Mapping[str, Any]) -> None:
    """Raise `InvalidInput` for an unknown mode, or without a mode for an unknown kind of new object.

    The mode decides which fields are known, so a wrong one would otherwise be reported as wrong fields. `given`: the
    arguments of the client, `call`: as they were read.
    """
    mode, fields = given.get("mode") or "", call.get("input")
    if isinstance(mode, str) and mode != HELP:
        TOOLS[verb].find(mode)
    kind = {**call, **(fields if isinstance(fields, dict) else {})}.get("kind")
    if verb != "crystallize" or mode or not isinstance(kind, str):
        return
    known = [one for name in _KIND_MODES for one in kinds_of(name)]
    if kind not in {*known, _RULE}:
        from difflib import SequenceMatcher  # imported here: rarely needed

        kind = kind[:_KIND_CHARS]
        known.sort(key=lambda one: SequenceMatcher(None, one, kind).ratio(), reverse=True)
        raise InvalidInput(
            f"Unknown kind {kind!r}. Known: {', '.join(known)}.",
            hint=nearest(kind, known, otherwise="Use one of the known kinds."),
            details={"given": kind, "known": known},
        )


def _with_example(error: TreeringError, verb: str, call: Mapping[str, Any]) -> TreeringError:
    """Add a call that works to an error about the fields or the mode of one."""
    fields = error.details.get("fields", ())
    if fields or call.get("mode", "") not in {"", *TOOLS[verb].modes}:
        wrong = {part for one in fields if one.get("kind") != "missing" for part in one["field"].split(".")}
        if example := working_call(verb, call, wrong=wrong):
            error.details["example"] = example
    return error


class ToolDispatcher:
    """Answers the calls of one client, from any thread.

    `files`: which files its `ingest` may read. `urls`: whether it may fetch pages of the web.
    """

    def __init__(self, address: Address | str, files: FileAccess, *, urls: bool = False) -> None:
        self._open = partial(open_space, address, channel="agent", files=files)
        self._granted = replace(GRANTED, reads_files=not isinstance(files, NoFiles), fetches=urls)
        self._space: Space | None = None
        self._lock = threading.Lock()
        self._answers = RecentAnswers(has_last=True)

    def answer(
        self, verb: str, arguments: Mapping[str, Any], *, actor: str, progress: Progress, check: Check
    ) -> ToolAnswer:
        """Call a verb and return its report, or the error in the common form. `check` raises the error that ends it."""
        report = partial(self._report, actor=actor, progress=progress)
        return answer_call(verb, arguments, report, check=check, urls=self._granted.fetches)

    def close(self) -> None:
        """Close the space, if it was opened."""
        with self._lock:
            if self._space:
                self._space.close()
            self._space = None

    def _report(self, verb: str, envelope: Envelope, *, actor: str, progress: Progress) -> Report:
        tool = catalog.find(verb)
        mode = tool.find(envelope.mode)
        tool.require(mode, granted=self._granted)
        space = self._opened(actor, create=mode.makes_space)
        engine = replace(space.engine, progress=progress, places_of=self._answers.places)
        if verb == "ingest" and not envelope.mode and isinstance(given := envelope.input, dict) and given.get("path"):
            mode_of_folder = everyday.mode_of_path(engine, str(given["path"]))
            envelope = envelope.model_copy(update={"mode": mode_of_folder})
        report = tool.call(engine, envelope, granted=self._granted)
        self._answers.note(report)
        note_for_hooks(space.engine, report, envelope.input)
        return report

    def _opened(self, actor: str, *, create: bool) -> Space:
        """Open the space at the first call. Only calls that ingest create a missing one: reads must fail."""
        with self._lock:
            if self._space is None:
                name = " ".join(actor.split())[:_ACTOR_CHARS]
                self._space = self._open(actor=name or None, create=create)
            return self._space


def unknown_tool(name: str, known: Mapping[str, str]) -> ToolAnswer:
    """Answer a call of an unknown tool."""
    names = list(known.values())
    return error_answer(
        InvalidInput(f"There is no tool {name!r}.", hint=nearest(name, names), details={"given": name, "known": names})
    )


def error_answer(error: TreeringError) -> ToolAnswer:
    """Return an error in the common form."""
    data = fit_json(to_jsonable_python(error.as_dict(), fallback=str), max_tokens=DEFAULT_TOKENS)
    return ToolAnswer(visible_json(json.dumps(_without_markers(data), ensure_ascii=False)), data, is_error=True)


def _without_markers(data: Any) -> Any:
    """Rewrite fence markers in the texts of JSON data, because an error may contain any text."""
    match data:
        case str():
            return without_markers(data)
        case dict():
            return {key: _without_markers(value) for key, value in data.items()}
        case list():
            return [_without_markers(value) for value in data]
        case _:
            return data


def _bounded(verb: str, envelope: Envelope, bound: int) -> Envelope:
    """Hand the bound on to modes that fit their own answers into it; others are fitted afterwards.

    So are results of a search that show only some of their lines: to a model more than to a person, unless the call
    gives a number.
    """
    options = {name: value for name, value in envelope.options.items() if name != "max_tokens"}
    tool = catalog.find(verb)
    mode = tool.modes.get(envelope.mode or tool.default)
    if mode and "lines" in mode.options.model_fields:
        options = {"lines": LINES_FOR_MODELS, **options}
    if mode and "max_tokens" in mode.options.model_fields and not options.get("lines"):
        options["max_tokens"] = bound
    return envelope.model_copy(update={"options": options})


def _only(options: Mapping[str, Any], name: str) -> dict[str, Any]:
    return {name: options[name]} if options.get(name) is not None else {}


def help_on(verb: str, given: Mapping[str, Any] | str, *, urls: bool = False) -> tuple[str, dict[str, Any]]:
    """Describe one mode of a tool, or all, as text and as data.

    `given`: the input of the call, a mode's name or `{"mode": NAME}`. `urls`: also the mode that fetches pages. Raises
    `InvalidInput` for an unknown mode.
    """
    tool = granted_modes(TOOLS[verb], urls=urls)
    modes = list(_requested_modes(tool, given))
    text = "\n\n".join("\n".join(_lines(tool, mode)) for mode in modes)
    return text, {"verb": verb, "mode": HELP, "status": "ok", "modes": [_data(tool, mode) for mode in modes]}


def _requested_modes(tool: Tool, given: Mapping[str, Any] | str) -> Iterable[Mode]:
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
    parts = [values or kind, "needed" if field.required else _default(field), field.says]
    return f"- {field.name}: {', '.join(filter(None, parts))}"


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
    for what, call in EXAMPLES[tool.name].items():
        if call.get("mode", tool.default) == mode.name:
            yield what, call
