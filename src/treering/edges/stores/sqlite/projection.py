"""Keeping passages in step with the ledger: a fold over its changes, inside its transactions."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field

import apsw

from treering.core.objects import Object
from treering.core.times import render_time
from treering.derived.passages import gist_hash, passages_of
from treering.edges.stores.sqlite.days import add_days, remove_days
from treering.edges.stores.sqlite.filters import stored_scalar
from treering.edges.stores.sqlite.graph import Told, links_of, settle_ties
from treering.edges.stores.sqlite.places import add_places, remove_places
from treering.edges.stores.sqlite.tables import SHOWN, read_state, write_state
from treering.edges.stores.sqlite.vector_queue import log_vectors, settle_texts
from treering.edges.stores.sqlite.words import add_words, purge_words, remove_words
from treering.ports.extractor import Extractor
from treering.ports.passages import Passage
from treering.ports.projection import Change

_INSERT = (
    "INSERT INTO passages(object_id, part, position, type, kind, status, scope_id, role, title, heading, origin, "
    "channel, created_at, updated_at, live, text_id, from_seq) VALUES(?,?,?,?,?,?,?,?,?,?,?,?,?,?,?,?,?)"
)
_BATCH = 500  # passages read for the graph at a time


def apply_changes(connection: apsw.Connection, changes: Sequence[Change], extractor: Extractor) -> None:
    """Bring the passages of changed objects, and what the graph holds of them, up to date."""
    fold = _Fold(connection, extractor)
    for change in changes:
        fold.apply(change)
    fold.finish()


@dataclass(frozen=True, slots=True)
class _Part:
    """A passage, its place in its object, and the objects its object refers to."""

    position: int
    passage: Passage
    links: tuple[str, ...]

    @property
    def told(self) -> Told:
        return self.passage, self.links

    @property
    def stated(self) -> tuple[object, ...]:
        """What its ties are made of that may change while its row stays."""
        return self.passage.triples, self.links


@dataclass(slots=True)
class _Fold:
    """One run of changes: what it has looked up, and what has to be settled at its end."""

    connection: apsw.Connection
    extractor: Extractor
    scopes: dict[str, int] = field(default_factory=dict)
    texts: set[int] = field(default_factory=set)
    """Texts that gained or lost a passage."""
    revealed: list[int] = field(default_factory=list)
    """Passages whose vector, if they have one, begins or ceases to be searched, or whose ties change."""
    told: dict[int, Told | None] = field(default_factory=dict)
    """What the graph has to hold of passages that came, went or say something else."""
    erased: bool = False
    shown: int = 0
    """How many more passages are current than before."""

    def apply(self, change: Change) -> None:
        if change.after is None:
            self._erase(change.object_id)
            return
        old = _by_part(change.before)
        rows = self._open_rows(change.object_id) if old else {}
        new = _by_part(change.after)
        for name, part in old.items():
            if name in rows and (name not in new or not _same(part.passage, new[name].passage)):
                self._end(rows.pop(name), part.passage, change.seq)
        for name, part in new.items():
            if name not in rows:
                self._begin(part, change.seq)
            elif part != (was := old.get(name)):
                self._touch(rows[name], part, was)

    def finish(self) -> None:
        log_vectors(self.connection, self.revealed)
        settle_texts(self.connection, sorted(self.texts))
        for keys in _in_batches(list(self.told)):
            settle_ties(self.connection, {key: self.told[key] for key in keys}, self.extractor)
        if self.shown:
            write_state(self.connection, SHOWN, read_state(self.connection, SHOWN) + self.shown)
        if self.erased:
            self.connection.execute(
                "DELETE FROM passage_scopes WHERE id NOT IN (SELECT DISTINCT scope_id FROM passages)"
            )
            purge_words(self.connection)

    def _begin(self, part: _Part, seq: int) -> None:
        passage = part.passage
        text_id = self._text_id(passage)
        self.connection.execute(_INSERT, self._row(passage, part.position, text_id, seq))
        key = self.connection.last_insert_rowid()
        self._keep_metadata(key, passage)
        add_places(self.connection, key, passage)
        add_days(self.connection, key, passage)
        add_words(self.connection, key, passage, current=passage.live)
        self.texts.add(text_id)
        if passage.live:
            self.shown += 1
            self._tell(key, part.told)

    def _end(self, key: int, passage: Passage, seq: int) -> None:
        self.connection.execute("UPDATE passages SET until_seq = ? WHERE key = ?", (seq, key))
        if passage.live:
            remove_words(self.connection, key, current=True)
            add_words(self.connection, key, passage, current=False)
            self.shown -= 1
            self._tell(key, None)
        self.texts.add(self._text_id(passage))

    def _touch(self, key: int, part: _Part, was: _Part | None) -> None:
        sql = "UPDATE passages SET position = ?, updated_at = ? WHERE key = ?"
        self.connection.execute(sql, (part.position, render_time(part.passage.updated_at), key))
        self.connection.execute("DELETE FROM passage_metadata WHERE key = ?", (key,))
        self._keep_metadata(key, part.passage)
        # Most touches change the time alone, of every passage of an object: these are not read again.
        if part.passage.live and (was is None or part.stated != was.stated):
            self._tell(key, part.told)

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
        self.erased = True

    def _tell(self, key: int, told: Told | None) -> None:
        self.told[key] = told
        self.revealed.append(key)

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


def _by_part(item: Object | None) -> dict[str, _Part]:
    if item is None:
        return {}
    links = links_of(item)
    return {passage.part: _Part(place, passage, links) for place, passage in enumerate(passages_of(item))}


def _in_batches(keys: Sequence[int]) -> Iterator[Sequence[int]]:
    return (keys[start : start + _BATCH] for start in range(0, len(keys), _BATCH))


def _same(old: Passage, new: Passage) -> bool:
    """Tell whether one row can stand for both: nothing differs but what changes in place."""
    return _essence(old) == _essence(new)


def _essence(passage: Passage) -> tuple[object, ...]:
    return (
        *(passage.type, passage.kind, passage.status, passage.scope, passage.channel, passage.live),
        *(passage.role, passage.title, passage.heading, passage.origin, passage.text, passage.gist),
        passage.metadata.get("path"),  # its words are indexed with the title
        passage.said,
    )
