"""Batches: many items in one durable patch, or one by one if the ledger refuses the patch."""

from collections.abc import Callable, Collection, Iterable, Iterator, Sequence
from contextlib import AbstractContextManager, nullcontext, suppress
from dataclasses import dataclass, field

from treering.core.canonical import canonical_json, digest
from treering.core.cited_lines import lines_in_source, segments_on
from treering.core.errors import Conflict, Denied, InvalidInput, NotFound, TreeringError
from treering.core.evidence import EvidenceRef, Segment, place_in, united
from treering.core.filters import Compare
from treering.core.objects import Knowledge, Source
from treering.core.patch import (
    Author,
    Create,
    Link,
    Operation,
    Patch,
    PatchRecord,
    Receipt,
    RemoveLink,
    Transition,
    Update,
)
from treering.core.policy import CURRENT, is_over, needs_review
from treering.core.versions import HeldContents
from treering.ports.adapter import BranchRead
from treering.ports.ledger import Ledger, Selection
from treering.verbs.crystallize.submission import new_patch
from treering.verbs.engine import Engine, retry_on_conflict
from treering.verbs.ingest.branches import branches_now, read_of
from treering.verbs.ingest.changes import (
    BranchesGone,
    Item,
    SourceChanges,
    SourceGone,
    SourceOnBranch,
    SourceRenamed,
    SourceToWrite,
    origins_of,
)
from treering.verbs.ingest.known import KnownSources
from treering.verbs.ingest.report import ItemResult

_MAX_PROPOSALS = 10_000
_GONE = "gone"
_Mark = tuple[str, str]
"""A proposed change: the id of a source, or origin of a new one, and the new fingerprint or origin."""
_REFUSALS = (Conflict, InvalidInput, NotFound, Denied)


@dataclass(frozen=True, slots=True)
class BatchOutcome:
    """The result of a batch. `patches` are the ids of those applied or proposed."""

    results: tuple[ItemResult, ...]
    patches: tuple[str, ...] = ()
    staled: tuple[str, ...] = ()
    contested: tuple[str, ...] = ()
    sequence: int = 0

    @classmethod
    def joined(cls, parts: Iterable["BatchOutcome"]) -> "BatchOutcome":
        """Combine outcomes."""
        whole = cls(())
        for one in parts:
            whole = cls(
                whole.results + one.results,
                whole.patches + one.patches,
                whole.staled + one.staled,
                whole.contested + one.contested,
                max(whole.sequence, one.sequence),
            )
        return whole


Beside = Callable[[Sequence[ItemResult]], AbstractContextManager[object]]
"""Called with the result of each item of a batch; returns a context held while the batch is committed."""


def nothing_beside(_results: Sequence[ItemResult]) -> AbstractContextManager[object]:
    """Hold nothing."""
    return nullcontext()


