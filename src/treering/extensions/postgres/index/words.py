"""The stored full text of passages: their terms, and postings of runs of passages.

New passages are stored as texts (`passage_words`), which every search reads. When there are enough, they become
postings, in runs of passages. A run that grows is rewritten. Postings contain all passages, current or not: searches
filter them, so that withdrawing a passage rewrites no run.
"""

import struct
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from functools import lru_cache
from hashlib import blake2b
from itertools import pairwise

import numpy as np
import numpy.typing as npt

from treering.extensions.postgres.connection.failures import packed, text_of
from treering.extensions.postgres.connection.transactions import Row, Transaction
from treering.extensions.postgres.index.index_state import PASSAGES, read_state, write_state
from treering.ports.passages import Passage
from treering.retrieval.index.projection import terms_of
from treering.stores.rows.damage import REINDEX, row_of
from treering.stores.rows.packing import pack_bytes, unpack_bytes
from treering.stores.rows.reach import place_terms

# The postings of a run, in buckets of whole terms with a few thousand postings each, so that rare terms need no row of
# their own. The bytes of numbers are separated: first the first bytes of all numbers, then the second ones. Most of
# them are zeros, which compress well.


Keys = npt.NDArray[np.int64]
Terms = npt.NDArray[np.uint64]
Counts = npt.NDArray[np.int64]

_IN_BUCKET = 4_096  # approximate number of postings
_HEADER = struct.Struct("<IIq")  # terms, postings, the first key
_SIZES = (8, 4, 4, 4)  # bytes of a term, its number of postings, a key, a count
_CODE_BITS = 21  # of a character


@dataclass(frozen=True, slots=True)
class PostingRun:
    """The postings of some passages: `terms[i]` occurs `counts[i]` times in the passage `keys[i]`."""

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
        """Return the postings without some passages."""
        left = ~np.isin(self.keys, np.array(list(keys), np.int64))
        return PostingRun(self.keys[left], self.terms[left], self.counts[left])


@lru_cache(maxsize=1 << 16)
def word_code(word: str) -> int:
    """Return the number of a word, a 64-bit hash. A collision is expected once in millions of years."""
    return int.from_bytes(blake2b(word.encode(errors="surrogatepass"), digest_size=8).digest(), "little")


def stretch_codes(text: str) -> Terms:
    """Return the numbers of the trigrams of a text, in order. They are unique."""
    chars = np.frombuffer(text.encode("utf-32-le", errors="surrogatepass"), "<u4").astype(np.uint64)
    if len(chars) < 3:
        return np.zeros(0, np.uint64)
    bits = np.uint64(_CODE_BITS)
    return (chars[:-2] << bits << bits) | (chars[1:-1] << bits) | chars[2:]


def bucket_of(term: int, buckets: int) -> int:
    """Return the bucket of a term."""
    return (term ^ term >> 23 ^ term >> 42) & (buckets - 1)


