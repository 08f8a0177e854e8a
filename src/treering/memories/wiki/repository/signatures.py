"""Signatures as people read them, taken from the lines of a definition by rules for each family of languages."""

import re
from collections.abc import Sequence
from dataclasses import dataclass

_MOST_LINES = 25
_MOST_CHARS = 1_000
_OPENING, _CLOSING = "([", ")]"
_SPACES = re.compile(r"\s+")
_PYTHON = "py"
_KINDS = (
    ("class", re.compile(r"\bclass\b")),
    ("interface", re.compile(r"\b(?:interface|trait|protocol)\b")),
    ("struct", re.compile(r"\b(?:struct|union|record)\b")),
    ("enum", re.compile(r"\benum\b")),
    (
        "function",
        re.compile(
            r"\b(?:def|function|func|fn|async|sub|macro_rules)\b|\)\s*(?::[^=]*)?=>|[=:]\s*(?:async\s*)?\(.*\)\s*=>"
        ),
    ),
    ("type", re.compile(r"\b(?:type|typedef|namespace|module|mod)\b")),
)
_ARROW = re.compile(r"=\s*(?:async\s*)?(?:<[^=]{0,200}>)?\s*\(")
_TYPE_VARIABLE = re.compile(r"=\s*(?:\w+\.)?(?:TypeVar|ParamSpec|TypeVarTuple)\(")
_HIDDEN_MEMBER = re.compile(r"\b(?:private|protected|internal|static inline)\b")


@dataclass(frozen=True, slots=True)
class Signature:
    """What stands behind the name of a definition, on one line, and the line on which that ends."""

    rest: str
    end: int


def has_body_docs(family: str) -> bool:
    """Tell whether a language keeps its docs inside of what they are about."""
    return family == _PYTHON


def signature_at(lines: Sequence[str], at: int, name: str, family: str) -> Signature:
    """Read the signature of what is called `name` on a line."""
    line = lines[at]
    start = re.search(rf"(?<![\w$]){re.escape(name)}(?![\w$])", line) or re.search(re.escape(name), line)
    text, row = line[start.end() :] if start else "", at
    end = _end(text, family)
    while end is None and row + 1 < len(lines) and row - at < _MOST_LINES and len(text) < _MOST_CHARS:
        row += 1
        text += "\n" + lines[row]
        end = _end(text, family)
    rest = _SPACES.sub(" ", text[: end if end is not None else _MOST_CHARS]).strip()
    return Signature(_tidy(rest, family), row)


def shortened(rest: str, most: int) -> str:
    """Return a signature behind its name in at most `most` characters, as far as it can be shortened sensibly.

    First what is returned is left out, then types of parameters, then all but the first parameters.
    """
    rest = _without_generics(rest) if rest.startswith("<") else rest
    if len(rest) <= most:
        return rest
    inside, behind = _parameters(rest)
    if inside is None:
        return rest[: most - 1].rstrip() + "…"
    parameters = split_outside(inside, ",")
    for shown in (parameters, [_untyped(one) for one in parameters]):
        for tail in (behind, ""):
            text = f"({', '.join(shown)}){tail}"
            if len(text) <= most:
                return text
    kept: list[str] = []
    for one in map(_untyped, parameters):
        if len(", ".join([*kept, one])) > most - 5:
            break
        kept.append(one)
    return f"({', '.join([*kept, '…'])})"


def without_receiver(rest: str) -> str:
    """Return a signature of Python without `self` or `cls`."""
    return re.sub(r"^\((?:self|cls)(?:,\s*|(?=\)))", "(", rest)


def kind_of(line: str, family: str, *, member: bool) -> str:
    """Return in a word what a line defines."""
    found = next((kind for kind, said in _KINDS if said.search(line)), "")
    if found in ("function", ""):
        is_called = found == "function" or bool(_ARROW.search(line)) or (member and "(" in line)
        return ("method" if member else "function") if is_called or family in ("c", "java", "cs", "sh") else "constant"
    return found


