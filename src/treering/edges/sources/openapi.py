"""Descriptions of HTTP interfaces: OpenAPI 3 and Swagger 2, in JSON or YAML, operation by operation.

References are kept as the names they have, and nothing is fetched.
"""

import json
import re
from collections.abc import Iterator, Mapping
from typing import Any

from treering.edges.sources.structured_pieces import PieceWriter, pointer_to
from treering.edges.sources.text import decode
from treering.edges.sources.yaml_process import YamlProcess, YamlStopped
from treering.ports.adapter import NodeDraft
from treering.ports.format import DocumentDraft, FileToRead, FormatLimits, Unreadable

Table = Mapping[str, Any]

_METHODS = ("get", "put", "post", "delete", "options", "head", "patch", "trace")
_SUFFIXES = (".json", ".yaml", ".yml")
_KEY = re.compile(rb"(?:^|[\s{,])[\"']?(?:openapi|swagger)[\"']?[ \t]*:[ \t]*[\"']?[23]")
_MOST_LISTED = 300
_MOST_VALUES = 20
_MOST_NODES = 1_000
_DEPTH = 4
_YAML = YamlProcess()
_SLUG = re.compile(r"[^a-z0-9{}]+")


class OpenApiFormat:
    """Files in JSON or YAML that say `openapi: 3…` or `swagger: 2…` near their beginning.

    Each operation and each schema is a segment at its JSON pointer. Operations are nodes of kind `api`.
    """

    name = "openapi"
    limits = FormatLimits(max_bytes=30_000_000, max_segments=50_000)

    def claims(self, path: str, head: bytes, /) -> bool:
        """Go by the ending of the name and by the version near the beginning."""
        return path.lower().endswith(_SUFFIXES) and (not head or _KEY.search(head) is not None)

    def read(self, data: bytes, file: FileToRead, /) -> DocumentDraft | Unreadable | None:
        """Read a description; what is none is left to other formats."""
        told = _loaded(data)
        if isinstance(told, Unreadable):
            return told
        version = told.get("openapi", told.get("swagger"))
        if not isinstance(version, str | int | float) or not isinstance(
            told.get("paths", told.get("components")), dict
        ):
            return None
        pieces = PieceWriter(file)
        info = _table(told.get("info"))
        title = pieces.clean(_word(info.get("title")) or file.path, pointer_to("info", "title"))
        pieces.add(pointer_to("info"), _lines(_introduced(title, info, told)), heading=title)
        nodes = [NodeDraft("api", title, _slug(title), summary=pieces.clean(_word(info.get("summary")), "/info"))]
        for way, operation in _operations(told):
            names = pieces.names(way)
            called = pieces.clean(f"{names[2].upper()} {names[1]}", pointer_to(*names))
            pieces.add(pointer_to(*names), _lines(_described(called, operation)), heading=f"{title} > {called}")
            if len(nodes) < _MOST_NODES:
                summary = pieces.clean(_word(operation.get("summary")), pointer_to(*names))
                whole = f"api:{_slug(title)}"
                nodes.append(
                    NodeDraft("api", called, f"{_slug(title)}/{_slug(called)}", summary=summary, part_of=whole)
                )
        for way, schema in _schemas(told):
            names = pieces.names(way)
            called = pieces.clean(names[-1], pointer_to(*names))
            pieces.add(pointer_to(*names), _lines(_shaped(called, schema)), heading=f"{title} > {called}", role="data")
        return DocumentDraft(
            "structured",
            pieces.segments,
            title=title,
            kind="openapi",
            payload={"version": str(version), "of": pieces.clean(_word(info.get("version")), "/info/version")},
            metadata=pieces.metadata,
            warnings=pieces.warnings,
            nodes=nodes,
        )


def _loaded(data: bytes) -> Table | Unreadable:
    """Return what a file says; an empty table for what is neither JSON nor YAML, or no table."""
    decoded = decode(data)
    if decoded is None:
        return {}
    try:
        told = json.loads(decoded.text)
    except RecursionError:
        return {}
    except ValueError:
        told = _YAML.read(decoded.text.encode(errors="replace"))
    return Unreadable(told.why) if isinstance(told, YamlStopped) else _table(told)


def _introduced(title: str, info: Table, told: Table) -> Iterator[str]:
    yield f"{title} {_word(info.get('version'))}".strip()
    yield _word(info.get("summary"))
    yield _word(info.get("description"))
    for server in _listed(told.get("servers")):
        yield f"Server: {_word(_table(server).get('url'))} {_word(_table(server).get('description'))}".rstrip()
    if _word(told.get("host")):
        yield f"Server: {_word(told.get('host'))}{_word(told.get('basePath'))}"