def packed_run(run: PostingRun) -> list[bytes]:
    """Pack a run into buckets, whose number is a power of two."""
    count = 1 << max(0, len(run.keys) // _IN_BUCKET - 1).bit_length()
    buckets = _buckets_of(run.terms, count)
    order = np.lexsort((run.keys, run.terms, buckets))
    ends = np.searchsorted(buckets[order], np.arange(count + 1))
    parts = (order[start:end] for start, end in pairwise(ends))
    return [_packed(PostingRun(run.keys[part], run.terms[part], run.counts[part])) for part in parts]


def unpacked_run(body: bytes) -> PostingRun:
    """Return the postings of a bucket. Raises `Corrupt` if it is damaged."""
    known, held, keys, counts = _unpacked(body)
    return PostingRun(keys, np.repeat(known, held), counts)


def found_in(body: bytes, terms: Iterable[int]) -> dict[int, tuple[Keys, Counts]]:
    """Return ascending keys with counts of the passages with each of some terms of a bucket."""
    known, held, keys, counts = _unpacked(body)
    ends = np.concatenate([[0], np.cumsum(held)])
    wanted = np.array(list(terms), np.uint64)
    postings: dict[int, tuple[Keys, Counts]] = {}
    for term, place in zip(wanted.tolist(), np.searchsorted(known, wanted).tolist(), strict=True):
        if place < len(known) and int(known[place]) == term:
            part = slice(int(ends[place]), int(ends[place + 1]))
            postings[term] = keys[part], counts[part]
    return postings


def _buckets_of(terms: Terms, buckets: int) -> Terms:
    mixed: Terms = (terms ^ terms >> np.uint64(23) ^ terms >> np.uint64(42)) & np.uint64(buckets - 1)
    return mixed


def _packed(run: PostingRun) -> bytes:
    """Pack postings, sorted by term and key."""
    firsts = np.flatnonzero(np.append(True, run.terms[1:] != run.terms[:-1])[: len(run.terms)])
    base = int(run.keys.min(initial=0))
    steps = np.diff(run.keys, prepend=base)
    steps[firsts] = run.keys[firsts] - base
    held = np.diff(np.append(firsts, len(run.terms)))
    columns = (run.terms[firsts], held, steps, run.counts)
    planes = (_cut(column, size) for column, size in zip(columns, _SIZES, strict=True))
    return pack_bytes(_HEADER.pack(len(firsts), len(run.keys), base) + b"".join(planes))


def _unpacked(body: bytes) -> tuple[Terms, Counts, Keys, Counts]:
    """Return terms with their numbers of postings, and keys and counts of all postings."""
    content = unpack_bytes(body)
    terms, postings, base = _HEADER.unpack_from(content)
    columns, start = list[Terms](), _HEADER.size
    for length, size in zip((terms, terms, postings, postings), _SIZES, strict=True):
        columns.append(_joined(content[start : start + length * size], size))
        start += length * size
    if start != len(content) or int(columns[1].sum()) != postings:
        raise ValueError("the length of a bucket of postings is wrong")
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


WORDS, NAMES = 0, 1
"""Kinds of postings."""

RUNS = "runs_epoch"
"""The state that is incremented when runs change, so that cached postings are discarded."""

INDEXED = "last_indexed"
"""The state with the greatest key in the postings."""

DOUBLED_WEIGHTS = (4, 3, 2)
"""Twice the weights of title, heading and body (BM25F-like)."""

_WAITING = 1_000  # passages that become postings
_MOST = 8_000  # passages in a run
TEXTS_AFTER = "SELECT key, words, names FROM passage_words WHERE space = %(space)s AND key > %(after)s ORDER BY key"
_RUN = ("run bigint", "first bigint", "last bigint", "passages integer", "word_buckets integer", "name_buckets integer")
_OF_RUNS = "SELECT run, kind, body FROM postings WHERE space = %(space)s AND run = ANY(%(runs)s::bigint[])"
_TOUCHED = (
    "SELECT r.run, r.first, r.last, r.passages FROM posting_runs r WHERE r.space = %(space)s "
    "AND EXISTS (SELECT 1 FROM unnest(%(keys)s::bigint[]) AS k(key) WHERE k.key BETWEEN r.first AND r.last)"
)


@dataclass(frozen=True, slots=True)
class PassageWords:
    """The full text of a passage, and its lengths for ranking by words and by names."""

    words: str
    names: str
    terms: int
    trigrams: int

    @classmethod
    def of(cls, passage: Passage) -> "PassageWords":
        """Return the full text of a passage."""
        *fields, names = terms_of(passage)
        terms = sum(len(text.split()) for text in fields) + len(place_terms(passage))
        return cls("\n".join(fields), names, terms, max(0, len(names) - 2))


def settle_words(transaction: Transaction, come: Mapping[int, PassageWords], *, erased: Sequence[int]) -> None:
    """Store the full text of new passages, and delete the full text of erased ones, both by key."""
    if erased:
        sql = "DELETE FROM passage_words WHERE space = %(space)s AND key = ANY(%(keys)s::bigint[])"
        transaction.later(sql, keys=list(erased))
        _forget_in_runs(transaction, [key for key in erased if key <= read_state(transaction, INDEXED)])
    rows = [(key, packed(each.words), packed(each.names)) for key, each in come.items()]
    transaction.insert("passage_words", ("key bigint", "words bytea", "names bytea"), rows)
    if come and read_state(transaction, PASSAGES) - read_state(transaction, INDEXED) >= _WAITING:
        _index_waiting(transaction)


def clear_words(transaction: Transaction) -> None:
    """Delete the full text of all passages."""
    for table in ("passage_words", "posting_runs", "postings"):
        transaction.later(f"DELETE FROM {table} WHERE space = %(space)s")  # noqa: S608 - our tables
    write_state(transaction, INDEXED, 0)
    _note_runs(transaction)


def counted_words(text: str) -> dict[str, int]:
    """Return twice the weight of each word of a passage."""
    *before, body = text.split("\n")
    *weights, of_body = DOUBLED_WEIGHTS
    counts = {word: of_body * times for word, times in Counter(body.split()).items()}
    for field, weight in zip(before, weights, strict=True):
        for word in field.split():
            counts[word] = counts.get(word, 0) + weight
    return counts


def run_of_words(texts: Sequence[tuple[int, str]]) -> PostingRun:
    """Return the postings of the words of some passages, by key."""
    counted = [counted_words(text) for _, text in texts]
    keys = np.repeat([key for key, _ in texts], [len(each) for each in counted]).astype(np.int64)
    terms = [word_code(word) for each in counted for word in each]
    counts = [count for each in counted for count in each.values()]
    return PostingRun(keys, np.array(terms, np.uint64), np.array(counts, np.int64))


def run_of_names(texts: Sequence[tuple[int, str]]) -> PostingRun:
    """Return the postings of the trigrams of names of some passages, by key, without counts."""
    codes = [np.unique(stretch_codes(text)) for _, text in texts]
    keys = np.repeat([key for key, _ in texts], [len(each) for each in codes]).astype(np.int64)
    terms = np.concatenate([np.zeros(0, np.uint64), *codes])
    return PostingRun(keys, terms, np.zeros(len(terms), np.int64))


def _index_waiting(transaction: Transaction) -> None:
    """Create postings of the passages without any. The last run is rewritten if it has room."""
    waiting = transaction.rows(TEXTS_AFTER, after=read_state(transaction, INDEXED))
    write_state(transaction, INDEXED, read_state(transaction, PASSAGES))
    if not waiting:
        return
    last = transaction.rows(
        "SELECT run, first, last, passages FROM posting_runs WHERE space = %(space)s ORDER BY run DESC LIMIT 1"
    )
    number = last[0][0] if last else 0
    if last and last[0][3] + len(waiting) <= _MOST:
        _write_run(transaction, last[0], waiting, *read_runs(transaction, [number])[number])
    else:
        for start in range(0, len(waiting), _MOST):
            number += 1
            _write_run(transaction, (number, 0, 0, 0), waiting[start : start + _MOST])
    _note_runs(transaction)


def _forget_in_runs(transaction: Transaction, keys: Sequence[int]) -> None:
    """Rewrite the runs that contain erased passages."""
    touched = transaction.rows(_TOUCHED, keys=list(keys)) if keys else []
    runs = read_runs(transaction, [row[0] for row in touched])
    for row in touched:
        gone = sum(row[1] <= key <= row[2] for key in keys)
        words, names = (run.without(keys) for run in runs[row[0]])
        _write_run(transaction, (*row[:3], row[3] - gone), (), words, names)
    if touched:
        _note_runs(transaction)


def read_runs(transaction: Transaction, numbers: Sequence[int]) -> dict[int, tuple[PostingRun, PostingRun]]:
    """Return the postings of words and of names of some runs, by the number of the run."""
    parts: dict[tuple[int, int], list[PostingRun]] = {}
    for number, kind, body in transaction.rows(_OF_RUNS, runs=list(numbers)) if numbers else ():
        with row_of("the postings", hint=REINDEX):
            parts.setdefault((number, kind), []).append(unpacked_run(body))
    return {
        number: (PostingRun.joined(parts.get((number, WORDS), [])), PostingRun.joined(parts.get((number, NAMES), [])))
        for number in numbers
    }


def _write_run(transaction: Transaction, row: Row, waiting: Sequence[Row], *known: PostingRun) -> None:
    """Write a run from the postings of its earlier passages and the texts of new ones."""
    number, first, last, passages = row
    words = run_of_words([(key, text_of(packed_words)) for key, packed_words, _ in waiting])
    names = run_of_names([(key, text_of(packed_names)) for key, _, packed_names in waiting])
    runs = [PostingRun.joined([*known[kind : kind + 1], new]) for kind, new in enumerate((words, names))]
    buckets = [packed_run(run) for run in runs]
    keys = [key for key, _, _ in waiting]
    for table in ("postings", "posting_runs"):
        transaction.later(f"DELETE FROM {table} WHERE space = %(space)s AND run = %(run)s", run=number)  # noqa: S608 - our tables
    place = (first or keys[0], keys[-1] if keys else last, passages + len(keys))
    transaction.insert("posting_runs", _RUN, [(number, *place, *map(len, buckets))])
    rows = [(number, kind, *each) for kind, bodies in enumerate(buckets) for each in enumerate(bodies)]
    transaction.insert("postings", ("run bigint", "kind smallint", "bucket integer", "body bytea"), rows)


def _note_runs(transaction: Transaction) -> None:
    write_state(transaction, RUNS, read_state(transaction, RUNS) + 1)
