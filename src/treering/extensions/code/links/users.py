"""Find the passages that import, call, use or test a code file or its definitions."""

from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property
from itertools import product
from typing import Literal

from treering.core.evidence import Lines, Segment
from treering.extensions.code.links.bases import related_classes
from treering.extensions.code.links.places import (
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
from treering.extensions.code.links.used_lines import lines_using
from treering.ports.ledger import ObjectRequest, ObjectsFound
from treering.ports.passages import PassageRequest, PassagesFound, Reach
from treering.retrieval.index.code_names import (
    ANYWHERE,
    OWN,
    CodeFile,
    CodeUse,
    How,
    anywhere_name,
    imports_name,
    last_name,
    member_of_unknown,
    module_name,
    names_in_heading,
    package_name,
    read_use,
    used_from,
    uses_name,
)
from treering.retrieval.index.rounds import Steps

Relation = Literal["imports", "calls", "uses"]

_MAX_READ = 60
"""Passages of code, and as many of tests, that are read to verify their uses."""
_MAX_READ_QUICKLY = 30
"""The same if the search is not thorough."""
_MAX_DEFINITIONS = 40
"""Definitions of a whole file that are searched by name."""
_MAX_REEXPORTING = 8
"""Modules followed that re-export definitions of the file."""
_MAX_REEXPORTS = 2
"""How often a name is followed through a module that re-exports it."""
_OF_FILES: tuple[How, ...] = ("imports", "calls", "uses")
_OF_SYMBOLS: tuple[How, ...] = ("calls", "uses", "imports")


@dataclass(frozen=True, slots=True)
class CodeSubject:
    """A code file, or some of its definitions: without `whole` only the qualified `names`."""

    file: CodeFile
    root: str
    source_id: str
    names: tuple[str, ...]
    whole: bool = True


@dataclass(frozen=True)
class CodeUser:
    """A passage that uses the subject: how, and the used name (empty: the module)."""

    place: CodePlace
    how: Relation
    name: str
    segment: Segment
    use: CodeUse
    sure: bool = True
    """False if the receiver of the call is unknown, and another file defines a method of this name, too."""
    apart_from: tuple[str, ...] = ()
    """Definitions in the passage whose lines do not count."""

    @cached_property
    def lines(self) -> tuple[int, ...]:
        """The lines of its file that use the name, apart from its definitions; of imports only the first."""
        return _lines_of(self)

    @property
    def line(self) -> int | None:
        """The first line."""
        return next(iter(self.lines), None)

    @property
    def definitions(self) -> tuple[str, ...]:
        """The innermost definitions that contain its lines, or else the only one of the passage; none if unknown."""
        locator, names = self.segment.locator, names_in_heading(self.place.head.heading, self.place.file.path)
        if not isinstance(locator, Lines) or not self.segment.definitions:
            return names if len(names) == 1 else ()
        relative = [line - locator.start + 1 for line in self.lines]
        around = [[one.name for one in self.segment.definitions if one.first <= at <= one.last] for at in relative]
        return tuple(dict.fromkeys(inside[-1].replace("::", ".") for inside in around if inside))


def users_of(subject: CodeSubject, reach: Reach, *, thorough: bool = True) -> Steps[list[CodeUser]]:
    """Find the passages that import, call or use a subject, the nearest first; in its own file only other parts.

    A name of unknown origin counts as the subject's if no other definition in the root has it. If others have it, uses
    of a symbol come last and are not `sure`; users of a whole file and tests are left out. Unless `thorough`, fewer
    passages are read, and imports through another module are left out, unless they are the only ones.
    """
    names = _SubjectNames.make(subject)
    found: PassagesFound = yield PassageRequest((), reach, named=names.names)
    packages = Packages({})
    if subject.file.family in PUBLISHED:
        packages = yield from read_packages(found, subject.file.family, subject.root)
        found = yield from _more(found, names.published(packages), reach)
    users = yield from _read(names, found, packages, reach, most=_MAX_READ if thorough else _MAX_READ_QUICKLY)
    if thorough:
        users = yield from _by_imported_class(names, found, reach, users)
    if thorough or all(user.how == "imports" for user in users):
        levels, most = (_MAX_REEXPORTS, _MAX_READ) if thorough else (1, _MAX_READ_QUICKLY)
        users += yield from _through_modules(names, users, packages, reach, levels=levels, most=most)
    return _ranked(subject, users)


def _more(found: PassagesFound, names: Sequence[str], reach: Reach) -> Steps[PassagesFound]:
    if not names:
        return found
    more: PassagesFound = yield PassageRequest((), reach, named=tuple(names))
    return PassagesFound({**found.heads, **more.heads}, named={**found.named, **more.named})


@dataclass(frozen=True)
class _SubjectNames:
    """The index names by which the users of a subject are found."""

    subject: CodeSubject
    names: tuple[str, ...] = field(default=())

    @classmethod
    def make(cls, subject: CodeSubject) -> "_SubjectNames":
        return cls(subject, tuple(dict.fromkeys(cls(subject)._all())))

    @property
    def file(self) -> CodeFile:
        return self.subject.file

    @property
    def wanted(self) -> list[str]:
        return list(dict.fromkeys(name for name in self.subject.names if name))[:_MAX_DEFINITIONS]

    def published(self, packages: Packages) -> list[str]:
        """Return the index names of uses by the name of its package."""
        return [name for module in packages.names(self.file.module) for name in self._of_module(module)]

    def _all(self) -> Iterator[str]:
        family, whole = self.file.family, self.file.module
        for module in self.file.modules:
            yield module_name(family, module)
            # The users of a whole file import it; only files in the same package need no import.
            yield from self._of_module(module, named=not self.subject.whole or module == whole)
        for folder in folders_above(self.file) if family == "py" else ():
            yield module_name(family, folder)
        for name in self.wanted:
            yield last_name(family, name)
            parts = name.split(".")
            yield from (anywhere_name(family, ".".join(parts[at:])) for at in range(len(parts)))
        if family in PUBLISHED:
            yield package_name(family)

    def _of_module(self, module: str, *, named: bool = True) -> Iterator[str]:
        family = self.file.family
        if self.subject.whole:
            yield imports_name(family, module)
        yield from (uses_name(family, module, name) for name in (*self.wanted, "*") if named)


def _read(
    names: _SubjectNames, found: PassagesFound, packages: Packages, reach: Reach, *, most: int
) -> Steps[list[CodeUser]]:
    """Read the passages found by name, and return those that really use the subject."""
    subject, family = names.subject, names.file.family
    named = [name for name in found.named if name[0] in "iua"]
    places = _nearest_first(
        subject, (place for name in named for place in places_in(found, name, family, subject.root)), most
    )
    segments = yield from _segments(places)
    sole = frozenset(name for name in names.wanted if _is_sole(names, found, name))
    meaning = _Meaning(names, found, package_folders(found, [names.file], subject.root), packages, sole)
    users = [user for place in places for user in _users_in(meaning, place, segments.get(_key(place)))]
    return (yield from _without_other_classes(meaning, users, reach))


@dataclass(frozen=True)
class _Meaning:
    """Decide whether a use means the subject."""

    names: _SubjectNames
    found: PassagesFound
    folders: frozenset[str]
    packages: Packages
    sole: frozenset[str]
    """Names that only the subject has."""

    def name(self, place: CodePlace, use: CodeUse) -> tuple[str, bool] | None:
        """Return the name of the subject that a use means, empty for the module, and whether it is sure.

        `None` for other uses.
        """
        name = self._unsure_name(place, use) if use.module == ANYWHERE else self._named_name(place, use)
        if name is not None:
            return name, use.module != ANYWHERE or name in self.sole
        other = member_of_unknown(self.names.file.family, use)
        if other and not self._is_of_another(place, use):
            return self.name(place, other)
        return None

    def stated_classes(self, user: CodeUser) -> set[str]:
        """Return the classes whose member the passage may call without its origin, if they define it."""
        if not (user.place.file.family == "java" and user.use.module == ANYWHERE and user.use.name.startswith(".")):
            return set()
        stated = [use for use in _uses_of(user.segment, self.names.subject) if use.name.endswith(user.use.name)]
        return {
            use.name.removesuffix(user.use.name)
            for use in stated
            if use.module != ANYWHERE and self._is_of_another(user.place, use)
        }

    def _unsure_name(self, place: CodePlace, use: CodeUse) -> str | None:
        if place.is_fixture:
            return None  # its own names are the same by chance
        names = self.sole if self.names.subject.whole or place.is_test else self.names.wanted
        member = next((one for one in names if "." in use.name[1:] and f".{one}".endswith(f".{use.name}")), None)
        if member is not None:
            return member
        last = use.name.lstrip(".").partition(".")[0]
        return next((one for one in names if one.rpartition(".")[2] == last), None)

    def _named_name(self, place: CodePlace, use: CodeUse) -> str | None:
        subject = self.names.subject
        for module, name in used_from(place.file, use):
            if self._is_module(module, place):
                if use.name == "*" and not subject.whole:
                    return "*"
                wanted = next((one for one in self.names.wanted if _covers(one, name)), None)
                if wanted is not None:
                    return wanted
                if subject.whole and (not name or use.how == "imports"):
                    return name
        return None

    def _is_of_another(self, place: CodePlace, use: CodeUse) -> bool:
        """Return whether a use means a method that a type defines itself, or one of a type in another repository."""
        family, root = place.file.family, self.names.subject.root
        modules = {
            module
            for spelled, _ in used_from(place.file, use)
            for module in (self.packages.modules(spelled) if spelled.startswith("@") else [spelled])
        }
        same = places_in(self.found, last_name(family, use.name), family, root)
        # A short class is one passage with its methods. In Go, this would be an interface, whose calls reach others.
        names = (use.name, use.name.rpartition(".")[0]) if family == "java" else (use.name,)
        is_defined = any(
            not modules.isdisjoint(one.file.modules) and _defines(one, name) for one in same for name in names
        )
        return is_defined or (not modules and bool(self.packages.folders))

    def _is_module(self, module: str, place: CodePlace) -> bool:
        file, module = self.names.file, self.packages.source_of(module)
        if module.startswith("@"):
            return file.module in self.packages.modules(module)
        if not is_module_of(file, module, place.file, self.folders):
            return False
        if module.startswith("/"):
            return True
        others = places_in(self.found, module_name(file.family, module), file.family, self.names.subject.root)
        best = nearest(others, place.file)
        return best is not None and best.file.path == file.path


def _without_other_classes(meaning: _Meaning, users: Sequence[CodeUser], reach: Reach) -> Steps[list[CodeUser]]:
    """Leave out calls of a member of unknown origin that are calls of another class, and of no base or subclass."""
    stated = [meaning.stated_classes(user) for user in users]
    others, file = set[str]().union(*stated), meaning.names.file
    if not others:
        return list(users)
    own = {user.name.rpartition(".")[0] for user in users}
    root = meaning.names.subject.root
    related = yield from related_classes(own, others, family=file.family, root=root, reach=reach)
    return [user for user, classes in zip(users, stated, strict=True) if not classes or classes & related]


def _by_imported_class(
    names: _SubjectNames, found: PassagesFound, reach: Reach, users: Sequence[CodeUser]
) -> Steps[list[CodeUser]]:
    """Decide uses of a method of unknown objects by the class that their file imports.

    They are sure if it imports the class of the subject only, and left out if it imports only another one that has a
    method of this name. A base class or a subclass of the subject's class is no other one.
    """
    family, root = names.file.family, names.subject.root
    unsure = {user.name for user in users if not user.sure and "." in user.name}
    own = {(module, name.partition(".")[0]) for name in unsure for module in names.file.modules}
    others = {
        (module, other.partition(".")[0])
        for name in unsure
        for place in places_in(found, last_name(family, name), family, root)
        if place.file.path != names.file.path and not place.is_test
        for other in place.head.heading.replace("::", ".").split(", ")
        for module in place.file.modules
    }
    if not (own and others) or family == "go":  # in Go, the other type may be an interface, which is not imported
        return list(users)
    related = yield from related_classes(
        {name for _, name in own}, {name for _, name in others}, family=family, root=root, reach=reach
    )
    others = {(module, name) for module, name in others if name not in related}
    imported = {uses_name(family, *one): one in own for one in own ^ others}
    more: PassagesFound = yield PassageRequest((), reach, named=tuple(imported))
    importing = {
        is_own: {
            place.head.object_id
            for name, is_of_subject in imported.items()
            if is_of_subject == is_own and name in more.named
            for place in places_in(more, name, family, root)
        }
        for is_own in (True, False)
    }
    ours, theirs = importing[True] - importing[False], importing[False] - importing[True]
    return [
        user if user.sure else replace(user, sure=user.place.head.object_id in ours)
        for user in users
        if user.sure or user.place.head.object_id not in theirs
    ]


def _covers(wanted: str, name: str) -> bool:
    """Return whether a used name is the wanted one or a member of it."""
    return name == wanted or name.startswith(f"{wanted}.")


def _is_sole(names: _SubjectNames, found: PassagesFound, name: str) -> bool:
    """Return whether no other file in the root, apart from tests, defines a name with the same last part."""
    file = names.file
    places = places_in(found, last_name(file.family, name), file.family, names.subject.root)
    units = {unit_of(place.file) for place in places if not place.is_test}
    return not units - {unit_of(file)} and file.path in {place.file.path for place in places}


def _users_in(meaning: _Meaning, place: CodePlace, segment: Segment | None) -> list[CodeUser]:
    """Return the uses of the subject in a passage: the first of a whole file, otherwise the strongest of each name."""
    subject = meaning.names.subject
    is_own = place.head.object_id == subject.source_id
    if segment is None or (is_own and subject.whole):
        return []
    users: dict[str, CodeUser] = {}
    for use in _uses_of(segment, subject):
        name, sure = meaning.name(place, use) or (None, False)
        if name is None or name in users or (not name and place.is_test and place.file.family == "go"):
            continue  # in Go, a test that imports a package need not use this file of it
        if users and (subject.whole or use.how == "imports"):
            break
        # In Go, a call of a method only uses its type.
        of_member = place.file.family == "go" and use.name.startswith(f"{name}.")
        how: Relation = "uses" if of_member and use.how == "calls" else use.how
        is_inside = is_own and _defines(place, name)
        user = CodeUser(place, how, name, segment, use, sure, subject.names if is_inside else ())
        if not is_inside or (use.how == "calls" and user.lines):
            users[name] = user
    return list(users.values())


def _lines_of(user: CodeUser) -> tuple[int, ...]:
    segment, family, use = user.segment, user.place.file.family, user.use
    if not isinstance(segment.locator, Lines) or (user.apart_from and not segment.definitions):
        return ()
    used = (use.name or use.module.rpartition("/")[2]).rpartition(".")[2]
    # In Go, a variable has the type that is used; elsewhere a member of the name is used.
    name = used if family == "go" or not user.name.strip("*") else user.name.rpartition(".")[2]
    is_member = use.name.startswith(".") or "." in user.name
    defined = [(one, one.name.replace("::", ".")) for one in segment.definitions]
    headings = {one.first for one, qualified in defined if qualified.rpartition(".")[2] == name}
    count = Counter(qualified for _, qualified in defined)
    spans = [
        (one.first, one.last)
        for one, qualified in defined
        # Overloads call each other.
        if user.apart_from and count[qualified] == 1 and (qualified in user.apart_from or one.first in headings)
    ]
    lines = tuple(
        segment.locator.start + line - 1
        for line in lines_using(segment.excerpt, name, family, member=is_member, own=use.module == OWN)
        if line not in headings and not any(first <= line <= last for first, last in spans)
    )
    if user.apart_from or (lines and use.how != "imports"):
        return lines
    first = line_of(segment, used)
    return (first,) if first is not None else ()


def _defines(place: CodePlace, name: str) -> bool:
    return name in place.head.heading.replace("::", ".").split(", ")


def _through_modules(
    names: _SubjectNames, users: Sequence[CodeUser], packages: Packages, reach: Reach, *, levels: int, most: int
) -> Steps[list[CodeUser]]:
    """Find further users through modules that re-export definitions, and through modules that re-export those."""
    known, fresh = list(users), list(users)
    for _ in range(levels):
        through = _reexports(names, fresh, packages)
        if not through:
            break
        more: PassagesFound = yield PassageRequest((), reach, named=tuple(through))
        fresh = yield from _read_through(names, more, through, packages, known, most=most)
        known += fresh
    return known[len(users) :]


def _reexports(names: _SubjectNames, users: Sequence[CodeUser], packages: Packages) -> dict[str, tuple[CodeFile, str]]:
    """Return the index names of uses through modules that re-export definitions, such as a package's `__init__`."""
    family, uses = names.file.family, dict[str, tuple[CodeFile, str]]()
    for user in [user for user in users if user.name and _reexports_names(user.place)][:_MAX_REEXPORTING]:
        for name in (*names.wanted, "*") if user.name == "*" else (user.name, "*"):
            for module in (*user.place.file.modules, *packages.names(user.place.file.module)):
                uses[uses_name(family, module, name)] = (user.place.file, name)
    return uses


def _reexports_names(place: CodePlace) -> bool:
    file = place.file
    is_folder = file.module == "/" + file.path.rpartition("/")[0]
    return is_folder and file.family in ("py", "js", "rs") and not place.is_test


def _read_through(
    names: _SubjectNames,
    found: PassagesFound,
    through: Mapping[str, tuple[CodeFile, str]],
    packages: Packages,
    known: Iterable[CodeUser],
    *,
    most: int,
) -> Steps[list[CodeUser]]:
    subject, seen = names.subject, {_key(user.place) for user in known}
    named = [
        (place, through[name])
        for name in found.named
        for place in places_in(found, name, names.file.family, subject.root)
        if _key(place) not in seen and place.head.object_id != subject.source_id
    ]
    ways: dict[tuple[str, str], tuple[CodePlace, list[tuple[CodeFile, str]]]] = {}
    for place, way in named:
        ways.setdefault(_key(place), (place, []))[1].append(way)
    places = _nearest_first(subject, (place for place, _ in ways.values()), most)
    segments = yield from _segments(places)
    return [
        user
        for place in places
        if (segment := segments.get(_key(place)))
        for user in _through(subject, place, segment, packages, ways[_key(place)][1])
    ]


def _through(
    subject: CodeSubject,
    place: CodePlace,
    segment: Segment,
    packages: Packages,
    ways: Sequence[tuple[CodeFile, str]],
) -> list[CodeUser]:
    """Return the uses of names in a passage that imports them from files that re-export them."""
    users: dict[str, CodeUser] = {}
    for use, (file, name) in product(_uses_of(segment, subject), ways):
        if name in users or (users and use.how == "imports"):
            continue
        for module, used_name in used_from(place.file, use):
            is_used = _covers(name, used_name) or (name == use.name == "*" and _reexports_names(place))
            if is_used and _is_at(file, packages.source_of(module), place, packages):
                users[name] = CodeUser(place, use.how, name, segment, use)
    return list(users.values())


def _is_at(file: CodeFile, module: str, place: CodePlace, packages: Packages) -> bool:
    if module.startswith("@"):
        return file.module in packages.modules(module)
    return is_module_of(file, module, place.file, frozenset())


def _uses_of(segment: Segment | None, subject: CodeSubject) -> list[CodeUse]:
    """Return the uses of a segment: for a whole file imports first, for a symbol calls first."""
    strength = _OF_FILES if subject.whole else _OF_SYMBOLS
    uses = filter(None, map(read_use, segment.uses if segment else ()))
    return sorted(uses, key=lambda use: (strength.index(use.how), use.module == ANYWHERE))


def _segments(places: Sequence[CodePlace]) -> Steps[Mapping[tuple[str, str], Segment]]:
    if not places:
        return {}
    read: ObjectsFound = yield ObjectRequest(segments=tuple(map(_key, places)))
    return read.segments


def _key(place: CodePlace) -> tuple[str, str]:
    return place.head.object_id, place.head.part


def _nearest_first(subject: CodeSubject, places: Iterable[CodePlace], most: int) -> list[CodePlace]:
    """Return distinct places to read, the nearest first, at most `most` of code and `most` of tests."""
    distinct = {place.head.key: place for place in places}.values()
    ordered = sorted(distinct, key=lambda place: (_distance(subject, place), place.head.key))
    code, tests = ([place for place in ordered if place.is_test is test] for test in (False, True))
    return [*code[:most], *tests[:most]]


def _distance(subject: CodeSubject, place: CodePlace) -> tuple[bool, int, str]:
    mine, theirs = subject.file.path.split("/")[:-1], place.file.path.split("/")[:-1]
    same = next((at for at, pair in enumerate(zip(mine, theirs, strict=False)) if pair[0] != pair[1]), None)
    return place.is_test, -(min(len(mine), len(theirs)) if same is None else same), place.file.path


def _ranked(subject: CodeSubject, users: Sequence[CodeUser]) -> list[CodeUser]:
    return sorted(
        users, key=lambda user: (not user.sure, *_distance(subject, user.place), _start(user), user.place.head.key)
    )


def _start(user: CodeUser) -> int:
    return user.segment.locator.start if isinstance(user.segment.locator, Lines) else 0
