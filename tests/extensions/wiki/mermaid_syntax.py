"""A strict reader of the small part of Mermaid that the pages use; it refuses whatever it does not know."""

import re

_LABEL = r'"(?:[\w ./:,()@+-]|…|#\d{1,7};)*"'
_LINES = (
    re.compile(rf"    (?P<box>n\d+)\[{_LABEL}\]"),
    re.compile(rf"    (?P<start>n\d+) (?:-->|-\.->)(?:\|{_LABEL}\|)? (?P<end>n\d+)"),
    re.compile(r"    style (?P<styled>n\d+) stroke-width:\d+px"),
)


def diagrams(markdown):
    """Return the Mermaid diagrams of a page."""
    return re.findall(r"^```mermaid\n(.*?)\n```$", markdown, re.MULTILINE | re.DOTALL)


def check_diagram(text):
    """Raise `AssertionError` where a diagram is not one of boxes and arrows between boxes that it has."""
    head, *lines = text.split("\n")
    assert head in ("flowchart LR", "flowchart TD"), head
    found = [next(filter(None, (one.fullmatch(line) for one in _LINES)), line) for line in lines]
    assert all(isinstance(one, re.Match) for one in found), [one for one in found if isinstance(one, str)]
    groups = [one.groupdict() for one in found]
    boxes = [one["box"] for one in groups if "box" in one]
    ends = [one[key] for one in groups for key in ("start", "end", "styled") if key in one]
    assert len(boxes) == len(set(boxes))
    assert set(ends) <= set(boxes)
    assert any("start" in one for one in groups)
