"""Words and names as running text has them: a few very common ones, and always new ones.

Ranks follow the law of Zipf and Mandelbrot, `1 / (rank + shift) ** exponent`. Exponents, shifts and the shares of the
most common words were fitted to a set of 4,937 paragraphs of an encyclopedia (`python -m benchmarks text` compares
them); none of their text is here. Words that carry a meaning are made of syllables, with English endings.
"""

from functools import cache, lru_cache
from zlib import crc32

import numpy as np
import numpy.typing as npt

Numbers = npt.NDArray[np.int64]

TOPICS = 200

_COMMON = """the 61 of 33 and 33 in 27 a 21 is 17 to 14 was 14 by 11 as 10 on 9 for 8 with 6 an 5 from 5 at 5 his 3
that 3 also 3 has 3 which 3 or 2 it 2 are 2 he 2 who 2 one 2 were 2 its 2 their 2 be 1 been 1 her 1
during 1 after 1 have 1 had 1 most 1 but 1 other 1 into 1 not 1 this 1""".split()
"""Words without a meaning of their own, each with how many it is of a thousand."""

_GIVEN = """Ada Alan Alice Amir Ana Anna Arthur Ben Carl Carla Chen Clara Daniel David Elena Emil Emma Erik Eva Felix
Fatima Frank George Grace Hana Henry Hugo Ida Ines Ivan Jack James Jan Jane John Jonas Julia Karl Kate Laura Leo Lena
Liam Lucy Mara Maria Mark Mary Max Mei Michael Mina Nadia Nina Noah Nora Olga Oscar Otto Paul Pavel Peter Rahul Rita
Robert Rosa Ruth Samir Sara Simon Sofia Thomas Tom Vera Victor Wei William Yara Yusuf""".split()
_FAMILY = """Adams Ahmed Allen Baker Bauer Bell Berg Brown Carter Chen Clark Cohen Cook Costa Cruz Davis Diaz Duval
Evans Fischer Fox Garcia Grant Gray Green Gupta Hall Hansen Harris Hill Hughes Ito Jackson Jensen Johnson Jones Khan
Kim King Klein Kumar Lee Lewis Lopez Martin Meyer Miller Moore Morgan Murphy Nguyen Novak Okafor Olsen Patel Perez
Popov Price Reed Reyes Rossi Sato Schmidt Scott Silva Singh Smith Stone Suzuki Tanaka Taylor Turner Walker Ward Weber
White Wilson Wood Wright Young Zhang""".split()
_AFTER = "River,County,University,Island,Records,Castle,Museum,Park,School,League,Festival,Station,Press,Bridge".split(
    ","
)

_SYLLABLES = tuple(
    onset + vowel + coda
    for onset in "b c d f g h k l m n p r s t v w br ch cr fl gr pl sh st tr".split()
    for vowel in "aeiou"
    for coda in ("", "n", "r")
)
_ENDINGS = ("", "", "", "s", "ed", "ing", "ly", "er", "ion")
_STEMS = 0.4  # stems for each word
_CONTENT_WORDS = 60_000
_NAMES = 1_500_000
_NAME_WORDS = 600_000
_ASKED = 20_000  # names


class Ranks:
    """Draws ranks, from 0, by the law of Zipf and Mandelbrot."""

    def __init__(self, count: int, *, exponent: float, shift: float) -> None:
        weights = (np.arange(1, count + 1) + shift) ** -exponent
        self._cumulative = np.cumsum(weights) / weights.sum()

    def draw(self, rng: np.random.Generator, size: int) -> Numbers:
        """Draw so many ranks."""
        return self.at(rng.random(size))

    def at(self, shares: npt.NDArray[np.float64]) -> Numbers:
        """Return the ranks at some shares of the whole, between 0 and 1."""
        return np.searchsorted(self._cumulative, shares)


