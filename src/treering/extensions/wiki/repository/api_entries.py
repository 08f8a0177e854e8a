"""The definitions of a file of code, with signatures and the first sentence of their docs.

They are read from the text of the source's segments, by rules for each family of languages.
"""

import re
from collections.abc import Collection, Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from functools import cached_property

from treering.core.evidence import Lines, Segment, segment_hash
from treering.core.objects import Source
from treering.extensions.wiki.repository.prose import Words, first_sentence
from treering.extensions.wiki.repository.signatures import (
    NAMESPACE,
    has_body_docs,
    is_public,
    kind_of,
    signature_at,
    word_at,
)
from treering.retrieval.index.code_names import names_in_heading

MOST_ENTRIES = 300
"""The maximum number of definitions per file."""
_DOC_CHARS = 200
_MAX_DOC_LINES = 400
"""The maximum number of lines of a comment or docstring."""
_SPECIALIZATION = re.compile(r"^(?!.*\boperator\b).*[<>]")
"""Matches the name of a specialized template of C++, such as `Hash<Key>`."""
_SECONDARY = re.compile(r"(?:[\w.]*\.)?overload|\w+\.(?:setter|deleter)")
_PROPERTY = re.compile(r"(?:[\w.]*\.)?(?:cached_|abstract)?property|\w+\.getter")
_HOLDER = re.compile(
    r"\b(?:class|interface|struct|enum|trait|impl|type|module|mod|namespace|def|func|fn|function|const|let|var)\s+$"
)
_DIRECTIVE = r"(?:include|if|ifdef|ifndef|elif|else|endif|define|undef|pragma|error|warning|import|using)\b"
_COMMENT = re.compile(rf"(?:/\*|\*|//|#(?!\[|!|{_DIRECTIVE})|--\s)")
"""Begins a comment; `#include` and other directives of C and C# are none."""
_FOR_TOOLS = re.compile(
    r"eslint-|@ts-|prettier-|biome-|istanbul|c8 ignore|noinspection|nolint|go:|rubocop:|clang-|\bvim?:|-\*-|flake8:"
    r"|(?:mypy|pyright|pylint|ruff|isort|yapf|fmt|type|shellcheck|cspell|tslint|jshint|deno-lint)"
    r"(?::|[ -](?:disable|ignore)\b)"
)
_IN_COMMENT = re.compile(r"//|\*|/\*|--|#(?!\s*(?:define|undef)\b)")
_INNER_DOC = re.compile(r"//!|/\*!")
_ABOUT_FILE = re.compile(r"@(?:module|file|fileoverview|packageDocumentation)\b")
_DEFINES = re.compile(
    r"(?:(?:export|default|declare|public|private|internal|static|final|abstract|async|pub(?:\([^)]*\))?)\s+)*"
    r"(?:class|interface|struct|enum|trait|impl|type|module|mod|namespace|def|func|fn|function|const|let|var|macro_rules)\b"
    r"|[\]}]"
)
"""The beginning of a definition: a comment directly above one is about it, not about the file."""
_BEFORE_DEFINITION = re.compile(r"\s*(?:@|#\[|export |template)")
_DECORATOR_ENDS = (")", "})", "])")
_MARKS = re.compile(r"^(?:/\*\*?!?|//[/!]?|\*(?!/)|#+|--)?[ \t]?")
_LICENCE = re.compile(
    r"\A(?:TODO|FIXME|XXX)\b|copyright|licen[cs]ed? (?:under|to)|SPDX-|all rights reserved|eslint-|prettier-|@ts-",
    re.IGNORECASE,
)
_EXPORTS = re.compile(r"\bexport\s+(?:type\s+)?\{([^{}]{1,4000})\}|\b(?:module\.)?exports(?:\.(\w+))?\s*=(?!=)")


@dataclass(frozen=True, slots=True)
class CitedSpan:
    """Cited lines of a file, the segment they begin in, and the hash of their text."""

    first: int
    last: int
    segment_id: str
    content_hash: str


