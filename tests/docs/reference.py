"""The parts of the documentation that say what the code says, rendered from it.

`python tests/docs/reference.py` rewrites them where they stand: between `<!-- rendered: NAME -->` and
`<!-- end -->` in the pages of `docs/`, and `docs/llms.txt`, which lists the pages. A test holds them equal to what is
rendered here.
"""

import ast
import inspect
import json
import re
import textwrap
from collections.abc import Callable, Container, Iterator, Mapping
from pathlib import Path
from types import NoneType, UnionType
from typing import Annotated, Any, Literal, Union, get_args, get_origin

import llms
from annotated_types import Le
from pydantic import BaseModel
from pydantic.fields import FieldInfo

from treering.core import errors
from treering.core.evidence import Locator
from treering.core.filters import FIELDS, Operator
from treering.core.objects import PAYLOADS, TYPES
from treering.core.policy import ALL_CHANNELS, CURRENT, FUNCTIONAL_PREDICATES, INITIAL, TRANSITIONS, Policy
from treering.extensions.projects.project import (
    MOST_QUERIES,
    MOST_RETRIEVED,
    Deleted,
    DeleteReport,
    Indexed,
    IndexReport,
)
from treering.extensions.projects.routes import DeleteRequest, IndexRequest, Retrieved, RetrieveRequest
from treering.extensions.server.callers import Bounds
from treering.extensions.server.contract import MOST_VALUES
from treering.extensions.server.failures import STATUSES, Failure
from treering.extensions.server.limits import MAX_DATABASE_CALL_THREADS
from treering.extensions.server.packed_upload import PackedBounds
from treering.extensions.server.workers import ALONE_SECONDS
from treering.surfaces.cli.failures import EXIT_CODES, OTHER
from treering.surfaces.python.operations import OPERATIONS
from treering.system.settings import Settings
from treering.verbs.catalog import TOOLS
from treering.verbs.crystallize.drafting import KnowledgeFields, NodeFields, WorkItemFields
from treering.verbs.crystallize.knowledge import KnowledgeInput
from treering.verbs.crystallize.work import ActivityFields, ActivityInput, NodeInput, WorkItemInput
from treering.verbs.envelope import Envelope, Operation, Report, Rights, Tool
from treering.verbs.lint import semantic, structure
from treering.verbs.read_reports import ReadReport

DOCS = Path(__file__).parents[2] / "docs"
OPENAPI = Path(__file__).parents[1] / "surfaces/http/openapi.json"
"""What the server promises, which a test beside it holds equal to what it serves."""
TABLE = Path(__file__).parents[1] / "surfaces/golden/operations.txt"
"""All operations on all surfaces, which a test beside it holds equal to what they offer."""

BLOCK = re.compile(r"<!-- rendered: (?P<name>[\w-]+) -->\n.*?<!-- end -->", re.DOTALL)

_OPEN: Mapping[type[BaseModel], type[BaseModel]] = {
    ActivityInput: ActivityFields,
    KnowledgeInput: KnowledgeFields,
    WorkItemInput: WorkItemFields,
    NodeInput: NodeFields,
}
"""Inputs that take the fields of a new object beside their own."""
_OPTIONS_OF_MODES = {
    mode.options for tool in TOOLS.values() for mode in tool.modes.values() if mode.options.model_fields
}
"""Models of options with a table on the page of verbs."""


def main() -> None:
    """Rewrite every rendered part, and the list of pages."""
    for page in sorted(DOCS.rglob("*.md")):
        text = page.read_text(encoding="utf-8")
        fresh = rendered(text)
        if fresh != text:
            page.write_text(fresh, encoding="utf-8")
    (DOCS / "llms.txt").write_text(llms.rendered(), encoding="utf-8")


def rendered(text: str) -> str:
    """Return a page's text with its rendered parts made anew."""
    return BLOCK.sub(lambda found: _marked(found["name"], PARTS[found["name"]]()), text)


def _marked(name: str, text: str) -> str:
    return f"<!-- rendered: {name} -->\n\n{text.strip()}\n\n<!-- end -->"


# The verbs


def _verbs() -> str:
    return "\n\n".join(part for tool in TOOLS.values() for part in [f"## {tool.name}", tool.summary, *_modes(tool)])


def _modes(tool: Tool) -> Iterator[str]:
    first: dict[type[BaseModel], str] = {}
    for mode in tool.modes.values():
        default = " (the default)" if mode.name == tool.default else ""
        yield f"### {tool.name} `{mode.name}`{default}"
        yield mode.summary
        yield from _input(mode.input, first.get(mode.input, ""))
        first.setdefault(mode.input, f"`{mode.name}`")
        options = f"Options: {_link(mode.options)}. " if mode.options.model_fields else ""
        yield f"{options}Answer: {_link(mode.report)}."


