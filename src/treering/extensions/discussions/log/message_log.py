"""The messages of a discussion in the ledger: recording, reading and deleting."""

from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from itertools import zip_longest
from types import MappingProxyType
from typing import TypeVar

from pydantic import JsonValue

from treering.core.errors import Conflict, InvalidInput, NotFound
from treering.core.patch import Update
from treering.core.screening import screened
from treering.extensions.discussions.identity import DiscussionRef, apply_patch
from treering.extensions.discussions.log.alignment import Alignment, Mark, is_same_message
from treering.extensions.discussions.log.blocks import (
    Block,
    BlockHead,
    ChunkState,
    StoredMessage,
    block_sizes,
    heads_of,
    read_block,
)
from treering.extensions.discussions.log.deleting import DeletedMessages, delete_messages, erase_messages
from treering.extensions.discussions.log.rewriting import Rewriting, RewrittenStretch
from treering.extensions.discussions.log.snapshot import LogEntry, LogSnapshot, entries_of
from treering.extensions.discussions.log.transcript import transcript_of
from treering.verbs.engine import Engine, retry_on_conflict
from treering.verbs.ingest.erased import ErasedTexts, forget
from treering.verbs.ingest.turns import Message

_Result = TypeVar("_Result")


@dataclass(frozen=True, slots=True)
class Recorded:
    """The result of recording, in messages. `diverged_at`: where the transcript differs from the stored messages."""

    appended: int = 0
    unchanged: int = 0
    withdrawn: int = 0
    diverged_at: int | None = None
    count: int = 0
    """The number of stored messages, including deleted ones."""
    staled: tuple[str, ...] = ()
    """Knowledge that lost its last support."""
    is_apart: bool = False
    """Whether the appended messages are a new conversation, which continues no stored message."""
    left_out: int = 0
    """Messages without text, and messages, or parts of them, that were erased before."""
    empty: int = 0
    """The number of omitted messages without text. The option `again` records the others."""
    erased_on: str = ""
    """The day of the last erasure of the omitted messages."""
    placed: int = 0
    """The number of new positions of omitted messages, so that later messages keep their positions."""

    def left_out_reason(self) -> str:
        """Return the number of omitted messages, their erasure, and how to record them; empty if there are none."""
        reasons = [f"{_messages(self.empty)} empty and skipped"] if self.empty else []
        if erased := self.left_out - self.empty:
            omitted = f"{_messages(erased)} erased on {self.erased_on}"
            reasons.append(f"{omitted}, in whole or in part, and skipped; the option `again` (--again) records them")
        return "; ".join(reasons)


def _messages(count: int) -> str:
    return f"{count} message{' was' if count == 1 else 's were'}"


