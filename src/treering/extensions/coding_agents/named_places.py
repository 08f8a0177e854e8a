"""The places that a prompt names: files with a line or a test, the frames of a traceback, and definitions."""

import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import islice

from treering.core.evidence import Lines, Segment
from treering.core.objects import Source
from treering.core.scope import ROOT
from treering.ports.passages import PassageHead, PassageRequest, Reach
from treering.ports.search import TextRequest
from treering.retrieval.index.code_names import CODE_FAMILIES, file_at, last_name, names_in_heading
from treering.retrieval.index.code_places import CODE, role_of
from treering.retrieval.search.file_ranking import path_of
from treering.retrieval.search.import_lines import is_comment
from treering.retrieval.text.analysis import index_text, telling_terms
from treering.verbs.envelope import Call
from treering.verbs.file_names import sources_here

_REACH = Reach(ROOT)
_MAX_MENTIONS = 60
_MAX_FILES_NAMED = 12
_MAX_SAME_NAME = 2
"""Files that a bare file name or a name of code may mean. A name such as `run`, which more define, identifies none."""
_MAX_CONTAINING = 20
"""Passages with a name that are read to see whether it is in few files."""
_MAX_PASSAGES = 2_000
_MAX_NAMES = 6
_MAX_DEFINITIONS_ABOUT = 2
_SOURCE_FOLDERS = frozenset({"src", "lib", "python", "source"})
"""Folders that an installed package is without."""

_MENTION = re.compile(
    r"(?<![\w.@+~/\\-])(?P<path>(?:[A-Za-z]:)?[\w.@+~/\\-]*[\w-]\.[A-Za-z]\w{0,7})(?![\w/\\])"
    r"(?:::(?P<test>\w+(?:(?:::|\.)\w+)*)"
    r"|(?::|#L|\(|\"?,?(?: on| at)? line )(?P<line>\d{1,9})(?!\d)(?:[:,]\d+)?"
    r"(?:[:,]? ?in ['`]?(?P<name>\w+(?:\.\w+)*))?)?"
)
"""A file as people and tools name it: `src/app.py`, `a.test.ts:12:3`, `t.py::TestA::test_b`, `File "a.py", line 3`."""
_VERSIONED = re.compile(r"\w@v\d|\w-\d+\.\d+")
"""The folder of a downloaded package: `cobra@v1.8.0`, `serde-1.0.197`."""
_FAILED = re.compile(r"\b(?:Traceback|FAIL(?:ED)?|panic\w*|\w*Error|\w*Exception)\b|\berror[:\[]")
"""Words of the output of a program that failed."""
_WORD = re.compile(r"\w\w")
_IS_SYMBOL = re.compile(r"\w_\w|[a-z][A-Z]")
_NAME = re.compile(r"\b(?:\w+_\w+|[a-z]+[A-Z]\w*|[A-Z]\w*[a-z]\w*[A-Z]\w*|[\w-]+(?:(?:[./]|::)[\w-]+)+|\w+(?=\())")
"""Names that no plain word is: `task_routes`, `parseBody`, `src/context.ts`, `Args::parse`, `retry(`."""
_CAPITALIZED = re.compile(r"(?:\b[a-z]\S*|[,;)]) [`'\"]?([A-Z][a-z]\w+)\b(?! [A-Z])")
"""A capitalized word within a sentence, which may be the name of a class: `the Timeout config`, not `Night Watch`."""
_VALUE = re.compile(r"(?<![\w#:./-])\d{3,}(?![\w/-]|[.:]\d)")
_NUMBER = re.compile(r"[\d./-]+")


@dataclass(frozen=True, slots=True)
class Mention:
    """A file that a prompt names, with a line (0: none) and the name of a definition in it if they are given."""

    path: str
    line: int = 0
    name: str = ""

    @property
    def parts(self) -> tuple[str, ...]:
        """The folders and the name of the file."""
        return tuple(part for part in self.path.split("/") if part not in ("", "."))


