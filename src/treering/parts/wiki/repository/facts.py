"""All that the pages of a wiki are written from: what was read of one repository, at one moment."""

from collections import Counter, defaultdict
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime
from functools import cached_property

from treering.core.filters import And, Compare
from treering.core.objects import Activity, Fact, Knowledge, Node, Object, WorkItem
from treering.core.policy import is_current, is_over
from treering.parts.wiki.repository.api_entries import ApiEntry, CitedSpan, assigned_at
from treering.parts.wiki.repository.files import RepositoryFiles, WikiFile, read_files, read_lines
from treering.parts.wiki.repository.packages import CodePart, CodeParts, code_parts, stands_for_folder
from treering.parts.wiki.repository.prose import Words
from treering.parts.wiki.repository.sections import DocumentSection, sections_of
from treering.parts.wiki.repository.symbol_graph import FileLink, SymbolGraph, read_graph
from treering.ports.ledger import Ledger, ObjectRequest, Selection
from treering.ports.passages import Reach
from treering.verbs.engine import Engine
from treering.verbs.trees import standing_knowledge

# What a space knows of a repository beside its files: decisions, rules, facts, and work done or to be done.


_STATED = ("decision", "constraint", "procedure", "preference")
_MOST = 200
"""Objects of a kind that are told of."""
_BATCH_SIZE = 500
_FILES = ("repo:", "file:")
_PAGE = "wiki-page:"
"""What the origin of a person's part of a page begins with; that of the file follows."""


@dataclass(frozen=True, slots=True)
class KnownSubject:
    """A node that something stated is about."""

    name: str
    slug: str
    sources: frozenset[str] = frozenset()
    """The ids of the files of the repository that stand for it."""


@dataclass(frozen=True)
class KnownObjects:
    """Objects that a page may tell of, each kind in the order in which a reader wants it."""

    stated: Sequence[Knowledge] = ()
    """Decisions, constraints, procedures and preferences, by title."""
    facts: Sequence[Knowledge] = ()
    """Facts that rest on files of the repository, by path and title."""
    activities: Sequence[Activity] = ()
    """Newest first."""
    work: Sequence[WorkItem] = ()
    """Work that is not done, by priority and title."""
    subjects: Mapping[str, KnownSubject] = field(default_factory=dict)
    """The nodes that what is stated is about, by the ids it names them with."""

    def subjects_of(self, item: Knowledge) -> list[KnownSubject]:
        """Return the nodes that something stated is about, each once."""
        found = (self.subjects[ref] for ref in item.subject_refs if ref in self.subjects)
        return list(dict.fromkeys(found))

    def resting_on(self, source_ids: Collection[str]) -> list[Knowledge]:
        """Return what is stated and rests on some sources."""
        return [one for one in self.stated if _sources_of(one) & set(source_ids)]

    def naming(self, is_meant: Callable[[KnownSubject], bool]) -> list[Knowledge]:
        """Return what is stated about nodes that are meant."""
        return [one for one in self.stated if any(map(is_meant, self.subjects_of(one)))]


_PRIORITY = {"urgent": 0, "high": 1, "normal": 2, "low": 3}


def read_known(ledger: Ledger, scope: str, files: RepositoryFiles, *, now: datetime) -> KnownObjects:
    """Read what is current at a scope, as far as it is not about another repository alone.

    What a person declares, and what rests on conversations and the like, is of every repository of the scope, unless
    it names nodes of others only.
    """
    known = [one for one in _selected(ledger, scope, "knowledge") if isinstance(one, Knowledge)]
    current = standing_knowledge(ledger, [one for one in known if is_current(one) and not is_over(one, now=now)])
    subjects = _subjects(ledger, current, files)
    foreign = _foreign(ledger, current, files)
    own = [one for one in current if _is_of(one, files, subjects, foreign)]
    stated = sorted((one for one in own if one.kind in _STATED), key=lambda one: (one.title, one.id))
    facts = [one for one in own if isinstance(one.payload, Fact) and _sources_of(one) & files.by_id.keys()]
    done = [one for one in _selected(ledger, scope, "activity") if isinstance(one, Activity) and is_current(one)]
    work = [one for one in _selected(ledger, scope, "work_item") if isinstance(one, WorkItem) and _is_open(one, now)]
    return KnownObjects(
        stated=stated[:_MOST],
        facts=sorted(facts, key=lambda one: (_path(one, files), one.title, one.id)),
        activities=sorted(done, key=lambda one: (_when(one), one.title, one.id), reverse=True)[:_MOST],
        work=sorted(work, key=lambda one: (_PRIORITY[one.priority], one.title, one.id))[:_MOST],
        subjects={ref: subject for ref, (subject, _) in subjects.items()},
    )


