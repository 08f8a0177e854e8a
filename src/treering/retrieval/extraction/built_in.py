"""Extract entities and statements by rules, without a model: from prose and dialogue."""

import re
from collections.abc import Iterator, Sequence

from treering.core.evidence import Triple
from treering.ports.models import Entity, Excerpt, Extraction, PlainExtraction, Statement
from treering.retrieval.extraction.names import (
    AUXILIARIES,
    CONNECTIVES,
    DETERMINERS,
    FLAT,
    PLEASANTRIES,
    PREPOSITIONS,
    PRONOUNS,
    VERBS,
    WORD_SIGN,
    bare_title,
)
from treering.retrieval.extraction.prose import (
    NamedEntities,
    by_sentence,
    distinct,
    read,
    relate,
    statement,
    telling_words,
    without_overlaps,
)


class BuiltInExtractor:
    """Find entities and triples by capitals, quotes, numbers, function words and structure.

    It is stateless and deterministic, and takes time linear in the length of a text.
    """

    @property
    def extractor_id(self) -> str:
        """Name and version of the rules. If it changes, every space extracts all of its passages again.

        It stays the same if the rules change for few texts: `lint reindex` reports and repairs the differences.
        """
        return "built-in-1"

    def extract(self, excerpts: Sequence[Excerpt]) -> list[Extraction]:
        """Extract each excerpt independently; return one extraction for each, in order."""
        return [_extraction(*_read(excerpt)) for excerpt in excerpts]

    def extract_plainly(self, excerpts: Sequence[Excerpt]) -> list[PlainExtraction]:
        """Return only the names and statements of `extract`."""
        read = map(_read, excerpts)
        return [PlainExtraction([entity.name for entity in entities], statements) for entities, statements in read]


_Found = tuple[Sequence[Entity], Sequence[Statement]]


def _extraction(entities: Sequence[Entity], statements: Sequence[Statement]) -> Extraction:
    triples = (Triple(subject=subject, relation=relation, object=end) for subject, relation, end in statements)
    return Extraction(tuple(entities), tuple(triples))


def _read(excerpt: Excerpt) -> _Found:
    match excerpt.form:
        case "dialogue":
            return read_dialogue(excerpt)
        case "code" | "data":
            return _read_names(excerpt)
        case "prose":
            return _read_prose(excerpt)


def _read_names(excerpt: Excerpt) -> _Found:
    """Read only the title and headings of code and data.

    Values of data are found by words and would link everything as entities. With names read off code by patterns, the
    file that answers came lower: it was first for 61 instead of 65 of 89 questions about two repositories.
    """
    return _front(bare_title(excerpt.title), heading_parts(excerpt.heading)), ()


def _read_prose(excerpt: Excerpt) -> _Found:
    title = bare_title(excerpt.title)
    headings = heading_parts(excerpt.heading)
    subject = title or (headings[-1].name if headings else "")
    reading = read(excerpt.text, title=title)
    items, listed = outlined(excerpt.text, heading=headings[-1].name if headings else title)
    if items:
        reading = NamedEntities(without_overlaps([*items, *reading.entities]), reading.ends)
    related = relate(excerpt.text, reading, subject=subject)
    stated = distinct([*listed, *related]) if listed else related
    return (*_front(title, headings), *reading.entities), stated


def _front(title: str, headings: Sequence[Entity]) -> tuple[Entity, ...]:
    """Return the entities before the text."""
    return (*([Entity(title, "title")] if title else []), *headings)


def heading_parts(heading: str) -> list[Entity]:
    """Return the parts of a heading path (`Install > Linux`), outermost first."""
    return [Entity(part.strip(), "heading") for part in heading.split(" > ") if part.strip()]


def outlined(text: str, *, heading: str) -> tuple[list[Entity], list[Statement | None]]:
    """Return the headings and the beginnings of list items in Markdown `text`, and a statement for each item."""
    entities: list[Entity] = []
    stated: list[Statement | None] = []
    for entity in _lines(text):
        entities.append(entity)
        if entity.kind == "heading":
            heading = entity.name
        else:
            stated.append(statement(heading, "lists", entity.name))
    return entities, stated


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


