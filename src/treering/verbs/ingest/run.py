"""A run of ingest: write readings in batches, and account for every item."""

from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from copy import deepcopy
from dataclasses import dataclass, field, replace
from datetime import datetime, timedelta
from typing import Any

from treering.core.characters import named
from treering.core.errors import Corrupt, TreeringError, Unavailable
from treering.core.objects import Knowledge, Source
from treering.core.patch import Receipt
from treering.core.policy import CURRENT
from treering.core.screening import Screened, screened
from treering.core.versions import SEVERAL, TreeView, known_branches
from treering.ports.adapter import (
    BranchRead,
    Failed,
    Reading,
    Renamed,
    RootRead,
    Skipped,
    SourceDraft,
    Unchanged,
    Vanished,
)
from treering.ports.ledger import Head, SourceState
from treering.ports.runtime import JobsInCommits, fresh_id
from treering.verbs.engine import Engine
from treering.verbs.envelope import bounded
from treering.verbs.index_warnings import lag_seen
from treering.verbs.ingest.batch import (
    BatchOutcome,
    BatchWriter,
    archive_unmerged,
    archive_unstated,
    reactivate,
    return_replaced,
    unmerged,
)
from treering.verbs.ingest.branches import branches_gone, contents_here, leading_after, read_of, versions_without
from treering.verbs.ingest.changes import (
    BranchesGone,
    Item,
    SourceGone,
    SourceOnBranch,
    SourceRenamed,
    SourceToWrite,
    origins_of,
)
from treering.verbs.ingest.erased import ErasedPart, ErasedTexts, forget
from treering.verbs.ingest.inline_items import recalled_warning
from treering.verbs.ingest.node_links import link_nodes_to_sources
from treering.verbs.ingest.renames import drop_unmerged, follow_renames
from treering.verbs.ingest.report import (
    IngestReport,
    ItemResult,
    JobRow,
    JobState,
    Outcome,
    first_by_outcome,
    is_redaction,
    is_routine,
    overall_outcome,
)
from treering.verbs.ingest.segments import with_short_names, without_recalled_segments
from treering.verbs.trees import CHANGED, AskedTree, notes_of_objects

_IDENTITY = ("origin", "fingerprint", "warnings")
_BATCH_ITEMS = 256
_BATCH_CHARS = 2_000_000
_BATCH_AGE = timedelta(seconds=1)
_SAVE_EVERY = timedelta(seconds=2)
_SHOW_EVERY = 50
_SHOWN_WHILE_RUNNING = 200
_WARNINGS = 50


@dataclass(frozen=True, slots=True)
class Task:
    """The task of a run: its mode, displayed target, and number of items (`None` if unknown)."""

    mode: str
    target: str
    total: int | None = None
    redact_secrets: bool = True
    again: bool = False
    """Whether to also read erased content again."""


@dataclass(slots=True)
class IngestTally:
    """The results so far. `items` excludes unchanged ones."""

    counts: Counter[Outcome] = field(default_factory=Counter)
    items: list[ItemResult] = field(default_factory=list)
    warnings: list[str] = field(default_factory=list)
    patches: list[str] = field(default_factory=list)
    staled: list[str] = field(default_factory=list)
    contested: list[str] = field(default_factory=list)
    sequence: int = 0
    summarized: Counter[str] = field(default_factory=Counter)
    redacted: int = 0

    def add(self, *results: ItemResult) -> None:
        """Count results."""
        self.counts.update(result.outcome for result in results)
        self.items += [result for result in results if result.outcome != "unchanged"]

    def add_written(self, written: BatchOutcome) -> None:
        """Count the results of a batch."""
        self.add(*written.results)
        self.warnings += [f"{one.origin}: {one.why}" for one in written.results if one.outcome == "updated" and one.why]
        self.patches += written.patches
        self.staled += written.staled
        self.contested += written.contested
        self.sequence = max(self.sequence, written.sequence)

    def with_results(self, results: Sequence[ItemResult]) -> "IngestTally":
        """Return the expected tally after a batch is written."""
        later = deepcopy(self)
        later.add_written(BatchOutcome(tuple(results)))
        return later


