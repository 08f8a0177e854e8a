"""Locate code: the role and root of a file, its neighbors, and the packages of a repository."""

import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from functools import lru_cache
from posixpath import dirname
from typing import Literal, get_args

from treering.core.evidence import Lines, Segment
from treering.core.objects import Source
from treering.ports.format import PROSE_SUFFIX
from treering.ports.ledger import ObjectRequest, ObjectsFound
from treering.ports.passages import PassageHead, PassagesFound
from treering.retrieval.index.code_names import CodeFile, code_file, module_name, package_name
from treering.retrieval.index.rounds import Steps

PlaceRole = Literal["code", "test", "example", "documentation", "changelog", "generated", "data", "prose"]
"""The role of a file in its project; `prose` for everything else: notes, turns of conversations, knowledge."""

PLACE_ROLES: tuple[PlaceRole, ...] = get_args(PlaceRole)
_REMEMBERED = 32_768  # paths; the map asks for each one three times, a context pack for some of them fifty times

NO_PLACE: PlaceRole = "prose"
CODE: PlaceRole = "code"


def role_of(source: Source) -> PlaceRole:
    """Return the role of a source in its project; `prose` if it is not a file."""
    path = _path_of(source)
    if not path:
        return NO_PLACE
    forms = () if source.content_type == "binary_stub" else (part.role for part in source.segments)
    form = next((form for form in forms if form != "data"), "data")  # a document may begin with front matter
    hint = source.metadata.get("generated") not in (None, "bulk data") or source.metadata.get("vendored") is True
    role = role_of_file(path, form, foreign=hint or (form == "prose" and _is_made_from_code(source)))
    return (
        "documentation" if role == CODE and source.kind == _PAGE else role
    )  # a page that was read as a document, not as markup


@lru_cache(maxsize=_REMEMBERED)
def role_of_file(path: str, form: str, *, foreign: bool = False) -> PlaceRole:
    """Return the role of a file by its path in its project.

    `form` is the role of its first segment that is not data (`core.evidence.Segment.role`). `foreign` files were
    generated or written in another project. Translations count as generated, too.
    """
    if foreign or _is_translation(path, form):
        return "generated"
    if form in ("prose", "data") and _CHANGELOG.search(path):
        return "changelog"
    if form == "prose" and _TEST_GUIDE.search(path):
        return "documentation"
    if _TEST.search(path) or (form != "prose" and _SPEC.search(path)):
        return "test"
    return _role_by_form(path, "code" if _CODE.search(path) else form)


def is_test_path(path: str) -> bool:
    """Return whether a code file is a test, by its path."""
    return role_of_file(path, "code") == "test"


def is_guide(path: str, role: str) -> bool:
    """Return whether a file explains the chores of a project: how to build, test, release or contribute.

    The guide of an example explains the example.
    """
    return role == "documentation" and _GUIDE.search(path) is not None and not _EXAMPLE.search(path)


def defines_commands(path: str, role: str) -> bool:
    """Return whether a file of a task runner, of packaging or of CI defines the commands and needs of a project."""
    return role in (CODE, "data") and _RUNNER.search(path) is not None


def _path_of(source: Source) -> str:
    """Return the path of a file in its project; empty if the source is not a file."""
    named = next((part.locator.path for part in source.segments if isinstance(part.locator, Lines)), "")
    is_file = source.kind in _FILE_KINDS or (source.kind == _PAGE and "://" not in source.origin)
    return named or (source.origin.partition("#")[2] if is_file else "")


def _is_made_from_code(source: Source) -> bool:
    """Return whether a document was generated from the code that it describes."""
    if source.kind == _PAGE and _JAVADOC.search(source.title):
        return True
    return any(_MADE_FROM_CODE.search(part.excerpt) for part in source.segments[:_FIRST_SEGMENTS])


def _is_translation(path: str, form: str) -> bool:
    return form in ("prose", "data") and _TRANSLATION.search(path) is not None