def _selected(ledger: Ledger, scope: str, kind: str) -> Iterable[Object]:
    return ledger.select(Selection(scope=scope, types=(kind,), where=And((Compare("type", "eq", kind),))), altered={})


def _is_of(
    item: Knowledge,
    files: RepositoryFiles,
    subjects: Mapping[str, tuple[KnownSubject, bool]],
    foreign: Collection[str],
) -> bool:
    sources = _sources_of(item)
    told = [subjects[ref] for ref in item.subject_refs if ref in subjects]
    if sources & files.by_id.keys() or any(_is_node_of(one, files) for one, _ in told):
        return True
    is_elsewhere = bool(told) and all(stands_elsewhere for _, stands_elsewhere in told)
    return not is_elsewhere and (not sources or bool(sources - set(foreign)))


def _is_node_of(subject: KnownSubject, files: RepositoryFiles) -> bool:
    slug = str(files.payload.get("slug") or "")
    return bool(subject.sources) or (bool(slug) and (subject.slug == slug or subject.slug.startswith(f"{slug}/")))


def _subjects(
    ledger: Ledger, known: Sequence[Knowledge], files: RepositoryFiles
) -> dict[str, tuple[KnownSubject, bool]]:
    """Return the nodes that are named, and whether each stands for files of other repositories alone."""
    refs = list(dict.fromkeys(ref for one in known for ref in one.subject_refs))
    nodes = _nodes(ledger, refs)
    merged = _nodes(ledger, [one.merged_into for one in nodes.values() if one.merged_into])
    found: dict[str, tuple[KnownSubject, bool]] = {}
    for ref, named in nodes.items():
        node = merged.get(named.merged_into or "", named)
        tied = {link.source for link in ledger.links(node.id) if link.type == "about" and link.target == node.id}
        own = frozenset(tied & files.by_id.keys())
        others = {head.origin for head in ledger.heads(list(tied - own)).values() if head.status != "archived"}
        elsewhere = not own and any(_is_foreign(origin, files) for origin in others)
        found[ref] = KnownSubject(node.name, node.slug, own), elsewhere
    return found


def _nodes(ledger: Ledger, ids: Sequence[str]) -> dict[str, Node]:
    found: dict[str, Node] = {}
    for start in range(0, len(ids), _BATCH_SIZE):
        (read,) = ledger.read([ObjectRequest(objects=tuple(ids[start : start + _BATCH_SIZE]))])
        found |= {identity: item for identity, item in read.objects.items() if isinstance(item, Node)}
    return found


def _foreign(ledger: Ledger, known: Sequence[Knowledge], files: RepositoryFiles) -> frozenset[str]:
    """Return the ids of what is rested on that are files of other repositories or folders."""
    ids = sorted({source for one in known for source in _sources_of(one)} - files.by_id.keys())
    heads = [
        head for at in range(0, len(ids), _BATCH_SIZE) for head in ledger.heads(ids[at : at + _BATCH_SIZE]).values()
    ]
    return frozenset(head.id for head in heads if _is_foreign(head.origin, files))


def _is_foreign(origin: str, files: RepositoryFiles) -> bool:
    """Tell whether an origin is a file, and not of this repository."""
    place = origin.removeprefix(_PAGE)
    is_here = place.startswith(files.root) or place == files.root.rstrip("#/")
    return place.startswith(_FILES) and not is_here


def _sources_of(item: Knowledge) -> set[str]:
    return {ref.source_id for ref in item.evidence_refs}


def _path(item: Knowledge, files: RepositoryFiles) -> str:
    return min((files.by_id[one].path for one in _sources_of(item) if one in files.by_id), default="")


def _is_open(item: WorkItem, now: datetime) -> bool:
    return is_current(item) and not is_over(item, now=now) and item.status in ("open", "in_progress", "blocked")


def _when(item: Activity) -> datetime:
    return item.ended_at or item.started_at or item.created_at


