"""The outline of a source file: its symbols with signatures and docs, its imports, its public names.

Lines are 1-based and inclusive. Positions inside the parser are UTF-8 bytes and 0-based rows.
"""

import json
import re
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from typing import Any

from tree_sitter import Node, Parser, QueryCursor, Tree

from treering.extensions.code.parsing import languages
from treering.extensions.code.parsing.imports import ImportedName, imported_names
from treering.extensions.code.parsing.languages import CodeLanguage, Parsing, code_in, language_of, parsing_of
from treering.extensions.code.parsing.uses import Defined, Use, code_uses
from treering.sources.reading.bounded_process import BoundedProcess, answer_questions, cpu_limited, is_expendable

LONGEST_LINE = 5_000
"""Characters. A file with a longer line is generated or minified and has no outline."""

LONGEST_TEXT = 500_000
"""Characters. Error recovery may take quadratic time, so larger files are split as plain text."""

MEMBERED = frozenset({"class", "interface", "struct", "enum", "trait", "impl"})
ROOMS = frozenset({"module", "namespace"})

_KINDS = MEMBERED | ROOMS | {"function", "macro", "type", "constant"}
_HOLDS_NOTHING = frozenset({"function", "method", "macro", "type"})
_DEEPEST = 16
_DEEPEST_NODE = 10
"""Levels of the syntax tree searched, enough for methods of classes in namespaces in conditionals."""
_CHUNK = 1 << 15
"""Bytes passed to the parser at a time. The query's predicates also read in chunks, so it is not the whole file."""
_STEPS_AT_LEAST = 300
_STEPS_PER_BYTE = 0.05
"""Three times the maximum of real files."""
_SIGNATURE_CHARS = 1_000
_LONGEST_STATEMENT = 4_000
_MOST_STRAY_SIGNS = 2_000
_EXPORTS_PREFIX = re.compile(r"^(?:module\.)?exports\.|\.prototype(?=\.)")
_QUOTED_NAME = re.compile(r"[\"'](\w+)[\"']")
_COMMENT = re.compile(r"[ \t]#[^\n\"']*$", re.MULTILINE)
_TRAILING_COMMENT = re.compile(r":\s*#.*", re.DOTALL)
_KEYWORDS_BEFORE = re.compile(rb"(?<![\w.])[a-z][a-z \t]*\Z")


@dataclass(frozen=True, slots=True)
class Symbol:
    """A definition. `start..end` covers its doc comment and decorators; `parent` is a qualified name.

    Kinds: function method class interface struct enum trait impl type module namespace macro constant.
    """

    name: str
    qualified: str
    kind: str
    start: int
    end: int
    signature: str
    doc: str
    parent: str | None


@dataclass(frozen=True, slots=True)
class CodeOutline:
    """The definitions of a file in order. `public`: qualified names meant for its users."""

    language: str
    symbols: tuple[Symbol, ...]
    imports: tuple[str, ...]
    module_doc: str
    public: tuple[str, ...]
    uses: tuple[Use, ...] = ()
    """Imports, calls and other uses (`retrieval.index.code_names`), in the order of lines."""


def outline(path: str, text: str) -> CodeOutline | None:
    """Outline a file. `None` if it is not in a known language, or minified or noise.

    Never raises on broken code: the recognizable parts are outlined.
    """
    language = language_of(path, text)
    return _outline_in(language, code_in(path, text)) if language else None


def _outline_in(language: CodeLanguage, text: str) -> CodeOutline | None:
    lines = text.split("\n")
    if len(text) > LONGEST_TEXT or max(map(len, lines)) > LONGEST_LINE:
        return None
    page, parsing = _Page(language, text.encode("utf-8", "replace"), lines), parsing_of(language)
    tree = _parse(page, parsing)
    if tree is None or _is_noise(tree.root_node):
        return None
    return _read(page, tree.root_node, parsing)


@dataclass(frozen=True, slots=True)
class _Page:
    language: CodeLanguage
    data: bytes
    lines: Sequence[str]

    def text(self, node: Node) -> str:
        return self.data[node.start_byte : node.end_byte].decode("utf-8", "replace")