@dataclass(slots=True)
class BatchWriter:
    """Writes batches to the ledger on behalf of one author.

    After a conflict with another process, the batch is read and created again. If the ledger refuses a batch, its
    items are written one by one. `Unavailable` and `Corrupt` propagate, because they concern no single item.
    """

    engine: Engine
    scope: str
    author: Author
    known_sources: KnownSources
    reason: str
    dry_run: bool = False
    branches: list[BranchRead] = field(default_factory=list)
    """The branches being read, of the repositories of the items."""
    lost: list[str] = field(default_factory=list)
    """Ids of knowledge that lost its support on a branch being read; other branches may still support it."""
    partly_lost: list[str] = field(default_factory=list)
    """Ids of knowledge that lost evidence on all branches; other evidence may still support it."""
    renamed: dict[str, str] = field(default_factory=dict)
    """By id of a source whose file has another path on a branch now, the id of the source with that path."""

    def write(self, items: Sequence[Item], beside: Beside = nothing_beside) -> BatchOutcome:
        """Write a batch; every item has a result. Items that ask for review are proposed, each in its own patch.

        The lock `beside` is held while the batch is committed in one patch, but not if it is written in several.
        """
        reviewed = [item for item in items if _awaits_review(item)]
        if not reviewed or len(items) == 1:
            return self._write(items, beside)
        others = [item for item in items if not _awaits_review(item)]
        return BatchOutcome.joined(map(self._write, [*([others] if others else []), *([item] for item in reviewed)]))

    def _write(self, items: Sequence[Item], beside: Beside = nothing_beside) -> BatchOutcome:
        try:
            return retry_on_conflict(lambda: self._attempt(items, beside))
        except _REFUSALS as error:
            return self._apart(items, error)

    def _attempt(self, items: Sequence[Item], beside: Beside) -> BatchOutcome:
        try:
            return self._commit(items, beside)
        except Conflict:
            self.known_sources.doubt(origin for item in items for origin in origins_of(item))
            raise

    def _commit(self, items: Sequence[Item], beside: Beside) -> BatchOutcome:
        changes = SourceChanges(
            items,
            known_sources=self.known_sources,
            scope=self.scope,
            clock=self.engine.clock,
            branches=self.branches,
        )
        operations = changes.operations()
        if not operations:
            return BatchOutcome(tuple(changes.results))
        self.lost += changes.lost
        self.partly_lost += changes.partly_lost
        # The items were screened before they were compared with the ledger (`run`).
        patch = new_patch(self.engine, operations, author=self.author, reason=self.reason, redact_secrets=False).value
        if self.dry_run:
            return self._preview(patch, changes.results)
        if any(map(_awaits_review, items)):
            return self._ask(patch, items, changes.results)
        try:
            # The ledger checks the policy itself; checking it first would cost a transaction per batch.
            with beside(changes.results):
                receipt = self.engine.ledger.commit(patch)
        except Denied:
            if not needs_review(patch, self.engine.ledger.policy):
                raise
            return self._propose(patch, items, changes.results)
        self.renamed |= changes.renamed
        self.known_sources.settle(
            origins=[origin for item in items for origin in origins_of(item)],
            nodes=changes.nodes_after(receipt),
            staled=receipt.staled,
        )
        return BatchOutcome(tuple(changes.results), (patch.id,), receipt.staled, receipt.contested, receipt.sequence)

    def _preview(self, patch: Patch, results: Sequence[ItemResult]) -> BatchOutcome:
        """Return the effects of the patch, without the ids of objects that it would create."""
        planned = self.engine.ledger.preview(patch)
        contested = tuple(self.engine.ledger.heads(planned.contested))
        no_id = {"source_id": ""}
        shown = [result.model_copy(update=no_id) if result.outcome == "created" else result for result in results]
        return BatchOutcome(tuple(shown), (), planned.staled, contested)

    def _propose(self, patch: Patch, items: Sequence[Item], results: Sequence[ItemResult]) -> BatchOutcome:
        """Propose a batch, without items that were already proposed."""
        waiting = self._waiting()
        marks = [_mark(item, result) for item, result in zip(items, results, strict=True)]
        if waiting.isdisjoint(marks):
            self.engine.ledger.propose(patch)
            return _proposed(results, patch)
        known = _proposed_before([result for result, mark in zip(results, marks, strict=True) if mark in waiting])
        fresh = [item for item, mark in zip(items, marks, strict=True) if mark not in waiting]
        return BatchOutcome.joined([known, self.write(fresh)]) if fresh else known

    def _waiting(self) -> frozenset[_Mark]:
        proposals = self.engine.ledger.patches(status="proposed", limit=_MAX_PROPOSALS)
        return frozenset(mark for record in proposals for mark in _marks(record, self.scope))

    def _ask(self, patch: Patch, items: Sequence[Item], results: Sequence[ItemResult]) -> BatchOutcome:
        """Propose one item, once: a decision of a reviewer stays in force while the item is unchanged."""
        key = digest(canonical_json([self.scope, *map(_mark, items, results)]))
        record = self.engine.ledger.propose(patch, idempotency_key=f"ingest {key}")
        if record.status != "proposed":
            turned_down = {"outcome": "skipped", "why": "rejected by a reviewer, and unchanged since", "source_id": ""}
            return BatchOutcome(tuple(result.model_copy(update=turned_down) for result in results))
        return _proposed(results, patch) if record.id == patch.id else _proposed_before(results)

    def _apart(self, items: Sequence[Item], error: TreeringError) -> BatchOutcome:
        if len(items) == 1:
            return BatchOutcome((_failed(items[0], error),))
        return BatchOutcome.joined(self.write([item]) for item in items)


