"""Making passages from the histories of objects: all at once, or a few at a time beside reads.

Beside reads, every object is one of two: it waits, and has no passage, or all its history is applied. A change to one
that waits applies all its history. So what is written is found at once, and the end equals a rebuild at once.
"""

import json
import time
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any
from zlib import crc32

import numpy as np

from treering.core.errors import Corrupt
from treering.ports.index import Behind, Change
from treering.ports.models import Extractor
from treering.retrieval.index.code_names import name_code
from treering.retrieval.index.passages import gist_hash
from treering.retrieval.index.projection import Entry, places_of, steps_of
from treering.stores.postgres.connection.exchange import Row
from treering.stores.postgres.connection.failures import body_of, from_column, to_column
from treering.stores.postgres.connection.transactions import Transaction
from treering.stores.postgres.index.filters import stored_metadata
from treering.stores.postgres.index.graph_rows import clear_ties, graph_contents, graph_damage, ties_contents
from treering.stores.postgres.index.index_state import (
    EPOCH,
    PASSAGES,
    PROJECTION_VERSION,
    SHOWN,
    TARGET,
    VERSION,
    count_waiting,
    is_under_way,
    read_state,
    write_state,
)
from treering.stores.postgres.index.projection import apply_changes
from treering.stores.postgres.index.vectors import count_damaged, drop_damaged, forget_unused, queue_differences
from treering.stores.postgres.index.words import (
    INDEXED,
    PassageWords,
    PostingRun,
    clear_words,
    read_runs,
    run_of_names,
    run_of_words,
)
from treering.stores.postgres.ledger.object_reads import ObjectReads
from treering.stores.rows.fold import (
    MOST_NAMED,
    NOWHERE,
    PASSAGE_COLUMNS,
    ErasedRow,
    PassageFold,
    Place,
    PlacedRow,
    compared,
    day_values,
    endings_of,
    passage_values,
)
from treering.stores.rows.packing import unpack

_EXTRACTOR = "extractor"
_TARGET_EXTRACTOR = "rebuild_extractor"
_TOTAL = "rebuild_total"
_AT_ONCE = 50  # objects whose histories are applied together
_OF_PASSAGES = ("passage_endings", "passage_days", "code_names", "passage_scopes", "vector_queue", "passages")
_COUNTS = (
    "SELECT greatest((SELECT count(DISTINCT id) FROM revisions WHERE space = %(space)s), "
    "(SELECT count(*) FROM passages WHERE space = %(space)s))"
)


def is_made(transaction: Transaction, extractor: Extractor) -> bool:
    """Tell whether this version and this extractor made the passages, or are at it."""
    if is_under_way(transaction):
        return read_state(transaction, _TARGET_EXTRACTOR) == _number(extractor)
    made = read_state(transaction, VERSION), read_state(transaction, _EXTRACTOR)
    return made == (PROJECTION_VERSION, _number(extractor))


def note_made(transaction: Transaction, extractor: Extractor) -> None:
    """Note that this version and this extractor made the passages, of all objects."""
    write_state(transaction, VERSION, PROJECTION_VERSION)
    write_state(transaction, _EXTRACTOR, _number(extractor))
    _stop_waiting(transaction)


def clear_passages(transaction: Transaction) -> None:
    """Throw away the passages; texts and their vectors stay. Tables in memory start over."""
    for table in _OF_PASSAGES:
        transaction.later(f"DELETE FROM {table} WHERE space = %(space)s")  # noqa: S608 - our tables
    clear_words(transaction)
    clear_ties(transaction)
    write_state(transaction, SHOWN, 0)
    write_state(transaction, PASSAGES, 0)
    write_state(transaction, EPOCH, read_state(transaction, EPOCH) + 1)


def is_worth_waiting(transaction: Transaction, *, most_at_once: int) -> bool:
    """Tell whether making the passages takes long."""
    return int(transaction.first(_COUNTS)) > most_at_once


def begin_replay(transaction: Transaction, extractor: Extractor) -> None:
    """Throw away the passages and let all objects wait for theirs. In a write transaction."""
    if read_state(transaction, VERSION):  # else an earlier replay was interrupted: its texts still wait
        transaction.later("DELETE FROM waiting_texts WHERE space = %(space)s")
    transaction.later("DELETE FROM waiting_objects WHERE space = %(space)s")
    transaction.later(
        "INSERT INTO waiting_texts(space, object_id, text_id) "
        "SELECT DISTINCT space, object_id, text_id FROM passages WHERE space = %(space)s ON CONFLICT DO NOTHING"
    )
    clear_passages(transaction)
    transaction.later(
        "INSERT INTO waiting_objects(space, object_id) SELECT DISTINCT space, id FROM revisions WHERE space = %(space)s"
    )
    write_state(transaction, VERSION, 0)
    write_state(transaction, TARGET, PROJECTION_VERSION)
    write_state(transaction, _TARGET_EXTRACTOR, _number(extractor))
    write_state(transaction, _TOTAL, count_waiting(transaction))


