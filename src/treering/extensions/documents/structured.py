"""Structured documents: Jupyter notebooks, and OpenAPI descriptions."""

import json
import re
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any

from treering.core.characters import well_formed
from treering.core.evidence import Pointer
from treering.core.screening import instruction_flags
from treering.extensions.documents.yaml_process import YamlStopped, read_yaml
from treering.ports.adapter import NodeDraft, Role, SegmentDraft
from treering.ports.format import DocumentDraft, FileToRead, FormatLimits, Unreadable
from treering.sources.reading.encodings import decode

_OUTPUT_LINES, _OUTPUT_CHARS = 20, 1_000
_HEADING = re.compile(r"^#{1,6}[ \t]+(?P<name>.+?)[ \t#]*$", re.MULTILINE)
_ESCAPES = re.compile(r"\x1b\[[0-9;?]*[A-Za-z]")


class NotebookFormat:
    """Jupyter notebooks (`*.ipynb`, version 4): text cells as prose, code cells with a few lines of output."""

    name = "notebook"
    limits: FormatLimits = FormatLimits(max_segments=20_000)

    def claims(self, path: str, head: bytes, /) -> bool:
        """Return whether the name has the suffix."""
        del head
        return path.lower().endswith(".ipynb")

    def read(self, data: bytes, file: FileToRead, /) -> DocumentDraft | None:
        """Read a notebook, without images and other data; `None` if it is not one."""
        decoded = decode(data)
        try:
            notebook = _table(json.loads(decoded.text) if decoded else None)
        except (ValueError, RecursionError):
            return None
        cells = notebook.get("cells")
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
        language = _table(_table(notebook.get("metadata")).get("kernelspec")).get("language")
        named = {"language": well_formed(language)} if isinstance(language, str) and language else {}
        return DocumentDraft(
            "structured",
            pieces.segments,
            title=title,
            metadata={**pieces.metadata, **named},
            warnings=pieces.warnings,
        )


def _outputs(outputs: Any) -> Iterator[tuple[int, str]]:
    """Yield the output of a cell, shortened: streams, results in plain text, and errors."""
    for at, one in enumerate(outputs if isinstance(outputs, list) else []):
        output = _table(one)
        match output.get("output_type"):
            case "stream":
                text = _text(output.get("text"))
            case "error":
                text = f"{output.get('ename')}: {output.get('evalue')}"
            case _:
                text = _text(_table(output.get("data")).get("text/plain"))
        lines = _ESCAPES.sub("", text).strip().splitlines()
        shown = "\n".join(lines[:_OUTPUT_LINES])[:_OUTPUT_CHARS]
        if shown:
            yield at, shown if len(lines) <= _OUTPUT_LINES else f"{shown}\n…"


def _text(source: Any) -> str:
    """Return a text that may be stored as a list of lines."""
    if isinstance(source, list):
        return "".join(one for one in source if isinstance(one, str))
    return source if isinstance(source, str) else ""


Table = Mapping[str, Any]

_METHODS = ("get", "put", "post", "delete", "options", "head", "patch", "trace")
_SUFFIXES = (".json", ".yaml", ".yml")
_KEY = re.compile(rb"(?:^|[\s{,])[\"']?(?:openapi|swagger)[\"']?[ \t]*:[ \t]*[\"']?[23]")
_MOST_LISTED = 300
_MOST_VALUES = 20
_MOST_NODES = 1_000
_DEPTH = 4
_SLUG = re.compile(r"[^a-z0-9{}]+")


