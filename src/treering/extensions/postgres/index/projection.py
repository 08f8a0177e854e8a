"""Update the rows of passages in the ledger's transactions, from the steps of `retrieval.index.projection`.

The current rows of all changes are read together; changes are collected, and written in one statement per table.
"""

from collections.abc import Container, Iterator, Mapping, Sequence
from dataclasses import dataclass, field

from treering.core.canonical import render_time
from treering.extensions.postgres.connection.failures import to_column
from treering.extensions.postgres.connection.transactions import Row, Statement, Transaction
from treering.extensions.postgres.index.graph_rows import settle_ties
from treering.extensions.postgres.index.index_state import (
    PASSAGES,
    SCOPES,
    TEXTS,
    log_passages,
    next_numbers,
    read_state,
    stored_metadata,
    write_state,
)
from treering.extensions.postgres.index.text import purge_names, settle_names
from treering.extensions.postgres.index.vector_queue import settle_texts
from treering.extensions.postgres.index.words import PassageWords, settle_words
from treering.ports.index import Change
from treering.ports.models import Extractor
from treering.retrieval.index.passages import gist_hash
from treering.retrieval.index.projection import Began, Ended, Entry, Forgotten, Step, Touched, places_of, steps_of
from treering.stores.rows.fold import (
    PASSAGE_COLUMNS,
    ErasedRow,
    PassageFold,
    PlacedRow,
    day_values,
    endings_of,
    passage_values,
)
from treering.stores.rows.upkeep import SHOWN, AtOnce, CarriedIndex

_TYPES = {"position": "integer", "live": "boolean"}
_PASSAGE = (
    *("key bigint", "scope_id integer", "text_id bigint", "from_seq bigint", "until_seq bigint", "metadata jsonb"),
    *("terms integer", "trigrams integer", *(f"{name} {_TYPES.get(name, 'text')}" for name in PASSAGE_COLUMNS)),
)
_OPEN = (
    "SELECT object_id, part, key FROM passages "
    "WHERE space = %(space)s AND object_id = ANY(%(ids)s::text[]) AND until_seq IS NULL"
)
_ALL = (
    "SELECT object_id, key, text_id, scope_id, live AND until_seq IS NULL FROM passages "
    "WHERE space = %(space)s AND object_id = ANY(%(ids)s::text[])"
)
_SCOPES = "SELECT scope, id FROM passage_scopes WHERE space = %(space)s AND scope = ANY(%(scopes)s::text[])"
_TEXT_IDS = "SELECT hash, id FROM passage_texts WHERE space = %(space)s AND hash = ANY(%(hashes)s::bytea[])"
_ENDED = (
    "UPDATE passages p SET until_seq = ended.seq "
    "FROM unnest(%(keys)s::bigint[], %(seqs)s::bigint[]) AS ended(key, seq) "
    "WHERE p.space = %(space)s AND p.key = ended.key"
)
_TOUCHED = (
    "UPDATE passages p SET position = touched.position, updated_at = touched.time, metadata = touched.metadata "
    "FROM unnest(%(keys)s::bigint[], %(positions)s::integer[], %(times)s::text[], %(metadata)s::jsonb[]) "
    "AS touched(key, position, time, metadata) WHERE p.space = %(space)s AND p.key = touched.key"
)
_UNUSED_SCOPES = (
    "DELETE FROM passage_scopes s WHERE s.space = %(space)s AND s.id = ANY(%(ids)s::integer[]) "
    "AND NOT EXISTS (SELECT 1 FROM passages p WHERE p.space = s.space AND p.scope_id = s.id)"
)
_OF_PASSAGES = ("passage_endings", "passage_days", "passages")


