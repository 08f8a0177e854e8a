"""Topics of plain speech: the nouns and their attributes, told by the small words around them."""

import re
from collections.abc import Iterator

from treering.derived.extraction.letters import WORD_SIGN
from treering.derived.extraction.words import (
    AUXILIARIES,
    CONNECTIVES,
    DETERMINERS,
    FLAT,
    PLEASANTRIES,
    PREPOSITIONS,
    PRONOUNS,
    VERBS,
)
from treering.ports.extractor import Entity


def noun_chunks(text: str) -> list[Entity]:
    """Return what is spoken of without a name: one to three words after a determiner, a preposition or a verb."""
    found: list[Entity] = []
    run: list[tuple[int, int]] = []
    opened = False
    before = 0
    for match in _WORD.finditer(text):
        word = match[0].lower()
        if not text[before : match.start()].isspace():
            found += _chunk(text, run, opened)
            run, opened = [], False
        before = match.end()
        if word not in _SMALL and not word.endswith("ly"):
            run = [*run[-_LONGEST_RUN:], match.span()]
            continue
        found += _chunk(text, run, opened)
        run, opened = [], word in _OPENING
    return found + list(_chunk(text, run, opened))


_WORD = re.compile(rf"{WORD_SIGN}++(?:[’'\-+]{WORD_SIGN}++)*+\+?")
_OPENING = (DETERMINERS | PREPOSITIONS | VERBS) - {"to"}  # `to` is as often followed by a verb
_SMALL = _OPENING | {"to"} | PRONOUNS | CONNECTIVES | AUXILIARIES | PLEASANTRIES
_MOST_WORDS = 3
_LONGEST_RUN = 12
_SHORTEST = 4  # characters
_LONGEST = 60
_ATTRIBUTE = re.compile(r"(?:ed|ful|ous|ive|able)$")


def _chunk(text: str, run: list[tuple[int, int]], opened: bool) -> Iterator[Entity]:
    words = run
    while words and text[slice(*words[-1])].lower() in FLAT:
        words = words[:-1]
    words = words[-_MOST_WORDS:]
    while words and text[slice(*words[0])].lower() in FLAT:
        words = words[1:]
    if not words or (len(words) == 1 and not opened) or _ATTRIBUTE.search(text[slice(*words[-1])]):
        return
    start, end = words[0][0], words[-1][1]
    if _SHORTEST <= end - start <= _LONGEST:
        yield Entity(text[start:end], "phrase", start, end)
