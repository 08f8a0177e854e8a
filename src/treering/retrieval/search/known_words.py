"""Which words of a question occur in the scopes of a read."""

import re
from collections.abc import Container, Mapping
from dataclasses import dataclass, field

from treering.ports.models import Rarity
from treering.ports.passages import Reach
from treering.ports.search import TextFound, TextRequest
from treering.retrieval.index.rounds import Steps
from treering.retrieval.search.idf import IdfWeights
from treering.retrieval.search.question import Question, is_long
from treering.retrieval.text.analysis import query_terms
from treering.retrieval.text.dates import asked_ranges
from treering.retrieval.text.typed_words import TypedWords, WordsKnown, listed, unknown_among

_TICKET = re.compile(r"(?<!\w)#\d+\b|\A\s*\[?[A-Z][A-Z0-9]{1,9}-\d+(?=\]|:)")
"""A reference such as `#5135`, with which the subject of a commit ends, or `PROJ-123:`, with which it begins."""
_KIND_OF_CHANGE = re.compile(
    r"\A\s*(?:build|chore|ci|docs?|feat|fix|perf|refactor|revert|style|tests?)(?=(?:\([^()]*\))?!?:\s)", re.IGNORECASE
)
"""The type that a subject begins with by Conventional Commits, without its scope: `perf` of `perf(router): …`."""


@dataclass(frozen=True, slots=True)
class KnownWords:
    """Which words of a question occur in the scopes of a read; empty for a read of the past."""

    missing: tuple[str, ...] = ()
    """Names in the question that no passage mentions."""
    words: WordsKnown = field(default_factory=WordsKnown)
    idf: IdfWeights = field(default_factory=IdfWeights)

    def gap(self) -> str:
        """Return a sentence that lists the names that no passage mentions; empty if there are none."""
        return f"Nothing here mentions {listed(self.missing)}." if self.missing else ""


def known_words(question: Question, reach: Reach) -> Steps[KnownWords]:
    """Count the words of a question in the scopes of the read."""
    if reach.at is not None:
        return KnownWords()  # the index has no counts of the past
    names, words = _names(question), question.typed.sought()
    terms = {term for each in (names, words) for terms in each.values() for term in terms}
    found: TextFound = yield TextRequest(reach, 0, counted=tuple(sorted(terms.union(question.terms.words))))
    beside = _terms_beside_subject(question.text, found.counts) | question.misspelt
    return KnownWords(
        tuple(unknown_among(names, found.counts)),
        WordsKnown.of({word: own for word, own in words.items() if not beside.issuperset(own)} or words, found.counts),
        IdfWeights.of(
            [term for term in question.terms.words if term not in beside] or question.terms.words,
            found,
            _date_terms(question),
            rarity_of_terms(question.typed, question.rarity),
        ),
    )


def _names(question: Question) -> Mapping[str, tuple[str, ...]]:
    """Return the names in a question, each with its index terms, without misspelt ones, whose terms were replaced.

    A long one, such as an issue with a log, has many names that a space need not contain.
    """
    if is_long(question.text):
        return {}
    names = question.typed.names(question.rarity)
    return {name: terms for name, terms in names.items() if not question.misspelt.issuperset(terms)}


def rarity_of_terms(typed: TypedWords, rarity_of: Rarity) -> Mapping[str, float]:
    """Return how rare the words of a question are in texts of any kind, by term."""
    rarity = dict[str, float]()
    for _, word, terms in typed.words:
        rarity |= {term: max(rarity_of(word), rarity.get(term, 0.0)) for term in terms}
    return rarity


def _terms_beside_subject(text: str, known: Container[str]) -> frozenset[str]:
    """Return the terms of the kind of change and of tickets that no passage names: the rest may be answered without.

    Chosen on celery and hono (`benchmarks agents`): most tasks that were refused had no other unknown term, and
    knowledge about something else often had only the kind of change in common.
    """
    kind = _KIND_OF_CHANGE.match(text)
    tickets = query_terms(" ".join(_TICKET.findall(text))).words
    return frozenset(query_terms(kind[0]).words if kind else ()).union(term for term in tickets if term not in known)


def _date_terms(question: Question) -> frozenset[str]:
    """Return the terms of a question that only the dates in it have."""
    if not question.days or is_long(question.text):
        return frozenset()
    rest, at = "", 0
    for found in asked_ranges(question.text, None):
        rest += question.text[at : found.start] + " "
        at = max(at, found.end)
    rest += question.text[at:]
    return frozenset(question.terms.words).difference(query_terms(rest).words)
