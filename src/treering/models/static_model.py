"""The static embedder: the weighted sum of a vector for each token. Bundled; nothing to download.

It approximates the built-in model on many texts (`tools/distil`), with a lower recall at a thousandth of the cost.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cache
from importlib.resources import as_file, files
from itertools import chain
from threading import Lock
from typing import TYPE_CHECKING, Any
from unicodedata import category, normalize

import numpy as np
import numpy.typing as npt

from treering.core.errors import InvalidInput
from treering.models import shipped
from treering.models.latin import knows_most_words
from treering.models.vocabulary import vocabulary
from treering.ports.models import Vector

if TYPE_CHECKING:
    from importlib.resources.abc import Traversable

    from tokenizers import Tokenizer

DIMENSION = 256
UNRELATED_BELOW = 0.34
"""Reached by the same share of pairs of a question and a text as 0.62 with the built-in model."""

EXPECTED = (0.715, -0.137)
"""The expected cosine of the built-in model, both measured above the threshold for unrelated texts: slope and offset.

Least squares over the 100 texts nearest to each of 3,991 questions (`tools/distil`, held-out sources): the cosine of
the built-in model is 0.428 + 0.412 times the cosine of this one, with a standard deviation of 0.058. A map of ranks to
ranks would be steeper, because the first results of a less exact model are mostly not as near as it claims.
"""

PROSE_SHARE = 0.25
"""Paragraphs that answer together are found by names rather than by such vectors: a higher share costs 2 points of
recall.
"""

LONGEST = 512
"""The maximal number of tokens of a text."""

VECTORS = "vectors.npy"
"""`int8[vocabulary, 256]`: the direction of each token."""
WEIGHTS = "weights.npy"
"""`uint8[vocabulary]`: the weight of each token."""
SHA256 = {
    VECTORS: "7c6bb9e52946bee78c4436000b4af99305f359166c96afa0ac2ce71a8911acf8",
    WEIGHTS: "cfb855b8e6731fb9a8597c42437e9da2dc6d8ed7cef5620c5e010195c26dcbbc",
}

_FOLDER = "static_bge_small"
_TOKENS_AT_ONCE = 512  # their vectors fit into the cache of a core
_REMEMBERED = 50_000  # cached words with their tokens
_UNKNOWN = "[UNK]"
_LONGEST_WORD = 100  # as in the training of the vocabulary
_ROOTS = np.rint(8 * np.sqrt(np.arange(LONGEST + 1))).astype(np.int64)
"""The weight of a token by its number of occurrences: 8 times the square root, rounded.

