"""Keywords: phrases to search for, and their matches in a text. Works in any script and ignores accents."""

import unicodedata
from dataclasses import dataclass
from functools import cached_property
from itertools import groupby

from treering.ports.search import TextQuery
from treering.retrieval.text.analysis import identifier_text, index_text, query_terms

SEPARATOR = ";"


@dataclass(frozen=True, slots=True)
class Keyword:
    """A phrase to search for. `phrases`: its terms in the word index, in the order in which they must follow."""

    folded: str
    phrases: tuple[str, ...]
    unspaced: bool
    """Whether part of it is written without spaces between words; it is then matched letter by letter."""


@dataclass(frozen=True)
class KeywordText:
    """A text that is searched for keywords."""

    text: str

    @cached_property
    def terms(self) -> str:
        """Its terms, in order, each between spaces."""
        return f" {index_text(self.text)} "

    @cached_property
    def letters(self) -> str:
        """Its letters, folded, without white space."""
        return _letters(self.text)

    @cached_property
    def names(self) -> str:
        """The identifiers in it, as opposed to plain words."""
        return identifier_text(self.text)

    def hold(self, keyword: Keyword) -> bool:
        """Return whether the text contains a keyword: as consecutive words, or inside a name."""
        if keyword.unspaced:
            return keyword.folded in self.letters
        return any(f" {phrase} " in self.terms for phrase in keyword.phrases) or keyword.folded in self.names


def keywords_of(query: str, *, most: int) -> list[Keyword]:
    """Return the first `most` keywords of a query; semicolons separate them."""
    keywords = [_keyword(part) for part in query.split(SEPARATOR)]
    return list({keyword.folded: keyword for keyword in keywords if keyword.phrases}.values())[:most]


def is_question(query: str) -> bool:
    """Return whether a query is a question in a sentence: it has no semicolons, and ends or begins like a question."""
    text = query.strip()
    if SEPARATOR in text:
        return False
    return text.endswith(_QUESTION_MARKS) or text.partition(" ")[0].rstrip(",:").casefold() in _QUESTION_WORDS


def question_for(keywords: list[Keyword]) -> TextQuery:
    """Return the query for texts that contain any of some keywords."""
    phrases = dict.fromkeys(phrase for keyword in keywords for phrase in keyword.phrases)
    names = [keyword.folded for keyword in keywords if len(keyword.folded) >= _SHORTEST_NAME]
    return TextQuery(phrases=tuple(phrases), identifiers=tuple(names))


def _keyword(part: str) -> Keyword:
    text = part.strip().strip("\"“”'").strip()
    runs = [(unspaced, list(words)) for unspaced, words in groupby(text.split(), key=_is_unspaced)]
    if not any(unspaced for unspaced, _ in runs):
        # As separate words, a compound matches both spellings: the index contains its parts in order.
        return Keyword(_folded(text), tuple(filter(None, [index_text(text.replace("-", " "))])), unspaced=False)
    pairs = [pair for unspaced, words in runs for pair in _sought(words, unspaced=unspaced)]
    return Keyword(_letters(text), tuple(dict.fromkeys(pairs)), unspaced=True)


def _sought(words: list[str], *, unspaced: bool) -> tuple[str, ...]:
    return query_terms(" ".join(words)).words if unspaced else (index_text(" ".join(words)),)


def _is_unspaced(word: str) -> bool:
    """Return whether the index splits a word into letters that a query does not search for one by one."""
    return not word.isascii() and set(index_text(word).split()) > set(query_terms(word).words)


def _letters(text: str) -> str:
    return "".join(_folded(text).split())


def _folded(text: str) -> str:
    apart = unicodedata.normalize("NFKD", unicodedata.normalize("NFKC", text).casefold())
    bare = "".join(char for char in apart if not "\u0300" <= char <= "\u036f")
    return " ".join(unicodedata.normalize("NFC", bare).split())


_SHORTEST_NAME = 3
_QUESTION_MARKS = ("?", "？", "؟")
_QUESTION_WORDS = frozenset("who whom whose what what's which when where why how who's where's".split())
