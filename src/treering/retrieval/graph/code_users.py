"""Who uses a file of code, or something that it defines: what imports it, calls it, and tests it."""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Literal

from treering.core.evidence import Segment
from treering.ports.ledger import ObjectRequest, ObjectsFound
from treering.ports.passages import PassageRequest, PassagesFound, Reach
from treering.retrieval.index.code_names import (
    ANYWHERE,
    CodeFile,
    CodeUse,
    How,
    anywhere_name,
    imports_name,
    last_name,
    module_name,
    package_name,
    read_use,
    used_from,
    uses_name,
)
from treering.retrieval.index.code_places import (
    PUBLISHED,
    CodePlace,
    Packages,
    folders_above,
    is_module_of,
    line_of,
    nearest,
    package_folders,
    places_in,
    read_packages,
    unit_of,
)
from treering.retrieval.index.rounds import Steps

Relation = Literal["imports", "calls", "uses"]

_READ = 60
"""Passages of code, and as many of tests, that are read to see what they say of a file."""
_READ_IN_PASSING = 10
"""The same, where the question is asked beside others."""
_NAMED = 40
"""Definitions of a whole file that are asked for by name."""
_PASSED_ON = 8
"""Modules through which what a file defines is passed on to others."""
_OF_FILES: tuple[How, ...] = ("imports", "calls", "uses")
_OF_SYMBOLS: tuple[How, ...] = ("calls", "uses", "imports")


@dataclass(frozen=True, slots=True)
class CodeSubject:
    """A file of code, or some of what it defines. Without `whole` only `names` (qualified) are asked about."""

    file: CodeFile
    root: str
    source_id: str
    names: tuple[str, ...]
    whole: bool = True


@dataclass(frozen=True, slots=True)
class CodeUser:
    """A passage that uses the subject: how, what of it (empty: the module), and on which line of its file."""

    place: CodePlace
    how: Relation
    name: str
    line: int | None
    segment: Segment


def users_of(subject: CodeSubject, reach: Reach, *, thorough: bool = True) -> Steps[list[CodeUser]]:
    """Find the passages that import, call or use a subject, the nearest first; of its own file only other parts.

    A name that its user does not place is taken for the subject's where nothing else in the root is called so. Unless
    `thorough`, two questions are asked in all, and what is imported under the name of a package, or by way of another
    module, is left out.
    """
    asked = _Asked.make(subject)
    found: PassagesFound = yield PassageRequest((), reach, named=asked.names)
    packages = Packages({})
    if thorough and subject.file.family in PUBLISHED:
        packages = yield from read_packages(found, subject.file.family, subject.root)
        found = yield from _more(found, asked.published(packages), reach)
    users = yield from _read(asked, found, packages, most=_READ if thorough else _READ_IN_PASSING)
    if thorough:
        through = _passed_on(asked, users)
        more: PassagesFound = yield PassageRequest((), reach, named=tuple(through))
        users += yield from _read_through(asked, more, through, users)
    return _ranked(subject, users)


def _more(found: PassagesFound, names: Sequence[str], reach: Reach) -> Steps[PassagesFound]:
    if not names:
        return found
    more: PassagesFound = yield PassageRequest((), reach, named=tuple(names))
    return PassagesFound({**found.heads, **more.heads}, named={**found.named, **more.named})


@dataclass(frozen=True)
class _Asked:
    """By which names the users of a subject are found."""

    subject: CodeSubject
    names: tuple[str, ...] = field(default=())

    @classmethod
    def make(cls, subject: CodeSubject) -> "_Asked":
        asked = cls(subject)
        return cls(subject, tuple(dict.fromkeys(asked._all())))

    @property
    def file(self) -> CodeFile:
        return self.subject.file

    @property
    def wanted(self) -> list[str]:
        return list(dict.fromkeys(name for name in self.subject.names if name))[:_NAMED]

    def published(self, packages: Packages) -> list[str]:
        """Return the names by which it is found in files that name its package."""
        return [name for module in packages.names(self.file.module) for name in self._of_module(module)]

    def _all(self) -> Iterator[str]:
        family, whole = self.file.family, self.file.module
        for module in self.file.modules:
            yield module_name(family, module)
            # A file as a whole is found by its imports; those beside it in a package need none.
            yield from self._of_module(module, named=not self.subject.whole or module == whole)
        for folder in folders_above(self.file) if family == "py" else ():
            yield module_name(family, folder)
        for name in self.wanted:
            yield last_name(family, name)
            yield anywhere_name(family, name.rpartition(".")[2])
        if family in PUBLISHED:
            yield package_name(family)

    def _of_module(self, module: str, *, named: bool = True) -> Iterator[str]:
        family = self.file.family
        if self.subject.whole:
            yield imports_name(family, module)
        yield from (uses_name(family, module, name) for name in (*self.wanted, "*") if named)