class Run:
    """Takes readings one by one, writes them in batches, and updates the job log.

    If nothing changed, no patch and no job is written.
    """

    def __init__(self, task: Task, engine: Engine, writer: BatchWriter) -> None:
        self.account: IngestTally = IngestTally()
        self._task = task
        self._engine = engine
        self._writer = writer
        self._known_sources = writer.known_sources
        self._batch: list[Item] = []
        self._origins: set[str] = set()
        self._chars = 0
        self._moves: dict[str, str] = {}
        self._renames: dict[str, list[str]] = {}
        self._surveyed: RootRead | None = None
        self._erased = ErasedTexts.of(engine, writer.scope, again=self._task.again)
        self._started_at = self._batch_at = self._saved_at = engine.clock.now()
        self._job = ""
        self._stored_job: JobRow | None = None
        """The job as stored with the last batch."""

    def read(self, readings: Iterable[Sequence[Reading]]) -> None:
        """Take all readings, in the portions in which they become available.

        Errors of reading and of the ledger propagate; committed batches remain.
        """
        state: JobState = "interrupted"
        number = 0
        try:
            for reading in self._each(readings):
                self._take(reading)
                number += not isinstance(reading, RootRead | BranchRead)  # these are no items
                if number % _SHOW_EVERY == 0:
                    self._show(number)
            for origin, earlier in self._renames.items():
                self._put(SourceRenamed(origin, tuple(earlier)))
            for origin in self._moves.values():
                self._archive(origin)
            gone = [(read, names) for read in self._writer.branches if (names := branches_gone(read))]
            self._flush(ends=self._surveyed is None and not gone)
            self._account_for(*follow_renames(self._writer))
            for read, names in gone:
                if merged := names & read.merged:
                    self._remove_branches(read, merged, frozenset())
                if unmerged_names := names - merged:
                    self._remove_branches(read, names, unmerged_names)
            self._return_undone()
            self._reactivate()
            self._archive_unstated()
            self._note_lost()
            self._note_partly_lost()
            self._link_nodes()
            self._note_erased()
            self._show(number)
            state = "done"
        finally:
            self._close(state)

    def report(self, *, max_items: int) -> IngestReport:
        """Return the report."""
        account = self.account
        items = first_by_outcome(account.items, max_items)
        touched = [self._job, *account.patches, *(item.source_id for item in items)]
        drifted = self._engine.ledger.heads([*account.staled, *account.contested])
        return IngestReport(
            mode=self._task.mode,
            scope=self._writer.scope,
            status=overall_outcome(account.counts),
            warnings=bounded(sorted(account.warnings, key=is_routine), _WARNINGS),
            ids=tuple(dict.fromkeys(filter(None, [*touched, *account.staled, *account.contested]))),
            counts=dict(account.counts),
            items=items,
            items_left_out=len(account.items) - len(items),
            staled=tuple(account.staled),
            contested=tuple(account.contested),
            titles={identity: head.title for identity, head in drifted.items()},
            job=self._job,
            sequence=account.sequence or self._engine.ledger.sequence(),
            pending_vectors=lag_seen(self._engine, self._engine.index.vectors.lag()).pending,
            dry_run=self._writer.dry_run,
            summarized=dict(account.summarized),
            redacted=account.redacted,
        )

    def _each(self, readings: Iterable[Sequence[Reading]]) -> Iterator[Reading]:
        for some in readings:
            self._known_sources.look_up([one.origin for one in some if isinstance(one, SourceDraft)])
            yield from some

    def _take(self, reading: Reading) -> None:
        match reading:
            case SourceDraft():
                self._take_draft(reading)
            case Renamed(before, origin):
                self._renames.setdefault(origin, []).append(before)
            case Unchanged(origin, fingerprint, warnings):
                self.account.warnings += [f"{origin}: {warning}" for warning in warnings]
                self._mark_unchanged(origin, fingerprint)
            case BranchRead():
                self._writer.branches.append(reading)
            case Vanished(origin, moved_to, was_committed):
                self._remove(origin, moved_to if was_committed else self._former_origin(origin))
            case Skipped(origin, why):
                self.account.add(ItemResult(origin=origin, outcome="skipped", why=self._with_past(origin, why)))
            case RootRead():
                self._surveyed = reading
            case Failed(origin, why):
                self.account.add(ItemResult(origin=origin, outcome="failed", why=self._with_past(origin, why)))

    def _take_draft(self, draft: SourceDraft) -> None:
        if draft.origin in self._origins:
            self._flush()
        # Erased texts were stored without secrets, so they are compared without secrets.
        clean = self._cleaned(draft) if self._erased.marks else None
        left, left_out = self._erased.without(clean.value) if clean else (draft, ErasedPart())
        if self._task.again:
            left_out = ErasedPart()
        elif left_out.passages:
            draft = left
        if left_out.whole:
            why = self._with_past(draft.origin, left_out.reason())
            self.account.add(ItemResult(origin=draft.origin, outcome="skipped", why=why))
            return
        state = self._known_sources.source(draft.origin)
        earlier = (*self._renames.pop(draft.origin, ()), *filter(None, [self._moves.pop(draft.origin, "")]))
        here = self._contents_here(draft.origin, state) if state else None
        if state and here == draft.fingerprint and not earlier:
            self.account.add(ItemResult(origin=draft.origin, outcome="unchanged", source_id=state.id))
            return
        clean = clean or self._cleaned(draft)
        draft, recalled = without_recalled_segments(with_short_names(draft if left_out.passages else clean.value))
        warnings = [*draft.warnings, *clean.warnings, *([recalled_warning(recalled)] if recalled else [])]
        warnings += [left_out.reason()] if left_out.date else []
        self.account.warnings += [f"{draft.origin}: {warning}" for warning in warnings]
        self.account.redacted += sum(map(is_redaction, warnings))
        if state is None and (why := _summarized(draft)):
            self.account.summarized[why] += 1
        self._put(SourceToWrite(draft, earlier))

    def _cleaned(self, draft: SourceDraft) -> Screened[SourceDraft]:
        return _without_secrets(draft) if self._task.redact_secrets else Screened(draft)

    def _mark_unchanged(self, origin: str, fingerprint: str) -> None:
        state = self._known_sources.source(origin)
        if origin in self._renames:
            self._put(SourceRenamed(origin, tuple(self._renames.pop(origin))))
        elif fingerprint and state and self._contents_here(origin, state) != fingerprint:
            self._put(SourceOnBranch(origin, fingerprint))
        else:
            self.account.counts["unchanged"] += 1

    def _contents_here(self, origin: str, state: SourceState) -> str | None:
        """Return the stored contents of a source on the branch being read, or `None`."""
        if not state.fingerprint.startswith(SEVERAL):
            return state.fingerprint
        return contents_here(state.fingerprint, read_of(origin, self._writer.branches))

    def _remove(self, origin: str, moved_to: str | None) -> None:
        earlier = self._renames.pop(origin, [])
        if moved_to is not None:
            self._moves[moved_to] = origin
            if earlier:
                self._renames.setdefault(moved_to, []).extend(earlier)
            return
        for name in (origin, *earlier):
            self._archive(name)

    def _former_origin(self, origin: str) -> str | None:
        """Return the origin that a file had before it was renamed; the rename may have been undone."""
        state = self._known_sources.source(origin)
        if state is None or state.revision == 1:
            return None
        before = (one.origin for one in self._engine.ledger.history(state.id) if isinstance(one, Source))
        former = next((one for one in reversed([*before]) if one != origin), None)
        return former if former not in self._moves else None

    def _archive(self, origin: str) -> None:
        if self._known_sources.source(origin):
            self._put(SourceGone(origin))

    def _put(self, item: Item) -> None:
        now = self._engine.clock.now()
        if not self._batch:
            self._batch_at = now
        self._batch.append(item)
        self._origins.update(origins_of(item))
        if isinstance(item, SourceToWrite):
            self._chars += sum(len(segment.text) for segment in item.draft.segments)
        old = now - self._batch_at >= _BATCH_AGE
        if old or len(self._batch) >= _BATCH_ITEMS or self._chars >= _BATCH_CHARS:
            self._flush()

    def _flush(self, *, ends: bool = False) -> None:
        """Write the batch. If the run `ends` with it, the job is saved once, in the same transaction if possible."""
        if self._batch:
            written = self._writer.write(self._batch, self._job_beside) if ends else self._writer.write(self._batch)
            if isinstance(self._batch[0], BranchesGone):  # its files were counted when they were read
                results = tuple(one for one in written.results if one.outcome != "updated")
                written = replace(written, results=results)
            self.account.add_written(written)
            self._batch, self._origins, self._chars = [], set(), 0
            if not ends:
                self._save_now_and_then()

    def _remove_branches(self, read: BranchRead, names: frozenset[str], lost: frozenset[str]) -> None:
        """Remove deleted branches, and archive knowledge whose evidence was only on the `lost` ones of them."""
        before, read_before = len(self.account.staled), len(self.account.items)
        for origin, state in self._known_sources.below(read.root).items():
            if origin == read.root or versions_without(state.fingerprint, read, names).text != state.fingerprint:
                self._put(BranchesGone(origin, names))
        self._flush()
        removed = {one.source_id for one in self.account.items[read_before:] if one.outcome == "removed"}
        if not self._writer.dry_run:
            self._account_for(*drop_unmerged(self._writer, removed))
        left = self.account.staled[before:]
        if left and lost and not self._writer.dry_run:
            archived, receipt = archive_unmerged(self._writer, left, lost)
            self.account.staled[before:] = [
                identity for identity in left if identity not in archived and not self._was_lost(identity, read)
            ]
            self._account_for(receipt)
            self.account.warnings += [f"{len(archived)} archived: {unmerged(lost)}."] if archived else []
            returned = return_replaced(self._writer, archived)
            self._note_active(returned, "active again because what replaced it was archived")

    def _return_undone(self) -> None:
        """Reactivate knowledge whose replacement became stale because its branch went back to earlier commits."""
        undone = [] if self._writer.dry_run else [one for one in self.account.staled if self._is_undone(one)]
        returned = return_replaced(
            self._writer, undone, "The commits with its replacement were undone.", for_good=False
        )
        self._note_active(returned, "active again because the commits with what replaced it were undone")

    def _is_undone(self, identity: str) -> bool:
        """Return whether the cited files are again as they were before the branch left its last reading.

        After an amended commit they are not.
        """
        item = self._engine.ledger.get(identity)
        refs = item.evidence_refs if isinstance(item, Knowledge) else ()
        heads = self._engine.ledger.heads({ref.source_id for ref in refs if ref.role == "supports"})
        return bool(heads) and all(map(self._is_as_at_fork, heads.values()))

    def _is_as_at_fork(self, head: Head) -> bool:
        read = read_of(head.origin, self._writer.branches)
        if read is None or read.fork is None or read.branch not in known_branches(read.known):
            return False
        contents = contents_here(head.fingerprint, read) if head.status == "active" else None
        return contents == read.fork.get(head.origin)

    def _was_lost(self, identity: str, read: BranchRead) -> bool:
        """Return whether an earlier reading reported that the branch being read lost the lines of knowledge."""
        item = self._engine.ledger.get(identity)
        refs = item.evidence_refs if isinstance(item, Knowledge) else ()
        return identity not in self._writer.lost and any(read.branch in ref.lost_on for ref in refs)

    def _account_for(self, *receipts: Receipt | None) -> None:
        """Count patches that were committed after the batches."""
        for one in filter(None, receipts):
            self.account.patches.append(one.patch_id)
            self.account.sequence = max(self.account.sequence, one.sequence)

    def _note_active(self, again: Mapping[str, Receipt], why: str) -> None:
        """Count the patches that activated knowledge, given by its id, and report it."""
        self._account_for(*again.values())
        self.account.warnings += [f"{len(again)} {why}: {', '.join(again)}."] if again else []

    def _reactivate(self) -> None:
        """Reactivate stale knowledge whose evidence is back after this reading."""
        read = {item.source_id for item in self.account.items if item.source_id}
        if not read or self._writer.dry_run:
            return
        again = reactivate(self._writer, read)
        self.account.staled = [identity for identity in self.account.staled if identity not in again]
        self.account.contested += [identity for receipt in again.values() for identity in receipt.contested]
        self._note_active(again, "reactivated because the quoted lines are back")

    def _archive_unstated(self) -> None:
        """Archive knowledge that only files stated and that they no longer state, without reporting it as stale."""
        read = self._only_read(self.account.staled)
        self.account.staled = [one for one in self.account.staled if one not in read]
        if not self._writer.dry_run:
            self._account_for(archive_unstated(self._writer, read.values()))

    def _only_read(self, identities: Iterable[str]) -> dict[str, Knowledge]:
        """Return, by id, the knowledge among objects that was only read from files."""
        items = map(self._engine.ledger.get, identities)
        return {item.id: item for item in items if isinstance(item, Knowledge) and item.is_only_read}

    def _note_lost(self) -> None:
        """Count knowledge as stale that other branches still support, but the branch just read no longer does."""
        lost = [identity for identity in dict.fromkeys(self._writer.lost) if identity not in self.account.staled]
        for read in self._writer.branches if lost else ():
            view = TreeView(read.root, read.branch, read.branch, leading=leading_after(read))
            ledger = self._engine.ledger
            live = {one: head for one, head in ledger.heads(lost).items() if head.status in CURRENT["knowledge"]}
            notes = notes_of_objects(AskedTree(view), ledger, live.values())
            gone = [one for one in live if notes.get(one, "").startswith(CHANGED) or self._writer.dry_run]
            only_read = self._only_read(gone)
            self.account.staled += [one for one in gone if one not in only_read]

    def _note_partly_lost(self) -> None:
        """Warn about knowledge that lost part of its evidence and is still current."""
        if not self._writer.partly_lost:
            return
        heads = self._engine.ledger.heads(dict.fromkeys(self._writer.partly_lost))
        for identity, head in heads.items():
            is_current = head.status in CURRENT["knowledge"] and identity not in self.account.staled
            if is_current and not self._only_read([identity]):
                self.account.warnings.append(f"Part of the evidence for {named(head.title)} changed. See lint.")

    def _link_nodes(self) -> None:
        """Update the links of nodes after everything was written; a dry run has written nothing to link."""
        if self._surveyed and not self._writer.dry_run:
            self._account_for(*link_nodes_to_sources(self._writer, self._surveyed, patches=self.account.patches))

    def _note_erased(self) -> None:
        """Delete the marks of texts that were requested again, and warn about marks that cannot be checked here."""
        if self._task.again and not self._writer.dry_run:
            forget(self._engine, self._erased)
        if self._erased.elsewhere and self.account.patches:
            self.account.warnings.append(
                "Content erased from this space with another key (`erasure.key` of another data folder) is "
                "not recognised when it is read again."
            )

    def _with_past(self, origin: str, why: str) -> str:
        return f"{why}; the version read before is unchanged" if self._known_sources.source(origin) else why

    def _show(self, done: int) -> None:
        self._engine.progress(f"Reading {self._task.target}", done, self._task.total)
        if self._engine.job:
            self._save_now_and_then()

    def _close(self, state: JobState) -> None:
        # A ledger that cannot be written has already raised an error, which must not be hidden.
        with suppress(Unavailable, Corrupt):
            if self._is_worth_a_job():
                row = self._row(state, self._engine.clock.now(), self.account)
                if not self._stored_job or row != self._stored_job.model_copy(update={"updated_at": row.updated_at}):
                    self._save(row)

    @contextmanager
    def _job_beside(self, results: Sequence[ItemResult]) -> Iterator[None]:
        """Save the finished job in the transaction of the last batch, because another one would cost as much again."""
        jobs = self._engine.jobs
        if not isinstance(jobs, JobsInCommits):
            yield
            return
        before = self._job
        row = self._row("done", self._engine.clock.now(), self.account.with_results(results))
        with jobs.kept_in_commit(row.id, row.model_dump(mode="json")) as is_stored:
            try:
                yield
            except TreeringError:
                self._job = before
                raise
            if is_stored():
                self._stored_job, self._saved_at = row, row.updated_at

    def _save_now_and_then(self) -> None:
        now = self._engine.clock.now()
        if self._is_worth_a_job() and (not self._job or now - self._saved_at >= _SAVE_EVERY):
            shown = first_by_outcome(self.account.items, _SHOWN_WHILE_RUNNING)
            self._save(self._row("running", now, replace(self.account, items=[*shown])))

    def _is_worth_a_job(self) -> bool:
        happened = bool(self._engine.job or self.account.patches or self.account.counts["failed"])
        return happened and not self._writer.dry_run

    def _row(self, state: JobState, now: datetime, account: IngestTally) -> JobRow:
        self._job = self._job or self._engine.job or fresh_id("job", self._engine.clock)
        return JobRow(
            id=self._job,
            mode=self._task.mode,
            scope=self._writer.scope,
            target=self._task.target,
            state=state,
            started_at=self._started_at,
            updated_at=now,
            done=account.counts.total(),
            total=self._task.total,
            counts=dict(account.counts),
            items=tuple(account.items),
            staled=tuple(account.staled),
            warnings=tuple(account.warnings),
        )

    def _save(self, row: JobRow) -> None:
        self._stored_job, self._saved_at = None, row.updated_at
        self._engine.jobs.save(row.id, row.model_dump(mode="json"))


def _summarized(draft: SourceDraft) -> str:
    """Return why only a summary of a file is indexed, such as `lock file`; empty if it is indexed completely."""
    return "binary" if draft.content_type == "binary_stub" else str(draft.metadata.get("generated", ""))


def _without_secrets(draft: SourceDraft) -> Screened[SourceDraft]:
    """Redact the secrets in a draft, in case the adapter did not.

    The origin is the adapter's name of the item, by which it is found again, so it is not changed. Segments that were
    already screened are not screened again.
    """
    if draft.screened:
        return Screened(draft)
    apart = (*_IDENTITY, "segments") if draft.cleaned else _IDENTITY
    unchanged: dict[str, Any] = {name: getattr(draft, name) for name in apart}
    nothing: dict[str, Any] = dict.fromkeys(unchanged, ())
    result = screened(replace(draft, **{**nothing, "origin": "", "fingerprint": ""}))
    return Screened(replace(result.value, **unchanged), result.secrets) if result.secrets else Screened(draft)
