"""What a file of code, or a part of it, imports, calls and uses of the other files around it."""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field

from treering.core.objects import Source
from treering.ports.ledger import ObjectRequest, ObjectsFound
from treering.ports.passages import PassageRequest, PassagesFound, Reach
from treering.retrieval.index.code_names import (
    ANYWHERE,
    CodeFile,
    CodeUse,
    How,
    definition_name,
    last_name,
    module_name,
    package_name,
    read_use,
    used_from,
)
from treering.retrieval.index.code_places import (
    PUBLISHED,
    CodePlace,
    Packages,
    folders_above,
    is_module_of,
    nearest,
    package_folders,
    places_in,
    read_packages,
    unit_of,
)
from treering.retrieval.index.passages import passages_of
from treering.retrieval.index.rounds import Steps

_ASKED = 400
"""Uses of one file that are followed."""
_PASSED_ON = 12
"""Files that are read to see from where they take what they pass on."""
_MOST_FOLDERS = 200


@dataclass(frozen=True, slots=True)
class CodeTarget:
    """What is used: the passage that defines it, or the first one of the module, and by which use."""

    place: CodePlace
    how: How
    name: str
    use: str
    """As the segment says it, by which its line is found."""


@dataclass(frozen=True, slots=True)
class _Use:
    """A use in some file, and what may be meant by it: modules with names in them."""

    use: CodeUse
    asking: CodeFile
    meanings: tuple[tuple[str, str], ...]
    written: str


def targets_of(file: CodeFile, root: str, uses: Iterable[str], reach: Reach) -> Steps[list[CodeTarget]]:
    """Find what some uses in a file mean, in the order given; what cannot be told with some certainty is left out.

    Where a module only passes on what it imports itself, the file that defines it is found through it, once.
    """
    asked = [_Use(use, file, tuple(used_from(file, use)), text) for text in uses if (use := read_use(text))][:_ASKED]
    found = yield from _settled(_Search(file.family, root, reach), asked)
    passed = [each for each in found.values() if each.passes_on]
    if passed:
        followed = yield from _followed(_Search(file.family, root, reach), passed)
        found |= followed
    return [target for use in asked if (each := found.get(use.written)) and (target := each.target)]


@dataclass(frozen=True, slots=True)
class _Search:
    family: str
    root: str
    reach: Reach


@dataclass(frozen=True, slots=True)
class _Found:
    """What a use was found to mean: a module, and the passage that defines what is named, if the module does."""

    use: _Use
    module: CodePlace | None
    name: str
    definition: CodePlace | None

    @property
    def target(self) -> CodeTarget | None:
        place = self.definition or self.module
        return CodeTarget(place, self.use.use.how, self.name, self.use.written) if place else None

    @property
    def passes_on(self) -> bool:
        return bool(self.module and self.name and not self.definition and self.use.use.how != "imports")


def _settled(search: _Search, asked: Sequence[_Use]) -> Steps[dict[str, _Found]]:
    """Find the module of each use, then what it defines by that name."""
    family = search.family
    modules = {module for use in asked for module, _ in use.meanings}
    names = [*(module_name(family, module) for module in modules if not module.startswith("@"))]
    names += [last_name(family, use.use.name) for use in asked if use.use.module == ANYWHERE]
    names += [last_name(family, _first(use.use.name)) for use in asked if use.use.module == ANYWHERE]
    names += [package_name(family)] if family in PUBLISHED else []
    found: PassagesFound = yield PassageRequest((), search.reach, named=tuple(dict.fromkeys(names)))
    packages = Packages({})
    if family in PUBLISHED:
        packages = yield from read_packages(found, family, search.root)
    more = [module_name(family, one) for module in modules if module[0] == "@" for one in packages.modules(module)]
    more += _folder_names(search, found, modules)
    if more:
        also: PassagesFound = yield PassageRequest((), search.reach, named=tuple(dict.fromkeys(more)))
        found = PassagesFound({**found.heads, **also.heads}, named={**found.named, **also.named})
    settling = _Settling(search, found, packages)
    placed = {use.written: settling.modules_of(use) for use in asked}
    wanted = {
        definition_name(family, place.file.module, part): None
        for ways in placed.values()
        for place, name in ways
        for part in (name, _first(name))
        if part
    }
    defined: PassagesFound = yield PassageRequest((), search.reach, named=tuple(wanted))
    return {use.written: settling.found(use, placed[use.written], defined) for use in asked}


def _folder_names(search: _Search, found: PassagesFound, modules: Iterable[str]) -> list[str]:
    """Name the folders of which it has to be known whether they are packages."""
    if search.family != "py":
        return []
    places = [
        place
        for module in modules
        if not module.startswith("/")
        for place in places_in(found, module_name("py", module), "py", search.root)
    ]
    folders = dict.fromkeys(folder for place in places for folder in folders_above(place.file))
    return [module_name("py", folder) for folder in folders][:_MOST_FOLDERS]


