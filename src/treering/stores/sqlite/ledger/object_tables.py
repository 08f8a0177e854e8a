"""The tables of objects: read and write revisions, segments and links over one connection.

`ObjectTables` is also the `View` for planning a patch.
"""

from collections.abc import Collection, Iterable, Sequence
from typing import Any

import apsw

from treering.core.evidence import Segment
from treering.core.objects import Knowledge, Object, Source
from treering.core.patch import Link
from treering.core.writing.copying import LinkRow
from treering.core.writing.draft import Cited, Erased, Linked, Put, Unlinked, Write
from treering.ports.ledger import Altered, noted
from treering.stores.rows.damage import row_of
from treering.stores.rows.packing import pack, pack_row, text_hash, unpack, unpack_object
from treering.stores.rows.read_checks import (
    HINT,
    Body,
    Newest,
    ReadChecks,
    SourceParts,
    Stored,
    read_segment,
    unreadable,
    unreadable_segment,
)
from treering.stores.rows.verification import KnownPlace, current_row, placing_of, targets_of
from treering.stores.sqlite.ledger.schema import find_referrers, forget_referrer, keep_referrer
from treering.stores.sqlite.reading import in_batches

_STORED = "SELECT id, revision, seq, body FROM revisions "
_AS_OF = _STORED + "WHERE id = ? AND seq <= ? ORDER BY revision DESC LIMIT 1"
_FEW = 200  # objects or places in one statement
_ONE = _STORED + "WHERE id = ? AND revision = ?"
_ALL = _STORED + "WHERE id = ? ORDER BY revision"


