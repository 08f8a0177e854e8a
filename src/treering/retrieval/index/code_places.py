"""Locate files: their roles in a project, and the roots and languages of files of code."""

import re
from collections.abc import Sequence
from functools import lru_cache
from typing import Literal, get_args

from treering.core.evidence import Lines
from treering.core.objects import Source
from treering.ports.format import PROSE_SUFFIX
from treering.retrieval.index.code_names import CodeFile, code_file

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
    path = _PACKAGE.sub(r"\1", path)
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
    return CODE if DOCUMENT_FOLDERS.isdisjoint(path.lower().split("/")[:-1]) else "documentation"


DOCUMENT_FOLDERS = frozenset({"doc", "docs"})
"""Folders whose code belongs to documents, such as the configuration of a site builder."""


_PACKAGE = re.compile(r"((?:^|/)src/main/(?:groovy|java|kotlin|scala)/)(?:[^/]+/)+")
"""A source root, and the folders of a package below it, whose names do not decide the role of a file."""
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


def root_and_path(source: Source) -> tuple[str, str] | None:
    """Return the root of a file and its path in it; `None` if the source is not a file."""
    path = next((part.locator.path for part in source.segments if isinstance(part.locator, Lines)), "")
    return (source.origin.removesuffix(path), path) if path and source.origin.endswith(path) else None


def file_of(source: Source) -> tuple[CodeFile, str] | None:
    """Return the code file of a source, and its root; `None` if it is not code."""
    placed = root_and_path(source)
    file = code_file(str(source.metadata.get("language", "")), placed[1]) if placed else None
    return (file, placed[0]) if placed and file else None


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
