"""The definitions of a file of code, with signatures and the first sentence of their docs.

They are read from the text of the source's segments, with the outline that also cuts files of code into segments.
"""

import re
from collections.abc import Collection, Iterator, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from itertools import takewhile

from treering.core.evidence import EvidenceRef, Lines, Segment, segment_hash
from treering.core.objects import Source
from treering.extensions.code.parsing.languages import comment_text, docstring_at
from treering.extensions.code.parsing.outline import CodeOutline, Symbol, outline
from treering.extensions.wiki.pages import LineCitation
from treering.extensions.wiki.repository.prose import Words, first_paragraph, first_sentence
from treering.extensions.wiki.repository.signatures import after_name

MOST_ENTRIES = 1_000
"""The maximum number of definitions per file."""
_DOC_CHARS = 200
_MAX_DOC_LINES = 50
_SPECIALIZATION = re.compile(r"^(?!.*\boperator\b).*[<>]")
"""Matches the name of a specialized template of C++, such as `Hash<Key>`."""
_SECONDARY = re.compile(r"@(?:[\w.]*\.)?overload|@\w+\.(?:setter|deleter)")
_PROPERTY = re.compile(r"@(?:[\w.]*\.)?(?:cached_|abstract)?property|@\w+\.getter")
_TYPE_VARIABLE = re.compile(r"=\s*(?:\w+\.)?(?:TypeVar|ParamSpec|TypeVarTuple)\(")
_FOR_TOOLS = re.compile(
    r"eslint-|@ts-|prettier-|biome-|istanbul|c8 ignore|noinspection|nolint|go:|rubocop:|clang-|\bvim?:|-\*-|flake8:"
    r"|(?:mypy|pyright|pylint|ruff|isort|yapf|fmt|type|shellcheck|cspell|tslint|jshint|deno-lint)"
    r"(?::|[ -](?:disable|ignore)\b)|^(?:TODO|FIXME|XXX)\b"
)


@dataclass(frozen=True, slots=True)
class ApiEntry:
    """A definition. `name` is qualified; `rest` is the signature after the name."""

    name: str
    kind: str
    rest: str
    doc: tuple[Words, ...]
    public: bool
    lines: LineCitation

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
    path: str

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

    def cite(self, first: int, last: int) -> LineCitation | None:
        """Return a citation of lines within one segment, or `None` if no segment contains the first."""
        for place, part in self.spans:
            if place.start <= first <= place.end:
                return self._citation(first, last, place, part)
        return None

    def cite_evidence(self, ref: EvidenceRef) -> LineCitation | None:
        """Return a citation of the lines of a reference, or `None` if its segment is not in the source."""
        for place, part in self.spans:
            if part.segment_id == ref.segment_id:
                first, last = ref.lines or (1, place.end - place.start + 1)
                return self._citation(place.start + first - 1, place.start + last - 1, place, part)
        return None

    def _citation(self, first: int, last: int, place: Lines, part: Segment) -> LineCitation:
        last = min(last, place.end)
        text_hash = part.hash
        if (first, last) != (place.start, place.end):
            text_hash = segment_hash("\n".join(self.lines[first : last + 1]), salt=self.source.salt)
        return LineCitation(self.path, first, last, place.commit, text_hash, self.source.id, part.segment_id)


def outline_of(text: SourceLines, path: str) -> CodeOutline | None:
    """Return the outline of a file of code; `None` if its language is unknown or it could not be parsed."""
    # A file without these values took too long when it was read, with limits. All others are safe to parse here.
    was_parsed = not text.source.metadata.keys().isdisjoint({"symbols", "summary"})
    return outline(path, "\n".join(text.lines[1:])) if was_parsed else None


