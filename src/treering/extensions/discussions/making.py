"""Making memories of messages, chunk by chunk and by one process at a time."""

from dataclasses import dataclass, field, replace

from treering.core.errors import Conflict, NotFound, TreeringError
from treering.extensions.discussions.generators.generator import DiscussionSettings, Generator
from treering.extensions.discussions.identity import DiscussionRef, apply_patch
from treering.extensions.discussions.log.blocks import Block, BlockHead, ChunkState, active_block
from treering.extensions.discussions.summaries.chunks import LONGEST_WAIT, ChunkMaker, due_chunks
from treering.extensions.discussions.summaries.condensing import Condenser, FinishedBlocks, archive_stale_memories
from treering.extensions.discussions.summaries.keepers import SummaryKeeper, TextKeeper
from treering.extensions.discussions.summaries.state import StateKeeper
from treering.extensions.encoder.language_model import Usage
from treering.verbs.engine import Engine
from treering.verbs.leases import Lease, held

_STAGE = "making memories"
_OWNER_BYTES = 8
_MAX_CONSECUTIVE_FAILURES = 5
"""A run ends after this many chunks failed in succession: a wrong key need not be rejected a thousand times."""
_UNFINISHED = frozenset({"pending", "failed"})
_NOT_MERGED = "the new state document was empty or less than half as long as the old one"
_NOT_FOLDED = "the new summary was empty"


@dataclass(frozen=True, slots=True)
class MakingReport:
    """The result for the chunks that were due: with memories, without any, or failed and to be retried.

    `waiting` chunks failed before, and their retry is not due yet. `condensed` counts the new condensations.
    `rejected` are unusable parts of answers, `errors` the failures. `summary_version` and `state_version` are the ids
    of new versions.
    """

    done: int = 0
    empty: int = 0
    failed: int = 0
    waiting: int = 0
    condensed: int = 0
    busy: bool = False
    """Whether another process is making memories, so that nothing, or not everything, was done here."""
    rejected: tuple[str, ...] = ()
    errors: tuple[str, ...] = ()
    usage: Usage = field(default_factory=Usage)
    """The usage that the generator reported; a failed call reports none."""
    summary_version: str | None = None
    state_version: str | None = None

    @property
    def processed(self) -> int:
        """The number of chunks that were tried."""
        return self.done + self.empty + self.failed


@dataclass(frozen=True, slots=True)
class MemoryMaker:
    """Makes the memories of one discussion, its state document, its rolling summary and its condensations."""

    engine: Engine
    ref: DiscussionRef
    settings: DiscussionSettings
    generator: Generator

    def make(self, *, wait_seconds: float = 0.0, most: int | None = None) -> MakingReport:
        """Make the memories that are due, of at most `most` chunks, and update everything derived from them.

        The memories of a chunk are written with its state in one patch, so that they are neither lost nor made twice.
        A chunk that fails is stored as failed, and the others continue. If another process is making memories, wait up
        to `wait_seconds` for it, and then do the rest. Raises `Denied` if the space requires a review, and the errors
        of the ledger; failures of the generator are in the report.
        """
        owner = self.engine.clock.random_bytes(_OWNER_BYTES).hex()
        name, seconds = f"discussion:{self.ref.scope}", self.settings.lease_seconds
        with held(self.engine.leases, name, owner, seconds, wait_seconds=wait_seconds) as lease:
            return _MakingRun(self, lease).run(most) if lease else MakingReport(busy=True)


