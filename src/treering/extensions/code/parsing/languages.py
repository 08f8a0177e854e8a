"""The languages read as code: their file names, grammars, and marks of documentation and visibility.

Grammars are separate wheels and slow to load, so each is imported with its first file.
"""

import importlib
import re
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import cache, lru_cache
from importlib.resources import files
from pathlib import PurePosixPath
from typing import Literal, NamedTuple

from tree_sitter import Language as Grammar
from tree_sitter import Query

Shows = Callable[[str, str], bool]
"""Returns whether a symbol is public, from its name and signature."""


@dataclass(frozen=True, slots=True)
class CodeLanguage:
    """One language. `queries` name the `.scm` files that together find its definitions and imports.

    If `wheel` or `queries` is empty, the language's name is used.
    """

    name: str
    shows: Shows
    wheel: str = ""
    queries: tuple[str, ...] = ()
    loader: str = "language"
    separator: str = "."
    """Joins a container and its member in a qualified name."""
    wrappers: frozenset[str] = frozenset()
    """Node types that belong to the definition they wrap, such as decorators."""
    leads: tuple[str, ...] = ("//", "@")
    """Starts of lines that belong to the definition below them: comments and attributes."""
    blocks: tuple[tuple[str, str], ...] = (("/*", "*/"),)
    """Start and end of leads that may span lines."""
    constants: Literal["all", "upper"] = "all"
    """Which assigned names count as constants."""
    docstrings: bool = False
    shows_member: Shows | None = None
    """`shows` for the members of a class, if different."""
    exports_decide: bool = False
    """Whether a list of exported names alone determines what is public."""


@dataclass(frozen=True, slots=True)
class Parsing:
    """A language's grammar and its compiled query: read-only, so threads may share it."""

    grammar: Grammar
    query: Query


def language_of(path: str, text: str = "") -> CodeLanguage | None:
    """Return a file's language by its extension, else by its `#!` line; `None` if it is not read as code."""
    suffix = _posix_path(path).suffix
    name = _BY_SUFFIX.get(suffix.lower()) or (None if suffix else _by_shebang(text))
    if name == "c" and suffix in (".h", ".H") and _CPP_HEADER.search(text):
        name = "cpp"
    return LANGUAGES[name] if name else None


def code_in(path: str, text: str) -> str:
    """Return the code of a file, at the same lines: of a Vue component only its scripts."""
    if not path.lower().endswith(".vue"):
        return text
    script, end = list[str](), 0
    for match in _SCRIPT.finditer(text):
        script += ["\n" * text.count("\n", end, match.start(1)), match[1]]
        end = match.end(1)
    return "".join([*script, "\n" * text.count("\n", end)])


_posix_path = lru_cache(maxsize=256)(PurePosixPath)


@cache
def parsing_of(language: CodeLanguage) -> Parsing:
    """Load the grammar and compile the query of a language, once per process."""
    module = importlib.import_module(f"tree_sitter_{language.wheel or language.name}")
    grammar = Grammar(getattr(module, language.loader)())
    folder = files(__package__) / "queries"
    source = "\n".join(
        (folder / f"{name}.scm").read_text(encoding="utf-8") for name in language.queries or (language.name,)
    )
    return Parsing(grammar, Query(grammar, source))


def _by_shebang(text: str) -> str | None:
    match = _SHEBANG.match(text[:_LONGEST_SHEBANG])
    return _BY_INTERPRETER.get(match[1]) if match else None


def _plain_name(name: str, _signature: str) -> bool:
    return not name.startswith("_")


def _capital(name: str, _signature: str) -> bool:
    return name[:1].isupper()


def _exported(_name: str, signature: str) -> bool:
    return signature.startswith(("export", "module.exports"))


def _open_member(name: str, signature: str) -> bool:
    return not name.startswith(("_", "#")) and _not_hidden(name, signature)


def _not_hidden(_name: str, signature: str) -> bool:
    return _HIDDEN.search(signature) is None


def _marked_pub(_name: str, signature: str) -> bool:
    return signature.startswith("pub")


def _marked_public(_name: str, signature: str) -> bool:
    return _PUBLIC.search(signature) is not None


def _not_static(_name: str, signature: str) -> bool:
    return not signature.startswith("static ")


_LONGEST_SHEBANG = 256  # bytes that Linux reads
_SHEBANG = re.compile(r"#!\s*\S*?/?(?:env\s+(?:-S\s+)?)?([a-z]+)[\d.]*(?:\s|$)")
_SCRIPT = re.compile(r"^<script\b[^>]*>(.*?)^</script>", re.MULTILINE | re.DOTALL | re.IGNORECASE)
_CPP_HEADER = re.compile(r"^[ \t]*+(?:class\s+\w+|namespace\b|template\s*<|public:|private:|using\s+\w)", re.MULTILINE)
_HIDDEN = re.compile(r"\b(?:private|protected|internal)\b")
_PUBLIC = re.compile(r"\bpublic\b")
_ECMA_WRAPPERS = frozenset({"export_statement", "ambient_declaration"})

