"""Rewriting: from the intended messages of a stretch of blocks to the operations that write them."""

from collections.abc import Collection, Iterable, Iterator, Sequence
from dataclasses import dataclass
from itertools import accumulate, groupby, islice, takewhile

from treering.core.canonical import chain_hashes
from treering.core.evidence import EvidenceRef, Locator, Segment, Turn, segment_hash
from treering.core.objects import Knowledge, Source
from treering.core.patch import Create, Operation, Transition, Update
from treering.extensions.discussions.identity import DiscussionRef
from treering.extensions.discussions.log.blocks import (
    FORMERLY,
    Block,
    ChunkState,
    Condensation,
    block_origin,
    fingerprint_of,
    payload_of,
)
from treering.extensions.discussions.log.snapshot import LogEntry, LogSnapshot, entries_of
from treering.extensions.statements.conversations import said_of
from treering.extensions.statements.ledger import by_message
from treering.extensions.statements.reading import statements_of
from treering.extensions.statements.statement import Statement
from treering.extensions.statements.stored import STATEMENTS, dumped, loaded
from treering.ports.adapter import SegmentDraft
from treering.ports.runtime import fresh_id, fresh_salt, fresh_segment_id
from treering.verbs.engine import Engine
from treering.verbs.ingest.turns import TURNS_BEFORE, Message, TurnWriter, lossless


@dataclass(frozen=True, slots=True)
class RewrittenStretch:
    """The intended messages of a discussion from position `first`, where a block begins.

    `sizes` are the sizes of the blocks. `is_end`: nothing follows, and existing later blocks are withdrawn. `renewed`:
    first positions of blocks that become new sources because the old ones will be erased.
    """

    first: int
    entries: Sequence[LogEntry]
    sizes: Sequence[int]
    is_end: bool = True
    renewed: frozenset[int] = frozenset()

    def cuts(self) -> Iterator[tuple[int, int]]:
        """Return start and end of each block, as indices of `entries`."""
        ends = list(accumulate(self.sizes))
        return zip([0, *ends], ends, strict=False)


