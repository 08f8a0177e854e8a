"""How rare a word is in English of any kind, by its place in the vocabulary of the built-in model."""

import json
from collections.abc import Mapping
from functools import cache
from math import log

from treering.models import shipped

_FIRST_WORD = 1996
"""The number of "the": letters and signs come before it, and behind it words and parts of words by frequency."""


@cache
def vocabulary() -> Mapping[str, int]:
    """Return the number of each word and part of a word that the built-in models know."""
    known: Mapping[str, int] = json.loads(shipped.verified(shipped.place_of_model(), shipped.TOKENIZER))["model"][
        "vocab"
    ]
    return known


def word_rarity(word: str) -> float:
    """Return how rare a word is: from 0 for the most common ones to 1 for one that the vocabulary does not have.

    It is the logarithm of the word's place among all words, as idf is that of its frequency.
    """
    known = vocabulary()
    number = known.get(word.lower())
    return 1.0 if number is None else log(max(1, number - _FIRST_WORD + 1)) / log(len(known) - _FIRST_WORD)
