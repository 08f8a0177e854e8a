"""Words and names of passages in memory: cached postings of terms, which follow the database."""

import threading
from collections import OrderedDict
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property, reduce
from typing import Any

import numpy as np
import numpy.typing as npt

from treering.extensions.postgres.connection.failures import text_of
from treering.extensions.postgres.connection.transactions import Row, Transaction
from treering.extensions.postgres.index.index_state import logged_after, moment_of, read_state
from treering.extensions.postgres.index.words import (
    DOUBLED_WEIGHTS,
    INDEXED,
    NAMES,
    RUNS,
    TEXTS_AFTER,
    WORDS,
    bucket_of,
    counted_words,
    found_in,
    stretch_codes,
    word_code,
)
from treering.retrieval.index.code_places import PLACE_ROLES
from treering.retrieval.index.word_table import Postings, WordTable
from treering.stores.rows.damage import REINDEX, row_of
from treering.stores.rows.passage_log import Moment

Keys = npt.NDArray[np.int64]
Numbers = npt.NDArray[np.int32]

_COLUMNS = ("key", "scope_id", "terms", "trigrams", "array_position(%(roles)s::text[], place_role)")
_JOINED = ", ".join(f"string_agg(int4send(coalesce({column}, 0)::integer), ''::bytea)" for column in _COLUMNS)
_CURRENT = f"SELECT {_JOINED} FROM passages WHERE space = %(space)s AND live AND until_seq IS NULL"  # noqa: S608 - ours
_SOME = f"{_CURRENT} AND key = ANY(%(keys)s::bigint[])"


@dataclass(frozen=True, slots=True)
class Shown:
    """The current passages, as arrays by key. They contain 0 for other passages."""

    scopes: Numbers
    terms: Numbers
    trigrams: Numbers
    roles: Numbers
    """The index of the role in `PLACE_ROLES`, counted from 1."""

    def among(self, keys: Keys) -> Keys:
        """Return the positions of the keys that are current."""
        inside = np.flatnonzero(keys < len(self.scopes))
        return inside[self.scopes[keys[inside]] > 0]

    def keys(self) -> Keys:
        """Return all keys."""
        return np.flatnonzero(self.scopes)

    def in_scopes(self, scopes: frozenset[int]) -> npt.NDArray[np.bool_]:
        """Return, by key, which passages are in some scopes."""
        seen = np.zeros(max(int(self.scopes.max(initial=0)), *scopes, 0) + 1, np.bool_)
        seen[list(scopes)] = True
        seen[0] = False
        return seen[self.scopes]

    def in_role(self, role: str) -> npt.NDArray[np.bool_]:
        """Return, by key, which passages are of places in a role."""
        number = PLACE_ROLES.index(role) + 1 if role in PLACE_ROLES else -1
        of_role: npt.NDArray[np.bool_] = self.roles == number
        return of_role


def load_shown(transaction: Transaction) -> Shown:
    """Read all current passages."""
    columns = _columns(transaction.rows(_CURRENT, roles=list(PLACE_ROLES))[0])
    size = int(columns[0].max(initial=-1)) + 1
    return Shown(*(_placed(np.zeros(size, np.int32), columns[0], column) for column in columns[1:]))


def renewed_shown(transaction: Transaction, shown: Shown, changed: Sequence[int]) -> Shown:
    """Read some passages again. Those that are not current are left out."""
    columns = _columns(transaction.rows(_SOME, roles=list(PLACE_ROLES), keys=list(changed))[0])
    size = max(len(shown.scopes), max(changed, default=-1) + 1)
    renewed: list[Any] = []
    for old, column in zip((shown.scopes, shown.terms, shown.trigrams, shown.roles), columns[1:], strict=True):
        grown = np.zeros(size, np.int32)
        grown[: len(old)] = old
        grown[list(changed)] = 0
        renewed.append(_placed(grown, columns[0], column))
    return Shown(*renewed)


def _columns(row: Row) -> list[Numbers]:
    return [integers(column) for column in row]


def integers(joined: bytes | None) -> Numbers:
    """Return the integers from concatenated results of `int4send`."""
    return np.frombuffer(joined or b"", ">i4").astype(np.int32)


def _placed(column: Numbers, keys: Numbers, values: Numbers) -> Numbers:
    column[keys] = values
    return column


MOST_POSTINGS = 2_000_000
"""The maximal number of cached postings, of the most recently used terms."""

_RUNS = "SELECT run, word_buckets, name_buckets FROM posting_runs WHERE space = %(space)s ORDER BY run"
_TEXTS = "SELECT key, words, names FROM passage_words WHERE space = %(space)s AND key = ANY(%(keys)s::bigint[])"
_BUCKETS = (
    "SELECT b.run, b.bucket, b.body FROM unnest(%(runs)s::bigint[], %(buckets)s::integer[]) AS w(run, bucket) "
    "JOIN postings b ON b.space = %(space)s AND b.run = w.run AND b.kind = %(kind)s AND b.bucket = w.bucket "
    "ORDER BY b.run"
)

