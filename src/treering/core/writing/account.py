"""Verification of a ledger against its audit log."""

from collections.abc import Iterable
from dataclasses import dataclass, field

from treering.core.audit import ERASED, AuditEvent
from treering.core.canonical import kind_of
from treering.core.errors import Corrupt
from treering.core.evidence import segment_hash
from treering.core.objects import Object, Source, content_hash, stored_form
from treering.core.patch import PatchRecord, record_hash
from treering.core.writing.journal import MERGED, POLICY_CHANGED

_LinkKey = tuple[str, str, str]
LinkRow = tuple[str, str, str, str, int, int | None]
"""A link as stored in a ledger: type, source, target, the patch that created it, and the sequence numbers of the events
that added and removed it."""


@dataclass(slots=True)
class Account:
    """Revisions, links and decisions recorded in a log. Each check raises `Corrupt` naming the difference."""

    revisions: dict[tuple[str, int], tuple[int, str]] = field(default_factory=dict)
    """By id and number: the sequence number of the event and the content hash."""
    links: set[LinkRow] = field(default_factory=set)
    """The removed links; after the log was read, also the current ones."""
    standing: dict[_LinkKey, tuple[str, int]] = field(default_factory=dict)
    """By type, source and target of a current link: the patch and the number of the event that added it."""
    statuses: dict[str, str] = field(default_factory=dict)
    """By id of a patch, the last decision about it; a patch applied directly has no entry."""
    records: dict[str, str] = field(default_factory=dict)
    """By id of a patch, the hash of its record; patches of older versions, whose events contain none, have no entry."""
    patches: set[str] = field(default_factory=set)
    """Ids of the patches in events."""

    def check_revision(self, item: Object, seq: int) -> None:
        """Check a stored revision, and the texts of its segments."""
        expected = self.revisions.get((item.id, item.revision))
        if expected != (seq, content_hash(stored_form(item), salt=item.salt)):
            raise _wrong(f"revision {item.revision} of {item.id} does not match the audit log", item.id)
        if isinstance(item, Source):
            for segment in item.segments:
                if segment.hash != segment_hash(segment.excerpt, salt=item.salt):
                    raise _wrong(f"the text of segment {segment.segment_id} of {item.id} was changed", item.id)

    def check_complete(self, stored: Iterable[tuple[str, int]]) -> None:
        """Check that no revision is missing, given the id and number of every stored revision."""
        for identity, number in sorted(self.revisions.keys() - set(stored)):
            raise _wrong(f"revision {number} of {identity} is missing", identity)

    def check_links(self, stored: Iterable[LinkRow]) -> None:
        """Check all links, including removed ones."""
        for kind, source, target, *_ in sorted(self.links.symmetric_difference(stored), key=lambda link: link[:5]):
            raise _wrong(f"the link {source} {kind} {target} does not match the audit log", source)

    def check_patch(self, record: PatchRecord) -> None:
        """Check the status of a patch and the rest of its record."""
        if record.status != self.statuses.get(record.id, "applied"):
            raise _wrong(f"{record.id} is {record.status}, which does not match the audit log", record.id)
        if self.records.get(record.id, record_hash(record)) != record_hash(record):
            raise _wrong(f"the record of {record.id} does not match the audit log", record.id)
        # A patch that changed nothing leaves no event.
        if record.id not in self.patches and (record.effects or record.operations):
            raise _wrong(f"the audit log has no event for {record.id}", record.id)

    def check_patches_complete(self, stored: Iterable[str]) -> None:
        """Check that no record of a patch is missing, given the ids of all stored records."""
        for identity in sorted(self.patches - set(stored)):
            raise _wrong(f"the record of {identity} is missing", identity)


def account(events: Iterable[AuditEvent]) -> Account:
    """Read a verified log from its beginning."""
    result = Account()
    erased: set[str] = set()
    for event in events:
        if event.event_type == POLICY_CHANGED:
            continue
        result.patches.add(event.patch_id)
        if event.patch_hash:
            result.records[event.patch_id] = event.patch_hash
        if event.event_type == MERGED:
            continue
        if event.event_type == ERASED:
            erased.add(event.target)
        else:
            _add(event, result)
    # Ids are never reused, so erased objects can be removed at the end.
    result.revisions = {key: value for key, value in result.revisions.items() if key[0] not in erased}
    result.links |= {(*key, patch, added, None) for key, (patch, added) in result.standing.items()}
    result.links = {link for link in result.links if erased.isdisjoint(link[1:3])}
    return result


def _add(event: AuditEvent, result: Account) -> None:
    after = event.after or {}
    match event.event_type:
        case "linked":
            result.standing[_link_key(after)] = event.patch_id, event.seq
        case "unlinked":
            key = _link_key(event.before or {})
            if added := result.standing.pop(key, None):
                result.links.add((*key, *added, event.seq))
        case _ if kind_of(event.target) == "patch":
            result.statuses[event.target] = str(after["status"])
            if "hash" in after:
                result.records[event.target] = str(after["hash"])
        case _:
            result.revisions[event.target, int(after["revision"])] = (event.seq, str(after["hash"]))


def _link_key(state: dict[str, list[str]]) -> _LinkKey:
    kind, source, target = state["link"]
    return kind, source, target


def _wrong(problem: str, identity: str) -> Corrupt:
    return Corrupt(
        f"The ledger does not verify: {problem}.",
        hint="Restore the space from a backup or an export made before this.",
        details={"id": identity},
    )
