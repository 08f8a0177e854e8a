"""Import statements of many languages, as which name in a file stands for what of which module.

A statement is found by the parser and read here as text: it is short, and the text is the same in every grammar.
"""

import re
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from posixpath import basename


@dataclass(frozen=True, slots=True)
class ImportedName:
    """A name that an import brings into a file.

    `alias` is what the file calls it (empty: nothing in the file stands for it), `module` the module as written,
    `name` what of the module it is: empty for the module itself, `*` for everything in it.
    """

    alias: str
    module: str
    name: str = ""


def imported_names(language: str, statement: str) -> list[ImportedName]:
    """Read an import statement of a language; one that is not understood imports nothing."""
    read = _READERS.get(language)
    return [one for one in read(statement) if one.module] if read else []


def is_standard(language: str, module: str) -> bool:
    """Tell whether a module is part of the language: no file of a repository is meant by it."""
    match language:
        case "python":
            return module.partition(".")[0] in _PYTHON_ITSELF
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


_PYTHON_ITSELF = frozenset(
    "__future__ abc argparse ast asyncio base64 bisect builtins collections concurrent contextlib copy csv ctypes "
    "dataclasses datetime decimal enum errno fnmatch functools gc getpass glob hashlib hmac importlib inspect io "
    "itertools json logging math multiprocessing operator os pathlib pickle platform pprint queue random re secrets "
    "shlex shutil signal socket sqlite3 ssl stat string struct subprocess sys tempfile textwrap threading time "
    "traceback types typing typing_extensions unicodedata unittest urllib uuid warnings weakref xml zipfile".split()
)
"""Modules of the standard library that many files import and few repositories have one called so at their top."""


_LINE_COMMENT = re.compile(r"#[^\n]*|//[^\n]*|/\*.*?\*/", re.DOTALL)
_QUOTED = re.compile(r"[\"'`]([^\"'`\n]+)[\"'`]")
_VERSION = re.compile(r"[./]v\d+$")
_WORD = re.compile(r"[\w$]+")
_RUST_DEEPEST = 8


def _python(text: str) -> Iterator[ImportedName]:
    words = " ".join(_LINE_COMMENT.sub(" ", text).replace("(", " ").replace(")", " ").replace("\\", " ").split())
    found = re.match(r"from ([.\w ]+?) import (.+)", words)
    if found:
        module = found[1].replace(" ", "")
        for name, alias in _renamed(found[2], " as "):
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
        # A default import, or all that `require` gives: both are the module, seen from outside.
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
    """Divide at the commas that stand in no braces."""
    depth, start = 0, 0
    for at, sign in enumerate(text):
        depth += (sign == "{") - (sign == "}")
        if sign == "," and not depth:
            yield text[start:at]
            start = at + 1
    if text[start:].strip():
        yield text[start:]


def _java(text: str) -> Iterator[ImportedName]:
    found = re.search(r"import (static )?([\w.]+?)(\.\*)?\s*;?$", " ".join(_LINE_COMMENT.sub(" ", text).split()))
    if not found:
        return
    path = found[2]
    owner, _, name = path.rpartition(".")
    if found[3]:
        yield ImportedName("", path, "*")
    elif found[1]:
        yield ImportedName(name, owner, name)
    else:
        yield ImportedName(name, path, name)


def _included(text: str) -> Iterator[ImportedName]:
    found = re.search(r"[\"<]([^\">\n]+)[\">]", text)
    if found:
        yield ImportedName("", found[1])


def _csharp(text: str) -> Iterator[ImportedName]:
    found = re.search(r"using (?:static )?(?:(\w+) = )?([\w.]+)", " ".join(text.split()))
    if found:
        yield ImportedName(found[1] or "", found[2], "" if found[1] else "*")


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
    found = re.match(r"use (?:function |const )?([^;]+)", words)
    if found:
        prefix, brace, inner = found[1].partition("{")
        for path, alias in _renamed(inner.rstrip("} ") if brace else prefix, " as "):
            whole = (prefix.strip() + path if brace else path).strip("\\")
            last = whole.rpartition("\\")[2]
            yield ImportedName(last if alias == path else alias, whole, last)


def _bash(text: str) -> Iterator[ImportedName]:
    found = re.search(r"(?:source|\.)\s+[\"']?([^\"'\s;]+)", text)
    if found:
        # `$(dirname "$0")/lib.sh` and `$HERE/lib.sh` lie beside the script more often than not.
        yield ImportedName("", re.sub(r"^.*[$)}]\w*}?/", "./", found[1]))


def _renamed(text: str, sign: str) -> Iterator[tuple[str, str]]:
    """Return the names in a list, each with what it is called here."""
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
