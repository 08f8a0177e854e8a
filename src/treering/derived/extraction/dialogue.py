"""What is said in a conversation: who speaks, of what, in which words."""

import re
from collections.abc import Iterator, Sequence

from treering.core.evidence import Triple
from treering.derived.extraction.chunks import noun_chunks
from treering.derived.extraction.prose import NamedEntities, read, without_overlaps
from treering.derived.extraction.relations import by_sentence, distinct, statement, telling_words
from treering.derived.extraction.words import PLEASANTRIES
from treering.ports.extractor import Entity, Excerpt, Extraction


def read_dialogue(excerpt: Excerpt) -> Extraction:
    """Read one turn, or several that each begin with `Name:` on a line. `I` is who speaks."""
    entities: list[Entity] = []
    triples: list[Triple | None] = []
    for speaker, start, text in _turns(excerpt):
        reading = _read_turn(text)
        entities += [Entity(speaker, "speaker")] if speaker else []
        entities += [Entity(one.name, one.kind, one.start + start, one.end + start) for one in reading.entities]
        triples += _said(text, reading, speaker)
    return Extraction(tuple(entities), tuple(distinct(triples)))


_TURN = re.compile(r"^(?:\[[^\]\n]{0,40}\] ?)?(?P<speaker>[^\W\d_][^\n:]{0,30}):[ \t]", re.MULTILINE)
_MOST_WORDS = 6  # of a relation
_MOST_TOPICS = 4  # of a sentence


def _turns(excerpt: Excerpt) -> Iterator[tuple[str, int, str]]:
    """Return each turn's speaker, the offset of its words, and its words."""
    text = excerpt.text
    openings = [] if excerpt.speaker else list(_TURN.finditer(text))
    first = openings[0].start() if openings else len(text)
    if text[:first].strip():
        yield excerpt.speaker, 0, text[:first]
    ends = [opening.start() for opening in openings[1:]] + [len(text)]
    for opening, end in zip(openings, ends, strict=False):
        yield opening["speaker"].strip(), opening.end(), text[opening.end() : end]


def _read_turn(text: str) -> NamedEntities:
    reading = read(text)
    named = [one for one in reading.entities if one.name.lower() not in PLEASANTRIES]
    return NamedEntities(without_overlaps([*named, *noun_chunks(text)]), reading.ends)


def _said(text: str, reading: NamedEntities, speaker: str) -> Iterator[Triple | None]:
    if not speaker:
        return
    for begin, topics in by_sentence(reading):
        yield from _sentence(text, begin, topics[:_MOST_TOPICS], speaker)


def _sentence(text: str, begin: int, topics: Sequence[Entity], speaker: str) -> Iterator[Triple | None]:
    relation, place = "", begin
    for topic in topics:
        words = telling_words(text[place : topic.start], most=_MOST_WORDS).split()
        told = " ".join(word for word in words if word.lower() not in PLEASANTRIES)
        relation = told if told and told not in ("and", "or") else relation
        if relation:  # a name alone calls somebody: nothing is said of it
            yield statement(speaker, relation, topic.name)
        place = topic.end
