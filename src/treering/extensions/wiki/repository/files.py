"""The files of a repository in a space, read once, without their text."""

import re
from collections import Counter
from collections.abc import Collection, Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from posixpath import basename, dirname
from typing import Any

from treering.core.canonical import JsonObject
from treering.core.errors import NotFound
from treering.core.objects import Source
from treering.core.scope import lineage
from treering.extensions.wiki.pages import LineCitation
from treering.extensions.wiki.repository.api_entries import (
    ApiEntry,
    SourceLines,
    entries_of,
    module_doc,
    outline_of,
)
from treering.extensions.wiki.repository.prose import Words, cut, words_of
from treering.extensions.wiki.repository.sections import heading_text, outline_document
from treering.ports.ledger import Ledger, ObjectRequest
from treering.ports.runtime import check_interrupt
from treering.retrieval.index.code_names import CodeFile, code_file, file_at, read_use
from treering.retrieval.index.code_places import (
    CODE,
    DOCUMENT_FOLDERS,
    PlaceRole,
    role_of,
    role_of_file,
)

_PURPOSE_CHARS = 320
_TITLE_LINES = 80
_ADDRESS = re.compile(r"\w+://\S+")
_BATCH = 50
"""The number of sources in memory at a time."""


@dataclass(frozen=True, slots=True)
class WikiFile:
    """A file of the repository, without its text."""

    path: str
    source_id: str
    role: PlaceRole
    language: str
    code: CodeFile | None
    """Its name in links of code; `None` if it is not code."""
    last_line: int
    head: LineCitation | None
    """Its first segment; `None` if the file is empty."""
    purpose: tuple[Words, ...] = ()
    """The description at its top."""
    entries: tuple[ApiEntry, ...] = ()
    imports: tuple[str, ...] = ()
    """The imported modules as written, without the standard library."""
    title: str = ""
    package: str = ""
    """The name of the package, if it is a manifest."""

    @property
    def folder(self) -> str:
        """Its folder, or "" for the top."""
        return dirname(self.path)

    @property
    def name(self) -> str:
        """Its name without the folder."""
        return basename(self.path)

    @property
    def public(self) -> tuple[ApiEntry, ...]:
        """Its public definitions."""
        return tuple(entry for entry in self.entries if entry.public)


@dataclass(frozen=True)
class RepositoryFiles:
    """All files of one root, sorted by path, and the payload of the repository's map, if any."""

    root: str
    """The prefix of origins before the path."""
    sequence: int
    """The audit sequence number at which they were read."""
    files: Mapping[str, WikiFile]
    payload: JsonObject = field(default_factory=dict)
    name: str = ""
    by_id: Mapping[str, WikiFile] = field(default_factory=dict)

    def of_role(self, *roles: PlaceRole) -> Iterator[WikiFile]:
        """Return the files with one of the roles, by path."""
        return (file for file in self.files.values() if file.role in roles)


def read_files(ledger: Ledger, scope: str, root: str) -> RepositoryFiles:
    """Read the files of a repository or folder that was ingested at a scope or above it.

    `root`: its origin, such as `repo:…` or `file:/…`. Raises `NotFound` if the scope has no files of it.
    """
    sequence = ledger.sequence()
    start = root.rstrip("#/")
    states = _states(ledger, scope, start)
    before = f"{start}#" if start.startswith("repo:") else f"{start}/"
    packages = _packages_called_doc(one.removeprefix(before) for one in states if one.startswith(before))
    found: dict[str, WikiFile] = {}
    payload: JsonObject = {}
    name = start.rpartition("/")[2]
    for source in read_sources(ledger, states.values()):
        if source.origin == start and source.kind == "repo":
            payload, name = source.payload, source.title
        elif source.origin.startswith(before) and source.kind != "conversation":
            path = source.origin.removeprefix(before)
            found[path] = _file(source, path, _role(source, path, packages))
    if not found:
        raise NotFound(
            f"The scope {scope} contains no files of {start!r}.",
            hint="Ingest the repository or folder first: `treering add PATH`.",
        )
    ordered = {path: found[path] for path in sorted(found)}
    by_id = {file.source_id: file for file in ordered.values()}
    return RepositoryFiles(before, sequence, ordered, payload, name, by_id)


def mapping(value: Any) -> Mapping[str, Any]:
    """Return a part of a payload that is an object; an empty one for anything else."""
    return value if isinstance(value, Mapping) else {}