_TABLE = (
    CodeLanguage(
        "python",
        _plain_name,
        wrappers=frozenset({"decorated_definition"}),
        leads=("#",),
        blocks=(),
        constants="upper",
        docstrings=True,
        exports_decide=True,
    ),
    CodeLanguage(
        "javascript",
        _exported,
        queries=("ecma", "javascript"),
        wrappers=_ECMA_WRAPPERS,
        shows_member=_open_member,
    ),
    *(
        CodeLanguage(
            name,
            _exported,
            wheel="typescript",
            queries=("ecma", "typescript"),
            loader=f"language_{name}",
            wrappers=_ECMA_WRAPPERS,
            shows_member=_open_member,
        )
        for name in ("typescript", "tsx")
    ),
    CodeLanguage("go", _capital),
    CodeLanguage("rust", _marked_pub, separator="::", leads=("//", "#["), blocks=(("/*", "*/"), ("#[", "]"))),
    CodeLanguage("java", _not_hidden, constants="upper"),
    CodeLanguage("c", _not_static),
    CodeLanguage(
        "cpp",
        _not_static,
        queries=("c", "cpp"),
        separator="::",
        wrappers=frozenset({"template_declaration"}),
    ),
    CodeLanguage("csharp", _not_hidden, wheel="c_sharp", leads=("//",), shows_member=_marked_public),
    CodeLanguage("ruby", _plain_name, separator="::", leads=("#",), blocks=(("=begin", "=end"),)),
    CodeLanguage("php", _not_hidden, loader="language_php", separator="::", leads=("//", "#")),
    CodeLanguage("bash", _plain_name, leads=("#",), blocks=(), constants="upper"),
)

LANGUAGES = {language.name: language for language in _TABLE}

_SUFFIXES = {
    "python": ".py .pyi .pyw",
    "javascript": ".js .jsx .mjs .cjs",
    "typescript": ".ts .mts .cts .vue",
    "tsx": ".tsx",
    "go": ".go",
    "rust": ".rs",
    "java": ".java",
    "c": ".c .h",
    "cpp": ".cpp .cc .cxx .c++ .hpp .hh .hxx .h++ .ipp .inl",
    "csharp": ".cs .csx",
    "ruby": ".rb .rake .gemspec",
    "php": ".php .phtml",
    "bash": ".sh .bash .bats",
}
_BY_SUFFIX = {suffix: name for name, suffixes in _SUFFIXES.items() for suffix in suffixes.split()}
_BY_INTERPRETER = {
    "python": "python",
    "pypy": "python",
    "node": "javascript",
    "nodejs": "javascript",
    "ruby": "ruby",
    "php": "php",
    "sh": "bash",
    "bash": "bash",
    "dash": "bash",
    "zsh": "bash",
    "ksh": "bash",
}


_MARKER = re.compile(r"^(?:/\*\*?!?|//[/!]?|\*(?!/)|#+!?|=begin)?[ \t]*")
_CLOSER = re.compile(r"(?<![ \t])[ \t]*+(?:(?<!\*)\*++/|=end)$")
_LICENCE = re.compile(r"copyright|licen[cs]e|SPDX-|all rights reserved", re.IGNORECASE)
_ATTRIBUTE = re.compile(r"@\w|#!?\[")
_VARIABLE = re.compile(r"(?:export[ \t]+)?(?:const|let|var)[ \t]")
"""The beginning of a definition that a comment directly above it is about."""
_PREAMBLE = ("#!", "<?php", "'use strict'", '"use strict"', "# -*-", "# frozen_string_literal")
_DOCSTRING = re.compile(rb"[rRuUbB]{0,2}(\"\"\"|'''|\"|')")
_BEFORE_DOCSTRING = re.compile(rb"(?:\xef\xbb\xbf)?(?:[ \t\f]*(?:#[^\n]*)?\r?\n)*")


def lead_row(lines: Sequence[str], row: int, language: CodeLanguage) -> int:
    """Return the row (0-based) at which the comments and attributes directly above `row` begin; `row` if none."""
    while row > 0:
        above = _lead_above(lines, row, language)
        if above == row:
            break
        row = above
    return row


def comment_text(lines: Sequence[str]) -> str:
    """Return the text of comment lines without markers, attributes and rulers; `""` for a license."""
    texts: list[str] = []
    in_attribute = False
    for line in lines:
        bare = line.strip()
        if in_attribute or _ATTRIBUTE.match(bare):
            in_attribute = (in_attribute or bare.startswith("#[")) and not bare.endswith("]")
            continue
        words = _CLOSER.sub("", _MARKER.sub("", bare, count=1))
        if any(map(str.isalnum, words)) or (texts and not words):
            texts.append(words)
    text = "\n".join(texts).strip()
    return "" if _LICENCE.search(text) else text