class ObjectTables:
    """The object tables of one ledger, over a connection in a transaction.

    With `checks`, objects and segments are verified against the audit log when they are read. `Corrupt` names the data
    that was modified.
    """

    def __init__(self, connection: apsw.Connection, checks: ReadChecks | None = None) -> None:
        self._connection = connection
        self._events = SqliteEvents(connection)
        self._checks = checks

    def get(self, identity: str) -> Object | None:
        """Return the current revision."""
        newest = read_newest(self._connection, identity)
        return self._newest(newest) if newest else None

    def current(self, identities: Iterable[str], altered: Altered | None = None) -> dict[str, Object]:
        """Return the current revisions of objects. Unknown ids are left out, as are errors passed to `altered`."""
        items: dict[str, Object] = {}
        for identity, newest in read_each_newest(self._connection, identities).items():
            with noted(altered):
                items[identity] = self._newest(newest)
        return items

    def as_of(self, identities: Iterable[str], seq: int, altered: Altered | None = None) -> dict[str, Object]:
        """Return the revisions that were current at an audit sequence number, like `current`."""
        items: dict[str, Object] = {}
        for identity in identities:
            with noted(altered):
                if item := self.get_as_of(identity, seq):
                    items[identity] = item
        return items

    def get_as_of(self, identity: str, seq: int) -> Object | None:
        """Return the revision that was current at an audit sequence number."""
        stored = self._stored(_AS_OF, (identity, seq))
        if stored is None:
            return None
        item = self._item(stored)
        if self._checks:
            self._checks.check_as_of(self._events, stored, item, seq)
        return item

    def revision(self, identity: str, number: int) -> Object | None:
        """Return one revision."""
        stored = self._stored(_ONE, (identity, number))
        return self._checked(stored) if stored else None

    def revisions(self, identity: str) -> list[Object]:
        """Return every revision, oldest first."""
        return [self._checked(Stored(*row)) for row in self._connection.execute(_ALL, (identity,))]

    def exists(self, identity: str) -> bool:
        """Return whether an object has this id."""
        return self._first("SELECT 1 FROM objects WHERE id = ?", (identity,)) is not None

    def scope_of(self, identity: str) -> str | None:
        """Return the scope of an object without reading its revision."""
        scope: str | None = self._first("SELECT scope FROM objects WHERE id = ?", (identity,))
        return scope

    def ever_existed(self, identity: str) -> bool:
        """Return whether the audit log contains this id."""
        return self._first("SELECT 1 FROM audit WHERE target = ? LIMIT 1", (identity,)) is not None

    def source_by_origin(self, scope: str, origin: str) -> str | None:
        """Return the id of the source with this origin that is not archived."""
        sql = "SELECT id FROM objects WHERE scope = ? AND origin = ? AND status <> 'archived'"
        source_id: str | None = self._first(sql, (scope, origin))
        return source_id

    def node_by_slug(self, scope: str, kind: str, slug: str) -> str | None:
        """Return the id of the active node with this slug."""
        sql = "SELECT id FROM objects WHERE scope = ? AND kind = ? AND slug = ? AND status = 'active'"
        node_id: str | None = self._first(sql, (scope, kind, slug))
        return node_id

    def knowledge_by_duplicate_key(self, key: str) -> Sequence[str]:
        """Return the ids of knowledge with this key, oldest first."""
        return self._column("SELECT id FROM objects WHERE duplicate_key = ? ORDER BY id", (key,))

    def knowledge_by_claim_key(self, key: str) -> Sequence[str]:
        """Return the ids of claims with this key, oldest first."""
        return self._column("SELECT id FROM objects WHERE claim_key = ? ORDER BY id", (key,))

    def dependents(self, identity: str) -> Sequence[str]:
        """Return the ids of knowledge that cites an object or is derived from it, in order."""
        return self.dependents_of([identity])[identity]

    def dependents_of(self, identities: Sequence[str]) -> dict[str, list[str]]:
        """Return, by id, the ids of knowledge that cites an object or is derived from it, in order."""
        dependents: dict[str, list[str]] = {identity: [] for identity in identities}
        sql = "SELECT target, dependent FROM dependencies WHERE target IN (?*) ORDER BY target, dependent"
        for target, dependent in in_batches(self._connection, sql, list(dependents)):
            dependents[target].append(dependent)
        return dependents

    def referrers(self, identity: str) -> Sequence[str]:
        """Return the ids of objects with a revision that refers to an id, in order."""
        return find_referrers(self._connection, identity)

    def links_of(self, identity: str) -> Sequence[Link]:
        """Return the current links from and to an object."""
        return self.links_as_of(identity, None)

    def links_as_of(self, identity: str, seq: int | None) -> list[Link]:
        """Return the links from and to an object at an audit sequence number."""
        when = "removed IS NULL" if seq is None else "added <= :seq AND (removed IS NULL OR removed > :seq)"
        sql = (
            "SELECT type, source, target, patch_id FROM links "  # noqa: S608 - `when` is one of two literals
            f"WHERE (source = :id OR target = :id) AND {when} ORDER BY type, source, target"
        )
        rows = self._connection.execute(sql, {"id": identity, "seq": seq})
        with row_of(identity):
            return [Link(type=kind, source=start, target=end, patch_id=patch) for kind, start, end, patch in rows]

    def segment_text(self, source_id: str, segment_id: str) -> str | None:
        """Return the text of a segment, even if it was removed from its source."""
        # Most ids are new. A row that is missing is noticed when the source is read.
        sql = "SELECT 1 FROM segments WHERE source_id = ? AND segment_id = ?"
        segment = self.segment(source_id, segment_id) if self._first(sql, (source_id, segment_id)) else None
        return segment.excerpt if segment else None

    def cited(self, source_id: str, segment_id: str) -> Cited | None:
        """Return a source as evidence needs it, without its other segments."""
        sql = "SELECT status, coalesce(fingerprint, '') FROM objects WHERE id = ? AND type = 'source'"
        row = next(self._connection.execute(sql, (source_id,)), None)
        if row is None:
            return None
        status, fingerprint = row
        place = (source_id, segment_id)
        return Cited(status, fingerprint, self.segments([place]).get(place))

    def segment(self, source_id: str, segment_id: str) -> Segment | None:
        """Return the last state of a segment, even if it was removed from its source."""
        sql = (
            "SELECT vanished, place, texts.body FROM segments JOIN texts ON texts.row = segments.text_row "
            "WHERE source_id = ? AND segment_id = ?"
        )
        row = next(self._connection.execute(sql, (source_id, segment_id)), None)
        if row is None:
            self._require_absent(source_id, segment_id)
            return None
        vanished, place, body = row
        parts = self._parts(source_id, None if vanished is None else vanished - 1)
        return read_segment(source_id, parts, place, body)

    def segments(
        self, places: Sequence[tuple[str, str]], altered: Altered | None = None
    ) -> dict[tuple[str, str], Segment]:
        """Return the segments (source id, segment id) that their sources contain now. Others are left out.

        Errors are passed to `altered`, if given, and the segment is left out.
        """
        segments: dict[tuple[str, str], Segment] = {}
        parts: dict[str, SourceParts | None] = {}
        for start in range(0, len(places), _FEW):
            batch = places[start : start + _FEW]
            sql = (
                f"WITH wanted(source_id, segment_id) AS (VALUES {','.join(['(?,?)'] * len(batch))}) "  # noqa: S608 - marks
                "SELECT s.source_id, s.segment_id, s.place, texts.body FROM wanted w "
                "CROSS JOIN segments s ON s.source_id = w.source_id AND s.segment_id = w.segment_id "
                "JOIN texts ON texts.row = s.text_row WHERE s.vanished IS NULL"
            )
            rows = list(self._connection.execute(sql, [x for pair in batch for x in pair]))
            new = dict.fromkeys(row[0] for row in rows if row[0] not in parts)
            newest = read_each_newest(self._connection, new) if self._checks else {}
            for source_id, segment_id, place, body in rows:
                with noted(altered):
                    if source_id not in parts:
                        parts[source_id] = self._newest_parts(source_id, newest.get(source_id))
                    segments[source_id, segment_id] = read_segment(source_id, parts[source_id], place, body)
        for source_id, segment_id in places if self._checks else ():
            if (source_id, segment_id) not in segments:
                with noted(altered):
                    self._require_absent(source_id, segment_id)
        return segments

    def sources_with(self, texts: Collection[str]) -> list[tuple[str, str]]:
        """Return the texts that segments have, with the ids of their sources, in order."""
        known = {text_hash(text): text for text in texts}
        sql = "SELECT t.hash, s.source_id FROM texts t JOIN segments s ON s.text_row = t.row WHERE t.hash IN (?*)"
        return sorted({(known[key], source_id) for key, source_id in in_batches(self._connection, sql, list(known))})

    def load(self, stored: str) -> Object:
        """Parse an object from its stored form and the texts of its segments."""
        return unpack_object(stored, self._words_of)

    def store(self, write: Write, seq: int, stored: str) -> None:
        """Store a write under its audit sequence number. `stored`: the stored form of the object."""
        match write:
            case Put(before=before, after=after):
                self._put(after, seq, stored, is_new=before is None)
            case Linked(link):
                self.keep_link((link.type, link.source, link.target, link.patch_id, seq, None))
            case Unlinked(link):
                sql = "UPDATE links SET removed = ? WHERE type = ? AND source = ? AND target = ? AND removed IS NULL"
                self._connection.execute(sql, (seq, link.type, link.source, link.target))
            case Erased(before):
                self._erase(before.id)

    def keep_revision(self, identity: str, revision: int, seq: int, stored: str) -> None:
        """Store a revision."""
        sql = "INSERT INTO revisions(id, revision, seq, body) VALUES(?, ?, ?, ?)"
        self._connection.execute(sql, (identity, revision, seq, pack_row(stored)))

    def keep_words(self, source_id: str, segment_id: str, text: str) -> None:
        """Store the text of a new segment. Equal texts are stored once."""
        self._keep_words(source_id, [(segment_id, text, "{}")])

    def _keep_words(self, source_id: str, new: Sequence[tuple[str, str, str]]) -> None:
        """Store the texts and places of new segments. Equal texts are stored once."""
        hashes = [text_hash(text) for _, text, _ in new]
        sql = "INSERT INTO texts(hash, body) VALUES(?, ?) ON CONFLICT(hash) DO NOTHING"
        texts = zip(hashes, new, strict=True)
        self._connection.executemany(sql, ((key, pack(text)) for key, (_, text, _) in texts))
        sql = "INSERT INTO segments(source_id, segment_id, place, text_row) SELECT ?,?,?, row FROM texts WHERE hash = ?"
        rows = ((source_id, one, pack_row(place), key) for key, (one, _, place) in zip(hashes, new, strict=True))
        self._connection.executemany(sql, rows)

    def keep_link(self, row: LinkRow) -> None:
        """Store a link."""
        sql = "INSERT INTO links(type, source, target, patch_id, added, removed) VALUES(?, ?, ?, ?, ?, ?)"
        self._connection.execute(sql, row)

    def settle_loaded(self, item: Object) -> None:
        """Update the tables that are read in place of revisions from the last revision of an export."""
        self._set_current(item)
        if isinstance(item, Source):
            self._keep_places(item)

    def _keep_places(self, item: Source, *, is_new: bool = False) -> None:
        """Store the current places of a source's segments, removed segments, and the texts of new ones."""
        sql = "SELECT segment_id, place, vanished FROM segments WHERE source_id = ?"
        rows = () if is_new else self._connection.execute(sql, (item.id,))
        placing = placing_of(item.segments, {row[0]: KnownPlace(unpack(row[1]), row[2]) for row in rows})
        self._keep_words(item.id, [(segment.segment_id, segment.excerpt, place) for segment, place in placing.new])
        for segment_id, place in placing.moved:
            sql = "UPDATE segments SET place = ?, vanished = NULL WHERE source_id = ? AND segment_id = ?"
            self._connection.execute(sql, (pack_row(place), item.id, segment_id))
        for segment_id in placing.vanished:
            sql = "UPDATE segments SET vanished = ? WHERE source_id = ? AND segment_id = ?"
            self._connection.execute(sql, (item.revision, item.id, segment_id))

    def _set_current(self, item: Object) -> None:
        """Update an object's row from its newest revision."""
        self._connection.execute(
            "INSERT OR REPLACE INTO objects VALUES(?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?)", current_row(item)
        )
        keep_referrer(self._connection, item)
        if isinstance(item, Knowledge):
            self._set_dependencies(item)

    def _put(self, item: Object, seq: int, stored: str, *, is_new: bool) -> None:
        if isinstance(item, Source):
            self._keep_places(item, is_new=is_new)
        self.keep_revision(item.id, item.revision, seq, stored)
        self._set_current(item)

    def _set_dependencies(self, item: Knowledge) -> None:
        self._connection.execute("DELETE FROM dependencies WHERE dependent = ?", (item.id,))
        for target in targets_of(item):
            self._connection.execute("INSERT INTO dependencies(target, dependent) VALUES(?, ?)", (target, item.id))

    def _erase(self, identity: str) -> None:
        texts = self._column("SELECT text_row FROM segments WHERE source_id = ?", (identity,))
        for sql in (
            "DELETE FROM segments WHERE source_id = ?",
            "DELETE FROM revisions WHERE id = ?",
            "DELETE FROM objects WHERE id = ?",
            "DELETE FROM dependencies WHERE dependent = ?",
            "DELETE FROM links WHERE source = ?",
            "DELETE FROM links WHERE target = ?",
        ):
            self._connection.execute(sql, (identity,))
        forget_referrer(self._connection, identity)
        for row in texts:
            sql = "DELETE FROM texts WHERE row = ? AND NOT EXISTS (SELECT 1 FROM segments WHERE text_row = ?)"
            self._connection.execute(sql, (row, row))

    def _words_of(self, source_id: str) -> dict[str, str]:
        sql = (
            "SELECT segment_id, texts.body FROM segments JOIN texts ON texts.row = segments.text_row "
            "WHERE source_id = ?"
        )
        return {segment_id: unpack(body) for segment_id, body in self._connection.execute(sql, (source_id,))}

    def checked_links(self, identity: str, seq: int | None) -> list[Link]:
        """Return the links of `links_as_of`, verified against the audit log."""
        links = self.links_as_of(identity, seq)
        if self._checks is None:
            return links
        sql = "SELECT added FROM links WHERE type = ? AND source = ? AND target = ? AND patch_id = ?"
        for link in links:
            for (added,) in self._connection.execute(sql, (link.type, link.source, link.target, link.patch_id)):
                self._checks.check_link(self._events, link, added)
        return links

    def _stored(self, sql: str, bindings: Sequence[Any]) -> Stored | None:
        row = next(self._connection.execute(sql, bindings), None)
        return Stored(*row) if row else None

    def _item(self, stored: Stored) -> Object:
        with row_of(stored.identity, hint=HINT):
            return self.load(unpack(stored.body))

    def _newest(self, newest: Newest) -> Object:
        item = self._item(newest.stored)
        if self._checks:
            self._checks.check_newest(self._events, newest, item)
        return item

    def _checked(self, stored: Stored) -> Object:
        item = self._item(stored)
        if self._checks:
            self._checks.check_revision(self._events, stored, item)
        return item

    def _parts(self, source_id: str, number: int | None) -> SourceParts | None:
        if self._checks is None:
            return None
        if number is None:
            return self._newest_parts(source_id, read_newest(self._connection, source_id))
        if stored := self._stored(_ONE, (source_id, number)):
            return self._checks.earlier_parts(self._events, stored)
        raise unreadable(Stored(source_id, number, 0, ""))

    def _newest_parts(self, source_id: str, newest: Newest | None) -> SourceParts | None:
        if self._checks is None:
            return None
        if newest is None:
            raise unreadable(Stored(source_id, 0, 0, ""))
        return self._checks.newest_parts(self._events, newest)

    def _require_absent(self, source_id: str, segment_id: str) -> None:
        """Raise `Corrupt` if a missing segment is in its source according to the log."""
        known = self._checks and read_newest(self._connection, source_id)
        parts = self._parts(source_id, None) if known else None
        if parts and segment_id in parts.segments:
            raise unreadable_segment(source_id)

    def _first(self, sql: str, bindings: Sequence[Any]) -> Any:
        row = next(self._connection.execute(sql, bindings), None)
        return None if row is None else row[0]

    def _column(self, sql: str, bindings: Sequence[Any]) -> list[Any]:
        return [value for (value,) in self._connection.execute(sql, bindings)]