@dataclass(frozen=True, slots=True)
class NamedPlace:
    """A line of a file, with the definition around it. `is_exact`: the prompt names more than the file."""

    source: Source
    line: int
    symbol: str
    text: str
    is_exact: bool

    @property
    def path(self) -> str:
        """The path of the file in its repository."""
        return _path(self.source)

    @property
    def segment_ids(self) -> frozenset[str]:
        """The ids of the segments with the line."""
        lines = ((one, one.locator) for one in self.source.segments)
        return frozenset(
            one.segment_id for one, at in lines if isinstance(at, Lines) and at.start <= self.line <= at.end
        )


@dataclass(frozen=True, slots=True)
class NamedPlaces:
    """The places that a prompt names, best first, and the rest of the prompt; none of the output of a program."""

    places: Sequence[NamedPlace]
    rest: str


def places_named(call: Call, prompt: str) -> NamedPlaces:
    """Find the files that a prompt names. Files outside of the space are ignored.

    Of the frames of a traceback of Python the last comes first, because it failed; other languages print it first. The
    rest of a traceback names no further places.
    """
    matches = [(match, _mention(call, match)) for match in islice(_MENTION.finditer(prompt), _MAX_MENTIONS)]
    files = _files(call, dict.fromkeys(mention for _, mention in matches))
    known = [(match, mention) for match, mention in matches if files.get(mention)]
    places = [
        place
        for mention in _failed_first(dict.fromkeys(mention for _, mention in known))
        for place in _places(mention, files[mention])
    ]
    frames = [match for match, mention in known if mention.line]
    is_output = len(frames) > 1 or (bool(frames) and _FAILED.search(prompt) is not None)
    once = {(one.source.id, one.line): one for one in places}
    return NamedPlaces([*once.values()], "" if is_output else _without(prompt, known))


def names_file(text: str) -> bool:
    """Return whether a text may name a file."""
    return _MENTION.search(text) is not None


def definitions_of(call: Call, text: str) -> list[NamedPlace]:
    """Find the definitions of the names in a text, in code and in tests, or else the only places that contain a name.

    A plain word such as `run()` is no name, because many files may define it or mean something else. A capitalized
    word is one if a file of code defines it at the top.
    """
    names = (name.replace("::", ".") for name in names_in(text))
    symbols = [*islice((name for name in dict.fromkeys(names) if "." in name or _IS_SYMBOL.search(name)), _MAX_NAMES)]
    wanted = [*dict.fromkeys((*symbols, *islice(_CAPITALIZED.findall(text), _MAX_NAMES)))]
    if not wanted:
        return []
    defining, containing = _sources_defining(call, wanted), _sources_containing(call, symbols)
    files = {name: defining.get(name) or containing.get(name, {}) for name in wanted}
    read = {
        name: ids for name, ids in files.items() if len(ids) <= (_MAX_CONTAINING if "." in name else _MAX_SAME_NAME)
    }
    sources = {one.id: one for one in sources_here(call, (one for ids in read.values() for one in ids))}
    terms = frozenset(telling_terms(text))

    def place_in(source: Source, name: str) -> NamedPlace | None:
        return _qualified(source, name, terms) if name in defining else _containing(source, name)

    candidates = [[place_in(sources[one], name) for one in ids if one in sources] for name, ids in read.items()]
    places = [
        [place for place in those if place and (name in symbols or _is_class(place, name))]
        for name, those in zip(read, candidates, strict=True)
    ]
    return [place for those in places if len(those) <= _MAX_SAME_NAME for place in those]


def _is_class(place: NamedPlace, name: str) -> bool:
    """Return whether a place in code, not in tests, defines a name outside of other definitions."""
    return place.symbol == name and role_of(place.source) == CODE


def definitions_about(source: Source, terms: frozenset[str]) -> list[NamedPlace]:
    """Return the definitions in a file that are named after some terms and have most of them, at most two."""
    named = {one.name: one for one in _definitions(source) if not terms.isdisjoint(telling_terms(last_part(one.name)))}
    ranked = sorted(named.values(), key=lambda one: -one.shared_with(terms))
    return [one.place for one in ranked[:_MAX_DEFINITIONS_ABOUT]]