def _role_by_form(path: str, form: str) -> PlaceRole:
    if form == "prose":
        return "documentation"
    if _EXAMPLE.search(path):
        return "example"
    if form == "data":
        return "data"
    return CODE if _DOCUMENTS.isdisjoint(path.lower().split("/")[:-1]) else "documentation"


_DOCUMENTS = frozenset({"doc", "docs"})


_TEST = re.compile(
    r"(?:^|/)(?:tests?|__tests__|testdata|testcases|e2e|__mocks__|__snapshots__)/"
    r"|^testing/|(?:^|/)(?:test_[^/]*|conftest\.py)$|[._-](?:test|tests|spec)\.[^/]*$"
    r"|(?:Test|Tests|Spec)\.(?:java|kt|kts|cs|swift|scala|php|groovy)$|(?:^|/)src/test/"
)
_TEST_GUIDE = re.compile(r"(?:^|/)(?:tests?|e2e|testing)/(?:readme|contributing)[^/]*$", re.IGNORECASE)
"""Documents that explain the tests; deeper down, they are mostly what tests read."""
_GUIDE = re.compile(
    r"(?:^|/)(?:readme|contribut(?:e|ing)|hacking|develop(?:ment|ing|ers?)?|agents|claude|pull_request_template"
    r"|releas(?:e|es|ing)(?:[-_]process)?|publishing|build(?:ing)?|install(?:ing|ation)?|tests?|testing)(?:\.[a-z]+)?$"
    r"|(?:^|/)(?:contributing|releasing)/",
    re.IGNORECASE,
)
_RUNNER = re.compile(
    r"(?:^|/)(?:(?:gnu)?makefile|\.?justfile|taskfile\.ya?ml|tox\.ini|noxfile\.py|package\.json|composer\.json"
    r"|pyproject\.toml|setup\.cfg|cargo\.toml|go\.mod|pom\.xml)$"
    r"|(?:^|/)\.github/workflows/",
    re.IGNORECASE,
)
_SPEC = re.compile(r"(?:^|/)specs?/")
_EXAMPLE = re.compile(r"(?:^|/)(?:examples?|samples?|demos?|tutorials?|cookbook|snippets|docs_src)/", re.IGNORECASE)
_CHANGELOG = re.compile(
    r"(?:^|/)(?:changes|changelogs?|history|news|release[-_ ]?notes?|whats[-_]?new)(?:[-_.][^/]*)?$"
    r"|(?:^|/)(?:changes|changelogs?|\.?changesets?|news|newsfragments|releases|release[-_]notes|announce|whatsnew)/",
    re.IGNORECASE,
)
_LANGUAGES = "ar|bn|cs|da|de|el|es|fa|fi|fr|he|hi|hu|id|it|ja|ko|nl|no|pl|pt|ro|ru|sv|th|tr|uk|vi|zh"
_TRANSLATION = re.compile(
    rf"\.(?:po|pot|mo|xlf|arb)$|(?:^|/)(?:locales?|translations|i18n|l10n)/"
    rf"|[._-](?:{_LANGUAGES})(?:[-_][A-Za-z]{{2,4}})?{PROSE_SUFFIX}$"
    rf"|(?:^|/)docs?/(?:{_LANGUAGES})(?:[-_][A-Za-z]{{2,4}})?/"
)
_CODE = re.compile(  # code given inline, and markup, whose segments are prose
    r"\.(?:py|[cm]?[jt]sx?|go|rs|java|kt|rb|php|cs|c|h|cc|cpp|hpp|swift|scala|sh|html?|xhtml|tex|sty|cls|css)$",
    re.IGNORECASE,
)
_FILE_KINDS = frozenset({"file", "markdown", "document"})
_PAGE = "web"
_JAVADOC = re.compile(r" API\)$")
_MADE_FROM_CODE = re.compile(
    r"^Defined in: \[?[\w./-]+:\d+|^<!-- auto[- ]generated below|^\.\. automodule::"
    r"|\bgenerated (?:by|with|using) \W*(?:typedoc|jsdoc|javadoc|doxygen|gomarkdoc|dokka|yard|phpdocumentor)\b",
    re.IGNORECASE | re.MULTILINE,
)
_FIRST_SEGMENTS = 4

