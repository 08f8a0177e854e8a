"""Reads of the tables of objects: revisions, segments and links, with few queries for many objects.

`ObjectReads` is also the `View` for planning a patch.
"""

from collections.abc import Collection, Iterable, Sequence
from contextlib import suppress
from typing import Any

from treering.core.errors import Corrupt
from treering.core.objects import Object
from treering.core.patch import Link
from treering.extensions.postgres.connection.failures import body_of, from_column, text_of, to_column
from treering.extensions.postgres.connection.schema import NAMED_AT_LENGTH, NAMED_BRIEFLY
from treering.extensions.postgres.connection.transactions import Row, Transaction
from treering.extensions.postgres.ledger.log_tables import EventTable
from treering.stores.rows.damage import row_of
from treering.stores.rows.objects import StoredObjects, WordsOf
from treering.stores.rows.packing import text_hash
from treering.stores.rows.read_checks import Body, Newest, ReadChecks, Stored

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
_TEXTS = "FROM segments s JOIN texts t ON t.space = s.space AND t.hash = s.hash WHERE s.space = %(space)s AND "
"""Segments with their texts."""


def select_named(columns: str, condition: str) -> str:
    """Return a query of objects by name that uses the index, whatever the length of names."""
    return " UNION ALL ".join(
        f"SELECT {columns} FROM objects WHERE space = %(space)s AND {named} AND {condition}"  # noqa: S608 - only our own SQL
        for named in (NAMED_BRIEFLY, NAMED_AT_LENGTH)
    )


_BY_ORIGIN = select_named("id", "scope = %(scope)s AND origin = %(origin)s AND status <> 'archived'")
_BY_SLUG = select_named("id", "scope = %(scope)s AND kind = %(kind)s AND slug = %(slug)s AND status = 'active'")


class ObjectReads(StoredObjects):
    """The object tables of one space, in a transaction."""

    _events: EventTable

    def __init__(self, transaction: Transaction, checks: ReadChecks | None = None) -> None:
        super().__init__(EventTable(transaction), checks)
        self._transaction = transaction

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

    def some_revisions(self, wanted: Sequence[tuple[str, int]]) -> dict[tuple[str, int], Object]:
        """Return the revisions (id, number) that exist."""
        ids, numbers = [identity for identity, _ in wanted], [number for _, number in wanted]
        items = self._checked(self._stored_rows(_SOME, ids=ids, numbers=numbers)) if wanted else []
        return {(item.id, item.revision): item for item in items}

    def sources_with(self, texts: Collection[str]) -> list[tuple[str, str]]:
        """Return the texts that segments have, with the ids of their sources, in order."""
        known = {text_hash(text): text for text in texts}
        sql = "SELECT hash, source_id FROM segments WHERE space = %(space)s AND hash = ANY(%(hashes)s)"
        rows = self._transaction.rows(sql, hashes=list(known))
        return sorted({(known[bytes(key)], source_id) for key, source_id in rows})

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

    def _stored_as_of(self, identities: Sequence[str], seq: int) -> list[Stored]:
        return self._stored_rows(_AS_OF, ids=identities, seq=seq)

    def _stored_revisions(self, identity: str, number: int | None) -> list[Stored]:
        which = "ORDER BY r.revision" if number is None else "AND r.revision = %(number)s"
        return self._stored_rows(f"{_STORED} r.id = %(id)s {which}", id=identity, number=number)

    def _stored_rows(self, sql: str, **bindings: Any) -> list[Stored]:
        """Return rows of revisions, and cache the events that were read with them."""
        rows = self._transaction.rows(sql, **bindings)
        for row in rows:
            self._events.note(row[2], row[4])
        return [_stored(row) for row in rows]

    def _words_of(self, stored: Sequence[Stored]) -> WordsOf:
        sources = list({one.identity for one in stored if one.identity.startswith("src:")})
        sql = f"SELECT s.source_id, s.segment_id, t.body {_TEXTS} s.source_id = ANY(%(ids)s)"
        words: dict[str, dict[str, str]] = {}
        for source_id, segment_id, body in self._transaction.rows(sql, ids=sources) if sources else ():
            # Texts that cannot be decompressed are missing when their object is parsed.
            with suppress(Corrupt), row_of(source_id):
                words.setdefault(source_id, {})[segment_id] = text_of(body)
        return lambda source_id: words.get(source_id, {})

    def _segment_row(self, source_id: str, segment_id: str) -> tuple[int | None, Body, Body] | None:
        sql = f"SELECT s.vanished, s.place, t.body {_TEXTS} s.source_id = %(source)s AND s.segment_id = %(segment)s"
        rows = self._transaction.rows(sql, source=source_id, segment=segment_id)
        return next(((vanished, body_of(place), body_of(body)) for vanished, place, body in rows), None)

    def _segment_rows(self, places: Sequence[tuple[str, str]]) -> list[tuple[str, str, Body, Body]]:
        sql = (
            "SELECT s.source_id, s.segment_id, s.place, t.body "
            "FROM unnest(%(sources)s::text[], %(segments)s::text[]) AS wanted(source_id, segment_id) "
            "JOIN segments s ON s.space = %(space)s AND s.source_id = wanted.source_id "
            "AND s.segment_id = wanted.segment_id "
            "JOIN texts t ON t.space = s.space AND t.hash = s.hash WHERE s.vanished IS NULL"
        )
        sources, ids = [source_id for source_id, _ in places], [segment_id for _, segment_id in places]
        rows = self._transaction.rows(sql, sources=sources, segments=ids)
        return [(source_id, segment, body_of(place), body_of(body)) for source_id, segment, place, body in rows]

    def _source_state(self, identity: str) -> tuple[str, str] | None:
        sql = (
            "SELECT status, coalesce(fingerprint, '') FROM objects "
            "WHERE space = %(space)s AND id = %(id)s AND type = 'source'"
        )
        rows = self._transaction.rows(sql, id=identity)
        return next(((status, from_column(fingerprint)) for status, fingerprint in rows), None)


def _stored(row: Row) -> Stored:
    return Stored(row[0], row[1], row[2], body_of(row[3]))


def _newest(row: Row) -> Newest:
    event = None if row[4] is None else body_of(row[4])
    shown = () if row[6] is None else (*row[7:12], from_column(row[12]), *row[13:16], from_column(row[16]))
    return Newest(_stored(row), event, row[5] or 0, shown)


def _grouped(keys: Iterable[str], rows: Iterable[Row]) -> dict[str, list[str]]:
    groups: dict[str, list[str]] = {key: [] for key in keys}
    for key, value in rows:
        groups[key].append(value)
    return groups
