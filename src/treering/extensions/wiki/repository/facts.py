"""The content of one repository at one moment, from which the pages of a wiki are written."""

import re
from collections import Counter, defaultdict
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property

from treering.core.objects import Knowledge, Source
from treering.extensions.code.parsing.imports import STANDARD_LIBRARY
from treering.extensions.wiki.pages import LineCitation
from treering.extensions.wiki.repository.api_entries import ApiEntry, SourceLines, assigned_at
from treering.extensions.wiki.repository.files import RepositoryFiles, WikiFile, read_files
from treering.extensions.wiki.repository.known_objects import KnownObjects, KnownSubject, read_known
from treering.extensions.wiki.repository.packages import (
    CodePart,
    CodeParts,
    code_parts,
    implementation_of,
    stands_for_folder,
)
from treering.extensions.wiki.repository.prose import Words
from treering.extensions.wiki.repository.sections import DocumentSection, sections_of
from treering.extensions.wiki.repository.signatures import word_at
from treering.extensions.wiki.repository.symbol_graph import FileLink, SymbolGraph, read_graph
from treering.ports.ledger import ObjectRequest
from treering.ports.passages import Reach
from treering.verbs.engine import Engine

_MIN_REPETITIONS = 3
"""A paragraph in two READMEs may describe both, such as a package in two languages."""
_MAX_STEPS = 4
"""The maximum number of re-exports followed to find a definition."""


@dataclass(frozen=True)
class RepositoryFacts:
    """The files, links, parts and knowledge of a repository."""

    engine: Engine
    files: RepositoryFiles
    graph: SymbolGraph
    code: CodeParts
    known: KnownObjects
    _sections: dict[str, tuple[DocumentSection, ...]] = field(default_factory=dict)
    introductions: dict[str, list[Words]] = field(default_factory=dict)
    """The introductions of documents that were read, by path (`purposes.introduction_of`)."""

    def sections(self, file: WikiFile) -> tuple[DocumentSection, ...]:
        """Return the sections of a document; cached."""
        if file.path not in self._sections:
            text = self.text(file)
            self._sections[file.path] = sections_of(text) if text else ()
        return self._sections[file.path]

    def text(self, file: WikiFile) -> SourceLines | None:
        """Return the lines of a file, or `None` if it was deleted."""
        request = ObjectRequest(objects=(file.source_id,), as_of=self.files.sequence)
        (read,) = self.engine.ledger.read([request])
        source = read.objects.get(file.source_id)
        return SourceLines(source, file.path) if isinstance(source, Source) else None

    def paragraphs(self, file: WikiFile) -> Iterator[str]:
        """Return the paragraphs of a document."""
        return (one.text for section in self.sections(file) for one in section.blocks if one.kind == "paragraph")

    def definition_of(self, file: WikiFile, name: str) -> tuple[LineCitation, ApiEntry | None] | None:
        """Return where an exported name is defined: in the file itself, or in a file it imports the name from."""
        for _ in range(_MAX_STEPS):
            entry = next((one for one in file.entries if one.name == name and not one.owner), None)
            if entry:
                return entry.lines, entry
            text = self.text(file)
            if text and (lines := assigned_at(text, name)):
                return lines, None
            links = (link for link in self.graph.from_files(file.path) if link.imports and name in link.names)
            further = next((link.end for link in links), None)
            if further is None:
                return None
            file = self.files.files[further]
        return None

    def assigned_for_others(self, file: WikiFile) -> list[tuple[str, LineCitation]]:
        """Return the names without a definition, such as aliases, that a file assigns and other files import."""
        defined = {entry.short for entry in file.entries}
        links = self.graph.to_files(file.path)
        names = sorted({name for link in links if link.imports for name in link.names} - defined)
        text = self.text(file) if names else None
        places = ((name, assigned_at(text, name)) for name in names if text and not name.startswith("_"))
        return [(name, lines) for name, lines in places if lines]

    def line_with(self, file: WikiFile, name: str) -> LineCitation | None:
        """Return the first line of a file that contains a name."""
        text = self.text(file)
        lines = text.lines if text else ()
        at = next((at for at, line in enumerate(lines) if word_at(line, name) >= 0), None)
        return text.cite(at, at) if text and at else None

    def by_importance(self, paths: Iterable[str]) -> list[str]:
        """Sort files by importance, the most important first."""
        return sorted(paths, key=lambda path: (-round(self.graph.importance.get(path, 0.0), 6), path))

    @cached_property
    def readmes(self) -> Mapping[str, WikiFile]:
        """The README of each folder, preferably in Markdown; the top folder is ""."""
        readmes = [file for file in self.files.files.values() if file.name.lower().startswith("readme") and file.head]
        return {file.folder: file for file in sorted(readmes, key=lambda file: (file.path.endswith(".md"), file.path))}

    @cached_property
    def repeated_paragraphs(self) -> frozenset[str]:
        """The paragraphs of several READMEs, such as the footer of generated ones: they describe none of them."""
        texts = Counter(text for one in self.readmes.values() for text in {*self.paragraphs(one)})
        return frozenset(text for text, count in texts.items() if count >= _MIN_REPETITIONS)

    @cached_property
    def ranked_parts(self) -> Sequence[CodePart]:
        """The parts of the code, most important first."""
        parts = self.code.parts.values()
        return sorted(parts, key=lambda part: (-round(part.importance, 6), part.key))

    @cached_property
    def outside_packages(self) -> Mapping[str, Sequence[str]]:
        """The files that import each external package, by its name."""
        own = self._own_names() | STANDARD_LIBRARY
        users: dict[str, list[str]] = defaultdict(list)
        for path in self.code.of_file:
            family = code.family if (code := self.files.files[path].code) else ""
            for name in sorted({outside_name(one, family) for one in self.files.files[path].imports} - own - {""}):
                users[name].append(path)
        return users

    def part_of(self, path: str) -> CodePart | None:
        """Return the part whose page describes a file of code."""
        key = self.code.of_file.get(path)
        return self.code.parts[key] if key else None

    def files_of(self, part: CodePart) -> list[WikiFile]:
        """Return the files described on the page of a part, without the stubs of others."""
        return [self.files.files[path] for path in part.files if not implementation_of(path, part.files)]

    def stubs_of(self, part: CodePart) -> list[WikiFile]:
        """Return the stubs with the types of files of a part."""
        return [self.files.files[path] for path in part.files if implementation_of(path, part.files)]

    def parts_of(self, subject: KnownSubject) -> list[CodePart]:
        """Return the parts that a node represents: the part of its folder, else the parts with its files."""
        slug = str(self.files.payload.get("slug") or "")
        folder = subject.slug.removeprefix(f"{slug}/") if slug else ""
        if folder in self.code.parts:
            return [self.code.parts[folder]]
        paths = (self.files.by_id[one].path for one in sorted(subject.sources))
        parts = {part.key: part for path in paths if (part := self.part_of(path))}
        return [parts[key] for key in sorted(parts)]

    def known_about(self, part: CodePart) -> list[Knowledge]:
        """Return the knowledge with evidence in the files of a part, or about a node that represents it."""
        sources = {file.source_id for file in (*self.files_of(part), *self.stubs_of(part))}
        return self.known.about(sources, lambda subject: part in self.parts_of(subject))

    def important(self, file: WikiFile) -> list[ApiEntry]:
        """Return the public top-level definitions of a file, most important first."""
        top = [entry for entry in file.public if not entry.owner]
        symbols = self.graph.symbols
        return sorted(
            top,
            key=lambda one: (-round(symbols.get((file.source_id, one.lines.segment_id), 0.0), 7), one.lines.first_line),
        )

    def _own_names(self) -> set[str]:
        names = {file.package for file in self.files.files.values() if file.package}
        for path in self.code.of_file:
            parts = path.split("/")
            names |= {part.rpartition(".")[0] if at == len(parts) - 1 else part for at, part in enumerate(parts)}
        for path, file in self.files.files.items():  # an include may name more or fewer folders
            if file.code and file.code.family == "c":
                names |= {path[at:] for at in (0, *(match.end() for match in re.finditer("/", path)))}
        return {one for name in names for one in (name, name.replace("-", "_"), outside_name(name))}


