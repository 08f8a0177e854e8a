"""What a file is for in its project, told by its path and its form: code, or a test, an example, documentation, ….

A question about behaviour is answered by code; its tests, its changelog and translations repeat the words.
"""

import math
import re
from collections.abc import Mapping
from functools import lru_cache
from pathlib import PurePosixPath
from typing import Literal, get_args

from treering.core.locator import Lines
from treering.core.objects import Source

PlaceRole = Literal["code", "test", "example", "documentation", "changelog", "generated", "data", "prose"]
"""`prose` is what is not a file of a project: a note, a turn of a conversation, knowledge."""

PLACE_ROLES: tuple[PlaceRole, ...] = get_args(PlaceRole)
_REMEMBERED = 8_192  # paths of files: one context pack asks for some of them fifty times over

NO_PLACE: PlaceRole = "prose"
CODE: PlaceRole = "code"

ROLE_WEIGHTS: Mapping[str, float] = {
    "test": 0.5,
    "example": 0.5,
    "documentation": 0.5,
    "data": 0.4,
    "changelog": 0.3,
    "generated": 0.3,
}
"""What a passage of a place counts for beside code, where a question does not ask for its role; others count fully."""


def role_of(source: Source) -> PlaceRole:
    """Return the role of a source in its project; `prose` where it is not a file."""
    path = _path_of(source)
    if not path:
        return NO_PLACE
    form = "data" if source.content_type == "binary_stub" else next((part.role for part in source.segments), "data")
    hint = source.metadata.get("generated") not in (None, "bulk data") or source.metadata.get("vendored") is True
    return role_of_file(path, form, foreign=hint)


@lru_cache(maxsize=_REMEMBERED)
def role_of_file(path: str, form: str, *, foreign: bool = False) -> PlaceRole:
    """Return the role of a file by its path in its project.

    `form` is that of its first segment (`core.evidence.Segment.role`). `foreign`: it was generated, or written in
    another project. Translations count as generated, too.
    """
    if foreign or _is_translation(path, form):
        return "generated"
    if form in ("prose", "data") and _CHANGELOG.search(path):
        return "changelog"
    if _TEST.search(path) or (form != "prose" and _SPEC.search(path)):
        return "test"
    return _role_by_form(path, "code" if _CODE.search(path) else form)


def is_test_path(path: str) -> bool:
    """Tell by the path of a file of code in its project whether it is of a test."""
    return role_of_file(path, "code") == "test"


def role_weights(asked: str) -> Mapping[str, float]:
    """Return what a passage of each role counts for, for a question or its title; roles that it asks for count more.

    A role that is only mentioned counts the root of its weight: who reports a bug of a test runner speaks of tests.
    """
    weights = dict(ROLE_WEIGHTS)
    for role, mention in _MENTIONED.items():
        if mention.search(asked):
            weights[role] = math.sqrt(weights[role])
    for role, wish in _ASKED.items():
        if wish.search(asked):
            weights[role] = 1.0
    return weights


def _path_of(source: Source) -> str:
    """Return the path of a file in its project; empty for what is not a file."""
    named = next((part.locator.path for part in source.segments if isinstance(part.locator, Lines)), "")
    return named or (source.origin.partition("#")[2] if source.kind in _FILE_KINDS else "")


def _is_translation(path: str, form: str) -> bool:
    return form in ("prose", "data") and _TRANSLATION.search(path) is not None


def _role_by_form(path: str, form: str) -> PlaceRole:
    if form == "prose":
        return "documentation"
    if _EXAMPLE.search(path):
        return "example"
    if form == "data":
        return "data"
    documents = any(part.lower() in ("doc", "docs") for part in PurePosixPath(path).parts[:-1])
    return "documentation" if documents else CODE


_TEST = re.compile(
    r"(?:^|/)(?:tests?|__tests__|testdata|testcases|e2e|__mocks__|__snapshots__)/"
    r"|^testing/|(?:^|/)(?:test_[^/]*|conftest\.py)$|[._-](?:test|tests|spec)\.[^/]*$"
    r"|(?:Test|Tests|Spec)\.(?:java|kt|kts|cs|swift|scala|php|groovy)$|(?:^|/)src/test/"
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
    rf"|[._-](?:{_LANGUAGES})(?:[-_][A-Za-z]{{2,4}})?\.(?:md|rst|txt|adoc|mdx)$"
    rf"|(?:^|/)docs?/(?:{_LANGUAGES})(?:[-_][A-Za-z]{{2,4}})?/"
)
_CODE = re.compile(  # what a text that was given inline is, and markup, which is read as prose
    r"\.(?:py|[cm]?[jt]sx?|go|rs|java|kt|rb|php|cs|c|h|cc|cpp|hpp|swift|scala|sh|html?|xhtml|tex|sty|cls|css)$",
    re.IGNORECASE,
)
_FILE_KINDS = frozenset({"file", "markdown", "document"})

_MENTIONED: Mapping[str, re.Pattern[str]] = {
    "test": re.compile(r"\b(?:tests?|testing|specs?|coverage)\b|\btest_|\bTest[A-Z]", re.IGNORECASE),
    "example": re.compile(r"\b(?:examples?|samples?|demos?|tutorials?)\b", re.IGNORECASE),
    "documentation": re.compile(r"\b(?:docs?|documented|documentation|readme|guides?|manual)\b", re.IGNORECASE),
}
_ASKED: Mapping[str, re.Pattern[str]] = {
    "test": re.compile(
        r"\b(?:which|what) tests?\b|\btests? (?:for|of|that|whether|covers?|covering)\b|\bis \w+ tested\b",
        re.IGNORECASE,
    ),
    "example": re.compile(r"\b(?:show|find|give|is there|are there)\b.{0,40}\bexamples?\b", re.IGNORECASE),
    "documentation": re.compile(r"\b(?:in|from) the (?:docs?|documentation|readme|manual|guide)\b", re.IGNORECASE),
    "changelog": re.compile(r"\b(?:change ?logs?|release notes?|what(?:'s| is) new|what changed)\b", re.IGNORECASE),
    "generated": re.compile(r"\b(?:translat(?:ed|ions?)|lock ?files?|generated (?:files?|code))\b", re.IGNORECASE),
    "data": re.compile(
        r"\b(?:config(?:uration)? files?|manifests?|fixtures?|data ?sets?|ya?ml|toml|json)\b", re.IGNORECASE
    ),
}
