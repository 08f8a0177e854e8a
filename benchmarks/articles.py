"""Made-up articles about each other: what an entity graph is made of.

Every article has a name. Sentences name the article they stand in, others of its neighbourhood, and others of the
whole, the popular ones most: by Zipf's law, flattened at its head so that the most popular name stands in about
one passage of ten, as in an encyclopedia. Everything follows from the seed.
"""

from collections.abc import Iterator

import numpy as np
import numpy.typing as npt

from benchmarks.synthetic import Document, general_words
from benchmarks.vocabulary import TOPICS, made_up_word, topical_words

Numbers = npt.NDArray[np.int64]

PASSAGES = 4
"""Passages of one article."""

SENTENCES = 4
"""Sentences of one passage; each names about two articles."""

_HEAD = 3  # so many names are about equally popular
_GIVEN = 997  # first words of names; a prime, so that neighbours differ in both words
_NAMES_FROM = 20_000  # ranks of words that occur in names only
_NEIGHBOURS = 40
_NEAR = 0.5  # part of the names that are of the neighbourhood
_DATED = 0.2


def articles(count: int, *, among: int, first: int = 0, seed: int = 0, passages: int = PASSAGES) -> Iterator[Document]:
    """Make the articles from number `first` on, which name each other and all others `among` so many."""
    rng = np.random.default_rng(seed + first)
    for number in range(first, first + count):
        texts = tuple(_passage(number, among, rng) for _ in range(passages))
        yield Document(name_of(number), texts, number)


def questions_among(count: int, *, among: int, seed: int = 1) -> list[str]:
    """Make questions of five to nine words that name an article, and one in two another of its neighbourhood."""
    rng = np.random.default_rng(seed)
    return [_question(int(number), among, rng) for number in popular(rng, count, among)]


def popular(rng: np.random.Generator, count: int, among: int) -> Numbers:
    """Draw numbers of articles, the popular ones more often."""
    # The inverse of the distribution function of 1 / (rank + head).
    drawn = _HEAD * np.exp(rng.random(count) * np.log((among + _HEAD) / _HEAD)) - _HEAD
    numbers: Numbers = np.minimum(drawn.astype(np.int64), among - 1)
    return numbers


def near(rng: np.random.Generator, numbers: Numbers, among: int) -> Numbers:
    """Draw for each article another of its neighbourhood."""
    start = numbers - numbers % _NEIGHBOURS
    others: Numbers = np.minimum(start + rng.integers(_NEIGHBOURS, size=numbers.shape), among - 1)
    return others


def mentioned(rng: np.random.Generator, numbers: Numbers, among: int) -> Numbers:
    """Draw for each article one that its text names."""
    close = rng.random(numbers.shape) < _NEAR
    return np.where(close, near(rng, numbers, among), popular(rng, numbers.size, among).reshape(numbers.shape))


def name_of(number: int) -> str:
    """Return the name of an article, of two words."""
    given = made_up_word(_NAMES_FROM + number % _GIVEN)
    family = made_up_word(_NAMES_FROM + _GIVEN + number // _GIVEN * 31 + number % 31)
    return f"{given.title()} {family.title()}"


def _passage(number: int, among: int, rng: np.random.Generator) -> str:
    return " ".join(_sentence(number, among, rng) for _ in range(SENTENCES))


def _sentence(number: int, among: int, rng: np.random.Generator) -> str:
    """Write words of the topic and general ones with names between them."""
    topic = number // _NEIGHBOURS % TOPICS
    others = mentioned(rng, np.full(int(rng.integers(1, 4)), number), among)
    names = [name_of(int(other)) for other in others]
    opening = name_of(number) if rng.random() < _NEAR else "The"
    dated = [f"in {rng.integers(1500, 2020)}"] if rng.random() < _DATED else []
    stretches = [" ".join([*topical_words(topic, rng, 1), *general_words(rng, 4)]) for _ in names]
    between = [part for pair in zip(stretches, names, strict=True) for part in pair]
    return f"{' '.join([opening, *between, *topical_words(topic, rng, 2), *dated])}."


def _question(number: int, among: int, rng: np.random.Generator) -> str:
    topic = number // _NEIGHBOURS % TOPICS
    words = ["what", *topical_words(topic, rng, int(rng.integers(1, 3))), *general_words(rng, 2), "of"]
    other = near(rng, np.array([number]), among)
    also = ["in", name_of(int(other[0]))] if rng.random() < _NEAR else []
    return " ".join([*words, name_of(number), *also])
