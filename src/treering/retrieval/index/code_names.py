"""Index names that link code: modules and their definitions, imports and uses.

Two files are linked if one defines a name that the other uses. Each passage stores only its own names, so adding,
removing or moving a file does not change the names of other files. A use is resolved at query time, among the files
that exist then (`extensions.code.links`).

The name of a module is its path without the file extension: the whole path with a leading slash (`/src/app/cart`), and
every suffix of it (`app/cart`, `cart`), because languages name modules relative to folders that the file does not
contain. A package of another repository has the prefix `@`.
"""

import re
from collections.abc import Iterator
from dataclasses import dataclass
from functools import lru_cache
from hashlib import blake2b
from posixpath import basename, dirname, join, normpath, splitext
from typing import TYPE_CHECKING, Literal

if TYPE_CHECKING:  # a process that only outlines files starts twice as fast without this import
    from treering.ports.passages import Passage

How = Literal["imports", "calls", "uses"]

OWN = ""
"""The module of names that the file itself defines."""

ANYWHERE = "?"
"""The module of names of unknown origin: members of an object, and global names."""

_LETTERS: dict[How, str] = {"imports": "i", "calls": "c", "uses": "u"}
_WORDS: dict[str, How] = {letter: how for how, letter in _LETTERS.items()}


@dataclass(frozen=True, slots=True)
class CodeUse:
    """A name that code imports, calls or uses in another way.

    `module` is the module as the code spells it (`.util`, `./compose`, `crate::a::b`); see `OWN` and `ANYWHERE`. `name`
    is qualified with dots: empty for the module itself, `*` for all of its names, with a leading dot for a member of an
    unknown object.
    """

    how: How
    module: str
    name: str = ""

    def written(self) -> str:
        """Return the form stored in segments, such as `c ./compose#compose`."""
        return f"{_LETTERS[self.how]} {self.module}#{self.name}"


def read_use(text: str) -> CodeUse | None:
    """Parse the output of `CodeUse.written`; `None` for anything else."""
    letter, space, rest = text.partition(" ")
    module, sign, name = rest.rpartition("#")
    how = _WORDS.get(letter)
    return CodeUse(how, module, name) if how and space and sign else None


def is_distinctive(name: str) -> bool:
    """Return whether a name has several words, so that members of the same name are probably the same."""
    bare = name.strip("_$")
    return "_" in bare or bare != bare.lower() != bare[:1].lower() + bare[1:]


def member_of_unknown(family: str, use: CodeUse) -> CodeUse | None:
    """Return what else a use may mean if its module does not define it; `None` if nothing.

    In Go, a type has the methods of the types that it embeds, and calls of an interface reach other types.
    """
    member = use.name.rpartition(".")[2]
    is_method = family == "go" and use.how == "calls" and use.module != ANYWHERE and member != use.name
    return CodeUse("calls", ANYWHERE, f".{member}") if is_method and is_distinctive(member) else None


HAS_HISTORY = "has_history"
"""A metadata key of repository maps that contain the commits that touched each file."""

MAX_NAMES = 500
"""Names stored per passage."""

_FAMILIES = {
    "python": "py",
    "javascript": "js",
    "typescript": "js",
    "tsx": "js",
    "go": "go",
    "rust": "rs",
    "java": "java",
    "c": "c",
    "cpp": "c",
    "csharp": "cs",
    "ruby": "rb",
    "php": "php",
    "bash": "sh",
}
CODE_FAMILIES = tuple(dict.fromkeys(_FAMILIES.values()))
"""The short names of the language families whose code is linked."""

_ENDINGS = {
    "py": "py pyi pyw",
    "js": "js jsx mjs cjs ts mts cts tsx vue",
    "go": "go",
    "rs": "rs",
    "java": "java",
    "c": "c h cc cpp cxx hpp hh hxx",
    "cs": "cs",
    "rb": "rb rake",
    "php": "php",
    "sh": "sh bash",
}
_BY_ENDING = {ending: family for family, endings in _ENDINGS.items() for ending in endings.split()}
_MANIFESTS = {"go.mod": "go", "package.json": "js", "Cargo.toml": "rs"}
_WHOLE = {"py": "__init__", "js": "index", "rs": "mod"}
"""By family, the name of the file that represents its folder."""
_KEEPS_ENDING = frozenset({"c", "sh"})
_SUFFIXED = frozenset({"py", "js", "java", "c", "rb", "php", "sh"})
"""Families in which module names are relative to folders that are configured in the importing project."""
_BY_PATH = frozenset({"rs", "c", "rb", "php", "sh"})
"""Families that spell all modules relative to the file."""
_PART = re.compile(r" \(part \d+\)$")
_JS_ENDING = re.compile(r"(?:\.d)?\.[mc]?[jt]sx?$")
_MOST_ENDS = 8