@dataclass(slots=True)
class _Patience:
    steps: int
    over: bool = False

    def is_over(self, _offset: int, _in_error: bool) -> bool:
        self.steps -= 1
        self.over = self.steps < 0
        return self.over


@dataclass(frozen=True, slots=True)
class _Definition:
    start: int
    end: int
    pattern: int
    kind: str
    name: str
    node: Node
    holder: Node
    owner: str

    @property
    def order(self) -> tuple[int, int, int]:
        return self.start, -self.end, self.pattern


@dataclass(frozen=True, slots=True)
class _Open:
    """A definition whose end was not reached yet."""

    end: int
    symbol: Symbol
    public: bool


def _parse(page: _Page, parsing: Parsing) -> Tree | None:
    """Parse, or give up: on noise, error recovery of the grammars may take minutes instead of milliseconds.

    Steps are counted, so that the result for a file is the same on every machine. Inputs with slow single steps, which
    no real file has shown, are stopped by ending the process (`OutlineProcess`).
    """
    steps = _STEPS_AT_LEAST + int(len(page.data) * _STEPS_PER_BYTE)
    patience = _Patience(steps)
    # Parsers and cursors have state, so each file gets its own; files may be read in several threads.
    parser = Parser(parsing.grammar)
    try:
        return parser.parse(
            lambda offset, _: page.data[offset : offset + _CHUNK], encoding="utf8", progress_callback=patience.is_over
        )
    except ValueError:
        if not patience.over:
            raise
        return None


def _is_noise(root: Node) -> bool:
    """Return whether very many tokens that no grammar accepts follow each other.

    Searching for definitions would take quadratic time, and cannot be stopped.
    """
    broken = [root]
    while broken:
        node = broken.pop()
        if node.is_error and node.child_count - node.named_child_count > _MOST_STRAY_SIGNS:
            return True
        broken += [child for child in node.children if child.has_error]
    return False


def _read(page: _Page, root: Node, parsing: Parsing) -> CodeOutline:
    cursor = QueryCursor(parsing.query)
    cursor.set_max_start_depth(_DEEPEST_NODE)
    definitions: list[_Definition] = []
    imports: dict[str, None] = {}
    exports: set[str] = set()
    statements: dict[int, Node] = {}
    for pattern, captures in cursor.matches(root):
        for node in captures.get("statement", ()):
            statements[node.start_byte] = node
        if "name" in captures:
            definitions += _definition(page, pattern, captures)
        elif "import" in captures:
            imports[page.text(captures["import"][0]).strip("\"'<>")[:200]] = None
        elif "export" in captures:
            exports.update(_exported(page, captures))
    symbols, public = _symbols(page, _in_order(definitions), exports)
    doc = _module_doc(page, symbols)
    uses = code_uses(page.language.name, page.data, root, _imported(page, statements.values()), _defined(page, symbols))
    return CodeOutline(page.language.name, tuple(symbols), tuple(imports), doc, tuple(dict.fromkeys(public)), uses)


def _imported(page: _Page, statements: Iterable[Node]) -> list[tuple[int, int, ImportedName]]:
    """Read import statements; each with its first and last line, from 1."""
    names = []
    for node in statements:
        end_row, end_column = node.end_point
        first, last = node.start_point[0] + 1, end_row + (end_column > 0)
        # The name to which a call of `require` is assigned precedes it on its line.
        start = page.data.rfind(b"\n", 0, node.start_byte) + 1 if node.type == "call_expression" else node.start_byte
        text = page.data[start : min(node.end_byte, start + _LONGEST_STATEMENT)].decode("utf-8", "replace")
        names += [(first, last, one) for one in imported_names(page.language.name, text)]
    return names


def _defined(page: _Page, symbols: Sequence[Symbol]) -> list[Defined]:
    separator = page.language.separator
    return [
        Defined(one.qualified.replace(separator, "."), (one.parent or "").replace(separator, "."), one.start, one.end)
        for one in symbols
        if one.kind != "constant" or one.parent is None
    ]


def _exported(page: _Page, captures: dict[str, list[Node]]) -> Iterable[str]:
    """Return exported names: the captured one, or the strings in the list `__all__`."""
    text = page.text(captures["export"][0])
    if "list" not in captures:
        return (text,)
    return _QUOTED_NAME.findall(text) if page.text(captures["list"][0]) == "__all__" else ()