class Rewriting:
    """The operations that change a stored discussion to a stretch."""

    def __init__(self, engine: Engine, ref: DiscussionRef, history: LogSnapshot, stretch: RewrittenStretch) -> None:
        self._engine = engine
        self._ref = ref
        self._history = history
        self._stretch = stretch
        self._writer = TurnWriter(lossless(engine.segmenters["text"]), engine.limits.max_segment_chars)
        self._vanished: set[tuple[str, str]] = set()
        self._moved: dict[tuple[str, str], tuple[str, str]] = {}

    def operations(self) -> list[Operation]:
        """Return the operations. Derived memories are archived first, so that none of them becomes stale."""
        blocks = [*self._archived_blocks(), *self._blocks()]
        return [*self._withdrawals(), *blocks, *self._moved_evidence()]

    def _archived_blocks(self) -> Iterator[Operation]:
        """Archive the unneeded blocks, and the blocks that become new sources."""
        starts = {self._stretch.first + start for start, _ in self._stretch.cuts()} - self._stretch.renewed
        end = self._stretch.first + len(self._stretch.entries)
        for head in self._history.heads:
            inside = head.first >= self._stretch.first and (self._stretch.is_end or head.first < end)
            if inside and head.first not in starts:
                yield Transition(id=head.source_id, expected_revision=head.revision, to="archived")
                if head.first not in self._stretch.renewed:
                    self._note_vanished(self._history.block(head).source, ())

    def _blocks(self) -> Iterator[Operation]:
        heads = {head.first: head for head in self._history.heads}
        for start, end in self._stretch.cuts():
            closed = end < len(self._stretch.entries) or not self._stretch.is_end
            block = _Written(self._stretch.first + start, start, self._stretch.entries[start:end], closed)
            head = heads.get(block.first)
            if head is None:
                yield Create(object=self._source(block))
            elif block.first in self._stretch.renewed:
                yield Create(object=self._renewed(block, self._history.block(head)))
            else:
                yield from self._update(block, self._history.block(head))

    def _source(self, block: "_Written") -> Source:
        salt, now = fresh_salt(self._engine.clock), self._engine.clock.now()
        return Source(
            id=fresh_id("source", self._engine.clock),
            kind="conversation",
            scope=self._ref.scope,
            created_at=now,
            updated_at=now,
            salt=salt,
            origin=block_origin(self._ref.origin, block.first),
            title=f"Discussion {self._ref.id}",
            metadata={"discussion": self._ref.id},
            captured_at=now,
            fingerprint=block.fingerprint,
            segments=tuple(self._with_fresh_id(part) for part in self._segments(block, 0, salt)),
            payload=self._payload(block, None) | self._formerly(block.first),
        )

    def _formerly(self, first: int) -> dict[str, object]:
        """Record the withdrawn sources with the same position, so that erasing finds them."""
        ids = self._history.formerly(first)
        return {FORMERLY: ids} if ids else {}

    def _with_fresh_id(self, segment: Segment) -> Segment:
        return segment.model_copy(update={"segment_id": fresh_segment_id(self._engine.clock)})

    def _renewed(self, block: "_Written", old: Block) -> Source:
        """Return a source that replaces one to be erased; evidence in the remaining messages is moved to it."""
        source = self._source(block)
        remaining = [segment.segment_id for entry in block.entries for segment in entry.segments]
        for was, now in zip(remaining, source.segments, strict=True):
            self._moved[old.source.id, was] = (source.id, now.segment_id)
        self._note_vanished(old.source, remaining)
        payload = self._payload(block, old) | {FORMERLY: [old.source.id, *old.formerly]}
        return source.model_copy(update={"payload": payload, "captured_at": old.source.captured_at})

    def _update(self, block: "_Written", old: Block) -> Iterator[Operation]:
        unchanged = block.unchanged(old) if self._has_same_context(block) else 0
        segments = self._segments(block, unchanged, old.source.salt)
        self._note_vanished(old.source, [segment.segment_id for segment in segments])
        fields = {"fingerprint": block.fingerprint, "segments": segments, "payload": self._payload(block, old)}
        changes = {name: value for name, value in fields.items() if value != getattr(old.source, name)}
        if changes:
            yield Update(id=old.source.id, expected_revision=old.head.revision, changes=changes)

    def _payload(self, block: "_Written", old: Block | None) -> dict[str, object]:
        """Return the payload of a block, with the statements of its messages if it is closed.

        An open block changes with every message, and its few messages are read when they are needed. Statements of
        unchanged messages stay.
        """
        known = by_message(loaded(old.source) or ()) if old else {}
        before = {kept.position: kept for kept in old.messages} if old else {}
        statements: list[Statement] = []
        for position, entry in enumerate(block.entries if block.closed else (), block.first):
            if entry.kept and entry.kept == before.get(position) and position in known:
                statements += known[position]
            elif not entry.deletion:
                statements += statements_of(said_of(entry.message, position, self._engine.time_zone))
        payload = {name: value for name, value in block.payload(old).items() if name != STATEMENTS}
        return payload | dumped(statements, block.fingerprint)

    def _segments(self, block: "_Written", unchanged: int, salt: str) -> tuple[Segment, ...]:
        """Return the segments of a block; those of the first `unchanged` messages stay."""
        chains = list(chain_hashes(entry.key for entry in block.entries))
        drafts = self._writer.write(
            [entry.message for entry in block.entries[unchanged:]],
            first=block.first + unchanged,
            before=self._spoken_before(block.start + unchanged),
            chain=chains[unchanged - 1] if unchanged else "",
        )
        by_turn = {turn: list(group) for turn, group in groupby(drafts, key=_turn)}
        segments = [segment for entry in block.entries[:unchanged] for segment in entry.segments]
        for at, entry in enumerate(block.entries[unchanged:], start=unchanged):
            segments += self._turn_segments(entry, by_turn.get(block.first + at, []), chains[at], salt)
        return tuple(_changed(segment, position=at) for at, segment in enumerate(segments))

    def _turn_segments(
        self, entry: LogEntry, drafts: Sequence[SegmentDraft], chain: str, salt: str
    ) -> Iterator[Segment]:
        own = entry.segments
        if own and [draft.text for draft in drafts] != [segment.excerpt for segment in own]:
            # It was split by other rules, and is not split again because of a change next to it.
            for segment in own:
                rehashed = segment_hash(segment.excerpt, salt=salt)
                yield _changed(segment, hash=rehashed, locator=_chained(segment.locator, chain))
            return
        ids = [segment.segment_id for segment in own] or [fresh_segment_id(self._engine.clock) for _ in drafts]
        for identity, draft in zip(ids, drafts, strict=True):
            yield Segment(
                segment_id=identity,
                locator=_chained(draft.locator, chain),
                excerpt=draft.text,
                hash=segment_hash(draft.text, salt=salt),
                position=0,
                heading=draft.heading,
                gist=draft.gist,
            )

    def _has_same_context(self, block: "_Written") -> bool:
        """Return whether the messages before a block are unchanged; its first segments are indexed with them."""
        return block.start == 0 or self._spoken_before(block.start) == self._stored_before(block.first)

    def _spoken_before(self, start: int) -> list[Message]:
        """Return the last undeleted messages before an entry."""
        spoken = _last_spoken(self._stretch.entries[:start])
        missing = TURNS_BEFORE - len(spoken)
        return [*self._stored_before(self._stretch.first)[-missing:], *spoken] if missing else spoken

    def _stored_before(self, position: int) -> list[Message]:
        """Return the last undeleted messages stored before the beginning of a block."""
        spoken: list[Message] = []
        for head in reversed([head for head in self._history.heads if head.first < position]):
            spoken = [*_last_spoken(entries_of(self._history.block(head))), *spoken][-TURNS_BEFORE:]
            if len(spoken) == TURNS_BEFORE:
                break
        return spoken

    def _note_vanished(self, before: Source, left: Collection[str]) -> None:
        gone = {segment.segment_id for segment in before.segments}.difference(left)
        self._vanished.update((before.id, segment_id) for segment_id in gone)

    def _withdrawals(self) -> Iterator[Operation]:
        """Archive the memories of messages that vanish. Knowledge derived from those memories is archived with them."""
        for item in self._resting_on({source for source, _ in self._vanished}):
            if item.status != "archived" and self._covers_vanished(item):
                yield Transition(id=item.id, expected_revision=item.revision, to="archived")

    def _moved_evidence(self) -> Iterator[Operation]:
        """Move evidence in a replaced source to the new one, if the message is still there."""
        for item in self._resting_on({source for source, _ in self._moved}):
            refs = tuple(self._moved_ref(ref) for ref in item.evidence_refs)
            if refs != item.evidence_refs and not self._covers_vanished(item):
                yield Update(id=item.id, expected_revision=item.revision, changes={"evidence_refs": refs})

    def _moved_ref(self, ref: EvidenceRef) -> EvidenceRef:
        now = self._moved.get((ref.source_id, ref.segment_id))
        return EvidenceRef(source_id=now[0], segment_id=now[1], role=ref.role) if now else ref

    def _covers_vanished(self, item: Knowledge) -> bool:
        places = {(ref.source_id, ref.segment_id) for ref in item.evidence_refs}
        return item.kind == "summary" and not places.isdisjoint(self._vanished)

    def _resting_on(self, sources: Iterable[str]) -> list[Knowledge]:
        ledger = self._engine.ledger
        ids = sorted({identity for source in sources for identity in ledger.dependents(source)})
        return [item for item in map(ledger.get, ids) if isinstance(item, Knowledge)]


