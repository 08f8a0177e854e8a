"""Importing a discussion from plain files (`files`)."""

from collections.abc import Sequence
from dataclasses import dataclass
from itertools import groupby

from treering.core.canonical import digest
from treering.core.errors import NotFound
from treering.core.objects import Knowledge, SummaryForm
from treering.core.patch import Create, Operation
from treering.extensions.discussions.files import (
    CHUNKS,
    MEMORIES,
    MESSAGES,
    STATE,
    SUMMARY,
    ChunkLine,
    Files,
    MemoryLine,
    MessageLine,
    StateMark,
    VersionLine,
    read_lines,
    read_state,
)
from treering.extensions.discussions.identity import DiscussionRef, apply_patch
from treering.extensions.discussions.log.blocks import Block, BlockHead, ChunkState
from treering.extensions.discussions.log.message_log import MessageLog
from treering.extensions.discussions.summaries.condensing import condensation_key, condensation_operations
from treering.extensions.discussions.summaries.memories import Coverage, citing, memory_object
from treering.extensions.discussions.summaries.state import edit_state
from treering.extensions.discussions.summaries.versions import Memories, Versions
from treering.verbs.engine import Engine
from treering.verbs.ingest.turns import Message


@dataclass(frozen=True, slots=True)
class Imported:
    """The result of an import. `rejected`: invalid lines, with reasons. `state`: whether the state document changed."""

    messages: int = 0
    memories: int = 0
    summaries: int = 0
    state: bool = False
    rejected: tuple[str, ...] = ()


def import_discussion(engine: Engine, ref: DiscussionRef, files: Files) -> Imported:
    """Read files into a discussion.

    An empty discussion takes everything, and then answers like the exported one. If the discussion has messages, only
    the state document is read, as a person's edit of the version it is based on. Invalid lines are reported and
    skipped. Raises `NotFound` if none of the files is present.
    """
    if not files.keys() & {MESSAGES, MEMORIES, SUMMARY, STATE}:
        raise NotFound("These files do not contain a discussion.", hint=f"Give {MESSAGES} or {STATE}.")
    if MessageLog(engine, ref).exists():
        changed, rejected = _import_state(engine, ref, files)
        return Imported(state=changed, rejected=rejected)
    return _Import(engine, ref, files).run()