@dataclass(frozen=True, slots=True)
class CodeFile:
    """A code file: its language family, and its path in its folder or repository."""

    family: str
    path: str

    @property
    def module(self) -> str:
        """The full path of its module."""
        return _module(self.family, self.path)

    @property
    def modules(self) -> tuple[str, ...]:
        """All names by which other files may refer to its module."""
        ends = self.module.strip("/").split("/") if self.family in _SUFFIXED else []
        return (self.module, *("/".join(ends[at:]) for at in range(max(0, len(ends) - _MOST_ENDS), len(ends))))


@lru_cache(maxsize=256)  # neighboring passages have the same file
def code_file(language: str, path: str) -> CodeFile | None:
    """Return a code file; `None` for a language without links."""
    family = _FAMILIES.get(language)
    return CodeFile(family, path) if family and path else None


def code_file_of(passage: "Passage") -> CodeFile | None:
    """Return the code file that contains a passage; `None` if it is not code or its language has no links."""
    path, language = passage.metadata.get("path", ""), passage.metadata.get("language", "")
    return code_file(str(language), str(path))


def file_at(path: str) -> CodeFile | None:
    """Return a code file by its extension; `None` if it is not code or the extension identifies no language."""
    family = _BY_ENDING.get(path.rpartition(".")[2].lower())
    return CodeFile(family, path) if family else None


def manifest_family(path: str) -> str:
    """Return the language family of a package manifest; empty if the file is not a manifest."""
    return _MANIFESTS.get(basename(path), "")


def names_of_code(passage: "Passage", *, first: bool) -> tuple[str, ...]:
    """Return the index names of a passage of code; for the `first` passage of a file also those of its module."""
    file = code_file_of(passage)
    if file is None:
        if passage.kind == "repo" and HAS_HISTORY in passage.metadata:
            return (history_name(),)
        family = manifest_family(str(passage.metadata.get("path", ""))) if first else ""
        return (package_name(family),) if family and "package" in passage.metadata else ()
    return tuple(dict.fromkeys(_names(file, passage, first=first)))[:MAX_NAMES]


@lru_cache(maxsize=1 << 14)
def name_code(name: str) -> int:
    """Return the number of a name in the index: 48 bits of BLAKE2b. Hits are verified, because numbers may collide."""
    return int.from_bytes(blake2b(name.encode(errors="surrogatepass"), digest_size=6).digest())


def module_name(family: str, module: str) -> str:
    """Return the name of the first passage of a module's file."""
    return f"m {family} {module}"


def imports_name(family: str, module: str) -> str:
    """Return the name of passages that import a module."""
    return f"i {family} {module}"


def definition_name(family: str, module: str, name: str) -> str:
    """Return the name of passages that define `name` in the module with a full path."""
    return f"d {family} {module}#{name}"


def last_name(family: str, name: str) -> str:
    """Return the name of passages that define something with this last part of a qualified name."""
    return f"l {family} {name.rpartition('.')[2]}"


def uses_name(family: str, module: str, name: str) -> str:
    """Return the name of passages that use `name` of a module; a use of a member also counts as one of its class."""
    return f"u {family} {module}#{name}"


def anywhere_name(family: str, name: str) -> str:
    """Return the name of passages that use `name` of unknown origin."""
    return f"a {family} {name}"


def package_name(family: str) -> str:
    """Return the name of package manifests."""
    return f"p {family}"


def history_name() -> str:
    """Return the name of repository maps with a commit history."""
    return "h"


def used_from(file: CodeFile, use: CodeUse) -> list[tuple[str, str]]:
    """Return the possible meanings of a use: modules with names in them, empty for the module itself."""
    if use.module == ANYWHERE:
        return []
    modules = [file.module] if use.module == OWN else spelled(file, use.module)
    first, _, rest = use.name.partition(".")
    if not use.name or use.name == "*":
        return [(module, "") for module in modules]
    meanings = [(module, use.name) for module in modules]
    if use.module != OWN and file.family in ("py", "rs"):
        # A name imported from a package may be a module.
        meanings += [(f"{module}/{first}", rest) for module in modules if rest or use.how == "imports"]
    return meanings


@lru_cache(maxsize=1 << 14)
def _spelled(family: str, path: str, module: str) -> tuple[str, ...]:
    file = CodeFile(family, path)
    match family:
        case "py":
            return (_python(file, module),)
        case "js":
            return _ecma(file, module)
        case "go":
            return (f"@{module}",)
        case "rs":
            return _rust(file, module)
        case "java" | "cs":
            return (module.replace(".", "/"),)
        case "php" if "\\" in module:
            parts = module.split("\\")
            return ("/".join(parts), "/".join(parts[1:]))
        case _:
            return _beside(file, module)


def spelled(file: CodeFile, module: str) -> list[str]:
    """Return the modules that a spelling in a file may mean, the likeliest first."""
    return [one for one in _spelled(file.family, file.path, module) if one]


