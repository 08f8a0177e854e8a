"""Revisions of objects, read and checked: many with few queries."""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import suppress
from typing import Any

from treering.core.errors import Corrupt
from treering.core.objects import Object
from treering.edges.ledger_rows.packing import unpack, unpack_object
from treering.edges.ledger_rows.read_checks import HINT, Newest, ReadChecks, Stored
from treering.edges.ledger_rows.row_failures import row_of
from treering.edges.stores.postgres.columns import body_of, from_column
from treering.edges.stores.postgres.exchange import Row
from treering.edges.stores.postgres.log_tables import EventTable
from treering.edges.stores.postgres.transactions import Transaction
from treering.ports.ledger import Altered, noted

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

    With `checks` each object is checked against the audit log as it is read; `Corrupt` names what was changed behind
    the ledger's back.
    """

    def __init__(self, transaction: Transaction, checks: ReadChecks | None = None) -> None:
        self._transaction = transaction
        self._events = EventTable(transaction)
        self._checks = checks

    def get(self, identity: str) -> Object | None:
        """Return the current revision."""
        return self.current([identity]).get(identity)

    def current(self, identities: Iterable[str], altered: Altered | None = None) -> dict[str, Object]:
        """Return the current revisions of those that exist; what does not verify is left out where `altered` takes it.

        Costs two queries, however many they are.
        """
        newest = self.newest(identities)
        words = self._words_of(known.stored for known in newest.values())
        found: dict[str, Object] = {}
        for identity, known in newest.items():
            with noted(altered):
                item = self._item(known.stored, words)
                if self._checks:
                    self._checks.check_newest(self._events, known, item)
                found[identity] = item
        return found

    def expect(self, identity: str) -> None:
        """Ask what `get` asks about an object, where that is asked ahead."""
        self.newest([identity])
        self._words_of([Stored(identity, 0, 0, "")])

    def newest(self, identities: Iterable[str]) -> dict[str, Newest]:
        """Return the newest stored revisions, and what has to agree with each."""
        wanted = list(dict.fromkeys(identities))
        found = [_newest(row) for row in self._transaction.rows(_NEWEST, ids=wanted)] if wanted else []
        if self._checks:
            # An event behind that of the revision has to be about something else, such as a link.
            self._events.read_later(
                [(one.stored.identity, one.stored.seq) for one in found if one.last != one.stored.seq]
            )
        return {one.stored.identity: one for one in found}

    def as_of(self, identities: Iterable[str], seq: int, altered: Altered | None = None) -> dict[str, Object]:
        """Return the revisions that were current at an audit sequence number."""
        stored = self._stored_rows(_AS_OF, ids=list(dict.fromkeys(identities)), seq=seq)
        words = self._words_of(stored)
        found: dict[str, Object] = {}
        for one in stored:
            with noted(altered):
                item = self._item(one, words)
                if self._checks:
                    self._checks.check_as_of(self._events, one, item, seq)
                found[one.identity] = item
        return found

    def revision(self, identity: str, number: int) -> Object | None:
        """Return one revision."""
        found = self._checked(ONE_REVISION, id=identity, number=number)
        return found[0] if found else None

    def revisions(self, identity: str) -> list[Object]:
        """Return every revision, oldest first."""
        return self._checked(f"{_STORED} r.id = %(id)s ORDER BY r.revision", id=identity)

    def some_revisions(self, wanted: Sequence[tuple[str, int]]) -> dict[tuple[str, int], Object]:
        """Return those of the revisions (id, number) that are there."""
        ids, numbers = [identity for identity, _ in wanted], [number for _, number in wanted]
        items = self._checked(_SOME, ids=ids, numbers=numbers) if wanted else []
        return {(item.id, item.revision): item for item in items}

    def load(self, stored: Sequence[Stored]) -> Iterator[Object]:
        """Make objects from their stored forms, with the words of their segments."""
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
        """Return rows of revisions; remember the events that came with them."""
        rows = self._transaction.rows(sql, **bindings)
        for row in rows:
            self._events.note(row[2], row[4])
        return [_stored(row) for row in rows]

    def _item(self, stored: Stored, words: Mapping[str, Mapping[str, str]]) -> Object:
        with row_of(stored.identity, hint=HINT):
            return unpack_object(unpack(stored.body), lambda source_id: words.get(source_id, {}))

    def _words_of(self, stored: Iterable[Stored]) -> dict[str, dict[str, str]]:
        """Return, by source, all texts that its segments have or had."""
        sources = list({one.identity for one in stored if one.identity.startswith("src:")})
        if not sources:
            return {}
        rows = self._transaction.rows(
            f"SELECT s.source_id, s.segment_id, t.body {TEXTS} s.source_id = ANY(%(ids)s)", ids=sources
        )
        words: dict[str, dict[str, str]] = {}
        for source_id, segment_id, body in rows:
            # Words that cannot be read are missed where their object is made.
            with suppress(Corrupt), row_of(source_id):
                words.setdefault(source_id, {})[segment_id] = unpack(body_of(body))
        return words


def _stored(row: Row) -> Stored:
    return Stored(row[0], row[1], row[2], body_of(row[3]))


def _newest(row: Row) -> Newest:
    event = None if row[4] is None else body_of(row[4])
    shown = () if row[6] is None else (*row[7:12], from_column(row[12]), *row[13:16], from_column(row[16]))
    return Newest(_stored(row), event, row[5] or 0, shown)
