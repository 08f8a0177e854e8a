"""Uses of other code in a file, by line: imports, calls, and other uses of names.

Names are searched for in the text, and the parser confirms that they are no words of a comment or a string. The file
alone determines the meaning of a name: its imports, its definitions, the enclosing class. The file that defines it is
determined later (`retrieval.index.code_names`).
"""

import re
from bisect import bisect_left, bisect_right
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from itertools import chain

from tree_sitter import Node

from treering.extensions.code.parsing import java_variables
from treering.extensions.code.parsing.go_variables import call_before, method_results, variable_types
from treering.extensions.code.parsing.imports import ImportedName, is_standard
from treering.extensions.code.parsing.ruby_calls import RubyNames
from treering.retrieval.index.code_names import ANYWHERE, OWN, CodeUse, How, is_distinctive, read_use

Use = tuple[int, str]
"""A line, from 1, and a use in the form of `CodeUse.written`."""

MOST_USES = 2_000
"""The maximum number of uses stored per file."""

# A chain of names and a call. A chain that begins with a dot is a member of the expression before it.
_DOTTED = re.compile(rb"[\w.$]+\(?")
_LINKED = re.compile(rb"[\w.$]+(?:(?:::|->|\\)[\w.$]+)*+!?\(?|(?:::|->)\w+\(")
_LINK = re.compile(r"\.|::|->|\\")
_GIVEN = re.compile(rb"[ \t]*+=(?!=)")
"""The text after a name that is assigned, as a variable or as a keyword."""
_AFTER = re.compile(rb"[^\w$]")
_LONGEST = 160
_OPEN, _DOT = b"(."
_MOST_STARS = 5
_INSTANCES = frozenset({"self", "this", "cls", "Self", "$this"})
_PLACES = frozenset({"crate", "super"})
_NAMES = frozenset(
    "identifier type_identifier property_identifier field_identifier namespace_identifier package_identifier "
    "shorthand_property_identifier constant name word command_name".split()
)
_NAMERS = re.compile(
    r"_(?:definition|declaration|declarator|item|spec|specifier|parameter|elem)$"
    r"|^(?:class|module|method|parameters|formal_parameters|keyword_argument|aliased_import|typed_parameter|pair_pattern|labeled_\w+)$"
)
_LINKING = frozenset({"c", "cpp", "rust", "php", "ruby"})
"""Languages that separate a name and its member by other characters than dots, too."""
_TYPED = frozenset({"java", "csharp", "php", "ruby", "go", "cpp", "rust"})
"""Languages in which a capitalized name is a type, which may be in a neighboring file without an import."""
_GLOBAL = frozenset({"c", "cpp", "ruby", "php", "bash"})
"""Languages in which a function in another file may be called without an import."""
_IMPLICIT = frozenset({"java", "csharp", "cpp"})
"""Languages in which a method calls another one of its class without naming an object."""
_NO_CALLS = frozenset(
    "if for while switch match catch return sizeof typeof elif with and or not in is assert del yield await new "
    "function fn func def lambda print len range str int float bool list dict set tuple super isinstance".split()
)


@dataclass(frozen=True, slots=True)
class Defined:
    """A definition of the file: its qualified name, with dots, its holder's, and its lines from 1."""

    name: str
    holder: str
    start: int
    end: int


def code_uses(
    language: str, data: bytes, root: Node, imports: Sequence[tuple[int, int, ImportedName]], defined: Sequence[Defined]
) -> tuple[Use, ...]:
    """Return the uses in the code of a file, each once per definition that contains it, in order.

    `imports` have the first and last lines of their statements, from 1.
    """
    file = _File(language, data, [one for _, _, one in imports], defined)
    stated = [
        (first, CodeUse("imports", one.module, one.name).written())
        for first, _, one in imports
        if not is_standard(language, one.module)
    ]
    lines = frozenset(line for first, last, _ in imports for line in range(first, last + 1))
    named = chain(_named(file, root, lines), _called_in_ruby(file, root) if language == "ruby" else ())
    return tuple(sorted({**dict.fromkeys(stated), **dict.fromkeys(named)})[:MOST_USES])