Held = tuple[Keys, Keys]
"""Keys of passages in ascending order, with twice their weights."""
_NONE: Held = (np.zeros(0, np.int64), np.zeros(0, np.int64))


class RunPostings:
    """Cached postings of terms, current or not, for one state of the runs. Thread-safe."""

    def __init__(self, runs: Sequence[tuple[int, int, int]], upto: int) -> None:
        self.upto = upto
        self._runs = runs
        self._lock = threading.Lock()
        self._known: OrderedDict[tuple[int, int], Held] = OrderedDict()
        self._size = 0

    def find(self, transaction: Transaction, kind: int, terms: Iterable[int]) -> dict[int, Held]:
        """Return the postings of terms, by number. Those that are not cached are read together."""
        wanted = list(dict.fromkeys(terms))
        with self._lock:
            postings = {term: self._known[kind, term] for term in wanted if (kind, term) in self._known}
        missing = [term for term in wanted if term not in postings]
        if missing:
            read = self._read(transaction, kind, missing)
            self._keep(kind, read)
            postings |= read
        return postings

    def _read(self, transaction: Transaction, kind: int, terms: Sequence[int]) -> dict[int, Held]:
        places: dict[tuple[int, int], list[int]] = {}
        for run, *buckets in self._runs:
            for term in terms:
                places.setdefault((run, bucket_of(term, buckets[kind])), []).append(term)
        parts: dict[int, list[Held]] = {term: [] for term in terms}
        runs, numbers = [run for run, _ in places], [bucket for _, bucket in places]
        rows = transaction.rows(_BUCKETS, runs=runs, buckets=numbers, kind=kind) if places else ()
        for run, bucket, body in rows:
            with row_of("the postings", hint=REINDEX):
                for term, held in found_in(body, places[run, bucket]).items():
                    parts[term].append(held)
        return {term: _joined(each) for term, each in parts.items()}

    def _keep(self, kind: int, read: Mapping[int, Held]) -> None:
        with self._lock:
            for term, held in read.items():
                self._size += len(held[0]) if (kind, term) not in self._known else 0
                self._known[kind, term] = held
            while self._size > MOST_POSTINGS and len(self._known) > 1:
                _, (keys, _) = self._known.popitem(last=False)
                self._size -= len(keys)


@dataclass(slots=True)
class WaitingWords:
    """The full text of passages without postings. Only ever extended."""

    upto: int
    words: dict[str, list[tuple[int, int]]] = field(default_factory=dict)
    """By word, passages with twice the word's weight."""
    names: dict[int, str] = field(default_factory=dict)

    def add(self, key: int, words: str, names: str) -> None:
        """Add a passage."""
        for word, count in counted_words(words).items():
            self.words.setdefault(word, []).append((key, count))
        if names:
            self.names[key] = names
        self.upto = max(self.upto, key)

    def find(self, word: str) -> Held:
        """Return the postings of a word."""
        held = np.array(self.words.get(word, ()), np.int64).reshape(-1, 2)
        return held[:, 0], held[:, 1]

    def named(self, name: str) -> Keys:
        """Return the passages with a name that contains a substring."""
        return np.array([key for key, names in list(self.names.items()) if name in names], np.int64)


