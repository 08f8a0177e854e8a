"""Places in code: the passages of modules, and the packages of a repository."""

import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from posixpath import dirname

from treering.core.evidence import Lines, Segment
from treering.core.objects import Source
from treering.ports.ledger import ObjectRequest, ObjectsFound
from treering.ports.passages import PassageHead, PassagesFound
from treering.retrieval.index.code_names import CodeFile, module_name, package_name
from treering.retrieval.index.code_places import is_test_path
from treering.retrieval.index.rounds import Steps

PUBLISHED = frozenset({"go", "js", "rs"})
"""Families that import a package by the name in its manifest."""

_ROOTS = frozenset({"", "/", "/src", "/lib", "/python", "/source"})
"""Folders that modules are usually named relative to."""
_MOST_MANIFESTS = 50
_FIXTURE = re.compile(
    r"(?:^|/)(?:testdata|(?:tests?|__tests__|specs?)/(?:[^/]+/)*(?:[^/]+[-_])?(?:data|fixtures?|syntax|corpus)(?:[-_][^/]+)?)/"
)
_BUILT = ("dist", "build", "out")
"""Folders with the built entry of a package, which is not in the repository."""
_ENTRIES = ("", "/src", "/src/main", "/lib", "/source")


@dataclass(frozen=True, slots=True)
class CodePlace:
    """A passage of code and its file. `root` is the part of its origin before the path."""

    file: CodeFile
    root: str
    head: PassageHead

    @property
    def is_test(self) -> bool:
        """Whether the file is a test, by its path."""
        return is_test_path(self.file.path)

    @property
    def is_fixture(self) -> bool:
        """Whether the file is data that tests read, by its folder."""
        return _FIXTURE.search(self.file.path) is not None


def place_of(head: PassageHead, family: str) -> CodePlace | None:
    """Return the place of a passage of a language family; `None` if the title of its source is not its path."""
    if not head.title or not head.origin.endswith(head.title):
        return None
    return CodePlace(CodeFile(family, head.title), head.origin.removesuffix(head.title), head)


def places_in(found: PassagesFound, name: str, family: str, root: str) -> list[CodePlace]:
    """Return the passages found by a name under a root."""
    places = (place_of(found.heads[key], family) for key in found.named.get(name, ()) if key in found.heads)
    return [place for place in places if place and place.root == root]


def unit_of(file: CodeFile) -> str:
    """Return the unit that contains a definition once: the file, or in C a header together with its implementation."""
    return file.path.rpartition(".")[0] if file.family == "c" else file.path


def folders_above(file: CodeFile) -> list[str]:
    """Return the folders above a file, the nearest first."""
    folder, folders = dirname(f"/{file.path}"), list[str]()
    while folder != "/":
        folders.append(folder)
        folder = dirname(folder)
    return folders


def package_folders(found: PassagesFound, files: Iterable[CodeFile], root: str) -> frozenset[str]:
    """Return the folders above files that are Python packages, which have an `__init__`."""
    folders = {folder for file in files for folder in folders_above(file)}
    return frozenset(folder for folder in folders if places_in(found, module_name("py", folder), "py", root))


def is_module_of(file: CodeFile, module: str, asking: CodeFile, packages: frozenset[str]) -> bool:
    """Return whether a file may be the module that another file names, by the folders missing in the name.

    Modules in a Python package are named with the package. Other modules are named relative to a usual folder or a
    folder above the asking file, or by a path of several parts.
    """
    if module.startswith("/"):
        return module == file.module
    if file.module != f"/{module}" and not file.module.endswith(f"/{module}"):
        return False
    above = file.module.removesuffix(module).rstrip("/")
    if above in packages:
        return False
    return above in _ROOTS or f"/{asking.path}".startswith(f"{above}/") or "/" in module


def nearest(places: Sequence[CodePlace], asking: CodeFile) -> CodePlace | None:
    """Return the place that shares most folders with a file; `None` if several files are equally near."""
    best: list[CodePlace] = []
    most = -1
    for place in places:
        near = _shared(place.file.path, asking.path)
        if near > most:
            best, most = [place], near
        elif near == most:
            best.append(place)
    return best[0] if len({place.file.path for place in best}) == 1 else None


def line_of(segment: Segment, name: str) -> int | None:
    """Return the first line of a segment that calls a name, or else contains it; `None` if it has no lines."""
    if not isinstance(segment.locator, Lines):
        return None
    word = rf"(?<!\w){re.escape(name)}"
    for pattern in (rf"{word}!?\(", rf"{word}(?!\w)") if name else ():
        match = re.search(pattern, segment.excerpt)
        if match:
            return segment.locator.start + segment.excerpt.count("\n", 0, match.start())
    return segment.locator.start


@dataclass(frozen=True)
class Packages:
    """The packages in the manifests of a repository, each with its folder."""

    folders: Mapping[str, str]

    def modules(self, published: str) -> list[str]:
        """Return the full paths of the modules that a name with `@` may mean, the likeliest first."""
        name = published.removeprefix("@")
        for package in sorted(self.folders, key=len, reverse=True):
            if name == package or name.startswith(f"{package}/"):
                folder, rest = self.folders[package], name.removeprefix(package)
                return [(f"{folder}{entry}{rest}".rstrip("/") or "/") for entry in _ENTRIES]
        return []

    def names(self, module: str) -> list[str]:
        """Return the names with `@` of a module with a full path, and the built modules that it is the source of."""
        names = []
        for package, folder in self.folders.items():
            for entry in _ENTRIES:
                start = f"{folder}{entry}"
                if module == start or module.startswith(f"{start}/"):
                    names.append(f"@{package}{module.removeprefix(start)}".rstrip("/"))
        built = [one for one in self._built if f"@{self._built[one]}" in names]
        return list(dict.fromkeys((*names, *built)))

    def source_of(self, module: str) -> str:
        """Return the package with `@` whose built entry a module with a full path is, or else the module."""
        return f"@{self._built[module]}" if module in self._built else module

    @cached_property
    def _built(self) -> Mapping[str, str]:
        """The packages by the modules that their built entry may be."""
        return {
            f"{folder}/{built}{name}": package
            for package, folder in self.folders.items()
            for built in _BUILT
            for name in ("", f"/{package.rpartition('/')[2]}")
        }


def read_packages(found: PassagesFound, family: str, root: str) -> Steps[Packages]:
    """Read the packages in the manifests that were found."""
    keys = found.named.get(package_name(family), ())
    heads = [head for key in keys if (head := found.heads.get(key)) and head.origin.startswith(root)]
    if not heads:
        return Packages({})
    ids = tuple(dict.fromkeys(head.object_id for head in heads))[:_MOST_MANIFESTS]
    read: ObjectsFound = yield ObjectRequest(objects=ids)
    folders = {}
    for item in read.objects.values():
        if isinstance(item, Source) and item.metadata.get("package"):
            name = str(item.metadata["package"])
            folder = dirname("/" + item.origin.removeprefix(root)).rstrip("/")
            folders[name.replace("-", "_") if family == "rs" else name] = folder
    return Packages(folders)


def _shared(one: str, other: str) -> int:
    count = 0
    for mine, theirs in zip(dirname(one).split("/"), dirname(other).split("/"), strict=False):
        if mine != theirs:
            break
        count += 1
    return count