class _Chains(dict[bytes, str | None]):
    """A cache of the use that each chain of names represents, or `None`."""

    def __init__(self, file: "_File") -> None:
        super().__init__()
        self._file = file
        self._known, self._telling = file.known, file.telling
        self._placed = file.language not in _TYPED | _GLOBAL and not file.stars and file.language != "go"
        """Whether every unknown name is a member, or part of the language."""

    def __missing__(self, chain: bytes) -> str | None:
        use = None if self._is_meaningless(chain) else self._file.use(chain.decode("utf-8", "replace"))
        self[chain] = written = use.written() if use else None
        return written

    def _is_meaningless(self, chain: bytes) -> bool:
        """Return quickly whether a chain is no use, as for most plain words and calls of built-in functions."""
        if len(chain) > _LONGEST:
            return True
        head, dot, rest = chain.partition(b".")
        if chain[-1] != _OPEN:
            return self._placed and head not in self._telling
        if not self._placed or (head if dot else head[:-1]) in self._known:
            return False
        return not dot or (rest.islower() and b"_" not in rest)


@dataclass(frozen=True)
class _File:
    """The meaning of the names in one file."""

    language: str
    data: bytes
    imports: Sequence[ImportedName]
    defined: Sequence[Defined]
    types: dict[int, Mapping[str, str]] = field(default_factory=dict)
    """The types of variables in Go or Java, by the number of the definition that contains them."""
    methods: dict[tuple[int, str], str | None] = field(default_factory=dict)
    """The calls of methods of variables in Go, by the same number and the variable with the method."""

    @cached_property
    def line_starts(self) -> list[int]:
        """The first byte of each line, and the end of the file."""
        return [0, *(match.end() for match in re.finditer(rb"\n", self.data)), len(self.data)]

    @cached_property
    def aliases(self) -> Mapping[str, ImportedName]:
        return {one.alias: one for one in self.imports if one.alias}

    @cached_property
    def heads(self) -> frozenset[str]:
        return frozenset(alias.partition(".")[0] for alias in self.aliases)

    @cached_property
    def stars(self) -> list[str]:
        return [one.module for one in self.imports if one.name == "*"][:_MOST_STARS]

    @cached_property
    def names(self) -> frozenset[str]:
        return frozenset(one.name for one in self.defined)

    @cached_property
    def results(self) -> Mapping[str, str]:
        """The types of the results of methods in Go, by the method."""
        return method_results(self.data)

    @cached_property
    def starts(self) -> list[int]:
        return [one.start for one in self.defined]

    def is_standard(self, one: ImportedName) -> bool:
        return is_standard(self.language, one.module)

    @cached_property
    def known(self) -> frozenset[bytes]:
        """The first names of chains that are known in the file."""
        return frozenset(name.encode() for name in (*self.heads, *self.names, *_INSTANCES, *_PLACES))

    @cached_property
    def telling(self) -> frozenset[bytes]:
        """The first names of chains that are uses without a call."""
        types = (name for name in self.names if name[:1].isupper())
        return frozenset(name.encode() for name in (*self.heads, *types, *_INSTANCES, *_PLACES))

    def definition_at(self, start: int) -> int:
        """Return the number of definitions that begin before a byte, which identifies the last of them."""
        return bisect_right(self.starts, bisect_right(self.line_starts, start))

    def placed(self, written: str, line: int) -> str | None:
        """Return a use at its line; the class of a use of an own member is only known there."""
        if _INSTANCE not in written:
            return written
        if self.language == "go":
            return self._method(written, bisect_right(self.starts, line) - 1)
        use = read_use(written)
        own = self.own_member(line, use.name.rstrip("(")) if use else ""
        resolved = use and (CodeUse(use.how, OWN, own) if own else self._not_own(use))
        return resolved.written() if resolved else None

    def _not_own(self, use: CodeUse) -> CodeUse | None:
        """Return the use of a name that no class around it defines; `(` after it marks a call without an object."""
        if use.name.endswith("("):
            return self._without_object(use.name)
        return _member(use.name, called=use.how == "calls")

    def own_member(self, line: int, member: str) -> str:
        """Return the qualified name of a member of a class that encloses a line, or an empty text."""
        at = bisect_right(self.starts, line) - 1
        if at < 0:
            return ""
        one = self.defined[at]
        holder = one.name if one.end >= line else one.holder
        while holder:
            if f"{holder}.{member}" in self.names:
                return f"{holder}.{member}"
            holder = holder.rpartition(".")[0]
        return ""

    @cached_property
    def methods_without_object(self) -> frozenset[str]:
        """The methods in the file that their class may call without an object; constructors are left out."""
        if self.language not in _IMPLICIT:
            return frozenset()
        members = [one.name.rpartition(".") for one in self.defined]
        return frozenset(f"{name}(" for holder, _, name in members if holder and holder.rpartition(".")[2] != name)

    def use(self, text: str) -> CodeUse | None:
        """Return the use that a chain of names represents, with `(` after it if it is called; `None` if none."""
        if text in self.methods_without_object:
            return CodeUse("calls", _INSTANCE, text)
        return self._without_object(text)

    def _without_object(self, text: str) -> CodeUse | None:
        called = text.endswith("(")
        how: How = "calls" if called else "uses"
        parts = _LINK.split(text.rstrip("(" if self.language == "ruby" else "!("))
        head, last = parts[0], parts[-1]
        if not head or not last:
            return _member(last, called=called)
        if head in _INSTANCES and len(parts) > 1 and self.language != "go":
            return CodeUse(how, _INSTANCE, parts[1]) if len(parts) == 2 else _member(last, called=called)
        if head in self.heads:
            return self._imported(parts, how)
        if head in _PLACES and self.language == "rust":
            return _at_path(parts, how)
        if head in self.names:
            return CodeUse(how, OWN, ".".join(parts)) if called or head[0].isupper() else None
        if self.language == "go" and called and len(parts) == 2 and head[0].islower():
            return CodeUse(how, _INSTANCE, ".".join(parts))
        return self._elsewhere(parts, how, called=called)

    def _method(self, written: str, at: int) -> str | None:
        """Return the call of a method of a variable in a definition in Go."""
        if (at, written) not in self.methods:
            variable, _, method = written.rpartition("#")[2].partition(".")
            use = self._method_of(self._types_in(at).get(variable, ""), method)
            self.methods[at, written] = use.written() if use else None
        return self.methods[at, written]

    def _method_of(self, type_name: str, method: str) -> CodeUse | None:
        """Return the call of a method of a type in Go; of an unknown type if its name is empty."""
        package, dot, name = type_name.rpartition(".")
        if package in self.heads:
            return self._imported((package, name, method), "calls")
        return CodeUse("calls", OWN, f"{name}.{method}") if name and not dot else _member(method, called=True)

    def method_of_stated_type(self, chain: bytes, line: int) -> str | None:
        """Return the call of a method of a variable or field in Java, if the file states its type."""
        *before, variable, method = chain[:-1].decode("utf-8", "replace").split(".")
        if not method or before not in ([], ["this"]):
            return None
        inside = {} if before else self._types_in(bisect_right(self.starts, line) - 1)
        type_name = inside[variable] if variable in inside else self.fields.get(variable, "")
        use = self._method_of_class(type_name, method) if type_name else None
        return use.written() if use else None

    def _method_of_class(self, type_name: str, method: str) -> CodeUse | None:
        """Return the call of a method of a class in Java. A class that is not imported is in the same package."""
        if type_name in self.heads:
            return self._imported((type_name, method), "calls")
        name = f"{type_name}.{method}"
        if type_name in self.names:
            return CodeUse("calls", OWN, name)
        return None if self.stars else CodeUse("calls", f"{self.package}{type_name}", name)

    @cached_property
    def package(self) -> str:
        return java_variables.package_of(self.data)

    @cached_property
    def fields(self) -> Mapping[str, str]:
        """The types of the fields in Java: of variables outside of methods."""
        holders, code, at = {one.holder for one in self.defined}, list[bytes](), 0
        for one in self.defined:
            if one.name not in holders:
                code.append(self.data[at : self.line_starts[one.start - 1]])
                at = max(at, self.line_starts[one.end])
        return java_variables.variable_types(b"".join([*code, self.data[at:]]))

    def method_of_result(self, match: re.Match[bytes], line: int) -> str | None:
        """Return the call of a method of the result of a method in the file, such as `c.Root().Find(` in Go."""
        call = call_before(self.data, match.start())
        if call is None:
            return None
        variable, method = call
        holder = self._types_in(bisect_right(self.starts, line) - 1).get(variable, "")
        result = self.results.get(f"{holder}.{method}", "")
        use = self._method_of(result, match[0][1:-1].decode()) if result else None
        return use.written() if use else None

    def _types_in(self, at: int) -> Mapping[str, str]:
        if at not in self.types:
            start, end = (self.defined[at].start, self.defined[at].end) if at >= 0 else (1, 0)
            stated = java_variables.variable_types if self.language == "java" else variable_types
            self.types[at] = stated(self.data[self.line_starts[start - 1] : self.line_starts[end]])
        return self.types[at]

    def _imported(self, parts: Sequence[str], how: How) -> CodeUse | None:
        for count in range(len(parts), 0, -1):
            alias = self.aliases.get(".".join(parts[:count]))
            if alias:
                name = ".".join(filter(None, (alias.name, *parts[count:])))
                return CodeUse(how, alias.module, name) if name and not self.is_standard(alias) else None
        return None

    def _elsewhere(self, parts: Sequence[str], how: How, *, called: bool) -> CodeUse | None:
        head = parts[0]
        is_type = self.language in _TYPED and head[0].isupper() and len(head) > 2
        if is_type and not (self.language == "rust" and head in _RUST_PRELUDE):
            return CodeUse(how, ANYWHERE, ".".join(parts))
        if len(parts) > 1:
            return _member(parts[-1], called=called)
        if not called or head in _NO_CALLS:
            return None
        if self.language == "go":
            return CodeUse(how, OWN, head)
        if self.language in _GLOBAL and len(head) > 2:
            return CodeUse(how, ANYWHERE, head)
        return CodeUse(how, self.stars[0], head) if self.stars and self.language == "python" else None