def _read(asked: _Asked, found: PassagesFound, packages: Packages, *, most: int) -> Steps[list[CodeUser]]:
    """Read the passages that were found by name, and keep those that say what they were found for."""
    subject, family = asked.subject, asked.file.family
    named = [name for name in found.named if name[0] in "iua"]
    places = _nearest_first(
        subject, (place for name in named for place in places_in(found, name, family, subject.root)), most
    )
    segments = yield from _segments(places)
    sole = frozenset(name for name in asked.wanted if _is_sole(asked, found, name))
    meant = _Meant(asked, found, package_folders(found, [asked.file], subject.root), packages, sole)
    return [user for place in places if (user := _user(meant, place, segments.get(_key(place))))]


@dataclass(frozen=True)
class _Meant:
    """Tells whether a use means the subject."""

    asked: _Asked
    found: PassagesFound
    folders: frozenset[str]
    packages: Packages
    sole: frozenset[str]
    """Names of the subject that nothing else is called by."""

    def name(self, place: CodePlace, use: CodeUse) -> str | None:
        """Return what of the subject a use means, empty for the module; `None` where it means something else."""
        subject = self.asked.subject
        if use.module == ANYWHERE:
            last = use.name.lstrip(".").partition(".")[0]
            return next((one for one in self.sole if one.rpartition(".")[2] == last), None)
        for module, name in used_from(place.file, use):
            if self._is_module(module, place):
                if use.name == "*" and not subject.whole:
                    return "*"
                wanted = next((one for one in self.asked.wanted if _covers(one, name)), None)
                if wanted is not None:
                    return wanted
                if subject.whole and (not name or use.how == "imports"):
                    return name
        return None

    def _is_module(self, module: str, place: CodePlace) -> bool:
        file = self.asked.file
        if module.startswith("@"):
            return file.module in self.packages.modules(module)
        if not is_module_of(file, module, place.file, self.folders):
            return False
        if module.startswith("/"):
            return True
        others = places_in(self.found, module_name(file.family, module), file.family, self.asked.subject.root)
        best = nearest(others, place.file)
        return best is not None and best.file.path == file.path


def _covers(wanted: str, name: str) -> bool:
    """Tell whether the use of a name is one of what is wanted: of itself, or of a member of it."""
    return name == wanted or name.startswith(f"{wanted}.")


def _is_sole(asked: _Asked, found: PassagesFound, name: str) -> bool:
    """Tell whether no other file under the root defines something whose name ends like this one's, tests aside."""
    subject = asked.subject
    places = places_in(found, last_name(asked.file.family, name), asked.file.family, subject.root)
    units = {unit_of(place.file) for place in places if not place.is_test}
    return not units - {unit_of(asked.file)} and asked.file.path in {place.file.path for place in places}


def _user(meant: _Meant, place: CodePlace, segment: Segment | None) -> CodeUser | None:
    """Return how a passage uses the subject; `None` where it does not."""
    own = place.head.object_id == meant.asked.subject.source_id
    if segment is None or (own and meant.asked.subject.whole):
        return None
    for use in _uses_of(segment, meant.asked.subject):
        name = meant.name(place, use)
        if name is not None and not (own and _defines(place, name)):
            said = (use.name or use.module.rpartition("/")[2]).rpartition(".")[2]
            return CodeUser(place, use.how, name, line_of(segment, said), segment)
    return None