class MessageLog:
    """The messages of one discussion. Stateless; several processes may write at once.

    Writing raises `Conflict` after repeated conflicts with other writers, and `Denied` if the policy of the space
    requires a review of the author's writes.
    """

    def __init__(self, engine: Engine, ref: DiscussionRef) -> None:
        self._engine = engine
        self.ref = ref

    def count(self) -> int:
        """Return the number of messages, including deleted ones."""
        heads = self.blocks()
        return heads[-1].end if heads else 0

    def exists(self) -> bool:
        """Return whether anything is stored for the discussion."""
        return bool(self.blocks())

    def read(self, first: int = 0, last: int | None = None) -> list[StoredMessage]:
        """Return the messages from position `first` to `last`, both included; deleted ones have no text."""
        return self._retried(lambda: self._history().messages(max(0, first), last))

    def tail(self, count: int) -> list[StoredMessage]:
        """Return the last messages."""
        return self.read(self.count() - count)[-count:] if count > 0 else []

    def blocks(self) -> list[BlockHead]:
        """Return the heads of the blocks, in order."""
        return heads_of(self._engine.ledger, self.ref)

    def block(self, head: BlockHead) -> Block:
        """Read the current state of a block. Raises `NotFound` if it was erased."""
        return read_block(self._engine.ledger, head)

    def chunks(self) -> Iterator[ChunkState]:
        """Yield the states of all chunks, in order."""
        for head in self.blocks():
            yield from self.block(head).chunks

    def record(self, messages: Sequence[Message], *, start: int | None = None, again: bool = False) -> Recorded:
        """Store the messages that a client sends. Idempotent.

        With `start` they are all messages from that position. Without, they are all messages, or a window of the latest
        ones; `alignment` defines what is appended and withdrawn. A message that was erased before only gets a position,
        unless `again` is set. Raises `InvalidInput` for a `start` after the end.
        """

        def place_of(history: LogSnapshot, marks: Sequence[Mark]) -> Alignment:
            if start is not None:
                _check_start(start, history.count)
            return history.alignment(marks, start=start)

        return _counting_empty(messages, self._retried(lambda: self._record(messages, place_of, again=again)))

    def restore(self, messages: Sequence[Message], *, begins: Mapping[int, int]) -> Recorded:
        """Store all messages of an exported discussion. `begins`: the position that each new part continues."""
        return self._retried(lambda: self._record(messages, lambda _history, _marks: Alignment(0, 0), begins=begins))

    def append(self, messages: Sequence[Message], *, again: bool = False) -> Recorded:
        """Store messages after all existing ones, even if they repeat them.

        A message that was erased before only gets a position, unless `again` is set.
        """

        def place_of(history: LogSnapshot, _marks: Sequence[Mark]) -> Alignment:
            return Alignment(history.count, 0)

        return _counting_empty(messages, self._retried(lambda: self._record(messages, place_of, again=again)))

    def note(self, facts: Mapping[str, JsonValue]) -> None:
        """Store facts about the conversation with its latest messages, without secrets. Idempotent.

        They are erased with any of these messages. Raises `Denied` if the space requires a review.
        """
        clean = screened(dict(facts)).value
        self._retried(lambda: self._note(clean))

    def delete(self, positions: Collection[int], *, erase: bool = False) -> DeletedMessages:
        """Delete the texts of messages, and the memories derived from them; their positions stay taken.

        With `erase`, also remove the texts from all earlier versions and from withdrawn versions of the same positions.
        Raises `InvalidInput` for an unknown position, and `Denied` if the author may not erase.
        """
        engine, chosen = self._engine, frozenset(positions)
        if erase:
            return self._retried(lambda: erase_messages(engine, self.ref, chosen))
        return self._retried(lambda: delete_messages(engine, self.ref, chosen))

    def _note(self, facts: Mapping[str, JsonValue]) -> None:
        source = self.block(self.blocks()[-1]).source
        metadata = {**source.metadata, **facts}
        if metadata != source.metadata:
            update = Update(id=source.id, expected_revision=source.revision, changes={"metadata": metadata})
            apply_patch(self._engine, self.ref, [update], reason="Facts")

    def _history(self) -> LogSnapshot:
        return LogSnapshot.of(self._engine.ledger, self.ref)

    def _record(
        self,
        messages: Sequence[Message],
        place_of: Callable[[LogSnapshot, Sequence[Mark]], Alignment],
        *,
        again: bool = False,
        begins: Mapping[int, int] = MappingProxyType({}),
    ) -> Recorded:
        """Store messages at the place that `place_of` chooses. `begins`: as for `restore`."""
        history, transcript = self._whole_history(), transcript_of(messages)
        filtered = self._without_erased(history, transcript, again=again)
        entries = filtered.messages
        marks = [one.mark for one in entries]
        place = place_of(history, marks)
        restored: dict[int, LogEntry] = {}
        if again and filtered.left_out:
            # A part that continues an earlier message agrees with the transcript up to that message.
            end = place.position if place.after is None else place.after
            placed = history.placed(marks[: place.told], end=end)
            restored = {position: transcript[index] for index, position in placed.items()}
            entries = transcript
        if not history.count and not any(one.key for one in entries):
            return self._reported(filtered, Recorded(), again=again)  # erased messages alone begin no discussion
        result = self._rewrite(
            history,
            entries[place.told :],
            at=place.position,
            unchanged=place.told - place.ignored,
            begins=begins if place.after is None else {place.position: place.after},
            restored=restored,
        )
        return self._reported(filtered, result, again=again)

    def _without_erased(self, history: LogSnapshot, transcript: Sequence[LogEntry], *, again: bool) -> "_Filtered":
        """Remove messages that were erased before from a transcript, unless the discussion contains them elsewhere."""
        texts = ErasedTexts.of(self._engine, self.ref.scope, again=again)
        if not texts.marks:
            return _Filtered(transcript)
        messages = [_without_erased(one, texts, self.ref.origin) for one in transcript]
        cut = [at for at, (one, before) in enumerate(zip(messages, transcript, strict=True)) if one is not before]
        if not cut:
            return _Filtered(transcript)
        stored = history.keys()
        left_out = [at for at in cut if transcript[at].key not in stored]
        for at in set(cut).difference(left_out):
            messages[at] = transcript[at]
        return _Filtered(messages, len(left_out), texts.last_day(), texts)

    def _reported(self, filtered: "_Filtered", result: Recorded, *, again: bool) -> Recorded:
        if not filtered.left_out:
            return result
        if again:
            forget(self._engine, filtered.texts)
            return result
        whole = sum(not one.key for one in filtered.messages)
        unchanged = max(0, result.unchanged - (whole - result.placed))
        return replace(result, unchanged=unchanged, left_out=filtered.left_out, erased_on=filtered.erased_on)

    def _whole_history(self) -> LogSnapshot:
        """Return the stored messages, after writing placeholders for blocks whose source was erased by its id."""
        history = self._history()
        for first, end in history.gaps():
            entries = [LogEntry.erased(position) for position in range(first, end)]
            stretch = RewrittenStretch(first, entries, block_sizes(entry.at for entry in entries), is_end=False)
            operations = Rewriting(self._engine, self.ref, history, stretch).operations()
            apply_patch(self._engine, self.ref, operations, reason="Places of erased messages")
        return self._history() if history.gaps() else history

    def _rewrite(
        self,
        history: LogSnapshot,
        messages: Sequence[LogEntry],
        *,
        at: int,
        unchanged: int,
        begins: Mapping[int, int],
        restored: Mapping[int, LogEntry],
    ) -> Recorded:
        """Replace all messages from a position. `begins`: the position that the part at a position continues.

        `restored`: messages that replace erased ones before that position.
        """
        if at == history.count and not messages and not restored:
            return Recorded(unchanged=unchanged, count=at)
        # The block before may be continued or closed, so it is included.
        since = min((at, *restored))
        first = next((head.first for head in reversed(history.heads) if head.first < since), since)
        entries_before = [entry for block in history.blocks(first) for entry in entries_of(block)]
        kept = entries_before[at - first :]
        merged = _merged(kept, messages, at)
        new_entries = [replace(one, after=begins.get(place, one.after)) for place, one in enumerate(merged, at)]
        before = [
            replace(restored[place], after=one.after) if place in restored else one
            for place, one in enumerate(entries_before[: at - first], first)
        ]
        entries = [*before, *new_entries]
        stretch = RewrittenStretch(first, entries, block_sizes(entry.at for entry in entries))
        operations = Rewriting(self._engine, self.ref, history, stretch).operations()
        receipt = apply_patch(self._engine, self.ref, operations, reason="Messages")
        unchanged_entries = sum(entry.kept is not None for entry in new_entries)
        placed = sum(entry.kept is None and entry.deletion is not None for entry in new_entries)
        live = sum(entry.deletion is None for entry in kept)
        return Recorded(
            appended=len(messages) - unchanged_entries - placed + len(restored),
            unchanged=unchanged + unchanged_entries - len(restored),
            withdrawn=live - sum(entry.kept is not None and entry.deletion is None for entry in new_entries),
            diverged_at=at if kept else None,
            count=at + len(messages),
            staled=receipt.staled,
            is_apart=begins.get(at) == 0,
            placed=placed,
        )

    def _retried(self, work: Callable[[], _Result]) -> _Result:
        return retry_on_conflict(work, on=(Conflict, NotFound))