def _input(model: type[BaseModel], same_as: str) -> Iterator[str]:
    """Render the input of a mode, or name the mode before that has the same."""
    if same_as:
        yield f"`input`: as for {same_as}."
    elif not model.model_fields:
        yield "No input."
    else:
        yield f"`input`: {_about(model)}"
        yield _fields(model)
    if model in _OPEN:
        yield f"Also the fields of {_link(_OPEN[model])}."


def _link(model: type[BaseModel], page: str = "") -> str:
    return f"[{model.__name__}]({page}#{model.__name__.lower()})"


def _options() -> str:
    """Render each model of options once, without the fields that it inherits from another one."""
    used = [mode.options for tool in TOOLS.values() for mode in tool.modes.values()]
    models = {base.__name__: base for model in used for base in model.__mro__ if _has_fields(base)}
    return "\n\n".join(part for _, model in sorted(models.items()) for part in _own_options(model))


def _own_options(model: type[BaseModel]) -> Iterator[str]:
    inherited = next((base for base in model.__mro__[1:] if _has_fields(base)), None)
    also = f" Also {_link(inherited)}." if inherited else ""
    yield f"### {model.__name__}"
    yield _about(model) + also
    yield _fields(model, without=set(model.model_fields) - set(model.__annotations__))


def _has_fields(cls: type) -> bool:
    return issubclass(cls, BaseModel) and bool(cls.model_fields)


def _about(model: object) -> str:
    return " ".join((model.__doc__ or "").split())


def _parts() -> str:
    """Render the models that stand inside inputs, and those that stand inside these."""
    found: dict[str, type[BaseModel]] = {}
    waiting = [mode.input for tool in TOOLS.values() for mode in tool.modes.values()] + list(_OPEN.values())
    for model in waiting:
        for inner in _models_in(model):
            if inner.__name__ not in found:
                found[inner.__name__] = inner
                waiting.append(inner)
    found |= {model.__name__: model for model in _OPEN.values()}
    return "\n\n".join(f"### {name}\n\n{_about(model)}\n\n{_fields(model)}" for name, model in sorted(found.items()))


def _models_in(model: type[BaseModel]) -> Iterator[type[BaseModel]]:
    for field in model.model_fields.values():
        yield from _models_of(field.annotation)


def _models_of(annotation: Any) -> Iterator[type[BaseModel]]:
    if isinstance(annotation, type) and issubclass(annotation, BaseModel):
        yield annotation
    for part in get_args(annotation):
        yield from _models_of(part)


def _reports() -> str:
    reports = {mode.report.__name__: mode.report for tool in TOOLS.values() for mode in tool.modes.values()}
    others = [_report(model) for _, model in sorted(reports.items())]
    return "\n\n".join([_models(Envelope, Report), _report(ReadReport), *others])


def _report(model: type[Report]) -> str:
    """Render a report without the fields that it inherits."""
    base = ReadReport if issubclass(model, ReadReport) and model is not ReadReport else Report
    also = f" Also {_link(base)}." if base is ReadReport else ""
    return f"### {model.__name__}\n\n{_about(model)}{also}\n\n{_fields(model, without=base.model_fields)}"


def _fields(model: type[BaseModel], *, without: Container[str] = ()) -> str:
    docs = attribute_docs(model)
    lines = [
        _field(name, field, field.description or docs.get(name, ""))
        for name, field in model.model_fields.items()
        if name not in without
    ]
    return "\n".join(lines) or "No fields."


def _field(name: str, field: FieldInfo, meaning: str) -> str:
    """Render a field as an entry of a list: its name, type, default and meaning."""
    default = _default(field)
    default = f", default {default}" if default.startswith("`") else f", {default}" if default else ""
    default += _bounds_of(field)
    return f"- `{name}` ({_type(field.annotation)}{default})" + (f": {meaning}" if meaning else "")


_NO_BOUND = 2**63 - 1


def _bounds_of(field: FieldInfo) -> str:
    """Return the maximum of a number."""
    return "".join(f", at most `{one.le:,}`" for one in field.metadata if isinstance(one, Le) and one.le < _NO_BOUND)


def _default(field: FieldInfo) -> str:
    if field.is_required():
        return "required"
    default = field.get_default(call_default_factory=True)
    empty = default is None or default in ("", (), [], {}, frozenset())
    return "" if empty else f"`{str(default).lower() if isinstance(default, bool) else default}`"


