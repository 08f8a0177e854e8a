"""The types of the variables in Java code, as far as its text states them."""

import re

_ARGUMENTS = rb"(?:<[^<>;(){}]*+(?:<[^<>;(){}]*+>[^<>;(){}]*+)*+>)?"
_DECLARED = re.compile(
    rb"(?<![\w.$])([A-Za-z]\w*+)" + _ARGUMENTS + rb"(\[\])?[ \t]+([a-z]\w*+)\s*"
    rb"(?:=\s*new[ \t]+([A-Z]\w*+)|(?=[=;,):&|]))"
)
_OF_FUNCTION = re.compile(rb"(?<![\w.$])([a-z]\w*+)[ \t]*->")
_PACKAGE = re.compile(rb"^[ \t]*package[ \t]+([\w.]++)[ \t]*;", re.MULTILINE)
_STATEMENTS = frozenset({b"return", b"throw", b"new", b"case", b"assert", b"else", b"yield", b"goto", b"instanceof"})


def variable_types(code: bytes) -> dict[str, str]:
    """Return the types of variables, parameters and fields by their names.

    The type is empty if it is not stated, is no class, or differs between blocks.
    """
    types: dict[str, str] = {}
    declared = [
        (name, b"" if array else made if kind == b"var" else kind)
        for kind, array, name, made in _DECLARED.findall(code)
        if kind not in _STATEMENTS
    ]
    for name, kind in (*declared, *((name, b"") for name in _OF_FUNCTION.findall(code))):
        stated = kind.decode() if kind[:1].isupper() else ""
        if types.setdefault(name.decode(), stated) != stated:
            types[name.decode()] = ""
    return types


def package_of(code: bytes) -> str:
    """Return the name of the package of a file, with a dot after it; empty if it states none."""
    match = _PACKAGE.search(code)
    return f"{match[1].decode()}." if match else ""
