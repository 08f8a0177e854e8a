"""Copying a ledger piece by piece: what a piece holds, and how a session keeps it.

The audit log of a copy that was begun is the beginning of the log that is copied, so the copy says how far it is.
"""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field

from treering.core.audit import Anchor, AuditEvent
from treering.core.canonical import kind_of
from treering.core.errors import Conflict, Corrupt
from treering.core.evidence import segment_hash
from treering.core.objects import Object, Source, content_hash, stored_form
from treering.core.patch import PatchRecord, Receipt, Remembered, record_hash
from treering.core.writing.draft import Erased, Linked, Put, Unlinked, Write
from treering.core.writing.journal import MERGED, POLICY_CHANGED, Journal
from treering.core.writing.plan import Plan
from treering.core.writing.transaction import Session


@dataclass(frozen=True, slots=True)
class CopiedEvent:
    """An audit event, and what it wrote as far as that is still there.

    An erasure is told by its event alone.
    """

    event: AuditEvent
    write: Put | Linked | Unlinked | None = None


@dataclass(frozen=True, slots=True)
class LedgerPart:
    """Events of a ledger that follow one another, behind `after`."""

    after: Anchor
    entries: tuple[CopiedEvent, ...]


@dataclass(frozen=True, slots=True)
class Outcomes:
    """Records of patches and idempotency keys of a ledger, which its events do not hold."""

    records: tuple[PatchRecord, ...] = ()
    keys: tuple[tuple[str, Remembered], ...] = ()
    """Keys to keep, in the place of earlier ones."""
    dropped: tuple[str, ...] = ()
    """Keys that are no more."""


def append(session: Session, part: LedgerPart) -> None:
    """Keep a part of another ledger. Raises `Conflict` where the log does not end where the part begins."""
    if session.head() != part.after:
        raise Conflict(
            f"The copy no longer ends at event {part.after.seq}: another process wrote to it.",
            hint="Let only one process fill a copy; wait until the other one has finished.",
        )
    run: list[tuple[Write, AuditEvent]] = []
    for entry in part.entries:
        if write := entry.write or _erasure(session, entry.event):
            run.append((write, entry.event))
            continue
        _keep_run(session, run)
        session.keep_event(entry.event)
    _keep_run(session, run)


def keep_outcomes(session: Session, outcomes: Outcomes) -> None:
    """Keep records and idempotency keys of another ledger, in the place of those that are there."""
    if outcomes.records:
        head = session.head()
        first = outcomes.records[0]
        receipt = Receipt(
            patch_id=first.id, sequence=head.seq, committed_at=first.created_at, results=(), head=head.hash
        )
        session.keep(_plan(()), Journal((), outcomes.records, receipt))
    for key in (*outcomes.dropped, *(key for key, _ in outcomes.keys if session.remembered(key))):
        session.forget(key)
    for key, known in outcomes.keys:
        session.remember(key, known)


def _erasure(session: Session, event: AuditEvent) -> Erased | None:
    """Return the erasure that an event records, where the copy holds the object."""
    if event.event_type != "erased" or not session.view.exists(event.target):
        return None
    # The newest revisions may never have come: they were erased at the source before they were read.
    newest = (event.before or {}).get("revision", 0)
    held = (session.view.revision(event.target, number) for number in range(newest, 0, -1))
    return next((Erased(item) for item in held if item), None)


def _keep_run(session: Session, run: list[tuple[Write, AuditEvent]]) -> None:
    """Keep writes that follow one another, and empty the list."""
    if not run:
        return
    writes, events = tuple(write for write, _ in run), tuple(event for _, event in run)
    last = events[-1]
    receipt = Receipt(
        patch_id=last.patch_id, sequence=last.seq, committed_at=last.timestamp, results=(), head=last.hash
    )
    session.keep(_plan(writes), Journal(events, (), receipt, _stored(writes)))
    run.clear()


def _plan(writes: Sequence[Write]) -> Plan:
    return Plan(tuple(writes), (), (), ())


def _stored(writes: Iterable[Write]) -> tuple[str, ...]:
    return tuple(stored_form(write.after) if isinstance(write, Put) else "" for write in writes)


# What an audit log says a ledger must hold: the other way round from `journal`.


_LinkKey = tuple[str, str, str]
LinkRow = tuple[str, str, str, str, int, int | None]
"""A link as a ledger keeps it: type, source, target, the patch that made it, and the sequence numbers of the events
that added and removed it."""


