"""Writes to the tables of objects: the changes of a patch are collected, and written in one statement per table."""

from collections.abc import Iterable

from treering.core.objects import Knowledge, Object, Source
from treering.core.patch import Link
from treering.core.writing.account import LinkRow
from treering.core.writing.draft import Erased, Linked, Put, Unlinked, Write
from treering.core.writing.integrity import references_of
from treering.extensions.postgres.connection.failures import packed, text_of, to_column
from treering.extensions.postgres.connection.transactions import Row, Transaction
from treering.extensions.postgres.ledger.object_reads import ObjectReads
from treering.stores.rows.packing import text_hash
from treering.stores.rows.verification import OBJECT_COLUMNS, KnownPlace, current_row, placing_of, targets_of

_TYPED = tuple(f"{name} integer" if name == "revision" else f"{name} text" for name in OBJECT_COLUMNS)
_REPLACE = "ON CONFLICT (space, id) DO UPDATE SET " + ", ".join(
    f"{name} = excluded.{name}" for name in OBJECT_COLUMNS if name != "id"
)
_KEPT_ALREADY = "ON CONFLICT DO NOTHING"
_LINK = ("type text", "source text", "target text", "patch_id text", "added bigint", "removed bigint")
_ERASE = (
    "DELETE FROM segments WHERE space = %(space)s AND source_id = %(id)s",
    "DELETE FROM revisions WHERE space = %(space)s AND id = %(id)s",
    "DELETE FROM objects WHERE space = %(space)s AND id = %(id)s",
    "DELETE FROM dependencies WHERE space = %(space)s AND dependent = %(id)s",
    "DELETE FROM referrers WHERE space = %(space)s AND referrer = %(id)s",
    "DELETE FROM links WHERE space = %(space)s AND source = %(id)s",
    "DELETE FROM links WHERE space = %(space)s AND target = %(id)s",
    "DELETE FROM texts t WHERE space = %(space)s AND hash = ANY(%(hashes)s) AND NOT EXISTS "
    "(SELECT 1 FROM segments s WHERE s.space = %(space)s AND s.hash = t.hash)",
)


