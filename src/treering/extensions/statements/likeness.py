"""How near texts of statements and their words are to each other, by common words and vectors of the static model."""

from functools import lru_cache

from treering.extensions.statements.words import words_for, words_in
from treering.models.static_model import StaticEmbedder
from treering.ports.models import Vector

_EMBEDDER = StaticEmbedder()
_REMEMBERED = 1_024
"""Texts whose vectors and words stay in memory, 7 KB each. With 4,096, a sixth fewer are embedded again."""
_SAME = 0.85
"""The cosine of two words from which on they are one word in two forms."""


def cosine(new: str, old: str) -> float:
    """Return the cosine of two texts."""
    return float(_vector(new) @ _vector(old))


def same_words(new: str, old: str) -> float:
    """Return the share of words that both texts have, small ones included: `Lena takes …` and `Omar takes …`."""
    words, others = _words(new), _words(old)
    common = len(words & others)
    return common / max(1, len(words) + len(others) - common)


def word_signs(new: str, old: str) -> dict[str, float]:
    """Return the similarity of the words of two texts, and the closest pair of different words.

    `I drink coffee` and `I've switched to tea` share no word, but both name a drink.
    """
    words, others = _word_vectors(new), _word_vectors(old)
    if not len(words) or not len(others):
        return {}
    cosines = words @ others.T
    nearest, nearest_old = cosines.max(axis=1), cosines.max(axis=0)
    differing = cosines[nearest < _SAME][:, nearest_old < _SAME]
    return {
        "soft new": float(nearest.sum()) / len(words),
        "closest other": float(differing.max()) if differing.size else 0.0,
        "other words": len(differing),
    }


def forget() -> None:
    """Drop the texts of compared statements from memory."""
    _vector.cache_clear()
    _word_vectors.cache_clear()
    _words.cache_clear()


@lru_cache(_REMEMBERED)
def _vector(text: str) -> Vector:
    return _EMBEDDER.embed_query(text)


@lru_cache(_REMEMBERED)
def _word_vectors(text: str) -> Vector:
    small = words_for(text).small
    spoken = (word.removesuffix("'s") for word in words_in(text) if len(word) > 1 and word not in small)
    return _EMBEDDER.embed_documents(tuple(dict.fromkeys(spoken)))


@lru_cache(_REMEMBERED)
def _words(text: str) -> frozenset[str]:
    return frozenset(words_in(text))
