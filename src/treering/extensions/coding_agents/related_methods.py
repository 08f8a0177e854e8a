"""The other definitions of a method: in interfaces that declare it, and in types that implement or override it."""

import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path, PurePosixPath

from treering.extensions.code.parsing.outline import CodeOutline, Symbol, outline
from treering.extensions.coding_agents.edits import dotted, text_at
from treering.ports.passages import Reach
from treering.retrieval.index.code_names import is_distinctive
from treering.verbs.envelope import Call

_INTERFACES = frozenset({"interface", "trait"})
_MAX_FILES = 16
"""Files that define a method of the same name, of which the nearest are read."""
_REACH = Reach("/")


@dataclass(frozen=True, slots=True)
class RelatedMethods:
    """The definitions of one method in other types."""

    interfaces: tuple[str, ...] = ()
    """The interfaces in the folder of its file that declare it, with their file and line."""
    implementations: Mapping[str, Sequence[int]] = field(default_factory=dict)
    """The lines by file that implement it, if its type is an interface, or else override it."""
    is_interface: bool = False


@dataclass(frozen=True, slots=True)
class _Method:
    line: int
    symbol: Symbol
    owner: str
    headers: tuple[str, ...]
    """The declarations of its type in the file."""
    is_interface: bool


def related_methods(call: Call, path: str, file: CodeOutline, name: str, top: Path) -> RelatedMethods:
    """Return the other definitions of a method of a file, as they are in the work tree.

    In Go, a type does not name its interfaces: a method with the same name and number of parameters implements one, but
    only in the same folder if the name is common. In other languages, the type names its base.
    """
    owner, _, member = name.rpartition(".")
    edited = next((one for one in _methods(file, "", member) if dotted(one.symbol) == name), None)
    if edited is None:
        return RelatedMethods()
    folder, is_go, base = PurePosixPath(path).parent, file.language == "go", owner.rpartition(".")[2]
    is_everywhere = edited.is_interface and is_distinctive(member) if is_go else True
    found = call.engine.lookup.definitions(f".{member}", _REACH, call.engine.ledger)
    paths = sorted((one.title for one in found), key=lambda one: PurePosixPath(one).parent != folder)
    interfaces, implementations = dict[str, None](), dict[str, list[int]]()
    for other in paths[:_MAX_FILES]:
        is_near, text = PurePosixPath(other).parent == folder, text_at(other, top)
        if not (is_near or (is_everywhere and (is_go or base in text))):
            continue
        outlined = outline(other, text) if text else None
        for one in _methods(outlined, text, member) if outlined else ():
            if one.owner == owner or (is_go and _parameters(one.symbol) != _parameters(edited.symbol)):
                continue
            if (edited.is_interface and not one.is_interface) if is_go else _names(base, one.headers):
                implementations.setdefault(other, []).append(one.line)
            elif one.is_interface and not edited.is_interface and is_near:
                interfaces[f"{one.owner} ({other}:{one.line})"] = None
    return RelatedMethods(tuple(interfaces), implementations, edited.is_interface)


def _methods(file: CodeOutline, text: str, member: str) -> Iterator[_Method]:
    """Yield the methods of a file with a name."""
    for one in file.symbols:
        owner, _, last = dotted(one).rpartition(".")
        if last == member and owner:
            types = [each for each in file.symbols if dotted(each) == owner]
            headers = tuple(each.signature for each in types)
            is_interface = any(each.kind in _INTERFACES for each in types)
            yield _Method(_line_of(one, text), one, owner, headers, is_interface)


def _line_of(symbol: Symbol, text: str) -> int:
    """Return the line of a definition with its name, behind its comments and decorators."""
    lines = text.split("\n")[symbol.start - 1 : symbol.end]
    named = re.compile(rf"^(?!\s*(?://|/?\*|#)).*\b{re.escape(symbol.name)}\b\s*[(<\[?:=]")
    return next((symbol.start + at for at, line in enumerate(lines) if named.match(line)), symbol.start)


def _names(base: str, headers: tuple[str, ...]) -> bool:
    return any(re.search(rf"\b{re.escape(base)}\b", one) for one in headers)


def _parameters(symbol: Symbol) -> int:
    """Return the number of parameters of a method in Go."""
    text = symbol.signature.partition(f"{symbol.name}(")[2]
    depth = count = 0
    for at, sign in enumerate(text):
        depth += (sign in "([{") - (sign in ")]}")
        if depth < 0:
            return count + bool(text[:at].rstrip(" ,"))
        count += sign == "," and depth == 0 and bool(text[at + 1 :].lstrip(" )"))
    return count