class OpenApiFormat:
    """OpenAPI 3 and Swagger 2 descriptions in JSON or YAML, with `openapi: 3…` or `swagger: 2…` near the beginning.

    Each operation and each schema is a segment at its JSON pointer. Operations are nodes of kind `api`.
    """

    name = "openapi"
    limits: FormatLimits = FormatLimits(max_bytes=30_000_000, max_segments=50_000)

    def claims(self, path: str, head: bytes, /) -> bool:
        """Return whether the suffix matches, and the version is near the beginning."""
        return path.lower().endswith(_SUFFIXES) and (not head or _KEY.search(head) is not None)

    def read(self, data: bytes, file: FileToRead, /) -> DocumentDraft | Unreadable | None:
        """Read a description; `None` if it is not one."""
        document = _loaded(data)
        if isinstance(document, Unreadable):
            return document
        version = document.get("openapi", document.get("swagger"))
        if not isinstance(version, str | int | float) or not isinstance(
            document.get("paths", document.get("components")), dict
        ):
            return None
        pieces = PieceWriter(file)
        info = _table(document.get("info"))
        title = pieces.clean(_word(info.get("title")) or file.path, pointer_to("info", "title"))
        pieces.add(pointer_to("info"), _lines(_introduced(title, info, document)), heading=title)
        nodes = [NodeDraft("api", title, _slug(title), summary=pieces.clean(_word(info.get("summary")), "/info"))]
        for path, operation in _operations(document):
            names = pieces.names(path)
            name = pieces.clean(f"{names[2].upper()} {names[1]}", pointer_to(*names))
            pieces.add(pointer_to(*names), _lines(_described(name, operation)), heading=f"{title} > {name}")
            if len(nodes) < _MOST_NODES:
                summary = pieces.clean(_word(operation.get("summary")), pointer_to(*names))
                whole = f"api:{_slug(title)}"
                nodes.append(NodeDraft("api", name, f"{_slug(title)}/{_slug(name)}", summary=summary, part_of=whole))
        for path, schema in _schemas(document):
            names = pieces.names(path)
            name = pieces.clean(names[-1], pointer_to(*names))
            pieces.add(pointer_to(*names), _lines(_shaped(name, schema)), heading=f"{title} > {name}", role="data")
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
    """Return the data of a file; an empty table if it is neither JSON nor YAML, or no table."""
    decoded = decode(data)
    if decoded is None:
        return {}
    try:
        document = json.loads(decoded.text)
    except RecursionError:
        return {}
    except ValueError:
        document = read_yaml(decoded.text.encode(errors="replace"))
    return Unreadable(document.why) if isinstance(document, YamlStopped) else _table(document)


def _introduced(title: str, info: Table, document: Table) -> Iterator[str]:
    yield f"{title} {_word(info.get('version'))}".strip()
    yield _word(info.get("summary"))
    yield _word(info.get("description"))
    for server in _listed(document.get("servers")):
        yield f"Server: {_word(_table(server).get('url'))} {_word(_table(server).get('description'))}".rstrip()
    if _word(document.get("host")):
        yield f"Server: {_word(document.get('host'))}{_word(document.get('basePath'))}"


def _operations(document: Table) -> Iterator[tuple[tuple[str, ...], Table]]:
    """Yield all operations, including webhooks, with the path of names to each."""
    for section in ("paths", "webhooks"):
        for path, item in _table(document.get(section)).items():
            shared = _listed(_table(item).get("parameters"))
            for method in _METHODS:
                operation = _table(_table(item).get(method))
                if operation:
                    own = [*shared, *_listed(operation.get("parameters"))]
                    yield (section, str(path), method), {**operation, "parameters": own}


def _schemas(document: Table) -> Iterator[tuple[tuple[str, ...], Table]]:
    places = (("components", "schemas"), ("definitions",))
    for place in places:
        table = document
        for name in place:
            table = _table(table.get(name))
        for name, schema in table.items():
            yield (*place, str(name)), _table(schema)


def _described(name: str, operation: Table) -> Iterator[str]:
    summary = _word(operation.get("summary"))
    yield f"{name}: {summary}" if summary else name
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


def _parameter(data: Table) -> str:
    if "$ref" in data:
        return f"- {_type(data)}"
    schema = _table(data.get("schema")) or data
    facts = [_word(data.get("in")), "required" if data.get("required") is True else "", _type(schema)]
    described = _word(data.get("description"))
    return f"- {_word(data.get('name'))} ({', '.join(filter(None, facts))})" + (f": {described}" if described else "")


