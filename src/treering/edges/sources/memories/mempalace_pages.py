"""Rooms of MemPalace as its export writes them: a Markdown page with a heading, a quote and a table per drawer."""

import re
from collections.abc import Iterator

from treering.edges.sources.loose_json import moment
from treering.edges.sources.memories.memory import ForeignMemory

_PAGE = re.compile(r"\A# (?P<wing>[^\n]{1,300}) / (?P<room>[^\n/]{1,300})\n\n## [^\n]{1,300}\n\n> ")
_DRAWER = re.compile(
    r"^## (?P<id>[^\n]{1,300})\n\n(?P<quote>>[^\n]*(?:\n>[^\n]*)*)\n\n"
    r"\| Field \| Value \|\n\|-+\|-+\|\n(?P<rows>(?:\|[^\n]*\|\n)*)",
    re.MULTILINE,
)
_ROW = re.compile(r"^\| (Source|Filed|Added by) \| (.*) \|$", re.MULTILINE)
_NAMES = {"Source": "source_file", "Filed": "filed_at", "Added by": "added_by"}


def is_room(text: str) -> bool:
    """Tell whether a text is the page of a room."""
    return bool(_PAGE.match(text) and _DRAWER.search(text))


def read_room(text: str) -> Iterator[ForeignMemory]:
    """Return the drawers of a room."""
    page = _PAGE.match(text)
    if page is None:
        return
    for drawer in _DRAWER.finditer(text):
        said = "\n".join(line.removeprefix(">").removeprefix(" ") for line in drawer["quote"].split("\n"))
        told = {_NAMES[name]: value for name, value in _ROW.findall(drawer["rows"]) if value != "unknown"}
        yield ForeignMemory(
            "mempalace",
            drawer["id"].strip(),
            said,
            at=moment(told.get("filed_at")),
            metadata={"wing": page["wing"], "room": page["room"], **told},
        )