# Three small statements, because a join takes twice as long.
_NEWEST = "SELECT id, revision, seq, body FROM revisions WHERE id = ? ORDER BY revision DESC LIMIT 1"
_EVENT = "SELECT body, (SELECT max(seq) FROM audit WHERE target = ?2) FROM audit WHERE seq = ?1"
_ROW = (
    "SELECT type, kind, status, scope, revision, title, channel, created_at, updated_at, coalesce(origin, '') "
    "FROM objects WHERE id = ?"
)

# The same for several objects. Only newest revisions are read.
_EACH_NEWEST = (
    "WITH wanted(id) AS (VALUES ?*) SELECT r.id, r.revision, r.seq, r.body FROM wanted w CROSS JOIN revisions r "
    "ON r.id = w.id AND r.revision = (SELECT max(revision) FROM revisions WHERE id = w.id)"
)
_EACH_LAST = "WITH wanted(id) AS (VALUES ?*) SELECT id, (SELECT max(seq) FROM audit WHERE target = id) FROM wanted"
_EVENTS = "SELECT seq, body FROM audit WHERE seq IN (VALUES ?*)"
_ROWS = _ROW.replace("SELECT ", "SELECT id, ").replace("id = ?", "id IN (VALUES ?*)")


def read_each_newest(connection: apsw.Connection, identities: Iterable[str]) -> dict[str, Newest]:
    """Read the newest revisions of objects. Unknown ids are left out. Takes four statements per few hundred objects."""
    wanted, newest_by_id = list(dict.fromkeys(identities)), dict[str, Newest]()
    for start in range(0, len(wanted), _FEW):
        few = wanted[start : start + _FEW]
        stored = [Stored(*row) for row in _asked(connection, _EACH_NEWEST, few)]
        events = dict(_asked(connection, _EVENTS, [one.seq for one in stored]))
        last = dict(_asked(connection, _EACH_LAST, few))
        rows = {row[0]: tuple(row[1:]) for row in _asked(connection, _ROWS, few)}
        for one in stored:
            newest = Newest(one, events.get(one.seq), last.get(one.identity) or 0, rows.get(one.identity, ()))
            newest_by_id[one.identity] = newest
    return newest_by_id