def _defines(place: CodePlace, name: str) -> bool:
    return name in place.head.heading.replace("::", ".").split(", ")


def _passed_on(asked: _Asked, users: Sequence[CodeUser]) -> dict[str, tuple[CodeFile, str]]:
    """Return the names by which what the subject defines is found in files that take it from other modules.

    A package's `__init__`, an `index` file and the like import it and are imported for it.
    """
    family, found = asked.file.family, dict[str, tuple[CodeFile, str]]()
    for user in [user for user in users if user.name and _passes_on(user)][:_PASSED_ON]:
        for name in asked.wanted if user.name == "*" else [user.name]:
            for module in user.place.file.modules:
                found[uses_name(family, module, name)] = (user.place.file, name)
    return found


def _passes_on(user: CodeUser) -> bool:
    file = user.place.file
    stands_for_folder = file.module == "/" + file.path.rpartition("/")[0]
    return stands_for_folder and file.family in ("py", "js", "rs") and not user.place.is_test


def _read_through(
    asked: _Asked, found: PassagesFound, through: Mapping[str, tuple[CodeFile, str]], known: Iterable[CodeUser]
) -> Steps[list[CodeUser]]:
    subject, seen = asked.subject, {_key(user.place) for user in known}
    named = [
        (place, through[name])
        for name in found.named
        for place in places_in(found, name, asked.file.family, subject.root)
        if _key(place) not in seen and place.head.object_id != subject.source_id
    ]
    ways = {_key(place): (place, way) for place, way in named}
    places = _nearest_first(subject, (place for place, _ in ways.values()), _READ)
    segments = yield from _segments(places)
    users = (_through(subject, place, segments.get(_key(place)), *ways[_key(place)][1]) for place in places)
    return list(filter(None, users))


def _through(
    subject: CodeSubject, place: CodePlace, segment: Segment | None, file: CodeFile, name: str
) -> CodeUser | None:
    """Return how a passage uses a name that it takes from a file which passes it on; `None` where it does not."""
    for use in _uses_of(segment, subject):
        for module, said in used_from(place.file, use):
            if segment and _covers(name, said) and is_module_of(file, module, place.file, frozenset()):
                return CodeUser(place, use.how, name, line_of(segment, name.rpartition(".")[2]), segment)
    return None


def _uses_of(segment: Segment | None, subject: CodeSubject) -> list[CodeUse]:
    """Return the uses of a segment, those first that say most of the subject.

    Of a file that is imported counts first, of a symbol that it is called.
    """
    strength = _OF_FILES if subject.whole else _OF_SYMBOLS
    uses = filter(None, map(read_use, segment.uses if segment else ()))
    return sorted(uses, key=lambda use: strength.index(use.how))


def _segments(places: Sequence[CodePlace]) -> Steps[Mapping[tuple[str, str], Segment]]:
    if not places:
        return {}
    read: ObjectsFound = yield ObjectRequest(segments=tuple(map(_key, places)))
    return read.segments


def _key(place: CodePlace) -> tuple[str, str]:
    return place.head.object_id, place.head.part


def _nearest_first(subject: CodeSubject, places: Iterable[CodePlace], most: int) -> list[CodePlace]:
    """Return places to read, each once, at most so many of code and of tests: near the subject before far from it."""
    distinct = {place.head.key: place for place in places}.values()
    ordered = sorted(distinct, key=lambda place: (_distance(subject, place), place.head.key))
    code, tests = ([place for place in ordered if place.is_test is test] for test in (False, True))
    return [*code[:most], *tests[:most]]


def _distance(subject: CodeSubject, place: CodePlace) -> tuple[bool, int, str]:
    mine, theirs = subject.file.path.split("/")[:-1], place.file.path.split("/")[:-1]
    same = next((at for at, pair in enumerate(zip(mine, theirs, strict=False)) if pair[0] != pair[1]), None)
    return place.is_test, -(min(len(mine), len(theirs)) if same is None else same), place.file.path


def _ranked(subject: CodeSubject, users: Sequence[CodeUser]) -> list[CodeUser]:
    return sorted(users, key=lambda user: (*_distance(subject, user.place), user.line or 0, user.place.head.key))
