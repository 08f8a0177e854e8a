"""The names by which links of code are found: of modules and what they define, of what is imported and used.

A link is where two names meet: one file defines what another one uses. So each passage vouches for its own names
alone, and a file that comes, goes or moves changes no other file's names. What a use means is settled when it is asked
for, among the files that are there then (`verbs.query.code_related`).

A module goes by its path without its ending: by the whole path, behind a slash (`/src/app/cart`), and by every end of
it (`app/cart`, `cart`), as languages name modules from folders that the file does not know. A package that another
repository may publish goes by its own name behind `@`.
"""

import re
from collections.abc import Iterator
from dataclasses import dataclass
from functools import lru_cache
from hashlib import blake2b
from posixpath import basename, dirname, join, normpath, splitext
from typing import TYPE_CHECKING, Literal

if TYPE_CHECKING:  # a process that only outlines files starts in half the time without what passages are made of
    from treering.ports.passages import Passage

# What a stretch of code uses of other code, as the code itself says it: the raw fact behind links between files.


How = Literal["imports", "calls", "uses"]

OWN = ""
"""The module of a name that the file itself defines."""

ANYWHERE = "?"
"""The module of a name that the file does not say where it is from: a member of some object, or a global name."""

_LETTERS: dict[How, str] = {"imports": "i", "calls": "c", "uses": "u"}
_WORDS: dict[str, How] = {letter: how for how, letter in _LETTERS.items()}


@dataclass(frozen=True, slots=True)
class CodeUse:
    """One thing that code imports, calls or uses otherwise.

    `module` is what the code calls the place that the name is from, in the spelling of its language (`.util`,
    `./compose`, `crate::a::b`); see `OWN` and `ANYWHERE`. `name` is qualified with dots: empty for a module itself,
    `*` for all of its names. That of a member of an unknown object begins with a dot.
    """

    how: How
    module: str
    name: str = ""

    def written(self) -> str:
        """Write it as a segment keeps it, such as `c ./compose#compose`."""
        return f"{_LETTERS[self.how]} {self.module}#{self.name}"


def read_use(text: str) -> CodeUse | None:
    """Read what `CodeUse.written` wrote; `None` for anything else."""
    letter, space, rest = text.partition(" ")
    module, sign, name = rest.rpartition("#")
    how = _WORDS.get(letter)
    return CodeUse(how, module, name) if how and space and sign else None


HAS_HISTORY = "has_history"
"""The metadata of the map of a repository that tells which commits touched which files."""

MAX_NAMES = 500
"""Names kept of one passage."""

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
"""The families of languages that code is linked in, by a short name."""

