"""Import statements of many languages: the imported names and their modules.

The parser finds the statements. They are read here as text, which is short and the same in every grammar.
"""

import re
import sys
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from posixpath import basename


@dataclass(frozen=True, slots=True)
class ImportedName:
    """A name that a file imports.

    `alias` is the name in the file (empty if there is none), `module` the module as written, `name` the imported part
    of the module: empty for the module itself, `*` for everything in it.
    """

    alias: str
    module: str
    name: str = ""


def imported_names(language: str, statement: str) -> list[ImportedName]:
    """Read an import statement of a language; unknown statements import nothing."""
    read = _READERS.get(language)
    return [one for one in read(statement) if one.module] if read else []


def is_standard(language: str, module: str) -> bool:
    """Return whether a module is part of the language, and so no file of a repository."""
    match language:
        case "python":
            return module.partition(".")[0] in _PYTHON_MODULES
        case "go":
            return "." not in module.partition("/")[0]
        case "rust":
            return module.partition("::")[0] in ("std", "core", "alloc")
        case "java":
            return module.startswith(("java.", "javax."))
        case "javascript" | "typescript" | "tsx":
            return module.startswith("node:")
        case "csharp":
            return module.partition(".")[0] == "System"
        case _:
            return False


_PYTHON_MODULES = frozenset(
    "__future__ abc argparse ast asyncio base64 bisect builtins collections concurrent contextlib copy csv ctypes "
    "dataclasses datetime decimal enum errno fnmatch functools gc getpass glob hashlib hmac importlib inspect io "
    "itertools json logging math multiprocessing operator os pathlib pickle platform pprint queue random re secrets "
    "shlex shutil signal socket sqlite3 ssl stat string struct subprocess sys tempfile textwrap threading time "
    "traceback types typing typing_extensions unicodedata unittest urllib uuid warnings weakref xml zipfile".split()
)
"""Modules of the standard library that many files import, and whose names few repositories use at their top."""


STANDARD_LIBRARY = sys.stdlib_module_names
"""All modules of the standard library of Python; a repository may have modules with the same names."""

_LINE_COMMENT = re.compile(r"#[^\n]*|//[^\n]*|/\*.*?\*/", re.DOTALL)
_QUOTED = re.compile(r"[\"'`]([^\"'`\n]+)[\"'`]")
_VERSION = re.compile(r"[./]v\d+$")
_WORD = re.compile(r"[\w$]+")
_RUST_DEEPEST = 8


def _python(text: str) -> Iterator[ImportedName]:
    words = " ".join(_LINE_COMMENT.sub(" ", text).replace("(", " ").replace(")", " ").replace("\\", " ").split())
    match = re.match(r"from ([.\w ]+?) import (.+)", words)
    if match:
        module = match[1].replace(" ", "")
        for name, alias in _renamed(match[2], " as "):
            yield ImportedName("" if name == "*" else alias, module, name)
    elif words.startswith("import "):
        for module, alias in _renamed(words.removeprefix("import "), " as "):
            yield ImportedName(alias, module)


def _ecma(text: str) -> Iterator[ImportedName]:
    places = _QUOTED.findall(text)
    if not places:
        return
    module, words = places[-1], " ".join(_LINE_COMMENT.sub(" ", text).split())
    head = re.split(r"\bfrom\b|\brequire\b|\bimport\s*\(", words)[0]
    yield ImportedName("", module)
    braces = re.search(r"\{([^}]*)\}", head)
    exported = head.startswith("export")
    for name, alias in _renamed(braces[1] if braces else "", ":" if "=" in head else " as "):
        name = name.removeprefix("type ")
        yield ImportedName("" if exported else alias.removeprefix("type "), module, name)
    bare = re.sub(r"\{[^}]*\}|^(?:import|export|const|let|var)\b|\btype\b|=|,", " ", head)
    star = re.search(r"\*(?: as ([\w$]+))?", bare)
    default = _WORD.search(bare)
    if star:
        yield ImportedName(star[1] or "", module, "" if star[1] else "*")
    elif default and not exported:
        # A default import, or the result of `require`: both represent the module.
        yield ImportedName(default[0], module)


def _go(text: str) -> Iterator[ImportedName]:
    place = _QUOTED.search(text)
    if place:
        alias = text[: place.start()].strip()
        last = basename(_VERSION.sub("", place[1])).removeprefix("go-").removesuffix(".go")
        yield ImportedName({"": last, "_": "", ".": ""}.get(alias, alias), place[1], "*" if alias == "." else "")


