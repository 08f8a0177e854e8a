"""Find names, titles, dates and measures in prose, by capitals or, in scripts without case, by runs of letters."""

import re
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from functools import cache, lru_cache
from itertools import pairwise

from treering.ports.models import Entity, EntityKind, Statement
from treering.retrieval.extraction.names import (
    BODIES,
    CONNECTIVES,
    DETERMINERS,
    GENERIC,
    HAN,
    HANGUL,
    KATAKANA,
    LEADING,
    LETTER,
    OPENERS,
    PREPOSITIONS,
    PRONOUNS,
    ROLES,
    SPACED,
    THAI,
    UPPER,
    WORD_SIGN,
    entity_key,
)
from treering.retrieval.text.languages import is_function_word, language_of, may_be_function_word


@dataclass(frozen=True, slots=True)
class NamedEntities:
    """The entities of a text, in order and without overlaps, and the offsets at which its sentences end."""

    entities: list[Entity]
    ends: list[int]


def read(text: str, *, title: str = "") -> NamedEntities:
    """Find the entities of prose; each literal mention of `title` is one entity."""
    entities: list[Entity] = []
    ends: list[int] = []
    plain = _PlainWords(text)
    for match in _scan().finditer(text):
        match match.lastgroup:
            case "name":
                opens = _opens_sentence(text, ends[-1] if ends else 0, match.start())
                entities += _names(text, match.start(), match.end(), opens, plain)
            case "end":
                ends.append(match.end())
            case "plain" | "other" | None:
                pass
            case group:
                entities.append(_entity(text, match, group))
    ends.append(len(text))
    return NamedEntities(_with_title(text, [one for one in entities if len(one.name) <= _LONGEST], title), ends)


class _PlainWords:
    """The words of a text in lower case, collected on first use, because few texts need them."""

    def __init__(self, text: str) -> None:
        self._text = text
        self._words: frozenset[str] | None = None

    def __contains__(self, word: str) -> bool:
        if self._words is None:
            self._words = frozenset(_PLAIN_WORD.findall(self._text))
        return word in self._words

    def has_function_word(self, word: str) -> bool:
        """Return whether a word is a function word of the language of the text, if that is not English."""
        if not may_be_function_word(word):
            return False
        language = language_of(self._text)
        return language is not None and is_function_word(language, word)


@cache
def _scan() -> re.Pattern[str]:
    """Compile the pattern of entities on first use: it takes long, and many processes do not need it."""
    return re.compile(_SCAN)


_LONGEST = 120  # characters; a longer run of capitals is not a name
_MOST_MEASURES = 2  # a text with more is a table of values, and none of them is a topic


def _opens_sentence(text: str, begin: int, start: int) -> bool:
    return start - begin < _LONGEST_LEAD and not text[begin:start].strip(_LEADING)


def _entity(text: str, match: re.Match[str], group: str) -> Entity:
    if group == "date":
        before = _QUALIFIER.search(text, max(0, match.start() - 6), match.start())
        start = before.start() if before else match.start()
        return Entity(text[start : match.end()], "date", start, match.end())
    kind, inner = _KINDS[group]
    start, end = match.span(inner)
    end = start + len(text[start:end].rstrip(" ,.;"))
    return Entity(text[start:end], kind, start, end)


def _with_title(text: str, found: list[Entity], title: str) -> list[Entity]:
    """Drop the measures if there are too many, and add the mentions of the title."""
    if sum(one.kind == "number" for one in found) > _MOST_MEASURES:
        found = [one for one in found if one.kind != "number"]
    if not (_SPACE.search(title) and title in text):  # a title of one word is found like any name
        return found
    return without_overlaps([*_mentions(title, text), *found])


def _mentions(title: str, text: str) -> Iterator[Entity]:
    start = text.find(title)
    while start >= 0:
        end = start + len(title)
        yield Entity(title, "title", start, end)
        start = text.find(title, end)


def without_overlaps(found: Iterable[Entity]) -> list[Entity]:
    """Return entities in order; of two that overlap the one that begins first, then the longer one."""
    apart: list[Entity] = []
    for one in sorted(found, key=lambda one: (one.start, -one.end)):
        if not apart or one.start >= apart[-1].end:
            apart.append(one)
    return apart


def _names(text: str, start: int, end: int, opens: bool, plain: _PlainWords) -> Iterable[Entity]:
    span = text[start:end]
    if "." in span or " of " in span:
        return _parted(start, span.split(" "), opens, plain)
    return _name(start, span.split(" "), opens, plain)