_ENDINGS = {
    "py": "py pyi pyw",
    "js": "js jsx mjs cjs ts mts cts tsx",
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
"""By family, what a file is called that stands for its folder."""
_KEEPS_ENDING = frozenset({"c", "sh"})
_SUFFIXED = frozenset({"py", "js", "java", "c", "rb", "php", "sh"})
"""Families whose modules are named from folders that only their users know."""
_PART = re.compile(r" \(part \d+\)$")
_JS_ENDING = re.compile(r"(?:\.d)?\.[mc]?[jt]sx?$")
_MOST_ENDS = 8


@dataclass(frozen=True, slots=True)
class CodeFile:
    """A file of code: the family of its language, and its path in the folder or repository it was read from."""

    family: str
    path: str

    @property
    def module(self) -> str:
        """Return the whole path of the module it is."""
        return _module(self.family, self.path)

    @property
    def modules(self) -> tuple[str, ...]:
        """Return all that its module may be called by files that say where it is."""
        ends = self.module.strip("/").split("/") if self.family in _SUFFIXED else []
        return (self.module, *("/".join(ends[at:]) for at in range(max(0, len(ends) - _MOST_ENDS), len(ends))))


def code_file(language: str, path: str) -> CodeFile | None:
    """Return a file as one of code; `None` for a language without links."""
    family = _FAMILIES.get(language)
    return CodeFile(family, path) if family and path else None


def code_file_of(passage: "Passage") -> CodeFile | None:
    """Return the file of code that a passage lies in; `None` for what is not code, or in a language without links."""
    path, language = passage.metadata.get("path", ""), passage.metadata.get("language", "")
    return code_file(str(language), str(path))


def file_at(path: str) -> CodeFile | None:
    """Return a file of code by its ending alone; `None` if it is not code, or only its text tells the language."""
    family = _BY_ENDING.get(path.rpartition(".")[2].lower())
    return CodeFile(family, path) if family else None


def manifest_family(path: str) -> str:
    """Return the family of languages whose packages a manifest names; empty where a file is not a manifest."""
    return _MANIFESTS.get(basename(path), "")


def names_of_code(passage: "Passage", *, first: bool) -> tuple[str, ...]:
    """Return the names that a passage of code vouches for; the `first` passage of a file also those of its module."""
    file = code_file_of(passage)
    if file is None:
        if passage.kind == "repo" and HAS_HISTORY in passage.metadata:
            return (history_name(),)
        family = manifest_family(str(passage.metadata.get("path", ""))) if first else ""
        return (package_name(family),) if family and "package" in passage.metadata else ()
    found = dict.fromkeys(_names(file, passage, first=first))
    return tuple(found)[:MAX_NAMES]


@lru_cache(maxsize=1 << 14)  # what many files import and use
def name_code(name: str) -> int:
    """Return the number that stands for a name in an index: 48 bits of BLAKE2b. What is found by it is read again."""
    return int.from_bytes(blake2b(name.encode(errors="surrogatepass"), digest_size=6).digest())


def module_name(family: str, module: str) -> str:
    """Name the first passage of the file that is a module."""
    return f"m {family} {module}"


def imports_name(family: str, module: str) -> str:
    """Name the passages that import a module."""
    return f"i {family} {module}"


def definition_name(family: str, module: str, name: str) -> str:
    """Name the passages that define something in the module of a whole path."""
    return f"d {family} {module}#{name}"


def last_name(family: str, name: str) -> str:
    """Name the passages that define something whose qualified name ends so."""
    return f"l {family} {name.rpartition('.')[2]}"


def uses_name(family: str, module: str, name: str) -> str:
    """Name the passages that use something of a module: what is in a class counts as the class, too."""
    return f"u {family} {module}#{name}"


def anywhere_name(family: str, name: str) -> str:
    """Name the passages that use something called so, without saying where it is from."""
    return f"a {family} {name}"


def package_name(family: str) -> str:
    """Name the manifests of packages."""
    return f"p {family}"


def history_name() -> str:
    """Name the maps of repositories that tell what commits said of files."""
    return "h"


def used_from(file: CodeFile, use: CodeUse) -> list[tuple[str, str]]:
    """Return what a use may mean, as modules and names in them; the name is empty for a module itself."""
    if use.module == ANYWHERE:
        return []
    modules = [file.module] if use.module == OWN else spelled(file, use.module)
    first, _, rest = use.name.partition(".")
    if not use.name or use.name == "*":
        return [(module, "") for module in modules]
    found = [(module, use.name) for module in modules]
    if use.module != OWN and file.family in ("py", "rs"):
        # What is imported from a package may be a module of it.
        found += [(f"{module}/{first}", rest) for module in modules if rest or use.how == "imports"]
    return found


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
    """Return the modules that a file may mean by how it spells one, the likeliest first."""
    return [one for one in _spelled(file.family, file.path, module) if one]


def defined_in(passage: "Passage") -> tuple[str, ...]:
    """Return the qualified names of what a passage of code defines, as far as it is called so."""
    called = names_in_heading(passage.heading, str(passage.metadata.get("path", "")))
    return tuple(dict.fromkeys((*called, *(name.replace("::", ".") for name in passage.defines))))


def names_in_heading(heading: str, path: str) -> tuple[str, ...]:
    """Return the qualified names that a segment of a file is called by; none where it goes by the file's name."""
    called = _PART.sub("", heading)
    names = [] if called == basename(path) else called.split(", ")
    return tuple(dict.fromkeys(name.replace("::", ".") for name in names if name and name != "…"))


def _names(file: CodeFile, passage: "Passage", *, first: bool) -> Iterator[str]:
    family = file.family
    if first:
        yield from (module_name(family, module) for module in file.modules)
    for name in defined_in(passage):
        yield definition_name(family, file.module, name)
        yield last_name(family, name)
    for written in passage.uses:
        yield from _use_names(file, written)


@lru_cache(maxsize=1 << 13)
def _use_names(file: CodeFile, written: str) -> tuple[str, ...]:
    use = read_use(written)
    return tuple(_names_of(file, use)) if use else ()


def _names_of(file: CodeFile, use: CodeUse) -> Iterator[str]:
    if use.module == ANYWHERE:
        yield anywhere_name(file.family, use.name.lstrip(".").partition(".")[0])
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
    stands = last == _WHOLE.get(family) or (family == "rs" and last in ("lib", "main"))
    return _rooted(dirname(stem) if stands else stem)


def _rooted(path: str) -> str:
    """Return a path as one from the top; empty for one that leaves it."""
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
        found = _rooted(join(dirname(file.path), plain))
        return (found.removesuffix("/index") or "/",)
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
    """Return a file beside another one, or one that is named from some folder."""
    plain = module if file.family in _KEEPS_ENDING else re.sub(r"\.(?:rb|php)$", "", module)
    near = _rooted(join(dirname(file.path), plain))
    return (near,) if module.startswith("./") else (near, plain)