def read_dialogue(excerpt: Excerpt) -> _Found:
    """Read one turn, or several that each begin with `Name:` on a line. `I` is the speaker."""
    entities: list[Entity] = []
    stated: list[Statement | None] = []
    for speaker, start, text in _turns(excerpt):
        reading = _read_turn(text)
        entities += [Entity(speaker, "speaker")] if speaker else []
        entities += [Entity(one.name, one.kind, one.start + start, one.end + start) for one in reading.entities]
        stated += _statements_by(speaker, text, reading)
    return entities, distinct(stated)


_TURN = re.compile(r"^(?:\[[^\]\n]{0,40}\] ?)?(?P<speaker>[^\W\d_][^\n:]{0,30}):[ \t]", re.MULTILINE)
_MOST_RELATION_WORDS = 6
_MOST_TOPICS = 4  # per sentence


def _turns(excerpt: Excerpt) -> Iterator[tuple[str, int, str]]:
    """Yield the speaker of each turn, the offset of its words, and its words."""
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


def _statements_by(speaker: str, text: str, reading: NamedEntities) -> Iterator[Statement | None]:
    if not speaker:
        return
    for begin, topics in by_sentence(reading):
        yield from _sentence(text, begin, topics[:_MOST_TOPICS], speaker)


def _sentence(text: str, begin: int, topics: Sequence[Entity], speaker: str) -> Iterator[Statement | None]:
    relation, place = "", begin
    for topic in topics:
        words = telling_words(text[place : topic.start], most=_MOST_RELATION_WORDS).split()
        near = " ".join(word for word in words if word.lower() not in PLEASANTRIES)
        relation = near if near and near not in ("and", "or") else relation
        if relation:  # a name alone only addresses a person
            yield statement(speaker, relation, topic.name)
        place = topic.end


def noun_chunks(text: str) -> list[Entity]:
    """Return topics without a name: one to three words after a determiner, a preposition or a verb."""
    topics: list[Entity] = []
    run: list[tuple[int, int]] = []
    opened = False
    before = 0
    for match in _WORD.finditer(text):
        word = match[0].lower()
        if not text[before : match.start()].isspace():
            topics += _chunk(text, run, opened)
            run, opened = [], False
        before = match.end()
        if word not in _SMALL and not word.endswith("ly"):
            run = [*run[-_LONGEST_RUN:], match.span()]
            continue
        topics += _chunk(text, run, opened)
        run, opened = [], word in _OPENING
    return topics + list(_chunk(text, run, opened))


_WORD = re.compile(rf"{WORD_SIGN}++(?>(?:[’'\-+]{WORD_SIGN}++)*)\+?")
_OPENING = (DETERMINERS | PREPOSITIONS | VERBS) - {"to"}  # `to` is often followed by a verb
_SMALL = _OPENING | {"to"} | PRONOUNS | CONNECTIVES | AUXILIARIES | PLEASANTRIES
_MOST_TOPIC_WORDS = 3
_LONGEST_RUN = 12
_SHORTEST = 4  # characters
_LONGEST = 60
_ATTRIBUTE = re.compile(r"(?:ed|ful|ous|ive|able)$")


def _chunk(text: str, run: list[tuple[int, int]], opened: bool) -> Iterator[Entity]:
    words = run
    while words and text[slice(*words[-1])].lower() in FLAT:
        words = words[:-1]
    words = words[-_MOST_TOPIC_WORDS:]
    while words and text[slice(*words[0])].lower() in FLAT:
        words = words[1:]
    if not words or (len(words) == 1 and not opened) or _ATTRIBUTE.search(text[slice(*words[-1])]):
        return
    start, end = words[0][0], words[-1][1]
    if _SHORTEST <= end - start <= _LONGEST:
        yield Entity(text[start:end], "phrase", start, end)
