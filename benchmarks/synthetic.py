"""Made-up text with the structure of real text, and vectors that go with it.

Word frequencies follow Zipf's law, the most frequent words are the stop words of English; a document keeps to one
topic, whose words it shares with other documents on it. Everything follows from the seed.
"""

import time
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cache, lru_cache
from hashlib import blake2b

import numpy as np

from treering.edges.clock import SystemClock
from treering.edges.models.bge import DIMENSION, BgeSmall
from treering.edges.surfaces.space import Space
from treering.ports.embedder import Vector
from treering.testing.builders import Builder

PER_DOCUMENT = 10
TEAMS = 10
"""Scopes that documents are spread over, and as many values of `metadata.shelf`."""

TOPICS = 200

_STOP_WORDS = tuple(
    "the of and to a in is that it for was on are with as be by at from this have or an not which had were but".split()
)
_SYLLABLES = tuple(first + vowel for first in "b d f g k l m n p r s t v z ch st tr".split() for vowel in "aeiou")
_VOCABULARY = 20_000
_TOPIC_WORDS = 40
_TOPICAL = 0.3
_NAMED = 0.1  # part of the sentences that speak of a name such as `load_ravo`
_PATCH = 100  # documents in one patch


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
    """Make documents of so many passages of one to four sentences each."""
    rng = np.random.default_rng(seed)
    return [_document(number, passages, rng) for number in range(count)]


def questions(count: int, *, seed: int = 1) -> list[str]:
    """Make questions of four to ten words, each on one topic; one in four asks for a name."""
    rng = np.random.default_rng(seed)
    return [_question(rng, named=number % 4 == 3) for number in range(count)]


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


def topical_words(topic: int, rng: np.random.Generator, count: int) -> list[str]:
    """Draw from the words of a topic: those whose rank leaves its number when divided by the number of topics."""
    return [made_up_word(TOPICS * int(nth) + topic) for nth in rng.integers(1, 1 + _TOPIC_WORDS, size=count)]


def general_words(rng: np.random.Generator, count: int) -> list[str]:
    """Draw from all words, the commonest of which are stop words."""
    # The inverse of Zipf's distribution function, which grows with the logarithm of the rank.
    ranks = np.exp(rng.random(count) * np.log(_VOCABULARY)).astype(int) - 1
    return [made_up_word(int(rank)) for rank in ranks]


@cache
def made_up_word(rank: int) -> str:
    """Return the word of a rank, the commonest first."""
    if rank < len(_STOP_WORDS):
        return _STOP_WORDS[rank]
    size = len(_SYLLABLES)
    spread = rank * 7919 % size**3  # coprime to the number of syllables: every rank has a word of its own
    return "".join(_SYLLABLES[spread // size**place % size] for place in range(3))


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
    title = " ".join(topical_words(topic, rng, 3))
    return Document(title, tuple(_passage(topic, rng) for _ in range(passages)), number)


def _question(rng: np.random.Generator, *, named: bool) -> str:
    topic = int(rng.integers(TOPICS))
    words = [*topical_words(topic, rng, int(rng.integers(2, 6))), *general_words(rng, int(rng.integers(2, 6)))]
    rng.shuffle(words)
    return " ".join([*words, *([_name(topic, rng)] if named else [])])


def _passage(topic: int, rng: np.random.Generator) -> str:
    return " ".join(_sentence(topic, rng) for _ in range(int(rng.integers(1, 5))))


def _sentence(topic: int, rng: np.random.Generator) -> str:
    size = int(rng.integers(8, 21))
    topical = int(rng.binomial(size, _TOPICAL))
    words = [*topical_words(topic, rng, topical), *general_words(rng, size - topical)]
    if rng.random() < _NAMED:
        words.append(_name(topic, rng))
    rng.shuffle(words)
    return " ".join(words).capitalize() + "."


def _name(topic: int, rng: np.random.Generator) -> str:
    first, second = topical_words(topic, rng, 2)
    return f"{first}_{second}"


def _vector(text: str) -> Vector:
    words = [word for word in text.lower().replace(".", "").split() if word not in _STOP_WORDS]
    total = np.sum([_direction(word) for word in words or [text]], axis=0)
    both = _direction("") + total / np.linalg.norm(total)
    unit: Vector = (both / np.linalg.norm(both)).astype(np.float32)
    return unit


@lru_cache(maxsize=50_000)
def _direction(word: str) -> Vector:
    """Return where a word points: half its own way, half that of its topic."""
    rank = _ranks().get(word)
    return _drawn(word) if rank is None else (_drawn(word) + _drawn(f"topic {rank % TOPICS}")) * np.float32(0.5**0.5)


def _drawn(name: str) -> Vector:
    digest = blake2b(name.encode(), digest_size=8).digest()
    drawn = np.random.default_rng(int.from_bytes(digest)).standard_normal(DIMENSION, dtype=np.float32)
    unit: Vector = drawn / np.linalg.norm(drawn)
    return unit


@cache
def _ranks() -> dict[str, int]:
    return {made_up_word(rank): rank for rank in range(_VOCABULARY)}


@lru_cache(maxsize=1_000)
def _remembered(text: str) -> Vector:
    return _vector(text)