def _type(annotation: Any) -> str:
    origin, parts = get_origin(annotation), get_args(annotation)
    if annotation is Any:
        return "JSON"
    if origin is Annotated:
        return _type(parts[0])
    if origin is Literal:
        return " ".join(f"`{part}`" for part in parts)
    if origin in (Union, UnionType):
        return " or ".join(dict.fromkeys(_type(part) for part in parts if part is not NoneType))
    if origin in (tuple, list, frozenset):
        return f"list of {_type(parts[0])}"
    if origin is dict:
        return "object"
    return _named(annotation)


def _named(annotation: Any) -> str:
    plain = {str: "text", int: "integer", float: "number", bool: "true or false"}
    if annotation in plain:
        return plain[annotation]
    name = getattr(annotation, "__name__", str(annotation))
    return {"datetime": "time", "AwareDatetime": "time", "JsonValue": "JSON"}.get(name, name)


# Operations


def _operations_table() -> str:
    head, *rows = [re.split(r" {2,}", line.strip()) for line in TABLE.read_text(encoding="utf-8").splitlines()]
    assert head[2] == "PYTHON"
    assert {row[2] for row in rows} == {"yes"}
    names: dict[tuple[str, ...], list[str]] = {}
    for name, rights, _, command, *others in rows:
        names.setdefault((_marked_rights(rights), _command_of(name, command), *others), []).append(name)
    return _table(
        tuple(name.lower() for name in head[:2] + head[3:]), [(_listed(group), *row) for row, group in names.items()]
    )


def _command_of(name: str, command: str) -> str:
    """Return whether an operation has a command of its name or of its verb, or else the command."""
    if command.removesuffix(" (asks)") in (f"treering {name}", *(f"treering {verb}" for verb in TOOLS)):
        return "asks" if command.endswith(" (asks)") else "yes"
    return f"`{command}`"


def _marked_rights(names: str) -> str:
    return names if names == "-" else _listed(names.split())


def _rights() -> str:
    return _table(
        ("right", "an operation with it"), [(f"`{name}`", text) for name, text in attribute_docs(Rights).items()]
    )


def _besides() -> str:
    first: dict[type[BaseModel], str] = {}
    return "\n\n".join(part for one in OPERATIONS.values() for part in _operation(one, first))


def _operation(one: Operation[Any], first: dict[type[BaseModel], str]) -> Iterator[str]:
    """Render an operation. `first` contains the operation that describes a model, which later ones link to."""
    yield f"### {one.name}"
    yield one.summary
    for called, model in (("input", one.input), ("options", one.options)):
        if model in _OPTIONS_OF_MODES:
            yield f"`{called}`: {_link(model, 'verbs.md')}."
        elif model in first:
            yield f"`{called}`: as for {first[model]}."
        elif model.model_fields:
            first[model] = f"[{one.name}](#{one.name.replace(' ', '-')})"
            yield f"`{called}`: {_about(model)}"
            yield _fields(model)
    about = "" if one.report in first else f" {_about(one.report)}"
    first.setdefault(one.report, one.name)
    yield f"Answer: `{one.report.__name__}`.{about}"


# Objects


def _transitions() -> str:
    return "\n\n".join(
        f"**{type_}** — initial: {_listed(_in_order(type_, INITIAL[type_]))}; current: "
        f"{_listed(_in_order(type_, CURRENT[type_]))}.\n\n{_moves(type_)}"
        for type_ in TRANSITIONS
    )


def _moves(type_: str) -> str:
    moves = TRANSITIONS[type_].items()
    return "\n".join(f"- `{status}` to {_listed(_in_order(type_, targets))}" for status, targets in moves if targets)


def _in_order(type_: str, statuses: Any) -> list[str]:
    return [status for status in TRANSITIONS[type_] if status in statuses]


def _objects() -> str:
    common = set.intersection(*(set(cls.model_fields) for cls in TYPES.values())) - {"kind", "status"}
    return "\n\n".join(
        f"### {cls.__name__}\n\n{_about(cls)}\n\n{_fields(cls, without=common)}" for cls in TYPES.values()
    )


def _payloads() -> str:
    rows = [
        (f"`{kind}`", _about(cls), ", ".join(_payload_field(name, field) for name, field in cls.model_fields.items()))
        for kind, cls in PAYLOADS.items()
    ]
    return _table(("kind", "meaning", "payload"), rows)


def _payload_field(name: str, field: FieldInfo) -> str:
    many = "[]" if get_origin(field.annotation) is tuple else ""
    return f"`{name}{many}`" + (" (required)" if field.is_required() else "")


