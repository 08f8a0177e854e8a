"""Reads of the tables of objects: revisions, segments and links, with few queries for many objects.

`ObjectReads` is also the `View` for planning a patch.
"""

from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from contextlib import suppress
from typing import Any

from treering.core.errors import Corrupt
from treering.core.evidence import Segment
from treering.core.objects import Object
from treering.core.patch import Link
from treering.core.writing.draft import Cited
from treering.extensions.postgres.connection.failures import body_of, from_column, to_column
from treering.extensions.postgres.connection.schema import NAMED_AT_LENGTH, NAMED_BRIEFLY
from treering.extensions.postgres.connection.transactions import Row, Transaction
from treering.extensions.postgres.ledger.log_tables import EventTable
from treering.ports.ledger import Altered, noted
from treering.stores.rows.damage import row_of
from treering.stores.rows.packing import text_hash, unpack, unpack_object
from treering.stores.rows.read_checks import (
    HINT,
    Newest,
    ReadChecks,
    SourceParts,
    Stored,
    read_segment,
    unreadable,
    unreadable_segment,
)

_NEWEST = """
SELECT r.id, r.revision, r.seq, r.body, a.body,
  (SELECT max(seq) FROM audit l WHERE l.space = %(space)s AND l.target = r.id),
  o.id, o.type, o.kind, o.status, o.scope, o.revision, o.title, o.channel, o.created_at, o.updated_at,
  coalesce(o.origin, '')
FROM unnest(%(ids)s::text[]) AS wanted(id)
CROSS JOIN LATERAL (
  SELECT id, revision, seq, body FROM revisions v WHERE v.space = %(space)s AND v.id = wanted.id
  ORDER BY revision DESC LIMIT 1) AS r
LEFT JOIN audit a ON a.space = %(space)s AND a.seq = r.seq
LEFT JOIN objects o ON o.space = %(space)s AND o.id = r.id
"""
_STORED = (
    "SELECT r.id, r.revision, r.seq, r.body, a.body FROM revisions r "
    "LEFT JOIN audit a ON a.space = %(space)s AND a.seq = r.seq WHERE r.space = %(space)s AND "
)
ONE_REVISION = f"{_STORED} r.id = %(id)s AND r.revision = %(number)s"
_SOME = """
SELECT r.id, r.revision, r.seq, r.body, a.body
FROM (SELECT DISTINCT id, number FROM unnest(%(ids)s::text[], %(numbers)s::integer[]) AS u(id, number)) AS wanted
JOIN revisions r ON r.space = %(space)s AND r.id = wanted.id AND r.revision = wanted.number
LEFT JOIN audit a ON a.space = %(space)s AND a.seq = r.seq
"""
_AS_OF = """
SELECT DISTINCT ON (r.id) r.id, r.revision, r.seq, r.body, a.body FROM revisions r
LEFT JOIN audit a ON a.space = %(space)s AND a.seq = r.seq
WHERE r.space = %(space)s AND r.id = ANY(%(ids)s) AND r.seq <= %(seq)s ORDER BY r.id, r.revision DESC
"""
TEXTS = "FROM segments s JOIN texts t ON t.space = s.space AND t.hash = s.hash WHERE s.space = %(space)s AND "
"""Segments with their texts."""


