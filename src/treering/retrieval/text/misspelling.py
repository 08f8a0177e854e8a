"""Alternative spellings for a term that no passage contains."""

from itertools import chain
from string import ascii_lowercase

from treering.retrieval.text.analysis import stem

MAX_DOUBTFUL = 3
"""Terms of a question that are corrected at most; each has about 400 alternative spellings."""


def spellings_of(term: str) -> frozenset[str]:
    """Return the terms of words that differ by one letter or one swap of neighbors. The first letter is unchanged."""
    splits = [(term[:at], term[at:]) for at in range(1, len(term) + 1)]
    fewer = (head + tail[1:] for head, tail in splits)
    swapped = (head + tail[1::-1] + tail[2:] for head, tail in splits if len(tail) > 1)
    other = (head + letter + tail[1:] for head, tail in splits if tail for letter in ascii_lowercase)
    more = (head + letter + tail for head, tail in splits for letter in ascii_lowercase)
    return frozenset(map(stem, chain(fewer, swapped, other, more))) - {term}  # the term of `educaton` is no stem