def advance_replay(transaction: Transaction, extractor: Extractor, *, seconds: float) -> Behind:
    """Make the passages of waiting objects for about so long, of one object at least. In a write transaction."""
    if not is_under_way(transaction):
        return Behind(0, 0)
    end = time.monotonic() + seconds
    while waiting := _first_waiting(transaction):
        _replay_waiting(transaction, waiting, extractor)
        if time.monotonic() >= end:
            break
    behind = progress_of(transaction)
    if not behind.waiting:
        note_made(transaction, extractor)
    return behind


def progress_of(transaction: Transaction) -> Behind:
    """Tell how many objects have their passages, of how many."""
    if not is_under_way(transaction):
        return Behind(0, 0)
    total = read_state(transaction, _TOTAL)
    return Behind(total - count_waiting(transaction), total)


def follow_changes(transaction: Transaction, changes: Sequence[Change], extractor: Extractor) -> None:
    """Apply changes in the transaction that wrote them; of an object that waits, all its history."""
    waiting = waiting_of(transaction, [change.object_id for change in changes])
    _replay_waiting(transaction, waiting, extractor)
    left = [change for change in changes if change.object_id not in waiting]
    if left:
        apply_changes(transaction, left, extractor)


def waiting_of(transaction: Transaction, object_ids: Iterable[str]) -> frozenset[str]:
    """Return those of the objects whose passages are still to be made."""
    if not is_under_way(transaction):
        return frozenset()
    sql = "SELECT object_id FROM waiting_objects WHERE space = %(space)s AND object_id = ANY(%(ids)s::text[])"
    return frozenset(transaction.column(sql, ids=list(object_ids)))


def texts_waiting(transaction: Transaction, object_ids: Sequence[str]) -> int:
    """Count the texts that are kept for objects whose passages are still to be made."""
    sql = "SELECT count(*) FROM waiting_texts WHERE space = %(space)s AND object_id = ANY(%(ids)s::text[])"
    return int(transaction.first(sql, ids=list(object_ids)))


def all_objects(transaction: Transaction) -> list[str]:
    """Return the ids of all objects, erased ones apart."""
    sql = "SELECT DISTINCT id FROM revisions WHERE space = %(space)s ORDER BY id"
    return transaction.column(sql)


def replay_objects(transaction: Transaction, object_ids: Sequence[str], extractor: Extractor) -> None:
    """Apply whole histories to passages that know nothing of these objects."""
    for start in range(0, len(object_ids), _AT_ONCE):
        apply_changes(transaction, list(histories_of(transaction, object_ids[start : start + _AT_ONCE])), extractor)


def histories_of(transaction: Transaction, object_ids: Sequence[str]) -> Iterator[Change]:
    """Return all changes of some objects, of each from its first revision on."""
    sql = (
        "SELECT id, revision, seq FROM revisions WHERE space = %(space)s AND id = ANY(%(ids)s::text[]) "
        "ORDER BY id, revision"
    )
    places = transaction.rows(sql, ids=list(object_ids))
    items = ObjectReads(transaction).some_revisions([(identity, number) for identity, number, _ in places])
    before = None
    for identity, number, seq in places:
        after = items[identity, number]
        yield Change(seq, identity, before if before and before.id == identity else None, after)
        before = after


def _replay_waiting(transaction: Transaction, object_ids: Iterable[str], extractor: Extractor) -> None:
    """Make the passages of some that wait; forget the texts that were theirs and are no more."""
    waiting = sorted(object_ids)
    if not waiting:
        return
    replay_objects(transaction, waiting, extractor)
    sql = "SELECT DISTINCT text_id FROM waiting_texts WHERE space = %(space)s AND object_id = ANY(%(ids)s::text[])"
    texts = transaction.column(sql, ids=waiting)
    for table in ("waiting_texts", "waiting_objects"):
        forget = f"DELETE FROM {table} WHERE space = %(space)s AND object_id = ANY(%(ids)s::text[])"  # noqa: S608 - our tables
        transaction.later(forget, ids=waiting)
    forget_unused(transaction, texts)


def _first_waiting(transaction: Transaction) -> list[str]:
    sql = "SELECT object_id FROM waiting_objects WHERE space = %(space)s ORDER BY object_id LIMIT %(most)s"
    return transaction.column(sql, most=_AT_ONCE)


def _stop_waiting(transaction: Transaction) -> None:
    for table in ("waiting_texts", "waiting_objects"):
        transaction.later(f"DELETE FROM {table} WHERE space = %(space)s")  # noqa: S608 - our tables


