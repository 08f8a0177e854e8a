"""The memories of a discussion, read in order. What it costs depends on how many are asked for, not on how many are."""

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from datetime import datetime
from itertools import islice

from treering.core.evidence import EvidenceRef
from treering.core.knowledge_payloads import Summary
from treering.core.locator import Turn
from treering.core.objects import Knowledge
from treering.memories.discussion.blocks import Block
from treering.memories.discussion.generating import MemoryItem
from treering.memories.discussion.identity import Place
from treering.memories.discussion.kept import ChunkState, Memory
from treering.memories.discussion.log import MessageLog
from treering.memories.discussion.versions import Version, Versions
from treering.tools.engine import Engine

IMPORTED_FILES = "wilmer"
"""The origin of the sources that hold memories of another system, which came without their messages."""


class Memories:
    """The memories of one discussion. Only those that hold now are shown. Reading writes nothing."""

    def __init__(self, engine: Engine, place: Place) -> None:
        self._engine = engine
        self._place = place
        self._log = MessageLog(engine, place)
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
        notes = self._engine.ledger.sources(scope=self._place.scope, root=IMPORTED_FILES).values()
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


def read_memories(engine: Engine, identities: Sequence[str]) -> list[Memory]:
    """Read those of some memories that hold now, in the order given."""
    heads = engine.ledger.heads(identities)
    standing = [identity for identity in identities if identity in heads and heads[identity].status == "active"]
    found = [engine.ledger.get(identity) for identity in standing]
    return memories_in(engine, [item for item in found if isinstance(item, Knowledge)])


def memories_in(engine: Engine, items: Sequence[Knowledge]) -> list[Memory]:
    """Return those of some pieces of knowledge that are memories of messages, as memories."""
    told = [(item, item.payload) for item in items if isinstance(item.payload, Summary)]
    told = [(item, payload) for item, payload in told if payload.form in _FORMS]
    times = _times(engine, [item for item, _ in told])
    return [_memory(item, payload, times[item.id]) for item, payload in told]


def _memory(item: Knowledge, payload: Summary, at: datetime | None) -> Memory:
    words = MemoryItem(
        title=item.title[:_TITLE_CHARS],
        summary=item.summary,
        entities=payload.entities,
        key_phrases=payload.key_phrases,
        topics=payload.topics,
        sentiment=payload.sentiment,
    )
    first, last = (_NOWHERE if position is None else position for position in (payload.first, payload.last))
    return Memory(item.id, words, first=first, last=last, at=at, condensed=payload.form == "condensation")


def _times(engine: Engine, items: Sequence[Knowledge]) -> dict[str, datetime | None]:
    """Return for each memory when the first of its messages was said."""
    first = {item.id: _first_evidence(engine, item) for item in items}
    places = [(ref.source_id, ref.segment_id) for ref in first.values() if ref]
    segments = engine.ledger.segments(list(dict.fromkeys(places)))
    times: dict[str, datetime | None] = {}
    for identity, ref in first.items():
        segment = segments.get((ref.source_id, ref.segment_id)) if ref else None
        times[identity] = segment.locator.at if segment and isinstance(segment.locator, Turn) else None
    return times


def _first_evidence(engine: Engine, item: Knowledge) -> EvidenceRef | None:
    """Return the first evidence of a memory; that of a condensation is the first of its first parent."""
    while not item.evidence_refs and item.derived_from:
        parent = engine.ledger.get(item.derived_from[0])
        if not isinstance(parent, Knowledge):
            return None
        item = parent
    return item.evidence_refs[0] if item.evidence_refs else None


def _within(memory: Memory, ranges: Sequence[tuple[int, int]], *, strictly: bool = False) -> bool:
    own = (memory.first, memory.last)
    return any(first <= own[0] and own[1] <= last and not (strictly and own == (first, last)) for first, last in ranges)


_BEYOND = 1 << 62
"""A position after all messages."""

_NOWHERE = -1
"""The position of memories that tell of messages which are not kept: those that were imported."""

_FORMS = frozenset({"memory", "condensation"})
_TITLE_CHARS = 300