def last_part(name: str) -> str:
    """Return the name of a definition without the names of the definitions around it."""
    return name.replace("::", ".").rpartition(".")[2]


def _sources_defining(call: Call, names: Sequence[str]) -> Mapping[str, Mapping[str, None]]:
    """Return by name the ids of the files that define it, code if any does."""
    indexed = {last_name(family, name): name for name in names for family in CODE_FAMILIES}
    (passages,) = call.engine.index.passages.read([PassageRequest((), _REACH, named=tuple(indexed))])
    heads: dict[str, list[PassageHead]] = {}
    for index_name, name in indexed.items():
        defining = (passages.heads.get(key) for key in passages.named.get(index_name, ()))
        heads.setdefault(name, []).extend(head for head in defining if head)
    code = {name: [head for head in those if head.place_role == CODE] or those for name, those in heads.items()}
    return {name: {head.object_id: None for head in those} for name, those in code.items() if those}


def _sources_containing(call: Call, names: Sequence[str]) -> Mapping[str, Mapping[str, None]]:
    """Return by name the ids of files that contain it; only of names that no plain word is."""
    terms = {name: index_text(name).split()[0] for name in names if _IS_SYMBOL.search(name)}
    requests = [TextRequest(_REACH, _MAX_CONTAINING, words=(term,)) for term in terms.values()]
    hits = call.engine.index.text.search(requests) if requests else []
    keys = {hit.key for one in hits for hit in one.words}
    (read,) = call.engine.index.passages.read([PassageRequest(tuple(keys), _REACH)])
    heads = [[read.heads[hit.key] for hit in one.words if hit.key in read.heads] for one in hits]
    return {
        name: {head.object_id: None for head in those if head.type == "source"}
        for name, those in zip(terms, heads, strict=True)
    }


def _mention(call: Call, match: re.Match[str]) -> Mention:
    path = match["path"].replace("\\", "/").removeprefix("@")
    if call.tree and call.tree.here:
        path = path.removeprefix(f"{call.tree.here.top.as_posix()}/")
    return Mention(path, int(match["line"] or 0), (match["test"] or match["name"] or "").replace("::", "."))


def _failed_first(mentions: Iterable[Mention]) -> list[Mention]:
    """Return frames before other files, frames of Python in reverse."""
    frames, files = list[Mention](), list[Mention]()
    for mention in mentions:
        (frames if mention.line else files).append(mention)
    family = file_at(frames[0].path) if frames else None
    return [*(reversed(frames) if family and family.family == "py" else frames), *files]


def _without(prompt: str, known: Iterable[tuple[re.Match[str], Mention]]) -> str:
    """Return a prompt without files; the names of tests remain, because they name the subject."""
    end, rest = 0, list[str]()
    for match, mention in known:
        rest += [prompt[end : match.start()], mention.name.rpartition(".")[2]]
        end = match.end()
    return " ".join([*rest, prompt[end:]])


def _files(call: Call, mentions: Iterable[Mention]) -> Mapping[Mention, Sequence[Source]]:
    """Return by mention the files that it may mean, best first; none if too many files have its name."""
    by_name: dict[str, list[Mention]] = {}
    for mention in mentions:
        if mention.parts and (mention.parts[-1] in by_name or len(by_name) < _MAX_FILES_NAMED):
            by_name.setdefault(mention.parts[-1], []).append(mention)
    index = call.engine.index
    requests = [TextRequest(_REACH, _MAX_PASSAGES, place=name) for name in by_name]
    hits = index.text.search(requests) if requests else []
    keys = tuple(dict.fromkeys(hit.key for one in hits for hit in one.places))
    (read,) = index.passages.read([PassageRequest(keys, _REACH)])
    paths: dict[str, dict[str, str]] = {}
    for key in read.visible:
        path = path_of(read.heads[key])
        paths.setdefault(path.rpartition("/")[2], {})[read.heads[key].object_id] = path
    meant = {mention: _meant(mention, paths.get(name, {})) for name, those in by_name.items() for mention in those}
    sources = {one.id: one for one in sources_here(call, (one for those in meant.values() for one in those))}
    files = {mention: [sources[one] for one in those if one in sources] for mention, those in meant.items()}
    return {mention: _best(mention, _in_repository(call, those)) for mention, those in files.items()}