def _awaits_review(item: Item) -> bool:
    return isinstance(item, SourceToWrite) and item.draft.awaits_review


def _mark(item: Item, result: ItemResult) -> _Mark:
    match item:
        case SourceToWrite(draft, _):
            return (draft.origin if result.outcome == "created" else result.source_id, draft.fingerprint)
        case SourceRenamed(origin, _):
            return (result.source_id, origin)
        case SourceGone() | BranchesGone():
            return (result.source_id, _GONE)
        case SourceOnBranch(_, fingerprint):
            return (result.source_id, fingerprint)


def _marks(record: PatchRecord, scope: str) -> Iterator[_Mark]:
    for operation in record.operations:
        match operation:
            case Create(object=Source() as source) if source.scope == scope:
                yield source.origin, source.fingerprint
            case Update(id=identity, changes={"fingerprint": str(fingerprint)}):
                yield identity, fingerprint
            case Update(id=identity, changes={"origin": str(origin)}):
                yield identity, origin
            case Transition(id=identity, to="archived"):
                yield identity, _GONE
            case _:
                continue


def _proposed(results: Iterable[ItemResult], patch: Patch) -> BatchOutcome:
    return BatchOutcome(_awaiting(results, "waiting for review"), (patch.id,))


def _proposed_before(results: Iterable[ItemResult]) -> BatchOutcome:
    return BatchOutcome(_awaiting(results, "still waiting for review from an earlier run"))


def _awaiting(results: Iterable[ItemResult], why: str) -> tuple[ItemResult, ...]:
    return tuple(one.model_copy(update={"outcome": "proposed", "why": why}) for one in results)


def _failed(item: Item, error: TreeringError) -> ItemResult:
    why = " ".join(part for part in (error.message, error.hint) if part)
    return ItemResult(origin=origins_of(item)[0], outcome="failed", why=why)


_ONLY_ON = "its evidence existed only on "


def unmerged(names: Iterable[str]) -> str:
    """Return the reason for archiving knowledge with evidence only on deleted branches."""
    return f"{_ONLY_ON}{', '.join(sorted(names))}, which was deleted without a merge"


def archive_unmerged(
    writer: BatchWriter, staled: Sequence[str], names: Collection[str]
) -> tuple[frozenset[str], Receipt | None]:
    """Archive knowledge whose evidence was only ever on deleted branches, with the reason; return its ids.

    If another branch had the lines and lost them, it is stale there.
    """
    items = [item for item in map(writer.engine.ledger.get, staled) if isinstance(item, Knowledge)]
    lost: set[str] = set()
    for item in items:  # derived knowledge follows
        if any(set(ref.lost_on) - set(names) for ref in item.evidence_refs) or not lost.isdisjoint(item.derived_from):
            lost.add(item.id)
    left = [item for item in items if item.id not in lost and not item.is_only_read]
    reason = unmerged(names)
    receipt = _archive_stale(left, reason[0].upper() + reason[1:], writer)
    return frozenset(one.id for one in receipt.results) if receipt else frozenset(), receipt


def archive_unstated(writer: BatchWriter, unstated: Iterable[Knowledge]) -> Receipt | None:
    """Archive stale knowledge that was only read from files, which no longer state it.

    If a file states it again, it becomes a new candidate.
    """
    return _archive_stale(unstated, "Its file no longer states it.", writer)


def _archive_stale(items: Iterable[Knowledge], reason: str, writer: BatchWriter) -> Receipt | None:
    stale = [item for item in items if item.status == "stale"]
    operations = [Transition(id=item.id, expected_revision=item.revision, to="archived") for item in stale]
    return committed(operations, reason, writer, author=writer.author) if operations else None


