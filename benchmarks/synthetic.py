"""Made-up text with the structure of real text, and vectors that go with it.

Words and names have the frequencies of an encyclopedia (`benchmarks.vocabulary`); sentences and passages have its
lengths, and what a passage speaks of it says again. A document keeps to one topic, whose words it shares with other
documents on it, and to what it is called after. Everything follows from the seed.
"""

import time
from collections.abc import Sequence
from dataclasses import dataclass
from functools import lru_cache
from hashlib import blake2b

import numpy as np

from benchmarks.vocabulary import TOPICS, asked_names, common_words, content_words, names, topic_of, topical_words
from treering.extensions.encoder.onnx import DIMENSION, BgeSmall
from treering.ports.models import Vector
from treering.surfaces.python.space import Space
from treering.system.machine import SystemClock
from treering.testing.builders import Builder

PER_DOCUMENT = 10
TEAMS = 10
"""Scopes that documents are spread over, and as many values of `metadata.shelf`."""

_PATCH = 100  # documents in one patch

_SENTENCES = (1.35, 0.55)  # of a passage: mean and deviation of the logarithm
_WORDS = (2.83, 0.45)  # of a sentence, names counted once
_MOST_SENTENCES = 20
_COMMON, _NAMED, _DATED = 0.43, 0.16, 0.045  # parts of a sentence; the rest carries a meaning
_TOPICAL = 0.35  # part of the words that carry a meaning
_AGAIN = 0.22  # part of names and words that the passage has had before
_OF_TITLE = 0.08  # part of the names that name what the document is about
_SYMBOLIC = 0.02  # part of the sentences that speak of a symbol such as `load_ravo`


@dataclass(frozen=True, slots=True)
class Document:
    """Passages on one topic."""

    title: str
    passages: tuple[str, ...]
    number: int

    @property
    def scope(self) -> str:
        """Name the scope it lies in."""
        return f"/team/{self.number % TEAMS}"

    @property
    def shelf(self) -> int:
        """Return its value of `metadata.shelf`, which is independent of its scope."""
        return self.number // TEAMS % TEAMS


def documents(count: int, *, seed: int = 0, passages: int = PER_DOCUMENT) -> list[Document]:
    """Make documents of so many passages of about four sentences each."""
    rng = np.random.default_rng(seed)
    return [_document(number, passages, rng) for number in range(count)]


def questions(count: int, *, seed: int = 1) -> list[str]:
    """Make questions of ten to twenty words, each on one topic and of one or two names; one in four has a symbol."""
    rng = np.random.default_rng(seed)
    return [_question(rng, symbolic=number % 4 == 3) for number in range(count)]


def general_words(rng: np.random.Generator, count: int) -> list[str]:
    """Draw from all words."""
    common = int(rng.binomial(count, 0.6))
    words = [*common_words(rng, common), *content_words(rng, count - common)]
    rng.shuffle(words)
    return words


def fill(space: Space, content: Sequence[Document]) -> None:
    """Put documents into a space, without their vectors."""
    build = Builder(SystemClock())
    for start in range(0, len(content), _PATCH):
        sources = [
            build.source(
                *document.passages,
                origin=f"notes/{document.number}.md",
                title=document.title,
                scope=document.scope,
                metadata={"shelf": document.shelf},
            )
            for document in content[start : start + _PATCH]
        ]
        space.engine.ledger.commit(build.patch(*sources))


class StandIn:
    """An embedder that costs next to nothing: the sum of a text's words, each with a direction of its own.

    A direction common to all texts keeps unrelated ones at a cosine of about 0.5, as the built-in model does.
    With `encoding` the built-in model embeds every question too and its answer is thrown away, for its cost.
    `spent` is the CPU time documents took, in seconds.
    """

    dimension = DIMENSION
    model_id = f"stand-in/{DIMENSION}"
    unrelated_below = BgeSmall.unrelated_below

    def __init__(self, *, encoding: bool = False) -> None:
        self._encoder = BgeSmall() if encoding else None
        self.spent = 0.0

    def embed_documents(self, texts: Sequence[str]) -> Vector:
        """Embed texts: `float32[n, dim]`, unit length."""
        began = time.thread_time()
        vectors = np.array([_vector(text) for text in texts], np.float32).reshape(-1, DIMENSION)
        self.spent += time.thread_time() - began
        return vectors

    def embed_query(self, text: str) -> Vector:
        """Embed a question: `float32[dim]`, unit length."""
        if self._encoder:
            self._encoder.embed_query(text)
        return _remembered(text)