def _counting_empty(messages: Sequence[Message], result: Recorded) -> Recorded:
    empty = sum(not message.content.strip() for message in messages)
    return replace(result, left_out=result.left_out + empty, empty=empty)


@dataclass(frozen=True, slots=True)
class _Filtered:
    """A transcript without messages that were erased before; completely erased messages have an empty key."""

    messages: Sequence[LogEntry]
    left_out: int = 0
    erased_on: str = ""
    texts: ErasedTexts = field(default_factory=ErasedTexts)


def _without_erased(entry: LogEntry, texts: ErasedTexts, origin: str) -> LogEntry:
    message = entry.message
    remaining = texts.left_of(message.content, origin, at=message.at).strip()
    if remaining == message.content.strip():
        return entry
    reduced = message.model_copy(update={"content": remaining})
    return LogEntry(reduced.key if remaining else "", reduced)


def _merged(kept: Sequence[LogEntry], messages: Sequence[LogEntry], at: int) -> list[LogEntry]:
    """Return the intended messages: those of the transcript, or the equal stored messages at their positions.

    The first one continues the same message as before, independent of its text.
    """
    pairs = zip_longest(messages, kept[: len(messages)])
    entries = [
        before
        if before and is_same_message(before.mark, one.mark)
        else one
        if one.key
        else LogEntry.erased(position, role=one.role, at=one.at)
        for position, (one, before) in enumerate(pairs, at)
    ]
    return [replace(entries[0], after=kept[0].after), *entries[1:]] if kept and entries else entries


def _check_start(start: int, count: int) -> None:
    if not 0 <= start <= count:
        raise InvalidInput(
            f"The messages cannot start at position {start}: there are {count}.",
            hint=f"Use a start from 0 to {count}, or omit it to match by content.",
            details={"start": start, "count": count},
        )
