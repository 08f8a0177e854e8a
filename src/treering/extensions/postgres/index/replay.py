"""Create the passages of a space from the histories of objects, and compare them with the stored ones."""

import json
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from treering.core.errors import Corrupt
from treering.extensions.postgres.connection.failures import from_column, text_of, to_column
from treering.extensions.postgres.connection.transactions import Row, Transaction
from treering.extensions.postgres.index.graph_rows import (
    clear_ties,
    graph_contents,
    graph_damage,
    records_of,
    ties_contents,
)
from treering.extensions.postgres.index.index_state import (
    PASSAGES,
    PROJECTION_VERSION,
    read_state,
    stored_metadata,
    write_state,
)
from treering.extensions.postgres.index.projection import apply_changes
from treering.extensions.postgres.index.vector_queue import forget_unused, queue_differences
from treering.extensions.postgres.index.vectors import count_damaged, drop_damaged
from treering.extensions.postgres.index.words import (
    INDEXED,
    PassageWords,
    PostingRun,
    clear_words,
    read_runs,
    run_of_names,
    run_of_words,
)
from treering.extensions.postgres.ledger.object_reads import ObjectReads
from treering.ports.index import Change
from treering.ports.models import Extractor
from treering.retrieval.index.code_names import name_code
from treering.retrieval.index.passages import gist_hash
from treering.retrieval.index.projection import Entry, Touched, places_of, steps_of
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
from treering.stores.rows.upkeep import EPOCH, SHOWN, Replay

_CHANGES_AT_ONCE = 500  # changes that are collected in memory
_AT_ONCE = 50  # objects whose histories are applied together
_OF_PASSAGES = ("passage_endings", "passage_days", "code_names", "passage_scopes", "vector_queue", "passages")
_COUNTS = (
    "SELECT greatest((SELECT count(DISTINCT id) FROM revisions WHERE space = %(space)s), "
    "(SELECT count(*) FROM passages WHERE space = %(space)s))"
)


_WAITING = "FROM waiting_objects WHERE space = %(space)s"
_TEXTS = "FROM waiting_texts WHERE space = %(space)s AND object_id = ANY(%(ids)s::text[])"
_PASSAGES = "SELECT count(*) FROM passages WHERE space = %(space)s"


