"""The imports, calls and uses between the files of a repository, and the PageRank of files and definitions."""

import re
from collections import Counter, defaultdict
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field

import numpy as np
import numpy.typing as npt

from treering.core.evidence import Lines, Segment
from treering.core.objects import Source
from treering.extensions.wiki.repository.api_entries import CitedSpan, SourceLines
from treering.extensions.wiki.repository.files import RepositoryFiles, WikiFile
from treering.extensions.wiki.repository.signatures import word_at
from treering.ports.ledger import ObjectRequest
from treering.ports.passages import Reach
from treering.ports.runtime import check_interrupt
from treering.ports.search import Edges, Nodes
from treering.retrieval.graph.code_targets import CodeTarget, targets_of, uses_in
from treering.retrieval.graph.pagerank import walk
from treering.retrieval.index.code_names import read_use
from treering.retrieval.index.code_places import line_of
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
    lines: CitedSpan
    names: tuple[str, ...]
    weight: int
    when_loaded: bool
    """Whether it is imported at load time: not only for types, and not inside a function."""


def is_stated(link: FileLink, start: WikiFile) -> bool:
    """Return whether a link is more than a use of a name that only one file defines."""
    return link.imports or (start.code is not None and start.code.family in _IMPLICIT_IMPORTS)


@dataclass(frozen=True)
class SymbolGraph:
    """The links between the files of a repository, and the importance of files and segments."""

    links: Sequence[FileLink]
    importance: Mapping[str, float]
    """By path, from 0 to 1; the sum over all files of code is 1."""
    symbols: Mapping[tuple[str, str], float] = field(default_factory=dict)
    """By source and segment id."""
    outgoing: Mapping[str, Sequence[FileLink]] = field(default_factory=dict)
    incoming: Mapping[str, Sequence[FileLink]] = field(default_factory=dict)


def read_graph(engine: Engine, files: RepositoryFiles, reach: Reach) -> SymbolGraph:
    """Look up the links of all files of code, and rank files and segments by PageRank."""
    code = [file for file in files.files.values() if file.code]
    ties: list[_Tie] = []
    for start in range(0, len(code), _BATCH):
        check_interrupt()
        engine.progress("Reading files of code", start, len(code))
        ties += _ties(engine, files, code[start : start + _BATCH], reach)
    links = sorted(_links(ties), key=lambda link: (link.start, link.end))
    nodes = _Nodes()
    for file in code:
        nodes.number(file.source_id, "")
    stated = {(link.start, link.end) for link in links if is_stated(link, files.files[link.start])}
    ties = [tie for tie in ties if tie.start.path == tie.end.path or (tie.start.path, tie.end.path) in stated]
    mass = _ranked(nodes, ties, files)
    return _graph(files, links, nodes, mass)


@dataclass(frozen=True, slots=True)
class _Tie:
    """A segment that imports, calls or uses another segment."""

    start: WikiFile
    start_part: str
    end: WikiFile
    end_part: str
    how: str
    name: str
    lines: CitedSpan | None
    when_loaded: bool


def _ties(engine: Engine, files: RepositoryFiles, batch: Sequence[WikiFile], reach: Reach) -> list[_Tie]:
    ids = tuple(file.source_id for file in batch)
    (read,) = engine.ledger.read([ObjectRequest(objects=ids)])
    sources = [(file, item) for file in batch if isinstance(item := read.objects.get(file.source_id), Source)]
    searches = [
        targets_of(file.code, files.root, uses_in(source), reach) for file, source in sources if file.code is not None
    ]
    results: list[list[CodeTarget]] = run_together(searches, index=engine.index, ledger=engine.ledger)
    ties: list[_Tie] = []
    for (file, source), targets in zip(sources, results, strict=True):
        ties += _of_file(files, file, source, targets)
    return ties


def _of_file(files: RepositoryFiles, file: WikiFile, source: Source, targets: Iterable[CodeTarget]) -> Iterator[_Tie]:
    text = SourceLines(source)
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
            lines = _line(text, part.segment_id, target.use) if end.path != file.path else None
            loaded = target.how == "imports" and lines is not None and _is_loaded(text.lines, lines.first)
            yield _Tie(file, part.segment_id, end, target.place.head.part, target.how, target.name, lines, loaded)


def _is_loaded(lines: Sequence[str], at: int) -> bool:
    """Return whether an import runs at load time: it is not indented, and not only for types."""
    statement = _IMPORT.match(lines[_statement(lines, at)])
    return statement is None or not (statement["indent"] or statement["types"])


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