class RevisionReads:
    """The revisions of one space, in a transaction.

    With `checks`, objects are verified against the audit log when they are read. `Corrupt` names the data that was
    modified.
    """

    def __init__(self, transaction: Transaction, checks: ReadChecks | None = None) -> None:
        self._transaction = transaction
        self._events = EventTable(transaction)
        self._checks = checks

    def get(self, identity: str) -> Object | None:
        """Return the current revision."""
        return self.current([identity]).get(identity)

    def current(self, identities: Iterable[str], altered: Altered | None = None) -> dict[str, Object]:
        """Return the current revisions of objects. Unknown ids are left out, as are errors passed to `altered`.

        Takes two queries.
        """
        newest = self.newest(identities)
        words = self._words_of(known.stored for known in newest.values())
        items: dict[str, Object] = {}
        for identity, known in newest.items():
            with noted(altered):
                item = self._item(known.stored, words)
                if self._checks:
                    self._checks.check_newest(self._events, known, item)
                items[identity] = item
        return items

    def expect(self, identity: str) -> None:
        """Send the queries of `get` together with others."""
        self.newest([identity])
        self._words_of([Stored(identity, 0, 0, "")])

    def newest(self, identities: Iterable[str]) -> dict[str, Newest]:
        """Return the newest stored revisions, with the values that must agree with each."""
        wanted = list(dict.fromkeys(identities))
        newest = [_newest(row) for row in self._transaction.rows(_NEWEST, ids=wanted)] if wanted else []
        if self._checks:
            # A later event than that of the revision must be about something else, such as a link.
            self._events.read_later(
                [(one.stored.identity, one.stored.seq) for one in newest if one.last != one.stored.seq]
            )
        return {one.stored.identity: one for one in newest}

    def as_of(self, identities: Iterable[str], seq: int, altered: Altered | None = None) -> dict[str, Object]:
        """Return the revisions that were current at an audit sequence number."""
        stored = self._stored_rows(_AS_OF, ids=list(dict.fromkeys(identities)), seq=seq)
        words = self._words_of(stored)
        items: dict[str, Object] = {}
        for one in stored:
            with noted(altered):
                item = self._item(one, words)
                if self._checks:
                    self._checks.check_as_of(self._events, one, item, seq)
                items[one.identity] = item
        return items

    def revision(self, identity: str, number: int) -> Object | None:
        """Return one revision."""
        revisions = self._checked(ONE_REVISION, id=identity, number=number)
        return revisions[0] if revisions else None

    def revisions(self, identity: str) -> list[Object]:
        """Return every revision, oldest first."""
        return self._checked(f"{_STORED} r.id = %(id)s ORDER BY r.revision", id=identity)

    def some_revisions(self, wanted: Sequence[tuple[str, int]]) -> dict[tuple[str, int], Object]:
        """Return the revisions (id, number) that exist."""
        ids, numbers = [identity for identity, _ in wanted], [number for _, number in wanted]
        items = self._checked(_SOME, ids=ids, numbers=numbers) if wanted else []
        return {(item.id, item.revision): item for item in items}

    def load(self, stored: Sequence[Stored]) -> Iterator[Object]:
        """Parse objects from their stored forms, with the texts of their segments."""
        words = self._words_of(stored)
        return (self._item(one, words) for one in stored)

    def _checked(self, sql: str, **bindings: Any) -> list[Object]:
        stored = self._stored_rows(sql, **bindings)
        items = list(self.load(stored))
        for one, item in zip(stored, items, strict=True):
            if self._checks:
                self._checks.check_revision(self._events, one, item)
        return items

    def _stored_rows(self, sql: str, **bindings: Any) -> list[Stored]:
        """Return rows of revisions, and cache the events that were read with them."""
        rows = self._transaction.rows(sql, **bindings)
        for row in rows:
            self._events.note(row[2], row[4])
        return [_stored(row) for row in rows]

    def _item(self, stored: Stored, words: Mapping[str, Mapping[str, str]]) -> Object:
        with row_of(stored.identity, hint=HINT):
            return unpack_object(unpack(stored.body), lambda source_id: words.get(source_id, {}))

    def _words_of(self, stored: Iterable[Stored]) -> dict[str, dict[str, str]]:
        """Return all texts of the current and removed segments of each source."""
        sources = list({one.identity for one in stored if one.identity.startswith("src:")})
        if not sources:
            return {}
        rows = self._transaction.rows(
            f"SELECT s.source_id, s.segment_id, t.body {TEXTS} s.source_id = ANY(%(ids)s)", ids=sources
        )
        words: dict[str, dict[str, str]] = {}
        for source_id, segment_id, body in rows:
            # Texts that cannot be decompressed are missing when their object is parsed.
            with suppress(Corrupt), row_of(source_id):
                words.setdefault(source_id, {})[segment_id] = unpack(body_of(body))
        return words


def _stored(row: Row) -> Stored:
    return Stored(row[0], row[1], row[2], body_of(row[3]))


def _newest(row: Row) -> Newest:
    event = None if row[4] is None else body_of(row[4])
    shown = () if row[6] is None else (*row[7:12], from_column(row[12]), *row[13:16], from_column(row[16]))
    return Newest(_stored(row), event, row[5] or 0, shown)


