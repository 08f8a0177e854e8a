"""BM25 over whole texts, as plain as it is usually tried: the baseline that ranking of files has to beat.

The defaults of the package bm25s: words of two characters and more in lower case without a short list of stop words,
no stemming, `k1` 1.5, `b` 0.75, and Lucene's inverse document frequency.
"""

import re
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

K1 = 1.5
B = 0.75

_WORD = re.compile(r"\b\w\w+\b")
_STOP_WORDS = frozenset(
    """
    a an and are as at be but by for if in into is it no not of on or such that the their then there these they this
    to was will with
    """.split()
)


def words_of(text: str) -> list[str]:
    """Return the words of a text, in order."""
    return [word for word in _WORD.findall(text.lower()) if word not in _STOP_WORDS]


@dataclass(frozen=True, slots=True)
class WholeTexts:
    """Texts by name, ready to be ranked. `postings` gives per word the texts that have it, and its weight in each."""

    names: Sequence[str]
    postings: Mapping[str, tuple[npt.NDArray[np.intp], npt.NDArray[np.float64]]]

    @classmethod
    def of(cls, texts: Mapping[str, str]) -> "WholeTexts":
        """Count the words of texts, once."""
        names = sorted(texts)
        counts = [Counter(words_of(texts[name])) for name in names]
        lengths = np.array([count.total() for count in counts], dtype=np.float64)
        norms = K1 * (1 - B + B * lengths / max(lengths.mean(), 1.0)) if names else lengths
        found: dict[str, list[tuple[int, int]]] = {}
        for number, count in enumerate(counts):
            for word, times in count.items():
                found.setdefault(word, []).append((number, times))
        return cls(names, {word: _weighed(of, norms) for word, of in found.items()})

    def rank(self, question: str, limit: int) -> list[str]:
        """Return the names of the best texts; those that share no word with the question are left out."""
        scores = np.zeros(len(self.names))
        for word in words_of(question):
            if word in self.postings:
                texts, weights = self.postings[word]
                scores[texts] += weights
        order = np.argsort(-scores, kind="stable")[:limit]
        return [self.names[number] for number in order if scores[number] > 0]


def _weighed(
    found: Sequence[tuple[int, int]], norms: npt.NDArray[np.float64]
) -> tuple[npt.NDArray[np.intp], npt.NDArray[np.float64]]:
    texts = np.array([number for number, _ in found], dtype=np.intp)
    times = np.array([times for _, times in found], dtype=np.float64)
    frequency = np.log(1 + (len(norms) - len(texts) + 0.5) / (len(texts) + 0.5))
    return texts, frequency * times / (times + norms[texts])
