"""Answering calls: the space, opened by the first of them, and what becomes of its reports.

Whoever imports this module loads search, models and parsers; the server does so when the first call comes.
"""

import json
import threading
from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from functools import partial
from typing import Any

from pydantic import Field
from pydantic_core import to_jsonable_python

from treering.core.characters import visible_json
from treering.core.errors import InvalidInput, TreeringError, nearest
from treering.core.markers import without_markers
from treering.derived.tokens import cut_to_tokens
from treering.edges.address import Address
from treering.edges.surfaces.mcp.answers import data_of, text_of
from treering.edges.surfaces.mcp.fitting import fit_json
from treering.edges.surfaces.mcp.listing import DEFAULT_TOKENS, GRANTED, HELP
from treering.edges.surfaces.mcp.mode_help import help_on
from treering.edges.surfaces.space import Space, open_space
from treering.ports.files import FileAccess, NoFiles
from treering.ports.interrupt import Check, interruptible
from treering.tools import catalog
from treering.tools.engine import Progress
from treering.tools.envelope import Envelope, Report, Value, parse

_ACTOR_CHARS = 80


@dataclass(frozen=True, slots=True)
class ToolAnswer:
    """What one call is answered with."""

    text: str
    data: dict[str, Any]
    is_error: bool = False


class _Bound(Value):
    """The option every call understands."""

    max_tokens: int = Field(default=DEFAULT_TOKENS, ge=50)


Reporting = Callable[[str, Envelope], Report]
"""Runs a verb, by its name and the call."""


def answer_call(
    verb: str, arguments: Mapping[str, Any], report: Reporting, *, check: Check, urls: bool = False
) -> ToolAnswer:
    """Answer a call of a tool: with the report of its verb, with help, or with an error in its one shape.

    `check` raises what ends the work. `urls`: whether help tells of the mode that fetches.
    """
    with interruptible(check):
        try:
            envelope = parse(Envelope, arguments, where="call")
            bound = parse(_Bound, _only(envelope.options, "max_tokens"), where="options").max_tokens
            if envelope.mode == HELP:
                text, data = help_on(verb, envelope.input, urls=urls)
                return ToolAnswer(cut_to_tokens(text, max(bound, DEFAULT_TOKENS)), fit_json(data, max_tokens=bound))
            told = report(verb, _bounded(verb, envelope, bound))
        except TreeringError as error:
            return error_answer(error)
        explain = bool(envelope.options.get("explain"))
        return ToolAnswer(text_of(told, max_tokens=bound), data_of(told, max_tokens=bound, explain=explain))


class ToolDispatcher:
    """Answers the calls of one client, from any thread.

    `files`: which files its `ingest` may read. `urls`: whether it may fetch pages of the web.
    """

    def __init__(self, address: Address | str, files: FileAccess, *, urls: bool = False) -> None:
        self._address = address
        self._files = files
        self._granted = replace(GRANTED, reads_files=not isinstance(files, NoFiles), fetches=urls)
        self._space: Space | None = None
        self._lock = threading.Lock()

    def answer(
        self, verb: str, arguments: Mapping[str, Any], *, actor: str, progress: Progress, check: Check
    ) -> ToolAnswer:
        """Run a verb and return its report, or the error in its one shape. `check` raises what ends the work."""
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
        engine = self._opened(actor, create=mode.makes_space).engine.with_progress(progress)
        return tool.call(engine, envelope, granted=self._granted)

    def _opened(self, actor: str, *, create: bool) -> Space:
        """Open the space at the first call. Only bringing something in makes a new one: a read must fail there."""
        with self._lock:
            if self._space is None:
                name = " ".join(actor.split())[:_ACTOR_CHARS]
                self._space = open_space(
                    self._address,
                    actor=name or None,
                    channel="agent",
                    create=create,
                    files=self._files,
                )
            return self._space


def unknown_tool(name: str, known: Mapping[str, str]) -> ToolAnswer:
    """Answer a call of an unknown tool."""
    names = list(known.values())
    return error_answer(
        InvalidInput(f"There is no tool {name!r}.", hint=nearest(name, names), details={"given": name, "known": names})
    )


def error_answer(error: TreeringError) -> ToolAnswer:
    """Show an error in its one shape."""
    data = fit_json(to_jsonable_python(error.as_dict(), fallback=str), max_tokens=DEFAULT_TOKENS)
    return ToolAnswer(visible_json(json.dumps(_without_markers(data), ensure_ascii=False)), data, is_error=True)


def _without_markers(data: Any) -> Any:
    """Rewrite what reads as a fence marker in the texts of JSON data: an error may echo anything."""
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
    """Hand the bound on to modes that fit their own answers into it; others are fitted afterwards."""
    options = {name: value for name, value in envelope.options.items() if name != "max_tokens"}
    tool = catalog.find(verb)
    mode = tool.modes.get(envelope.mode or tool.default)
    if mode and "max_tokens" in mode.options.model_fields:
        options["max_tokens"] = bound
    return envelope.model_copy(update={"options": options})


def _only(options: Mapping[str, Any], name: str) -> dict[str, Any]:
    return {name: options[name]} if options.get(name) is not None else {}