def return_replaced(
    writer: BatchWriter,
    withdrawn: Iterable[str],
    reason: str = "Its replacement was archived.",
    *,
    for_good: bool = True,
) -> dict[str, Receipt]:
    """Activate knowledge whose lines exist and whose replacements were withdrawn; return the patches by its id.

    Unless they are withdrawn `for_good`, they replace it again when they are current again.
    """
    ledger = writer.engine.ledger
    returned: dict[str, Receipt] = {}
    for item in ledger.heads(one.target for identity in withdrawn for one in _supersedes(identity, ledger)):
        old = ledger.get(item)
        by = [one for one in ledger.links(item) if (one.type, one.target) == ("supersedes", item)]
        heads = ledger.heads(one.source for one in by).values()
        if not isinstance(old, Knowledge) or old.status != "superseded" or old.kind == "summary":
            continue
        if any(head.status in CURRENT["knowledge"] for head in heads):
            continue
        if not (refs := _restored_evidence(old, writer)):
            returned |= return_replaced(
                writer, [item], reason, for_good=for_good
            )  # it replaced knowledge that may have its lines
            continue
        stale = Transition(id=item, expected_revision=old.revision, to="stale")
        unlinked = [RemoveLink(link=one) for one in by if for_good]
        if receipt := committed([*unlinked, stale, *_activation(old, refs)], reason, writer):
            returned[item] = receipt
    return returned


def _supersedes(identity: str, ledger: Ledger) -> list[Link]:
    return [one for one in ledger.links(identity) if (one.type, one.source) == ("supersedes", identity)]


def reactivate(writer: BatchWriter, read: Collection[str]) -> dict[str, Receipt]:
    """Reactivate knowledge whose cited lines are back in the sources just read; return the patches by its id.

    It is stale, or was archived with a deleted branch (`archive_unmerged`). The author is the caller of the ingest,
    because files may only propose. If the caller may not activate knowledge either, or a person has changed it since,
    its status stays.
    """
    engine, now = writer.engine, writer.engine.clock.now()
    where = Compare("status", "in", ("stale", "archived"))
    selection = Selection(scope=writer.scope, descend=True, types=("knowledge",), where=where)
    items = [item for item in engine.ledger.select(selection) if isinstance(item, Knowledge)]
    sources = {*read, *writer.renamed}
    candidates = [
        item
        for item in items
        if not is_over(item, now=now)
        and item.kind != "summary"
        and (item.status == "stale" or item.derived_from or any(r.source_id in sources for r in item.evidence_refs))
    ]
    again: dict[str, Receipt] = {}
    known = -1
    while known < len(again):  # derived knowledge follows
        known = len(again)
        for item in candidates:
            refs = _restored_evidence(item, writer)
            refs = refs if any(ref.source_id in read for ref in refs) else ()
            follows = not again.keys().isdisjoint(item.derived_from)
            if item.id in again or not (refs or follows) or not _was_staled_by_cascade(item, engine.ledger):
                continue
            if item.status == "archived" and _is_recorded_again(item, engine.ledger):
                continue
            if receipt := _reactivated(item, refs, writer):
                again[item.id] = receipt
    return again


def _is_recorded_again(item: Knowledge, ledger: Ledger) -> bool:
    """Return whether current knowledge has the same content."""
    where = Compare("status", "in", tuple(CURRENT["knowledge"]))
    others = ledger.select(Selection(scope=item.scope, types=("knowledge",), where=where))
    return any(isinstance(one, Knowledge) and one.duplicate_key() == item.duplicate_key() for one in others)


def _restored_evidence(item: Knowledge, writer: BatchWriter) -> tuple[EvidenceRef, ...]:
    """Return the evidence if all of its lines exist now, except those lost on branches; else nothing."""
    restored = {ref: _restored_refs(ref, writer) for ref in item.evidence_refs}
    if not any(restored.values()) or not all(refs or ref.lost_on for ref, refs in restored.items()):
        return ()
    return united(one for ref, refs in restored.items() for one in refs or [ref])