@dataclass(frozen=True, slots=True)
class ApiEntry:
    """A definition. `name` is qualified; `rest` is the signature after the name."""

    name: str
    kind: str
    rest: str
    doc: tuple[Words, ...]
    public: bool
    lines: CitedSpan

    @property
    def owner(self) -> str:
        """The qualified name of the enclosing definition, or "" at the top level."""
        return self.name.rpartition(".")[0]

    @property
    def short(self) -> str:
        """The name without its owner."""
        return self.name.rpartition(".")[2]


@dataclass(frozen=True)
class SourceLines:
    """The lines of a source, read from its segments; lines outside of segments are empty."""

    source: Source

    @cached_property
    def spans(self) -> tuple[tuple[Lines, Segment], ...]:
        """The segments with line locators, in the order of the file."""
        found = ((part.locator, part) for part in self.source.segments if isinstance(part.locator, Lines))
        return tuple(sorted(found, key=lambda span: (span[0].start, span[0].end)))

    @cached_property
    def lines(self) -> Sequence[str]:
        """All lines, with an empty one at index 0, so that indexes are line numbers."""
        last = max((place.end for place, _ in self.spans), default=0)
        found = [""] * (last + 1)
        for place, part in self.spans:
            for at, line in enumerate(part.excerpt.split("\n")[: place.end - place.start + 1]):
                found[place.start + at] = line
        return found

    def cite(self, first: int, last: int) -> CitedSpan | None:
        """Return a citation of lines within one segment, or `None` if no segment contains the first."""
        for place, part in self.spans:
            if place.start <= first <= place.end:
                end = min(last, place.end)
                if (first, end) == (place.start, place.end):
                    return CitedSpan(first, end, part.segment_id, part.hash)
                text = "\n".join(self.lines[first : end + 1])
                return CitedSpan(first, end, part.segment_id, segment_hash(text, salt=self.source.salt))
        return None


def entries_of(text: SourceLines, family: str, path: str) -> tuple[ApiEntry, ...]:
    """Return the definitions of a file in a language of the family, in the order of their lines."""
    found: dict[str, ApiEntry] = {}
    secondary: dict[str, tuple[int, int]] = {}
    exported = _exported_elsewhere(text, family)
    for name, first, last in _definitions(text, path):
        if name in found or "]" in name or _SPECIALIZATION.search(name):  # such as `[Symbol.iterator]`
            continue
        if _is_secondary(text.lines, name, first, last, family):
            secondary.setdefault(name, (first, last))
        elif entry := _entry(text, family, name, first, last):
            found[name] = replace(entry, public=entry.public or name in exported)
        if len(found) == MOST_ENTRIES:
            break
    for name, place in secondary.items():  # such as overloads in a protocol, without an implementation
        if name not in found and len(found) < MOST_ENTRIES and (entry := _entry(text, family, name, *place)):
            found[name] = entry
    ordered = sorted(found.items(), key=lambda one: one[1].lines.first)
    return tuple(_outside_namespaces(_public_with_owner(dict(ordered))))


def _is_secondary(lines: Sequence[str], name: str, first: int, last: int, family: str) -> bool:
    """Return whether a definition is an overload, or the setter or deleter of a property."""
    at = _line_of(lines, name.rpartition(".")[2], first, last) if family == "py" else None
    return at is not None and any(map(_SECONDARY.fullmatch, decorators_above(lines, at)))


def _public_with_owner(found: dict[str, ApiEntry]) -> Iterator[ApiEntry]:
    """Mark the members of private definitions as private."""
    for entry in found.values():
        owner = found.get(entry.owner)
        hidden = owner is not None and not owner.public
        yield replace(entry, public=False) if hidden else entry


def _outside_namespaces(entries: Iterable[ApiEntry]) -> Iterator[ApiEntry]:
    """Omit namespaces, which many files reopen, and name their members as if they were at the top level."""
    prefixes = list[str]()
    for entry in entries:
        name = entry.name.removeprefix(next((one for one in prefixes if entry.name.startswith(one)), ""))
        if entry.kind == NAMESPACE:
            prefixes.insert(0, f"{entry.name}.")  # an inner one precedes its outer one
        else:
            is_function = entry.kind == "method" and "." not in name
            yield replace(entry, name=name, kind="function" if is_function else entry.kind)