class _MakingRun:
    """One run under the lease. Nothing is written after the lease is lost."""

    def __init__(self, maker: MemoryMaker, lease: Lease) -> None:
        engine, ref, settings, generator = maker.engine, maker.ref, maker.settings, maker.generator
        self._engine = engine
        self._ref = ref
        self._settings = settings
        self._lease = lease
        self._now = engine.clock.now()
        archive_stale_memories(engine, ref)
        self._finished = FinishedBlocks(engine, ref)
        self._chunks = ChunkMaker(engine, ref, settings=settings, generator=generator)
        self._state = StateKeeper(engine, ref, settings=settings, generator=generator)
        self._summary = SummaryKeeper(engine, ref, settings=settings, generator=generator)
        self._condenser = Condenser(engine, ref, settings=settings, generator=generator)
        self._newest: ChunkState | None = None
        self._consecutive_failures = 0
        self._report = MakingReport()

    def run(self, most: int | None) -> MakingReport:
        for head in self._finished.open_blocks():
            self._process_block(head, most)
        # Memories may be left from an earlier run; they are not sent again if their answer was rejected.
        if self._report.done == 0 and self._may_send(_NOT_MERGED):
            self._update_state()
        if self._report.done or self._may_send(_NOT_FOLDED):
            self._update_summary()
        self._condense()
        if self._lease.renew():
            self._finished.write_mark()
        workers = (self._chunks, self._state, self._summary, self._condenser)
        usage = sum((worker.usage for worker in workers), Usage())
        return replace(self._report, busy=self._lease.lost, usage=usage)

    def _process_block(self, head: BlockHead, most: int | None) -> None:
        """Make the due chunks of a block. It is read again for each chunk, because others may write to it."""
        tried: set[str] = set()
        block = active_block(self._engine.ledger, head)
        while block and not self._is_over(most):
            job = next((state for state in self._due(block) if state.key not in tried), None)
            if job is None:
                break
            tried.add(job.key)
            self._process_chunk(block, job)
            block = active_block(self._engine.ledger, head)
        if block:
            self._record_block(block, tried)

    def _due(self, block: Block) -> list[ChunkState]:
        new = due_chunks(
            block.messages,
            block.chunks,
            settings=self._settings,
            count=self._finished.count,
            is_last_block=self._finished.is_last(block.head),
        )
        retries = [state for state in block.chunks if state.status in _UNFINISHED and not self._waits(state)]
        return sorted([*retries, *new], key=lambda state: state.first)

    def _waits(self, state: ChunkState) -> bool:
        # A time further in the future than any wait was written with a wrong clock.
        return state.retry_at is not None and self._now < state.retry_at <= self._now + LONGEST_WAIT

    def _is_over(self, most: int | None) -> bool:
        enough = most is not None and self._report.processed >= most
        return enough or self._lease.lost or self._consecutive_failures == _MAX_CONSECUTIVE_FAILURES

    def _process_chunk(self, block: Block, job: ChunkState) -> None:
        state = self._chunks.make(block, job, self._lease)
        if state:
            self._count(state)
        if state and state.status == "done":
            self._newest = state
            self._update_state()

    def _count(self, state: ChunkState) -> None:
        report, place = self._report, f"messages {state.first} to {state.last}"
        match state.status:
            case "done":
                report = replace(report, done=report.done + 1)
            case "empty":
                report = replace(report, empty=report.empty + 1)
            case _:
                report = replace(report, failed=report.failed + 1, errors=(*report.errors, f"{place}: {state.error}"))
        rejected = (f"{place}: {each}" for each in state.rejected if state.status != "failed")
        self._report = replace(report, rejected=(*report.rejected, *rejected))
        self._consecutive_failures = self._consecutive_failures + 1 if state.status == "failed" else 0
        self._engine.progress(_STAGE, self._report.processed, None)

    def _record_block(self, block: Block, tried: set[str]) -> None:
        self._finished.look(block)
        done = [state for state in (*block.chunks, self._newest) if state and state.status == "done"]
        self._newest = max(done, key=lambda state: state.first, default=None)
        waiting = [state for state in block.chunks if state.status == "failed" and self._waits(state)]
        untried = sum(state.key not in tried for state in waiting)
        self._report = replace(self._report, waiting=self._report.waiting + untried)

    def _may_send(self, mark: str) -> bool:
        return self._newest is not None and mark not in self._newest.rejected

    def _update_state(self) -> None:
        if self._settings.state:
            version = self._updated(self._state, _NOT_MERGED)
            self._report = replace(self._report, state_version=version or self._report.state_version)

    def _update_summary(self) -> None:
        if self._settings.summary:
            version = self._updated(self._summary, _NOT_FOLDED)
            self._report = replace(self._report, summary_version=version)

    def _updated(self, keeper: TextKeeper, mark: str) -> str | None:
        """Update one of the two texts; return the id of its new version."""
        if not self._lease.renew():
            return None
        before = keeper.usage.requests
        try:
            version = keeper.update()
        except TreeringError as error:
            self._report = replace(self._report, errors=(*self._report.errors, error.message))
            return None
        if version is None and keeper.usage.requests > before:
            self._record_rejection(mark)
        return version.id if version else None

    def _record_rejection(self, mark: str) -> None:
        """Record in the newest chunk that an answer was unusable, so that it is requested with the next chunk only."""
        newest = self._newest
        if newest is None:
            return
        self._newest = replace(newest, rejected=(*newest.rejected, mark))
        self._report = replace(self._report, rejected=(*self._report.rejected, mark))
        block = self._finished.block_at(newest.first)
        if block is None or newest not in block.chunks or not self._lease.renew():
            return
        try:
            receipt = apply_patch(self._engine, self._ref, [block.with_chunk(self._newest)], reason=mark)
        except (Conflict, NotFound):
            return  # another writer was faster; the cost is one repeated call
        self._finished.wrote(receipt)

    def _condense(self) -> None:
        try:
            receipts = self._condenser.condense(self._lease)
        except TreeringError as error:
            self._report = replace(self._report, errors=(*self._report.errors, error.message))
            return
        for receipt in receipts:
            self._finished.wrote(receipt)
        self._report = replace(self._report, condensed=len(receipts))