With 8, the sum of 256 squares for `LONGEST` tokens is below 2 to the power of 63.
"""

_CONTROL = re.compile(r"[\x00-\x08\x0b\x0c\x0e-\x1f\x7f\x85]")
_REMOVED = dict.fromkeys((*range(9), 11, 12, *range(14, 32), 127, 0x85))
_SIGNS = r"!-/:-@\[-`{-~\u00a1\u00a7\u00ab\u00b6\u00b7\u00bb\u00bf\u2010-\u2027"
_WORDS = re.compile(rf"[^{_SIGNS}]+|[{_SIGNS}]")
_COMMON = re.compile(
    r"[!-~\u00a1-\u00ac\u00ae-\u024f\u2010-\u2027\u20a0-\u2307\u2500-\u2767\ufe0f\U0001f300-\U0001f6ff\U0001f900-\U0001f9ff]+"
)
"""Words of Latin letters, common signs and emoji. Loading the tokenizer for others takes 18 MB of memory."""


class StaticEmbedder:
    """Sums up the vectors of a text's tokens. The tables are mapped on first use.

    Sums are integers, so that vectors are equal on every machine and independent of other texts. Thread-safe. Methods
    raise `Corrupt` if the model's files are missing or modified. `threads` is ignored: one is fast enough.
    """

    dimension = DIMENSION
    unrelated_below = UNRELATED_BELOW
    prose_share = PROSE_SHARE
    expected = EXPECTED

    def __init__(self, threads: int = 1, *, folder: Traversable | None = None) -> None:
        if threads < 1:
            raise InvalidInput(
                f"threads is {threads}; it must be 1 or more.", hint="Set threads to 1 or more, or omit it."
            )
        self._folder = folder
        self._loading = Lock()
        self._tables: _Tables | None = None

    @property
    def model_id(self) -> str:
        """The id of the model, with the beginning of its table's hash."""
        return f"static-bge-small:int8:{DIMENSION}:{SHA256[VECTORS][:8]}:t{LONGEST}"

    def embed_documents(self, texts: Sequence[str]) -> Vector:
        """Embed stored texts: `float32[n, 256]`, unit length, in the order given."""
        tables = self._loaded()
        vectors = np.empty((len(texts), DIMENSION), np.float32)
        start = 0
        for group in _together(map(tables.words.counts, texts)):
            vectors[start : start + len(group)] = tables.sums(group)
            start += len(group)
        return vectors

    def embed_query(self, text: str) -> Vector:
        """Embed a question: `float32[256]`, unit length. Equals the vector of a text with the same words."""
        tables = self._loaded()
        vector: Vector = tables.sums([tables.words.counts(text)])[0]
        return vector

    def knows(self, text: str) -> bool:
        """Return whether the model knows most of the words of a text."""
        return knows_most_words(shipped.readable(text, LONGEST))

    def tokens(self, text: str) -> Sequence[int]:
        """Return the numbers of a text's tokens, up to `LONGEST`."""
        return self._loaded().words.tokens(text)

    def _loaded(self) -> _Tables:
        with self._loading:
            if self._tables is None:
                self._tables = _load(self._folder) if self._folder else _shipped()
            return self._tables


@dataclass(frozen=True, slots=True)
class _Tables:
    words: _Words
    vectors: npt.NDArray[np.int8]
    weights: npt.NDArray[np.uint8]

    def sums(self, texts: Sequence[Mapping[int, int]]) -> Vector:
        """Return the sum of each text's tokens, weighted by the square root of their number, at unit length.

        All terms are integers, and sums are exact in 64 bits in any order. (`einsum` runs in this thread. A matrix
        product would start threads that cost more than they save.)
        """
        tokens = np.fromiter(chain.from_iterable(texts), np.intp)
        often = np.fromiter(chain.from_iterable(text.values() for text in texts), np.intp)
        numbers = self.vectors.take(tokens, axis=0).astype(np.float64)
        weights = (self.weights.take(tokens) * _ROOTS.take(often)).astype(np.float64)
        sums = np.empty((len(texts), DIMENSION))
        start = 0
        for row, text in enumerate(texts):
            end = start + len(text)
            np.einsum("t,td->d", weights[start:end], numbers[start:end], out=sums[row])
            start = end
        whole = sums.astype(np.int64)
        norms = np.sqrt(np.einsum("nd,nd->n", whole, whole))
        sums[norms == 0, 0] = norms[norms == 0] = 1.0  # a text of tokens without weight
        unit: Vector = (sums / norms[:, np.newaxis]).astype(np.float32)
        return unit


class _Pieces(dict[str, Sequence[int]]):
    """A cache of the tokens of parts of words: unlike words with punctuation, parts repeat within and across texts."""

    def __init__(self, tokens: Mapping[str, int]) -> None:
        super().__init__()
        self.unknown = (tokens[_UNKNOWN],)
        self._vocabulary = tokens
        self._longest = max(map(len, tokens))

    def __missing__(self, part: str) -> Sequence[int]:
        if len(self) >= _REMEMBERED:
            self.clear()
        self[part] = pieces = tuple(self._cut(part))
        return pieces

    def _cut(self, part: str) -> Sequence[int]:
        """Split a part into the longest pieces of the vocabulary, from the left (WordPiece)."""
        pieces: list[int] = []
        start = 0
        while start < len(part) <= _LONGEST_WORD:
            head = "##" if start else ""
            ends = range(min(len(part), start + self._longest), start, -1)
            end = next((end for end in ends if head + part[start:end] in self._vocabulary), None)
            if end is None:
                break
            pieces.append(self._vocabulary[head + part[start:end]])
            start = end
        return pieces if start == len(part) else self.unknown