def is_public(name: str, line: str, family: str, *, member: bool) -> bool:
    """Tell whether a definition is meant for users, by its name and the words before it."""
    if name.startswith(("_", "#")) or _TYPE_VARIABLE.search(line) or _HIDDEN_MEMBER.search(line.split("(")[0]):
        return False
    match family:
        case "go":
            return name[:1].isupper()
        case "rs":
            return bool(re.search(r"\bpub\b", line)) or member
        case "js" if not member:
            return bool(re.search(r"\bexport\b|\bexports\.", line))
        case "java" | "cs":
            return bool(re.search(r"\bpublic\b", line)) or not member
        case "c":
            return not re.search(r"\bstatic\b", line)
        case _:
            return True


def split_outside(text: str, sign: str) -> list[str]:
    """Split a text at a sign where it stands outside of brackets and strings."""
    parts, depth, quote, start = list[str](), 0, "", 0
    for at, char in enumerate(text):
        if quote:
            quote = "" if char == quote else quote
        elif char in "\"'`":
            quote = char
        elif char in "([{<":
            depth += 1
        elif char in ")]}" or (char == ">" and text[at - 1] not in "-="):
            depth -= 1
        elif char == sign and depth <= 0:
            parts.append(text[start:at].strip())
            start = at + 1
    return [part for part in (*parts, text[start:].strip()) if part]


def _end(text: str, family: str) -> int | None:
    """Return where a signature ends; `None` where it goes on on the next line."""
    depth, angle, quote = 0, 0, ""
    for at, char in enumerate(text):
        if quote:
            quote = "" if char == quote or char == "\n" else quote
        elif char in "\"'" or (char == "`" and family != "rs"):
            quote = char if family != "rs" or char == '"' else ""
        elif char in _OPENING or (char == "{" and (depth or angle)):
            depth += 1
        elif char in _CLOSING or (char == "}" and (depth or angle)):
            depth -= 1
        elif char == "<" and family != _PYTHON and text[at + 1 : at + 2] not in ("<", "=", " "):
            angle += 1
        elif char == ">" and angle and text[at - 1] not in "-=":
            angle -= 1
        elif depth <= 0 and angle <= 0 and _stops(text, at, family):
            return at
    return len(text) if depth <= 0 and angle <= 0 and not _goes_on(text, family) else None


def _stops(text: str, at: int, family: str) -> bool:
    char = text[at]
    if family == _PYTHON:
        return char == ":" or (char == "=" and not text[:at].strip().startswith("("))
    if char == "\n":
        return not _goes_on(text[:at], family)
    return char in "{;" or text.startswith("=>", at)


def _goes_on(text: str, family: str) -> bool:
    bare = text.rstrip()
    return bool(bare) and bare.endswith((",", "<", "|", "&", "->", "where") + ((":",) if family != _PYTHON else ()))


def _tidy(rest: str, family: str) -> str:
    arrow = _ARROW.search(rest) if family == "js" else None
    if arrow and not rest[: arrow.start()].strip().startswith("("):
        rest = rest[arrow.end() - 1 :]
    rest = re.sub(r"\s*[={]+$", "", rest).strip()
    rest = re.sub(r"\(\s+", "(", rest)
    rest = re.sub(r",?\s+\)", ")", rest)
    return rest if rest[:1] in "([<:" or family != "js" else f" {rest}" if rest else ""


def _without_generics(rest: str) -> str:
    """Return a signature without the type parameters it begins with."""
    depth = 0
    for at, char in enumerate(rest):
        depth += (char == "<") - (char == ">" and rest[at - 1] not in "-=")
        if not depth:
            return rest[at + 1 :].lstrip()
    return ""


def _parameters(rest: str) -> tuple[str | None, str]:
    """Return what stands between the parentheses of a signature, and what stands behind them."""
    if not rest.startswith("("):
        return None, ""
    depth = 0
    for at, char in enumerate(rest):
        depth += (char in "([{") - (char in ")]}")
        if not depth:
            return rest[1:at], rest[at + 1 :]
    return None, ""


def _untyped(parameter: str) -> str:
    """Return a parameter without its type: its name, with the default where it has one."""
    name = split_outside(parameter, ":")[0] if ":" in parameter else parameter
    if name == parameter:
        return parameter
    default = split_outside(parameter, "=")
    return f"{name}={default[-1]}" if len(default) > 1 and "=" not in name else name