class PostgresReplay(Replay[Transaction]):
    """`rows.upkeep.Replay` over a transaction."""

    version = PROJECTION_VERSION

    def remains(self, object_ids: Sequence[str]) -> int:
        """Count the passages, queued texts and graph records of objects."""
        ids = list(object_ids)
        passages = self.transaction.first(f"{_PASSAGES} AND object_id = ANY(%(ids)s::text[])", ids=ids)
        waiting = self.transaction.first(f"SELECT count(*) {_TEXTS}", ids=ids)
        return int(passages) + int(waiting) + records_of(self.transaction, object_ids)

    def differences(self) -> list[str]:
        """Describe the differences between the passages and a rebuild. Changes nothing."""
        return _differences(self)

    def apply(self, changes: Sequence[Change]) -> None:
        """Update the passages of changed objects and their records in the graph."""
        for start in range(0, len(changes), _CHANGES_AT_ONCE):
            some = changes[start : start + _CHANGES_AT_ONCE]
            apply_changes(self.transaction, some, self.extractor, self._at_once, self._carried)

    def replay(self, object_ids: Sequence[str]) -> None:
        """Create the passages of objects without any from their histories."""
        for start in range(0, len(object_ids), _AT_ONCE):
            self.apply(list(self.histories_of(object_ids[start : start + _AT_ONCE])))

    def histories_of(self, object_ids: Sequence[str]) -> Iterator[Change]:
        """Return all changes of some objects, each from its first revision."""
        sql = (
            "SELECT id, revision, seq FROM revisions WHERE space = %(space)s AND id = ANY(%(ids)s::text[]) "
            "ORDER BY id, revision"
        )
        places = self.transaction.rows(sql, ids=list(object_ids))
        items = ObjectReads(self.transaction).some_revisions([(identity, number) for identity, number, _ in places])
        before = None
        for identity, number, seq in places:
            after = items[identity, number]
            yield Change(seq, identity, before if before and before.id == identity else None, after)
            before = after

    def all_objects(self) -> list[str]:
        """Return the ids of all objects except erased ones, in order."""
        return self.transaction.column("SELECT DISTINCT id FROM revisions WHERE space = %(space)s ORDER BY id")

    def read_state(self, name: str) -> int:
        """Return a number in the state of the index, or 0."""
        return read_state(self.transaction, name)

    def write_state(self, name: str, value: int) -> None:
        """Store a number in the state of the index."""
        write_state(self.transaction, name, value)

    def clear(self) -> None:
        """Remove the passages. Texts and their vectors are retained. Tables in memory are loaded again."""
        self._empty(*_OF_PASSAGES)
        clear_words(self.transaction)
        clear_ties(self.transaction)
        self.write_state(SHOWN, 0)
        self.write_state(PASSAGES, 0)
        self.write_state(EPOCH, self.read_state(EPOCH) + 1)

    def _is_worth_waiting(self, most_at_once: int) -> bool:
        return int(self.transaction.first(_COUNTS)) > most_at_once

    def _keep_texts(self, *, anew: bool) -> None:
        self._empty("waiting_objects", *(["waiting_texts"] if anew else []))
        self.transaction.later(
            "INSERT INTO waiting_texts(space, object_id, text_id) "
            "SELECT DISTINCT space, object_id, text_id FROM passages WHERE space = %(space)s ON CONFLICT DO NOTHING"
        )

    def _let_all_wait(self) -> None:
        self.transaction.later(
            "INSERT INTO waiting_objects(space, object_id) "
            "SELECT DISTINCT space, id FROM revisions WHERE space = %(space)s"
        )

    def _count_waiting(self) -> int:
        return int(self.transaction.first(f"SELECT count(*) {_WAITING}"))

    def _find_waiting(self, object_ids: Sequence[str]) -> Collection[str]:
        sql = f"SELECT object_id {_WAITING} AND object_id = ANY(%(ids)s::text[])"
        return frozenset(self.transaction.column(sql, ids=list(object_ids)))

    def _first_waiting(self) -> list[str]:
        return self.transaction.column(f"SELECT object_id {_WAITING} ORDER BY object_id LIMIT %(most)s", most=_AT_ONCE)

    def _forget_waiting(self, object_ids: Sequence[str]) -> None:
        ids = list(object_ids)
        texts = self.transaction.column(f"SELECT DISTINCT text_id {_TEXTS}", ids=ids)
        self.transaction.later(f"DELETE {_TEXTS}", ids=ids)
        self.transaction.later(f"DELETE {_WAITING} AND object_id = ANY(%(ids)s::text[])", ids=ids)
        forget_unused(self.transaction, texts)

    def _stop_waiting(self) -> None:
        self._empty("waiting_texts", "waiting_objects")

    def _drop_damaged_vectors(self) -> None:
        drop_damaged(self.transaction)

    def _forget_unused_texts(self) -> int:
        for table, column in (("passage_vectors", "text_id"), ("passage_texts", "id")):
            self.transaction.later(
                f"DELETE FROM {table} t WHERE t.space = %(space)s AND NOT EXISTS "  # noqa: S608 - our tables
                f"(SELECT 1 FROM passages p WHERE p.space = t.space AND p.text_id = t.{column})"
            )
        return int(self.transaction.first(_PASSAGES))

    def _empty(self, *tables: str) -> None:
        for table in tables:
            self.transaction.later(f"DELETE FROM {table} WHERE space = %(space)s")  # noqa: S608 - our tables


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


def _differences(here: PostgresReplay) -> list[str]:
    identities = here.all_objects()
    waiting = here.waiting_among(identities)
    wanted = _wanted(here, [one for one in identities if one not in waiting])
    differences = [*compared(wanted.contents, _actual(here.transaction)), *_damage(here.transaction)]
    if wanted.shown != here.read_state(SHOWN):
        differences.append("the number of current passages is wrong")
    return differences[:MOST_NAMED]


@dataclass(slots=True)
class _Wanted:
    """The result of a rebuild: a hash of each row, and the number of current ones."""

    contents: dict[Place, int] = field(default_factory=dict)
    shown: int = 0


