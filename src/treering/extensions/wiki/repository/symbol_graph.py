"""The imports, calls and uses between the files of a repository, and the PageRank of files and definitions."""

import re
from collections import Counter, defaultdict
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field

import numpy as np

from treering.core.evidence import Lines, Segment
from treering.core.objects import Source
from treering.extensions.code.links.places import line_of
from treering.extensions.code.links.targets import CodeTarget, targets_of, uses_in
from treering.extensions.wiki.pages import LineCitation
from treering.extensions.wiki.repository.api_entries import SourceLines
from treering.extensions.wiki.repository.files import RepositoryFiles, WikiFile, read_sources
from treering.extensions.wiki.repository.signatures import word_at
from treering.ports.passages import Reach
from treering.ports.runtime import check_interrupt
from treering.retrieval.index.code_names import read_use
from treering.retrieval.index.rounds import run_together
from treering.verbs.engine import Engine

_BATCH = 50
"""The number of files whose links are looked up together."""
_MOST_NAMES = 12
"""The maximum number of names per link."""
_DAMPING = 0.85
"""Of PageRank as published (Brin and Page, 1998): the whole graph is ranked, not the neighborhood of a query."""
_ROUNDS = 40
_LONGEST_IMPORT = 60
"""The maximum number of lines of one import statement."""
_IMPORT = re.compile(
    r"(?P<indent>\s*)(?:from|import|export|use|using|require|#include|const|let|var)\b(?P<types>\s+type\b)?"
)
_LONGEST_FUNCTION = 2_000
"""The maximum number of lines above an import that are read to find the function around it."""
_CLOSING = (")", "]", "}")
"""The beginnings of lines that end a statement of several lines, such as parameters: the statement begins above."""
_FUNCTION = re.compile(r"(?:async\s+)?def\b")
_NAME_END = re.compile(r"[/.:]")
_IMPLICIT_IMPORTS = frozenset({"c", "rb", "php", "sh", "java", "cs", "go"})
"""Families of languages in which a file may use another without importing it."""
_WHOLE_IMPORTS = frozenset({"c", "rb", "sh"})
"""Families of languages that import whole files, without names."""
_SEEDS = {"test": 0.1, "example": 0.5, "documentation": 0.5, "data": 0.4, "changelog": 0.3, "generated": 0.3}
"""The weight of a file at the start of the walk, by its role; code has 1. Nothing uses a test."""


@dataclass(frozen=True, slots=True)
class FileLink:
    """A file that imports or uses another, with the first such line and the used names."""

    start: str
    end: str
    imports: bool
    lines: LineCitation
    names: tuple[str, ...]
    weight: int
    when_loaded: bool
    """Whether it is imported at load time: not only for types, and not inside a function."""
    is_stated: bool
    """Whether it is more than a use of a name that only one file defines."""
    imported: tuple[str, ...] = ()
    """The names that it imports outside of functions, in the order of their lines."""


@dataclass(frozen=True)
class SymbolGraph:
    """The links between the files of a repository, and the importance of files and segments."""

    links: Sequence[FileLink]
    importance: Mapping[str, float]
    """By path, from 0 to 1; the sum over all files of code is 1."""
    symbols: Mapping[tuple[str, str], float] = field(default_factory=dict)
    """By source and segment id."""
    _outgoing: Mapping[str, Sequence[FileLink]] = field(default_factory=dict)
    _incoming: Mapping[str, Sequence[FileLink]] = field(default_factory=dict)

    def from_files(self, *paths: str) -> list[FileLink]:
        """Return the links of some files to others."""
        return [link for path in paths for link in self._outgoing.get(path, ())]

    def to_files(self, *paths: str) -> list[FileLink]:
        """Return the links of other files to some files."""
        return [link for path in paths for link in self._incoming.get(path, ())]


