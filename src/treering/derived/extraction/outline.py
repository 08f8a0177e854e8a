"""The structure of a document: its headings, and the lists below them."""

import re
from collections.abc import Iterator

from treering.core.evidence import Triple
from treering.derived.extraction.relations import statement
from treering.ports.extractor import Entity


def heading_parts(heading: str) -> list[Entity]:
    """Return the parts of a heading path (`Install > Linux`), outermost first."""
    return [Entity(part.strip(), "heading") for part in heading.split(" > ") if part.strip()]


def outlined(text: str, *, heading: str) -> tuple[list[Entity], list[Triple | None]]:
    """Return headings and the heads of list items in Markdown `text`, and which heading each item is under."""
    entities: list[Entity] = []
    triples: list[Triple | None] = []
    for entity in _lines(text):
        entities.append(entity)
        if entity.kind == "heading":
            heading = entity.name
        else:
            triples.append(statement(heading, "lists", entity.name))
    return entities, triples


_LINE = re.compile(
    r"^(?:#{1,6}[ \t]++(?P<heading>[^\n]{1,200})"
    r"|[ \t]{0,12}(?:[-*+]|\d{1,3}[.)])[ \t]++(?:\[[ xX]\] )?(?P<mark>\*\*|__|`|\[)?(?P<item>[^\n:.*`\[\](–—,]{2,60}))",
    re.MULTILINE,
)
_MOST_WORDS = 6


def _lines(text: str) -> Iterator[Entity]:
    for match in _LINE.finditer(text):
        if match["heading"]:
            yield from _trimmed(match, "heading")
        elif len(match["item"].split()) <= _MOST_WORDS:
            yield from _trimmed(match, "item")


def _trimmed(match: re.Match[str], group: str) -> Iterator[Entity]:
    name = match[group].strip(" \t\r#*`")
    if name:
        start = match.start(group) + match[group].index(name)
        yield Entity(name, "heading" if group == "heading" else "phrase", start, start + len(name))