def _parted(start: int, words: list[str], opens: bool, plain: _PlainWords) -> Iterator[Entity]:
    part: list[str] = []
    for word in words:
        if part and _is_cut(part, word):
            yield from _name(start, part, opens, plain)
            start, opens, part = start + len(" ".join(part)) + 1, part[-1].endswith("."), []
        part.append(word)
    yield from _name(start, part, opens, plain)


def _is_cut(part: list[str], word: str) -> bool:
    if part[-1].endswith(".") and word in _GRAMMATICAL:
        return True
    if word == "of":
        return part[-1].lower() in ROLES or (len(part) > 1 and part[-1].lower() not in BODIES)
    return False


def _name(start: int, words: list[str], opens: bool, plain: _PlainWords) -> tuple[Entity, ...]:
    first, last = 0, len(words)
    while first < last and (words[first] in _LINKS or _is_opener(words[first:last], opens, plain)):
        first += 1
    while first < last and words[last - 1] in _LINKS:
        last -= 1
    if last - first > 1 or (first < last and len(words[first]) > 1 and words[first].lower() not in GENERIC):
        begin = start + sum(map(len, words[:first])) + first
        name = " ".join(words[first:last])
        return (Entity(name, "name", begin, begin + len(name)),)
    return ()


def _is_opener(words: list[str], opens: bool, plain: _PlainWords) -> bool:
    word = words[0].lower()
    if len(words) > 2 and word.rstrip(".") in ROLES and words[1] not in _LINKS:
        return True
    if not opens:
        return word in OPENERS and len(words) == 1
    if len(words) > 1 and words[1] not in _LINKS:
        return word in OPENERS and word not in LEADING
    return word in OPENERS or word.endswith(("ing", "ly", "ed")) or word in plain or plain.has_function_word(word)


_SHORT = (
    r"(?:Jr|Sr|St|Ste|Mr|Mrs|Ms|Dr|Prof|Mt|Ft|Inc|Ltd|Co|Corp|Bros|No|Gen|Col|Lt|Capt|Cpt|Sgt|Maj|Adm|Rev|Hon|Gov|Sen"
    r"|Rep|Vol|Op)\."
)
# Atomic groups instead of possessive repetitions of a group, which have a bug before Python 3.11.5.
_INITIALS = rf"[{UPPER}]\.(?>(?:-?[{UPPER}]\.)*)"
_MONTH = (
    r"(?:Jan(?:uary|\.)?|Feb(?:ruary|\.)?|Mar(?:ch|\.)?|Apr(?:il|\.)?|May|June?|July?|Aug(?:ust|\.)?|Sept?(?:ember|\.)?"
    r"|Oct(?:ober|\.)?|Nov(?:ember|\.)?|Dec(?:ember|\.)?)"
)
_CAPITALISED = (
    rf"(?!{_MONTH},? \d)[{UPPER}]{LETTER}*+(?>(?:[’'\-‐‑–·+&./](?![sS]\b){LETTER}++)*)(?:(?<=[a-z])!(?= [a-z]))?"
)
_PREFIXED = rf"(?:[a-z]{{1,3}}[’'\-]|[a-z]{{1,2}}|al-|el-)[{UPPER}]{LETTER}*+(?>(?:[’'\-]{LETTER}++)*)"
_WORD = rf"(?:{_SHORT}|{_INITIALS}|{_CAPITALISED}|{_PREFIXED})"
_NUMERAL = r"(?:\d{1,3}(?:st|nd|rd|th)?(?![\w%°]|[.,]\d))"
_LINK = (
    r"(?:of the|of|for|de la|de las|de los|de|del|della|di|da|do|dos|das|du|des|le|la|les|von der|von dem|von|van der"
    r"|van den|van|den|der|bin|ibn|al|el|y|e|zu|upon|the|&|-)"
)
_NAME = (
    rf"(?:\d{{1,3}}(?:st|nd|rd|th) )?{_WORD}"
    rf"(?>(?:(?: (?:{_LINK} )?|, (?=(?:Jr|Sr|Inc|Ltd)\.))(?:{_WORD}|{_NUMERAL})){{0,11}})"
)
_YEAR = r"(?:1\d|20)\d\d"
_DATE = (
    rf"\d{{4}}-\d\d-\d\d(?!\d)"
    rf"|\d\d?(?:st|nd|rd|th)?(?: of)? {_MONTH}\b(?:,? {_YEAR}\b)?"
    rf"|{_MONTH} \d\d?(?:st|nd|rd|th)?\b(?:, ?{_YEAR}\b| {_YEAR}\b)?"
    rf"|{_MONTH},? {_YEAR}\b"
    r"|(?:January|February|April|June|July|August|September|October|November|December"
    rf"|(?<=[a-z] )(?:March|May))\b(?! [{UPPER}])"
    rf"|{_YEAR}s?(?!(?<![Ii]n \d\d\d\d) [{UPPER}]{LETTER}*+ [{UPPER}])(?![\w%°]|[.,]\d)"
    r"|[’']\d0s\b"
    r"|\d\d?(?:st|nd|rd|th) century\b"
    r"|(?:\d{1,4}[–\-])?\d{1,4} (?:BCE?|CE|AD)\b"
)
_UNIT = (
    r"(?:%|°[CF]?|percent|km|kilomet(?:er|re)s?|mi|miles?|m|met(?:er|re)s?|cm|mm|ft|feet|foot|inch(?:es)?|yards?|kg|g|mg"
    r"|grams?|pounds|lbs?|tons?|tonnes?|acres?|hectares?|ha|sq"
    r"|square (?:km|kilomet(?:er|re)s?|miles?|met(?:er|re)s?|feet)"
    r"|k?W|MW|GW|[kMG]?Hz|mph|knots|lit(?:er|re)s?|ml|[KMGT]i?B|volts?|V|K|ms|dollars|euros)"
)
_MEASURE = (
    rf"[$£€¥₹]\d[\d,]{{0,20}}+(?:\.\d++)?(?: (?:thousand|million|billion|trillion))?"
    rf"|\d[\d,]{{0,20}}+(?:\.\d++)?(?: (?:thousand|million|billion|trillion))?[ -]?{_UNIT}(?!\w)"
)