def read_graph(engine: Engine, files: RepositoryFiles, reach: Reach) -> SymbolGraph:
    """Look up the links of all files of code, and rank files and segments by PageRank."""
    code = [file for file in files.files.values() if file.code]
    ties: list[_Tie] = []
    for start in range(0, len(code), _BATCH):
        check_interrupt()
        engine.progress("Reading files of code", start, len(code))
        ties += _ties(engine, files, code[start : start + _BATCH], reach)
    links = sorted(_links(ties), key=lambda link: (link.start, link.end))
    stated = {(link.start, link.end) for link in links if link.is_stated}
    ties = [tie for tie in ties if tie.start.path == tie.end.path or (tie.start.path, tie.end.path) in stated]
    return _graph(files, links, _ranked(code, ties, files))


@dataclass(frozen=True, slots=True)
class _Tie:
    """A segment that imports, calls or uses another segment."""

    start: WikiFile
    start_part: str
    end: WikiFile
    end_part: str
    how: str
    name: str
    lines: LineCitation | None
    when_loaded: bool
    offers: bool
    """Whether it is an import outside of functions, whose name others can import from the file."""


def _ties(engine: Engine, files: RepositoryFiles, batch: Sequence[WikiFile], reach: Reach) -> list[_Tie]:
    read = read_sources(engine.ledger, [file.source_id for file in batch])
    sources = [(files.by_id[source.id], source) for source in read]
    searches = [
        targets_of(file.code, files.root, uses_in(source), reach) for file, source in sources if file.code is not None
    ]
    results: list[list[CodeTarget]] = run_together(searches, index=engine.index, ledger=engine.ledger)
    ties: list[_Tie] = []
    for (file, source), targets in zip(sources, results, strict=True):
        ties += _of_file(files, file, source, targets)
    return ties


def _of_file(files: RepositoryFiles, file: WikiFile, source: Source, targets: Iterable[CodeTarget]) -> Iterator[_Tie]:
    text = SourceLines(source, file.path)
    parts: dict[str, list[int]] = defaultdict(list)
    for at, (_, part) in enumerate(text.spans):
        for use in part.uses:
            parts[use].append(at)
    for target in targets:
        end = files.by_id.get(target.place.head.object_id)
        for at in parts[target.use] if end else ():
            part = text.spans[at][1]
            if end is None or (end.path == file.path and part.segment_id == target.place.head.part):
                continue
            lines = _line(text, part, target.use) if end.path != file.path else None
            imported = target.how == "imports" and lines is not None
            loaded = imported and lines is not None and _is_loaded(text.lines, lines.first_line)
            offers = imported and lines is not None and not _is_in_function(text.lines, lines.first_line)
            place = target.place.head.part
            yield _Tie(file, part.segment_id, end, place, target.how, target.name, lines, loaded, offers)


def _is_loaded(lines: Sequence[str], at: int) -> bool:
    """Return whether an import runs at load time: it is not indented, and not only for types."""
    statement = _IMPORT.match(lines[_statement(lines, at)])
    return statement is None or not (statement["indent"] or statement["types"])


def _is_in_function(lines: Sequence[str], at: int) -> bool:
    """Return whether a function of Python contains a line, judged by the less indented lines above it."""
    indent = len(lines[at])
    for line in reversed(lines[max(0, at - _LONGEST_FUNCTION) : at + 1]):
        bare = line.lstrip()
        if bare and not bare.startswith(_CLOSING) and len(line) - len(bare) < indent:
            indent = len(line) - len(bare)
            if _FUNCTION.match(bare):
                return True
        if not indent:
            return False
    return False


def _import_line(lines: Sequence[str], part: Segment, name: str) -> int | None:
    """Return the line of an import statement that contains a name, or `None`."""
    place = part.locator
    if not isinstance(place, Lines) or not name:
        return None
    candidates = (at for at in range(place.start, place.end + 1) if word_at(lines[at], name) >= 0)
    return next((at for at in candidates if _IMPORT.match(lines[_statement(lines, at)])), None)


def _statement(lines: Sequence[str], at: int) -> int:
    """Return the first line of the import statement around a line."""
    first = at
    while first > max(0, at - _LONGEST_IMPORT) and not _IMPORT.match(lines[first]) and lines[first].strip():
        first -= 1
    return first


def _line(text: SourceLines, part: Segment, written: str) -> LineCitation | None:
    use = read_use(written)
    name = _NAME_END.split(use.name or use.module)[-1] if use else ""
    line = _import_line(text.lines, part, name) if use and use.how == "imports" else None
    line = line or line_of(part, name)
    return text.cite(line, line) if line else None


