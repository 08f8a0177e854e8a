"""Chunks of messages: which are due, and what a generator makes of one, written with its state in one patch."""

from collections.abc import Iterator, Sequence
from contextlib import suppress
from dataclasses import dataclass, field, replace
from datetime import timedelta

from treering.core.canonical import digest, message_key
from treering.core.errors import Conflict, NotFound, TreeringError
from treering.core.objects import Knowledge
from treering.core.patch import Create, Operation
from treering.parts.discussions.generators.generator import (
    Background,
    Chunk,
    DiscussionSettings,
    Generated,
    GeneratedMemory,
    SpokenLine,
)
from treering.parts.discussions.identity import apply_patch
from treering.parts.discussions.log.blocks import Block, ChunkState, StoredMessage, active_block
from treering.parts.discussions.summaries.memories import Coverage, Memory, citing, memory_object
from treering.parts.discussions.summaries.versions import GeneratorWork
from treering.ports.models import Usage
from treering.retrieval.text.analysis import estimate_tokens
from treering.verbs.engine import retry_on_conflict
from treering.verbs.leases import Lease

LONGEST_WAIT = timedelta(days=1)

_KEY_CHARS = 20
_RECENT = 3
_DOUBLINGS = 30
_ERROR_CHARS = 500


def due_chunks(
    messages: Sequence[StoredMessage],
    states: Sequence[ChunkState],
    *,
    settings: DiscussionSettings,
    count: int,
    is_last_block: bool,
) -> list[ChunkState]:
    """Return the chunks of a block that are complete, clear of the lookback, and in no state yet; as pending ones.

    `messages` are all of the block, `count` is how many the discussion has. From the first message that is in no
    chunk on, a chunk is complete with `chunk_tokens` or `max_messages`, right before a chunk that is there, and at
    the end of a block that another one follows. Deleted messages say nothing: they are in no chunk.
    """
    clear = count - settings.lookback
    chunks = _cut(messages, states, settings, is_closed=not is_last_block)
    return [chunk for chunk in map(_pending, chunks) if chunk.last < clear]


def chunk_key(messages: Sequence[StoredMessage]) -> str:
    """Tell a chunk from others: by what its messages say, who says it, and where."""
    said = (f"{message.position} {message_key(message.role, message.text)}" for message in messages)
    return digest("\n".join(said))[:_KEY_CHARS]


@dataclass(frozen=True, slots=True)
class ChunkOutcome:
    """What became of a chunk: its state as it was written, `None` where its messages were withdrawn meanwhile."""

    state: ChunkState | None
    usage: Usage = field(default_factory=Usage)


class ChunkMaker(GeneratorWork):
    """Makes the memories of chunks, one call of the generator for each."""

    def make(self, block: Block, job: ChunkState, lease: Lease) -> ChunkOutcome:
        """Make the memories of a chunk of a block, and write them with its new state.

        A failure of the generator is written as one. Nothing is written once the lease is lost. Raises what the
        ledger raises, and `Denied` where the space wants a review.
        """
        said = _messages(block, job)
        answer = self._answer(said)
        made = [] if isinstance(answer, TreeringError) else self._knowledge(job, said, answer.items)
        state = self._state(job, answer, made)
        usage = Usage() if isinstance(answer, TreeringError) else answer.usage
        return ChunkOutcome(state if self._write(block, job, state, made, lease) else None, usage)

    def _answer(self, said: Sequence[StoredMessage]) -> Generated | TreeringError:
        lines = tuple(SpokenLine(one.speaker, one.text, one.at, one.position) for one in said)
        background = Background(
            recent=lambda: _items(self._memories.recent(_RECENT)),
            everything=lambda: _items(self._memories.all()),
            summary=self._summary_text,
        )
        try:
            return self._generator.memories(Chunk(lines), background)
        except TreeringError as error:
            return error

    def _summary_text(self) -> str:
        current = self._summary.current()
        return current.text if current else ""

    def _state(self, job: ChunkState, answer: Generated | TreeringError, made: Sequence[Knowledge]) -> ChunkState:
        if isinstance(answer, TreeringError):
            wait = min(self._settings.retry_seconds * 2 ** min(job.attempts, _DOUBLINGS), LONGEST_WAIT.total_seconds())
            retry_at = self._engine.clock.now() + timedelta(seconds=wait)
            error = answer.message[:_ERROR_CHARS]
            return replace(job, status="failed", attempts=job.attempts + 1, error=error, retry_at=retry_at)
        return replace(
            job,
            status="done" if made else "empty",
            memories=tuple(item.id for item in made),
            error="",
            retry_at=None,
            rejected=answer.rejected,
        )

    def _knowledge(
        self, job: ChunkState, said: Sequence[StoredMessage], items: Sequence[GeneratedMemory]
    ) -> list[Knowledge]:
        coverage, made_by = Coverage(job.first, job.last, citing(said)), self._generator.name
        return [
            memory_object(self._engine, self._ref, item, coverage, key=f"{job.key}/{number}", made_by=made_by)
            for number, item in enumerate(items, start=1)
        ]

    def _write(self, block: Block, job: ChunkState, state: ChunkState, made: Sequence[Knowledge], lease: Lease) -> bool:
        """Write a state and its memories; tell whether that was done. The generator is not asked again for it."""

        def write() -> bool:
            now = active_block(self._engine.ledger, block.head)
            if now is None or not _is_same(now, block, job) or not lease.renew():
                return False
            operations: list[Operation] = [now.with_chunk(state), *(Create(object=item) for item in made)]
            apply_patch(self._engine, self._ref, operations, reason=f"Messages {job.first} to {job.last}")
            return True

        with suppress(Conflict, NotFound):
            return retry_on_conflict(write, on=(Conflict, NotFound))
        return False


def _cut(
    messages: Sequence[StoredMessage], states: Sequence[ChunkState], settings: DiscussionSettings, *, is_closed: bool
) -> Iterator[list[StoredMessage]]:
    """Return the messages of each complete chunk that is in no state yet."""
    covered = {position for state in states for position in range(state.first, state.last + 1)}
    chunk: list[StoredMessage] = []
    for message in messages:
        ends_before = message.position in covered
        if chunk and (ends_before or _is_full(chunk, settings)):
            yield chunk
            chunk = []
        if not ends_before and not message.deleted:
            chunk.append(message)
    if chunk and (is_closed or _is_full(chunk, settings)):
        yield chunk


def _is_full(chunk: Sequence[StoredMessage], settings: DiscussionSettings) -> bool:
    tokens = sum(estimate_tokens(message.text) for message in chunk)
    return len(chunk) >= settings.max_messages or tokens >= settings.chunk_tokens


def _pending(chunk: Sequence[StoredMessage]) -> ChunkState:
    return ChunkState(first=chunk[0].position, last=chunk[-1].position, key=chunk_key(chunk), status="pending")


def _messages(block: Block, job: ChunkState) -> list[StoredMessage]:
    inside = (message for message in block.messages if job.first <= message.position <= job.last)
    return [message for message in inside if not message.deleted]


def _is_same(now: Block, before: Block, job: ChunkState) -> bool:
    """Tell whether a chunk still holds the same messages, and nobody else has made memories of them."""
    others = [state for state in now.chunks if state.first <= job.last and job.first <= state.last]
    mine = [state for state in before.chunks if state.first <= job.last and job.first <= state.last]
    return others == mine and _messages(now, job) == _messages(before, job)


def _items(memories: Sequence[Memory]) -> list[GeneratedMemory]:
    return [memory.item for memory in memories]