def apply_changes(
    transaction: Transaction,
    changes: Sequence[Change],
    extractor: Extractor,
    at_once: AtOnce[Transaction] | None = None,
    carried: CarriedIndex[Transaction] | None = None,
) -> None:
    """Update the rows of changed passages, with all of their index entries."""
    steps = [(change, steps_of(change)) for change in changes]
    rows = CollectedRows(transaction, steps)
    fold = PassageFold(rows)
    for change, taken in steps:
        fold.apply(change, taken)
    rows.finish()
    log_passages(transaction, sorted({*fold.revealed, *rows.changed}))
    gists = carried.keep_vectors(transaction, fold.gists) if carried else fold.gists
    settle_texts(transaction, sorted(fold.texts), lost=sorted(fold.lost))
    if at_once:
        at_once(transaction, gists)
    for ties in fold.ties(extractor, carried.ties if carried else None):
        settle_ties(transaction, ties, new=rows.new)
    settle_names(transaction, gone=fold.gone, come=fold.come)
    if fold.shown:
        write_state(transaction, SHOWN, read_state(transaction, SHOWN) + fold.shown)
    if fold.unnamed:
        purge_names(transaction, fold.unnamed)


@dataclass(slots=True)
class _Made:
    """A row of a passage that is new in this transaction."""

    entry: Entry
    scope: int
    text: int
    seq: int
    until: int | None = None


@dataclass(slots=True)
class _Known:
    """The existing rows for all changes, read together."""

    open: dict[str, dict[str, int]] = field(default_factory=dict)
    """The keys of rows that have not ended, by object and part."""
    erased: dict[str, list[Row]] = field(default_factory=dict)
    """All rows of erased objects."""
    texts: dict[bytes, int] = field(default_factory=dict)
    scopes: dict[str, int] = field(default_factory=dict)


class CollectedRows:
    """`PassageRows` over a transaction. `finish` writes the collected changes."""

    def __init__(self, transaction: Transaction, steps: Sequence[tuple[Change, Sequence[Step]]]) -> None:
        self.changed: list[int] = []
        """Passages that were added or removed."""
        self._transaction = transaction
        self._known = _known(transaction, steps)
        began = [step.entry for _, taken in steps for step in taken if isinstance(step, Began | Touched)]
        self._last = read_state(transaction, PASSAGES)
        self._number_texts(began)
        self._made: dict[int, _Made] = {}
        self._ended: dict[int, int] = {}
        self._touched: dict[int, Entry] = {}
        self._erased: list[int] = []
        self._scopes_left: set[int] = set()

    @property
    def new(self) -> Container[int]:
        """The keys of new passages in this transaction."""
        return self._made

    def open_rows(self, object_id: str) -> Mapping[str, int]:
        """Return the keys of an object's rows that have not ended, by part."""
        return self._known.open.get(object_id, {})

    def begin(self, entry: Entry, seq: int) -> PlacedRow:
        """Collect a passage that is valid from `seq`."""
        self._last += 1
        passage, key = entry.passage, self._last
        text = self._text_of(entry)
        self._made[key] = _Made(entry, self._scope_of(passage.scope), text, seq)
        self._known.open.setdefault(passage.object_id, {})[passage.part] = key
        self.changed.append(key)
        return PlacedRow(key, text)

    def end(self, key: int, entry: Entry, seq: int) -> PlacedRow:
        """Collect the end of a passage before `seq`."""
        if key in self._made:
            self._made[key].until = seq
        else:
            self._ended[key] = seq
        del self._known.open[entry.passage.object_id][entry.passage.part]
        self.changed.append(key)
        return PlacedRow(key, self._text_of(entry))

    def touch(self, key: int, step: Touched) -> None:
        """Collect an update of a passage in place."""
        if key in self._made:
            self._made[key].entry = step.entry
        else:
            self._touched[key] = step.entry

    def erase(self, object_id: str) -> Iterator[ErasedRow]:
        """Collect the deletion of all rows of an object."""
        self._known.open.pop(object_id, None)
        for _, key, text, scope, current in self._known.erased.pop(object_id, ()):
            self._erased.append(key)
            self._scopes_left.add(scope)
            yield ErasedRow(key, text, current and key not in self._ended)
        for key, made in list(self._made.items()):
            if made.entry.passage.object_id == object_id:
                del self._made[key]
                self._scopes_left.add(made.scope)
                yield ErasedRow(key, made.text, made.entry.passage.live and made.until is None)

    def finish(self) -> None:
        """Write the collected changes."""
        self._forget()
        write_state(self._transaction, PASSAGES, self._last)
        send, words = (
            self._transaction.insert,
            {key: PassageWords.of(made.entry.passage) for key, made in self._made.items()},
        )
        send("passages", _PASSAGE, [self._row(key, made, words[key]) for key, made in self._made.items()])
        passages = {key: made.entry.passage for key, made in self._made.items()}
        endings = [
            (ending, key) for key, passage in passages.items() for ending in sorted(endings_of(places_of(passage)))
        ]
        send("passage_endings", ("ending text", "key bigint"), [(to_column(ending), key) for ending, key in endings])
        days = [(key, *period) for key, passage in passages.items() for period in day_values(passage)]
        send("passage_days", ("key bigint", "first integer", "last integer"), days)
        if self._ended:
            self._transaction.later(_ENDED, keys=list(self._ended), seqs=list(self._ended.values()))
        if touched := {key: entry for key, entry in self._touched.items() if key not in self._erased}:
            self._transaction.later(
                _TOUCHED,
                keys=list(touched),
                positions=[entry.position for entry in touched.values()],
                times=[render_time(entry.passage.updated_at) for entry in touched.values()],
                metadata=[stored_metadata(entry.passage.metadata) for entry in touched.values()],
            )
        settle_words(self._transaction, words, erased=self._erased)

    def _forget(self) -> None:
        if self._erased:
            for table in _OF_PASSAGES:
                sql = f"DELETE FROM {table} WHERE space = %(space)s AND key = ANY(%(keys)s::bigint[])"  # noqa: S608 - our tables
                self._transaction.later(sql, keys=self._erased)
        if left := self._scopes_left - {made.scope for made in self._made.values()}:
            self._transaction.later(_UNUSED_SCOPES, ids=sorted(left))

    def _row(self, key: int, made: _Made, words: PassageWords) -> Row:
        passage = made.entry.passage
        values = passage_values(passage, made.entry.position)
        return (
            *(key, made.scope, made.text, made.seq, made.until, stored_metadata(passage.metadata)),
            *(words.terms, words.trigrams),
            *(to_column(value) if isinstance(value, str) else value for value in values),
        )

    def _text_of(self, entry: Entry) -> int:
        return self._known.texts[bytes.fromhex(gist_hash(entry.passage))]

    def _number_texts(self, began: Sequence[Entry]) -> None:
        """Reserve numbers for new texts."""
        texts = dict.fromkeys(bytes.fromhex(gist_hash(entry.passage)) for entry in began)
        new = [digest for digest in texts if digest not in self._known.texts]
        numbered = list(zip(new, next_numbers(self._transaction, TEXTS, len(new)), strict=True)) if new else []
        self._known.texts |= dict(numbered)
        self._transaction.insert("passage_texts", ("hash bytea", "id bigint"), numbered)

    def _scope_of(self, scope: str) -> int:
        if scope not in self._known.scopes:
            [number] = next_numbers(self._transaction, SCOPES, 1)
            self._transaction.insert("passage_scopes", ("id integer", "scope text"), [(number, scope)])
            self._known.scopes[scope] = number
        return self._known.scopes[scope]


