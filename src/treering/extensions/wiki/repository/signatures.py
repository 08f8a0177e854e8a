"""Readable signatures from the lines of a definition, by rules for each family of languages."""

import re
from collections.abc import Sequence
from dataclasses import dataclass

_MOST_LINES = 400
_MOST_CHARS = 20_000
_OPENING, _CLOSING = "([", ")]"
_SPACES = re.compile(r"\s+")
_PYTHON = "py"
NAMESPACE = "namespace"
_COMMENT = re.compile(r"[ \t]#[^\n\"']*$", re.MULTILINE)
_KINDS = (
    ("class", re.compile(r"\bclass\b")),
    ("interface", re.compile(r"\b(?:interface|trait|protocol)\b")),
    ("struct", re.compile(r"\b(?:struct|union|record)\b")),
    ("enum", re.compile(r"\benum\b")),
    (
        "function",
        re.compile(r"\b(?:def|function|func|fn|async|sub|macro_rules)\b"),
    ),
    (NAMESPACE, re.compile(r"^\s*(?:inline\s+)?namespace\b")),
    ("type", re.compile(r"\b(?:type|typedef|using|namespace|module|mod)\b")),
)
_FUNCTION_VALUE = re.compile(r"\)\s*(?::[^=]{0,300})?=>")
_ARROW = re.compile(r"=\s*(?:async\s*)?(?:<[^=]{0,200}>)?\s*\(")
_TYPE_VARIABLE = re.compile(r"=\s*(?:\w+\.)?(?:TypeVar|ParamSpec|TypeVarTuple)\(")
_HIDDEN_MEMBER = re.compile(r"\b(?:private|protected|internal|static inline)\b")


@dataclass(frozen=True, slots=True)
class Signature:
    """The signature after the name of a definition, on one line, and its last line."""

    rest: str
    end: int


def has_body_docs(family: str) -> bool:
    """Return whether the documentation of a definition is inside of it, as in Python."""
    return family == _PYTHON


def signature_at(lines: Sequence[str], at: int, name: str, family: str) -> Signature:
    """Read the signature of the definition of `name` on a line."""
    line = lines[at]
    start = word_at(line, name)
    first = line[start + len(name) :] if start >= 0 else ""
    text = "\n".join([first, *lines[at + 1 : at + _MOST_LINES]])[:_MOST_CHARS]
    end = _end(text, family)
    if end is None:
        end = len(first)
    rest = _COMMENT.sub("", text[:end]) if family == _PYTHON else text[:end]
    return Signature(_tidy(_SPACES.sub(" ", rest).strip(), family), at + text.count("\n", 0, end))


