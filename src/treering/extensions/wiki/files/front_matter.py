"""The front matter of a page: write it as YAML, and find the entries of a person."""

import json
import re
from collections.abc import Iterator, Mapping, Sequence

from treering.core.characters import well_formed

OURS = frozenset("okf_version type title description aliases status generated sources verified stale_after".split())
"""The keys that Treering writes; all others belong to a person and are preserved."""

_RULE = "---"
_MATTER = re.compile(r"\A---\n.*?\n---\n", re.DOTALL)
_KEY = re.compile(r"""(?P<quote>["']?)(?P<key>[^\s:#"'][^:"']*?)(?P=quote)\s*:(?:\s|$)""")
_PLAIN = re.compile(r"[A-Za-z][A-Za-z0-9_]*")
_AMBIGUOUS = frozenset("y n yes no on off true false null none".split())
_NOT_IN_YAML = re.compile("[\x7f-\xa0\u2028\u2029\ufeff\ufffe\uffff]")

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
    # A string of JSON is one of YAML, except for characters that YAML does not allow and line separators.
    text = json.dumps(well_formed(value), ensure_ascii=False)
    return _NOT_IN_YAML.sub(lambda found: f"\\u{ord(found[0]):04x}", text)