def _body(data: Table) -> Iterator[str]:
    if not data:
        return
    kinds = [f"{kind}: {_type(_table(_table(one).get('schema')))}" for kind, one in _table(data.get("content")).items()]
    yield f"Request body: {'; '.join(kinds[:_MOST_VALUES]) or _type(data)}"
    yield _word(data.get("description"))


def _responses(data: Table) -> Iterator[str]:
    for status, one in list(data.items())[:_MOST_LISTED]:
        answer = _table(one)
        schemas = [_table(_table(part).get("schema")) for part in _table(answer.get("content")).values()]
        schemas += [_table(answer.get("schema"))] if "schema" in answer else []
        types = ", ".join(dict.fromkeys(_type(schema) for schema in schemas if schema))
        described = _word(answer.get("description")) or (_type(answer) if "$ref" in answer else "")
        yield f"- {status}: {' — '.join(filter(None, [described, types]))}"


def _shaped(name: str, schema: Table) -> Iterator[str]:
    yield f"{name}: {_type(schema)}"
    yield _word(schema.get("description"))
    needed = {_word(name) for name in _listed(schema.get("required"))}
    for name, one in list(_table(schema.get("properties")).items())[:_MOST_LISTED]:
        facts = [_type(_table(one)), "required" if str(name) in needed else ""]
        described = _word(_table(one).get("description"))
        yield f"- {name} ({', '.join(filter(None, facts))})" + (f": {described}" if described else "")


def _type(schema: Table, depth: int = 0) -> str:
    """Return a short name of the type of a schema; for a reference, its last part."""
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


MOST_TEXT = 100_000
"""The maximum number of characters stored of one text."""


@dataclass(slots=True)
class PieceWriter:
    """Collects texts at JSON pointers in order, redacted and split, as `segments`, `metadata` and `warnings`."""

    file: FileToRead
    segments: list[SegmentDraft] = field(default_factory=list)
    warnings: list[str] = field(default_factory=list)
    _flags: dict[str, None] = field(default_factory=dict)

    @property
    def metadata(self) -> dict[str, Any]:
        """Flags of texts that look like instructions."""
        return {"flags": [*self._flags]} if self._flags else {}

    def names(self, names: Iterable[str]) -> list[str]:
        """Redact the names on the path to a place, because a pointer would show them."""
        return [self.file.cleaned(well_formed(one)).text for one in names]

    def clean(self, text: str, pointer: str) -> str:
        """Redact a short text, such as a title, with warnings."""
        whole = well_formed(text)
        self.warnings += [f"replaced invalid Unicode (a lone surrogate) at {pointer or '/'}"] if whole != text else []
        redacted = self.file.cleaned(whole)
        self.warnings += [f"{one.kind} at {pointer or '/'}: redacted" for one in redacted.findings]
        return redacted.text

    def add(self, pointer: str, text: str, *, heading: str = "", role: Role = "prose") -> None:
        """Add a text at a pointer, unless it is empty."""
        if len(text) > MOST_TEXT:
            self.warnings.append(f"only the first {MOST_TEXT:,} of {len(text):,} characters at {pointer} are indexed")
        cleaned = self.clean(text[:MOST_TEXT], pointer)
        if not cleaned.strip():
            return
        self._flags |= dict.fromkeys(instruction_flags(cleaned))
        for piece in _cut(cleaned, self.file.limits.max_segment_chars):
            self.segments.append(SegmentDraft(Pointer(pointer=pointer), piece, heading=heading, role=role))


def pointer_to(*names: object) -> str:
    """Return the JSON pointer (RFC 6901) to a place, given the names and numbers on the path to it."""
    return "".join(f"/{str(name).replace('~', '~0').replace('/', '~1')}" for name in names)


def _cut(text: str, most: int) -> Iterator[str]:
    """Split a text between lines; a longer single line is not split."""
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
