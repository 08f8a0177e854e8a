"""The names of persons whom statements introduce: `my husband Jonas`, `Tessa, my sister`, `Dr. Okafor`."""

import re
from collections.abc import Iterator
from functools import cache

from treering.extensions.statements.words import LanguageWords, words_for

_TITLE = r"(?:(?:Dr|Mr|Mrs|Ms|Prof|Sra?|Dra)\b\.?|Frau|Herr|Señora?) "
_WORD = r"[^\W\d_a-zà-ÿ](?:[\w-]|['’](?!s\b))+"
_NAME = rf"(?:{_TITLE})?(?P<name>{_WORD}(?: {_WORD})?)"
_TITLED = re.compile(rf"(?<!\w){_TITLE}(?P<name>{_WORD}(?: {_WORD})?)")
_NEXT = re.compile(rf"(?:,? (?:and|&|und|y) |, (?={_WORD}(?: {_WORD})?(?:,| and | & | und | y |$))){_NAME}")
"""The next name in a list: `my daughters Lina and Mia`."""
_OWNER = r"(?:my|our|his|her|their|\w+['’]s|mein\w*|unser\w*|sein\w*|ihr\w*|mis?|su|nuestr[ao]s?)"
_IS = r"(?:is|'s|’s|are|ist|heißt|heißen|es|son|se llaman?)"
_CALLED = r"(?:(?:is |are |was )?(?:called|named)|namens|llamad[ao])"
_END = r"(?=[,.;:!?)]| (?:and|und|y|who) |$)"
_PLACE = re.compile(r"\b(?:in|at|from|to|near|into|around|via|of|for|aus|nach|bei|en|de|a) $", re.IGNORECASE)
_PLACE_CHARS = 10
"""Characters before a name in which a preposition is looked for."""


def people_in(text: str) -> Iterator[str]:
    """Return the names that a text introduces as persons: by a relation or a title, which is left out."""
    words = words_for(text)
    for pattern in (_TITLED, *_introductions(words.people)):
        for found in pattern.finditer(text):
            yield from _named(found, words)
            after = _NEXT.match(text, found.end("name"))
            while after:
                yield from _named(after, words)
                after = _NEXT.match(text, after.end())


def without_title(name: str) -> str:
    """Return a name without `Dr.`, `Mrs` and the like."""
    return re.sub(rf"^{_TITLE}", "", name, flags=re.IGNORECASE)


def _named(found: re.Match[str], words: LanguageWords) -> Iterator[str]:
    """Return the name in a match, up to a word that is no name: `my sister Tessa Monday`."""
    before = found.string[max(0, found.start() - _PLACE_CHARS) : found.start()]
    if found.start() == found.start("name") and _PLACE.search(before):
        return
    parts = []
    for part in found["name"].split():
        plain = part.casefold().replace("’", "'")
        if plain in words.small or plain in words.people:
            break
        parts.append(part)
    if parts:
        yield " ".join(parts)


@cache
def _introductions(people: frozenset[str]) -> tuple[re.Pattern[str], ...]:
    relation = rf"(?i:(?:{'|'.join(sorted(people))})s?)(?![\w-])"
    introduced = rf"(?i:{_OWNER}|an?|the|eine?|der|die|das|una?|el|la) (?:[\w-]+ )?{relation}"
    return (
        re.compile(rf"(?<![\w-]){relation}(?: |,? {_CALLED} |['’]s name {_IS} | ?\(){_NAME}(?![\w-])"),
        re.compile(rf"(?<!\w){introduced}(?:, | {_IS} ){_NAME}{_END}"),
        re.compile(rf"(?<![\w-]){_NAME}(?: {_IS} |['’]s |, | \(| [–-] )(?i:{_OWNER}) (?:[\w-]+ )?{relation}{_END}"),
    )
