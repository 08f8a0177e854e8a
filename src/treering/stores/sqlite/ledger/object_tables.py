"""The tables of objects: read and write revisions, segments and links over one connection.

`ObjectTables` is also the `View` for planning a patch.
"""

from collections import defaultdict
from collections.abc import Collection, Iterable, Sequence
from typing import Any

import apsw

from treering.core.objects import Knowledge, Object, Source
from treering.core.patch import Link
from treering.core.writing.account import LinkRow
from treering.core.writing.draft import Erased, Linked, Put, Unlinked, Write
from treering.stores.rows.damage import row_of
from treering.stores.rows.objects import StoredObjects, WordsOf
from treering.stores.rows.packing import pack, pack_row, text_hash, unpack
from treering.stores.rows.read_checks import Body, Newest, ReadChecks, Stored
from treering.stores.rows.verification import KnownPlace, current_row, placing_of, targets_of
from treering.stores.sqlite.ledger.schema import keep_referrer
from treering.stores.sqlite.reading import in_batches

_STORED = "SELECT id, revision, seq, body FROM revisions"
_FEW = 200  # objects or places in one statement


class ObjectTables(StoredObjects):
    """The object tables of one ledger, over a connection in a transaction."""

    def __init__(self, connection: apsw.Connection, checks: ReadChecks | None = None) -> None:
        super().__init__(SqliteEvents(connection), checks)
        self._connection = connection

    def newest(self, identities: Iterable[str]) -> dict[str, Newest]:
        """Return the newest stored revisions, with the values that must agree with each. Unknown ids are left out.

        Takes four statements per few hundred objects.
        """
        wanted, newest_by_id = list(dict.fromkeys(identities)), dict[str, Newest]()
        for start in range(0, len(wanted), _FEW):
            few = wanted[start : start + _FEW]
            stored = [Stored(*row) for row in self._asked(_EACH_NEWEST, few)]
            events = dict(self._asked(_EVENTS, [one.seq for one in stored]))
            last = dict(self._asked(_EACH_LAST, few))
            rows = {row[0]: tuple(row[1:]) for row in self._asked(_ROWS, few)}
            for one in stored:
                newest = Newest(one, events.get(one.seq), last.get(one.identity) or 0, rows.get(one.identity, ()))
                newest_by_id[one.identity] = newest
        return newest_by_id

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

    def dependents_of(self, identities: Sequence[str]) -> dict[str, list[str]]:
        """Return, by id, the ids of knowledge that cites an object or is derived from it, in order."""
        dependents: dict[str, list[str]] = {identity: [] for identity in identities}
        sql = "SELECT target, dependent FROM dependencies WHERE target IN (?*) ORDER BY target, dependent"
        for target, dependent in in_batches(self._connection, sql, list(dependents)):
            dependents[target].append(dependent)
        return dependents

    def referrers(self, identity: str) -> Sequence[str]:
        """Return the ids of objects with a revision that refers to an id, in order."""
        return self._column("SELECT referrer FROM referrers WHERE target = ? ORDER BY referrer", (identity,))

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
        known = self._first(sql, (source_id, segment_id))
        return super().segment_text(source_id, segment_id) if known else None

    def sources_with(self, texts: Collection[str]) -> list[tuple[str, str]]:
        """Return the texts that segments have, with the ids of their sources, in order."""
        known = {text_hash(text): text for text in texts}
        sql = "SELECT t.hash, s.source_id FROM texts t JOIN segments s ON s.text_row = t.row WHERE t.hash IN (?*)"
        return sorted({(known[key], source_id) for key, source_id in in_batches(self._connection, sql, list(known))})

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
            "DELETE FROM referrers WHERE referrer = ?",
            "DELETE FROM links WHERE source = ?",
            "DELETE FROM links WHERE target = ?",
        ):
            self._connection.execute(sql, (identity,))
        for row in texts:
            sql = "DELETE FROM texts WHERE row = ? AND NOT EXISTS (SELECT 1 FROM segments WHERE text_row = ?)"
            self._connection.execute(sql, (row, row))

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

    def _words_of(self, stored: Sequence[Stored]) -> WordsOf:
        bodies: dict[str, dict[str, Body]] = defaultdict(dict)
        for source_id, segment_id, body in in_batches(self._connection, _TEXTS, list({one.identity for one in stored})):
            bodies[source_id][segment_id] = body
        return lambda source_id: {segment_id: unpack(body) for segment_id, body in bodies[source_id].items()}

    def _stored_as_of(self, identities: Sequence[str], seq: int) -> list[Stored]:
        sql = f"{_STORED} WHERE id = ? AND seq <= ? ORDER BY revision DESC LIMIT 1"
        return [Stored(*row) for one in identities for row in self._connection.execute(sql, (one, seq))]

    def _stored_revisions(self, identity: str, number: int | None) -> list[Stored]:
        which, bindings = (
            ("ORDER BY revision", (identity,)) if number is None else ("AND revision = ?", (identity, number))
        )
        rows = self._connection.execute(f"{_STORED} WHERE id = ? {which}", bindings)
        return [Stored(*row) for row in rows]

    def _segment_row(self, source_id: str, segment_id: str) -> tuple[int | None, Body, Body] | None:
        sql = (
            "SELECT vanished, place, texts.body FROM segments JOIN texts ON texts.row = segments.text_row "
            "WHERE source_id = ? AND segment_id = ?"
        )
        row: tuple[int | None, Body, Body] | None = next(self._connection.execute(sql, (source_id, segment_id)), None)
        return row

    def _segment_rows(self, places: Sequence[tuple[str, str]]) -> list[tuple[str, str, Body, Body]]:
        rows: list[tuple[str, str, Body, Body]] = []
        for start in range(0, len(places), _FEW):
            batch = places[start : start + _FEW]
            sql = (
                f"WITH wanted(source_id, segment_id) AS (VALUES {','.join(['(?,?)'] * len(batch))}) "  # noqa: S608 - marks
                "SELECT s.source_id, s.segment_id, s.place, texts.body FROM wanted w "
                "CROSS JOIN segments s ON s.source_id = w.source_id AND s.segment_id = w.segment_id "
                "JOIN texts ON texts.row = s.text_row WHERE s.vanished IS NULL"
            )
            rows += self._connection.execute(sql, [x for pair in batch for x in pair])
        return rows

    def _source_state(self, identity: str) -> tuple[str, str] | None:
        sql = "SELECT status, coalesce(fingerprint, '') FROM objects WHERE id = ? AND type = 'source'"
        state: tuple[str, str] | None = next(self._connection.execute(sql, (identity,)), None)
        return state

    def _asked(self, sql: str, values: Sequence[str] | Sequence[int]) -> Iterable[tuple[Any, ...]]:
        """Run a statement in which `?*` is replaced by a list of values."""
        return self._connection.execute(sql.replace("?*", ",".join(["(?)"] * len(values))), values) if values else ()

    def _first(self, sql: str, bindings: Sequence[Any]) -> Any:
        row = next(self._connection.execute(sql, bindings), None)
        return None if row is None else row[0]

    def _column(self, sql: str, bindings: Sequence[Any]) -> list[Any]:
        return [value for (value,) in self._connection.execute(sql, bindings)]


# Several small statements, because a join takes twice as long. Only newest revisions are read.
_EACH_NEWEST = (
    "WITH wanted(id) AS (VALUES ?*) SELECT r.id, r.revision, r.seq, r.body FROM wanted w CROSS JOIN revisions r "
    "ON r.id = w.id AND r.revision = (SELECT max(revision) FROM revisions WHERE id = w.id)"
)
_EACH_LAST = "WITH wanted(id) AS (VALUES ?*) SELECT id, (SELECT max(seq) FROM audit WHERE target = id) FROM wanted"
_TEXTS = (
    "SELECT source_id, segment_id, texts.body FROM segments JOIN texts ON texts.row = segments.text_row "
    "WHERE source_id IN (?*)"
)
_EVENTS = "SELECT seq, body FROM audit WHERE seq IN (VALUES ?*)"
_ROWS = (
    "SELECT id, type, kind, status, scope, revision, title, channel, created_at, updated_at, coalesce(origin, '') "
    "FROM objects WHERE id IN (VALUES ?*)"
)


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
