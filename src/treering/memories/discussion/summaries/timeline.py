"""The memories of a discussion, read in order. What it costs depends on how many are asked for, not on how many are."""

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from itertools import islice

from treering.memories.discussion.identity import DiscussionRef
from treering.memories.discussion.log.blocks import Block, ChunkState
from treering.memories.discussion.log.message_log import MessageLog
from treering.memories.discussion.summaries.memories import Memory, read_memories
from treering.memories.discussion.summaries.versions import Version, Versions
from treering.tools.engine import Engine

IMPORTED_FILES = "wilmer"
"""The origin of the sources that hold memories of another system, which came without their messages."""


class Memories:
    """The memories of one discussion. Only those that hold now are shown. Reading writes nothing."""

    def __init__(self, engine: Engine, ref: DiscussionRef) -> None:
        self._engine = engine
        self._ref = ref
        self._log = MessageLog(engine, ref)
        self._read: dict[str, _Outline] = {}

    def recent(self, count: int, *, skip: int = 0) -> list[Memory]:
        """Return the last `count` memories but the last `skip`, oldest first. Condensations stand for their parents."""
        return list(islice(self._shown(), skip, skip + count))[::-1]

    def all(self) -> list[Memory]:
        """Return all memories, oldest first. Condensations stand for their parents."""
        return list(self._shown())[::-1]

    def after(self, position: int) -> list[Memory]:
        """Return the memories that tell of messages after a position, oldest first, none of them condensed."""
        states = [state for outline in self._outlines(position) for state in outline.chunks if state.last > position]
        return self._of_chunks(states)

    def of(self, chunk: ChunkState) -> list[Memory]:
        """Return the memories that were made of a chunk."""
        return read_memories(self._engine, chunk.memories)

    def untold(self, versions: Versions) -> list[Memory]:
        """Return the memories that no version of a text tells of, oldest first."""
        current = versions.current()
        newer = self.after(current.last if current else -1)
        return [memory for memory in newer if not versions.tell_of(memory.id)] if current else newer

    def told_up_to(self, current: Version | None, left: Sequence[Memory]) -> int:
        """Return the position that a version after `current` reaches which tells of all memories but those `left`.

        It is that of the last message of a memory, so that it goes back with what is withdrawn; and it does not pass
        messages of which no memory was made yet, for example where that failed: theirs are still to be told of.
        """
        reached = current.last if current else -1
        waiting = {memory.id for memory in left}
        outlines = list(self._outlines(reached))
        opened = (at for outline in outlines for at in outline.open if at > reached)
        end = min(min(opened, default=_BEYOND), *(memory.first for memory in left), _BEYOND)
        states = (state for outline in outlines for state in outline.chunks if reached < state.last < end)
        told = (state.last for state in states if state.memories and not waiting.intersection(state.memories))
        return max(told, default=reached)

    def _shown(self) -> Iterator[Memory]:
        """Return memories and condensations, newest first; what was imported without its messages comes before all."""
        covered: list[tuple[int, int]] = []
        for outline in self._outlines(-1):
            condensed = read_memories(self._engine, outline.condensations)
            covered += [(memory.first, memory.last) for memory in condensed]
            made = [memory for memory in self._of_chunks(outline.chunks) if not _within(memory, covered)]
            outer = [memory for memory in condensed if not _within(memory, covered, strictly=True)]
            yield from sorted([*reversed(made), *outer], key=lambda memory: memory.last, reverse=True)
        yield from reversed(read_memories(self._engine, self._imported()))

    def _outlines(self, position: int) -> Iterator["_Outline"]:
        """Return outlines of the blocks that hold messages after a position, newest first.

        A block that was read before and has not changed since is not read again.
        """
        for head in reversed(self._log.blocks()):
            if head.end - 1 <= position:
                return
            known = self._read.get(head.source_id)
            if known is None or known.revision != head.revision:
                known = _Outline.of(self._log.block(head))
                self._read[head.source_id] = known
            yield known

    def _imported(self) -> list[str]:
        """Return the ids of the memories that came without their messages, oldest first, also of those that fell."""
        notes = self._engine.ledger.sources(scope=self._ref.scope, root=IMPORTED_FILES).values()
        return sorted({identity for note in notes for identity in self._engine.ledger.dependents(note.id)})

    def _of_chunks(self, states: Iterable[ChunkState]) -> list[Memory]:
        ordered = sorted(states, key=lambda state: state.first)
        return read_memories(self._engine, [identity for state in ordered for identity in state.memories])


@dataclass(frozen=True, slots=True)
class _Outline:
    """What of a block does not depend on its words. `open`: positions that no finished chunk holds."""

    revision: int
    chunks: tuple[ChunkState, ...]
    condensations: tuple[str, ...]
    open: tuple[int, ...]

    @classmethod
    def of(cls, block: Block) -> "_Outline":
        done = (state for state in block.chunks if state.status in {"done", "empty"})
        finished = {position for state in done for position in range(state.first, state.last + 1)}
        spoken = (message.position for message in block.messages if not message.deleted)
        return cls(
            revision=block.head.revision,
            chunks=block.chunks,
            condensations=tuple(each.memory for each in block.condensations),
            open=tuple(position for position in spoken if position not in finished),
        )


def _within(memory: Memory, ranges: Sequence[tuple[int, int]], *, strictly: bool = False) -> bool:
    own = (memory.first, memory.last)
    return any(first <= own[0] and own[1] <= last and not (strictly and own == (first, last)) for first, last in ranges)


_BEYOND = 1 << 62
"""A position after all messages."""
