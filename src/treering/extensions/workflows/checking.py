"""Read a workflow from JSON or YAML, and find all its errors before anything runs."""

from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from typing import Any

from pydantic import BaseModel, ValidationError

from treering.core.errors import InvalidInput, nearest
from treering.extensions.documents.bounded_yaml import MalformedYaml, parse_yaml
from treering.extensions.workflows.catalog import NODE_TYPES
from treering.extensions.workflows.definition import (
    CHAT_VARIABLES,
    HOW_TO_WRITE,
    NAME,
    NUMBERED,
    AskingSettings,
    Header,
    NodeSettings,
    Preset,
    Template,
    spellings,
    split,
    template_fields,
)
from treering.extensions.workflows.registry import Mentions, NodeType, NodeTypes, Workflow, WorkflowNode
from treering.sources.reading.bounded_files import MalformedJson, parse_json

_Problem = dict[str, str]


@dataclass(frozen=True, slots=True)
class WorkflowEnvironment:
    """The environment in which a workflow will run, besides its own declarations.

    `endpoints` and `inputs` are `None` if unknown; then any name and number is valid. `chat`: whether it runs in a
    conversation, so that its variables and memory nodes are valid.
    """

    endpoints: frozenset[str] | None = None
    presets: frozenset[str] = frozenset()
    inputs: int | None = None
    chat: bool = True


ANYTHING = WorkflowEnvironment()


def from_data(data: object, *, types: NodeTypes = NODE_TYPES, known: WorkflowEnvironment = ANYTHING) -> Workflow:
    """Check a workflow: types, keys, ids, variables, endpoints, presets.

    Raises `InvalidInput` with every problem, its node and its key in `details["fields"]`.
    """
    written, rest = split(data)
    problems: list[_Problem] = []
    header = _header(rest, problems)
    readings = [_checked(position, entry, types) for position, entry in enumerate(written, 1)]
    for reading in readings:
        problems += reading.problems
    problems += _of_names(readings)
    mentions = [reading.mentions for reading in readings]
    problems += _unresolved(mentions, header, known)
    _refuse(problems)
    nodes = tuple(node for reading in readings for node in reading.nodes)
    return Workflow(nodes, header)


def verify(workflow: Workflow, known: WorkflowEnvironment) -> None:
    """Check a workflow again in the current environment. Raises `InvalidInput` like `from_data`."""
    _refuse(_unresolved([node.mentions for node in workflow.nodes], workflow.header, known))


@dataclass(frozen=True, slots=True)
class _CheckedEntry:
    """The result of checking one entry: a node or problems, and the names it uses in either case."""

    id: str
    mentions: Mentions
    nodes: tuple[WorkflowNode, ...] = ()
    problems: tuple[_Problem, ...] = ()


def _checked(position: int, entry: object, types: NodeTypes) -> _CheckedEntry:
    if not isinstance(entry, Mapping):
        where = f"node {position}"
        return _CheckedEntry(
            str(position), Mentions(where), problems=(_problem(where, "it is not an object with keys"),)
        )
    raw = {str(key): value for key, value in entry.items()}
    identity = _identity(raw, position)
    where = f"node {position}" + (f" ({identity})" if identity != str(position) else "")
    given = raw.get("type")
    kind = types.get(given) if isinstance(given, str) else None
    if kind is None:
        return _CheckedEntry(identity, Mentions(where), problems=(_unknown_type(where, given, types),))
    mentions = _mentions(where, raw, kind)
    try:
        settings: NodeSettings = kind.settings.model_validate(raw)
    except ValidationError as error:
        return _CheckedEntry(identity, mentions, problems=tuple(field_problems(where, error, kind.settings)))
    return _CheckedEntry(identity, mentions, nodes=(WorkflowNode(position, identity, kind, settings, mentions),))


def _identity(raw: Mapping[str, object], position: int) -> str:
    given = raw.get("id")
    return str(given) if isinstance(given, str | int) and str(given).strip() else str(position)


