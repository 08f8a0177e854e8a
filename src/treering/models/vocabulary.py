"""The rarity of a word in English, by its number in the vocabulary of the built-in model."""

import json
from collections.abc import Mapping
from functools import cache
from math import log

from treering.models import shipped

_FIRST_WORD = 1996
"""The number of "the". Letters and punctuation precede it; words and parts of words follow by frequency."""


@cache
def vocabulary() -> Mapping[str, int]:
    """Return the numbers of the words and parts of words that the built-in models know."""
    known: Mapping[str, int] = json.loads(shipped.verified(shipped.place_of_model(), shipped.TOKENIZER))["model"][
        "vocab"
    ]
    return known


def word_rarity(word: str) -> float:
    """Return the rarity of a word, from 0 for the most common words to 1 for a word that is not in the vocabulary.

    It is the logarithm of the word's rank among all words, as idf is the logarithm of its frequency.
    """
    known = vocabulary()
    number = known.get(word.lower())
    return 1.0 if number is None else log(max(1, number - _FIRST_WORD + 1)) / log(len(known) - _FIRST_WORD)