def _definition(page: _Page, pattern: int, captures: dict[str, list[Node]]) -> Iterable[_Definition]:
    kind = next(kind for kind in captures if kind in _KINDS)
    node, name = captures[kind][0], page.text(captures["name"][0]).strip("\"'")
    if kind == "impl":
        name = name.split("<")[0]
    if not name or len(name) > 200 or "\n" in name or name.startswith("("):
        return ()
    if kind == "constant" and page.language.constants == "upper" and not name.isupper():
        return ()
    owner = page.text(captures["owner"][0]) if "owner" in captures else ""
    holder = captures["holder"][0] if "holder" in captures else node
    return (_Definition(node.start_byte, node.end_byte, pattern, kind, name, node, holder, owner),)


def _in_order(definitions: list[_Definition]) -> Iterable[_Definition]:
    """Sort by position, outer first; if several patterns match a definition, the first one counts."""
    seen = set()
    for definition in sorted(definitions, key=lambda one: one.order):
        key = (definition.start, definition.end, definition.name)
        if key not in seen:
            seen.add(key)
            yield definition


def _symbols(page: _Page, definitions: Iterable[_Definition], exports: set[str]) -> tuple[list[Symbol], list[str]]:
    symbols: list[Symbol] = []
    public: list[str] = []
    opened: list[_Open] = []
    for definition in definitions:
        while opened and opened[-1].end <= definition.start:
            opened.pop()
        if _is_local(definition, opened):
            continue
        within = opened[-1] if opened else None
        symbol = _symbol(page, definition, within.symbol if within else None)
        shown = _is_public(page.language, symbol, within, exports)
        opened.append(_Open(definition.end, symbol, shown))
        symbols.append(symbol)
        if shown and symbol.kind != "impl":
            public.append(symbol.qualified)
    return symbols, public


def _is_local(definition: _Definition, opened: list[_Open]) -> bool:
    """Return whether a definition cannot be referred to: inside a body, too deep, or a typedef's own struct."""
    if not opened:
        return False
    within = opened[-1].symbol
    repeated = (
        definition.kind in ("struct", "enum") and within.kind == definition.kind and within.name == definition.name
    )
    return within.kind in _HOLDS_NOTHING or repeated or len(opened) >= _DEEPEST


def _symbol(page: _Page, definition: _Definition, within: Symbol | None) -> Symbol:
    language = page.language
    full = _EXPORTS_PREFIX.sub("", definition.name)
    prefix, _, name = full.rpartition(language.separator)
    parent = language.separator.join(filter(None, (within.qualified if within else "", definition.owner, prefix)))
    is_member = bool(definition.owner) or (within is not None and within.kind in MEMBERED)
    outer = _outermost(definition.node, language)
    row = outer.start_point[0]
    start = languages.lead_row(page.lines, row, language)
    end_row, end_column = outer.end_point
    return Symbol(
        name=name or full,
        qualified=f"{parent}{language.separator}{name or full}" if parent else full,
        kind="method" if is_member and definition.kind == "function" else definition.kind,
        start=start + 1,
        end=max(end_row + (end_column > 0), row + 1),
        signature=_signature(page, definition),
        doc=_doc(page, definition, start, row),
        parent=parent or None,
    )


def _outermost(node: Node, language: CodeLanguage) -> Node:
    if not language.wrappers:
        return node
    while (parent := node.parent) is not None and parent.type in language.wrappers:
        node = parent
    return node


def _signature(page: _Page, definition: _Definition) -> str:
    data, node = page.data, definition.node
    start = node.start_byte
    # Keywords before the node (`export`, `type`) are part of the signature.
    before = _KEYWORDS_BEFORE.search(data[max(start - 40, 0) : start])
    start -= len(before[0]) if before else 0
    raw = data[start : min(_signature_end(page, definition), start + 2 * _SIGNATURE_CHARS)].decode("utf-8", "ignore")
    if page.language.docstrings:
        raw = _TRAILING_COMMENT.sub("", _COMMENT.sub("", raw))
    words = " ".join(raw.split())
    for end in ("{", ":", "=>", ";"):
        words = words.removesuffix(end).rstrip()
    return words[:_SIGNATURE_CHARS]


