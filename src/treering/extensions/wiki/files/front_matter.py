"""The front matter of a page: write it as YAML, and find the entries of a person."""

import re
from collections.abc import Iterator, Mapping, Sequence

OURS = frozenset("okf_version type title description aliases status generated sources verified stale_after".split())
"""The keys that Treering writes; all others belong to a person and are preserved."""

_RULE = "---"
_MATTER = re.compile(r"\A---\n.*?\n---\n", re.DOTALL)
_KEY = re.compile(r"""(?P<quote>["']?)(?P<key>[^\s:#"'][^:"']*?)(?P=quote)\s*:(?:\s|$)""")
_PLAIN = re.compile(r"[A-Za-z][A-Za-z0-9_]*")
_AMBIGUOUS = frozenset("y n yes no on off true false null none".split())
_ESCAPES = {'"': '\\"', "\\": "\\\\", "\n": "\\n", "\t": "\\t", "\r": "\\r"}

Scalar = str | bool
MatterField = Scalar | Sequence[str]


def front_matter(fields: Mapping[str, MatterField]) -> str:
    """Write front matter as YAML between `---` lines, ending in a line feed."""
    lines = [line for key, value in fields.items() for line in _lines(key, value)]
    return "\n".join([_RULE, *lines, _RULE, ""])


def without_matter(text: str) -> str:
    """Return a page without its front matter."""
    return _MATTER.sub("", text.removeprefix("\ufeff").replace("\r\n", "\n"), count=1)


def own_entries(text: str) -> tuple[str, str]:
    """Split a text into Treering's text and a person's entries of the front matter."""
    lines = text.split("\n")
    end = next((at for at, line in enumerate(lines[1:], 1) if line.rstrip() == _RULE), 0)
    if not end or lines[0].rstrip() != _RULE:
        return text, ""
    ours, own = list[str](), list[str]()
    into = ours
    for line in lines[1:end]:
        if entry := _KEY.match(line):
            into = ours if entry["key"] in OURS else own
        into.append(line)
    return "\n".join([lines[0], *ours, *lines[end:]]), "\n".join(own)


def with_own_entries(text: str, own: str) -> str:
    """Append a person's entries to the front matter of a text."""
    if not own:
        return text
    lines = text.split("\n")
    end = next((at for at, line in enumerate(lines[1:], 1) if line.rstrip() == _RULE), 0)
    if not end or lines[0].rstrip() != _RULE:
        return "\n".join([_RULE, own, _RULE, "", text])
    return "\n".join([*lines[:end], own, *lines[end:]])


def _lines(key: str, value: MatterField) -> Iterator[str]:
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
    # Characters that are not allowed in YAML, and line separators.
    if code < 0x20 or 0x7F <= code <= 0xA0 or code in (0x2028, 0x2029, 0xFEFF, 0xFFFE, 0xFFFF):
        return f"\\u{code:04x}"
    return "\ufffd" if 0xD800 <= code <= 0xDFFF else char