def _links(ties: Iterable[_Tie]) -> Iterator[FileLink]:
    pairs: dict[tuple[str, str], list[_Tie]] = defaultdict(list)
    for tie in ties:
        if tie.start.path != tie.end.path and tie.lines:
            pairs[tie.start.path, tie.end.path].append(tie)
    for (start, end), several in pairs.items():
        first = min(several, key=lambda tie: (tie.how != "imports", tie.lines.first_line if tie.lines else 0))
        defined = {entry.short for entry in several[0].end.entries}
        names = Counter(filter(None, (_used_name(tie, defined) for tie in several)))
        used = tuple(name for name, _ in sorted(names.items(), key=lambda one: (-one[1], one[0]))[:_MOST_NAMES])
        if first.lines:
            imports = any(tie.how == "imports" for tie in several)
            loaded = any(tie.when_loaded for tie in several)
            code = first.start.code
            is_stated = imports or (code is not None and code.family in _IMPLICIT_IMPORTS)
            imported = tuple(dict.fromkeys(filter(None, (_used_name(tie, defined) for tie in several if tie.offers))))
            yield FileLink(start, end, imports, first.lines, used, len(several), loaded, is_stated, imported)


def _used_name(tie: _Tie, defined: Collection[str]) -> str:
    """Return the name that a file uses of another, or "" if it is not known.

    `Server::instance` may mean an `instance` of any included file: only a name that the other file defines is stated.
    """
    if not tie.name.strip("*") or tie.name.startswith("__"):
        return ""
    parts = tie.name.split(".")
    is_guess = tie.start.code is not None and tie.start.code.family in _WHOLE_IMPORTS
    return next((part for part in parts if part in defined), "") if is_guess else parts[0]


def _ranked(code: Sequence[WikiFile], ties: Sequence[_Tie], files: RepositoryFiles) -> Mapping[tuple[str, str], float]:
    """Rank files and segments by a walk that starts everywhere and follows links (PageRank by power iteration).

    A file is a segment with an empty id.
    """
    numbers = {(file.source_id, ""): at for at, file in enumerate(code)}

    def number(source_id: str, part: str) -> int:
        return numbers.setdefault((source_id, part), len(numbers))

    pairs = [(number(tie.start.source_id, tie.start_part), number(tie.end.source_id, tie.end_part)) for tie in ties]
    # A file links to its segments, and each segment to the symbols that it uses.
    pairs += [(number(source_id, ""), number(source_id, part)) for source_id, part in list(numbers) if part]
    starts, targets = np.array(sorted(pairs), np.int64).reshape(-1, 2).T
    degrees = np.bincount(starts, minlength=len(numbers))
    settling = np.where(degrees > 0, 1 - _DAMPING, 1.0)
    seeds = np.array([_SEEDS.get(files.by_id[source_id].role, 1.0) for source_id, _ in numbers])
    moving = seeds / seeds.sum()
    settled = np.zeros(len(numbers))
    for _ in range(_ROUNDS):
        check_interrupt()
        settled += moving * settling
        moving = np.bincount(targets, _DAMPING * moving[starts] / degrees[starts], len(numbers))
    return dict(zip(numbers, (settled + moving).tolist(), strict=True))


def _graph(files: RepositoryFiles, links: Sequence[FileLink], mass: Mapping[tuple[str, str], float]) -> SymbolGraph:
    importance: dict[str, float] = defaultdict(float)
    symbols: dict[tuple[str, str], float] = {}
    whole = sum(mass.values()) or 1.0
    for (source_id, part), share in mass.items():
        importance[files.by_id[source_id].path] += share / whole
        if part:
            symbols[source_id, part] = share / whole
    outgoing: dict[str, list[FileLink]] = defaultdict(list)
    incoming: dict[str, list[FileLink]] = defaultdict(list)
    for link in links:
        outgoing[link.start].append(link)
        incoming[link.end].append(link)
    return SymbolGraph(links, importance, symbols, outgoing, incoming)
