"""The words that rules look for, by language, from `words.json`: relations are data, and so is each language."""

import json
import re
from collections.abc import Mapping
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Any

from treering.retrieval.text.analysis import stem

KIN = frozenset(
    "mum dad wife husband brother sister daughter son parents cousin aunt uncle grandma grandpa neighbour "
    "flatmate girlfriend boyfriend partner".split()
)
"""Modifiers that name another person."""
LANGUAGES = ("en", "de", "es")

_TABLE = Path(__file__).with_name("words.json")
_LETTERS = re.compile(r"[^\W\d_]+(?:['’-][^\W\d_]+)*")
_MIN_FOREIGN_WORDS = 2
"""A text is in another language than English if it has at least this many of that language's small words, and more
than it has English ones. Chat is too short for statistics of letters."""


@dataclass(frozen=True, slots=True)
class LanguageWords:
    """The words of one language."""

    small: frozenset[str]
    verbs: frozenset[str]
    """The stems of verbs of plans: the activity matters less than its object."""
    verb_forms: frozenset[str]
    pronouns: frozenset[str]
    people: frozenset[str]
    """Words for a person by a relation, such as `sister`, `boss` and `dentist`."""
    irregular: Mapping[str, str]
    modifiers: Mapping[str, str]
    attributes: Mapping[str, re.Pattern[str]]
    single: frozenset[str]
    """Attributes of which a person has one at a time."""
    cues: Mapping[str, re.Pattern[str]]
    report: re.Pattern[str]

    def cues_in(self, text: str) -> frozenset[str]:
        """Return the names of the cues in a text in lower case."""
        return frozenset(name for name, pattern in self.cues.items() if pattern.search(text))

    def begins_with(self, cue: str, text: str) -> bool:
        """Return whether a text in lower case begins with a cue."""
        return self.cues[cue].match(text) is not None


def words_in(text: str) -> list[str]:
    """Return the words of a text, in lower case, with plain apostrophes."""
    return _LETTERS.findall(text.casefold().replace("’", "'"))


def words_for(text: str) -> LanguageWords:
    """Return the words of the language that a text is written in: English unless it is clearly another."""
    spoken = set(words_in(text))
    counts = {language: len(spoken & words_of(language).small) for language in LANGUAGES}
    best = max(LANGUAGES, key=lambda language: counts[language])
    clear = counts[best] >= _MIN_FOREIGN_WORDS and counts[best] > counts["en"]
    return words_of(best if clear else "en")


@cache
def words_of(language: str) -> LanguageWords:
    """Return the words of a language."""
    table = _tables()[language]
    return LanguageWords(
        small=frozenset(table["small"].split()),
        verbs=frozenset(map(stem, table["verbs"].split())),
        verb_forms=frozenset(table["verbs"].split()),
        pronouns=frozenset(table["pronouns"].split()),
        people=frozenset(table["people"].split()),
        irregular=table["irregular"],
        modifiers=table["modifiers"],
        attributes={name: _either(phrases) for name, phrases in table["attributes"].items()},
        single=frozenset(table["single"]),
        cues={name: _either(phrases) for name, phrases in table["cues"].items()},
        report=_either(table["report"]),
    )


@cache
def _tables() -> dict[str, Any]:
    tables: dict[str, Any] = json.loads(_TABLE.read_text("utf-8"))
    return tables


def _either(phrases: list[str]) -> re.Pattern[str]:
    return re.compile(rf"(?<!\w)(?:{'|'.join(phrases)})(?!\w)")