def read_newest(connection: apsw.Connection, identity: str) -> Newest | None:
    """Read the newest revision of an object."""
    row = next(connection.execute(_NEWEST, (identity,)), None)
    if row is None:
        return None
    event, last = next(connection.execute(_EVENT, (row[2], identity)), (None, 0))
    return Newest(Stored(*row), event, last or 0, next(connection.execute(_ROW, (identity,)), ()))


class SqliteEvents:
    """`rows.read_checks.EventRows` over a connection in a transaction."""

    def __init__(self, connection: apsw.Connection) -> None:
        self._connection = connection

    def body_at(self, seq: int) -> Body | None:
        """Return the stored event of a sequence number, or `None`."""
        row = next(self._connection.execute("SELECT body FROM audit WHERE seq = ?", (seq,)), None)
        return row[0] if row else None

    def numbers_of(self, target: str, *, after: int) -> Sequence[int]:
        """Return the sequence numbers after `after` of the events about an id, newest first."""
        sql = "SELECT seq FROM audit WHERE target = ? AND seq > ? ORDER BY seq DESC"
        return [seq for (seq,) in self._connection.execute(sql, (target, after))]


def _asked(connection: apsw.Connection, sql: str, values: Sequence[str] | Sequence[int]) -> Iterable[tuple[Any, ...]]:
    """Run a statement in which `?*` is replaced by a list of values."""
    return connection.execute(sql.replace("?*", ",".join(["(?)"] * len(values))), values) if values else ()
