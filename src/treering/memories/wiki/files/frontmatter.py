"""The front matter of a page: written as YAML that every reader takes, and the lines in it that are a person's."""

import re
from collections.abc import Iterator, Mapping, Sequence

OURS = frozenset("okf_version type title description aliases status generated sources verified stale_after".split())
"""The keys that Treering writes; all others are a person's own and stay."""

_RULE = "---"
_KEY = re.compile(r"""(?P<quote>["']?)(?P<key>[^\s:#"'][^:"']*?)(?P=quote)\s*:(?:\s|$)""")
_PLAIN = re.compile(r"[A-Za-z][A-Za-z0-9_]*")
_AMBIGUOUS = frozenset("y n yes no on off true false null none".split())
_ESCAPES = {'"': '\\"', "\\": "\\\\", "\n": "\\n", "\t": "\\t", "\r": "\\r"}

Scalar = str | bool
Field = Scalar | Sequence[str]


def front_matter(fields: Mapping[str, Field]) -> str:
    """Write front matter with its rules, ending in a line feed."""
    lines = [line for key, value in fields.items() for line in _lines(key, value)]
    return "\n".join([_RULE, *lines, _RULE, ""])


def own_entries(text: str) -> tuple[str, str]:
    """Part a text into itself without the entries of its front matter that are not ours, and these entries."""
    lines = text.split("\n")
    end = next((at for at, line in enumerate(lines[1:], 1) if line.rstrip() == _RULE), 0)
    if not end or lines[0].rstrip() != _RULE:
        return text, ""
    kept, own = list[str](), list[str]()
    into = kept
    for line in lines[1:end]:
        found = _KEY.match(line)
        if found:
            into = kept if found["key"] in OURS else own
        into.append(line)
    return "\n".join([lines[0], *kept, *lines[end:]]), "\n".join(own)


def with_own_entries(text: str, own: str) -> str:
    """Put a person's entries at the end of the front matter of a text."""
    if not own:
        return text
    lines = text.split("\n")
    end = next((at for at, line in enumerate(lines[1:], 1) if line.rstrip() == _RULE), 0)
    if not end or lines[0].rstrip() != _RULE:
        return "\n".join([_RULE, own, _RULE, "", text])
    return "\n".join([*lines[:end], own, *lines[end:]])


def _lines(key: str, value: Field) -> Iterator[str]:
    if isinstance(value, bool | str):
        yield f"{key}: {_scalar(value)}"
    elif not value:
        yield f"{key}: []"
    else:
        yield f"{key}:"
        yield from (f"  - {_scalar(each)}" for each in value)


def _scalar(value: Scalar) -> str:
    if isinstance(value, bool):
        return "true" if value else "false"
    if _PLAIN.fullmatch(value) and value.lower() not in _AMBIGUOUS:
        return value
    return '"' + "".join(map(_character, value)) + '"'


def _character(char: str) -> str:
    if char in _ESCAPES:
        return _ESCAPES[char]
    code = ord(char)
    # What YAML does not let stand in a text, and what would end a line in it.
    if code < 0x20 or 0x7F <= code <= 0xA0 or code in (0x2028, 0x2029, 0xFEFF, 0xFFFE, 0xFFFF):
        return f"\\u{code:04x}"
    return "\ufffd" if 0xD800 <= code <= 0xDFFF else char