def _in_repository(call: Call, sources: Sequence[Source]) -> Sequence[Source]:
    """Return the files of the repository asked from, or all if it has none of them."""
    return [one for one in sources if call.tree and call.tree.view.has(one.origin)] or sources


def _meant(mention: Mention, paths: Mapping[str, str]) -> list[str]:
    """Return the ids of the files that share most of a path with a mention, if enough of it; `paths` are by id."""
    parts = {one: tuple(path.split("/")) for one, path in paths.items()}
    shared = {one: _shared(mention.parts, path) for one, path in parts.items()}
    possible = [one for one, count in shared.items() if _is_meant(mention, parts[one], count)]
    most = max((shared[one] for one in possible), default=0)
    return sorted((one for one in possible if shared[one] == most), key=lambda one: (len(parts[one]), paths[one]))


def _is_meant(mention: Mention, path: Sequence[str], shared: int) -> bool:
    """Return whether a path may be a mentioned file, by the number of last parts that they share.

    A file may be named by the end of its path, from a folder above the repository, or in an installed package.
    """
    if shared == len(mention.parts) or shared == len(path) > 1:
        return True
    if shared == len(path) and _VERSIONED.search(mention.parts[-shared - 1]):
        return True
    return mention.path.startswith("/") and shared > 1 and path[-shared - 1] in _SOURCE_FOLDERS


def _shared(one: Sequence[str], other: Sequence[str]) -> int:
    pairs = zip(reversed(one), reversed(other), strict=False)
    return next((place for place, (mine, theirs) in enumerate(pairs) if mine != theirs), min(len(one), len(other)))


def _best(mention: Mention, sources: Sequence[Source]) -> Sequence[Source]:
    """Return the files that have the line or definition of a mention, code if any is; one with a line or name."""
    fitting = [one for one in sources if _fits(mention, one)] or sources
    fitting = [one for one in fitting if role_of(one) == CODE] or fitting
    if mention.line or mention.name:
        fitting = fitting[:1]
    return fitting if len(fitting) <= _MAX_SAME_NAME else []


def _fits(mention: Mention, source: Source) -> bool:
    if mention.name and _defined(source, mention.name):
        return True
    last = max((one.locator.end for one in source.segments if isinstance(one.locator, Lines)), default=0)
    return not mention.name and mention.line <= last


def _places(mention: Mention, sources: Iterable[Source]) -> Iterator[NamedPlace]:
    for source in sources:
        at_line = place_at_line(source, mention.line) if mention.line else None
        defined = _defined(source, mention.name) if mention.name else None
        if at_line and defined and not f".{at_line.symbol}".endswith(f".{mention.name.rpartition('.')[2]}"):
            at_line = None  # a frame of another version of the file
        yield at_line or defined or whole_file(source)


def place_at_line(source: Source, line: int) -> NamedPlace | None:
    """Return a line of a file with the innermost definition around it; `None` if the file does not have the line."""
    for segment, first in _parts(source):
        lines = segment.excerpt.split("\n")
        if first <= line < first + len(lines):
            around = [one for one in segment.definitions if one.first <= line - first + 1 <= one.last]
            innermost = max(around, key=lambda one: one.first, default=None)
            symbol = innermost.name if innermost else ", ".join(names_in_heading(segment.heading, _path(source))[:1])
            text = lines[line - first]
            if innermost and not _WORD.search(text):
                text = lines[innermost.first - 1]
            return NamedPlace(source, line, symbol.replace("::", "."), text.strip(), True)
    return None


