"""What is kept of a discussion at one moment, read no further than it is asked for."""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime

from treering.core.canonical import chain_hashes, message_key
from treering.core.errors import Conflict
from treering.core.evidence import Segment, Turn
from treering.extensions.discussions.identity import DiscussionRef
from treering.extensions.discussions.log.alignment import (
    Agreement,
    Alignment,
    DeletedLookup,
    Mark,
    agreed,
    align,
    is_end,
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
"""A window of the end is looked for among so many messages more than are told."""


@dataclass(slots=True)
class LogSnapshot:
    """The blocks of one discussion. Each is read once."""

    ledger: Ledger
    heads: Sequence[BlockHead]
    withdrawn: Mapping[int, BlockHead] = field(default_factory=dict)
    """Blocks that were withdrawn and have no successor, by first position."""
    _blocks: dict[int, Block] = field(default_factory=dict)

    @classmethod
    def of(cls, ledger: Ledger, ref: DiscussionRef) -> "LogSnapshot":
        """Look at what is kept now."""
        sources = ledger.sources(scope=ref.scope, root=ref.origin)
        withdrawn = {head.first: head for head in sorted_heads(sources, status="archived")}
        return cls(ledger, sorted_heads(sources, status="active"), withdrawn)

    @property
    def count(self) -> int:
        """How many messages are kept, deleted ones too."""
        return self.heads[-1].end if self.heads else 0

    def gaps(self) -> list[tuple[int, int]]:
        """Return first position and end of each stretch between blocks, whose source was erased by its id."""
        ends = [0, *(head.end for head in self.heads)]
        return [(end, head.first) for end, head in zip(ends, self.heads, strict=False) if end < head.first]

    def keys(self) -> set[str]:
        """Return the keys of all messages that are not deleted; reads every block."""
        return {mark.key for block in self.blocks(0) for mark in _marks(block, 0) if not mark.deleted}

    def placed(self, told: Sequence[Mark], *, end: int) -> dict[int, int]:
        """Return the positions of told messages that were erased before, by their index in what is told.

        `told` agrees with the messages before position `end`, and is followed back from there.
        """
        found: dict[int, int] = {}
        at = len(told)
        for kept in reversed(self.messages(0, end - 1)):
            mark = mark_of(kept, self._deleted_key(kept))
            while at and not told[at - 1].key and not (mark.deleted and not mark.key):
                at -= 1
            if at and is_same_message(mark, told[at - 1]):
                at -= 1
                if not told[at].key:
                    found[at] = kept.position
            elif not mark.deleted:
                break
        return found

    def _deleted_key(self, kept: StoredMessage) -> str | None:
        if not kept.deleted:
            return None
        deletions = (one for block in self.blocks(kept.position, kept.position) for one in block.deletions)
        return next(one.key for one in deletions if one.position == kept.position)

    def block(self, head: BlockHead) -> Block:
        """Return a block. Raises `Conflict` where it changed since: it would not fit what is known of the others."""
        if head.first not in self._blocks:
            block = read_block(self.ledger, head)
            if block.head != head:
                raise Conflict(f"{block.source.origin} was changed by another writer.", hint="Read it again.")
            self._blocks[head.first] = block
        return self._blocks[head.first]

    def formerly(self, first: int) -> list[str]:
        """Return the ids of withdrawn sources that stood where a block begins or would begin, newest first."""
        head = self.withdrawn.get(first)
        return [head.source_id, *read_block(self.ledger, head).formerly] if head else []

    def blocks(self, first: int, last: int | None = None) -> Iterator[Block]:
        """Return the blocks that hold messages from `first` to `last`."""
        for head in self.heads:
            if head.end > first and (last is None or head.first <= last):
                yield self.block(head)

    def messages(self, first: int, last: int | None = None) -> list[StoredMessage]:
        """Return the messages from `first` to `last`, both included."""
        end = self.count if last is None else last + 1
        return [kept for block in self.blocks(first, last) for kept in block.messages if first <= kept.position < end]

    def agreement(self, told: Sequence[Mark], *, start: int) -> Agreement:
        """Tell how far a transcript of everything from a position on agrees; deleted messages are all in it."""
        found = agreed(self._steps(told, start, deleted="required"))
        return Agreement(start + found.kept, found.told)

    def alignment(self, told: Sequence[Mark]) -> Alignment:
        """Tell where a transcript belongs."""
        if not told or not self.count:
            return Alignment(self.count, 0)
        counts = self._counts(told)
        found = max(map(agreed, counts.values()), key=lambda reading: reading.kept)
        live = [mark for mark in told if mark.key]
        if found.kept == self.count or (found.told == len(told) and self._ends_with(live)):
            return Alignment(self.count, found.told)
        # Where most of it agrees it is told from the beginning, and what stands there need not be read.
        least = found.kept if 2 * found.told >= len(told) else 0
        first = max(least, self.count - len(told) - _REACH)
        return align(told, parts_of(self._newest(first), self._begins(first), first=first), counts)

    def _counts(self, told: Sequence[Mark]) -> dict[DeletedLookup, Sequence[int]]:
        """Follow a transcript through all messages in the order in which they came in."""
        counts: dict[DeletedLookup, Sequence[int]] = {"included": self._steps(told, 0, deleted="included")}
        if any(block.deletions for block in self._blocks.values()):
            counts["omitted"] = self._steps(told, 0, deleted="omitted")
        return counts

    def _newest(self, first: int) -> list[Mark]:
        return [mark for block in self.blocks(first) for mark in _marks(block, first)]

    def _begins(self, first: int) -> dict[int, int]:
        """Return where parts begin from a position on, and which position each continues."""
        kept = (kept for block in self.blocks(first) for kept in block.messages)
        return {one.position: one.after for one in kept if one.after is not None and one.position >= first}

    def _ends_with(self, told: Sequence[Mark]) -> bool:
        """Tell whether a transcript is just the last messages; reads no further back than that may be."""
        left = list(told)
        for head in reversed(self.heads):
            marks = _marks(self.block(head), head.first)
            here = min(len(left), sum(not mark.deleted for mark in marks))
            if here and not is_end(left[-here:], marks):
                return False
            del left[len(left) - here :]
            if not left:
                return True
        return False

    def _steps(self, told: Sequence[Mark], start: int, *, deleted: DeletedLookup) -> list[int]:
        """Count the told messages that agree behind each kept one from a position on (`alignment.steps`)."""
        counts = [0]
        erased = sum(not mark.key for mark in told)  # these may have no place in a block
        for head in self.heads:
            first, at = max(head.first, start), counts[-1]
            if head.end <= first:
                continue
            part = told[at : at + head.end - first]
            if first == head.first and len(part) == head.count and _chain(part) == head.chain:
                counts += range(at + 1, at + 1 + head.count)
                continue
            marks = _marks(self.block(head), first)
            further = steps(marks, told[at : at + len(marks) + erased], deleted=deleted)
            counts += [at + count for count in further[1:]]
            if len(further) <= len(marks):
                break
        return counts


def mark_of(kept: StoredMessage, key: str | None = None) -> Mark:
    """Return what is compared of a kept message; `key` is that of a deleted one."""
    if key is None:
        # What an older version stored with the thoughts of a model is the message that is told without them.
        key = message_key(kept.role, spoken_words(kept.role, kept.text))
    return Mark(key, kept.role, kept.deleted)


@dataclass(frozen=True, slots=True)
class LogEntry:
    """One message as it shall stand: a new one, one that is kept, or one whose words are gone.

    `kept` and `segments` are there where it stands so already. `after`: a part begins with it
    (`alignment.ConversationPart`).
    """

    key: str
    message: Message
    kept: StoredMessage | None = None
    segments: tuple[Segment, ...] = ()
    deletion: Deletion | None = None
    after: int | None = None

    @property
    def mark(self) -> Mark:
        """What is compared of it."""
        role = self.message.role or self.message.name
        return Mark(self.deletion.key, role, deleted=True) if self.deletion else Mark(self.key, role)

    @property
    def at(self) -> datetime | None:
        """When it was said."""
        return self.deletion.at if self.deletion else self.message.at

    @classmethod
    def erased(
        cls, position: int, *, role: str = "", at: datetime | None = None, after: int | None = None
    ) -> "LogEntry":
        """Return the place of a message that was erased; nothing tells it from others."""
        empty = Message(content="", role=role)
        return cls(empty.key, empty, deletion=Deletion(position, role, "", at), after=after)

    def without_words(self, position: int, *, erased: bool) -> "LogEntry":
        """Return the place of the message; where it is erased, nothing tells it from others any more."""
        role = self.message.role or self.message.name
        if erased:
            return LogEntry.erased(position, role=role, at=self.at, after=self.after)
        deletion = Deletion(position, role, self.key, self.at)
        return LogEntry(self.key, Message(content="", role=role), deletion=deletion, after=self.after)


def entries_of(block: Block) -> list[LogEntry]:
    """Return the messages of a block as they are kept."""
    segments = {segment.segment_id: segment for segment in block.source.segments}
    deletions = {deletion.position: deletion for deletion in block.deletions}
    return [_entry(kept, segments, deletions.get(kept.position)) for kept in block.messages]


def _marks(block: Block, first: int) -> list[Mark]:
    keys = {deletion.position: deletion.key for deletion in block.deletions}
    return [mark_of(kept, keys.get(kept.position)) for kept in block.messages if kept.position >= first]


def _chain(marks: Sequence[Mark]) -> str:
    *_, last = chain_hashes(mark.key for mark in marks)
    return last


def _entry(kept: StoredMessage, segments: Mapping[str, Segment], deletion: Deletion | None) -> LogEntry:
    own = tuple(segments[identity] for identity in kept.segment_ids)
    place = own[0].locator if own else None
    message = Message(
        content=kept.text,
        role=kept.role,
        name=kept.speaker if kept.speaker != kept.role else "",
        id=place.message_id if isinstance(place, Turn) else "",
        at=kept.at,
    )
    key = deletion.key if deletion and deletion.key else message.key
    return LogEntry(key, message, kept, own, deletion, kept.after)