def _definitions(text: SourceLines, path: str) -> Iterator[tuple[str, int, int]]:
    for place, part in text.spans:
        if part.definitions:
            inside = [(one.name.replace("::", "."), one) for one in part.definitions]
            named = {name for name, _ in inside}
            for name in (*names_in_heading(part.heading, path), *_stated_owners(text.lines, named, place)):
                if name not in named and name.partition("(")[0]:
                    yield name, *_around(text.lines, name, place, part)
            for name, one in inside:
                yield name, place.start + one.first - 1, place.start + one.last - 1
        elif part.role in ("symbol", "code"):
            for name in names_in_heading(part.heading, path)[:1]:
                yield name, place.start, place.end


def _stated_owners(lines: Sequence[str], names: Collection[str], place: Lines) -> Iterator[str]:
    """Yield the owners of definitions that are in the same lines, such as a class in a namespace."""
    for owner in sorted({name.rpartition(".")[0] for name in names} - {""}):
        short = owner.rpartition(".")[2]
        at = _line_of(lines, short, place.start, place.end)
        if at is not None and _HOLDER.search(lines[at], 0, word_at(lines[at], short)):
            yield owner


def _around(lines: Sequence[str], name: str, place: Lines, part: Segment) -> tuple[int, int]:
    """Return the lines of the parent of definitions in a segment: from its name to its last member."""
    members = [one.last for one in part.definitions if one.name.replace("::", ".").startswith(f"{name}.")]
    last = place.start + max(members) - 1 if members else place.end
    return _line_of(lines, name.rpartition(".")[2], place.start, last) or place.start, last


def _entry(text: SourceLines, family: str, name: str, first: int, last: int) -> ApiEntry | None:
    short = name.rpartition(".")[2]
    at = _line_of(text.lines, short, first, last)
    cited = text.cite(first, last)
    if at is None or cited is None:
        return None
    signature = signature_at(text.lines, at, short, family)
    line = text.lines[at]
    doc = _doc(text.lines, at, signature.end, family)
    kind = kind_of(short, line, family, member="." in name)
    if family == "py" and any(_PROPERTY.fullmatch(one) for one in decorators_above(text.lines, at)):
        kind = "property"
    public = is_public(short, line, family, member="." in name)
    return ApiEntry(name, kind, signature.rest, tuple(first_sentence(doc, _DOC_CHARS)), public, cited)


def _line_of(lines: Sequence[str], name: str, first: int, last: int) -> int | None:
    """Return the line that defines a name, after its comments and decorators; `None` if only comments contain it."""
    places = [at for at in range(first, min(last, len(lines) - 1) + 1) if word_at(lines[at], name) >= 0]
    candidates = [
        at for at in places if not _IN_COMMENT.match(bare := lines[at].lstrip()) or bare.startswith(f"#{name}")
    ]

    def rank(at: int) -> tuple[bool, bool]:
        is_aside = lines[at].lstrip().startswith(("@", '"', "'"))
        return _HOLDER.search(lines[at], 0, word_at(lines[at], name)) is None, is_aside

    return min(candidates, key=rank, default=None)


def _doc(lines: Sequence[str], at: int, end: int, family: str) -> str:
    """Return the docstring of a definition, or the comment directly above it."""
    return docstring_below(lines, end + 1) if has_body_docs(family) else comment_above(lines, at)


def docstring_below(lines: Sequence[str], at: int) -> str:
    """Return the string literal at a line, or at the next line that is not empty."""
    while at < len(lines) and not lines[at].strip():
        at += 1
    if at >= len(lines):
        return ""
    opened = re.match(r"\s*[rRuU]{0,2}(\"\"\"|'''|\"|')(.*)", lines[at])
    if not opened:
        return ""
    quote, content = opened[1], [opened[2]]
    while quote not in content[-1] and len(quote) == 3 and at + 1 < len(lines) and len(content) < _MAX_DOC_LINES:
        at += 1
        content.append(lines[at].strip())
    return "\n".join(content).partition(quote)[0]


def comment_above(lines: Sequence[str], at: int) -> str:
    """Return the comment above a line and its decorators, without comment markers."""
    row = at - 1
    while row > 0 and (first := _decorator_start(lines, row)):
        row = first - 1
    last, is_block = row, lines[row].strip().endswith("*/")
    while row > 0 and last - row < _MAX_DOC_LINES:
        bare = lines[row].strip()
        if is_block and bare.startswith("/*"):
            return _comment_text(lines[row : last + 1])
        if not _COMMENT.match(bare) if not is_block else bare.endswith("*/") and row < last:
            break
        row -= 1
    return "" if is_block else _comment_text(lines[row + 1 : last + 1])


