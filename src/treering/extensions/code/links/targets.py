"""Resolve the imports, calls and other uses in a code file to the definitions in other files."""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field

from treering.core.objects import Source
from treering.extensions.code.links.places import (
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
from treering.ports.ledger import ObjectRequest, ObjectsFound
from treering.ports.passages import PassageRequest, PassagesFound, Reach
from treering.retrieval.index.code_names import (
    ANYWHERE,
    OWN,
    CodeFile,
    CodeUse,
    How,
    definition_name,
    last_name,
    member_of_unknown,
    module_name,
    package_name,
    read_use,
    used_from,
)
from treering.retrieval.index.passages import passages_of
from treering.retrieval.index.rounds import Steps

_MAX_USES = 400
"""Uses of one file that are resolved."""
_MAX_REEXPORTING = 12
"""Files that are read to resolve names which they re-export."""
_MOST_FOLDERS = 200


@dataclass(frozen=True, slots=True)
class CodeTarget:
    """The target of a use: the passage with the definition, or the first passage of the module."""

    place: CodePlace
    how: How
    name: str
    use: str
    """The use as the segment stores it, by which its line is found."""


@dataclass(frozen=True, slots=True)
class _Use:
    """A use in a file, and its possible meanings: modules with names in them."""

    use: CodeUse
    asking: CodeFile
    meanings: tuple[tuple[str, str], ...]
    written: str


def targets_of(file: CodeFile, root: str, uses: Iterable[str], reach: Reach) -> Steps[list[CodeTarget]]:
    """Resolve uses in a file, in order; uses that cannot be resolved reliably are left out.

    If a module re-exports an import, the definition is found through it, one level deep.
    """
    read = [_Use(use, file, tuple(used_from(file, use)), text) for text in uses if (use := read_use(text))][:_MAX_USES]
    resolved = yield from _resolve(_Search(file.family, root, reach), read)
    reexported = [each for each in resolved.values() if each.is_reexported]
    if reexported:
        resolved |= yield from _follow_reexports(_Search(file.family, root, reach), reexported)
    return [target for use in read if (each := resolved.get(use.written)) and (target := each.target)]


@dataclass(frozen=True, slots=True)
class _Search:
    family: str
    root: str
    reach: Reach


@dataclass(frozen=True, slots=True)
class _Resolved:
    """The meaning of a use: a module, and the passage with the definition if the module has one."""

    use: _Use
    module: CodePlace | None
    name: str
    definition: CodePlace | None

    @property
    def target(self) -> CodeTarget | None:
        place = self.definition or self.module
        return CodeTarget(place, self.use.use.how, self.name, self.use.written) if place else None

    @property
    def is_reexported(self) -> bool:
        return bool(self.module and self.name and not self.definition and self.use.use.how != "imports")


def _resolve(search: _Search, uses: Sequence[_Use]) -> Steps[dict[str, _Resolved]]:
    """Find the module of each use, then the definition in it."""
    family = search.family
    modules = {module for use in uses for module, _ in use.meanings}
    names = [*(module_name(family, module) for module in modules if not module.startswith("@"))]
    unknown = (use.use if use.use.module == ANYWHERE else member_of_unknown(family, use.use) for use in uses)
    names += [last_name(family, use.name) for use in unknown if use]
    names += [last_name(family, _first(use.use.name)) for use in uses if use.use.module == ANYWHERE]
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
    resolver = _Resolver(search, found, packages)
    placed = {use.written: resolver.modules_of(use) for use in uses}
    wanted = {
        definition_name(family, place.file.module, part): None
        for ways in placed.values()
        for place, name in ways
        for part in (name, _first(name))
        if part
    }
    defined: PassagesFound = yield PassageRequest((), search.reach, named=tuple(wanted))
    return {use.written: resolver.resolve(use, placed[use.written], defined) for use in uses}


def _folder_names(search: _Search, found: PassagesFound, modules: Iterable[str]) -> list[str]:
    """Return the index names of the folders that may be packages."""
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
class _Resolver:
    """Choose among the passages found by name."""

    search: _Search
    names: PassagesFound
    packages: Packages
    folders: dict[str, frozenset[str]] = field(default_factory=dict)

    def modules_of(self, use: _Use) -> list[tuple[CodePlace, str]]:
        """Return the first passages of the modules that a use may mean, each with the name to find in it."""
        if use.use.module == ANYWHERE:
            return []
        ways = ((self._at(module, use.asking), name) for module, name in use.meanings)
        return [(place, name) for place, name in ways if place]

    def resolve(self, use: _Use, ways: Sequence[tuple[CodePlace, str]], defined: PassagesFound) -> _Resolved:
        """Return the definition of a use in a module, or else the module that matches most of its name."""
        if use.use.module == ANYWHERE:
            return self._anywhere(use, use.use.name)
        family, root = self.search.family, self.search.root
        member = member_of_unknown(family, use.use)
        for place, name in ways:
            for part in filter(None, (name, _first(name))):
                definitions = places_in(defined, definition_name(family, place.file.module, part), family, root)
                if definitions:
                    return _Resolved(use, place, part, definitions[0])
                if member and (other := self._anywhere(use, member.name)).definition:
                    return other
        if not ways or use.use.module == OWN:  # a name that the own package lacks is a part of the language
            return _Resolved(use, None, "", None)
        return _Resolved(use, *min(ways, key=lambda way: len(way[1])), None)

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

    def _anywhere(self, use: _Use, name: str) -> _Resolved:
        """Resolve a name of unknown origin to the only definition with this name, apart from tests."""
        for one in dict.fromkeys((name, _first(name.lstrip(".")))):
            places = places_in(self.names, last_name(self.search.family, one), self.search.family, self.search.root)
            if use.asking.path not in {place.file.path for place in places if place.is_test}:
                places = [place for place in places if not place.is_test]
            if len({unit_of(place.file) for place in places}) == 1:
                # In C the definition is preferred to the declaration in a header.
                best = min(places, key=lambda place: place.file.path.endswith((".h", ".hpp", ".hh")))
                return _Resolved(use, None, one.lstrip("."), best)
        return _Resolved(use, None, "", None)


def _follow_reexports(search: _Search, reexported: Sequence[_Resolved]) -> Steps[dict[str, _Resolved]]:
    """Resolve names in the modules from which the re-exporting modules import them."""
    ids = tuple(dict.fromkeys(one.module.head.object_id for one in reexported if one.module))[:_MAX_REEXPORTING]
    read: ObjectsFound = yield ObjectRequest(objects=ids)
    uses: dict[str, _Use] = {}
    for one in reexported:
        item = read.objects.get(one.module.head.object_id) if one.module else None
        if isinstance(item, Source) and one.module:
            meanings = _imported_as(one.module.file, item, one.name)
            if meanings:
                uses[one.use.written] = _Use(one.use.use, one.module.file, meanings, one.use.written)
    resolved = yield from _resolve(search, list(uses.values()))
    return {written: each for written, each in resolved.items() if each.definition}


def _imported_as(file: CodeFile, source: Source, name: str) -> tuple[tuple[str, str], ...]:
    """Return the meanings of a name that a file imports by itself or with `*`."""
    uses = (read_use(text) for part in source.segments for text in part.uses)
    imports = [use for use in uses if use and use.how == "imports"]
    first, _, rest = name.partition(".")
    named = [use for use in imports if use.name == first]
    open_ = [CodeUse("imports", use.module, first) for use in imports if use.name == "*"]
    more = f".{rest}" if rest else ""
    meanings = (meaning for use in (*named, *open_) for meaning in used_from(file, use))
    return tuple((module, f"{name_in_module}{more}") for module, name_in_module in meanings if name_in_module)


def uses_in(source: Source, segments: frozenset[str] | None = None) -> Mapping[str, str]:
    """Return the distinct uses in a source, in the order of its text, each with the first segment that has it."""
    uses: dict[str, str] = {}
    for passage in passages_of(source):
        if segments is None or passage.part in segments:
            for use in passage.uses:
                uses.setdefault(use, passage.part)
    return uses


def _first(name: str) -> str:
    return name.partition(".")[0]