_MOST_NAMED = 4
_MOST_STEPS = 4
"""Files that a name is passed on through, from where it is offered to where it is defined."""
_TYPES = ("class", "interface", "struct")


@dataclass(frozen=True)
class RepositoryFacts:
    """The files, links, parts and knowledge of a repository."""

    engine: Engine
    files: RepositoryFiles
    graph: SymbolGraph
    code: CodeParts
    known: KnownObjects
    _sections: dict[str, tuple[DocumentSection, ...]] = field(default_factory=dict)

    def sections(self, file: WikiFile) -> tuple[DocumentSection, ...]:
        """Return the sections of a document, read when they are first asked for."""
        if file.path not in self._sections:
            text = read_lines(self.engine.ledger, file, self.files.sequence)
            self._sections[file.path] = sections_of(text) if text else ()
        return self._sections[file.path]

    def segment_lines(self, file: WikiFile) -> dict[str, CitedSpan]:
        """Return the lines of each segment of a file."""
        text = read_lines(self.engine.ledger, file, self.files.sequence)
        spans = text.spans if text else ()
        return {part.segment_id: CitedSpan(at.start, at.end, part.segment_id, part.hash) for at, part in spans}

    def definition_of(self, file: WikiFile, name: str) -> tuple[WikiFile, CitedSpan, ApiEntry | None] | None:
        """Return where a name is defined that a file offers: there, or in the files that it takes the name from."""
        for _ in range(_MOST_STEPS):
            entry = next((one for one in file.entries if one.name == name and not one.owner), None)
            if entry:
                return file, entry.lines, entry
            text = read_lines(self.engine.ledger, file, self.files.sequence)
            if text and (lines := assigned_at(text, name)):
                return file, lines, None
            links = self.graph.outgoing.get(file.path, ())
            further = next((link.end for link in links if link.imports and name in link.names), None)
            if further is None:
                return None
            file = self.files.files[further]
        return None

    def by_importance(self, paths: Iterable[str]) -> list[str]:
        """Sort files by importance, the most important first."""
        return sorted(paths, key=lambda path: (-round(self.graph.importance.get(path, 0.0), 6), path))

    @cached_property
    def ranked_parts(self) -> Sequence[CodePart]:
        """The parts of the code, the most important first."""
        parts = self.code.parts.values()
        return sorted(parts, key=lambda part: (-round(part.importance, 6), part.key))

    @cached_property
    def outside_packages(self) -> Mapping[str, Sequence[str]]:
        """By name of a package that is not in the repository, the files of code that import it."""
        own = self._own_names()
        found: dict[str, list[str]] = defaultdict(list)
        for path in self.code.of_file:
            for name in sorted({outside_name(one) for one in self.files.files[path].imports} - own - {""}):
                found[name].append(path)
        return found

    def part_of(self, path: str) -> CodePart | None:
        """Return the part that tells of a file of code."""
        key = self.code.of_file.get(path)
        return self.code.parts[key] if key else None

    def files_of(self, part: CodePart) -> list[WikiFile]:
        """Return the files that a part tells of."""
        return [self.files.files[path] for path in part.files]

    def parts_of(self, subject: KnownSubject) -> list[CodePart]:
        """Return the parts that a node stands for: the one of its folder, else those that tell of its files."""
        slug = str(self.files.payload.get("slug") or "")
        folder = subject.slug.removeprefix(f"{slug}/") if slug else ""
        if folder in self.code.parts:
            return [self.code.parts[folder]]
        paths = (self.files.by_id[one].path for one in sorted(subject.sources))
        found = {part.key: part for path in paths if (part := self.part_of(path))}
        return [found[key] for key in sorted(found)]

    def known_about(self, part: CodePart) -> list[Knowledge]:
        """Return what is stated and rests on the files of a part, or is about a node that stands for it."""
        resting = self.known.resting_on({file.source_id for file in self.files_of(part)})
        named = self.known.naming(lambda subject: part in self.parts_of(subject))
        about = {one.id for one in (*resting, *named)}
        return [one for one in self.known.stated if one.id in about]

    def important(self, file: WikiFile) -> list[ApiEntry]:
        """Return the public definitions at the top of a file, those that hold most of the walk first."""
        top = [entry for entry in file.public if not entry.owner]
        symbols = self.graph.symbols
        return sorted(
            top, key=lambda one: (-round(symbols.get((file.source_id, one.lines.segment_id), 0.0), 7), one.lines.first)
        )

    def _own_names(self) -> set[str]:
        names = {file.package for file in self.files.files.values() if file.package}
        for path in self.code.of_file:
            parts = path.split("/")
            names |= {part.rpartition(".")[0] if at == len(parts) - 1 else part for at, part in enumerate(parts)}
        return {one for name in names for one in (name, name.replace("-", "_"), outside_name(name))}