def listed(value: Any) -> list[Any]:
    """Return a part of a payload that is a list; an empty one for anything else."""
    return value if isinstance(value, list) else []


def _states(ledger: Ledger, scope: str, start: str) -> dict[str, str]:
    """Return the ids of the sources at and below an origin, by origin, from the nearest scope with any."""
    for one in reversed(lineage(scope)):
        states = ledger.sources(scope=one, root=start)
        live = {origin: state.id for origin, state in sorted(states.items()) if state.status == "active"}
        if live:
            return live
    return {}


def read_sources(ledger: Ledger, ids: Iterable[str]) -> Iterator[Source]:
    """Yield sources in the order of their ids; skip missing ones."""
    wanted = tuple(ids)
    for start in range(0, len(wanted), _BATCH):
        check_interrupt()
        batch = wanted[start : start + _BATCH]
        (read,) = ledger.read([ObjectRequest(objects=batch)])
        items = (read.objects.get(identity) for identity in batch)
        yield from (item for item in items if isinstance(item, Source))


def _packages_called_doc(paths: Iterable[str]) -> frozenset[str]:
    """Return the folders called `doc` or `docs` with more files of code than others, such as packages of Go."""
    surplus = Counter[str]()
    for path in paths:
        is_code = file_at(path) is not None and role_of_file(path, CODE) != "example"
        for folder in _document_folders(path):
            surplus[folder] += 1 if is_code else -1
    return frozenset(folder for folder, count in surplus.items() if count > 0)


def _document_folders(path: str) -> list[str]:
    parts = path.split("/")
    return ["/".join(parts[: at + 1]) for at, part in enumerate(parts[:-1]) if part.lower() in DOCUMENT_FOLDERS]


def _role(source: Source, path: str, packages: Collection[str]) -> PlaceRole:
    role = role_of(source)
    folders = _document_folders(path)
    in_package = bool(folders) and all(folder in packages for folder in folders)
    return CODE if role == "documentation" and in_package and file_at(path) else role


def _file(source: Source, path: str, role: PlaceRole) -> WikiFile:
    text = SourceLines(source, path)
    language = _text(source.metadata, "language")
    code = code_file(language, path)
    spans = text.spans
    first = spans[0][0] if spans else None
    uses = (read_use(one) for part in source.segments for one in part.uses)
    outline = outline_of(text, path) if code and role in ("code", "example") else None
    return WikiFile(
        path=path,
        source_id=source.id,
        role=role,
        language=language,
        code=code,
        last_line=len(text.lines) - 1,
        head=text.cite(first.start, first.end) if first else None,
        purpose=_purpose(module_doc(outline)) if outline else (),
        entries=entries_of(text, outline) if outline else (),
        imports=tuple(dict.fromkeys(use.module for use in uses if use and use.how == "imports")),
        title=_title(source, path, text),
        package=_text(source.metadata, "package"),
    )


def _purpose(comment: str) -> tuple[Words, ...]:
    is_mark = comment.isalpha() or _ADDRESS.fullmatch(comment)  # such as "empty"
    return tuple(cut(words_of(comment), _PURPOSE_CHARS)) if not is_mark else ()


def _title(source: Source, path: str, text: SourceLines) -> str:
    """Return the title of a file: its first heading, else the title of its source, else its name."""
    if any(part.role == "prose" for part in source.segments[:2]):
        outline = outline_document(text.lines[:_TITLE_LINES], path)
        heading = next(iter(outline.headings), None)
        # A heading without text of its own appears only in the heading path of the next one.
        above = _headings_above(source, text, heading.start + 1 if heading else 0)
        if heading and heading.level == 1 and not above:
            return heading_text(heading)
        if above:
            return above
        matter = (line for line in text.lines[: outline.matter + 1] if line.startswith("title:"))
        if title := next(matter, "").partition(":")[2].strip(" \"'"):
            return title
    headings = (part.heading for part in source.segments if part.role != "data")
    named = source.title if source.title != path else next(headings, "")
    return named.partition(" > ")[0].partition(" / ")[0] or basename(path)


def _headings_above(source: Source, text: SourceLines, line: int) -> str:
    """Return the outermost heading above the one at a line, from the heading path of the segment there."""
    found = (part.heading for place, part in text.spans if place.start <= line <= place.end)
    first, deeper, _ = next(found, "").partition(" > ")
    return first.removeprefix(f"{source.title} / ") if deeper else ""


def _text(metadata: Mapping[str, Any], key: str) -> str:
    value = metadata.get(key, "")
    return value if isinstance(value, str) else ""
