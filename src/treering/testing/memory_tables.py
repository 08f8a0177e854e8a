"""The tables of a ledger in memory, and their view for planning."""

import json
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

from pydantic import ValidationError

from treering.core.audit import GENESIS, Anchor, AuditEvent, verify_chain
from treering.core.errors import InvalidInput
from treering.core.objects import Knowledge, Node, Object, Source, no_export, parse_object, stored_form
from treering.core.patch import Link, PatchRecord, Remembered
from treering.core.policy import Policy
from treering.core.writing.account import account
from treering.core.writing.draft import Cited, Erased, Linked, Put, Unlinked, Write, rests_on
from treering.core.writing.integrity import references_of
from treering.core.writing.journal import POLICY, policy_in
from treering.ports.ledger import Record


@dataclass(frozen=True, slots=True)
class Revision:
    """One revision of an object, and the sequence number of its audit event."""

    seq: int
    item: Object


@dataclass(frozen=True, slots=True)
class LinkSpan:
    """A link, from the event that added it to the event that removed it."""

    link: Link
    added: int
    removed: int | None = None

    def stands_at(self, seq: int) -> bool:
        """Return whether the link existed at a sequence number."""
        return self.added <= seq and (self.removed is None or self.removed > seq)


@dataclass(slots=True)
class Tables:
    """Everything a ledger holds. Also the `View` for planning."""

    events: list[AuditEvent] = field(default_factory=list)
    revisions: dict[str, list[Revision]] = field(default_factory=dict)
    words: dict[tuple[str, str], str] = field(default_factory=dict)
    """By source and segment id, also of segments that have vanished from their source."""
    spans: list[LinkSpan] = field(default_factory=list)
    patches: dict[str, PatchRecord] = field(default_factory=dict)
    receipts: dict[str, Remembered] = field(default_factory=dict)
    _keys: dict[str, tuple[str, str | None]] = field(default_factory=dict)
    """Duplicate key and claim key of each piece of knowledge."""
    _mentioned: set[str] = field(default_factory=set)
    """Targets of the audit events."""

    def get(self, identity: str) -> Object | None:
        """Return the current revision."""
        rows = self.revisions.get(identity)
        return rows[-1].item if rows else None

    def get_as_of(self, identity: str, seq: int) -> Object | None:
        """Return the revision that was current at a sequence number."""
        rows = [row for row in self.revisions.get(identity, ()) if row.seq <= seq]
        return rows[-1].item if rows else None

    def revision(self, identity: str, number: int) -> Object | None:
        """Return one revision."""
        return next((row.item for row in self.revisions.get(identity, ()) if row.item.revision == number), None)

    def exists(self, identity: str) -> bool:
        """Return whether an object has this id."""
        return identity in self.revisions

    def scope_of(self, identity: str) -> str | None:
        """Return the scope of an object."""
        item = self.get(identity)
        return item.scope if item else None

    def ever_existed(self, identity: str) -> bool:
        """Return whether the audit log contains this id."""
        return identity in self._mentioned

    def current(self) -> Iterator[Object]:
        """Return the current state of every object, by id."""
        for _, rows in sorted(self.revisions.items()):
            yield rows[-1].item

    def source_by_origin(self, scope: str, origin: str) -> str | None:
        """Return the id of the source with this origin that is not archived."""
        for item in self.current():
            if isinstance(item, Source) and (item.scope, item.origin) == (scope, origin) and item.status != "archived":
                return item.id
        return None

    def node_by_slug(self, scope: str, kind: str, slug: str) -> str | None:
        """Return the id of the active node with this slug."""
        wanted = (scope, kind, slug, "active")
        for item in self.current():
            if isinstance(item, Node) and (item.scope, item.kind, item.slug, item.status) == wanted:
                return item.id
        return None

    def knowledge_by_duplicate_key(self, key: str) -> Sequence[str]:
        """Return ids of knowledge with this key, oldest first."""
        return sorted(identity for identity, (duplicate, _) in self._keys.items() if duplicate == key)

    def knowledge_by_claim_key(self, key: str) -> Sequence[str]:
        """Return ids of claims with this key, oldest first."""
        return sorted(identity for identity, (_, claim) in self._keys.items() if claim == key)

    def dependents(self, identity: str) -> Sequence[str]:
        """Return ids of knowledge that names this id, in order."""
        found = (self.get(key) for key in sorted(self._keys))
        return [item.id for item in found if isinstance(item, Knowledge) and rests_on(item, identity)]

    def referrers(self, identity: str) -> Sequence[str]:
        """Return ids of objects of which a revision names this id, in order."""
        named = (
            key for key, rows in self.revisions.items() if any(identity in references_of(row.item) for row in rows)
        )
        return sorted(named)

    def links_of(self, identity: str) -> Sequence[Link]:
        """Return the links that start or end here now."""
        return self.links_as_of(identity, len(self.events))

    def links_as_of(self, identity: str, seq: int) -> list[Link]:
        """Return the links that started or ended here at a sequence number."""
        found = (span.link for span in self.spans if span.stands_at(seq))
        here = (link for link in found if identity in (link.source, link.target))
        return sorted(here, key=_link_order)

    def segment_text(self, source_id: str, segment_id: str) -> str | None:
        """Return the words a segment id has ever named."""
        return self.words.get((source_id, segment_id))

    def cited(self, source_id: str, segment_id: str) -> Cited | None:
        """Return a source as evidence needs it."""
        return Cited.of(self.get(source_id), segment_id)

    def head(self) -> Anchor:
        """Return the head of the audit log."""
        last = self.events[-1] if self.events else None
        return Anchor(seq=last.seq, hash=last.hash) if last else Anchor(seq=0, hash=GENESIS)

    def policy(self) -> Policy | None:
        """Return the latest policy in the audit log, or `None`."""
        told = (event for event in reversed(self.events) if event.target == POLICY)
        return next(map(policy_in, told), None) if POLICY in self._mentioned else None

    def tell(self, events: Iterable[AuditEvent]) -> None:
        """Add events to the audit log."""
        for event in events:
            self.events.append(event)
            self._mentioned.add(event.target)

    def store(self, write: Write, seq: int) -> None:
        """Store one write under its audit sequence number."""
        match write:
            case Put(after=after):
                self._put(Revision(seq, after))
            case Linked(link):
                self.spans.append(LinkSpan(link, added=seq))
            case Unlinked(link):
                self.spans = [_ended(span, link, seq) for span in self.spans]
            case Erased(before):
                self._erase(before.id)

    def verify(self, anchor: Anchor | None) -> Anchor:
        """Check everything against the audit log. Raises `Corrupt`."""
        head = verify_chain(self.events, anchor=anchor)
        told = account(self.events)
        rows = [row for rows in self.revisions.values() for row in rows]
        for row in rows:
            told.check_revision(row.item, row.seq)
        told.check_complete((row.item.id, row.item.revision) for row in rows)
        told.check_links((*_link_order(span.link), span.link.patch_id, span.added, span.removed) for span in self.spans)
        for record in self.patches.values():
            told.check_patch(record)
        told.check_patches_complete(self.patches)
        return head

    def records(self) -> Iterator[Record]:
        """Return every record, in the order the port names."""
        for event in self.events:
            yield Record("event", event.model_dump(mode="json"))
        for row in sorted((row for rows in self.revisions.values() for row in rows), key=lambda row: row.seq):
            body = json.loads(stored_form(row.item))
            yield Record("revision", {"id": row.item.id, "revision": row.item.revision, "seq": row.seq, "body": body})
        for (source_id, segment_id), text in sorted(self.words.items()):
            yield Record("segment", {"source_id": source_id, "segment_id": segment_id, "text": text})
        for span in sorted(self.spans, key=lambda span: (span.added, *_link_order(span.link))):
            yield Record("link", {**span.link.model_dump(), "added": span.added, "removed": span.removed})
        for _, record in sorted(self.patches.items()):
            yield Record("patch", record.model_dump(mode="json"))
        for key, receipt in sorted(self.receipts.items()):
            yield Record("receipt", {"key": key, "receipt": receipt.model_dump(mode="json")})

    @classmethod
    def of(cls, records: Iterable[Record]) -> "Tables":
        """Load records in any order. Raises `InvalidInput` if they are not an export."""
        try:
            return cls._of(records)
        except (KeyError, TypeError, ValidationError) as error:
            raise no_export(error) from error

    @classmethod
    def _of(cls, records: Iterable[Record]) -> "Tables":
        rows: dict[str, list[Any]] = {}
        for record in records:
            rows.setdefault(record.table, []).append(record.row)
        tables = cls(
            words={(row["source_id"], row["segment_id"]): row["text"] for row in rows.pop("segment", [])},
            spans=[_span(row) for row in rows.pop("link", [])],
            patches={row["id"]: PatchRecord.model_validate(row) for row in rows.pop("patch", [])},
            receipts={row["key"]: Remembered.model_validate(row["receipt"]) for row in rows.pop("receipt", [])},
        )
        tables.tell(AuditEvent.model_validate(row) for row in rows.pop("event", []))
        for row in rows.pop("revision", []):
            tables._put(Revision(row["seq"], tables._object(row["body"])))
        for unknown in rows:
            raise InvalidInput(
                f"The export has an unknown table {unknown!r}.",
                hint="Check that Treering exported it, and this version.",
            )
        return tables

    def _object(self, body: dict[str, Any]) -> Object:
        if "segments" not in body:
            return parse_object(body)
        parts = [{**part, "excerpt": self.words[body["id"], part["segment_id"]]} for part in body["segments"]]
        return parse_object({**body, "segments": parts})

    def _put(self, row: Revision) -> None:
        item = row.item
        self.revisions.setdefault(item.id, []).append(row)
        if isinstance(item, Source):
            self.words |= {(item.id, segment.segment_id): segment.excerpt for segment in item.segments}
        if isinstance(item, Knowledge):
            self._keys[item.id] = (item.duplicate_key(), item.claim_key())

    def _erase(self, identity: str) -> None:
        self.revisions.pop(identity, None)
        self._keys.pop(identity, None)
        self.words = {key: text for key, text in self.words.items() if key[0] != identity}
        self.spans = [span for span in self.spans if identity not in (span.link.source, span.link.target)]


def _span(row: dict[str, Any]) -> LinkSpan:
    link = Link.model_validate({name: row[name] for name in Link.model_fields})
    return LinkSpan(link, added=row["added"], removed=row["removed"])


def _ended(span: LinkSpan, link: Link, seq: int) -> LinkSpan:
    same = _link_order(span.link) == _link_order(link) and span.removed is None
    return replace(span, removed=seq) if same else span


def _link_order(link: Link) -> tuple[str, str, str]:
    return link.type, link.source, link.target