def read_facts(engine: Engine, scope: str, root: str) -> RepositoryFacts:
    """Read the content of a repository. Raises the errors of `read_files`."""
    files = read_files(engine.ledger, scope, root)
    graph = read_graph(engine, files, Reach(scope))
    parts = code_parts(files, graph)
    known = read_known(engine.ledger, scope, files, now=engine.clock.now())
    return RepositoryFacts(engine, files, graph, parts, known)


def outside_name(name: str, family: str = "") -> str:
    """Return the name of the imported package, in C of the included file, or "" for a relative import."""
    if family == "c":
        return re.sub(r"^(?:\.\.?/)+", "", name)
    if name.startswith((".", "/", "#", "~", "@/", "crate", "self", "super")):
        return ""
    if name.startswith("@"):
        return "/".join(name.split("/")[:2])
    if "/" in name and "." in name.split("/")[0]:
        return "/".join(name.split("/")[:3])
    return name.split("/")[0].split("::")[0].split(".")[0] if ":" not in name.split("/")[0] or "::" in name else name


def offered(file: WikiFile, facts: RepositoryFacts) -> list[FileLink]:
    """Return the imports that the entry file of a folder re-exports from the files of the folder."""
    is_entry = stands_for_folder(file) and file.name != "main.rs"
    links = facts.graph.from_files(file.path) if is_entry else []
    return [link for link in links if link.imported and link.end.startswith(f"{file.folder}/")]
