"""Keeping rows of passages in step with the ledger, inside its transactions: what `derived.projection` folds."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field

import apsw

from treering.core.times import render_time
from treering.derived.passages import gist_hash
from treering.derived.projection import Began, Ended, Entry, Forgotten, Touched, steps_of, ties_in
from treering.derived.ties import Ties
from treering.edges.stores.sqlite.code_names import purge_names, settle_names
from treering.edges.stores.sqlite.days import add_days, remove_days
from treering.edges.stores.sqlite.filters import stored_scalar
from treering.edges.stores.sqlite.graph import settle_ties
from treering.edges.stores.sqlite.places import add_places, remove_places
from treering.edges.stores.sqlite.tables import SHOWN, read_state, write_state
from treering.edges.stores.sqlite.vector_queue import log_vectors, settle_texts
from treering.edges.stores.sqlite.words import add_words, purge_words, remove_words
from treering.ports.extractor import Extractor
from treering.ports.passages import Passage
from treering.ports.projection import Change

_INSERT = (
    "INSERT INTO passages(object_id, part, position, type, kind, status, scope_id, role, title, heading, origin, "
    "channel, created_at, updated_at, live, text_id, from_seq, place_role) VALUES(?,?,?,?,?,?,?,?,?,?,?,?,?,?,?,?,?,?)"
)
_BATCH = 500  # passages read for the graph at a time


def apply_changes(connection: apsw.Connection, changes: Sequence[Change], extractor: Extractor) -> None:
    """Bring the passages of changed objects, and what the graph holds of them, up to date."""
    fold = _Rows(connection, extractor)
    for change in changes:
        fold.apply(change)
    fold.finish()


@dataclass(slots=True)
class _Rows:
    """The rows of one run of changes: what it has looked up, and what has to be settled at its end."""

    connection: apsw.Connection
    extractor: Extractor
    scopes: dict[str, int] = field(default_factory=dict)
    texts: set[int] = field(default_factory=set)
    """Texts that gained or lost a passage."""
    revealed: list[int] = field(default_factory=list)
    """Passages whose vector, if they have one, begins or ceases to be searched, or whose ties change."""
    told: dict[int, Entry | None] = field(default_factory=dict)
    """What the graph has to hold of passages that came, went or say something else."""
    come: dict[int, tuple[str, ...]] = field(default_factory=dict)
    """Names of code that passages vouch for now and did not before, by key."""
    gone: dict[int, tuple[str, ...]] = field(default_factory=dict)
    """Names of code that passages vouched for before and may do no longer."""
    unnamed: list[int] = field(default_factory=list)
    """Passages of erased objects that may have vouched for names, of which nobody knows which."""
    erased: bool = False
    shown: int = 0
    """How many more passages are current than before."""

    def apply(self, change: Change) -> None:
        steps = steps_of(change)
        rows = self._open_rows(change.object_id) if change.before and change.after else {}
        for step in steps:
            match step:
                case Forgotten(object_id):
                    self._erase(object_id)
                case Ended(entry, seq) if entry.passage.part in rows:
                    self._end(rows.pop(entry.passage.part), entry, seq)
                case Ended():
                    pass  # it was not there
                case Touched(entry) if entry.passage.part in rows:
                    self._touch(rows[entry.passage.part], step)
                case Began(entry, seq) | Touched(entry, seq):
                    self._begin(entry, seq)

    def finish(self) -> None:
        log_vectors(self.connection, self.revealed)
        settle_texts(self.connection, sorted(self.texts))
        for keys in _in_batches(list(self.told)):
            settle_ties(self.connection, self._ties(keys))
        settle_names(self.connection, gone=self.gone, come=self.come)
        if self.shown:
            write_state(self.connection, SHOWN, read_state(self.connection, SHOWN) + self.shown)
        if self.erased:
            self.connection.execute(
                "DELETE FROM passage_scopes WHERE id NOT IN (SELECT DISTINCT scope_id FROM passages)"
            )
            purge_words(self.connection)
            purge_names(self.connection, self.unnamed)

    def _ties(self, keys: Sequence[int]) -> dict[int, Ties | None]:
        known = {key: entry for key in keys if (entry := self.told[key])}
        read = dict(zip(known, ties_in(list(known.values()), self.extractor), strict=True))
        return {key: read.get(key) for key in keys}

    def _begin(self, entry: Entry, seq: int) -> None:
        passage = entry.passage
        text_id = self._text_id(passage)
        self.connection.execute(_INSERT, self._row(passage, entry.position, text_id, seq))
        key = self.connection.last_insert_rowid()
        self._keep_metadata(key, passage)
        add_places(self.connection, key, passage)
        add_days(self.connection, key, passage)
        add_words(self.connection, key, passage, current=passage.live)
        self.texts.add(text_id)
        if passage.live:
            self.shown += 1
            self._tell(key, entry)
            self._name(key, come=entry)

    def _end(self, key: int, entry: Entry, seq: int) -> None:
        passage = entry.passage
        self.connection.execute("UPDATE passages SET until_seq = ? WHERE key = ?", (seq, key))
        if passage.live:
            remove_words(self.connection, key, current=True)
            add_words(self.connection, key, passage, current=False)
            self.shown -= 1
            self._tell(key, None)
            self._name(key, gone=entry)
        self.texts.add(self._text_id(passage))

    def _touch(self, key: int, step: Touched) -> None:
        entry = step.entry
        sql = "UPDATE passages SET position = ?, updated_at = ? WHERE key = ?"
        self.connection.execute(sql, (entry.position, render_time(entry.passage.updated_at), key))
        self.connection.execute("DELETE FROM passage_metadata WHERE key = ?", (key,))
        self._keep_metadata(key, entry.passage)
        if entry.passage.live and step.retied:
            self._tell(key, entry)
        if entry.passage.live and entry.code_names != step.was.code_names:
            self._name(key, gone=step.was, come=entry)

    def _erase(self, object_id: str) -> None:
        sql = "SELECT key, live AND until_seq IS NULL, text_id FROM passages WHERE object_id = ?"
        for key, current, text_id in list(self.connection.execute(sql, (object_id,))):
            remove_words(self.connection, key, current=bool(current))
            self.shown -= bool(current)
            remove_places(self.connection, key)
            remove_days(self.connection, key)
            self.connection.execute("DELETE FROM passage_metadata WHERE key = ?", (key,))
            self.connection.execute("DELETE FROM passages WHERE key = ?", (key,))
            self.texts.add(text_id)
            self._tell(key, None)
            self.come.pop(key, None)
            self.gone.pop(key, None)
            self.unnamed += [key] if current else []
        self.erased = True

    def _tell(self, key: int, told: Entry | None) -> None:
        self.told[key] = told
        self.revealed.append(key)

    def _name(self, key: int, *, gone: Entry | None = None, come: Entry | None = None) -> None:
        """Note which names of code a passage vouches for no longer, and which from now on."""
        if gone and key not in self.come:
            self.gone.setdefault(key, gone.code_names)
        self.come.pop(key, None)
        if come and (names := come.code_names):
            self.come[key] = names

    def _open_rows(self, object_id: str) -> dict[str, int]:
        sql = "SELECT part, key FROM passages WHERE object_id = ? AND until_seq IS NULL"
        return dict(self.connection.execute(sql, (object_id,)))

    def _row(self, passage: Passage, position: int, text_id: int, seq: int) -> tuple[str | int | None, ...]:
        return (
            passage.object_id,
            passage.part,
            position,
            passage.type,
            passage.kind,
            passage.status,
            self._scope_id(passage.scope),
            passage.role,
            passage.title,
            passage.heading,
            passage.origin or None,
            passage.channel,
            render_time(passage.created_at),
            render_time(passage.updated_at),
            int(passage.live),
            text_id,
            seq,
            passage.place_role,
        )

    def _keep_metadata(self, key: int, passage: Passage) -> None:
        for name, value in passage.metadata.items():
            sql = "INSERT INTO passage_metadata(key, name, value) VALUES(?, ?, ?)"
            self.connection.execute(sql, (key, name, stored_scalar(value)))

    def _scope_id(self, scope: str) -> int:
        if scope not in self.scopes:
            self.connection.execute("INSERT OR IGNORE INTO passage_scopes(scope) VALUES(?)", (scope,))
            rows = self.connection.execute("SELECT id FROM passage_scopes WHERE scope = ?", (scope,))
            self.scopes[scope] = next(rows)[0]
        return self.scopes[scope]

    def _text_id(self, passage: Passage) -> int:
        digest = bytes.fromhex(gist_hash(passage))
        row = next(self.connection.execute("SELECT id FROM passage_texts WHERE hash = ?", (digest,)), None)
        if row:
            return int(row[0])
        self.connection.execute("INSERT INTO passage_texts(hash) VALUES(?)", (digest,))
        return self.connection.last_insert_rowid()


def _in_batches(keys: Sequence[int]) -> Iterator[Sequence[int]]:
    return (keys[start : start + _BATCH] for start in range(0, len(keys), _BATCH))