class WordsAt:
    """Words and names in one snapshot."""

    def __init__(self, moment: tuple[Moment, int], shown: Shown, indexed: RunPostings, waiting: WaitingWords) -> None:
        self.moment = moment
        self.shown = shown
        self.indexed = indexed
        self.waiting = waiting
        self._lock = threading.Lock()

    @cached_property
    def words(self) -> WordTable:
        """The statistics for ranking current passages by words."""
        return _table(self.shown, self.shown.terms)

    @cached_property
    def names(self) -> WordTable:
        """The statistics for ranking current passages by names."""
        return _table(self.shown, self.shown.trigrams)

    def held(self, transaction: Transaction, words: Iterable[str]) -> dict[str, Held]:
        """Return the postings of single words, by word, of current and earlier passages."""
        codes = {word: word_code(word) for word in words}
        postings = self.indexed.find(transaction, WORDS, codes.values())
        return {word: _joined([postings[code], self.waiting.find(word)]) for word, code in codes.items()}

    def with_terms(self, transaction: Transaction, terms: Iterable[tuple[str, ...]]) -> dict[tuple[str, ...], Held]:
        """Return the postings of terms, which are words or phrases, of current and earlier passages."""
        wanted = list(dict.fromkeys(terms))
        words = self.held(transaction, {word for term in wanted for word in term})
        return {term: words[term[0]] if len(term) == 1 else self._phrase(transaction, term, words) for term in wanted}

    def current_with(
        self, transaction: Transaction, terms: Iterable[tuple[str, ...]]
    ) -> dict[tuple[str, ...], Postings]:
        """Return the postings of terms in current passages. Those that are not cached are read together."""
        wanted = list(dict.fromkeys(terms))
        with self._lock:
            known = {term: postings for term in wanted if (postings := self.words.find(" ".join(term)))}
        missing = [term for term in wanted if term not in known]
        if missing:
            read = {term: self.current(held) for term, held in self.with_terms(transaction, missing).items()}
            known |= read
            with self._lock:
                for term, postings in read.items():
                    if self.words.find(" ".join(term)) is None:  # another thread may have cached it meanwhile
                        self.words.keep(" ".join(term), postings)
        return known

    def with_name(self, transaction: Transaction, name: str) -> Held:
        """Return the passages, current or not, with a name that contains a substring, and twice the matches."""
        codes = np.unique(stretch_codes(name)).tolist()
        postings = self.indexed.find(transaction, NAMES, codes)
        candidates = reduce(np.intersect1d, sorted((keys for keys, _ in postings.values()), key=len))
        texts = dict(_texts(transaction, candidates, 2))
        texts |= {key: self.waiting.names[key] for key in self.waiting.named(name).tolist()}
        return _counted({key: 2 * occurrences(text, name) for key, text in texts.items()})

    def current(self, held: Held) -> Postings:
        """Return the postings of current passages."""
        keys, counts = held
        at = self.shown.among(keys)
        return Postings(keys[at].astype(np.int32), (counts[at] / 2).astype(np.float32))

    def _phrase(self, transaction: Transaction, term: tuple[str, ...], words: Mapping[str, Held]) -> Held:
        candidates = reduce(np.intersect1d, (words[word][0] for word in term))
        phrase = " ".join(term)
        return _counted({key: _weighed(text, phrase) for key, text in _texts(transaction, candidates, 1)})


class FollowedWords:
    """The full-text index of a space in memory, updated from a log. Thread-safe."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._at: WordsAt | None = None

    def at(self, transaction: Transaction) -> WordsAt | None:
        """Return words and names as of the transaction or later; `None` if the transaction is behind.

        Then another thread has read a later state, whose passages this transaction may not see.
        """
        moment = moment_of(transaction), read_state(transaction, RUNS)
        with self._lock:
            if self._at is None or self._at.moment < moment:
                self._at = _read(transaction, moment, self._at)
            return self._at if self._at.moment == moment else None


def occurrences(text: str, part: str) -> int:
    """Count the occurrences of a part in a text, including overlapping ones."""
    count, start = 0, text.find(part)
    while start >= 0:
        count, start = count + 1, text.find(part, start + 1)
    return count


def _read(transaction: Transaction, moment: tuple[Moment, int], known: WordsAt | None) -> WordsAt:
    (epoch, position), runs = moment
    same = known if known and known.moment[0][0] == epoch else None
    changed = logged_after(transaction, same.moment[0][1]) if same else None
    if same and changed is not None:
        shown = renewed_shown(transaction, same.shown, changed) if changed else same.shown
    else:
        shown = load_shown(transaction)
    if same and same.moment[1] == runs:
        indexed, waiting = same.indexed, same.waiting
    else:
        upto = read_state(transaction, INDEXED)
        indexed, waiting = (
            RunPostings(transaction.rows(_RUNS), upto),
            WaitingWords(upto),
        )
    if not same or position != same.moment[0][1] or waiting is not same.waiting:
        for key, words, names in transaction.rows(TEXTS_AFTER, after=waiting.upto):
            waiting.add(key, text_of(words), text_of(names))
    return WordsAt(moment, shown, indexed, waiting)


def _texts(transaction: Transaction, keys: Keys, column: int) -> list[tuple[int, str]]:
    if not len(keys):
        return []
    return [(row[0], text_of(row[column])) for row in transaction.rows(_TEXTS, keys=keys.tolist())]


def _weighed(text: str, phrase: str) -> int:
    """Return twice the weight of a phrase in a passage."""
    return sum(
        weight * occurrences(f" {words} ", f" {phrase} ")
        for words, weight in zip(text.split("\n"), DOUBLED_WEIGHTS, strict=True)
    )


def _counted(counts: Mapping[int, int]) -> Held:
    held = sorted((key, count) for key, count in counts.items() if count)
    pairs = np.array(held, np.int64).reshape(-1, 2)
    return pairs[:, 0], pairs[:, 1]


def _joined(parts: Sequence[Held]) -> Held:
    if not parts:
        return _NONE
    return np.concatenate([keys for keys, _ in parts]), np.concatenate([counts for _, counts in parts])


def _table(shown: Shown, lengths: np.ndarray) -> WordTable:
    keys = shown.keys()
    table, sizes = WordTable(), lengths[keys].astype(np.int64)
    table.begin(keys, sizes, rows=len(keys), total=int(sizes.sum()))
    return table
