"""Statements of three parts from running text: what is named, the words between, what is named next."""

import re
from collections.abc import Iterable, Iterator, Sequence
from functools import lru_cache
from itertools import pairwise

from treering.core.evidence import Triple
from treering.derived.extraction.letters import WORD_SIGN
from treering.derived.extraction.names import entity_key
from treering.derived.extraction.prose import NamedEntities
from treering.derived.extraction.words import CONNECTIVES, DETERMINERS, PREPOSITIONS, PRONOUNS
from treering.ports.extractor import Entity


def relate(text: str, reading: NamedEntities, *, subject: str) -> list[Triple]:
    """Relate what each sentence names to its neighbour there, and to `subject`, what the whole text is about.

    A short name stands for the longer one that ends with it (`Strauss` for `Johann Strauss`).
    """
    full = full_names(reading.entities, subject)
    found: list[Triple | None] = []
    for begin, sentence in by_sentence(reading):
        found += _sentence(text, begin, sentence, subject, full)
    return distinct(found)


def statement(subject: str, relation: str, object_: str) -> Triple | None:
    """Make a triple, unless it would relate a thing to itself or a part of it is blank."""
    subject, object_ = _sound(subject), _sound(object_)
    if not subject or not object_ or entity_key(subject) == entity_key(object_):
        return None
    return Triple(subject=subject, relation=_sound(relation), object=object_)


def by_sentence(reading: NamedEntities) -> Iterator[tuple[int, list[Entity]]]:
    """Return each sentence that names something: the offset where it begins, and what it names."""
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


@lru_cache(maxsize=1 << 12)  # most of what stands between two names is short, and is said again
def _last_telling(near: str, most: int) -> str:
    pattern = _ASCII_WORD if near.isascii() else _WORD
    words = [word for word in pattern.findall(near) if word.lower() not in _UNTELLING]
    return " ".join(words[-most:])


def full_names(entities: Iterable[Entity], subject: str) -> dict[str, str]:
    """Return for each last word of a longer name that name, the first that ends so."""
    longer = [subject, *(one.name for one in entities if one.kind == "name")]
    return {name.rsplit(" ", 1)[-1]: name for name in reversed(longer) if " " in name and " of " not in name}


def distinct(found: Iterable[Triple | None]) -> list[Triple]:
    """Return each triple once, in order, without those that could not be made."""
    return list({(one.subject, one.relation, one.object): one for one in found if one}.values())


_WORD = re.compile(rf"{WORD_SIGN}++(?:[’'\-]{WORD_SIGN}++)*+")
_ASCII_WORD = re.compile(r"\w++(?:['\-]\w++)*+", re.ASCII)  # the same, and faster
_UNTELLING = PRONOUNS | DETERMINERS - {"other", "same", "new", "first", "second", "third", "last", "next", "no"} | {"s"}
_INTRODUCING = PREPOSITIONS | CONNECTIVES
_JOINED = frozenset(("", "and", "or", "as well as"))
_MOST_WORDS = 6  # of a relation
_FARTHEST = 60  # characters between neighbours, about eight words
_WINDOW = 160  # characters looked at for the words of a relation
_SURROGATE = re.compile("[\ud800-\udfff]")


def _sentence(
    text: str, begin: int, named: Sequence[Entity], subject: str, full: dict[str, str]
) -> Iterator[Triple | None]:
    first = named[0]
    lead = telling_words(text[begin : first.start], most=_MOST_WORDS)
    # What opens a sentence is its subject; otherwise the sentence goes on about what the text is about.
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