@dataclass(frozen=True, slots=True)
class _Written:
    """A block to be written: its first position, and the index of its first entry in the stretch."""

    first: int
    start: int
    entries: Sequence[LogEntry]
    closed: bool

    @property
    def fingerprint(self) -> str:
        return fingerprint_of([entry.key for entry in self.entries])

    def unchanged(self, old: Block) -> int:
        """Count the leading messages that stay unchanged."""
        pairs = zip(self.entries, old.messages, strict=False)
        return sum(1 for _ in takewhile(lambda pair: pair[0].kept == pair[1], pairs))

    def payload(self, old: Block | None) -> dict[str, object]:
        """Return the payload. Chunks and condensations stay if all their messages do."""
        remaining = {entry.kept.position for entry in self.entries if entry.kept}
        gone = {message.position for message in old.messages}.difference(remaining) if old else set()
        return payload_of(
            chunks=[one for one in old.chunks if not _covers(one, gone)] if old else (),
            condensations=[one for one in old.condensations if not _covers(one, gone)] if old else (),
            deletions=[entry.deletion for entry in self.entries if entry.deletion],
            begins={at: entry.after for at, entry in enumerate(self.entries, self.first) if entry.after is not None},
            closed=self.closed,
            noted=old.source.payload if old else None,
        )


def _covers(part: ChunkState | Condensation, positions: Collection[int]) -> bool:
    return any(part.first <= position <= part.last for position in positions)


def _last_spoken(entries: Sequence[LogEntry]) -> list[Message]:
    """Return the last messages that are not deleted."""
    spoken = (entry.message for entry in reversed(entries) if not entry.deletion)
    return [*islice(spoken, TURNS_BEFORE)][::-1]


def _turn(draft: SegmentDraft) -> int:
    return draft.locator.turn if isinstance(draft.locator, Turn) else -1


def _chained(locator: Locator, chain: str) -> Locator:
    if not isinstance(locator, Turn) or locator.chain == chain:
        return locator
    return locator.model_copy(update={"chain": chain})


def _changed(segment: Segment, **fields: object) -> Segment:
    if all(getattr(segment, name) == value for name, value in fields.items()):
        return segment
    return segment.model_copy(update=fields)
