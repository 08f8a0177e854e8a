"""Where code lies: the file a passage is of, what else lies around it, which packages a repository names."""

import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from posixpath import dirname

from treering.core.evidence import Segment
from treering.core.locator import Lines
from treering.core.objects import Source
from treering.derived.code_names import CodeFile, code_file, module_name, package_name
from treering.derived.roles import is_test_path
from treering.derived.rounds import Steps
from treering.ports.ledger import ObjectRequest, ObjectsFound
from treering.ports.passages import PassageHead, PassagesFound

PUBLISHED = frozenset({"go", "js", "rs"})
"""Families in which a package is imported by the name that its manifest gives it."""

_ROOTS = frozenset({"", "/", "/src", "/lib", "/python", "/source"})
"""Folders from which languages name modules without being told."""
_MOST_MANIFESTS = 50
_ENTRIES = ("", "/src", "/src/main", "/lib", "/source")


@dataclass(frozen=True, slots=True)
class CodePlace:
    """A passage of code and the file it is of. `root` is what its origin says before the path."""

    file: CodeFile
    root: str
    head: PassageHead

    @property
    def is_test(self) -> bool:
        """Tell whether it is of a test, by its path."""
        return is_test_path(self.file.path)


def place_of(head: PassageHead, family: str) -> CodePlace | None:
    """Return where a passage of a family of languages lies; `None` where its source is not called by its path."""
    if not head.title or not head.origin.endswith(head.title):
        return None
    return CodePlace(CodeFile(family, head.title), head.origin.removesuffix(head.title), head)


def root_and_path(source: Source) -> tuple[str, str] | None:
    """Return the root that a file was read from, and its path there; `None` for a source that is not a file of one."""
    path = next((part.locator.path for part in source.segments if isinstance(part.locator, Lines)), "")
    return (source.origin.removesuffix(path), path) if path and source.origin.endswith(path) else None


def file_of(source: Source) -> tuple[CodeFile, str] | None:
    """Return the file of code that a source is, and the root it was read from."""
    placed = root_and_path(source)
    file = code_file(str(source.metadata.get("language", "")), placed[1]) if placed else None
    return (file, placed[0]) if placed and file else None


def places_in(found: PassagesFound, name: str, family: str, root: str) -> list[CodePlace]:
    """Return the passages found by a name that lie under a root."""
    places = (place_of(found.heads[key], family) for key in found.named.get(name, ()) if key in found.heads)
    return [place for place in places if place and place.root == root]


def unit_of(file: CodeFile) -> str:
    """Return what a definition is counted once in: a file, or in C a header with the file that keeps its promises."""
    return file.path.rpartition(".")[0] if file.family == "c" else file.path


def folders_above(file: CodeFile) -> list[str]:
    """Return the folders around a file as modules go by them, the nearest first."""
    folder, found = dirname(f"/{file.path}"), list[str]()
    while folder != "/":
        found.append(folder)
        folder = dirname(folder)
    return found


def package_folders(found: PassagesFound, files: Iterable[CodeFile], root: str) -> frozenset[str]:
    """Return the folders around files that are packages of Python: they hold an `__init__`."""
    folders = {folder for file in files for folder in folders_above(file)}
    return frozenset(folder for folder in folders if places_in(found, module_name("py", folder), "py", root))


def is_module_of(file: CodeFile, module: str, asking: CodeFile, packages: frozenset[str]) -> bool:
    """Tell whether what a file calls a module may be another file, by the folders it leaves unsaid.

    What lies in a package of Python is named with the package. Else it is named from a folder that is usual, or that
    holds the file that names it, or by a path long enough to be of nothing else.
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
    """Return the place that shares most of its folders with a file; `None` where several files are as near."""
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
    """Return the line of the file on which a segment first calls a name, else says it; `None` without lines."""
    if not isinstance(segment.locator, Lines):
        return None
    word = rf"(?<!\w){re.escape(name)}"
    for pattern in (rf"{word}!?\(", rf"{word}(?!\w)") if name else ():
        found = re.search(pattern, segment.excerpt)
        if found:
            return segment.locator.start + segment.excerpt.count("\n", 0, found.start())
    return segment.locator.start


@dataclass(frozen=True, slots=True)
class Packages:
    """The packages that manifests of a repository name: the folder of each by its name."""

    folders: Mapping[str, str]

    def modules(self, published: str) -> list[str]:
        """Return the modules that a name behind `@` may mean, by whole path, the likeliest first."""
        name = published.removeprefix("@")
        for package in sorted(self.folders, key=len, reverse=True):
            if name == package or name.startswith(f"{package}/"):
                folder, rest = self.folders[package], name.removeprefix(package)
                return [(f"{folder}{entry}{rest}".rstrip("/") or "/") for entry in _ENTRIES]
        return []

    def names(self, module: str) -> list[str]:
        """Return what else a module of a whole path may be called, behind `@`."""
        found = []
        for package, folder in self.folders.items():
            for entry in _ENTRIES:
                start = f"{folder}{entry}"
                if module == start or module.startswith(f"{start}/"):
                    found.append(f"@{package}{module.removeprefix(start)}".rstrip("/"))
        return list(dict.fromkeys(found))


def read_packages(found: PassagesFound, family: str, root: str) -> Steps[Packages]:
    """Read which packages the manifests that were found name."""
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