class _Import:
    """An import into an empty discussion."""

    def __init__(self, engine: Engine, ref: DiscussionRef, files: Files) -> None:
        self._engine = engine
        self._ref = ref
        self._files = files
        self._log = MessageLog(engine, ref)
        self._rejected: list[str] = []

    def run(self) -> Imported:
        messages = self._import_messages()
        memories = self._import_memories()
        summaries = self._import_summaries()
        changed, rejected = _import_state(self._engine, self._ref, self._files)
        return Imported(messages, memories, summaries, changed, (*self._rejected, *rejected))

    def _import_messages(self) -> int:
        """Record the messages at their positions; messages without text are recorded and deleted again."""
        read = read_lines(self._files, MESSAGES, MessageLine, self._rejected)
        # Positions missing between two lines become deleted messages.
        most = len(read) + _MAX_MISSING
        self._rejected += [
            f"{MESSAGES}: there is no message at {line.position}" for line in read if line.position > most
        ]
        by_position = {line.position: line for line in read if line.position <= most}
        lines = [by_position.get(at, MessageLine(position=at)) for at in range(max(by_position, default=-1) + 1)]
        begins = {line.position: line.after for line in lines if line.after is not None}
        restored = self._log.restore([_message(line) for line in lines], begins=begins)
        if reason := restored.left_out_reason():
            self._rejected.append(f"{MESSAGES}: {reason}")
        empty = [line.position for line in lines if line.deleted or not line.text]
        if empty:
            self._log.delete(empty)
        return restored.appended - len(empty)

    def _import_memories(self) -> int:
        """Write the memories of each block, with the states of its chunks."""
        read = read_lines(self._files, MEMORIES, MemoryLine, self._rejected)
        chunks = read_lines(self._files, CHUNKS, ChunkLine, self._rejected)
        written = 0
        for head in self._log.blocks():
            inside = [line for line in read if _is_in(line, head) and not line.condensed]
            states = [line for line in chunks if _is_in(line, head)]
            written += self._write_block(self._log.block(head), inside, states)
        for line in read:
            if line.condensed:
                written += self._write_condensation(line)
        missing = len(read) - written
        self._rejected += [f"{MEMORIES}: {missing} refer to messages that are missing"] if missing else []
        return written

    def _write_block(self, block: Block, lines: Sequence[MemoryLine], chunks: Sequence[ChunkLine]) -> int:
        operations: list[Operation] = []
        keys = {(line.first, line.last): line.key for line in chunks}
        states = [ChunkState(line.first, line.last, line.key, line.status) for line in chunks if line.status == "empty"]
        written = 0
        for span, group in groupby(sorted(lines, key=_span), key=_span):
            coverage = Coverage(*span, citing(block.messages_in(*span)))
            key = keys.get(span) or digest(f"{self._ref.origin} {span}")
            taken = any(state.first <= span[1] and span[0] <= state.last for state in states)
            if not coverage.evidence or taken:
                continue
            made = [self._memory(line, f"{key}/{number}", coverage) for number, line in enumerate(group, start=1)]
            states.append(ChunkState(*span, key=key, status="done", memories=tuple(item.id for item in made)))
            operations += [Create(object=item) for item in made]
            written += len(made)
        if states:
            self._apply([block.changed(chunks=states), *operations])
        return written

    def _write_condensation(self, line: MemoryLine) -> int:
        later = Memories(self._engine, self._ref).after(line.first - 1)
        parents = [one for one in later if line.first <= one.first and one.last <= line.last]
        head = next((head for head in self._log.blocks() if head.first <= line.last < head.end), None)
        if not parents or head is None:
            return 0
        coverage = Coverage(line.first, line.last, memories=[parent.id for parent in parents])
        memory = self._memory(line, condensation_key(parents), coverage, form="condensation")
        self._apply(condensation_operations(self._log.block(head), memory, line.first, line.last))
        return 1

    def _import_summaries(self) -> int:
        read = read_lines(self._files, SUMMARY, VersionLine, self._rejected)
        versions = Versions(self._engine, self._ref, "rolling_summary")
        memories = Memories(self._engine, self._ref).after(-1)
        reached, end = -1, self._log.count() - 1
        for line in sorted(read, key=lambda line: line.number):
            last = max(reached, min(line.position, end))
            versions.write(
                line.text,
                after=versions.current(),
                last=last,
                memories=[memory for memory in memories if reached < memory.last <= last],
                made_by=line.made_by,
                memory_source="imported",
            )
            reached = last
        return len(read)

    def _memory(self, line: MemoryLine, key: str, coverage: Coverage, *, form: SummaryForm = "memory") -> Knowledge:
        return memory_object(
            self._engine,
            self._ref,
            line.memory,
            coverage,
            key=key,
            made_by=line.made_by,
            form=form,
            memory_source="imported",
        )

    def _apply(self, operations: Sequence[Operation]) -> None:
        apply_patch(self._engine, self._ref, operations, reason="Imported memories")


def _import_state(engine: Engine, ref: DiscussionRef, files: Files) -> tuple[bool, tuple[str, ...]]:
    """Import the state document as it is if there is none yet, else as an edit of the version it is based on."""
    text, mark = read_state(files)
    versions = Versions(engine, ref, "state_document")
    current = versions.current()
    if not text and mark is None:
        return False, ()
    if current is None and mark is not None:
        return _restore_state(engine, ref, text, mark), ()
    try:
        place = mark or StateMark()
        edited = edit_state(engine, ref, text, base=place.version or None, last=place.last_message)
    except NotFound:
        return False, (f"{STATE}: it is based on a version that this discussion does not have",)
    return current is None or edited.id != current.id, ()


def _restore_state(engine: Engine, ref: DiscussionRef, text: str, mark: StateMark) -> bool:
    memories = Memories(engine, ref).after(-1)
    last = min(mark.position, MessageLog(engine, ref).count() - 1)
    if text:
        Versions(engine, ref, "state_document").write(
            text,
            after=None,
            last=last,
            memories=[memory for memory in memories if memory.last <= last],
            made_by=mark.made_by,
            by_hand=mark.by_hand,
            struck_by_hand=mark.struck_by_hand,
            memory_source="imported",
        )
    return bool(text)


def _message(line: MessageLine) -> Message:
    """Return the message of a line, with a placeholder if it has no text."""
    return Message(content=line.text or _PLACEHOLDER, role=line.role, name=line.speaker, at=line.at)


def _is_in(line: MemoryLine | ChunkLine, head: BlockHead) -> bool:
    return head.first <= line.first <= line.last < head.end


def _span(line: MemoryLine) -> tuple[int, int]:
    return line.first, line.last


_PLACEHOLDER = "…"
_MAX_MISSING = 10_000