def _known(transaction: Transaction, steps: Sequence[tuple[Change, Sequence[Step]]]) -> _Known:
    """Read the existing rows for all steps in one round trip."""
    entries = [step.entry for _, taken in steps for step in taken if isinstance(step, Began | Ended | Touched)]
    hashes = list(dict.fromkeys(bytes.fromhex(gist_hash(entry.passage)) for entry in entries))
    changed = list(dict.fromkeys(change.object_id for change, _ in steps if change.before))
    erased = list(dict.fromkeys(step.object_id for _, taken in steps for step in taken if isinstance(step, Forgotten)))
    scoped = list(dict.fromkeys(entry.passage.scope for entry in entries))
    queries: list[Statement] = [(_SCOPES, {"scopes": scoped}), (_TEXT_IDS, {"hashes": hashes})]
    queries += [(_OPEN, {"ids": changed})] if changed else []
    queries += [(_ALL, {"ids": erased})] if erased else []
    scopes, texts, *more = transaction.together(queries)
    known = _Known(texts=dict(texts), scopes=dict(scopes))
    for object_id, part, key in more.pop(0) if changed else ():
        known.open.setdefault(object_id, {})[part] = key
    for row in more.pop(0) if erased else ():
        known.erased.setdefault(row[0], []).append(row)
    return known