class SegmentReads(RevisionReads):
    """The segments of one space, in a transaction, verified like its revisions."""

    def segment_text(self, source_id: str, segment_id: str) -> str | None:
        """Return the text of a segment, even if it was removed from its source."""
        segment = self.segment(source_id, segment_id)
        return segment.excerpt if segment else None

    def segment(self, source_id: str, segment_id: str) -> Segment | None:
        """Return the last state of a segment, even if it was removed from its source."""
        sql = f"SELECT s.vanished, s.place, t.body {TEXTS} s.source_id = %(source)s AND s.segment_id = %(segment)s"
        rows = self._transaction.rows(sql, source=source_id, segment=segment_id)
        if not rows:
            self._require_absent([(source_id, segment_id)], None)
            return None
        vanished, place, body = rows[0]
        parts = self._parts([source_id]) if vanished is None else self._earlier_parts(source_id, vanished - 1)
        return read_segment(source_id, parts(source_id), body_of(place), body_of(body))

    def segments(
        self, places: Sequence[tuple[str, str]], altered: Altered | None = None
    ) -> dict[tuple[str, str], Segment]:
        """Return the segments (source id, segment id) that their sources contain now. Others are left out.

        Errors are passed to `altered`, if given, and the segment is left out.
        """
        sql = (
            "SELECT s.source_id, s.segment_id, s.place, t.body "
            "FROM unnest(%(sources)s::text[], %(segments)s::text[]) AS wanted(source_id, segment_id) "
            "JOIN segments s ON s.space = %(space)s AND s.source_id = wanted.source_id "
            "AND s.segment_id = wanted.segment_id "
            "JOIN texts t ON t.space = s.space AND t.hash = s.hash WHERE s.vanished IS NULL"
        )
        sources, ids = [source_id for source_id, _ in places], [segment_id for _, segment_id in places]
        rows = self._transaction.rows(sql, sources=sources, segments=ids) if places else []
        parts = self._parts({row[0] for row in rows})
        segments: dict[tuple[str, str], Segment] = {}
        for source_id, segment_id, place, body in rows:
            with noted(altered):
                segments[source_id, segment_id] = read_segment(
                    source_id, parts(source_id), body_of(place), body_of(body)
                )
        self._require_absent([place for place in dict.fromkeys(places) if place not in segments], altered)
        return segments

    def _parts(self, source_ids: Iterable[str]) -> Callable[[str], SourceParts | None]:
        """Return a function that returns the verified segments in the newest revision of a source."""
        checks, newest = self._checks, self.newest(source_ids) if self._checks else {}

        def parts(source_id: str) -> SourceParts | None:
            if checks is None:
                return None
            if source_id not in newest:
                raise unreadable(Stored(source_id, 0, 0, ""))
            return checks.newest_parts(self._events, newest[source_id])

        return parts

    def _earlier_parts(self, source_id: str, number: int) -> Callable[[str], SourceParts | None]:
        def parts(_: str) -> SourceParts | None:
            if self._checks is None:
                return None
            rows = self._stored_rows(ONE_REVISION, id=source_id, number=number)
            if not rows:
                raise unreadable(Stored(source_id, number, 0, ""))
            return self._checks.earlier_parts(self._events, rows[0])

        return parts

    def _require_absent(self, places: Sequence[tuple[str, str]], altered: Altered | None) -> None:
        """Raise `Corrupt` if a missing segment is in its source according to the log."""
        if not self._checks or not places:
            return
        newest = self.newest(source_id for source_id, _ in places)
        for source_id, segment_id in places:
            with noted(altered):
                known = newest.get(source_id)
                if known and segment_id in self._checks.newest_parts(self._events, known).segments:
                    raise unreadable_segment(source_id)


def select_named(columns: str, condition: str) -> str:
    """Return a query of objects by name that uses the index, whatever the length of names."""
    return " UNION ALL ".join(
        f"SELECT {columns} FROM objects WHERE space = %(space)s AND {named} AND {condition}"  # noqa: S608 - only our own SQL
        for named in (NAMED_BRIEFLY, NAMED_AT_LENGTH)
    )


_BY_ORIGIN = select_named("id", "scope = %(scope)s AND origin = %(origin)s AND status <> 'archived'")
_BY_SLUG = select_named("id", "scope = %(scope)s AND kind = %(kind)s AND slug = %(slug)s AND status = 'active'")