def _document(number: int, passages: int, rng: np.random.Generator) -> Document:
    topic = int(rng.integers(TOPICS))
    title = names(rng, 1)[0]
    if rng.random() < 0.3:
        title = f"{title} ({content_words(rng, 1)[0]})"
    return Document(title, tuple(_passage(topic, title, rng) for _ in range(passages)), number)


def _question(rng: np.random.Generator, *, symbolic: bool) -> str:
    topic = int(rng.integers(TOPICS))
    asked = asked_names(rng, int(rng.integers(1, 3)))
    words = [*topical_words(topic, rng, 4), *content_words(rng, 2), *common_words(rng, 6), *asked]
    rng.shuffle(words)
    return " ".join(["what", *words, *([_symbol(topic, rng)] if symbolic else [])]) + "?"


def _passage(topic: int, title: str, rng: np.random.Generator) -> str:
    count = min(max(1, round(rng.lognormal(*_SENTENCES))), _MOST_SENTENCES)
    said: list[str] = []
    named = [title.partition(" (")[0]]
    return " ".join(_sentence(topic, said, named, rng) for _ in range(count))


def _sentence(topic: int, said: list[str], named: list[str], rng: np.random.Generator) -> str:
    """Write a sentence; what it says and names joins what the passage has said and named."""
    size = min(max(4, round(rng.lognormal(*_WORDS))), 80)
    commons, dated, name_count = (int(rng.binomial(size, part)) for part in (_COMMON, _DATED, _NAMED))
    meant = max(1, size - commons - dated - name_count)
    words = [*_meant(topic, meant, said, rng), *_named(name_count, named, rng), *common_words(rng, commons)]
    words += [str(year) for year in rng.integers(1800, 2024, size=dated)]
    if rng.random() < _SYMBOLIC:
        words.append(_symbol(topic, rng))
    rng.shuffle(words)
    first = words[0]
    return " ".join([first[:1].upper() + first[1:], *words[1:]]) + "."


def _meant(topic: int, count: int, said: list[str], rng: np.random.Generator) -> list[str]:
    again = int(rng.binomial(count, _AGAIN)) if said else 0
    topical = int(rng.binomial(count - again, _TOPICAL))
    words = [*topical_words(topic, rng, topical), *content_words(rng, count - again - topical)]
    repeated = [said[at] for at in rng.integers(len(said), size=again)] if again else []
    said += words
    return [*words, *repeated]


def _named(count: int, named: list[str], rng: np.random.Generator) -> list[str]:
    kinds = rng.random(count)
    again = [named[0] if kind < _OF_TITLE else named[int(rng.integers(len(named)))] for kind in kinds if kind < _AGAIN]
    new = names(rng, count - len(again))
    named += new
    return [*again, *new]


def _symbol(topic: int, rng: np.random.Generator) -> str:
    first, second = topical_words(topic, rng, 2)
    return f"{first}_{second}"


def _vector(text: str) -> Vector:
    words = [word for word in text.lower().replace(".", "").split() if len(word) > _SHORT]
    total = np.sum([_direction(word) for word in words or [text]], axis=0)
    both = _direction("") + total / np.linalg.norm(total)
    unit: Vector = (both / np.linalg.norm(both)).astype(np.float32)
    return unit


_SHORT = 3  # characters of words that say little


@lru_cache(maxsize=50_000)
def _direction(word: str) -> Vector:
    """Return where a word points: half its own way, half that of its topic."""
    return (_drawn(word) + _drawn(f"topic {topic_of(word)}")) * np.float32(0.5**0.5)


def _drawn(name: str) -> Vector:
    digest = blake2b(name.encode(), digest_size=8).digest()
    drawn = np.random.default_rng(int.from_bytes(digest)).standard_normal(DIMENSION, dtype=np.float32)
    unit: Vector = drawn / np.linalg.norm(drawn)
    return unit


@lru_cache(maxsize=1_000)
def _remembered(text: str) -> Vector:
    return _vector(text)