_RUST_PRELUDE = frozenset({"Box", "Option", "String", "Vec"})
"""Types known without an import. A file that implements a trait for one does not define it.

`Result` is left out: many projects define their own, and import it with `*`.
"""
_INSTANCE = "\0"
"""A placeholder for the class around a use until its line is known."""


def _member(name: str, *, called: bool) -> CodeUse | None:
    """Return the use of a member of an unknown object, if its name is distinctive, as with `!` in Ruby."""
    is_telling = is_distinctive(name) or name.endswith("!")
    return CodeUse("calls", ANYWHERE, f".{name}") if called and is_telling else None


def _at_path(parts: Sequence[str], how: How) -> CodeUse | None:
    """Return the use of a name that Rust code writes with its whole path."""
    first = next((at for at, part in enumerate(parts) if part[:1].isupper()), len(parts) - 1)
    return CodeUse(how, "::".join(parts[:first]), ".".join(parts[first:])) if first else None


def _named(file: _File, root: Node, passed: frozenset[int]) -> Iterator[Use]:
    """Yield the uses in a text, outside of comments, strings and imports."""
    data, line_starts = file.data, file.line_starts
    seen: set[tuple[str | None, int]] = set()
    chains, starts = _Chains(file), file.starts
    is_used = _is_used_in_python if file.language == "python" else _is_used
    is_go, is_java, is_ruby = (file.language == one for one in ("go", "java", "ruby"))
    for match in (_LINKED if file.language in _LINKING else _DOTTED).finditer(data):
        if is_ruby and match[0][-1] == _OPEN:
            continue
        written = chains[match[0]]
        is_of_result = is_go and match[0][0] == _DOT and match[0][-1] == _OPEN
        is_of_variable = is_java and match[0][-1] == _OPEN and _DOT in match[0]
        if written is None and not (is_of_result or is_of_variable):
            continue
        line = bisect_right(line_starts, match.start())
        use = file.method_of_result(match, line) if is_of_result else None
        use = use or (file.placed(written, line) if written else None)
        # The class may inherit the method, so the call of a member of unknown origin is left in.
        of_class = file.method_of_stated_type(match[0], line) if is_of_variable else None
        at = bisect_right(starts, line)
        for one in (of_class, use):
            if one and (one, at) not in seen and line not in passed and is_used(root, data, match):
                seen.add((one, at))
                yield line, one