def _number(extractor: Extractor) -> int:
    return crc32(extractor.extractor_id.encode())


# Making passages anew from the ledger.


def prepare_passages(transaction: Transaction, extractor: Extractor, *, most_at_once: int) -> None:
    """Make passages anew that another version or extractor made, or none. In a write transaction.

    Where these are more than `most_at_once`, it only begins with it: `advance_replay` goes on.
    """
    if is_made(transaction, extractor):
        return
    if is_worth_waiting(transaction, most_at_once=most_at_once):
        begin_replay(transaction, extractor)
    else:
        rebuild_passages(transaction, extractor)


def rebuild_passages(transaction: Transaction, extractor: Extractor) -> int:
    """Throw away the passages and make them anew; vectors of texts that are still there stay. Give their number."""
    drop_damaged(transaction)
    clear_passages(transaction)
    replay_objects(transaction, all_objects(transaction), extractor)
    note_made(transaction, extractor)
    for table, column in (("passage_vectors", "text_id"), ("passage_texts", "id")):
        transaction.later(
            f"DELETE FROM {table} t WHERE t.space = %(space)s AND NOT EXISTS "  # noqa: S608 - our tables
            f"(SELECT 1 FROM passages p WHERE p.space = t.space AND p.text_id = t.{column})"
        )
    return int(transaction.first("SELECT count(*) FROM passages WHERE space = %(space)s"))


# Comparing what the index holds with what a rebuild would make, without changing anything.


_COMPARED_AT_ONCE = 50  # objects
_ROWS = (
    "SELECT p.key, p.from_seq, p.until_seq, s.scope, t.hash, p.metadata::text, p.terms, p.trigrams, "  # noqa: S608 - our columns
    f"{', '.join(f'p.{name}' for name in PASSAGE_COLUMNS)} FROM passages p "
    "JOIN passage_scopes s ON s.space = p.space AND s.id = p.scope_id "
    "JOIN passage_texts t ON t.space = p.space AND t.id = p.text_id WHERE p.space = %(space)s"
)
_ENDINGS = "SELECT key, ending FROM passage_endings WHERE space = %(space)s ORDER BY key, ending"
_DAYS = "SELECT key, first, last FROM passage_days WHERE space = %(space)s ORDER BY key, first, last"
_NAMES = "SELECT key, name FROM code_names WHERE space = %(space)s ORDER BY key, name"
_WORDS = "SELECT key, words, names FROM passage_words WHERE space = %(space)s"
_OF_RUN = (
    "SELECT key, words, names FROM passage_words WHERE space = %(space)s AND key BETWEEN %(first)s AND %(last)s "
    "ORDER BY key"
)


def passage_differences(transaction: Transaction, extractor: Extractor) -> list[str]:
    """Say how the passages differ from those a rebuild would make (the first twenty).

    Objects whose passages are still to be made are left out.
    """
    identities = all_objects(transaction)
    waiting = waiting_of(transaction, identities)
    wanted = _wanted(transaction, [one for one in identities if one not in waiting], extractor)
    actual = _actual(transaction)
    found = [*compared(wanted.contents, actual), *_damage(transaction)]
    if wanted.shown != read_state(transaction, SHOWN):
        found.append("the number of current passages is wrong")
    return found[:MOST_NAMED]


@dataclass(slots=True)
class _Wanted:
    """What a rebuild would make: a hash of each row, and how many are current."""

    contents: dict[Place, int] = field(default_factory=dict)
    shown: int = 0


@dataclass(slots=True)
class _Imagined:
    """A row that a rebuild would make."""

    entry: Entry
    seq: int
    until: int | None = None


class _ImaginedRows:
    """`PassageRows` that are only imagined."""

    def __init__(self) -> None:
        self.made: dict[int, _Imagined] = {}
        self._open: dict[str, dict[str, int]] = {}

    def open_rows(self, object_id: str) -> Mapping[str, int]:
        """Return the keys of the rows of an object that have not ended, by part."""
        return self._open.get(object_id, {})

    def begin(self, entry: Entry, seq: int) -> PlacedRow:
        """Imagine a passage that stands from `seq` on."""
        key = len(self.made) + 1
        self.made[key] = _Imagined(entry, seq)
        self._open.setdefault(entry.passage.object_id, {})[entry.passage.part] = key
        return PlacedRow(key, 0)

    def end(self, key: int, entry: Entry, seq: int) -> PlacedRow:
        """Imagine that it stood until before `seq`."""
        self.made[key].until = seq
        del self._open[entry.passage.object_id][entry.passage.part]
        return PlacedRow(key, 0)

    def touch(self, key: int, entry: Entry) -> None:
        """Change what of a passage may change while it stays."""
        self.made[key].entry = entry

    def erase(self, _: str) -> Iterable[ErasedRow]:
        """Remove nothing: an erased object has no history."""
        return ()