def read_facts(engine: Engine, scope: str, root: str | None, *, most_modules: int) -> RepositoryFacts:
    """Read all that pages are written from. Raises what `read_files` raises."""
    files = read_files(engine.ledger, scope, root)
    graph = read_graph(engine, files, Reach(scope))
    parts = code_parts(files, graph, most=most_modules)
    known = read_known(engine.ledger, scope, files, now=engine.clock.now())
    return RepositoryFacts(engine, files, graph, parts, known)


def outside_name(name: str) -> str:
    """Return the package that an import names; empty for what is named by its place in the repository."""
    if name.startswith((".", "/", "#", "~", "@/", "crate", "self", "super")):
        return ""
    if name.startswith("@"):
        return "/".join(name.split("/")[:2])
    if "/" in name and "." in name.split("/")[0]:
        return "/".join(name.split("/")[:3])
    return name.split("/")[0].split("::")[0].split(".")[0] if ":" not in name.split("/")[0] or "::" in name else name


def offered(file: WikiFile, facts: RepositoryFacts) -> list[FileLink]:
    """Return what a file that speaks for its folder takes from files in there, to pass it on."""
    links = facts.graph.outgoing.get(file.path, ()) if stands_for_folder(file) else ()
    return [link for link in links if link.imports and link.names and link.end.startswith(f"{file.folder}/")]


def package_purpose(part: CodePart, facts: RepositoryFacts) -> list[Words]:
    """Return what a package is for: as its own files say, else by the modules it holds."""
    told = facts.files_of(part)
    speaking = next((file for file in told if file.purpose), told[0] if told else None)
    said = purpose_of(speaking, facts) if speaking else []
    return said or _listed("Holds", [path.rpartition("/")[2] for path in facts.by_importance(part.modules)])


def purpose_of(file: WikiFile, facts: RepositoryFacts) -> list[Words]:
    """Return what a file is for: as it says itself, else by what it defines; empty where neither says anything."""
    if file.purpose:
        return list(file.purpose)
    entries = facts.important(file)
    if not entries:
        return _by_use(file, facts)
    first = entries[0]
    if first.doc and (len(entries) == 1 or (first.kind in _TYPES and _outweighs(first, entries, file, facts))):
        return [Words("Defines "), Words(first.short, code=True), Words(": "), *first.doc]
    return _listed("Defines", [entry.short for entry in entries])


def _outweighs(first: ApiEntry, entries: Sequence[ApiEntry], file: WikiFile, facts: RepositoryFacts) -> bool:
    """Tell whether a file is above all about one of its definitions."""
    weights = [facts.graph.symbols.get((file.source_id, one.lines.segment_id), 0.0) for one in (first, *entries)]
    return len(entries) <= _MOST_NAMED or weights[0] >= sum(weights[1:]) / 2


def _by_use(file: WikiFile, facts: RepositoryFacts) -> list[Words]:
    """Return what a file without definitions offers: what it passes on, else what others take from it."""
    passed = [name for link in offered(file, facts) for name in link.names]
    taken = Counter(name for link in facts.graph.incoming.get(file.path, ()) if link.imports for name in link.names)
    ranked = sorted(taken, key=lambda name: (-taken[name], name))
    return _listed("Offers", list(dict.fromkeys([*(one for one in ranked if one in passed), *(passed or ranked)])))


def _listed(verb: str, names: Sequence[str]) -> list[Words]:
    said = [Words(f"{verb} ")] if names else []
    for at, name in enumerate(names[:_MOST_NAMED]):
        said += [Words(", ")] * bool(at) + [Words(name, code=True)]
    more = len(names) - _MOST_NAMED
    return [*said, Words(f" and {more} more." if more > 0 else ".")] if names else []
