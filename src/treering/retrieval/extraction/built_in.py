"""Extract entities and statements by rules, without a model: from prose, dialogue and code."""

import re
from collections.abc import Iterator, Sequence

from treering.core.evidence import Triple
from treering.ports.models import Entity, EntityKind, Excerpt, Extraction, PlainExtraction, Statement
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
        case "code":
            return read_code(excerpt)
        case "data":
            return _read_names(excerpt)
        case "prose":
            return _read_prose(excerpt)


def _read_names(excerpt: Excerpt) -> _Found:
    """Read only the title and headings of data. Its values are found by words and would link everything as entities."""
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


def read_code(excerpt: Excerpt) -> _Found:
    """Read code in any of the usual languages: imports, calls, definitions, constants and types.

    The heading is the symbol that the code defines. A call on the instance itself (`self.flush()` in `Ledger.commit`)
    is related to the full symbol (`Ledger.flush`).
    """
    symbol = excerpt.heading or excerpt.title
    entities = [Entity(symbol, "symbol")] if symbol.strip() else []
    stated: dict[tuple[str, str], None] = {}  # without repetitions, which are common in code
    for relation, kind, name, span, target in _uses(excerpt.text, symbol):
        entities.append(Entity(name, kind, *span))
        if relation:
            stated[relation, target] = None
    return entities, distinct(statement(symbol, *relation) for relation in stated) if symbol.strip() else []


_BEGINS_USE = (
    "pub|from|import|use|using|require|include"
    "|def|class|function|fn|func|struct|interface|trait|enum|protocol|module|type"
)
_PATH = r"[A-Za-z_@][\w@]*+(?>(?:(?:\.|::|/|-)\w++)*)"
_USE = re.compile(
    r"(?=[A-Za-z_#]|^[ \t])(?:"  # skips most positions at once
    # Words that begin none of the alternatives, with the rest of the line: most of a text.
    rf"(?:(?!(?:{_BEGINS_USE})\b)[a-z_]\w*+(?![(.:!\-])[^A-Za-z_#\n]*+)+"
    rf"|^[ \t]{{0,40}}(?:pub )?(?:from[ ]++(?P<from>\.*+[\w.]*+)[ ]++import[ ]++\(?(?P<names>[^\n()#]{{0,300}})"
    rf"|(?:import|use|using|require|include)[ ]++(?:static )?(?P<module>{_PATH}))"
    r"|#include[ ]*+[<\"](?P<header>[^>\"\n]{1,200})[>\"]"
    r"|\b(?:from|require|import)[ ]?\(?[ ]?['\"](?P<path>[^'\"\n]{1,200})['\"]"
    r"|\b(?:def|class|function|fn|func|struct|interface|trait|enum|protocol|module|type)[ ]++(?P<defined>[A-Za-z_]\w*+)"
    r"|(?<![\w.])(?:(?:self|this|cls)(?:\.|->|::)(?P<own>[A-Za-z_]\w*+)\("
    r"|(?P<called>[A-Za-z_]\w*+(?>(?:(?:\.|::|->)[A-Za-z_]\w*+){0,20}))!?\("
    r"|(?P<constant>[A-Z][A-Z0-9]*+_[A-Z0-9_]++|[A-Z][A-Z0-9]{3,}+)(?!\w)"
    r"|(?P<type>[A-Z][a-z0-9]++(?>(?:[A-Z][a-z0-9]*+)+))(?!\w))"
    r"|[A-Za-z_]\w*+)",
    re.MULTILINE,
)
_IMPORTED = re.compile(r"(?P<name>[A-Za-z_]\w*+)(?: as \w++)?")
_KINDS: dict[str, tuple[str, EntityKind]] = {
    "from": ("imports", "module"),
    "names": ("imports", "module"),
    "module": ("imports", "module"),
    "header": ("imports", "module"),
    "path": ("imports", "module"),
    "defined": ("defines", "symbol"),
    "own": ("calls", "symbol"),
    "called": ("calls", "symbol"),
    "constant": ("", "symbol"),
    "type": ("", "symbol"),
}
_JOINT = re.compile(r"\.|::|->")
_LONGEST_VALUE = 120
_SHORTEST_NAME = 3
# Names that every program uses identify none.
_EVERYWHERE = frozenset(
    """if for while switch catch return and or not in is match when with assert print len range str int float bool list
    dict set tuple super isinstance issubclass type getattr setattr hasattr enumerate zip map filter sorted sum min max
    any all open repr iter next abs round format join split strip append extend get items keys values pop add update
    println printf sizeof malloc free new delete typeof instanceof function fn def func class defined push
    len. cap make panic unwrap expect clone into from some none ok err vec console.log string number array object lambda
    yield await async elif else except del raise throw self this cls void const let var static public private""".split()
)


_CodeName = tuple[str, EntityKind, str, tuple[int, int], str]


def _uses(text: str, symbol: str) -> Iterator[_CodeName]:
    """Yield each use in order: its relation, kind, name, position, and its name in a statement."""
    owner, _, own = symbol.rpartition(".")
    for match in _USE.finditer(text):
        group = match.lastgroup
        if group is None:
            continue
        if group == "names":
            yield from _imports(match)
            continue
        name = match[group]
        if name != own and _is_telling(name):
            relation, kind = _KINDS[group]
            target = f"{owner}.{name}" if group == "own" and owner else name
            yield relation, kind, name, match.span(group), target


def _imports(match: re.Match[str]) -> Iterator[_CodeName]:
    module = match["from"]
    if module:
        yield "imports", "module", module, match.span("from"), module
    for one in _IMPORTED.finditer(match.string, *match.span("names")):
        yield "imports", "symbol", one["name"], one.span("name"), one["name"]


def _is_telling(name: str) -> bool:
    if name in _EVERYWHERE or not _SHORTEST_NAME <= len(name) <= _LONGEST_VALUE:
        return False
    return name.isidentifier() or _JOINT.split(name)[-1] not in _EVERYWHERE