def _wanted(transaction: Transaction, identities: Sequence[str], extractor: Extractor) -> _Wanted:
    wanted = _Wanted()
    for start in range(0, len(identities), _COMPARED_AT_ONCE):
        _imagine(wanted, list(histories_of(transaction, identities[start : start + _COMPARED_AT_ONCE])), extractor)
    return wanted


def _imagine(wanted: _Wanted, changes: Sequence[Change], extractor: Extractor) -> None:
    rows = _ImaginedRows()
    fold = PassageFold(rows)
    for change in changes:
        fold.apply(change, steps_of(change))
    ties = {key: each for batch in fold.ties(extractor) for key, each in ties_contents(batch).items()}
    wanted.shown += fold.shown
    for key, made in rows.made.items():
        passage = made.entry.passage
        current = passage.live and made.until is None
        words = PassageWords.of(passage)
        row = (made.until, passage.scope, gist_hash(passage), _canonical(stored_metadata(passage.metadata)))
        found = (
            tuple(sorted((to_column(ending),) for ending in endings_of(places_of(passage)))),
            tuple(sorted(set(day_values(passage)))),
            tuple(sorted((name_code(name),) for name in set(made.entry.code_names))) if current else (),
            (words.words, words.names),
            ties.get(key),
        )
        values = passage_values(passage, made.entry.position)
        place = (passage.object_id, passage.part, made.seq)
        wanted.contents[place] = hash((*row, words.terms, words.trigrams, *values, *found))


def _actual(transaction: Transaction) -> dict[Place, int]:
    groups = [_grouped(transaction.rows(sql)) for sql in (_ENDINGS, _DAYS, _NAMES)]
    words = {key: (_text(one), _text(other)) for key, one, other in transaction.rows(_WORDS)}
    ties = graph_contents(transaction)
    contents: dict[Place, int] = {}
    for key, seq, until, scope, digest, metadata, terms, trigrams, *stored in transaction.rows(_ROWS):
        values = [from_column(value) if isinstance(value, str) else value for value in stored]
        found = (*(group.pop(key, ()) for group in groups), words.pop(key, None), ties.pop(key, None))
        row = (until, scope, digest.hex(), _canonical(metadata))
        contents[values[0], values[1], seq] = hash((*row, terms, trigrams, *values, *found))
    if any(groups) or words or ties:
        contents[NOWHERE] = -1
    return contents


def _damage(transaction: Transaction) -> Iterator[str]:
    yield from graph_damage(transaction)
    if wrong := _wrong_runs(transaction):
        yield f"{wrong} runs of postings are not what passages are found by"
    if damaged := count_damaged(transaction):
        yield f"{damaged} vectors are damaged"
    for name, count in queue_differences(transaction).items():
        yield f"{count} texts are wrongly queued, or not queued, for {name}"


def _wrong_runs(transaction: Transaction) -> int:
    """Count runs whose postings are not those of the words of their passages."""
    runs = transaction.rows("SELECT run, first, last FROM posting_runs WHERE space = %(space)s ORDER BY run")
    wrong, upto = 0, 0
    for number, first, last in runs:
        texts = transaction.rows(_OF_RUN, first=upto + 1, last=last)
        wanted = (
            run_of_words([(key, _text(words)) for key, words, _ in texts]),
            run_of_names([(key, _text(names)) for key, _, names in texts]),
        )
        try:
            actual = read_runs(transaction, [number])[number]
        except Corrupt:
            actual = None
        wrong += first <= upto or actual is None or not all(map(_same, wanted, actual))
        upto = last
    left = "SELECT 1 FROM passage_words WHERE space = %(space)s AND key > %(upto)s AND key <= %(indexed)s LIMIT 1"
    return wrong + bool(transaction.rows(left, upto=upto, indexed=read_state(transaction, INDEXED)))


def _same(one: PostingRun, other: PostingRun) -> bool:
    return all(map(np.array_equal, _sorted(one), _sorted(other)))


def _sorted(run: PostingRun) -> tuple[Any, ...]:
    order = np.lexsort((run.keys, run.terms))
    return run.keys[order], run.terms[order], run.counts[order]


def _grouped(rows: Iterable[Row]) -> dict[int, tuple[Row, ...]]:
    groups: dict[int, list[Row]] = {}
    for key, *values in rows:
        groups.setdefault(key, []).append(tuple(values))
    return {key: tuple(values) for key, values in groups.items()}


def _canonical(metadata: str) -> str:
    """Return JSON in one form: the server gives it in its own order."""
    return json.dumps(json.loads(metadata, parse_float=_plain, parse_int=_plain), sort_keys=True)


def _plain(number: str) -> float:
    return float(number)


def _text(stored: bytes) -> str:
    return unpack(body_of(stored))
