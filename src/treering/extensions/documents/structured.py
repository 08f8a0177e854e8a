"""Notebooks of Jupyter: their cells, with the beginning of what they printed."""

import json
import re
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any

from treering.core.characters import well_formed
from treering.core.evidence import Pointer
from treering.core.screening import instruction_flags
from treering.extensions.documents.yaml_process import YamlProcess, YamlStopped
from treering.ports.adapter import NodeDraft, Role, SegmentDraft
from treering.ports.format import DocumentDraft, FileToRead, FormatLimits, Unreadable
from treering.sources.reading.encodings import decode

_OUTPUT_LINES, _OUTPUT_CHARS = 20, 1_000
_HEADING = re.compile(r"^#{1,6}[ \t]+(?P<name>.+?)[ \t#]*$", re.MULTILINE)
_ESCAPES = re.compile(r"\x1b\[[0-9;?]*[A-Za-z]")


class NotebookFormat:
    """Files `*.ipynb` of the fourth format: text cells as prose, code cells with a few lines of their output."""

    name = "notebook"
    limits: FormatLimits = FormatLimits(max_segments=20_000)

    def claims(self, path: str, head: bytes, /) -> bool:
        """Go by the ending of the name."""
        del head
        return path.lower().endswith(".ipynb")

    def read(self, data: bytes, file: FileToRead, /) -> DocumentDraft | None:
        """Read a notebook; what is not a notebook is left to other formats. Pictures and other data are left out."""
        decoded = decode(data)
        try:
            told = _mapping(json.loads(decoded.text) if decoded else None)
        except (ValueError, RecursionError):
            return None
        cells = told.get("cells")
        if not isinstance(cells, list):
            return None
        pieces = PieceWriter(file)
        title = heading = ""
        for number, cell in enumerate(one for one in cells if isinstance(one, dict)):
            pointer, text = pointer_to("cells", number), _text(cell.get("source"))
            if cell.get("cell_type") == "markdown":
                names = [pieces.clean(found["name"], pointer) for found in _HEADING.finditer(text)]
                title = title or next(iter(names), "")
                heading = names[0] if names else heading
                pieces.add(pointer, text, heading=heading)
            elif cell.get("cell_type") == "code":
                pieces.add(pointer, text, heading=heading, role="code")
                for at, printed in _outputs(cell.get("outputs")):
                    pieces.add(pointer_to("cells", number, "outputs", at), printed, heading=heading, role="data")
        language = _mapping(_mapping(told.get("metadata")).get("kernelspec")).get("language")
        named = {"language": well_formed(language)} if isinstance(language, str) and language else {}
        return DocumentDraft(
            "structured",
            pieces.segments,
            title=title,
            metadata={**pieces.metadata, **named},
            warnings=pieces.warnings,
        )


def _outputs(outputs: Any) -> Iterator[tuple[int, str]]:
    """Return what a cell printed, shortened: its streams, results in plain text, and errors."""
    for at, one in enumerate(outputs if isinstance(outputs, list) else []):
        told = _mapping(one)
        match told.get("output_type"):
            case "stream":
                text = _text(told.get("text"))
            case "error":
                text = f"{told.get('ename')}: {told.get('evalue')}"
            case _:
                text = _text(_mapping(told.get("data")).get("text/plain"))
        lines = _ESCAPES.sub("", text).strip().splitlines()
        shown = "\n".join(lines[:_OUTPUT_LINES])[:_OUTPUT_CHARS]
        if shown:
            yield at, shown if len(lines) <= _OUTPUT_LINES else f"{shown}\n…"


def _text(source: Any) -> str:
    """Return a text that may be kept as a list of lines."""
    if isinstance(source, list):
        return "".join(one for one in source if isinstance(one, str))
    return source if isinstance(source, str) else ""


def _mapping(value: Any) -> dict[str, Any]:
    return value if isinstance(value, dict) else {}


# Descriptions of HTTP interfaces: OpenAPI 3 and Swagger 2, in JSON or YAML, operation by operation.


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
    limits: FormatLimits = FormatLimits(max_bytes=30_000_000, max_segments=50_000)

    def claims(self, path: str, head: bytes, /) -> bool:
        """Go by the ending of the name and by the version near the beginning."""
        return path.lower().endswith(_SUFFIXES) and (not head or _KEY.search(head) is not None)

    def read(self, data: bytes, file: FileToRead, /) -> DocumentDraft | Unreadable | None:
        """Read a description; what is not a description is left to other formats."""
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


# Segments of a structured document: texts at JSON pointers, without secrets, cut where they are long.


MOST_TEXT = 100_000
"""Characters of one text that are kept."""


@dataclass(slots=True)
class PieceWriter:
    """Takes texts in their order; `segments`, `metadata` and `warnings` are what a document is made of."""

    file: FileToRead
    segments: list[SegmentDraft] = field(default_factory=list)
    warnings: list[str] = field(default_factory=list)
    _flags: dict[str, None] = field(default_factory=dict)

    @property
    def metadata(self) -> dict[str, Any]:
        """Name what is shaped like instructions."""
        return {"flags": [*self._flags]} if self._flags else {}

    def names(self, names: Iterable[str]) -> list[str]:
        """Return names on the way to a place without secrets, which a pointer to it would show."""
        return [self.file.cleaned(well_formed(one)).text for one in names]

    def clean(self, text: str, pointer: str) -> str:
        """Return a short text, such as a title, without secrets; what was taken out is warned of."""
        whole = well_formed(text)
        self.warnings += [f"replaced invalid Unicode (a lone surrogate) at {pointer or '/'}"] if whole != text else []
        found = self.file.cleaned(whole)
        self.warnings += [f"{one.kind} at {pointer or '/'}: redacted" for one in found.findings]
        return found.text

    def add(self, pointer: str, text: str, *, heading: str = "", role: Role = "prose") -> int | None:
        """Add a text that stands at a pointer; return the number of its first segment, `None` where it says nothing."""
        if len(text) > MOST_TEXT:
            self.warnings.append(f"only the first {MOST_TEXT:,} of {len(text):,} characters at {pointer} are indexed")
        kept = self.clean(text[:MOST_TEXT], pointer)
        if not kept.strip():
            return None
        self._flags |= dict.fromkeys(instruction_flags(kept))
        first = len(self.segments)
        for piece in _cut(kept, self.file.limits.max_segment_chars):
            self.segments.append(SegmentDraft(Pointer(pointer=pointer), piece, heading=heading, role=role))
        return first


def pointer_to(*names: object) -> str:
    """Return the JSON pointer (RFC 6901) to a place, by the names and numbers on the way to it."""
    return "".join(f"/{str(name).replace('~', '~0').replace('/', '~1')}" for name in names)


def _cut(text: str, most: int) -> Iterator[str]:
    """Cut a text between lines; a line that is longer by itself stays whole."""
    lines: list[str] = []
    size = 0
    for one in text.split("\n"):
        if lines and size + len(one) + 1 > most:
            yield "\n".join(lines)
            lines, size = [], 0
        lines.append(one)
        size += len(one) + 1
    if any(one.strip() for one in lines):
        yield "\n".join(lines)