def docstring_at(data: bytes, start: int) -> str:
    """Return the string literal that starts at byte `start`, each line stripped; `""` if there is none."""
    opened = _DOCSTRING.match(data, start)
    if not opened:
        return ""
    end = data.find(opened[1], opened.end())
    raw = data[opened.end() : end if end >= 0 else len(data)].decode("utf-8", "replace")
    return "\n".join(line.strip() for line in raw.strip().splitlines())


def module_docstring(data: bytes) -> str:
    """Return the docstring of a Python file."""
    before = _BEFORE_DOCSTRING.match(data)
    return docstring_at(data, before.end() if before else 0)


def module_comment(lines: Sequence[str], language: CodeLanguage, taken: frozenset[int]) -> str:
    """Return the first comment of a file after its license. `taken`: rows that document a definition."""
    row, license_end = 0, 0
    while row < len(lines):
        bare = lines[row].strip().lstrip("\ufeff")
        if not bare or (bare.startswith(_PREAMBLE) and not license_end):
            row += 1
            continue
        end = _comment_end(lines, row, language)
        text = comment_text(lines[row:end])
        if text or end == row:
            return "" if row in taken or (end < len(lines) and _VARIABLE.match(lines[end])) else text
        row = license_end = end
    return ""


def _lead_above(lines: Sequence[str], row: int, language: CodeLanguage) -> int:
    bare = lines[row - 1].strip()
    if not bare or bare.startswith(("//!", "#!")):
        return row
    for opener, closer in language.blocks:
        if bare.endswith(closer) and not bare.startswith(language.leads):
            return _block_start(lines, row, opener)
    return row - 1 if bare.startswith(language.leads) else row


def _block_start(lines: Sequence[str], row: int, opener: str) -> int:
    for start in range(row - 1, max(row - 200, 0) - 1, -1):
        column = lines[start].find(opener)
        if column >= 0 and not lines[start].lstrip().startswith("*"):
            return start if not lines[start][:column].strip() else row
    return row


def _comment_end(lines: Sequence[str], row: int, language: CodeLanguage) -> int:
    """Return the row after the run of comment lines that starts at `row`; `row` if none starts."""
    closer = ""
    for at in range(row, len(lines)):
        bare = lines[at].strip().lstrip("\ufeff")
        closer = closer or next((end for start, end in language.blocks if bare.startswith(start)), "")
        if closer:
            closer = "" if closer in bare else closer
        elif not bare or not bare.startswith(language.leads):
            return at
    return len(lines)


class FileLanguage(NamedTuple):
    """A language: its name, and whether its files are code (others are markup, data or configuration)."""

    name: str
    code: bool


_CODE = {
    "Assembly": "asm s",
    "C": "c h",
    "C#": "cs",
    "C++": "cc cpp cxx hh hpp hxx",
    "Clojure": "clj cljs",
    "Dart": "dart",
    "Elixir": "ex exs",
    "Erlang": "erl",
    "Fortran": "f f90 f95",
    "Go": "go",
    "Haskell": "hs",
    "Java": "java",
    "JavaScript": "cjs js jsx mjs",
    "Julia": "jl",
    "Kotlin": "kt kts",
    "Lua": "lua",
    "Objective-C": "m mm",
    "OCaml": "ml mli",
    "Perl": "pl pm",
    "PHP": "php",
    "PowerShell": "ps1",
    "Python": "py pyi pyx",
    "R": "r",
    "Ruby": "rb",
    "Rust": "rs",
    "Scala": "scala",
    "Shell": "bash sh zsh",
    "SQL": "sql",
    "Svelte": "svelte",
    "Swift": "swift",
    "TypeScript": "cts mts ts tsx",
    "Vue": "vue",
    "Zig": "zig",
}
_OTHER = {
    "CSS": "css less sass scss",
    "CSV": "csv tsv",
    "GraphQL": "graphql graphqls",
    "HTML": "htm html",
    "JSON": "json",
    "Jupyter": "ipynb",
    "Markdown": "markdown md mdx",
    "Protocol Buffers": "proto",
    "reStructuredText": "rst",
    "Terraform": "tf",
    "Text": "txt",
    "TOML": "toml",
    "XML": "xml",
    "YAML": "yaml yml",
}
_BY_NAME = {"Dockerfile": FileLanguage("Docker", code=False), "Makefile": FileLanguage("Make", code=False)}
_BY_EXTENSION = {
    extension: FileLanguage(name, code)
    for table, code in ((_CODE, True), (_OTHER, False))
    for name, extensions in table.items()
    for extension in extensions.split()
}


@lru_cache(maxsize=32_768)  # the map of a repository asks several times for each file
def counted_language(path: str) -> FileLanguage | None:
    """Return the language of a file by its name, for counting; `None` if the name is unknown."""
    name = path.rpartition("/")[2]
    return _BY_NAME.get(name) or _BY_EXTENSION.get(name.rpartition(".")[2].lower() if "." in name else "")
