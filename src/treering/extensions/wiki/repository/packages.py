"""The parts of a repository with their own pages: packages, and the most important modules."""

import re
from collections import Counter, defaultdict
from collections.abc import Container, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from posixpath import splitext

from treering.core.canonical import digest
from treering.extensions.wiki.repository.files import RepositoryFiles, WikiFile
from treering.extensions.wiki.repository.symbol_graph import SymbolGraph

MAX_PART_PAGES = 150
"""The maximum number of packages and modules with a page."""
_SOURCE_FOLDERS = re.compile(r"^(?:src|lib|python|source)(?:/|$)")
_SUPPORTING = re.compile(
    r"^(?:bench[\w-]*|perf[\w-]*|[\w-]*tests?|tests?-[\w-]+|scripts?|build|ci|hack|examples?|website|fuzz|t"
    r"|packaging|completions?|\.[^/]+)/|(?:^|/)(?:\.[^/]+|benches|fuzz_targets)/|(?:^|/)[^/]*\.config\.\w+$"
    r"|(?:^|/)(?:build\.rs|\.[^/]+)$|^(?:gradlew|mvnw)$|^(?:setup|conftest|noxfile|fabfile|tasks)\.py$|^(?:gulpfile|gruntfile)\.\w+$",
    re.IGNORECASE,
)
"""Code that supports the repository's main code, such as tests and scripts; it has no pages."""
_JVM_FOLDERS = re.compile(r"^(?P<module>(?:[^/]+/)*?)src/main/(?:java|kotlin|scala|groovy)(?:/|$)")
_RUST_FOLDER = re.compile(r"/src(?=/|$)")
_VERSION = re.compile(r"/v\d+$")
_WORKSPACES = ("root", "monorepo", "workspace")
"""Names of manifests at the top of a repository with several packages."""
_SLUG = re.compile(r"[^\w]+")
_SLUG_CHARS = 80
_RESERVED = frozenset(
    {"con", "prn", "aux", "nul", "index", "log", *(f"{n}{i}" for n in ("com", "lpt") for i in range(10))}
)
_STUB = re.compile(r"\.(?:pyi|d\.[mc]?ts)$")
_LEAST_LINES = 12
"""The minimum lines of a module without definitions for its own page."""


@dataclass(frozen=True, slots=True)
class CodePart:
    """A package or module with a page.

    `files`: the files described on the page, the entry file of the folder first; `modules`: the parts directly below.
    """

    key: str
    """A folder, or the path of a file."""
    title: str
    is_package: bool
    files: tuple[str, ...]
    modules: tuple[str, ...]
    importance: float

    @property
    def entry(self) -> str:
        """The path of the entry file."""
        return self.files[0] if self.files else ""


@dataclass(frozen=True)
class CodeParts:
    """All parts by key, in the order of their paths, and the part of each file of code."""

    parts: Mapping[str, CodePart]
    of_file: Mapping[str, str]
    aside: Mapping[str, int]
    """The number of supporting files without a page, by folder."""


def code_parts(files: RepositoryFiles, graph: SymbolGraph) -> CodeParts:
    """Divide the code of a repository into packages and modules, at most `MAX_PART_PAGES`, the most important ones."""
    everything = [file for file in files.of_role("code") if file.code and file.head]
    code = [file for file in everything if not _SUPPORTING.search(file.path)] or everything
    folders: dict[str, list[WikiFile]] = defaultdict(list)
    for file in code:
        folders[file.folder].append(file)
    own = _own_pages(folders, graph)
    parts: dict[str, CodePart] = {}
    of_file: dict[str, str] = {}
    for folder in sorted(folders):
        inside = sorted(folders[folder], key=lambda file: (not stands_for_folder(file), file.path))
        modules = [module for module in _modules(inside) if any(file.path in own for file in module)]
        described = [file for file in inside if not any(file in module for module in modules)]
        key = folder or "."
        if described or len(inside) > 1:
            parts[key] = _part(files, graph, key, described, tuple(module[0].path for module in modules))
            of_file |= {file.path: key for file in described}
        for module in modules:
            first = module[0].path
            parts[first] = _part(files, graph, first, module, ())
            of_file |= {file.path: first for file in module}
    aside = Counter(file.folder or file.path for file in everything if file.path not in of_file)
    return CodeParts(_with_unique_titles(parts), of_file, dict(sorted(aside.items())))


def _modules(inside: Sequence[WikiFile]) -> list[list[WikiFile]]:
    """Return the modules of a folder: its files, but headers of C and stubs are in the module of their implementation.

    A header is the first file of its module, a stub the last.
    """
    paths = {file.path for file in inside}
    modules: dict[str, list[WikiFile]] = defaultdict(list)
    for file in inside:
        is_c = file.code is not None and file.code.family == "c"
        modules[splitext(file.path)[0] if is_c else implementation_of(file.path, paths) or file.path].append(file)
    return [sorted(one, key=_order_in_module) for one in modules.values()]


def _order_in_module(file: WikiFile) -> tuple[bool, bool]:
    return is_stub_path(file.path), not splitext(file.path)[1].startswith(".h")


def is_stub_path(path: str) -> bool:
    """Return whether a file contains only types: a stub of Python, or a declaration file of TypeScript."""
    return _STUB.search(path) is not None