def _signature_end(page: _Page, definition: _Definition) -> int:
    start, end = definition.start, definition.end
    if definition.kind == "constant":
        line_end = page.data.find(b"\n", start)
        return end if line_end < 0 else min(line_end, end)
    body = definition.holder.child_by_field_name("body")
    if body is not None:
        return body.start_byte
    brace = page.data.find(b"{", start, end)
    return end if brace < 0 else brace


def _doc(page: _Page, definition: _Definition, start: int, row: int) -> str:
    if page.language.docstrings and definition.kind != "constant":
        body = definition.node.child_by_field_name("body")
        doc = languages.docstring_at(page.data, body.start_byte) if body is not None else ""
        if doc:
            return doc
    return languages.comment_text(page.lines[start:row])


def _is_public(language: CodeLanguage, symbol: Symbol, within: _Open | None, exports: set[str]) -> bool:
    shows = language.shows(symbol.name, symbol.signature)
    if within is None:
        only_listed = language.exports_decide and exports and symbol.parent is None
        return symbol.qualified in exports or symbol.kind == "impl" or (shows and not only_listed)
    if within.symbol.kind in ("interface", "trait") or within.symbol.kind in ROOMS or not language.shows_member:
        return within.public and (shows or within.symbol.kind in ("interface", "trait"))
    return within.public and language.shows_member(symbol.name, symbol.signature)


def _module_doc(page: _Page, symbols: Sequence[Symbol]) -> str:
    doc = languages.module_docstring(page.data) if page.language.docstrings else ""
    taken = frozenset(symbol.start - 1 for symbol in symbols if symbol.doc)
    return doc or languages.module_comment(page.lines, page.language, taken)


SMALL_TEXT = 10_000
"""Characters. The slowest known files of this size take under half a second, so they are parsed without the child."""

_CRASHING = frozenset({"bash"})
"""Languages that are always parsed in the child: their grammar ends the process for some texts of random characters."""

_CPU_SECONDS = 1
_CPU_SECONDS_PER_CHAR = 1e-5


@dataclass(frozen=True, slots=True)
class OutlineStopped:
    """The reason why a file was not outlined."""

    why: str


@dataclass(frozen=True, slots=True)
class OutlineProcess:
    """Outlines files in a child process, started on first use, or in this one if it is expendable. Thread-safe."""

    _process: BoundedProcess = field(default_factory=lambda: BoundedProcess(__name__))

    def outline(self, path: str, text: str) -> CodeOutline | OutlineStopped | None:
        """Return the result of `outline`, or why the child was stopped."""
        language = language_of(path, text)
        if language is None:
            return None
        if len(text) <= SMALL_TEXT and language.name not in _CRASHING:
            return _outline_in(language, code_in(path, text))
        seconds = _CPU_SECONDS + int(len(text) * _CPU_SECONDS_PER_CHAR)
        if is_expendable():
            with cpu_limited(seconds):
                return _outline_in(language, code_in(path, text))
        answer = self._process.ask(json.dumps([path, text]).encode(), seconds=seconds)
        if answer is None:
            return OutlineStopped(f"its code was not parsed within {seconds} s of CPU time: indexed as plain lines")
        return _outline_of(json.loads(answer))


def serve() -> None:
    """Outline the files requested on standard input."""
    answer_questions(_answered)


def _answered(question: bytes) -> bytes:
    result = outline(*json.loads(question))
    return json.dumps(result and _outline_data(result)).encode()


def _outline_data(result: CodeOutline) -> list[Any]:
    symbols = [[getattr(symbol, name) for name in Symbol.__slots__] for symbol in result.symbols]
    return [result.language, symbols, result.imports, result.module_doc, result.public, result.uses]


def _outline_of(data: list[Any] | None) -> CodeOutline | None:
    if data is None:
        return None
    language, rows, imports, doc, public, uses = data
    symbols = tuple(Symbol(*row) for row in rows)
    return CodeOutline(language, symbols, tuple(imports), doc, tuple(public), tuple((line, use) for line, use in uses))