def _rust(text: str) -> Iterator[ImportedName]:
    words = " ".join(_LINE_COMMENT.sub(" ", text).split())
    module = re.search(r"\bmod (\w+)\s*;?$", words)
    if module:
        yield ImportedName(module[1], f"self::{module[1]}")
        return
    crate = re.search(r"\bextern crate (\w+)(?: as (\w+))?", words)
    if crate:
        yield ImportedName(crate[2] or crate[1], crate[1])
        return
    tree = re.search(r"\buse (.+?);?$", words)
    if tree:
        yield from _use_tree("", tree[1].removeprefix("::"), 0)


def _use_tree(before: str, tree: str, depth: int) -> Iterator[ImportedName]:
    tree = tree.strip()
    brace = tree.find("{")
    if brace >= 0 and depth < _RUST_DEEPEST:
        prefix = (before + tree[:brace]).removesuffix("::")
        for part in _parts(tree[brace + 1 : tree.rfind("}")]):
            yield from _use_tree(f"{prefix}::", part, depth + 1)
        return
    path, _, alias = tree.partition(" as ")
    module, _, name = (before + path.strip()).rpartition("::")
    if name == "self":
        yield ImportedName(alias or module.rpartition("::")[2], module)
    elif module:
        yield ImportedName("" if name == "*" else alias or name, module, name)
    else:
        yield ImportedName(alias or name, name)


def _parts(text: str) -> Iterator[str]:
    """Split at commas outside of braces."""
    depth, start = 0, 0
    for at, sign in enumerate(text):
        depth += (sign == "{") - (sign == "}")
        if sign == "," and not depth:
            yield text[start:at]
            start = at + 1
    if text[start:].strip():
        yield text[start:]


def _java(text: str) -> Iterator[ImportedName]:
    match = re.search(r"import (static )?([\w.]+?)(\.\*)?\s*;?$", " ".join(_LINE_COMMENT.sub(" ", text).split()))
    if not match:
        return
    path = match[2]
    owner, _, name = path.rpartition(".")
    if match[3]:
        yield ImportedName("", path, "*")
    elif match[1]:
        yield ImportedName(name, owner, name)
    else:
        yield ImportedName(name, path, name)


def _included(text: str) -> Iterator[ImportedName]:
    match = re.search(r"[\"<]([^\">\n]+)[\">]", text)
    if match:
        yield ImportedName("", match[1])


def _csharp(text: str) -> Iterator[ImportedName]:
    match = re.search(r"using (?:static )?(?:(\w+) = )?([\w.]+)", " ".join(text.split()))
    if match:
        yield ImportedName(match[1] or "", match[2], "" if match[1] else "*")


def _ruby(text: str) -> Iterator[ImportedName]:
    place = _QUOTED.search(text)
    if place:
        relative = "require_relative" in text and not place[1].startswith(".")
        yield ImportedName("", f"./{place[1]}" if relative else place[1])


def _php(text: str) -> Iterator[ImportedName]:
    words = " ".join(text.split())
    place = _QUOTED.search(words)
    if place and not words.startswith("use "):
        yield ImportedName("", f"./{place[1].lstrip('/')}")
        return
    match = re.match(r"use (?:function |const )?([^;]+)", words)
    if match:
        prefix, brace, inner = match[1].partition("{")
        for path, alias in _renamed(inner.rstrip("} ") if brace else prefix, " as "):
            whole = (prefix.strip() + path if brace else path).strip("\\")
            last = whole.rpartition("\\")[2]
            yield ImportedName(last if alias == path else alias, whole, last)


def _bash(text: str) -> Iterator[ImportedName]:
    match = re.search(r"(?:source|\.)\s+[\"']?([^\"'\s;]+)", text)
    if match:
        # `$(dirname "$0")/lib.sh` and `$HERE/lib.sh` are usually next to the script.
        yield ImportedName("", re.sub(r"^.*[$)}]\w*}?/", "./", match[1]))


def _renamed(text: str, sign: str) -> Iterator[tuple[str, str]]:
    """Yield the names in a list, each with its alias."""
    for part in text.split(","):
        name, _, alias = part.strip().partition(sign)
        if name.strip():
            yield name.strip(), alias.strip() or name.strip()


_READERS: dict[str, Callable[[str], Iterator[ImportedName]]] = {
    "python": _python,
    "javascript": _ecma,
    "typescript": _ecma,
    "tsx": _ecma,
    "go": _go,
    "rust": _rust,
    "java": _java,
    "c": _included,
    "cpp": _included,
    "csharp": _csharp,
    "ruby": _ruby,
    "php": _php,
    "bash": _bash,
}
