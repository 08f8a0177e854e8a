"""A snapshot of a discussion, which reads blocks only when they are needed."""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime

from treering.core.canonical import chain_hashes, message_key
from treering.core.errors import Conflict
from treering.core.evidence import Segment, Turn
from treering.extensions.discussions.identity import DiscussionRef
from treering.extensions.discussions.log.alignment import (
    Alignment,
    DeletedLookup,
    Mark,
    agreed,
    align,
    is_same_message,
    parts_of,
    steps,
)
from treering.extensions.discussions.log.blocks import (
    Block,
    BlockHead,
    Deletion,
    StoredMessage,
    read_block,
    sorted_heads,
)
from treering.ports.ledger import Ledger
from treering.verbs.ingest.turns import Message, spoken_words

_REACH = 400
"""The number of messages beyond the transcript's length in which a window of the end is searched."""


@dataclass(slots=True)
class LogSnapshot:
    """The blocks of one discussion. Each is read once."""

    ledger: Ledger
    heads: Sequence[BlockHead]
    withdrawn: Mapping[int, BlockHead] = field(default_factory=dict)
    """Withdrawn blocks without a successor, by first position."""
    _blocks: dict[int, Block] = field(default_factory=dict)

    @classmethod
    def of(cls, ledger: Ledger, ref: DiscussionRef) -> "LogSnapshot":
        """Return a snapshot of the current messages."""
        sources = ledger.sources(scope=ref.scope, root=ref.origin)
        withdrawn = {head.first: head for head in sorted_heads(sources, status="archived")}
        return cls(ledger, sorted_heads(sources, status="active"), withdrawn)

    @property
    def count(self) -> int:
        """The number of stored messages, including deleted ones."""
        return self.heads[-1].end if self.heads else 0

    def gaps(self) -> list[tuple[int, int]]:
        """Return first position and end of each gap between blocks, left by a source that was erased by its id."""
        ends = [0, *(head.end for head in self.heads)]
        return [(end, head.first) for end, head in zip(ends, self.heads, strict=False) if end < head.first]

    def keys(self) -> set[str]:
        """Return the keys of all messages that are not deleted; reads every block."""
        return {mark.key for block in self.blocks(0) for mark in _marks(block, 0) if not mark.deleted}

    def placed(self, transcript: Sequence[Mark], *, end: int) -> dict[int, int]:
        """Return the positions of transcript messages that were erased before, by their index in the transcript.

        `transcript` agrees with the messages before position `end`, and is followed back from there.
        """
        positions: dict[int, int] = {}
        at = len(transcript)
        marks = [mark for block in self.blocks(0, end - 1) for mark in _marks(block, 0)]
        messages = self.messages(0, end - 1)
        for message, mark in reversed(list(zip(messages, marks, strict=False))):
            while at and not transcript[at - 1].key and not (mark.deleted and not mark.key):
                at -= 1
            if at and is_same_message(mark, transcript[at - 1]):
                at -= 1
                if not transcript[at].key:
                    positions[at] = message.position
            elif not mark.deleted:
                break
        return positions

    def block(self, head: BlockHead) -> Block:
        """Return a block. Raises `Conflict` if it changed since and no longer matches the others."""
        if head.first not in self._blocks:
            block = read_block(self.ledger, head)
            if block.head != head:
                raise Conflict(f"{block.source.origin} was changed by another writer.", hint="Read it again.")
            self._blocks[head.first] = block
        return self._blocks[head.first]

    def formerly(self, first: int) -> list[str]:
        """Return the ids of withdrawn sources that contained the position of a block, newest first."""
        head = self.withdrawn.get(first)
        return [head.source_id, *read_block(self.ledger, head).formerly] if head else []

    def blocks(self, first: int, last: int | None = None) -> Iterator[Block]:
        """Yield the blocks with messages from `first` to `last`."""
        for head in self.heads:
            if head.end > first and (last is None or head.first <= last):
                yield self.block(head)

    def messages(self, first: int, last: int | None = None) -> list[StoredMessage]:
        """Return the messages from `first` to `last`, both included."""
        end = self.count if last is None else last + 1
        return [
            message
            for block in self.blocks(first, last)
            for message in block.messages
            if first <= message.position < end
        ]

    def alignment(self, transcript: Sequence[Mark], *, start: int | None = None) -> Alignment:
        """Return the position of a transcript; from `start`, it contains all messages, including deleted ones."""
        if start is not None:
            match = agreed(self._steps(transcript, start, deleted="required"))
            return Alignment(start + match.kept, match.told)
        if not transcript or not self.count:
            return Alignment(self.count, 0)
        counts = self._counts(transcript)
        match = max(map(agreed, counts.values()), key=lambda reading: reading.kept)
        if match.kept == self.count or match.told == len(transcript):
            return Alignment(self.count, match.told)
        # If most of it agrees, it starts at the beginning, and the agreeing messages need not be read again.
        least = match.kept if 2 * match.told >= len(transcript) else 0
        first = max(least, self.count - len(transcript) - _REACH)
        newest = [mark for block in self.blocks(first) for mark in _marks(block, first)]
        begins = {at: after for block in self.blocks(first) for at, after in block.begins.items() if at >= first}
        return align(transcript, parts_of(newest, begins, first=first), counts)

    def _counts(self, transcript: Sequence[Mark]) -> dict[DeletedLookup, Sequence[int]]:
        """Compare a transcript with all messages in the order of their arrival."""
        counts: dict[DeletedLookup, Sequence[int]] = {"included": self._steps(transcript, 0, deleted="included")}
        if any(block.deletions for block in self._blocks.values()):
            counts["omitted"] = self._steps(transcript, 0, deleted="omitted")
        return counts

    def _steps(self, transcript: Sequence[Mark], start: int, *, deleted: DeletedLookup) -> list[int]:
        """Count the agreeing transcript messages after each stored one from a position (`alignment.steps`)."""
        counts = [0]
        erased = sum(not mark.key for mark in transcript)  # these may have no position in a block
        for head in self.heads:
            first, at = max(head.first, start), counts[-1]
            if head.end <= first:
                continue
            part = transcript[at : at + head.end - first]
            if first == head.first and len(part) == head.count and _chain(part) == head.chain:
                counts += range(at + 1, at + 1 + head.count)
                continue
            marks = _marks(self.block(head), first)
            further = steps(marks, transcript[at : at + len(marks) + erased], deleted=deleted)
            counts += [at + count for count in further[1:]]
            if len(further) <= len(marks):
                break
        return counts


