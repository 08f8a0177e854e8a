"""The extractor that needs no model: rules for prose, dialogue and code."""

from collections.abc import Sequence

from treering.derived.extraction.code import read_code
from treering.derived.extraction.dialogue import read_dialogue
from treering.derived.extraction.names import bare_title
from treering.derived.extraction.outline import heading_parts, outlined
from treering.derived.extraction.prose import NamedEntities, read, without_overlaps
from treering.derived.extraction.relations import distinct, relate
from treering.ports.extractor import Entity, Excerpt, Extraction


class BuiltInExtractor:
    """Finds entities and triples by capitals, quotes, numbers, small words and structure. It keeps no state.

    Same excerpt, same extraction, in every process. Any text is read in time linear in its length.
    """

    @property
    def extractor_id(self) -> str:
        """Name and version of the rules; it changes with what they find."""
        return "built-in-1"

    def extract(self, excerpts: Sequence[Excerpt]) -> list[Extraction]:
        """Read excerpts, each by itself; return one extraction for each, in the order given."""
        return [_read(excerpt) for excerpt in excerpts]


def _read(excerpt: Excerpt) -> Extraction:
    match excerpt.form:
        case "dialogue":
            return read_dialogue(excerpt)
        case "code":
            return read_code(excerpt)
        case "data":
            return _read_names(excerpt)
        case "prose":
            return _read_prose(excerpt)


def _read_names(excerpt: Excerpt) -> Extraction:
    """Read what data is called. What it holds is values, which words find; as entities they would tie everything."""
    return Extraction(_front(bare_title(excerpt.title), heading_parts(excerpt.heading)))


def _read_prose(excerpt: Excerpt) -> Extraction:
    title = bare_title(excerpt.title)
    headings = heading_parts(excerpt.heading)
    subject = title or (headings[-1].name if headings else "")
    reading = read(excerpt.text, title=title)
    items, listed = outlined(excerpt.text, heading=headings[-1].name if headings else title)
    if items:
        reading = NamedEntities(without_overlaps([*items, *reading.entities]), reading.ends)
    related = relate(excerpt.text, reading, subject=subject)
    triples = distinct([*listed, *related]) if listed else related
    return Extraction((*_front(title, headings), *reading.entities), tuple(triples))


def _front(title: str, headings: Sequence[Entity]) -> tuple[Entity, ...]:
    """Return what stands before the text."""
    return (*([Entity(title, "title")] if title else []), *headings)