def common_words(rng: np.random.Generator, size: int) -> list[str]:
    """Draw words that carry no meaning by themselves."""
    words, cumulative = _common()
    return [words[at] for at in np.searchsorted(cumulative, rng.random(size))]


def content_words(rng: np.random.Generator, size: int) -> list[str]:
    """Draw words that carry a meaning, of any topic."""
    return [content_word(int(rank)) for rank in _content().draw(rng, size)]


def topical_words(topic: int, rng: np.random.Generator, size: int) -> list[str]:
    """Draw words of one topic, the common ones among them most."""
    known = _by_topic()[topic]
    ranks = _of_topic().at(rng.random(size) * 0.999999)
    return [content_word(int(known[rank])) for rank in np.minimum(ranks, len(known) - 1)]


def names(rng: np.random.Generator, size: int) -> list[str]:
    """Draw names of people, places and bodies, the well known ones most."""
    return [name_of(int(number)) for number in _known_names().draw(rng, size)]


def asked_names(rng: np.random.Generator, size: int) -> list[str]:
    """Draw names that are asked for: each as likely, of those best known, for nobody asks for the commonest most."""
    return [name_of(int(number)) for number in rng.integers(_ASKED, size=size)]


@cache
def content_word(rank: int) -> str:
    """Return the word of a rank: short where it is common, with an ending where it is not."""
    return f"{made_up_word(int(rank * _STEMS))}{_ENDINGS[rank % len(_ENDINGS)]}"


def topic_of(word: str) -> int:
    """Return the topic of a word."""
    return crc32(word.encode()) % TOPICS


@lru_cache(maxsize=1 << 18)
def name_of(number: int) -> str:
    """Return a name of one to three words: of a person, of a place, or of what is called after a place."""
    kind, first, second = _drawn(number, 3)
    if kind < 0.45:
        return f"{_name_word(first, _GIVEN)} {_name_word(second, _FAMILY)}"
    if kind < 0.75:
        return _name_word(first, ())
    return f"{_name_word(first, _FAMILY)} {_AFTER[int(second * len(_AFTER))]}"


@lru_cache(maxsize=1 << 18)
def made_up_word(number: int) -> str:
    """Return a made-up word, shorter for lower numbers; different numbers give different ones."""
    base, length = len(_SYLLABLES), 1
    while number >= base**length:
        number -= base**length
        length += 1
    spread = number * 7_919 % base**length  # coprime to the number of syllables: no two numbers meet
    return "".join(_SYLLABLES[spread // base**place % base] for place in range(length))


def _name_word(share: float, known: tuple[str, ...] | list[str]) -> str:
    rank = int(_name_words().at(np.array([share]))[0])
    return known[rank] if rank < len(known) else made_up_word(_CONTENT_WORDS + rank).capitalize()


def _drawn(number: int, count: int) -> list[float]:
    """Return numbers between 0 and 1 that follow from a number."""
    return [crc32(f"{number} {place}".encode()) / 2**32 for place in range(count)]


@cache
def _common() -> tuple[list[str], npt.NDArray[np.float64]]:
    weights = np.array(_COMMON[1::2], float)
    return _COMMON[::2], np.cumsum(weights) / weights.sum()


@cache
def _content() -> Ranks:
    return Ranks(_CONTENT_WORDS, exponent=1.25, shift=25)


@cache
def _of_topic() -> Ranks:
    return Ranks(_CONTENT_WORDS // TOPICS, exponent=1.3, shift=2)


@cache
def _by_topic() -> list[list[int]]:
    ranks: list[list[int]] = [[] for _ in range(TOPICS)]
    for rank in range(200, _CONTENT_WORDS):  # the commonest belong to none
        ranks[topic_of(content_word(rank))].append(rank)
    return ranks


@cache
def _known_names() -> Ranks:
    return Ranks(_NAMES, exponent=1.0, shift=3)


@cache
def _name_words() -> Ranks:
    return Ranks(_NAME_WORDS, exponent=1.15, shift=10)