def _line(text: SourceLines, segment_id: str, written: str) -> CitedSpan | None:
    part = next(part for _, part in text.spans if part.segment_id == segment_id)
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
        first = min(several, key=lambda tie: (tie.how != "imports", tie.lines.first if tie.lines else 0))
        defined = {entry.short for entry in several[0].end.entries}
        names = Counter(filter(None, (_used_name(tie, defined) for tie in several)))
        used = tuple(name for name, _ in sorted(names.items(), key=lambda one: (-one[1], one[0]))[:_MOST_NAMES])
        if first.lines:
            imports = any(tie.how == "imports" for tie in several)
            loaded = any(tie.when_loaded for tie in several)
            yield FileLink(start, end, imports, first.lines, used, len(several), loaded)


def _used_name(tie: _Tie, defined: Collection[str]) -> str:
    """Return the name that a file uses of another, or "" if it is not known.

    `Server::instance` may mean an `instance` of any included file: only a name that the other file defines is stated.
    """
    if not tie.name.strip("*") or tie.name.startswith("__"):
        return ""
    parts = tie.name.split(".")
    is_guess = tie.start.code is not None and tie.start.code.family in _WHOLE_IMPORTS
    return next((part for part in parts if part in defined), "") if is_guess else parts[0]


class _Nodes:
    """Numbers for segments and files; a file is a segment with an empty id."""

    def __init__(self) -> None:
        self.numbers: dict[tuple[str, str], int] = {}

    def number(self, source_id: str, part: str) -> int:
        return self.numbers.setdefault((source_id, part), len(self.numbers))


@dataclass(frozen=True)
class _Ways:
    """The edges of the graph, sorted by their start."""

    starts: Nodes
    targets: Nodes
    bounds: npt.NDArray[np.int64]

    @classmethod
    def make(cls, starts: Nodes, targets: Nodes, count: int) -> "_Ways":
        order = np.argsort(starts, kind="stable")
        bounds = np.searchsorted(starts[order], np.arange(count + 1))
        return cls(starts[order], targets[order], bounds)

    def edges(self, nodes: Nodes) -> Edges:
        """Return the edges out of nodes."""
        counts = self.degrees(nodes)
        places = [np.arange(self.bounds[node], self.bounds[node + 1]) for node in nodes]
        at = np.concatenate(places) if places else np.zeros(0, np.int64)
        source = np.repeat(np.arange(len(nodes)), counts)
        return Edges(source, self.targets[at], np.zeros(len(at), np.uint8))

    def degrees(self, nodes: Nodes) -> npt.NDArray[np.int64]:
        """Count the edges out of each node."""
        return self.bounds[nodes + 1] - self.bounds[nodes]


def _ranked(nodes: _Nodes, ties: Sequence[_Tie], files: RepositoryFiles) -> npt.NDArray[np.float64]:
    """Rank files and segments by a walk that starts everywhere and follows links."""
    pairs: list[tuple[int, int]] = []
    for tie in ties:
        pair = (nodes.number(tie.start.source_id, tie.start_part), nodes.number(tie.end.source_id, tie.end_part))
        pairs.append(pair)
    for source_id, part in list(nodes.numbers):
        if part:  # a file links to its segments, and each segment to what it uses
            pairs.append((nodes.numbers[source_id, ""], nodes.numbers[source_id, part]))
    count = len(nodes.numbers)
    edges = np.array(sorted(pairs), np.int64).reshape(-1, 2)
    seeds = np.array([_seed(files.by_id[source_id]) for source_id, _ in nodes.numbers])
    ways = _Ways.make(edges[:, 0], edges[:, 1], count)
    walked = walk(np.arange(count), seeds, ways, np.ones(1), damping=_DAMPING, epsilon=0.0, rounds=_ROUNDS)
    return walked.of(np.arange(count))


def _seed(file: WikiFile) -> float:
    return _SEEDS.get(file.role, 1.0)


def _graph(
    files: RepositoryFiles, links: Sequence[FileLink], nodes: _Nodes, mass: npt.NDArray[np.float64]
) -> SymbolGraph:
    importance: dict[str, float] = defaultdict(float)
    symbols: dict[tuple[str, str], float] = {}
    whole = float(mass.sum()) or 1.0
    for (source_id, part), at in nodes.numbers.items():
        importance[files.by_id[source_id].path] += float(mass[at]) / whole
        if part:
            symbols[source_id, part] = float(mass[at]) / whole
    outgoing: dict[str, list[FileLink]] = defaultdict(list)
    incoming: dict[str, list[FileLink]] = defaultdict(list)
    for link in links:
        outgoing[link.start].append(link)
        incoming[link.end].append(link)
    return SymbolGraph(links, importance, symbols, outgoing, incoming)