@dataclass
class _Settling:
    """Chooses among what was found by name."""

    search: _Search
    names: PassagesFound
    packages: Packages
    folders: dict[str, frozenset[str]] = field(default_factory=dict)

    def modules_of(self, use: _Use) -> list[tuple[CodePlace, str]]:
        """Return the first passages of the modules that a use may mean, each with the name in it."""
        if use.use.module == ANYWHERE:
            return []
        ways = ((self._at(module, use.asking), name) for module, name in use.meanings)
        return [(place, name) for place, name in ways if place]

    def found(self, use: _Use, ways: Sequence[tuple[CodePlace, str]], defined: PassagesFound) -> _Found:
        """Return what a use means: what a module defines by the name, else a module that goes by all of it."""
        if use.use.module == ANYWHERE:
            return self._anywhere(use)
        family, root = self.search.family, self.search.root
        for place, name in ways:
            for part in filter(None, (name, _first(name))):
                there = places_in(defined, definition_name(family, place.file.module, part), family, root)
                if there:
                    return _Found(use, place, part, there[0])
        if not ways:
            return _Found(use, None, "", None)
        return _Found(use, *min(ways, key=lambda way: len(way[1])), None)

    def _at(self, module: str, asking: CodeFile) -> CodePlace | None:
        family, root = self.search.family, self.search.root
        if module.startswith("@"):
            ways = (self._at(one, asking) for one in self.packages.modules(module))
            return next(filter(None, ways), None)
        places = places_in(self.names, module_name(family, module), family, root)
        if module.startswith("/"):
            return places[0] if places else None
        packages = self._packages([place.file for place in places])
        fitting = [place for place in places if is_module_of(place.file, module, asking, packages)]
        return nearest(fitting, asking)

    def _packages(self, files: Sequence[CodeFile]) -> frozenset[str]:
        if self.search.family != "py":
            return frozenset()
        return package_folders(self.names, files, self.search.root)

    def _anywhere(self, use: _Use) -> _Found:
        """Take a name that is not placed for the only definition that is called so, tests aside."""
        name = use.use.name
        for one in dict.fromkeys((name, _first(name.lstrip(".")))):
            places = places_in(self.names, last_name(self.search.family, one), self.search.family, self.search.root)
            if use.asking.path not in {place.file.path for place in places if place.is_test}:
                places = [place for place in places if not place.is_test]
            if len({unit_of(place.file) for place in places}) == 1:
                # In C the definition counts before the promise in its header.
                best = min(places, key=lambda place: place.file.path.endswith((".h", ".hpp", ".hh")))
                return _Found(use, None, one.lstrip("."), best)
        return _Found(use, None, "", None)


def _followed(search: _Search, passed: Sequence[_Found]) -> Steps[dict[str, _Found]]:
    """Look where modules that define nothing so called take it from."""
    ids = tuple(dict.fromkeys(one.module.head.object_id for one in passed if one.module))[:_PASSED_ON]
    read: ObjectsFound = yield ObjectRequest(objects=ids)
    asked: dict[str, _Use] = {}
    for one in passed:
        item = read.objects.get(one.module.head.object_id) if one.module else None
        if isinstance(item, Source) and one.module:
            meanings = _imported_as(one.module.file, item, one.name)
            if meanings:
                asked[one.use.written] = _Use(one.use.use, one.module.file, meanings, one.use.written)
    found = yield from _settled(search, list(asked.values()))
    return {written: each for written, each in found.items() if each.definition}


def _imported_as(file: CodeFile, source: Source, name: str) -> tuple[tuple[str, str], ...]:
    """Return from where a file imports a name, or everything."""
    uses = (read_use(text) for part in source.segments for text in part.uses)
    imports = [use for use in uses if use and use.how == "imports"]
    first, _, rest = name.partition(".")
    named = [use for use in imports if use.name == first]
    open_ = [CodeUse("imports", use.module, first) for use in imports if use.name == "*"]
    more = f".{rest}" if rest else ""
    return tuple((module, f"{said}{more}") for use in (*named, *open_) for module, said in used_from(file, use) if said)


def uses_in(source: Source, segments: frozenset[str] | None = None) -> Mapping[str, str]:
    """Return what a source uses, in the order of its text, each with the first segment that does."""
    found: dict[str, str] = {}
    for passage in passages_of(source):
        if segments is None or passage.part in segments:
            for use in passage.uses:
                found.setdefault(use, passage.part)
    return found


def _first(name: str) -> str:
    return name.partition(".")[0]