def _called_in_ruby(file: _File, root: Node) -> Iterator[Use]:
    """Yield the calls in Ruby code, at each of their lines: a class of tests may have no definitions.

    A bare name is a call if a class around it defines a method of this name, and if it is no local variable.
    """
    members = {one.name.rpartition(".")[2] for one in file.defined if one.holder}
    names = RubyNames(file.data, root)
    read, bound = names.bare(members)
    variables = {(file.definition_at(start), name) for start, name in bound}
    bare = [(start, f"self.{name}") for start, name in read if (file.definition_at(start), name) not in variables]
    for start, text in (*names.calls(), *bare):
        line = bisect_right(file.line_starts, start)
        own = file.own_member(line, text.removeprefix("self."))
        use = CodeUse("calls", OWN, own) if own else file.use(f"{text}(")
        written = file.placed(use.written(), line) if use else None
        if written:
            yield line, written


def _is_used_in_python(root: Node, data: bytes, match: re.Match[bytes]) -> bool:
    """Return whether the parser sees a used name; definitions and keyword arguments are recognized by the text."""
    start, end = match.span()
    start += data[start] == _DOT
    if data[max(start - 6, 0) : start].endswith((b"def ", b"class ", b"type ")) or _GIVEN.match(data, end):
        return False
    if data[end : end + 1] == b":" and not data[data.rfind(b"\n", 0, start) + 1 : start].strip():
        return False
    node = root.descendant_for_byte_range(start, start)
    return node is not None and node.type == "identifier"


def _is_used(root: Node, _data: bytes, match: re.Match[bytes]) -> bool:
    """Return whether the parser sees a name that is used, and not one that is defined there."""
    name = match[0].lstrip(b".:->")
    start = match.end() - len(name)
    end = start + len(_AFTER.split(name, maxsplit=1)[0])
    node = root.descendant_for_byte_range(start, end)
    if node is None or node.start_byte != start:
        return False
    if node.type not in _NAMES:
        return node.type in ("this", "self", "super", "crate", "variable_name", "type_identifier")
    parent = node.parent
    if parent is None or not _NAMERS.search(parent.type):
        return True
    named = next(filter(None, map(parent.child_by_field_name, ("name", "pattern", "declarator"))), None)
    return not parent.type.endswith("parameters") and (named is None or named.start_byte != start)


def uses_between(uses: Sequence[Use], start: int, end: int, most: int) -> tuple[str, ...]:
    """Return the uses on some lines, each once, at most `most`. `uses` are in the order of lines."""
    inside = uses[bisect_left(uses, (start,)) : bisect_left(uses, (end + 1,))]
    return tuple(dict.fromkeys(use for _, use in inside))[:most]
