"""Signatures of definitions, shortened for readers."""

import re

_ASSIGNED = re.compile(r"^(?::[^=]*)?=(?!>)\s*(?:async\b\s*)?(?:function\b\s*\*?\s*\w*\s*)?")
"""The text between the name of a function that is a value and its parameters."""
_KEYWORD = re.compile(r"^(?:struct|interface)\b\s*")
"""The keyword that Go writes after the name of a type."""


def after_name(signature: str, name: str) -> str:
    """Return the part of a signature after the name of the definition."""
    at = word_at(signature, name)
    rest = signature[at + len(name) :].strip() if at >= 0 else ""
    rest = re.sub(r",?\s+\)", ")", re.sub(r"\(\s+", "(", rest))
    return _KEYWORD.sub("", _ASSIGNED.sub("", rest))


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


def _without_generics(rest: str) -> str:
    """Remove the type parameters at the start of a signature."""
    end = _closing(rest, "<", ">")
    return rest[end + 1 :].lstrip() if end else ""


def _closing(text: str, opening: str, closing: str) -> int:
    """Return the position of the bracket that closes the one at the start of a text, or 0 if there is none."""
    depth = 0
    for at, char in enumerate(text):
        depth += (char in opening) - (char in closing and text[at - 1 : at + 1] not in ("->", "=>"))
        if not depth:
            return at
    return 0


def _parameters(rest: str) -> tuple[str | None, str]:
    """Return the parameters of a signature, and the text after them."""
    if not rest.startswith("("):
        return None, ""
    if end := _closing(rest, "([{", ")]}"):
        return rest[1:end], rest[end + 1 :]
    return f"{rest[1:].rpartition(',')[0]}, …", ""  # the outline cuts very long ones


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