def _locators() -> str:
    union = get_args(Locator)[0]
    return "\n\n".join(f"### {cls.__name__}\n\n{_about(cls)}\n\n{_fields(cls)}" for cls in get_args(union))


# Tables of names


def _settings() -> str:
    rows = []
    for text in attribute_docs(Settings).values():
        variable, colon, meaning = text.partition(": ")
        if colon:
            rows.append((variable, meaning[0].upper() + meaning[1:]))
    return _table(("variable", "meaning"), rows)


def _policy() -> str:
    docs = attribute_docs(Policy)
    rows = [
        (f"`{name}`", _type(field.annotation), _policy_default(name, field), docs[name])
        for name, field in Policy.model_fields.items()
    ]
    return _table(("field", "type", "default", "meaning"), rows)


def _policy_default(name: str, field: FieldInfo) -> str:
    if name == "functional_predicates":
        return "see below"
    default = field.get_default(call_default_factory=True)
    if default == ALL_CHANNELS:
        return "all channels"
    match default:
        case bool():
            return f"`{str(default).lower()}`"
        case frozenset():
            return _listed(sorted(default)) or "none"
        case dict() if default:
            return ", ".join(f"`{key}`: `{value}`" for key, value in default.items())
        case _:
            return "none"


def _predicates() -> str:
    return ", ".join(f"`{name}`" for name in sorted(FUNCTIONAL_PREDICATES)) + "."


def _errors() -> str:
    classes = [cls for _, cls in inspect.getmembers(errors, inspect.isclass) if issubclass(cls, errors.TreeringError)]
    ranked = sorted(classes, key=lambda cls: (_exit_code(cls), len(cls.__mro__), cls.__name__))
    rows = [(f"`{cls.__name__}`", f"`{cls.code}`", str(_exit_code(cls)), _about(cls)) for cls in ranked]
    return _table(("error", "code", "exit", "meaning"), rows)


def _exit_code(cls: type[errors.TreeringError]) -> int:
    return next((EXIT_CODES[base] for base in cls.__mro__ if base in EXIT_CODES), OTHER)


def _filter_fields() -> str:
    return _listed(sorted(FIELDS)) + " and `metadata.<key>`."


def _operators() -> str:
    return _listed(get_args(Operator)) + "."


def _rules() -> str:
    rows = [
        (f"`{name}`", mode, _about(rule.find))
        for mode, rules in (("structure", structure.RULES), ("semantic", semantic.RULES))
        for name, rule in rules.items()
    ]
    return _table(("rule", "mode", "does"), rows)


# HTTP


def _http_routes() -> str:
    rows = [
        (
            method.upper(),
            f"`{path}`",
            _body(path, one.get("requestBody", {})),
            _body(path, next(answer for status, answer in one["responses"].items() if status.startswith("2"))),
            one["summary"],
        )
        for path, methods in _promised()["paths"].items()
        for method, one in methods.items()
    ]
    return _table(("method", "path", "body", "answer", "does"), rows)


def _body(path: str, holder: Mapping[str, Any]) -> str:
    """Name what a body holds. What the four tools take and give has a page of its own."""
    if "application/octet-stream" in holder.get("content", {}):
        return "bytes"
    if path.startswith("/v1/wiki/"):
        return "[envelope](verbs.md#envelope)" if holder.get("required") else "[report](verbs.md#envelope-and-reports)"
    if "content" not in holder:
        return ""
    if "application/json" not in holder["content"]:
        return _listed(holder["content"])
    name = holder["content"]["application/json"]["schema"]["$ref"].rpartition("/")[2]
    items = _promised()["components"]["schemas"][name].get("items", {}).get("$ref", "").rpartition("/")[2]
    return f"list of `{items}`" if items else f"`{name}`"


def _http_project() -> str:
    (index,) = [one for one in _operations() if one["operationId"] == "project_memory_index"]
    (parameter,) = index["parameters"]
    return f"{parameter['description']} Example: `{parameter['example']}`."


def _http_statuses() -> str:
    told = {status: one["description"] for op in _operations() for status, one in op["responses"].items()}
    rows = [(status, _codes_of(int(status)), told[status]) for status in sorted(told) if not status.startswith("2")]
    return _table(("status", "errors", "meaning"), rows)


def _codes_of(status: int) -> str:
    return _listed(cls.__name__ for cls, own in STATUSES.items() if own == status)


def _operations() -> list[dict[str, Any]]:
    return [one for methods in _promised()["paths"].values() for one in methods.values()]


