"""Signatures as people read them, taken from the lines of a definition by rules for each family of languages."""

import re
from collections.abc import Sequence
from dataclasses import dataclass

_MOST_LINES = 400
_MOST_CHARS = 20_000
_MOST_ANNOTATED = 60
_OPENING, _CLOSING = "([", ")]"
_SPACES = re.compile(r"\s+")
_PYTHON = "py"
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
    ("type", re.compile(r"\b(?:type|typedef|namespace|module|mod)\b")),
)
_FUNCTION_VALUE = re.compile(r"\)\s*(?::[^=]{0,300})?=>")
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
    start = word_at(line, name)
    first = line[start + len(name) :] if start >= 0 else ""
    text = "\n".join([first, *lines[at + 1 : at + _MOST_LINES]])[:_MOST_CHARS]
    end = _end(text, family)
    if end is None:
        end = len(first)
    rest = _COMMENT.sub("", text[:end]) if family == _PYTHON else text[:end]
    return Signature(_tidy(_SPACES.sub(" ", _unannotated(rest)).strip(), family), at + text.count("\n", 0, end))


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


def kind_of(name: str, line: str, family: str, *, member: bool) -> str:
    """Return in a word what a line defines that names it."""
    before = line[: max(word_at(line, name), 0)]
    said_before = "function" if family == _PYTHON and "def " in before else ""
    found = said_before or next((kind for kind, said in _KINDS if said.search(before or line)), "")
    found = found or ("function" if _FUNCTION_VALUE.search(line) else "")
    if found in ("function", ""):
        is_called = (
            found == "function"
            or bool(_ARROW.search(line))
            or (member and ("(" in line or line.rstrip().endswith("<")))
        )
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
    """Return where a signature ends; `None` where the text does not hold its end."""
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
    """Return where a string that begins here ends, or `at` where none does; one of a single line ends with it."""
    char = text[at]
    if char not in "\"'`" or (family == "rs" and char != '"'):
        return at
    if text.startswith(char * 3, at):
        end = text.find(char * 3, at + 3)
        return end + 3 if end >= 0 else len(text)
    line_end = text.find("\n", at)
    end = text.find(char, at + 1, line_end if line_end >= 0 and char != "`" else len(text))
    return end + 1 if end >= 0 else at + 1


def _unannotated(rest: str) -> str:
    """Return a signature of Python whose types say no more than the type: `Annotated[int, …]` becomes `int`."""
    at = rest.find("Annotated[")
    for _ in range(_MOST_ANNOTATED):
        if at < 0:
            break
        start = at + len("Annotated[")
        end = _closing(rest, start)
        kind = (split_outside(rest[start:end], ",") or [""])[0]
        rest = f"{rest[:at]}{kind}{rest[end + 1 :]}"
        at = rest.find("Annotated[", at)
    return rest


def _closing(text: str, at: int) -> int:
    """Return where the bracket that was opened before ends; the end of the text where it does not."""
    depth = 0
    while at < len(text):
        after = _quoted(text, at, _PYTHON)
        if after > at:
            at = after
            continue
        depth += (text[at] in "[(") - (text[at] in "])")
        if depth < 0:
            return at
        at += 1
    return len(text)


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
    has_default = len(default) > 1 and "=" not in name and not default[-1].startswith(">")
    return f"{name}={default[-1]}" if has_default else name


# Finding a name in a line where it stands as a whole word: without a pattern, which costs more to make than to use.


def word_at(line: str, word: str) -> int:
    """Return where a word stands in a line by itself, -1 where it does not; `$` belongs to words, too."""
    at = line.find(word) if word else -1
    while at >= 0:
        end = at + len(word)
        if not (_is_part(line[at - 1 : at]) and _is_part(word[0])) and not _is_part(line[end : end + 1]):
            return at
        at = line.find(word, at + 1)
    return -1


def _is_part(char: str) -> bool:
    return char.isalnum() or char in ("_", "$")