class ObjectWrites:
    """The object tables of one space, in its write transaction. `finish` writes the collected changes."""

    def __init__(self, transaction: Transaction) -> None:
        self._transaction = transaction
        self._objects: dict[str, Object] = {}
        """The newest revisions in this patch, by id."""
        self._revisions: list[Row] = []
        self._texts: dict[bytes, bytes] = {}
        self._segments: list[Row] = []
        self._referrers: set[tuple[str, str]] = set()
        self._links: list[LinkRow] = []

    def store(self, write: Write, seq: int, stored: str) -> None:
        """Store a write under its audit sequence number. `stored`: the stored form of the object."""
        match write:
            case Put(after=after):
                self.keep_revision(after.id, after.revision, seq, stored)
                self.settle(after)
            case Linked(link):
                self.keep_link((link.type, link.source, link.target, link.patch_id, seq, None))
            case Unlinked(link):
                self._unlink(link, seq)
            case Erased(before):
                self._erase(before.id)

    def keep_revision(self, identity: str, revision: int, seq: int, stored: str) -> None:
        """Store a revision."""
        self._revisions.append((identity, revision, seq, packed(stored)))

    def keep_words(self, source_id: str, segment_id: str, text: str, *, place: str = "{}") -> None:
        """Store the text of a new segment. Equal texts are stored once."""
        key = text_hash(text)
        if key not in self._texts:
            self._texts[key] = packed(text)
        self._segments.append((source_id, segment_id, key, packed(place), None))

    def keep_link(self, row: LinkRow) -> None:
        """Store a link."""
        self._links.append(row)

    def revision(self, identity: str, number: int) -> Object | None:
        """Return one of the stored revisions."""
        self.finish()
        return ObjectReads(self._transaction).revision(identity, number) if number else None

    def settle(self, item: Object) -> None:
        """Update the tables that are read in place of revisions."""
        if isinstance(item, Source):
            self._place(item, self._known_places(item) if item.revision > 1 else {})
        self._objects[item.id] = item
        # References of earlier revisions are retained for reads of the past.
        self._referrers.update((target, item.id) for target in references_of(item))

    def settle_loaded(self, item: Object) -> None:
        """Update these tables from the last revision of an export, whose texts are stored already."""
        if isinstance(item, Source):
            self.finish()
            self._place(item, self._known_places(item))
        self._objects[item.id] = item
        self._referrers.update((target, item.id) for target in references_of(item))

    def finish(self) -> None:
        """Write the collected changes, before the next query."""
        send = self._transaction.insert
        send("texts", ("hash bytea", "body bytea"), list(self._texts.items()), conflict=_KEPT_ALREADY)
        segment = ("source_id text", "segment_id text", "hash bytea", "place bytea", "vanished integer")
        send("segments", segment, self._segments)
        revision = ("id text", "revision integer", "seq bigint", "body bytea")
        send("revisions", revision, self._revisions)
        send("objects", _TYPED, [_columns(item) for item in self._objects.values()], conflict=_REPLACE)
        self._depend([item for item in self._objects.values() if isinstance(item, Knowledge)])
        pair = ("target text", "referrer text")
        send("referrers", pair, sorted(self._referrers), conflict=_KEPT_ALREADY)
        send("links", _LINK, self._links)
        for rows in (self._texts, self._segments, self._revisions, self._objects, self._referrers, self._links):
            rows.clear()

    def _place(self, item: Source, known: dict[str, KnownPlace]) -> None:
        """Store the current places of a source's segments, removed segments, and the texts of new ones."""
        placing = placing_of(item.segments, known)
        for segment, place in placing.new:
            self.keep_words(item.id, segment.segment_id, segment.excerpt, place=place)
        self._move(item.id, placing.moved)
        if placing.vanished:
            sql = (
                "UPDATE segments SET vanished = %(revision)s "
                "WHERE space = %(space)s AND source_id = %(id)s AND segment_id = ANY(%(gone)s)"
            )
            self._transaction.later(sql, revision=item.revision, id=item.id, gone=list(placing.vanished))

    def _move(self, source_id: str, moved: Iterable[tuple[str, str]]) -> None:
        if rows := [(segment_id, packed(place)) for segment_id, place in moved]:
            sql = (
                "UPDATE segments s SET place = moved.place, vanished = NULL "
                "FROM unnest(%(ids)s::text[], %(places)s::bytea[]) AS moved(id, place) "
                "WHERE s.space = %(space)s AND s.source_id = %(source)s AND s.segment_id = moved.id"
            )
            ids, places = [row[0] for row in rows], [row[1] for row in rows]
            self._transaction.later(sql, source=source_id, ids=ids, places=places)

    def _known_places(self, item: Source) -> dict[str, KnownPlace]:
        if any(row[0] == item.id for row in self._segments):
            self.finish()  # an earlier revision in the same patch
        sql = "SELECT segment_id, place, vanished FROM segments WHERE space = %(space)s AND source_id = %(id)s"
        rows = self._transaction.rows(sql, id=item.id)
        return {row[0]: KnownPlace(text_of(row[1]), row[2]) for row in rows}

    def _depend(self, known: list[Knowledge]) -> None:
        if not known:
            return
        # A new object has no dependencies yet.
        if changed := [item.id for item in known if item.revision > 1]:
            sql = "DELETE FROM dependencies WHERE space = %(space)s AND dependent = ANY(%(ids)s)"
            self._transaction.later(sql, ids=changed)
        pairs = [(target, item.id) for item in known for target in targets_of(item)]
        self._transaction.insert("dependencies", ("target text", "dependent text"), pairs, conflict=_KEPT_ALREADY)

    def _unlink(self, link: Link, seq: int) -> None:
        self.finish()  # the link may be from this patch
        sql = (
            "UPDATE links SET removed = %(seq)s WHERE space = %(space)s AND type = %(type)s "
            "AND source = %(source)s AND target = %(target)s AND removed IS NULL"
        )
        self._transaction.later(sql, seq=seq, type=link.type, source=link.source, target=link.target)

    def _erase(self, identity: str) -> None:
        self.finish()
        sql = "SELECT DISTINCT hash FROM segments WHERE space = %(space)s AND source_id = %(id)s"
        hashes = self._transaction.column(sql, id=identity)
        for statement in _ERASE:
            self._transaction.later(statement, id=identity, hashes=hashes)


def _columns(item: Object) -> Row:
    return tuple(to_column(value) if isinstance(value, str) else value for value in current_row(item))