@dataclass(slots=True)
class _Words:
    """Splits texts into tokens like the built-in model's tokenizer, word by word.

    The tokenizer splits at white space first. Tokens are therefore cached by word, which is three times as fast. Words
    with characters that are not common are split by the tokenizer itself, which is loaded on demand.
    """

    place: Traversable
    parts: _Pieces
    known: dict[str, tuple[int, ...]] = field(default_factory=dict)
    tokenizer: Tokenizer | None = None

    def counts(self, text: str) -> Mapping[int, int]:
        """Count the tokens of a text."""
        return Counter(self.tokens(text))

    def tokens(self, text: str) -> Sequence[int]:
        """Return the first `LONGEST` tokens of a text, or the unknown token if it has none."""
        read = text[: LONGEST * shipped.CHARS_PER_TOKEN] if text.isascii() else shipped.readable(text, LONGEST)
        words = (read.translate(_REMOVED) if _CONTROL.search(read) else read).split()
        known = self.known
        try:
            tokens = list(chain.from_iterable([known[word] for word in words[:LONGEST]]))
        except KeyError:
            tokens = list(chain.from_iterable([known.get(word) or self._remember(word) for word in words[:LONGEST]]))
        return tokens[:LONGEST] or [*self.parts.unknown]

    def _remember(self, word: str) -> tuple[int, ...]:
        if len(self.known) >= _REMEMBERED:
            self.known.clear()
        tokens = tuple(self._cut(word) if _COMMON.fullmatch(word) else self._cut_by_tokenizer(word))
        self.known[word] = tokens
        return tokens

    def _cut(self, word: str) -> Iterable[int]:
        return chain.from_iterable(map(self.parts.__getitem__, _WORDS.findall(_folded(word))))

    def _cut_by_tokenizer(self, word: str) -> Sequence[int]:
        if self.tokenizer is None:
            self.tokenizer = shipped.load_tokenizer(shipped.verified(self.place, shipped.TOKENIZER), LONGEST)
        tokens: Sequence[int] = self.tokenizer.encode(word, add_special_tokens=False).ids
        return tokens


def _folded(word: str) -> str:
    """Return a word in lower case without accents."""
    if word.isascii():
        return word.lower()
    return "".join(sign for sign in normalize("NFD", word) if category(sign) != "Mn").lower()


def _together(texts: Iterable[Mapping[int, int]]) -> Iterator[list[Mapping[int, int]]]:
    """Group texts until they have enough tokens."""
    held: list[Mapping[int, int]] = []
    count = 0
    for text in texts:
        held.append(text)
        count += len(text)
        if count >= _TOKENS_AT_ONCE:
            yield held
            held, count = [], 0
    if held:
        yield held


@cache
def _shipped() -> _Tables:
    """Return the tables that come with Treering, which all embedders of a process share."""
    return _load(files(__package__) / _FOLDER)


def _load(folder: Traversable) -> _Tables:
    words = _Words(shipped.place_of_model(), _Pieces(vocabulary()))
    return _Tables(words, _mapped(folder, VECTORS), _mapped(folder, WEIGHTS))


def _mapped(folder: Traversable, name: str) -> npt.NDArray[Any]:
    """Map a table into memory, shared by processes."""
    shipped.verified(folder, name, SHA256, model="static model")
    with as_file(folder / name) as path:
        table: npt.NDArray[Any] = np.asarray(
            np.load(path, mmap_mode="r")
        )  # each result of a memmap costs as much again
    return table
