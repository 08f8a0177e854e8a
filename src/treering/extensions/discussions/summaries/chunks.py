"""Chunks of messages: which are due, and how their memories are made and written."""

from collections.abc import Iterator, Sequence
from contextlib import suppress
from dataclasses import replace
from datetime import timedelta

from treering.core.canonical import digest, message_key
from treering.core.errors import Conflict, NotFound, TreeringError
from treering.core.objects import Knowledge
from treering.core.patch import Create, Operation
from treering.extensions.discussions.generators.generator import (
    Background,
    Chunk,
    DiscussionSettings,
    Generated,
    GeneratedMemory,
    SpokenLine,
)
from treering.extensions.discussions.identity import apply_patch
from treering.extensions.discussions.log.blocks import Block, ChunkState, ChunkStatus, StoredMessage, active_block
from treering.extensions.discussions.summaries.memories import Coverage, Memory, citing, memory_object
from treering.extensions.discussions.summaries.versions import GeneratorWork
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
    """Return the complete chunks of a block that have no state yet and are older than the lookback, as pending ones.

    `messages` are all messages of the block, `count` the number of messages in the discussion. Counted from the first
    message without a chunk, a chunk is complete with `chunk_tokens` or `max_messages`, before an existing chunk, and
    at the end of a block that is not the last one. Deleted messages belong to no chunk.
    """
    end = count - settings.lookback
    chunks = _cut(messages, states, settings, is_closed=not is_last_block)
    pending = (chunk_state(chunk, "pending") for chunk in chunks)
    return [chunk for chunk in pending if chunk.last < end]


def chunk_state(messages: Sequence[StoredMessage], status: ChunkStatus) -> ChunkState:
    """Return the state of a new chunk."""
    return ChunkState(messages[0].position, messages[-1].position, key=chunk_key(messages), status=status)


def chunk_key(messages: Sequence[StoredMessage]) -> str:
    """Return a key of a chunk, derived from the positions, roles and texts of its messages."""
    parts = (f"{message.position} {message_key(message.role, message.text)}" for message in messages)
    return digest("\n".join(parts))[:_KEY_CHARS]


class ChunkMaker(GeneratorWork):
    """Makes the memories of chunks with one generator call each."""

    def make(self, block: Block, job: ChunkState, lease: Lease) -> ChunkState | None:
        """Make the memories of a chunk of a block, and write them with its new state.

        Return the written state, or `None` if its messages were withdrawn in the meantime. Failures of the generator
        are written too. Nothing is written after the lease is lost. Raises the errors of the ledger, and `Denied` if
        the space requires a review.
        """
        messages = block.messages_in(job.first, job.last)
        answer = self._answer(messages)
        made = [] if isinstance(answer, TreeringError) else self._knowledge(job, messages, answer.items)
        state = self._state(job, answer, made)
        return state if self._write(block, job, state, made, lease) else None

    def _answer(self, messages: Sequence[StoredMessage]) -> Generated | TreeringError:
        lines = tuple(SpokenLine(one.speaker, one.text, one.at, one.position) for one in messages)
        background = Background(
            recent=lambda: _items(self._memories.recent(_RECENT)),
            everything=lambda: _items(self._memories.all()),
            summary=self._summary.text,
        )
        try:
            answer = self._generator.memories(Chunk(lines), background)
        except TreeringError as error:
            return error
        self.usage += answer.usage
        return answer

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
        self, job: ChunkState, messages: Sequence[StoredMessage], items: Sequence[GeneratedMemory]
    ) -> list[Knowledge]:
        coverage, made_by = Coverage(job.first, job.last, citing(messages)), self._generator.name
        return [
            memory_object(self._engine, self._ref, item, coverage, key=f"{job.key}/{number}", made_by=made_by)
            for number, item in enumerate(items, start=1)
        ]

    def _write(self, block: Block, job: ChunkState, state: ChunkState, made: Sequence[Knowledge], lease: Lease) -> bool:
        """Write a state and its memories without a new generator call; return whether they were written."""

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
    """Yield the messages of each complete chunk that has no state yet."""
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


def _is_same(now: Block, before: Block, job: ChunkState) -> bool:
    """Return whether a chunk has the same messages and states in both versions of its block."""
    overlapping = [
        [state for state in block.chunks if state.first <= job.last and job.first <= state.last]
        for block in (now, before)
    ]
    same_messages = now.messages_in(job.first, job.last) == before.messages_in(job.first, job.last)
    return overlapping[0] == overlapping[1] and same_messages


def _items(memories: Sequence[Memory]) -> list[GeneratedMemory]:
    return [memory.item for memory in memories]