@dataclass(frozen=True, slots=True)
class LogEntry:
    """A message of a transcript or to be written: a new one, a stored one, or a deleted one.

    `key`: empty for a message of a transcript that was erased before. `kept` and `segments` are present if it is stored
    already. `after`: it starts a part (`alignment.ConversationPart`).
    """

    key: str
    message: Message
    kept: StoredMessage | None = None
    segments: tuple[Segment, ...] = ()
    deletion: Deletion | None = None
    after: int | None = None

    @property
    def mark(self) -> Mark:
        """The mark of the message."""
        return Mark(self.deletion.key, self.role, deleted=True) if self.deletion else Mark(self.key, self.role)

    @property
    def role(self) -> str:
        """The role for comparisons."""
        return self.message.role or self.message.name

    @property
    def at(self) -> datetime | None:
        """The time of the message."""
        return self.deletion.at if self.deletion else self.message.at

    @classmethod
    def erased(
        cls, position: int, *, role: str = "", at: datetime | None = None, after: int | None = None
    ) -> "LogEntry":
        """Return the placeholder of an erased message, which nothing identifies."""
        empty = Message(content="", role=role)
        return cls(empty.key, empty, deletion=Deletion(position, role, "", at), after=after)

    def without_words(self, position: int, *, erased: bool) -> "LogEntry":
        """Return the placeholder of the message; if it is erased, nothing identifies it."""
        if erased:
            return LogEntry.erased(position, role=self.role, at=self.at, after=self.after)
        deletion = Deletion(position, self.role, self.key, self.at)
        return LogEntry(self.key, Message(content="", role=self.role), deletion=deletion, after=self.after)


def entries_of(block: Block) -> list[LogEntry]:
    """Return the messages of a block as entries."""
    segments = {segment.segment_id: segment for segment in block.source.segments}
    deletions = {deletion.position: deletion for deletion in block.deletions}
    return [_entry(kept, segments, deletions.get(kept.position)) for kept in block.messages]


def _marks(block: Block, first: int) -> list[Mark]:
    keys = {deletion.position: deletion.key for deletion in block.deletions}
    messages = [message for message in block.messages if message.position >= first]
    return [Mark(keys.get(one.position, _key(one)), one.role, one.deleted) for one in messages]


def _key(message: StoredMessage) -> str:
    # Older versions stored thoughts of models; the transcript has the message without them.
    return message_key(message.role, spoken_words(message.role, message.text))


def _chain(marks: Sequence[Mark]) -> str:
    *_, last = chain_hashes(mark.key for mark in marks)
    return last


def _entry(stored: StoredMessage, segments: Mapping[str, Segment], deletion: Deletion | None) -> LogEntry:
    own = tuple(segments[identity] for identity in stored.segment_ids)
    place = own[0].locator if own else None
    message = Message(
        content=stored.text,
        role=stored.role,
        name=stored.speaker if stored.speaker != stored.role else "",
        id=place.message_id if isinstance(place, Turn) else "",
        at=stored.at,
    )
    key = deletion.key if deletion and deletion.key else message.key
    return LogEntry(key, message, stored, own, deletion, stored.after)
