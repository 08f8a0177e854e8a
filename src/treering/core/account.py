"""What an audit log says a ledger must hold: the other way round from `journal`."""

from collections.abc import Iterable
from dataclasses import dataclass, field

from treering.core.audit import AuditEvent
from treering.core.errors import Corrupt
from treering.core.evidence import segment_hash
from treering.core.ids import kind_of
from treering.core.objects import Object, Source, content_hash, stored_form
from treering.core.patch import PatchRecord, record_hash
from treering.core.policy_log import POLICY_CHANGED

_LinkKey = tuple[str, str, str]
LinkRow = tuple[str, str, str, str, int, int | None]
"""A link as a ledger keeps it: type, source, target, the patch that made it, and the sequence numbers of the events
that added and removed it."""


@dataclass(slots=True)
class Account:
    """Revisions, links and decisions that a log tells of. Each check raises `Corrupt` naming what differs."""

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
            raise _wrong(f"revision {item.revision} of {item.id} is not what the audit log says", item.id)
        if isinstance(item, Source):
            for segment in item.segments:
                if segment.hash != segment_hash(segment.excerpt, salt=item.salt):
                    raise _wrong(f"the text of segment {segment.segment_id} of {item.id} was changed", item.id)

    def check_complete(self, found: Iterable[tuple[str, int]]) -> None:
        """Check that no revision is missing: `found` are the ids and numbers of all that are stored."""
        for identity, number in sorted(self.revisions.keys() - set(found)):
            raise _wrong(f"revision {number} of {identity} is missing", identity)

    def check_links(self, found: Iterable[LinkRow]) -> None:
        """Check all links, also those that were removed."""
        for kind, source, target, *_ in sorted(self.links.symmetric_difference(found), key=lambda link: link[:5]):
            raise _wrong(f"the link {source} {kind} {target} is not what the audit log says", source)

    def check_patch(self, record: PatchRecord) -> None:
        """Check what became of a patch, and the rest of its record: who made it, why, what it did or proposes."""
        if record.status != self.statuses.get(record.id, "applied"):
            raise _wrong(f"{record.id} is {record.status}, which is not what the audit log says", record.id)
        if self.records.get(record.id, record_hash(record)) != record_hash(record):
            raise _wrong(f"the record of {record.id} is not what the audit log says", record.id)
        # A patch that changed nothing leaves no event.
        if record.id not in self.patches and (record.effects or record.operations):
            raise _wrong(f"no event of the audit log tells of {record.id}", record.id)

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
