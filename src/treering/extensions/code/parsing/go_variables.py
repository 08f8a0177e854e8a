"""The types of the variables in a Go function, as far as its own text states them."""

import re
from collections.abc import Iterator

_NAMES = rb"(\w++(?:,[ \t]*\w++)*+)"
_TYPE = rb"\*?([A-Za-z_][\w.]*+)(?:\[[^\]\n]*+\])?"
_NESTED = rb"[^()]*+(?:\([^()]*+\)[^()]*+)*+"
_FUNCTION = re.compile(
    rb"\bfunc\b[ \t]*(?:\(([^()]*+)\)[ \t]*)?\w*+(?:\[[^\]\n]*+\])?"
    rb"\((" + _NESTED + rb")\)(?:[ \t]*\((" + _NESTED + rb")\))?"
)
_METHOD = re.compile(
    rb"^func[ \t]*\((?:\w++[ \t]++)?" + _TYPE + rb"\)[ \t]*(\w++)\(" + _NESTED + rb"\)[ \t]*" + _TYPE + rb"[ \t]*\{",
    re.MULTILINE,
)
_CHAIN = re.compile(rb"(?<![\w.])(\w++)\.(\w++)\(\)\Z")
_LONGEST_CHAIN = 100
_PARAMETERS = re.compile(_NAMES + rb"[ \t]++" + _TYPE + rb"(?=\s*(?:,|$|\)))")
_VARIABLE = re.compile(rb"\bvar[ \t]+(\w++)[ \t]+" + _TYPE)
_ASSIGNED = re.compile(
    rb"(?<![\w, \t])([\w, \t]++):=[ \t]*(?:&?([A-Za-z_][\w.]*+)(\{|\(" + _NESTED + rb"\)(?!\s*[.\[]))?)?"
)
_WITHOUT_METHODS = frozenset(
    "any bool byte chan complex64 complex128 error float32 float64 func int int8 int16 int32 int64 interface map rune "
    "string struct uint uint8 uint16 uint32 uint64 uintptr".split()
)


def variable_types(function: bytes) -> dict[str, str]:
    """Return the types of receivers, parameters, named results and variables, such as `Enforcer` or `model.Model`.

    A variable that is declared as `NewThing(…)` is a `Thing`. Names that are declared with several types, such as in
    different blocks, are left out.
    """
    types: dict[str, str] = {}
    for name, type_name in _declared(function):
        if types.setdefault(name, type_name) != type_name:
            types[name] = ""
    return {name: type_name for name, type_name in types.items() if type_name}


def method_results(file: bytes) -> dict[str, str]:
    """Return the types of the only results of the methods in a file, by the method, such as `Command.Root`."""
    return {
        f"{holder.decode()}.{name.decode()}": type_name
        for holder, name, result in _METHOD.findall(file)
        if (type_name := _type(result))
    }


def call_before(file: bytes, end: int) -> tuple[str, str] | None:
    """Return the variable and the method of a call without arguments that ends there, such as `c.Root()`."""
    call = _CHAIN.search(file, max(0, end - _LONGEST_CHAIN), end)
    return (call[1].decode(), call[2].decode()) if call else None


def _declared(function: bytes) -> Iterator[tuple[str, str]]:
    """Yield declared names with their types, which are empty if the text does not state them."""
    for match in _FUNCTION.finditer(function):
        for part in match.groups(b""):
            for names, type_name in _PARAMETERS.findall(part):
                yield from ((name, _type(type_name)) for name in _split(names))
    for name, type_name in _VARIABLE.findall(function):
        yield name.decode(), _type(type_name)
    for names, value, end in _ASSIGNED.findall(function):
        for number, name in enumerate(_split(names)):
            yield name, "" if number else _made(value, end)


def _split(names: bytes) -> list[str]:
    """Return the names in a list, which may follow a keyword, such as `if`."""
    return [part.split()[-1] for part in names.decode().split(",") if part.strip()]


def _type(name: bytes) -> str:
    text = name.decode()
    return "" if text in _WITHOUT_METHODS else text


def _made(value: bytes, end: bytes) -> str:
    """Return the type of a literal or of the result of a constructor."""
    if end != b"{":
        package, dot, function = value.rpartition(b".")
        value = package + dot + function[3:] if end and function.startswith(b"New") and function[3:] else b""
    return _type(value)
