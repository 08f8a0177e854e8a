"""Which texts the built-in models can read: English, and at most single letters and symbols of other scripts."""

import unicodedata
from functools import lru_cache


def knows_most_words(text: str) -> bool:
    """Return whether most words of a text are written in Latin letters or digits.

    The vocabulary of both models (BERT, uncased) contains words of that script only. Texts in other scripts consist of
    unknown tokens or single letters, and get almost the same vector. Emoji and mathematical symbols are unknown as
    well; punctuation is not counted.
    """
    if text.isascii():
        return any(map(str.isalnum, text))
    known = [share for word in unicodedata.normalize("NFKC", text).split() if (share := _known_share(word)) is not None]
    return 2 * sum(share > 0.5 for share in known) > len(known)


def _known_share(word: str) -> float | None:
    """Return the share of known letters, digits and symbols of a word; `None` if it has none."""
    signs = [sign for sign in word if sign.isalnum() or (not sign.isascii() and unicodedata.category(sign)[0] in "SM")]
    return sum(map(_is_known, signs)) / len(signs) if signs else None


@lru_cache(maxsize=1 << 12)
def _is_known(sign: str) -> bool:
    return sign.isascii() or unicodedata.name(sign, "").startswith("LATIN ")
