"""How near texts of statements and their words are to each other, by common words and vectors of the static model."""

from collections.abc import Sequence
from functools import lru_cache

import numpy as np

from treering.extensions.statements.words import words_for, words_in
from treering.models.static_model import StaticEmbedder
from treering.ports.models import Vector

_EMBEDDER = StaticEmbedder()
_REMEMBERED = 1_024
"""Texts whose vectors and words stay in memory, 7 KB each. With 4,096, a sixth fewer are embedded again."""
_REMEMBERED_WORDS = 4_096
"""Words whose vectors stay in memory, 1 KB each: a conversation repeats most of its words."""
_WORD_VECTORS: dict[str, Vector] = {}
_NOT_COMPARED = -2.0
"""Less than any cosine."""
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


def word_signs(new: str, olds: Sequence[str]) -> list[dict[str, float]]:
    """Return the similarity of the words of a text and each of others, and the closest pair of different words.

    `I drink coffee` and `I've switched to tea` share no word, but both name a drink. Texts are compared in small
    products, which are quicker than the threads of a large one, and all products are reduced together.
    """
    words, others = _word_vectors(new), [_word_vectors(old) for old in olds]
    signs: list[dict[str, float]] = [{} for _ in olds]
    comparable = [place for place, one in enumerate(others) if len(one) and len(words)]
    if not comparable:
        return signs
    sizes = [len(others[place]) for place in comparable]
    starts = np.cumsum([0, *sizes[:-1]])
    cosines = np.concatenate([words @ others[place].T for place in comparable], axis=1)
    nearest = np.maximum.reduceat(cosines, starts, axis=1)
    is_other = nearest < _SAME
    is_compared = np.repeat(is_other, sizes, axis=1) & (cosines.max(axis=0) < _SAME)
    closest = np.maximum.reduceat(np.where(is_compared, cosines, _NOT_COMPARED).max(axis=0), starts).tolist()
    # Each sum is over adjacent numbers, so that it does not depend on the number of texts.
    sums = np.ascontiguousarray(nearest.T).sum(axis=1).tolist()
    for place, total, highest, count in zip(comparable, sums, closest, is_other.sum(axis=0).tolist(), strict=True):
        signs[place] = {
            "soft new": total / len(words),
            "closest other": highest if highest > _NOT_COMPARED else 0.0,
            "other words": count,
        }
    return signs


def forget() -> None:
    """Drop the texts of compared statements from memory."""
    _vector.cache_clear()
    _word_vectors.cache_clear()
    _WORD_VECTORS.clear()
    _words.cache_clear()


@lru_cache(_REMEMBERED)
def _vector(text: str) -> Vector:
    return _EMBEDDER.embed_query(text)


@lru_cache(_REMEMBERED)
def _word_vectors(text: str) -> Vector:
    small = words_for(text).small
    spoken = (word.removesuffix("'s") for word in words_in(text) if len(word) > 1 and word not in small)
    vectors = {word: _WORD_VECTORS.get(word) for word in spoken}
    if missing := [word for word, vector in vectors.items() if vector is None]:
        if len(_WORD_VECTORS) > _REMEMBERED_WORDS:
            _WORD_VECTORS.clear()
        made = dict(zip(missing, _EMBEDDER.embed_documents(missing), strict=True))
        vectors |= made
        _WORD_VECTORS.update(made)
    return np.array(list(vectors.values()), np.float32).reshape(len(vectors), _EMBEDDER.dimension)


@lru_cache(_REMEMBERED)
def _words(text: str) -> frozenset[str]:
    return frozenset(words_in(text))