def _restored_refs(ref: EvidenceRef, writer: BatchWriter) -> Sequence[EvidenceRef]:
    """Return references to the current places of cited lines, also of lines whose surroundings changed."""
    ledger = writer.engine.ledger
    with suppress(NotFound):
        source, cited = ledger.get(ref.source_id), ledger.segment(ref.source_id, ref.segment_id)
        if isinstance(source, Source) and source.status != "active":
            known = writer.known_sources.source(source.origin)
            source = ledger.get(known.id) if known else source
        renamed = writer.renamed.get(ref.source_id)
        for one in (source, ledger.get(renamed) if renamed else None):
            if isinstance(one, Source) and one.status == "active":
                refs = _refs_in(one, ref, cited, read_of(one.origin, writer.branches))
                if refs:
                    return refs
    return ()


def _refs_in(source: Source, ref: EvidenceRef, cited: Segment, read: BranchRead | None) -> Sequence[EvidenceRef]:
    """Return references to cited lines in a source, with the branches that lost them and do not have them back.

    If these are unknown for lines that moved, they are all branches without the lines.
    """
    held = HeldContents.parse(source.fingerprint)
    parts = {one.segment_id: one for one in source.segments}
    refs, lost_on = [ref], ref.lost_on
    if source.id != ref.source_id or ref.segment_id not in parts:
        candidates = (
            lines_in_source(ref, cited, source.id, segments_on(source.segments, one)) for one in held.fingerprints
        )
        refs = next(filter(None, candidates), [])
        lost_on = ref.lost_on or (branches_now(read) if read else ())

    def still_lost(segment: Segment) -> tuple[str, ...]:
        return tuple(name for name in lost_on if not segment.place_in_contents(held.on(name)))

    return [one.model_copy(update={"lost_on": still_lost(parts[one.segment_id])}) for one in refs]


def _was_staled_by_cascade(item: Knowledge, ledger: Ledger) -> bool:
    """Return whether the last change of once active knowledge was the loss of its support or of its replacement.

    It may have been archived afterwards with a deleted branch. Claims that were contested by others are contested again
    when they are active. Disputes are left to people.
    """
    events = ledger.events_of(item.id)
    is_unmerged = item.status == "archived" and events[-1].reason.lower().startswith(_ONLY_ON)
    last = events[-2] if is_unmerged else events[-1]
    before = (last.before or {}).get("status")
    was_active = before in ("active", "superseded") or (before == "contested" and item.was_active and not item.disputed)
    return last.event_type == "staled" and was_active


def _reactivated(item: Knowledge, refs: tuple[EvidenceRef, ...], writer: BatchWriter) -> Receipt | None:
    engine = writer.engine
    reason = "The knowledge it was derived from is current again."
    if refs:
        segment = engine.ledger.segment(refs[0].source_id, refs[0].segment_id)
        origin = engine.ledger.heads([refs[0].source_id])[refs[0].source_id].origin
        reason = f"Its evidence is valid again: {place_in(segment.locator, origin)}."
    return committed(_activation(item, refs), reason, writer)


def _activation(item: Knowledge, refs: tuple[EvidenceRef, ...]) -> list[Operation]:
    """Return the operations that activate stale knowledge with this evidence, by default the evidence it has."""
    moved = refs and refs != item.evidence_refs
    update = [Update(id=item.id, expected_revision=item.revision, changes={"evidence_refs": refs})] if moved else []
    return [*update, Transition(id=item.id, expected_revision=item.revision, to="active")]


def committed(
    operations: Sequence[Operation], reason: str, writer: BatchWriter, *, author: Author | None = None
) -> Receipt | None:
    """Commit operations, by default as the caller of the ingest; propose them if the policy requires review.

    `None` if they were proposed, denied, or in conflict with another writer.
    """
    engine = writer.engine
    patch = new_patch(engine, operations, author=author or engine.author, reason=reason).value
    with suppress(Denied, Conflict):
        return commit_or_propose(patch, engine.ledger)
    return None


def commit_or_propose(patch: Patch, ledger: Ledger) -> Receipt | None:
    """Commit a patch; if the policy asks for review, propose it instead, the same operations only once."""
    if not needs_review(patch, ledger.policy):
        return ledger.commit(patch)
    operations = [one.model_dump(mode="json") for one in patch.operations]
    ledger.propose(patch, idempotency_key=f"ties {digest(canonical_json(operations))}")
    return None