PUBLISHED = frozenset({"go", "js", "rs"})
"""Families that import a package by the name in its manifest."""

_ROOTS = frozenset({"", "/", "/src", "/lib", "/python", "/source"})
"""Folders that modules are usually named relative to."""
_MOST_MANIFESTS = 50
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


def place_of(head: PassageHead, family: str) -> CodePlace | None:
    """Return the place of a passage of a language family; `None` if the title of its source is not its path."""
    if not head.title or not head.origin.endswith(head.title):
        return None
    return CodePlace(CodeFile(family, head.title), head.origin.removesuffix(head.title), head)


def root_and_path(source: Source) -> tuple[str, str] | None:
    """Return the root of a file and its path in it; `None` if the source is not a file."""
    path = next((part.locator.path for part in source.segments if isinstance(part.locator, Lines)), "")
    return (source.origin.removesuffix(path), path) if path and source.origin.endswith(path) else None


def file_of(source: Source) -> tuple[CodeFile, str] | None:
    """Return the code file of a source, and its root; `None` if it is not code."""
    placed = root_and_path(source)
    file = code_file(str(source.metadata.get("language", "")), placed[1]) if placed else None
    return (file, placed[0]) if placed and file else None


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


@dataclass(frozen=True, slots=True)
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
        """Return the names with `@` of a module with a full path."""
        names = []
        for package, folder in self.folders.items():
            for entry in _ENTRIES:
                start = f"{folder}{entry}"
                if module == start or module.startswith(f"{start}/"):
                    names.append(f"@{package}{module.removeprefix(start)}".rstrip("/"))
        return list(dict.fromkeys(names))


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


_LONG_COMMENT = 6
_SHOWN_COMMENT_LINES = 2
_LINE_COMMENTS = {"py": "#", "rb": "#", "sh": "#"}
_BLOCK_FAMILIES = frozenset({"js", "go", "rs", "java", "c", "cs", "php"})
_DOCSTRING = re.compile(r"""[ \t]*[rRuU]?(\"{3}|'{3})""")


def shorten_comments(text: str, family: str) -> str:
    """Shorten each long comment or docstring to its first lines and the number of the others.

    A comment that begins or ends outside the text is not recognized and stays.
    """
    lines = text.split("\n")
    shown: list[str] = []
    at = 0
    while at < len(lines):
        end = _end_of_comment(lines, at, family)
        if end - at < _LONG_COMMENT:
            end = max(end, at + 1)
            shown += lines[at:end]
        else:
            indent = lines[at][: len(lines[at]) - len(lines[at].lstrip())]
            shown += [*lines[at : at + _SHOWN_COMMENT_LINES], f"{indent}… {end - at - _SHOWN_COMMENT_LINES} more lines"]
        at = end
    return "\n".join(shown)


def _end_of_comment(lines: Sequence[str], at: int, family: str) -> int:
    """Return the line after the comment that begins in a line, or the same line if none does."""
    first = lines[at].lstrip()
    if family in _BLOCK_FAMILIES and first.startswith("/*"):
        return next((end + 1 for end in range(at, len(lines)) if "*/" in lines[end]), at)
    if family == "py" and (opened := _DOCSTRING.match(lines[at])) and _begins_body(lines, at):
        quotes, rest = opened[1], lines[at][opened.end() :]
        closed = (end + 1 for end in range(at + 1, len(lines)) if quotes in lines[end])
        return at + 1 if quotes in rest else next(closed, at)
    mark = _LINE_COMMENTS.get(family, "//")
    end = at
    while end < len(lines) and lines[end].lstrip().startswith(mark):
        end += 1
    return end


def _begins_body(lines: Sequence[str], at: int) -> bool:
    """Return whether a line follows the signature of a function or class, so that it may begin a docstring."""
    before = next((line.rstrip() for line in reversed(lines[:at]) if line.strip()), "")
    return before.endswith(":")
