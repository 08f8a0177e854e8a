"""Postings of a run of passages: which of them have a term, and how often; in buckets of terms, each packed.

A bucket holds whole terms, a few thousand postings of them together, so that rare terms need no row of their own. A
number, here, is cut into its bytes, and the first bytes of all numbers stand together, then the second: most of them
are zeros, which pack well.
"""

import struct
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from functools import lru_cache
from hashlib import blake2b
from itertools import pairwise

import numpy as np
import numpy.typing as npt

from treering.stores.rows.packing import pack_bytes, unpack_bytes

Keys = npt.NDArray[np.int64]
Terms = npt.NDArray[np.uint64]
Counts = npt.NDArray[np.int64]

_IN_BUCKET = 4_096  # postings, about
_HEADER = struct.Struct("<IIq")  # terms, postings, the key that others are counted from
_SIZES = (8, 4, 4, 4)  # bytes of a term, of its number of postings, of a key, of a count
_CODE_BITS = 21  # of a character


@dataclass(frozen=True, slots=True)
class PostingRun:
    """The postings of some passages: `terms[i]` stands in the passage `keys[i]`, `counts[i]` times."""

    keys: Keys
    terms: Terms
    counts: Counts

    @classmethod
    def joined(cls, runs: Sequence["PostingRun"]) -> "PostingRun":
        """Return the postings of several runs as one."""
        if not runs:
            return cls(np.zeros(0, np.int64), np.zeros(0, np.uint64), np.zeros(0, np.int64))
        return cls(
            np.concatenate([run.keys for run in runs]),
            np.concatenate([run.terms for run in runs]),
            np.concatenate([run.counts for run in runs]),
        )

    def without(self, keys: Iterable[int]) -> "PostingRun":
        """Return the postings of all other passages."""
        left = ~np.isin(self.keys, np.array(list(keys), np.int64))
        return PostingRun(self.keys[left], self.terms[left], self.counts[left])


@lru_cache(maxsize=1 << 16)
def word_code(word: str) -> int:
    """Return the number that stands for a word. Two words with one number are a matter of millions of years."""
    return int.from_bytes(blake2b(word.encode(errors="surrogatepass"), digest_size=8).digest(), "little")


def stretch_codes(text: str) -> Terms:
    """Return the numbers of all stretches of three characters of a text, in order: each stretch has one of its own."""
    chars = np.frombuffer(text.encode("utf-32-le", errors="surrogatepass"), "<u4").astype(np.uint64)
    if len(chars) < 3:
        return np.zeros(0, np.uint64)
    bits = np.uint64(_CODE_BITS)
    return (chars[:-2] << bits << bits) | (chars[1:-1] << bits) | chars[2:]


def bucket_of(term: int, buckets: int) -> int:
    """Return the bucket of a term, of so many."""
    return (term ^ term >> 23 ^ term >> 42) & (buckets - 1)


def packed_run(run: PostingRun) -> list[bytes]:
    """Return the buckets of a run: a power of two of them, at least one."""
    count = 1 << max(0, (len(run.keys) // _IN_BUCKET - 1)).bit_length() if len(run.keys) > _IN_BUCKET else 1
    buckets = _buckets_of(run.terms, count)
    order = np.lexsort((run.keys, run.terms, buckets))
    ends = np.searchsorted(buckets[order], np.arange(count + 1))
    parts = (order[start:end] for start, end in pairwise(ends))
    return [_packed(PostingRun(run.keys[part], run.terms[part], run.counts[part])) for part in parts]


def unpacked_run(body: bytes) -> PostingRun:
    """Return the postings of a bucket. Raises `Corrupt` for one that is damaged."""
    known, held, keys, counts = _unpacked(body)
    return PostingRun(keys, np.repeat(known, held), counts)


def found_in(body: bytes, terms: Iterable[int]) -> dict[int, tuple[Keys, Counts]]:
    """Return keys, ascending, and counts of the passages that have each of some terms of a bucket."""
    known, held, keys, counts = _unpacked(body)
    ends = np.concatenate([[0], np.cumsum(held)])
    wanted = np.array(list(terms), np.uint64)
    found: dict[int, tuple[Keys, Counts]] = {}
    for term, place in zip(wanted.tolist(), np.searchsorted(known, wanted).tolist(), strict=True):
        if place < len(known) and int(known[place]) == term:
            part = slice(int(ends[place]), int(ends[place + 1]))
            found[term] = keys[part], counts[part]
    return found


def _buckets_of(terms: Terms, buckets: int) -> Terms:
    mixed: Terms = (terms ^ terms >> np.uint64(23) ^ terms >> np.uint64(42)) & np.uint64(buckets - 1)
    return mixed


def _packed(run: PostingRun) -> bytes:
    """Pack postings that are sorted by term and key."""
    firsts = np.flatnonzero(np.append(True, run.terms[1:] != run.terms[:-1])[: len(run.terms)])
    base = int(run.keys.min(initial=0))
    steps = np.diff(run.keys, prepend=base)
    steps[firsts] = run.keys[firsts] - base
    held = np.diff(np.append(firsts, len(run.terms)))
    columns = (run.terms[firsts], held, steps, run.counts)
    planes = (_cut(column, size) for column, size in zip(columns, _SIZES, strict=True))
    return pack_bytes(_HEADER.pack(len(firsts), len(run.keys), base) + b"".join(planes))


def _unpacked(body: bytes) -> tuple[Terms, Counts, Keys, Counts]:
    """Return terms, how many postings each has, and keys and counts of all postings."""
    content = unpack_bytes(body)
    terms, postings, base = _HEADER.unpack_from(content)
    columns, start = list[Terms](), _HEADER.size
    for length, size in zip((terms, terms, postings, postings), _SIZES, strict=True):
        columns.append(_joined(content[start : start + length * size], size))
        start += length * size
    if start != len(content) or int(columns[1].sum()) != postings:
        raise ValueError("a bucket of postings has another length than it says")
    known, (held, steps, counts) = columns[0], (column.astype(np.int64) for column in columns[1:])
    sums = np.cumsum(steps)
    firsts = np.concatenate([[0], np.cumsum(held)[:-1]]).astype(np.int64) if terms else np.zeros(0, np.int64)
    before = np.where(firsts > 0, sums[firsts - 1], 0) if terms else np.zeros(0, np.int64)
    keys = sums - np.repeat(before, held) + base
    return known, held, keys, counts


def _cut(column: npt.NDArray[np.generic], size: int) -> bytes:
    return column.astype(f"<u{size}").view(np.uint8).reshape(-1, size).T.tobytes()


def _joined(content: bytes, size: int) -> Terms:
    planes = np.frombuffer(content, np.uint8).reshape(size, -1)
    return np.ascontiguousarray(planes.T).view(f"<u{size}").reshape(-1).astype(np.uint64)