def _operations(told: Table) -> Iterator[tuple[tuple[str, ...], Table]]:
    """Return all operations, by the names on the way to them; webhooks are operations, too."""
    for where in ("paths", "webhooks"):
        for path, item in _table(told.get(where)).items():
            shared = _listed(_table(item).get("parameters"))
            for method in _METHODS:
                operation = _table(_table(item).get(method))
                if operation:
                    own = [*shared, *_listed(operation.get("parameters"))]
                    yield (where, str(path), method), {**operation, "parameters": own}


def _schemas(told: Table) -> Iterator[tuple[tuple[str, ...], Table]]:
    places = (("components", "schemas"), ("definitions",))
    for place in places:
        table = told
        for name in place:
            table = _table(table.get(name))
        for name, schema in table.items():
            yield (*place, str(name)), _table(schema)


def _described(called: str, operation: Table) -> Iterator[str]:
    summary = _word(operation.get("summary"))
    yield f"{called}: {summary}" if summary else called
    yield _word(operation.get("description"))
    if operation.get("deprecated") is True:
        yield "Deprecated."
    parameters = [_parameter(_table(one)) for one in operation["parameters"][:_MOST_LISTED]]
    if parameters:
        yield "Parameters:"
        yield from parameters
    yield from _body(_table(operation.get("requestBody")))
    responses = list(_responses(_table(operation.get("responses"))))
    if responses:
        yield "Responses:"
        yield from responses
    yield _named("Operation", operation.get("operationId"))
    yield _named("Tags", ", ".join(_word(tag) for tag in _listed(operation.get("tags"))))


def _parameter(told: Table) -> str:
    if "$ref" in told:
        return f"- {_type(told)}"
    schema = _table(told.get("schema")) or told
    facts = [_word(told.get("in")), "required" if told.get("required") is True else "", _type(schema)]
    described = _word(told.get("description"))
    return f"- {_word(told.get('name'))} ({', '.join(filter(None, facts))})" + (f": {described}" if described else "")


def _body(told: Table) -> Iterator[str]:
    if not told:
        return
    kinds = [f"{kind}: {_type(_table(_table(one).get('schema')))}" for kind, one in _table(told.get("content")).items()]
    yield f"Request body: {'; '.join(kinds[:_MOST_VALUES]) or _type(told)}"
    yield _word(told.get("description"))


def _responses(told: Table) -> Iterator[str]:
    for status, one in list(told.items())[:_MOST_LISTED]:
        answer = _table(one)
        schemas = [_table(_table(part).get("schema")) for part in _table(answer.get("content")).values()]
        schemas += [_table(answer.get("schema"))] if "schema" in answer else []
        types = ", ".join(dict.fromkeys(_type(schema) for schema in schemas if schema))
        described = _word(answer.get("description")) or (_type(answer) if "$ref" in answer else "")
        yield f"- {status}: {' — '.join(filter(None, [described, types]))}"


def _shaped(called: str, schema: Table) -> Iterator[str]:
    yield f"{called}: {_type(schema)}"
    yield _word(schema.get("description"))
    needed = {_word(name) for name in _listed(schema.get("required"))}
    for name, one in list(_table(schema.get("properties")).items())[:_MOST_LISTED]:
        facts = [_type(_table(one)), "required" if str(name) in needed else ""]
        described = _word(_table(one).get("description"))
        yield f"- {name} ({', '.join(filter(None, facts))})" + (f": {described}" if described else "")


def _type(schema: Table, depth: int = 0) -> str:
    """Name the type of a schema in a few words; a reference by the last name of it."""
    if depth > _DEPTH:
        return "…"
    if "$ref" in schema:
        return _word(schema.get("$ref")).rpartition("/")[2]
    for key, joint in (("allOf", " and "), ("oneOf", " or "), ("anyOf", " or ")):
        parts = [_type(_table(one), depth + 1) for one in _listed(schema.get(key))[:_MOST_VALUES]]
        if parts:
            return joint.join(filter(None, parts))
    named = schema.get("type")
    kinds = " or ".join(_word(one) for one in named) if isinstance(named, list) else _word(named)
    if kinds == "array":
        return f"list of {_type(_table(schema.get('items')), depth + 1) or 'anything'}"
    values = ", ".join(str(one)[:40] for one in _listed(schema.get("enum"))[:_MOST_VALUES])
    return " ".join(filter(None, [kinds, _word(schema.get("format")), f"one of {values}" if values else ""]))


def _lines(parts: Iterator[str]) -> str:
    return "\n".join(part for part in parts if part.strip())


def _named(name: str, value: object) -> str:
    return f"{name}: {value}" if isinstance(value, str) and value else ""


def _slug(text: str) -> str:
    return _SLUG.sub("-", text.casefold()).strip("-")[:200] or "api"


def _table(value: object) -> Table:
    return value if isinstance(value, dict) else {}


def _listed(value: object) -> list[Any]:
    return value if isinstance(value, list) else []


def _word(value: object) -> str:
    return str(value).strip() if isinstance(value, str | int | float) and not isinstance(value, bool) else ""