_HAN_GRAMMAR = "的是在和了與与及也不之"
_KOREAN = (  # a word without its particle
    rf"(?<![{HANGUL}])[{HANGUL}]{{2,12}}?"
    rf"(?=(?:은|는|이|가|을|를|의|에|에서|와|과|도|로|으로|이다|입니다)?(?![{HANGUL}]))"
)
_NO_BEGIN = r"[ \t,;:()<>\[\]{}*=+\-/\\|@#~^&%]"
"""Characters that cannot begin a match; they rule out half of the remaining positions early."""
_SCAN = (
    rf"(?!{_NO_BEGIN})(?:"
    rf"(?P<plain>(?>(?:[a-z]++(?![\w’'\-])[ ,;]*+)+))"
    rf"|(?P<quoted>(?:[\"“”«]|``) ?(?P<title>[{UPPER}\d][^\"“”«»`\n]{{0,60}}?)[,.;]? ?(?:[\"”»]|''))"
    r"|(?P<symbol>[A-Za-z][A-Za-z0-9]*+_\w++(?>(?:\.\w++)*))|`(?P<ticked>[^`\s][^`\n]{1,60})`"
    r"|[「『《](?P<inner>[^「」『』《》\n]{1,40})[」』》]"
    rf"|(?P<date>{_DATE})"
    rf"|(?P<measure>{_MEASURE})"
    rf"|(?P<name>(?:(?<![Ii]n ){_YEAR} (?=[{UPPER}]{LETTER}*+ [{UPPER}]))?{_NAME})"
    rf"|(?P<uncased>(?:(?![{_HAN_GRAMMAR}])[{KATAKANA}{HAN}]){{2,12}}|{_KOREAN}|[{SPACED}]{{3,40}}|[{THAI}]{{3,40}})"
    rf"|(?P<other>{LETTER}++|\w)"
    rf"|(?P<end>(?<![.!?])[.!?]++[\"”’')\]]{{0,3}}+(?=\s|$)|[\n。！？]))"
)
_KINDS: dict[str, tuple[EntityKind, str]] = {
    "quoted": ("title", "title"),
    "inner": ("title", "inner"),
    "symbol": ("symbol", "symbol"),
    "ticked": ("symbol", "ticked"),
    "measure": ("number", "measure"),
    "uncased": ("phrase", "uncased"),
}
_SPACE = re.compile(r"\s")
_LONGEST_LEAD = 12
_PLAIN_WORD = re.compile(r"\b[a-z]{2,}\b")
_QUALIFIER = re.compile(r"\b(?:early|late|mid)[ -]$")
_LEADING = " \t\r\n\"'“‘(*_`-–—•#>"
_LINKS = frozenset("of the for de la del von van and & in on - to".split())
_GRAMMATICAL = frozenset(word.capitalize() for word in OPENERS)