def _promised() -> dict[str, Any]:
    promised: dict[str, Any] = json.loads(OPENAPI.read_text(encoding="utf-8"))
    return promised


def _http_failure() -> str:
    return _models(Failure)


def _http_limits() -> str:
    bounds, packed = Bounds(), PackedBounds()
    return "\n".join(
        (
            f"- Body: {bounds.max_body_bytes:,} bytes and {MOST_VALUES:,} values.",
            f"- Key: {bounds.requests_per_minute:,} requests per minute, {bounds.most_of_a_key} at once; above that "
            "the status is 429. `treering key create` sets other limits. Each server counts separately.",
            f"- Server: {bounds.most_at_once} requests at once, including MCP, in {bounds.worked_on_at_once} "
            f"threads, or {MAX_DATABASE_CALL_THREADS} if the space is in a database. A request counts from the end of "
            "its body; `/health` and `/ready` do not count. Of a space in a file with models in the process, a read "
            f"starts when the one before is done or has taken {1000 * ALONE_SECONDS:g} ms: Python runs one thread at a "
            "time.",
            f"- Upload: {bounds.max_upload_bytes:,} bytes, {bounds.uploads_at_once} at once, {bounds.uploads_of_a_key} "
            f"per key. Archive: {packed.max_files:,} members, {packed.max_bytes:,} bytes, and {packed.max_ratio} times "
            f"its own size if it is larger than {packed.ratio_from:,} bytes unpacked.",
            f"- Jobs: {bounds.jobs_at_once} run at once, in their own threads; {bounds.most_jobs} may run or wait, per "
            "key as many as its requests at once.",
            f"- Connections: {bounds.most_connections}. A further connection replaces the one waiting longest for its "
            "request.",
            f"- Arrival: {bounds.header_seconds:g} seconds for the head of a request; {bounds.body_seconds:g} seconds "
            f"for the body, and one more per {bounds.body_rate:,} bytes.",
            f"- Time: {bounds.read_seconds:g} seconds for `query` and `retrieve`, {bounds.work_seconds:,.0f} for other "
            "calls of tools and projects. Work stops then, and if the client disconnects.",
            f"- Retrieval: {MOST_QUERIES} questions per call, {MOST_RETRIEVED} documents each.",
        )
    )


def _http_projects() -> str:
    models = (IndexRequest, IndexReport, Indexed, RetrieveRequest, Retrieved, DeleteRequest, DeleteReport, Deleted)
    return _models(*models)


def _models(*models: type[BaseModel]) -> str:
    return "\n\n".join(f"### {model.__name__}\n\n{_about(model)}\n\n{_fields(model)}" for model in models)


def attribute_docs(cls: type) -> dict[str, str]:
    """Return the texts that stand below the fields of a class, by field."""
    docs: dict[str, str] = {}
    for base in reversed(cls.__mro__):
        if not base.__module__.startswith("treering"):
            continue
        (tree,) = ast.parse(textwrap.dedent(inspect.getsource(base))).body
        assert isinstance(tree, ast.ClassDef)
        for field, text in zip(tree.body, tree.body[1:], strict=False):
            if isinstance(field, ast.AnnAssign) and isinstance(text, ast.Expr) and isinstance(text.value, ast.Constant):
                assert isinstance(field.target, ast.Name)
                docs[field.target.id] = " ".join(str(text.value.value).split())
    return docs


def _listed(names: Any) -> str:
    return ", ".join(f"`{name}`" for name in names)


def _table(head: tuple[str, ...], rows: Any) -> str:
    lines = ["| " + " | ".join(cell.replace("|", "\\|") for cell in line) + " |" for line in (head, *rows)]
    return "\n".join([lines[0], "|" + "---|" * len(head), *lines[1:]])


PARTS: Mapping[str, Callable[[], str]] = {
    "verbs": _verbs,
    "operations": _operations_table,
    "rights": _rights,
    "besides": _besides,
    "options": _options,
    "parts": _parts,
    "reports": _reports,
    "transitions": _transitions,
    "objects": _objects,
    "payloads": _payloads,
    "locators": _locators,
    "settings": _settings,
    "policy": _policy,
    "predicates": _predicates,
    "errors": _errors,
    "filter-fields": _filter_fields,
    "operators": _operators,
    "rules": _rules,
    "http-routes": _http_routes,
    "http-project": _http_project,
    "http-statuses": _http_statuses,
    "http-failure": _http_failure,
    "http-limits": _http_limits,
    "http-projects": _http_projects,
}

if __name__ == "__main__":
    main()