def shortened(rest: str, most: int) -> str:
    """Shorten a signature to about `most` characters.

    The return type is dropped first, then the types of parameters, then the last parameters.
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
    first: list[str] = []
    for one in map(_untyped, parameters):
        if len(", ".join([*first, one])) > most - 5:
            break
        first.append(one)
    return f"({', '.join([*first, '…'])})"


def without_receiver(rest: str) -> str:
    """Remove `self` or `cls` from a signature of Python."""
    return re.sub(r"^\((?:self|cls)(?:,\s*|(?=\)))", "(", rest)


def kind_of(name: str, line: str, family: str, *, member: bool) -> str:
    """Return the kind of a definition, such as `class`, from its first line."""
    before = line[: max(word_at(line, name), 0)]
    kind = next((kind for kind, keyword in _KINDS if keyword.search(before or line)), "")
    if family == _PYTHON and "def " in before:
        kind = "function"
    if kind not in ("function", ""):
        return kind
    is_called = (
        kind == "function"
        or family in ("c", "java", "cs", "sh")
        or bool(_FUNCTION_VALUE.search(line) or _ARROW.search(line))
        or (member and ("(" in line or line.rstrip().endswith("<")))
    )
    return ("method" if member else "function") if is_called else "constant"


def is_public(name: str, line: str, family: str, *, member: bool) -> bool:
    """Return whether a definition is public, by its name and modifiers."""
    before = line[: max(word_at(line, name), 0)]  # behind the name, `private` is about a base class of C++
    if name.startswith(("_", "#")) or _TYPE_VARIABLE.search(line) or _HIDDEN_MEMBER.search(before):
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
            return not re.search(r"\bstatic\b", before)
        case _:
            return True


def split_outside(text: str, sign: str) -> list[str]:
    """Split a text at a character outside of brackets and strings."""
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
    """Return the end of a signature, or `None` if the text ends before it."""
    depth, angle, at = 0, 0, 0
    while at < len(text):
        char = text[at]
        quoted = _quoted(text, at, family)
        if quoted > at:
            at = quoted
            continue
        if char in _OPENING or (char == "{" and (depth or angle)):
            depth += 1
        elif char in _CLOSING or (char == "}" and (depth or angle)):
            depth -= 1
        elif char == "<" and family != _PYTHON and text[at + 1 : at + 2] not in ("<", "=", " "):
            angle += 1
        elif char == ">" and angle and text[at - 1] not in "-=":
            angle -= 1
        elif depth <= 0 and angle <= 0 and _stops(text, at, family):
            return at
        at += 1
    return len(text) if depth <= 0 and angle <= 0 else None


def _quoted(text: str, at: int, family: str) -> int:
    """Return the end of the string literal at `at`, or `at` if there is none."""
    char = text[at]
    if char not in "\"'`" or (family == "rs" and char != '"'):
        return at
    if text.startswith(char * 3, at):
        end = text.find(char * 3, at + 3)
        return end + 3 if end >= 0 else len(text)
    line_end = text.find("\n", at)
    end = text.find(char, at + 1, line_end if line_end >= 0 and char != "`" else len(text))
    return end + 1 if end >= 0 else at + 1


def _stops(text: str, at: int, family: str) -> bool:
    char = text[at]
    if family == _PYTHON:
        return char == ":" or (char == "=" and not text[:at].strip().startswith("("))
    if char == "\n":
        before = text[max(0, at - 20) : at].rstrip()
        return not before.endswith((",", "<", "|", "&", "->", "where", ":"))
    return char in "{;" or text.startswith("=>", at)


def _tidy(rest: str, family: str) -> str:
    arrow = _ARROW.search(rest) if family == "js" else None
    if arrow and not rest[: arrow.start()].strip().startswith("("):
        rest = rest[arrow.end() - 1 :]
    rest = re.sub(r"\s*[={]+$", "", rest).strip()
    rest = re.sub(r"^(?:struct|interface|func(?=\())", "", rest).strip() if family == "go" else rest
    rest = re.sub(r"\(\s+", "(", rest)
    rest = re.sub(r",?\s+\)", ")", rest)
    rest = rest.removeprefix(": ") if rest.startswith(": (") else rest
    return rest if rest[:1] in "([<:" or family != "js" else f" {rest}" if rest else ""


def _without_generics(rest: str) -> str:
    """Remove the type parameters at the start of a signature."""
    depth = 0
    for at, char in enumerate(rest):
        depth += (char == "<") - (char == ">" and rest[at - 1] not in "-=")
        if not depth:
            return rest[at + 1 :].lstrip()
    return ""


def _parameters(rest: str) -> tuple[str | None, str]:
    """Return the parameters of a signature, and the text after them."""
    if not rest.startswith("("):
        return None, ""
    depth = 0
    for at, char in enumerate(rest):
        depth += (char in "([{") - (char in ")]}")
        if not depth:
            return rest[1:at], rest[at + 1 :]
    return None, ""


def _untyped(parameter: str) -> str:
    """Remove the type of a parameter, but not its default."""
    name = split_outside(parameter, ":")[0] if ":" in parameter else parameter
    if name == parameter:
        return parameter
    default = split_outside(parameter, "=")
    has_default = len(default) > 1 and "=" not in name and not default[-1].startswith(">")
    return f"{name}={default[-1]}" if has_default else name


def word_at(line: str, word: str) -> int:
    """Return the position of a whole word in a line, or -1. `$` is part of words.

    A regular expression per word would take longer to compile than to match.
    """
    at = line.find(word) if word else -1
    while at >= 0:
        end = at + len(word)
        if not (_is_part(line[at - 1 : at]) and _is_part(word[0])) and not _is_part(line[end : end + 1]):
            return at
        at = line.find(word, at + 1)
    return -1


def _is_part(char: str) -> bool:
    return char.isalnum() or char in ("_", "$")