def defined_in(passage: "Passage") -> tuple[str, ...]:
    """Return the qualified names that a passage of code defines."""
    called = names_in_heading(passage.heading, str(passage.metadata.get("path", "")))
    return tuple(dict.fromkeys((*called, *(name.replace("::", ".") for name in passage.defines))))


def names_in_heading(heading: str, path: str) -> tuple[str, ...]:
    """Return the qualified names in the heading of a segment; none if the heading is the name of the file."""
    called = _PART.sub("", heading)
    names = [] if called == basename(path) else called.split(", ")
    return tuple(dict.fromkeys(name.replace("::", ".") for name in names if name and name != "…"))


def _names(file: CodeFile, passage: "Passage", *, first: bool) -> list[str]:
    family, module = file.family, file.module
    names = [module_name(family, one) for one in file.modules] if first else []
    for name in defined_in(passage):
        names += (definition_name(family, module, name), last_name(family, name))
    for written in passage.uses:
        names += _use_names(family, file.path if _depends_on_path(family, written) else "", written)
    return names


def _depends_on_path(family: str, written: str) -> bool:
    """Return whether the path of a file decides what a use in it names. Most uses mean the same in all files."""
    module = written[2:]
    return module[:1] in ("#", ".") or (family in _BY_PATH and not module.startswith(f"{ANYWHERE}#"))


@lru_cache(maxsize=1 << 14)
def _use_names(family: str, path: str, written: str) -> tuple[str, ...]:
    use = read_use(written)
    return tuple(_names_of(CodeFile(family, path), use)) if use else ()


def _names_of(file: CodeFile, use: CodeUse) -> Iterator[str]:
    if use.module == ANYWHERE:
        name = use.name.lstrip(".")
        yield from (anywhere_name(file.family, one) for one in dict.fromkeys((name.partition(".")[0], name)))
    elif other := member_of_unknown(file.family, use):
        yield anywhere_name(file.family, other.name.lstrip("."))
    for module, name in used_from(file, use):
        if use.how == "imports":
            yield imports_name(file.family, module)
        if name or use.name == "*":
            yield uses_name(file.family, module, name.partition(".")[0] or use.name)
        if "." in name:
            yield uses_name(file.family, module, name)


@lru_cache(maxsize=1 << 12)
def _module(family: str, path: str) -> str:
    if family == "go":
        return _rooted(dirname(path))
    if family in _KEEPS_ENDING:
        return _rooted(path)
    stem = _JS_ENDING.sub("", path) if family == "js" else splitext(path)[0]
    last = basename(stem)
    is_folder = last == _WHOLE.get(family) or (family == "rs" and last in ("lib", "main"))
    return _rooted(dirname(stem) if is_folder else stem)


def _rooted(path: str) -> str:
    """Return a normalized path with a leading slash; empty if it leaves the root."""
    plain = normpath(f"./{path}")
    return "" if plain.startswith("..") else "/" + plain.removeprefix("./").removeprefix(".").lstrip("/")


def _python(file: CodeFile, module: str) -> str:
    bare = module.lstrip(".")
    level = len(module) - len(bare)
    if not level:
        return bare.replace(".", "/")
    return _rooted(join(dirname(file.path), *[".."] * (level - 1), *filter(None, bare.split("."))))


def _ecma(file: CodeFile, module: str) -> tuple[str, ...]:
    plain = _JS_ENDING.sub("", module)
    if module.startswith("."):
        path = _rooted(join(dirname(file.path), plain))
        return (path.removesuffix("/index") or "/",)
    if module[:2] in ("@/", "~/", "#/"):
        return (plain[2:].removesuffix("/index"),)
    return (f"@{module}", *([plain] if "/" in plain and not plain.startswith("@") else []))


def _rust(file: CodeFile, module: str) -> tuple[str, ...]:
    first, _, rest = module.partition("::")
    below = rest.replace("::", "/")
    own = file.module
    if first == "crate":
        before, source, _ = f"/{file.path}".rpartition("/src/")
        root = f"{before}/src" if source else _rooted(dirname(file.path))
        return (join(root, below).rstrip("/"),)
    if first == "self":
        return (join(own, below).rstrip("/"),)
    if first == "super":
        return (join(dirname(own), below).rstrip("/"),) if not rest.startswith("super") else ()
    return (join(own, module.replace("::", "/")), f"@{module.replace('::', '/')}")


def _beside(file: CodeFile, module: str) -> tuple[str, ...]:
    """Return a module in the same folder, or also one relative to an unknown folder."""
    plain = module if file.family in _KEEPS_ENDING else re.sub(r"\.(?:rb|php)$", "", module)
    near = _rooted(join(dirname(file.path), plain))
    return (near,) if module.startswith("./") else (near, plain)
