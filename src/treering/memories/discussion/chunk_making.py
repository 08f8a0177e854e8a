"""One chunk: what a generator makes of its messages, written with the state of the chunk in one patch."""

from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from datetime import timedelta

from treering.core.errors import Conflict, NotFound, TreeringError
from treering.core.objects import Knowledge
from treering.core.patch import Create, Operation
from treering.memories.discussion.blocks import Block, BlockHead, read_block
from treering.memories.discussion.generating import Background, Chunk, Generated, Generator, Line, MemoryItem
from treering.memories.discussion.identity import Place
from treering.memories.discussion.kept import ChunkState, Kept, Memory
from treering.memories.discussion.reading import Memories
from treering.memories.discussion.settings import DiscussionSettings
from treering.memories.discussion.submitting import ATTEMPTS, apply_patch
from treering.memories.discussion.summaries import Telling, citing, memory_object
from treering.memories.discussion.versions import Versions
from treering.memories.leasing import Lease
from treering.ports.model import Usage
from treering.tools.engine import Engine


@dataclass(frozen=True, slots=True)
class ChunkOutcome:
    """What became of a chunk: its state as it was written, `None` where its messages were withdrawn meanwhile."""

    state: ChunkState | None
    usage: Usage = field(default_factory=Usage)


class ChunkMaker:
    """Makes the memories of chunks, one call of the generator for each."""

    def __init__(
        self, engine: Engine, place: Place, *, settings: DiscussionSettings, generator: Generator, lease: Lease
    ) -> None:
        self._engine = engine
        self._place = place
        self._settings = settings
        self._generator = generator
        self._lease = lease
        self._memories = Memories(engine, place)
        self._summary = Versions(engine, place, "rolling_summary")

    def make(self, block: Block, job: ChunkState) -> ChunkOutcome:
        """Make the memories of a chunk of a block, and write them with its new state.

        A failure of the generator is written as one. Nothing is written once the lease is lost. Raises what the
        ledger raises, and `Denied` where the space wants a review.
        """
        said = _messages(block, job)
        answer = self._answer(said)
        made = [] if isinstance(answer, TreeringError) else self._knowledge(job, said, answer.items)
        state = self._state(job, answer, made)
        usage = Usage() if isinstance(answer, TreeringError) else answer.usage
        return ChunkOutcome(state if self._write(block, job, state, made) else None, usage)

    def _answer(self, said: Sequence[Kept]) -> Generated | TreeringError:
        lines = tuple(Line(message.speaker, message.text, message.at) for message in said)
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

    def _knowledge(self, job: ChunkState, said: Sequence[Kept], items: Sequence[MemoryItem]) -> list[Knowledge]:
        telling, made_by = Telling(job.first, job.last, citing(said)), self._generator.name
        return [
            memory_object(self._engine, self._place, item, telling, key=f"{job.key}/{number}", made_by=made_by)
            for number, item in enumerate(items, start=1)
        ]

    def _write(self, block: Block, job: ChunkState, state: ChunkState, made: Sequence[Knowledge]) -> bool:
        """Write a state and its memories; tell whether that was done. The generator is not asked again for it."""
        now: Block | None = block
        for _ in range(ATTEMPTS):
            if now is None or not _is_same(now, block, job) or not self._lease.renew():
                return False
            operations: list[Operation] = [now.with_chunk(state), *(Create(object=item) for item in made)]
            try:
                apply_patch(self._engine, self._place, operations, reason=f"Messages {job.first} to {job.last}")
            except (Conflict, NotFound):
                now = active_block(self._engine, block.head)
            else:
                return True
        return False


def active_block(engine: Engine, head: BlockHead) -> Block | None:
    """Read a block as it stands now; `None` where it was withdrawn."""
    try:
        block = read_block(engine.ledger, head)
    except NotFound:
        return None
    return block if block.source.status == "active" else None


_RECENT = 3
_DOUBLINGS = 30
LONGEST_WAIT = timedelta(days=1)
_ERROR_CHARS = 500


def _messages(block: Block, job: ChunkState) -> list[Kept]:
    inside = (message for message in block.messages if job.first <= message.position <= job.last)
    return [message for message in inside if not message.deleted]


def _is_same(now: Block, before: Block, job: ChunkState) -> bool:
    """Tell whether a chunk still holds the same messages, and nobody else has made memories of them."""
    others = [state for state in now.chunks if state.first <= job.last and job.first <= state.last]
    mine = [state for state in before.chunks if state.first <= job.last and job.first <= state.last]
    return others == mine and _messages(now, job) == _messages(before, job)


def _items(memories: Sequence[Memory]) -> list[MemoryItem]:
    return [memory.item for memory in memories]