@dataclass(frozen=True, slots=True)
class _Definition:
    """A definition in a file: its qualified name, its place, and its text."""

    name: str
    place: NamedPlace
    text: str

    def shared_with(self, terms: frozenset[str]) -> int:
        """Count the terms that its text or its name has; terms of its name count twice."""
        name, text = telling_terms(self.name), telling_terms(self.text)
        return len(terms.intersection(name)) + len(terms.intersection(name + text))


def _definitions(source: Source) -> Iterator[_Definition]:
    """Yield the definitions in a file, in order."""
    for segment, first in _parts(source):
        lines = segment.excerpt.split("\n")
        spans = [(one.name, one.first - 1, one.last) for one in segment.definitions]
        inner = {name.replace("::", ".") for name, _, _ in spans}
        around = [one for one in names_in_heading(segment.heading, _path(source)) if one not in inner]
        for name, start, end in [*spans, *((one, 0, len(lines)) for one in around)]:
            at = _naming_line(lines[:end], name, start)
            name = name.replace("::", ".")
            place = NamedPlace(source, first + at, name, lines[at].strip(), True)
            yield _Definition(name, place, "\n".join(lines[start:end]))


def _defined(source: Source, name: str, terms: frozenset[str] = frozenset()) -> NamedPlace | None:
    """Return the first line of the definition of a name in a file; of several, of the one with most terms in common."""
    named = [one for one in _definitions(source) if _ends(one.name, name)]
    best = max(named, key=lambda one: one.shared_with(terms) if len(named) > 1 else 0, default=None)
    return best.place if best else None


def _naming_line(lines: Sequence[str], name: str, start: int = 0) -> int:
    """Return the index of the first line with the last part of a name, a comment only if no other line has it."""
    last = re.compile(rf"\b{re.escape(last_part(name))}\b")
    named = [at for at, line in enumerate(lines) if at >= start and last.search(line)]
    return next((at for at in named if not is_comment(lines[at])), next(iter(named), start))


def _qualified(source: Source, name: str, terms: frozenset[str]) -> NamedPlace | None:
    """Return the definition of a name in a file, also of one that is qualified by its module: `app.run`."""
    module, _, last = name.rpartition(".")
    modules = {part.partition(".")[0].strip("_") for part in _path(source).split("/")}
    return _defined(source, name, terms) or (_defined(source, last, terms) if module in modules else None)


def _ends(defined: str, name: str) -> bool:
    return f".{defined.replace('::', '.')}".endswith(f".{name}")


def _containing(source: Source, name: str) -> NamedPlace | None:
    """Return the first line of a file that contains a name."""
    word = re.compile(rf"(?<!\w){re.escape(name)}(?!\w)")
    for segment, first in _parts(source):
        if match := word.search(segment.excerpt):
            return place_at_line(source, first + segment.excerpt.count("\n", 0, match.start()))
    return None


def whole_file(source: Source) -> NamedPlace:
    """Return a file as a whole, with the names that it defines or its sections."""
    is_code = file_at(_path(source)) is not None
    headings = (name for segment, _ in _parts(source) for name in names_in_heading(segment.heading, _path(source)))
    names = dict.fromkeys(name.partition(".")[0] if is_code else name.rpartition(" > ")[2] for name in headings)
    return NamedPlace(source, 0, "", ", ".join(names), False)


def _parts(source: Source) -> Iterator[tuple[Segment, int]]:
    """Yield the segments of a file, each with its first line."""
    for segment in source.segments:
        if isinstance(segment.locator, Lines):
            yield segment, segment.locator.start


def _path(source: Source) -> str:
    return source.origin.partition("#")[2] or source.title


def names_in(text: str) -> list[str]:
    """Return the names in a text that no plain word is; not numbers such as `12/14`."""
    return [match[0] for match in _NAME.finditer(text) if not _NUMBER.fullmatch(match[0])]


def values_in(text: str) -> frozenset[str]:
    """Return the numbers of three digits or more, such as a port or a status; not lines, issues and parts of names."""
    return frozenset(_VALUE.findall(text))
