"""Full text of passages, written: what each is found by, and postings of many.

What is new waits as texts (`passage_words`) that every search reads itself; when there are enough of them, they become
postings, in runs of passages. A run that grows is written anew. Postings are of all passages, current or not: who
searches knows which are, so that what is withdrawn costs no run.
"""

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np

from treering.ports.passages import Passage
from treering.retrieval.index.projection import names_of, words_of
from treering.stores.postgres.connection.exchange import Row
from treering.stores.postgres.connection.failures import body_of, packed
from treering.stores.postgres.connection.transactions import Transaction
from treering.stores.postgres.index.index_state import PASSAGES, read_state, write_state
from treering.stores.rows.fold import place_terms
from treering.stores.rows.packing import unpack
from treering.stores.rows.postings import PostingRun, packed_run, stretch_codes, unpacked_run, word_code
from treering.stores.rows.row_failures import REINDEX, row_of

WORDS, NAMES = 0, 1
"""Kinds of postings."""

RUNS = "runs_epoch"
"""The state that is counted up when runs change, so that what was read of them is forgotten."""

INDEXED = "last_indexed"
"""The state that names the greatest key of which there are postings."""

DOUBLED_WEIGHTS = (4, 3, 2)
"""What a word counts for in title, heading and body, twice: BM25F-like weights."""

_WAITING = 1_000  # passages that become postings
_MOST = 8_000  # passages in a run
_TEXTS = "SELECT key, words, names FROM passage_words WHERE space = %(space)s AND key > %(after)s ORDER BY key"
_RUN = ("run bigint", "first bigint", "last bigint", "passages integer", "word_buckets integer", "name_buckets integer")
_OF_RUNS = "SELECT run, kind, body FROM postings WHERE space = %(space)s AND run = ANY(%(runs)s::bigint[])"
_TOUCHED = (
    "SELECT r.run, r.first, r.last, r.passages FROM posting_runs r WHERE r.space = %(space)s "
    "AND EXISTS (SELECT 1 FROM unnest(%(keys)s::bigint[]) AS k(key) WHERE k.key BETWEEN r.first AND r.last)"
)


@dataclass(frozen=True, slots=True)
class PassageWords:
    """What a passage is found by in full text, and how long it is for the ranking by words and by names."""

    words: str
    names: str
    terms: int
    trigrams: int

    @classmethod
    def of(cls, passage: Passage) -> "PassageWords":
        """Analyse a passage."""
        found = words_of(passage)
        fields, names = (found.title, found.heading, found.body), names_of(passage)
        terms = sum(len(text.split()) for text in fields) + len(place_terms(passage))
        return cls("\n".join(fields), names, terms, max(0, len(names) - 2))


def settle_words(transaction: Transaction, come: Mapping[int, PassageWords], *, erased: Sequence[int]) -> None:
    """Keep what new passages are found by, and forget what erased ones were found by, both by key."""
    if erased:
        sql = "DELETE FROM passage_words WHERE space = %(space)s AND key = ANY(%(keys)s::bigint[])"
        transaction.later(sql, keys=list(erased))
        _forget_in_runs(transaction, [key for key in erased if key <= read_state(transaction, INDEXED)])
    rows = [(key, packed(each.words), packed(each.names)) for key, each in come.items()]
    transaction.insert("passage_words", ("key bigint", "words bytea", "names bytea"), rows)
    if come and read_state(transaction, PASSAGES) - read_state(transaction, INDEXED) >= _WAITING:
        _index_waiting(transaction)


def clear_words(transaction: Transaction) -> None:
    """Forget what all passages are found by."""
    for table in ("passage_words", "posting_runs", "postings"):
        transaction.later(f"DELETE FROM {table} WHERE space = %(space)s")  # noqa: S608 - our tables
    write_state(transaction, INDEXED, 0)
    _note_runs(transaction)


def counted_words(text: str) -> dict[str, int]:
    """Return how much each word of a passage counts for, twice its weights."""
    counts: Counter[str] = Counter()
    for field, weight in zip(text.split("\n"), DOUBLED_WEIGHTS, strict=True):
        for word, times in Counter(field.split()).items():
            counts[word] += weight * times
    return counts


def run_of_words(texts: Sequence[tuple[int, str]]) -> PostingRun:
    """Return the postings of the words of some passages, by key."""
    counted = [counted_words(text) for _, text in texts]
    keys = np.repeat([key for key, _ in texts], [len(each) for each in counted]).astype(np.int64)
    terms = [word_code(word) for each in counted for word in each]
    counts = [count for each in counted for count in each.values()]
    return PostingRun(keys, np.array(terms, np.uint64), np.array(counts, np.int64))


def run_of_names(texts: Sequence[tuple[int, str]]) -> PostingRun:
    """Return the postings of the stretches of the names of some passages, by key. They are not counted."""
    codes = [np.unique(stretch_codes(text)) for _, text in texts]
    keys = np.repeat([key for key, _ in texts], [len(each) for each in codes]).astype(np.int64)
    terms = np.concatenate([np.zeros(0, np.uint64), *codes])
    return PostingRun(keys, terms, np.zeros(len(terms), np.int64))


def _index_waiting(transaction: Transaction) -> None:
    """Make postings of the passages that have none; those of the last run are written anew where it has room."""
    waiting = [
        (key, words, names) for key, words, names in transaction.rows(_TEXTS, after=read_state(transaction, INDEXED))
    ]
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
    """Write the runs anew that have postings of erased passages."""
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
    """Write a run of the passages it has had so far, with their postings, and of others, with their texts."""
    number, first, last, passages = row
    words = run_of_words([(key, _text(packed_words)) for key, packed_words, _ in waiting])
    names = run_of_names([(key, _text(packed_names)) for key, _, packed_names in waiting])
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


def _text(stored: bytes) -> str:
    return unpack(body_of(stored))