def _decorator_start(lines: Sequence[str], row: int) -> int:
    """Return the first line of the decorator or attribute that ends at a line, or 0 if none does."""
    if lines[row].strip() in _DECORATOR_ENDS:
        indent = lines[row][: -len(lines[row].lstrip())]
        above = range(row - 1, max(0, row - _MAX_DOC_LINES), -1)
        row = next((at for at in above if re.match(rf"{indent}\S", lines[at])), 0)
    return row if _BEFORE_DEFINITION.match(lines[row]) else 0


def assigned_at(text: SourceLines, name: str) -> CitedSpan | None:
    """Return the top-level line that assigns a name, such as `session = LocalProxy(…)`."""
    sought = re.compile(
        rf"(?:(?:export|declare|const|let|var|type|static|pub)\s+)*{re.escape(name)}\s*(?::[^=].*|=(?!=).*)"
    )
    at = next((at for at, line in enumerate(text.lines) if sought.fullmatch(line)), None)
    return text.cite(at, at) if at else None


def decorators_above(lines: Sequence[str], at: int) -> list[str]:
    """Return the one-line decorators directly above a line, without `@`."""
    decorators = list[str]()
    while at > 1 and (bare := lines[at - 1].strip()).startswith("@"):
        decorators.append(bare[1:].partition("#")[0].strip())
        at -= 1
    return decorators


def comment_at_top(lines: Sequence[str], family: str) -> str:
    """Return the docstring or comment at the top of a file, but no licence and no comment on a definition."""
    at = 1
    while at < len(lines) and (not lines[at].strip() or lines[at].startswith(("#!", "# -*-", "'use", '"use', "<?php"))):
        at += 1
    comment, at = _first_comment(lines, at)
    return docstring_below(lines, at) if has_body_docs(family) and not comment else comment


def _first_comment(lines: Sequence[str], at: int) -> tuple[str, int]:
    """Return the first comment from a line on that is about the file, or "", and the line after it."""
    while at < len(lines) and _COMMENT.match(lines[at].strip()):
        first, at = at, _comment_end(lines, at)
        text = _comment_text(lines[first:at])
        follows = next((bare for line in lines[at:] if not (bare := line.strip()).startswith(("@", "#["))), "")
        is_on_file = _INNER_DOC.match(lines[first].strip()) or _ABOUT_FILE.search(text) or not _DEFINES.match(follows)
        if text and is_on_file and not _LICENCE.search(text):
            return text, at
        while at < len(lines) and not lines[at].strip():
            at += 1
    return "", at


def _comment_end(lines: Sequence[str], at: int) -> int:
    """Return the line after a comment: after the closing mark, or after the last line with a comment mark."""
    if lines[at].strip().startswith("/*"):
        end = next((row for row in range(at, len(lines)) if lines[row].rstrip().endswith("*/")), len(lines) - 1)
        return end + 1 if "*/" not in lines[at] else at + 1
    while at < len(lines) and _COMMENT.match(lines[at].strip()) and not lines[at].strip().startswith("/*"):
        at += 1
    return at


def _comment_text(comment: Sequence[str]) -> str:
    return "\n".join(_without_marks(line.strip()) for line in comment if not _FOR_TOOLS.search(line)).strip()


def _without_marks(line: str) -> str:
    return re.sub(r"\s*\*+/$", "", _MARKS.sub("", line, count=1)).rstrip()


def _exported_elsewhere(text: SourceLines, family: str) -> frozenset[str]:
    """Return the names in the export statements of a JavaScript file."""
    if family != "js":
        return frozenset()
    names: set[str] = set()
    for match in _EXPORTS.finditer("\n".join(text.lines)):
        listed = (one.strip().split(" as ")[0].strip() for one in (match[1] or "").split(","))
        names |= {one.removeprefix("type ").strip() for one in listed if one} | {match[2] or ""}
    return frozenset(names - {""})