def relate(text: str, reading: NamedEntities, *, subject: str) -> list[Statement]:
    """Relate neighboring entities of each sentence by the words between them, or to `subject`, the topic of the text.

    A short name means the longer name that ends with it: `Strauss` means `Johann Strauss`.
    """
    full = full_names(reading.entities, subject)
    statements: list[Statement | None] = []
    for begin, sentence in by_sentence(reading):
        statements += _sentence(text, begin, sentence, subject, full)
    return distinct(statements)


def statement(subject: str, relation: str, object_: str) -> Statement | None:
    """Make a statement; `None` if it relates an entity to itself or a part of it is blank."""
    subject, object_ = _sound(subject), _sound(object_)
    if not subject or not object_ or entity_key(subject) == entity_key(object_):
        return None
    return subject, _sound(relation), object_


def by_sentence(reading: NamedEntities) -> Iterator[tuple[int, list[Entity]]]:
    """Yield the offset and the entities of each sentence that has any."""
    begin, place, entities = 0, 0, reading.entities
    for end in reading.ends:
        first = place
        while place < len(entities) and entities[place].start < end:
            place += 1
        if place > first:
            yield begin, entities[first:place]
        begin = end


def telling_words(text: str, *, most: int) -> str:
    """Return the last `most` words of `text` without pronouns and determiners."""
    return _last_telling(text[-_WINDOW:], most)


@lru_cache(maxsize=1 << 12)  # the words between two names are mostly short and repeat
def _last_telling(near: str, most: int) -> str:
    pattern = _ASCII_WORD if near.isascii() else _ANY_WORD
    words = [word for word in pattern.findall(near) if word.lower() not in _UNTELLING]
    return " ".join(words[-most:])


def full_names(entities: Iterable[Entity], subject: str) -> dict[str, str]:
    """Return by last word the first longer name that ends with it."""
    longer = [subject, *(one.name for one in entities if one.kind == "name")]
    return {name.rsplit(" ", 1)[-1]: name for name in reversed(longer) if " " in name and " of " not in name}


def distinct(found: Iterable[Statement | None]) -> list[Statement]:
    """Return the distinct statements, in order, without `None`."""
    return list(dict.fromkeys(filter(None, found)))


_ANY_WORD = re.compile(rf"{WORD_SIGN}++(?>(?:[’'\-]{WORD_SIGN}++)*)")
_ASCII_WORD = re.compile(r"\w++(?>(?:['\-]\w++)*)", re.ASCII)  # the same, and faster
_UNTELLING = PRONOUNS | DETERMINERS - {"other", "same", "new", "first", "second", "third", "last", "next", "no"} | {"s"}
_INTRODUCING = PREPOSITIONS | CONNECTIVES
_JOINED = frozenset(("", "and", "or", "as well as"))
_MOST_WORDS = 6  # of a relation
_FARTHEST = 60  # characters between neighbors, about eight words
_WINDOW = 160  # characters that are read for the words of a relation
_SURROGATE = re.compile("[\ud800-\udfff]")


def _sentence(
    text: str, begin: int, named: Sequence[Entity], subject: str, full: dict[str, str]
) -> Iterator[Statement | None]:
    first = named[0]
    lead = telling_words(text[begin : first.start], most=_MOST_WORDS)
    # An entity at the beginning of a sentence is its subject; other sentences have the subject of the text.
    about = subject if lead or first.kind in ("date", "number") else full.get(first.name, first.name)
    holder, relation = about, lead
    if lead:
        yield statement(about, lead, full.get(first.name, first.name))
    for before, after in pairwise(named):
        gap = text[before.end : after.start]
        words = telling_words(gap, most=_MOST_WORDS)
        if words in _JOINED and holder is about and relation.lower() in _INTRODUCING:
            about = full.get(after.name, after.name)  # `In June 2017, Christine Lavaf …`
            holder, relation = about, ""
            continue
        if words not in _JOINED:
            near = len(gap) <= _FARTHEST and before.kind not in ("date", "number") and ";" not in gap
            holder, relation = (full.get(before.name, before.name) if near else about), words
        elif "(" in gap:
            holder, relation = full.get(before.name, before.name), ""
        yield statement(holder, relation, full.get(after.name, after.name))


def _sound(text: str) -> str:
    return text.strip() if text.isascii() else _SURROGATE.sub("\ufffd", text).strip()