def entries_of(text: SourceLines, outline: CodeOutline) -> tuple[ApiEntry, ...]:
    """Return the definitions of a file, in the order of their lines, at most `MOST_ENTRIES`."""
    entries: dict[str, ApiEntry] = {}
    secondary: dict[str, ApiEntry] = {}
    public = frozenset(outline.public)
    for name, symbol in _outside_namespaces(outline.symbols):
        if symbol.kind == "impl" or "]" in name or _SPECIALIZATION.search(name):
            continue
        decorators = _decorators(text.lines, symbol) if outline.language == "python" else []
        doc = _docstring(text.lines, symbol) if outline.language == "python" else symbol.doc
        if cited := text.cite(symbol.start, symbol.end):
            is_secondary = any(map(_SECONDARY.fullmatch, decorators))
            (secondary if is_secondary else entries).setdefault(
                name,
                ApiEntry(
                    name,
                    "property" if any(map(_PROPERTY.fullmatch, decorators)) else symbol.kind,
                    after_name(symbol.signature, symbol.name),
                    tuple(first_sentence(_for_readers(doc), _DOC_CHARS)),
                    _is_public(symbol, public),
                    cited,
                ),
            )
    merged = {**secondary, **entries}  # such as overloads in a protocol, without an implementation
    ordered = sorted(merged.values(), key=lambda one: one.lines.first_line)[:MOST_ENTRIES]
    return tuple(_public_with_owner({one.name: one for one in ordered}))


def module_doc(outline: CodeOutline) -> str:
    """Return the first paragraph of the docs of a file."""
    return first_paragraph(_for_readers(outline.module_doc))


def _outside_namespaces(symbols: Sequence[Symbol]) -> Iterator[tuple[str, Symbol]]:
    """Omit namespaces, which many files reopen, and name their members as if they were at the top level."""
    prefixes = list[str]()
    for symbol in symbols:
        name = symbol.qualified.replace("::", ".")
        if symbol.kind == "namespace":
            prefixes.insert(0, f"{name}.")  # an inner one precedes its outer one
        else:
            yield name.removeprefix(next((one for one in prefixes if name.startswith(one)), "")), symbol


def _is_public(symbol: Symbol, exported: Collection[str]) -> bool:
    # Functions that JavaScript assigns to the members of an object are not exported by themselves.
    is_assigned = symbol.parent is not None and symbol.signature.startswith(f"{symbol.parent}.")
    is_shown = symbol.qualified in exported or (is_assigned and not symbol.name.startswith("_"))
    return is_shown and not _TYPE_VARIABLE.search(symbol.signature)


def _docstring(lines: Sequence[str], symbol: Symbol) -> str:
    """Return the docstring of a definition of Python. Comments above it are for its authors."""
    comment = [*takewhile(lambda line: line.lstrip().startswith("#"), lines[symbol.start :])]
    if symbol.kind == "constant":
        below = "\n".join(lines[symbol.end + 1 : symbol.end + 1 + _MAX_DOC_LINES])
        return docstring_at(below.encode(), 0)
    return symbol.doc if symbol.doc != comment_text(comment) else ""


def _decorators(lines: Sequence[str], symbol: Symbol) -> list[str]:
    """Return the one-line decorators of a function of Python."""
    if not symbol.signature.startswith(("def ", "async def ")):
        return []
    above = takewhile(
        lambda line: not line.startswith(("def ", "async def ")),
        (line.strip().partition("#")[0].rstrip() for line in lines[symbol.start : symbol.end + 1]),
    )
    return [line for line in above if line.startswith("@")]


def _for_readers(doc: str) -> str:
    """Omit comments for tools, such as linters."""
    return "\n".join(line for line in doc.split("\n") if not _FOR_TOOLS.search(line)).strip()


def _public_with_owner(entries: dict[str, ApiEntry]) -> Iterator[ApiEntry]:
    """Mark the members of private definitions as private."""
    for entry in entries.values():
        owner = entries.get(entry.owner)
        hidden = owner is not None and not owner.public
        yield replace(entry, public=False) if hidden else entry


def assigned_at(text: SourceLines, name: str) -> LineCitation | None:
    """Return the top-level line that assigns a name, such as `session = LocalProxy(…)`."""
    sought = re.compile(
        rf"(?:(?:export|declare|const|let|var|type|static|pub)\s+)*{re.escape(name)}\s*(?::[^=].*|=(?!=).*)"
    )
    at = next((at for at, line in enumerate(text.lines) if sought.fullmatch(line)), None)
    return text.cite(at, at) if at else None
