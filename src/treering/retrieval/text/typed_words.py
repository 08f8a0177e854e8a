"""The words of a question as typed: which ones a space contains, and which ones are names."""

import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass

from treering.core.characters import label
from treering.ports.models import Rarity
from treering.retrieval.text.analysis import query_words, word_terms
from treering.retrieval.text.languages import language_of
from treering.retrieval.text.periods import MONTH_WORDS, WEEKDAY_WORDS
from treering.retrieval.tuning import TUNING

_WORD = re.compile(r"[^\s\"'“”‘’`()\[\]{}<>,;:!?…]+")
_QUOTED = re.compile(r"`([^`\n]{1,200})`")
_NAME_SIGN = re.compile(r"[_/:]|[^\W\d][.][^\W\d]|[a-z][A-Z]|[^\W\d]\d|\d[^\W\d]")
_ID = re.compile(
    r"(?=.*[A-Za-z])(?=(?:.*\d){2})(?!\d+[A-Za-z]{1,3}\Z)[A-Za-z0-9]{5,}(?:-[A-Za-z0-9]+)*"  # hashes, UUIDs, `E0277`
    r"|[A-Z][A-Z0-9]{1,9}-\d+(?:-\d+)*"  # tickets, invoices
    r"|\d{6,}|\d+(?:-\d+){3,}"
    r"|(?!(?:1[5-9]|20)\d\d-(?:1[5-9]|20)\d\d\Z)(?:\d{4,}-\d{3,}|\d{3,}-\d{4,})"  # order numbers, no years
)
"""An id: letters with at least two digits, but no quantity such as `100mg`, or a long or divided number."""
_ACRONYM = re.compile(r"[A-Z]{2,6}s?")
_LAST_PART = re.compile(r"[a-z0-9][A-Z][a-z]{2,}$")
"""The last word of a name such as `ConfigLoader`; `UUIDs` and `AMerican` have no parts."""
_SHOWN = 8
_OF_MANNER = re.compile(r"(?:ly|able|ible|ful|less|ness|ing|ed|est)$")
_OF_REQUESTS = frozenset({"affects", "bugs", "explicit", "prefers", "refactor", "rename"})
"""Rare words of requests; it means nothing if a space does not contain them."""


@dataclass(frozen=True, slots=True)
class WordsKnown:
    """The words of a question that occur in a space and those that do not, as typed, in order."""

    known: tuple[str, ...] = ()
    unknown: tuple[str, ...] = ()
    below: tuple[str, ...] = ()
    """The words that occur only in scopes below, if that was checked; otherwise these words are unknown."""
    elsewhere: tuple[str, ...] = ()
    """The words that occur only on other branches, if that was checked; otherwise these words are known."""
    branches: tuple[str, ...] = ()
    """The names of these branches."""

    @classmethod
    def of(cls, words: Mapping[str, tuple[str, ...]], counts: Iterable[str]) -> "WordsKnown":
        """Divide words, each given with its terms, by the terms that occur."""
        unknown = unknown_among(words, counts)
        gone = {word.casefold() for word in unknown}
        return cls(tuple(word for word in words if word.casefold() not in gone), tuple(unknown))

    def told(self) -> str:
        """Return a message that lists them; empty if there are no words."""
        unknown = f"Not known here: {listed(self.unknown)}." if self.unknown else ""
        below = f"Known only in scopes below: {listed(self.below)}." if self.below else ""
        names = f" ({', '.join(self.branches[:_SHOWN])})" if self.branches else ""
        elsewhere = f"Known only on other branches{names}: {listed(self.elsewhere)}." if self.elsewhere else ""
        known = f"Known here: {listed(self.known)}." if self.known else ""
        return " ".join(filter(None, (unknown, below, elsewhere, known)))


def listed(names: Sequence[str]) -> str:
    """List the first names, each in quotes."""
    return ", ".join(map(label, names[:_SHOWN]))


@dataclass(frozen=True, slots=True)
class TypedWords:
    """The words of a task as typed, each with its position and its index terms."""

    task: str
    words: tuple[tuple[int, str, tuple[str, ...]], ...]
    content_terms: frozenset[str]

    @classmethod
    def of(cls, task: str) -> "TypedWords":
        """Read the words of a task."""
        typed = ((match.start(), match[0].strip(".*-–—/")) for match in _WORD.finditer(task))
        words = tuple((at, word, word_terms(word)) for at, word in typed)
        return cls(task, words, frozenset(query_words(task)))

    def names(self, rarity: Rarity) -> Mapping[str, tuple[str, ...]]:
        """Return the names that the task may be about, as typed, each with its index terms.

        Paths, identifiers, ids and words in backquotes are names, and so are plain words that probably name the subject
        and not the manner of a request: `rarity` states how rare they are in general text.
        """
        quoted = set(_QUOTED.findall(self.task))
        is_short = len(self.content_terms) <= TUNING.question.max_subject_terms
        wanted: dict[str, tuple[str, ...]] = {}
        for at, word, terms in self.words:
            is_subject = not self.content_terms.isdisjoint(terms) and (
                _is_proper(word, begins=begins_sentence(self.task, at)) or (is_short and _may_be_subject(word, rarity))
            )
            if word in quoted or _is_name(word) or is_subject or _ID.fullmatch(word):
                wanted[word] = terms
        return {word: terms for word, terms in wanted.items() if terms}

    def sought(self) -> Mapping[str, tuple[str, ...]]:
        """Return the searchable words, as typed, each with its index terms."""
        words: dict[str, tuple[str, ...]] = {}
        for _, word, terms in self.words:
            if searchable := tuple(term for term in terms if term in self.content_terms):
                words.setdefault(word, searchable)
        return words