def implementation_of(path: str, paths: Container[str]) -> str:
    """Return the path of the module whose types a stub contains; empty if it is no stub, or alone."""
    stub = _STUB.search(path)
    bare = path[: stub.start()] if stub else ""
    endings = (".py",) if path.endswith(".pyi") else (".js", ".mjs", ".cjs", ".jsx")
    return next((f"{bare}{ending}" for ending in endings if stub and f"{bare}{ending}" in paths), "")


def _with_unique_titles(parts: Mapping[str, CodePart]) -> dict[str, CodePart]:
    """Replace titles that another part has too by the path, except the title of a package."""
    counts = Counter(part.title for part in parts.values())
    return {
        key: part if part.is_package or counts[part.title] == 1 else replace(part, title=key)
        for key, part in parts.items()
    }


def stands_for_folder(file: WikiFile) -> bool:
    """Return whether a file is the entry file of its folder, such as `__init__.py` or `index.ts`."""
    if file.code is None:
        return False
    if file.name == "package-info.java":
        return True
    if file.code.family == "go":
        return splitext(file.name)[0] in ("doc", file.folder.rpartition("/")[2])
    return file.code.module == f"/{file.folder}"


def _own_pages(folders: Mapping[str, Sequence[WikiFile]], graph: SymbolGraph) -> frozenset[str]:
    """Choose the files with their own pages: none in Go, where a package is a folder; elsewhere each module."""
    paths = {file.path for inside in folders.values() for file in inside}
    candidates = [
        file
        for inside in folders.values()
        for file in inside
        if file.code and file.code.family != "go" and not stands_for_folder(file)
        if not implementation_of(file.path, paths)
        if len(inside) == 1 or file.entries or file.last_line >= _LEAST_LINES
    ]
    room = max(0, MAX_PART_PAGES - len(folders))
    ranked = sorted(candidates, key=lambda file: (-round(graph.importance.get(file.path, 0.0), 6), file.path))
    return frozenset(file.path for file in ranked[:room])


def _part(
    files: RepositoryFiles, graph: SymbolGraph, key: str, inside: Sequence[WikiFile], modules: tuple[str, ...]
) -> CodePart:
    paths = tuple(file.path for file in inside)
    importance = sum(graph.importance.get(path, 0.0) for path in paths)
    is_package = key not in files.files
    title = part_title(files, key, inside or [files.files[path] for path in modules])
    return CodePart(key, title, is_package, paths, modules, importance)


def part_title(files: RepositoryFiles, key: str, inside: Sequence[WikiFile] = ()) -> str:
    """Return the title of a part: a dotted name in Python and Java, elsewhere its path without the source folder."""
    file = files.files.get(key)
    bare = _SOURCE_FOLDERS.sub("", "" if key == "." else key)
    family = next((one.code.family for one in ([file] if file else inside) if one and one.code), "")
    if file:
        stem = splitext(bare)[0]
        bare = stem.rpartition("/")[0] if stem.endswith("/__init__") else stem
    if family == "py":
        bare = bare.replace("/", ".")
    if family == "rs":
        bare = _RUST_FOLDER.sub("", bare)
    if jvm := _JVM_FOLDERS.match(bare):
        bare = bare[jvm.end() :].replace("/", ".") or jvm["module"].rstrip("/")
    if key == "." and _has_source_folder(files):
        return "top folder"
    return bare or repository_title(files)


def _has_source_folder(files: RepositoryFiles) -> bool:
    return any(file.role == "code" and _SOURCE_FOLDERS.match(file.path) for file in files.files.values())


def repository_title(files: RepositoryFiles) -> str:
    """Return the name of the repository in its manifest, else of its folder."""
    readmes = (file.title for path, file in files.files.items() if path.lower().startswith("readme") and file.title)
    manifests = (files.files.get(name) for name in ("pyproject.toml", "package.json", "Cargo.toml", "go.mod"))
    package = next((one.package for one in manifests if one and one.package), files.name)
    name = _VERSION.sub("", package).rpartition("/")[2]
    if name in _WORKSPACES:
        name = files.name.rpartition("/")[2]
    readme = next(readmes, "")  # which may have the same name with its usual capitalization
    return readme if readme.casefold() == name.casefold() else name or "Repository"


def page_slugs(keys: Iterable[str]) -> dict[str, str]:
    """Return a unique file name for the page of each key, of letters, digits and hyphens.

    It depends only on the key, unless another key would give the same name.
    """
    plain = {key: _slug(key) for key in sorted(set(keys))}
    groups: dict[str, list[str]] = defaultdict(list)
    for key, slug in plain.items():
        groups[slug].append(key)
    return {
        key: slug
        if len(groups[slug]) == 1 and slug not in _RESERVED and slug
        else f"{slug or 'page'}-{digest(key)[:6]}"
        for key, slug in plain.items()
    }


def _slug(key: str) -> str:
    bare = _SOURCE_FOLDERS.sub("", key) or key
    stem = splitext(bare)[0] if "." in bare.rpartition("/")[2] else bare
    slug = _SLUG.sub("-", stem.lower().replace("__", "")).strip("-_")
    return slug if len(slug) <= _SLUG_CHARS else f"{slug[:_SLUG_CHARS]}-{digest(key)[:6]}"
