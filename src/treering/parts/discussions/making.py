"""Making memories of messages, chunk by chunk and by one process at a time, and proposing what they say was decided."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

from treering.core.errors import Conflict, NotFound, TreeringError
from treering.core.evidence import EvidenceRef
from treering.core.objects import Source
from treering.core.screening import instruction_flags
from treering.parts.discussions.generators.generator import DiscussionSettings, Generator
from treering.parts.discussions.identity import DiscussionRef, apply_patch
from treering.parts.discussions.log.blocks import Block, BlockHead, ChunkState, StoredMessage, active_block
from treering.parts.discussions.summaries.chunks import LONGEST_WAIT, ChunkMaker, due_chunks
from treering.parts.discussions.summaries.condensing import Condenser, FinishedBlocks, archive_stale_memories
from treering.parts.discussions.summaries.keepers import SummaryKeeper, TextKeeper
from treering.parts.discussions.summaries.state import StateKeeper
from treering.ports.models import Usage
from treering.retrieval.extraction.extractive import Outcome, Sentence, entities_of, outcomes_of
from treering.verbs.crystallize.drafting import KnowledgeFields, draft_knowledge
from treering.verbs.crystallize.submission import WriteOptions, submit
from treering.verbs.engine import Engine, Lease, Progress, held, silent
from treering.verbs.envelope import Call


@dataclass(frozen=True, slots=True)
class MakingReport:
    """What became of the chunks that were due: memories, nothing worth one, or a failure that is tried again.

    `waiting` chunks failed before, and it is not time yet to try them again. `condensed` counts the memories that
    now stand for others. `rejected` are items of answers that could not be used, `errors` what went wrong.
    `summary_version` and `state_version` are the ids of new versions.
    """

    done: int = 0
    empty: int = 0
    failed: int = 0
    waiting: int = 0
    condensed: int = 0
    busy: bool = False
    """Whether another process is at it, so that nothing, or not everything, was done here."""
    rejected: tuple[str, ...] = ()
    errors: tuple[str, ...] = ()
    usage: Usage = field(default_factory=Usage)
    """What the generator used, as far as it said so: of a call that failed it says nothing."""
    summary_version: str | None = None
    state_version: str | None = None


class MemoryMaker:
    """Makes the memories of one discussion, its state document, its rolling summary and its condensations."""

    def __init__(
        self,
        engine: Engine,
        ref: DiscussionRef,
        *,
        settings: DiscussionSettings,
        generator: Generator,
        progress: Progress = silent,
    ) -> None:
        self._engine = engine
        self._ref = ref
        self._settings = settings
        self._generator = generator
        self._progress = progress

    def make(self, *, wait_seconds: float = 0.0, most: int | None = None) -> MakingReport:
        """Make the memories that are due, of at most `most` chunks, and bring what is made of them up to date.

        Each chunk is written with its memories in one patch as soon as they are made: whatever happens later, it is
        neither lost nor made twice. A chunk that fails is kept as failed, and the others go on. Where another process
        is at it, this waits for it for so long, and then does what is left. Raises `Denied` where the space wants a
        review, and what the ledger raises; failures of the generator are in the report.
        """
        owner = self._engine.clock.random_bytes(_OWNER_BYTES).hex()
        seconds = self._settings.lease_seconds
        lease_name = f"discussion:{self._ref.scope}"
        with held(self._engine.leases, lease_name, owner, seconds, wait_seconds=wait_seconds) as lease:
            if lease is None:
                return MakingReport(busy=True)
            run = _MakingRun(self._engine, self._ref, self._settings, self._generator, lease, self._progress)
            return run.go(most)


class _MakingRun:
    """One run under the lease. Once the lease is lost, nothing more is written."""

    def __init__(
        self,
        engine: Engine,
        ref: DiscussionRef,
        settings: DiscussionSettings,
        generator: Generator,
        lease: Lease,
        progress: Progress,
    ) -> None:
        self._engine = engine
        self._ref = ref
        self._settings = settings
        self._lease = lease
        self._progress = progress
        self._now = engine.clock.now()
        archive_stale_memories(engine, ref)
        self._settled = FinishedBlocks(engine, ref)
        self._chunks = ChunkMaker(engine, ref, settings=settings, generator=generator)
        self._state = StateKeeper(engine, ref, settings=settings, generator=generator)
        self._summary = SummaryKeeper(engine, ref, settings=settings, generator=generator)
        self._condenser = Condenser(engine, ref, settings=settings, generator=generator)
        self._newest: ChunkState | None = None
        self._failures_in_a_row = 0
        self._made = MakingReport()

    def go(self, most: int | None) -> MakingReport:
        for head in self._settled.open_blocks():
            self._work_on(head, most)
        self._tell()
        self._condense()
        if self._lease.renew():
            self._settled.keep()
        kept = (self._state.usage, self._summary.usage, self._condenser.usage)
        return replace(self._made, busy=self._lease.lost, usage=sum(kept, self._made.usage))

    def _work_on(self, head: BlockHead, most: int | None) -> None:
        """Make the chunks of a block that are due. It is read anew for each: others may write into it."""
        tried: set[str] = set()
        block = active_block(self._engine.ledger, head)
        while block and not self._is_over(most):
            job = next((state for state in self._due(block) if state.key not in tried), None)
            if job is None:
                break
            tried.add(job.key)
            self._work_at(block, job)
            block = active_block(self._engine.ledger, head)
        if block:
            self._note(block, tried)

    def _due(self, block: Block) -> list[ChunkState]:
        fresh = due_chunks(
            block.messages,
            block.chunks,
            settings=self._settings,
            count=self._settled.count,
            is_last_block=self._settled.is_last(block.head),
        )
        again = [state for state in block.chunks if state.status in _UNFINISHED and not self._waits(state)]
        return sorted([*again, *fresh], key=lambda state: state.first)

    def _waits(self, state: ChunkState) -> bool:
        # A time further away than any wait was written by a clock that was ahead.
        return state.retry_at is not None and self._now < state.retry_at <= self._now + LONGEST_WAIT

    def _is_over(self, most: int | None) -> bool:
        made = self._made
        enough = most is not None and made.done + made.empty + made.failed >= most
        return enough or self._lease.lost or self._failures_in_a_row == _FAILURES_IN_A_ROW

    def _work_at(self, block: Block, job: ChunkState) -> None:
        outcome = self._chunks.make(block, job, self._lease)
        self._made = replace(self._made, usage=self._made.usage + outcome.usage)
        if outcome.state:
            self._count(outcome.state)
        if outcome.state and outcome.state.status == "done":
            self._newest = outcome.state
            self._update_state()

    def _count(self, state: ChunkState) -> None:
        made, where = self._made, f"messages {state.first} to {state.last}"
        match state.status:
            case "done":
                self._made = replace(made, done=made.done + 1)
            case "empty":
                self._made = replace(made, empty=made.empty + 1)
            case _:
                self._made = replace(made, failed=made.failed + 1, errors=(*made.errors, f"{where}: {state.error}"))
        rejected = (f"{where}: {each}" for each in state.rejected if state.status != "failed")
        self._made = replace(self._made, rejected=(*self._made.rejected, *rejected))
        self._failures_in_a_row = self._failures_in_a_row + 1 if state.status == "failed" else 0
        made = self._made
        self._progress(_DOING, made.done + made.empty + made.failed, None)

    def _note(self, block: Block, tried: set[str]) -> None:
        """Note what a block holds after the work on it."""
        self._settled.look(block)
        done = [state for state in block.chunks if state.status == "done"]
        self._newest = max([*done, *([self._newest] if self._newest else [])], key=_place_of, default=None)
        waiting = [state for state in block.chunks if state.status == "failed" and self._waits(state)]
        more = sum(state.key not in tried for state in waiting)
        self._made = replace(self._made, waiting=self._made.waiting + more)

    def _tell(self) -> None:
        """Bring state document and summary up to date, also with memories that a run before left untold."""
        if self._made.done == 0 and self._may_tell(_NOT_MERGED):
            self._update_state()
        if self._made.done or self._may_tell(_NOT_FOLDED):
            self._update_summary()

    def _may_tell(self, mark: str) -> bool:
        """Tell whether the newest memories were not refused before: nobody is asked twice for the same."""
        return self._newest is not None and mark not in self._newest.rejected

    def _update_state(self) -> None:
        if self._settings.state:
            version = self._updated(self._state, _NOT_MERGED)
            self._made = replace(self._made, state_version=version or self._made.state_version)

    def _update_summary(self) -> None:
        if self._settings.summary:
            version = self._updated(self._summary, _NOT_FOLDED)
            self._made = replace(self._made, summary_version=version)

    def _updated(self, keeper: TextKeeper, mark: str) -> str | None:
        """Update one of the two texts; return the id of its new version."""
        if not self._lease.renew():
            return None
        before = keeper.usage.requests
        try:
            version = keeper.update()
        except TreeringError as error:
            self._made = replace(self._made, errors=(*self._made.errors, error.message))
            return None
        if version is None and keeper.usage.requests > before:
            self._refused(mark)
        return version.id if version else None

    def _refused(self, mark: str) -> None:
        """Keep with the newest chunk that an answer was not used: it is asked for with the next chunk, not before."""
        newest = self._newest
        if newest is None:
            return
        self._newest = replace(newest, rejected=(*newest.rejected, mark))
        self._made = replace(self._made, rejected=(*self._made.rejected, mark))
        block = self._settled.block_at(newest.first)
        if block is None or newest not in block.chunks or not self._lease.renew():
            return
        try:
            receipt = apply_patch(self._engine, self._ref, [block.with_chunk(self._newest)], reason=mark)
        except (Conflict, NotFound):
            return  # somebody was first; then one call is made once more
        self._settled.wrote(receipt)

    def _condense(self) -> None:
        try:
            written = self._condenser.condense(self._lease)
        except TreeringError as error:
            self._made = replace(self._made, errors=(*self._made.errors, error.message))
            return
        for receipt in written:
            self._settled.wrote(receipt)
        self._made = replace(self._made, condensed=len(written))


def _place_of(state: ChunkState) -> int:
    return state.first


_DOING = "making memories"
_OWNER_BYTES = 8
_FAILURES_IN_A_ROW = 5
"""Chunks failing one after the other that end a run: a wrong key need not be refused a thousand times."""
_UNFINISHED = frozenset({"pending", "failed"})
_NOT_MERGED = "the new state document was empty or less than half as long as the old one"
_NOT_FOLDED = "the new summary was empty"


# What messages say was decided, and why something failed, as candidates with the messages as evidence.


_MOST_CANDIDATES = 20
"""So many candidates of one recording: a person reviews them."""

_TITLE_CHARS = 120
_NOBODY = "the work"
_SPEAKERS = frozenset({"user", "assistant"})


def propose_outcomes(call: Call, messages: Sequence[StoredMessage]) -> tuple[str, ...]:
    """Propose the decisions and failures that messages tell of; return the ids of what was written.

    The same said again is merged into what is known. A message shaped like instructions proposes nothing.
    """
    drafts = [draft_knowledge(call, fields) for fields in _drafts(call, messages)][:_MOST_CANDIDATES]
    operations = [operation for _, operations in drafts for operation in operations]
    options = WriteOptions(reason="said in a discussion")
    return submit(call, operations, options, verb="crystallize", mode="knowledge").ids


def _drafts(call: Call, messages: Sequence[StoredMessage]) -> Iterator[KnowledgeFields]:
    seen: set[str] = set()
    for message in messages:
        if message.deleted or message.role not in _SPEAKERS or instruction_flags(message.text):
            continue
        for outcome in outcomes_of(message.text):
            if outcome.text not in seen:
                seen.add(outcome.text)
                yield _fields(outcome, _evidence(call, message, outcome))


def _fields(outcome: Outcome, evidence: EvidenceRef) -> KnowledgeFields:
    said = outcome.text
    title = said if len(said) <= _TITLE_CHARS else f"{said[: _TITLE_CHARS - 1]}…"
    given: dict[str, Any] = {"title": title, "status": "candidate", "evidence_refs": (evidence,)}
    if outcome.kind == "decision":
        payload = {"question": said, "rationale": outcome.reason}
        return KnowledgeFields(kind="decision", payload=payload, **given)
    subject = next(iter(entities_of([Sentence(said)])), _NOBODY)
    return KnowledgeFields(kind="fact", payload={"subject": subject, "predicate": "failed", "object": said}, **given)


def _evidence(call: Call, message: StoredMessage, outcome: Outcome) -> EvidenceRef:
    """Return the segment of a message that holds the sentence; a long message has several."""
    held = call.engine.ledger.get(message.source_id) if len(message.segment_ids) > 1 else None
    begins = outcome.text[:40]
    found = (
        segment.segment_id
        for segment in (held.segments if isinstance(held, Source) else ())
        if segment.segment_id in message.segment_ids and begins in " ".join(segment.excerpt.split())
    )
    return EvidenceRef(source_id=message.source_id, segment_id=next(found, message.segment_ids[0]))