@dataclass(slots=True)
class Account:
    """Revisions, links and decisions that a log records. Each check raises `Corrupt` naming what differs."""

    revisions: dict[tuple[str, int], tuple[int, str]] = field(default_factory=dict)
    """By id and number: the event's sequence number and the content hash."""
    links: set[LinkRow] = field(default_factory=set)
    """The links that were removed; once the log was read, also those that stand."""
    standing: dict[_LinkKey, tuple[str, int]] = field(default_factory=dict)
    """By type, source and target of a link that stands, the patch and the number of the event that added it."""
    statuses: dict[str, str] = field(default_factory=dict)
    """By id of a patch, what was last decided about it; a patch applied directly has no entry."""
    records: dict[str, str] = field(default_factory=dict)
    """By id of a patch, the hash of its record; one of an earlier version, whose events carry none, has no entry."""
    patches: set[str] = field(default_factory=set)
    """Ids of the patches that events name."""

    def check_revision(self, item: Object, seq: int) -> None:
        """Check one stored revision, and the words of its segments."""
        said = self.revisions.get((item.id, item.revision))
        if said != (seq, content_hash(stored_form(item), salt=item.salt)):
            raise _wrong(f"revision {item.revision} of {item.id} does not match the audit log", item.id)
        if isinstance(item, Source):
            for segment in item.segments:
                if segment.hash != segment_hash(segment.excerpt, salt=item.salt):
                    raise _wrong(f"the text of segment {segment.segment_id} of {item.id} was changed", item.id)

    def check_complete(self, found: Iterable[tuple[str, int]]) -> None:
        """Check that no revision is missing. `found`: the id and number of every stored revision."""
        for identity, number in sorted(self.revisions.keys() - set(found)):
            raise _wrong(f"revision {number} of {identity} is missing", identity)

    def check_links(self, found: Iterable[LinkRow]) -> None:
        """Check all links, also those that were removed."""
        for kind, source, target, *_ in sorted(self.links.symmetric_difference(found), key=lambda link: link[:5]):
            raise _wrong(f"the link {source} {kind} {target} does not match the audit log", source)

    def check_patch(self, record: PatchRecord) -> None:
        """Check what became of a patch, and the rest of its record: who made it, why, what it did or proposes."""
        if record.status != self.statuses.get(record.id, "applied"):
            raise _wrong(f"{record.id} is {record.status}, which does not match the audit log", record.id)
        if self.records.get(record.id, record_hash(record)) != record_hash(record):
            raise _wrong(f"the record of {record.id} does not match the audit log", record.id)
        # A patch that changed nothing leaves no event.
        if record.id not in self.patches and (record.effects or record.operations):
            raise _wrong(f"the audit log has no event for {record.id}", record.id)

    def check_patches_complete(self, found: Iterable[str]) -> None:
        """Check that no record of a patch is missing: `found` are the ids of all that are stored."""
        for identity in sorted(self.patches - set(found)):
            raise _wrong(f"the record of {identity} is missing", identity)


def account(events: Iterable[AuditEvent]) -> Account:
    """Read a verified log from its beginning."""
    told = Account()
    erased: set[str] = set()
    for event in events:
        if event.event_type == POLICY_CHANGED:
            continue
        told.patches.add(event.patch_id)
        if event.patch_hash:
            told.records[event.patch_id] = event.patch_hash
        if event.event_type == MERGED:
            continue
        if event.event_type == "erased":
            erased.add(event.target)
        else:
            _tell(event, told)
    # An id is never used again, so what was erased can be left out at the end, all at once.
    told.revisions = {key: value for key, value in told.revisions.items() if key[0] not in erased}
    told.links |= {(*key, patch, added, None) for key, (patch, added) in told.standing.items()}
    told.links = {link for link in told.links if erased.isdisjoint(link[1:3])}
    return told


def _tell(event: AuditEvent, told: Account) -> None:
    after = event.after or {}
    match event.event_type:
        case "linked":
            told.standing[_link_key(after)] = event.patch_id, event.seq
        case "unlinked":
            key = _link_key(event.before or {})
            if added := told.standing.pop(key, None):
                told.links.add((*key, *added, event.seq))
        case _ if kind_of(event.target) == "patch":
            told.statuses[event.target] = str(after["status"])
            if "hash" in after:
                told.records[event.target] = str(after["hash"])
        case _:
            told.revisions[event.target, int(after["revision"])] = (event.seq, str(after["hash"]))


def _link_key(state: dict[str, list[str]]) -> _LinkKey:
    kind, source, target = state["link"]
    return kind, source, target


def _wrong(what: str, identity: str) -> Corrupt:
    return Corrupt(
        f"The ledger does not verify: {what}.",
        hint="Restore the space from a backup or an export made before this.",
        details={"id": identity},
    )