@dataclass(slots=True)
class _Imagined:
    """A row of a rebuild."""

    entry: Entry
    seq: int
    until: int | None = None


class _ImaginedRows:
    """`PassageRows` in memory, for comparison."""

    def __init__(self) -> None:
        self.made: dict[int, _Imagined] = {}
        self._open: dict[str, dict[str, int]] = {}

    def open_rows(self, object_id: str) -> Mapping[str, int]:
        """Return the keys of an object's rows that have not ended, by part."""
        return self._open.get(object_id, {})

    def begin(self, entry: Entry, seq: int) -> PlacedRow:
        """Add a passage that is valid from `seq`."""
        key = len(self.made) + 1
        self.made[key] = _Imagined(entry, seq)
        self._open.setdefault(entry.passage.object_id, {})[entry.passage.part] = key
        return PlacedRow(key, 0)

    def end(self, key: int, entry: Entry, seq: int) -> PlacedRow:
        """End a passage before `seq`."""
        self.made[key].until = seq
        del self._open[entry.passage.object_id][entry.passage.part]
        return PlacedRow(key, 0)

    def touch(self, key: int, step: Touched) -> None:
        """Update a passage in place."""
        self.made[key].entry = step.entry

    def erase(self, _: str) -> Iterable[ErasedRow]:
        """Delete nothing: an erased object has no history."""
        return ()


def _wanted(here: PostgresReplay, identities: Sequence[str]) -> _Wanted:
    wanted = _Wanted()
    for start in range(0, len(identities), _AT_ONCE):
        _imagine(wanted, list(here.histories_of(identities[start : start + _AT_ONCE])), here.extractor)
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
        entries = (
            tuple(sorted((to_column(ending),) for ending in endings_of(places_of(passage)))),
            tuple(sorted(set(day_values(passage)))),
            tuple(sorted((name_code(name),) for name in set(made.entry.code_names))) if current else (),
            (words.words, words.names),
            ties.get(key),
        )
        values = passage_values(passage, made.entry.position)
        place = (passage.object_id, passage.part, made.seq)
        wanted.contents[place] = hash((*row, words.terms, words.trigrams, *values, *entries))


def _actual(transaction: Transaction) -> dict[Place, int]:
    groups = [_grouped(transaction.rows(sql)) for sql in (_ENDINGS, _DAYS, _NAMES)]
    words = {key: (text_of(one), text_of(other)) for key, one, other in transaction.rows(_WORDS)}
    ties = graph_contents(transaction)
    contents: dict[Place, int] = {}
    for key, seq, until, scope, digest, metadata, terms, trigrams, *stored in transaction.rows(_ROWS):
        values = [from_column(value) if isinstance(value, str) else value for value in stored]
        entries = (*(group.pop(key, ()) for group in groups), words.pop(key, None), ties.pop(key, None))
        row = (until, scope, digest.hex(), _canonical(metadata))
        contents[values[0], values[1], seq] = hash((*row, terms, trigrams, *values, *entries))
    if any(groups) or words or ties:
        contents[NOWHERE] = -1
    return contents


def _damage(transaction: Transaction) -> Iterator[str]:
    yield from graph_damage(transaction)
    if wrong := _wrong_runs(transaction):
        yield f"{wrong} runs of postings do not match the passages"
    if damaged := count_damaged(transaction):
        yield f"{damaged} vectors are damaged"
    for name, count in queue_differences(transaction).items():
        yield f"{count} texts are incorrectly queued, or not queued, for {name}"


def _wrong_runs(transaction: Transaction) -> int:
    """Count runs with postings that differ from the words of their passages."""
    runs = transaction.rows("SELECT run, first, last FROM posting_runs WHERE space = %(space)s ORDER BY run")
    wrong, upto = 0, 0
    for number, first, last in runs:
        texts = transaction.rows(_OF_RUN, first=upto + 1, last=last)
        wanted = (
            run_of_words([(key, text_of(words)) for key, words, _ in texts]),
            run_of_names([(key, text_of(names)) for key, _, names in texts]),
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
    """Return JSON in a canonical form, because the server has its own order."""
    return json.dumps(json.loads(metadata, parse_float=_plain, parse_int=_plain), sort_keys=True)


def _plain(number: str) -> float:
    return float(number)