def _mentions(where: str, raw: Mapping[str, object], kind: NodeType[Any]) -> Mentions:
    """Return the names an entry uses, independent of its other problems."""
    keys = spellings(kind.settings)

    def written(field: str) -> str:
        value = next((raw[key] for key in keys.get(field, ()) if key in raw), "")
        return value if isinstance(value, str) else ""

    templates = [(keys[name][0], _template(written(name))) for name in template_fields(kind.settings)]
    return Mentions(
        where=where,
        templates=tuple((key, template) for key, template in templates if template.parts),
        own=kind.variables,
        asks=issubclass(kind.settings, AskingSettings),
        remembers=kind.remembers,
        type=kind.name,
        endpoint=written("endpoint_name"),
        preset=written("preset"),
    )


def _template(text: str) -> Template:
    try:
        return Template.parse(text)
    except ValueError:
        return Template()  # the error is reported for the field itself


def _header(rest: Mapping[str, object], problems: list[_Problem]) -> Header:
    """Return the header; if it has problems, one with the declared names and no values."""
    for name in _names(rest, "variables"):
        if not NAME.fullmatch(name) or NUMBERED.fullmatch(name) or name in CHAT_VARIABLES:
            what = "the name is already used" if NAME.fullmatch(name) else "use letters, digits and underscores"
            problems.append(_problem(f"variables.{name}", f"a variable cannot have this name: {what}"))
    try:
        return Header.model_validate(dict(rest))
    except ValidationError as error:
        problems += field_problems("", error, Header)
        declared: dict[str, Any] = {key: _names(rest, key) for key in ("endpoints", "presets", "variables")}
        return Header.model_construct(**declared)


def _names(rest: Mapping[str, object], key: str) -> dict[str, None]:
    value = rest.get(key)
    return dict.fromkeys(map(str, value)) if isinstance(value, Mapping) else {}


def _of_names(readings: Sequence[_CheckedEntry]) -> Iterator[_Problem]:
    seen = Counter(reading.id for reading in readings)
    for reading in readings:
        if seen[reading.id] > 1:
            yield _problem(f"{reading.mentions.where}, id", f"{seen[reading.id]} nodes have the id {reading.id!r}")


def _unresolved(mentions: Sequence[Mentions], declared: Header, known: WorkflowEnvironment) -> Iterator[_Problem]:
    for position, one in enumerate(mentions, 1):
        if one.remembers and not known.chat:
            yield _problem(
                one.where, f"a node of type {one.type} needs a conversation, but the workflow runs without one"
            )
        variables = _variables(position, one, declared, known)
        for key, template in one.templates:
            for name in template.names:
                wrong = _wrong_variable(name, position, len(mentions), variables, known)
                if wrong:
                    yield _problem(f"{one.where}, {key}", wrong)
        if one.asks:
            yield from _wrong_endpoint(one, declared, known)


def _variables(position: int, one: Mentions, declared: Header, known: WorkflowEnvironment) -> list[str]:
    """Return the variables that a node may use."""
    return [
        *one.own,
        *(f"agent{number}Output" for number in range(1, position)),
        *(f"agent{number}Input" for number in range(1, (known.inputs or 0) + 1)),
        *declared.variables,
        *(CHAT_VARIABLES if known.chat else ()),
    ]


def _wrong_variable(name: str, position: int, count: int, variables: Sequence[str], known: WorkflowEnvironment) -> str:
    """Return the problem with a variable; an empty text if there is none."""
    if name in variables:
        return ""
    numbered = NUMBERED.fullmatch(name)
    if numbered and numbered[2] == "Input":
        if known.inputs is None:
            return ""
        return f"unknown {{{name}}}; inputs given: {known.inputs}"
    if numbered and position <= int(numbered[1]) <= count:
        itself = int(numbered[1]) == position
        return f"{{{name}}} is not available yet: " + (
            "it is this node's own output" if itself else "that node comes later"
        )
    if name in CHAT_VARIABLES:
        return f"{{{name}}} needs a conversation, but the workflow runs without one"
    return f"unknown variable {{{name}}}. {(nearest(name, variables) if variables else '')}".strip()