def unknown_among(names: Mapping[str, tuple[str, ...]], known: Iterable[str]) -> list[str]:
    """Return the distinct names that are not known, in order.

    A name such as `foo_bar` is known as a whole, a hyphenated or dotted one also if all of its parts are, and a run of
    characters without spaces if any term of it is.
    """
    known_terms = frozenset(known)
    unknown: dict[str, str] = {}
    for name, terms in names.items():
        if not _is_known(name, terms, known_terms):
            unknown.setdefault(name.casefold(), name)
    return list(unknown.values())


def _is_known(name: str, terms: tuple[str, ...], known: frozenset[str]) -> bool:
    if not name.isascii():
        return any(term in known for term in terms)
    if name.isalnum() or _ID.fullmatch(name):
        # `config.load` contains the stem of `ConfigLoader`: if the stem cuts the last part, that must be known as well.
        is_cut = bool(_LAST_PART.search(name)) and not terms[0].endswith(terms[-1])
        return terms[0] in known and (not is_cut or terms[-1] in known)
    is_divided = ("." in name and "/" not in name) or ("-" in name and not _is_name(name))
    return all(term in known for term in (terms[1:] if is_divided else terms))


def _is_name(word: str) -> bool:
    return _NAME_SIGN.search(word) is not None and not word[0].isdigit() and any(letter.isalpha() for letter in word)


def _is_proper(word: str, *, begins: bool) -> bool:
    """Return whether a word is an acronym, has a capital inside a sentence, or is of a script without spaces."""
    if not word.isascii():
        return 1 < len(word) <= TUNING.question.max_run_chars
    return bool(_ACRONYM.fullmatch(word)) or (word[:1].isupper() and not begins and _is_plain(word))


def _may_be_subject(word: str, rarity: Rarity) -> bool:
    plain = word.casefold()
    if not (plain.isascii() and _is_plain(plain)) or _OF_MANNER.search(plain):
        return False
    return max(map(rarity, plain.split("-"))) >= TUNING.question.min_subject_rarity


def _is_plain(word: str) -> bool:
    plain = word.casefold()
    return (
        len(plain) >= TUNING.question.min_subject_letters
        and plain.replace("-", "").isalpha()
        and plain not in _OF_REQUESTS
        and plain not in _CALENDAR
    )


def begins_sentence(task: str, at: int) -> bool:
    """Return whether a sentence begins here, so that a capital does not mark a name."""
    before = task[:at].rstrip()
    return not before or before[-1] in ".!?:\n" or task[:at].endswith("\n")


def ids_written(text: str) -> list[str]:
    """Return the distinct ids in a text, such as hashes, UUIDs, error codes and numbers of tickets, in order."""
    words = (match[0].strip(".*-–—/#") for match in _WORD.finditer(text))
    return [*dict.fromkeys(word for word in words if _ID.fullmatch(word))]


_CALENDAR = MONTH_WORDS | WEEKDAY_WORDS
_IN_NAMES = frozenset("of the de la von van del di".split())


def names_written(text: str) -> Iterator[str]:
    """Yield the terms of capitalized words inside English sentences; some languages capitalize all nouns.

    Months and weekdays are not names: texts seldom contain the day they are from.
    """
    if language_of(text) is None:
        for match in _WORD.finditer(text):
            word = match[0]
            if word[0].isupper() and not begins_sentence(text, match.start()) and word.lower() not in _CALENDAR:
                yield from word_terms(word)


def pairs_of_names(text: str) -> Iterator[tuple[frozenset[str], frozenset[str]]]:
    """Yield the terms of words with a capital that follow each other inside an English sentence, as in a name."""
    if language_of(text) is not None:
        return
    last, joined, end = frozenset[str](), 0, 0
    for match in _WORD.finditer(text):
        word = match[0].strip(".-–—")
        if text[end : match.start()].strip():
            last = frozenset()
        end = match.end()
        if len(word) == 1 and word.isupper():
            continue  # an initial, which one text has and another leaves out
        if word[:1].isupper() and not begins_sentence(text, match.start()) and word.lower() not in _CALENDAR:
            terms = frozenset(word_terms(word))
            if last and terms:
                yield last, terms
            last, joined = terms or last, 0
        elif word.lower() in _IN_NAMES and joined < 2:
            joined += 1
        elif word:
            last, joined = frozenset(), 0