class ObjectReads(SegmentReads):
    """The object tables of one space, in a transaction.

    With `checks`, objects and segments are verified against the audit log when they are read. `Corrupt` names the data
    that was modified.
    """

    def sources_with(self, texts: Collection[str]) -> list[tuple[str, str]]:
        """Return the texts that segments have, with the ids of their sources, in order."""
        known = {text_hash(text): text for text in texts}
        sql = "SELECT hash, source_id FROM segments WHERE space = %(space)s AND hash = ANY(%(hashes)s)"
        rows = self._transaction.rows(sql, hashes=list(known))
        return sorted({(known[bytes(key)], source_id) for key, source_id in rows})

    def exists(self, identity: str) -> bool:
        """Return whether an object has this id."""
        return self.scope_of(identity) is not None

    def cited(self, source_id: str, segment_id: str) -> Cited | None:
        """Return a source as evidence needs it, without its other segments."""
        sql = (
            "SELECT status, coalesce(fingerprint, '') FROM objects "
            "WHERE space = %(space)s AND id = %(id)s AND type = 'source'"
        )
        rows, place = self._transaction.rows(sql, id=source_id), (source_id, segment_id)
        segment = self.segments([place]).get(place)
        return Cited(rows[0][0], from_column(rows[0][1]), segment) if rows else None

    def scope_of(self, identity: str) -> str | None:
        """Return the scope of an object without reading its revision."""
        sql = "SELECT scope FROM objects WHERE space = %(space)s AND id = %(id)s"
        scope: str | None = self._transaction.first(sql, id=identity)
        return scope

    def ever_existed(self, identity: str) -> bool:
        """Return whether the audit log contains this id."""
        sql = "SELECT 1 FROM audit WHERE space = %(space)s AND target = %(id)s LIMIT 1"
        return self._transaction.first(sql, id=identity) is not None

    def source_by_origin(self, scope: str, origin: str) -> str | None:
        """Return the id of the source with this origin that is not archived."""
        source_id: str | None = self._transaction.first(_BY_ORIGIN, scope=scope, origin=to_column(origin))
        return source_id

    def node_by_slug(self, scope: str, kind: str, slug: str) -> str | None:
        """Return the id of the active node with this slug."""
        node_id: str | None = self._transaction.first(_BY_SLUG, scope=scope, kind=kind, slug=to_column(slug))
        return node_id

    def knowledge_by_duplicate_key(self, key: str) -> Sequence[str]:
        """Return the ids of knowledge with this key, oldest first."""
        sql = "SELECT id FROM objects WHERE space = %(space)s AND duplicate_key = %(key)s ORDER BY id"
        return self._transaction.column(sql, key=key)

    def knowledge_by_claim_key(self, key: str) -> Sequence[str]:
        """Return the ids of claims with this key, oldest first."""
        sql = "SELECT id FROM objects WHERE space = %(space)s AND claim_key = %(key)s ORDER BY id"
        return self._transaction.column(sql, key=key)

    def dependents(self, identity: str) -> Sequence[str]:
        """Return the ids of knowledge that cites an object or is derived from it, in order."""
        return self.dependents_of([identity])[identity]

    def dependents_of(self, identities: Sequence[str]) -> dict[str, list[str]]:
        """Return, by id, the ids of knowledge that cites it or is derived from it, in order."""
        sql = (
            "SELECT target, dependent FROM dependencies WHERE space = %(space)s AND target = ANY(%(ids)s) "
            "ORDER BY dependent"
        )
        return _grouped(identities, self._transaction.rows(sql, ids=list(identities)))

    def referrers_of(self, identities: Sequence[str]) -> dict[str, list[str]]:
        """Return, by id, the ids of objects with a revision that refers to it, in order."""
        sql = (
            "SELECT target, referrer FROM referrers WHERE space = %(space)s AND target = ANY(%(ids)s) ORDER BY referrer"
        )
        return _grouped(identities, self._transaction.rows(sql, ids=list(identities)))

    def links_of(self, identity: str) -> Sequence[Link]:
        """Return the current links from and to an object."""
        return self.links_as_of(identity, None)

    def links_as_of(self, identity: str, seq: int | None) -> list[Link]:
        """Return the links from and to an object at an audit sequence number, verified if there are `checks`."""
        return self.links_of_all([identity], seq)[identity]

    def links_of_all(self, identities: Sequence[str], seq: int | None) -> dict[str, list[Link]]:
        """Return, by id, the links from and to it at an audit sequence number."""
        when = "removed IS NULL" if seq is None else "added <= %(seq)s AND (removed IS NULL OR removed > %(seq)s)"
        sql = (
            "SELECT l.type, l.source, l.target, l.patch_id, l.added, a.body FROM links l "  # noqa: S608 - one of two literals
            "LEFT JOIN audit a ON a.space = %(space)s AND a.seq = l.added WHERE l.space = %(space)s "
            f"AND (l.source = ANY(%(ids)s) OR l.target = ANY(%(ids)s)) AND {when} ORDER BY l.type, l.source, l.target"
        )
        links: dict[str, list[Link]] = {identity: [] for identity in identities}
        for kind, source, target, patch_id, added, event in self._transaction.rows(sql, ids=list(links), seq=seq):
            with row_of(source):
                link = Link(type=kind, source=source, target=target, patch_id=patch_id)
            if self._checks:
                self._events.note(added, event)
                self._checks.check_link(self._events, link, added)
            for end in {source, target} & links.keys():
                links[end].append(link)
        return links


def _grouped(keys: Iterable[str], rows: Iterable[Row]) -> dict[str, list[str]]:
    groups: dict[str, list[str]] = {key: [] for key in keys}
    for key, value in rows:
        groups[key].append(value)
    return groups