def _wrong_endpoint(one: Mentions, declared: Header, known: WorkflowEnvironment) -> Iterator[_Problem]:
    presets = [*declared.presets, *known.presets]
    if one.preset and one.preset not in presets:
        which = nearest(one.preset, presets) if presets else "None is given."
        yield _problem(f"{one.where}, preset", f"unknown preset {one.preset!r}. {which}")
    endpoints = sorted(known.endpoints if known.endpoints is not None else declared.endpoints)
    if known.endpoints is None and not endpoints:
        return
    where = f"{one.where}, endpointName"
    if not endpoints:
        yield _problem(where, "no language model was given for its endpoint")
    elif one.endpoint and one.endpoint not in endpoints:
        yield _problem(where, f"unknown endpoint {one.endpoint!r}. {nearest(one.endpoint, endpoints)}")
    elif not one.endpoint and len(endpoints) > 1:
        yield _problem(where, f"it must name its endpoint: {', '.join(endpoints)}")


def _unknown_type(where: str, given: object, types: NodeTypes) -> _Problem:
    names = ", ".join(types)
    if given is None:
        return _problem(f"{where}, type", f"it has no type; known: {names}")
    close = f" {nearest(str(given), types)}" if str(given) else ""
    meant = close if "Did you mean" in close else ""
    return _problem(f"{where}, type", f"unknown type {given!r}.{meant} Known: {names}")


def field_problems(where: str, error: ValidationError, settings: type[BaseModel]) -> Iterator[_Problem]:
    """Yield the wrong keys of an object, each with its problem."""
    for item in error.errors(include_url=False, include_input=False, include_context=False):
        key = ".".join(map(str, item["loc"]))
        if item["type"] == "extra_forbidden":
            problem = _unknown_key(item["loc"], settings)
        else:
            problem = item["msg"].removeprefix("Value error, ")
        yield _problem(f"{where}, {key}" if where else key, problem)


def _unknown_key(loc: tuple[int | str, ...], settings: type[BaseModel]) -> str:
    inside = Preset if loc[0] == "presets" and len(loc) > 1 else settings
    close = nearest(str(loc[-1]), [keys[0] for keys in spellings(inside).values()])
    extra = " Put texts for templates under 'variables'." if inside is Header else ""
    return f"unknown key. {close}{extra}"


def _problem(where: str, what: str) -> _Problem:
    return {"field": where, "problem": what}


def _refuse(problems: Iterator[_Problem] | Sequence[_Problem]) -> None:
    if listed := list(problems):
        raise refusal("The workflow cannot run. ", listed, "Correct the workflow; nothing was run.")


def refusal(begin: str, problems: Sequence[_Problem], hint: str) -> InvalidInput:
    """Return the error for problems: it states the first one after `begin`, and all of them in its details."""
    first = problems[0]
    more = f" (and {len(problems) - 1} more)" if len(problems) > 1 else ""
    return InvalidInput(
        f"{begin}{first['field']}: {first['problem']}{more}",
        hint="See details.fields for every problem." if more else hint,
        details={"fields": list(problems)},
    )


MAX_CHARS = 200_000
MAX_DEPTH = 20


def load(text: str, *, types: NodeTypes = NODE_TYPES, known: WorkflowEnvironment = ANYTHING) -> Workflow:
    """Read and check a workflow. Raises `InvalidInput` like `from_data` and `read`."""
    return from_data(read(text), types=types, known=known)


def read(text: str) -> object:
    """Parse JSON or YAML. Raises `InvalidInput` for invalid or too long text, and for expanding aliases."""
    if len(text) > MAX_CHARS:
        raise InvalidInput(
            f"The workflow has {len(text)} characters; the maximum is {MAX_CHARS}.", hint="Move long texts out of it."
        )
    try:
        if text.lstrip()[:1] not in {"{", "[", "/"}:
            return _yaml(text)
        try:
            return parse_json(text, unique_keys=True)
        except MalformedJson:
            with suppress(MalformedYaml):  # YAML may begin like JSON
                return _yaml(text)
            raise
    except ValueError as error:
        raise InvalidInput(f"The workflow is not valid: {error}.", hint=HOW_TO_WRITE) from error


def _yaml(text: str) -> object:
    return parse_yaml(text, aliases=False, unique_keys=True, max_depth=MAX_DEPTH)
