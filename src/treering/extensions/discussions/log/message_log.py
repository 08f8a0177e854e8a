"""The messages of a discussion, in the ledger: recorded as they are told, read, and deleted one by one."""

from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from datetime import datetime
from itertools import zip_longest
from types import MappingProxyType
from typing import TypeVar

from pydantic import JsonValue

from treering.core.canonical import digest
from treering.core.errors import Conflict, InvalidInput, NotFound
from treering.core.evidence import Turn
from treering.core.objects import Knowledge, Source
from treering.core.patch import Erase, Transition, Update
from treering.core.policy import check_gate, check_trust
from treering.core.screening import screened
from treering.extensions.discussions.identity import DiscussionRef, apply_patch
from treering.extensions.discussions.log.alignment import Alignment, Mark, is_same_message
from treering.extensions.discussions.log.blocks import (
    BLOCK_MESSAGES,
    Block,
    BlockHead,
    StoredMessage,
    block_sizes,
    heads_of,
    read_block,
)
from treering.extensions.discussions.log.rewriting import Rewriting, RewrittenStretch
from treering.extensions.discussions.log.snapshot import LogEntry, LogSnapshot, entries_of
from treering.verbs.crystallize.submission import build_patch
from treering.verbs.engine import Engine, retry_on_conflict
from treering.verbs.envelope import Call
from treering.verbs.ingest.erased import ErasedTexts, forget
from treering.verbs.ingest.turns import TURNS_BEFORE, Message, cleaned, without_thoughts
from treering.verbs.lint import erasure
from treering.verbs.lint.erasure import ErasureReceipt

# Messages as a caller tells them, made ready to be compared and kept.


_NOT_SPOKEN = frozenset({"system", "developer", "tool", "function"})


@dataclass(frozen=True, slots=True)
class TranscriptMessage:
    """A message that belongs into the log: cleaned, and with its key."""

    message: Message
    key: str
    """Empty if the message was erased before."""

    @property
    def mark(self) -> Mark:
        """What is compared of it."""
        return Mark(self.key, self.role)

    @property
    def role(self) -> str:
        """Who said it, as far as comparing goes."""
        return self.message.role or self.message.name

    @property
    def at(self) -> datetime | None:
        """When it was said."""
        return self.message.at


def transcript_of(messages: Iterable[Message]) -> list[TranscriptMessage]:
    """Return the messages that belong into a log.

    Recalled text, secrets and the thoughts of models are taken out; what is empty then, or was said by the system or by
    a tool, is left out.
    """
    spoken = (message for message in messages if message.role.casefold() not in _NOT_SPOKEN)
    clean = (_without_noise(without_thoughts(message)) for message in spoken)
    return [TranscriptMessage(message, message.key) for message in clean if message.content]


def _without_noise(message: Message) -> Message:
    content = _cleaned(message.content).strip()
    return message if content == message.content else message.model_copy(update={"content": content})


def _cleaned(content: str) -> str:
    seen = digest(content)
    if seen in _FOUND_CLEAN:
        return content
    text = cleaned(content).text
    if text == content:
        _FOUND_CLEAN.add(seen)
    return text


@dataclass(slots=True)
class _Recent:
    """The last few tens of thousands of digests: a client sends all of its messages again with every new one."""

    most: int
    young: set[str] = field(default_factory=set)
    old: set[str] = field(default_factory=set)

    def __contains__(self, item: str) -> bool:
        return item in self.young or item in self.old

    def add(self, item: str) -> None:
        if len(self.young) >= self.most:
            self.young, self.old = set(), self.young
        self.young.add(item)


_FOUND_CLEAN = _Recent(most=32_768)


_Done = TypeVar("_Done")
_ATTEMPTS = 20
"""How often something is tried: of several processes that write one discussion, one is always first."""


@dataclass(frozen=True, slots=True)
class Recorded:
    """What recording did, in messages. `diverged_at` is where the transcript parts from what was kept until then."""

    appended: int = 0
    unchanged: int = 0
    withdrawn: int = 0
    diverged_at: int | None = None
    count: int = 0
    """How many messages there are now, deleted ones too."""
    staled: tuple[str, ...] = ()
    """Knowledge that lost its last support."""
    is_apart: bool = False
    """Whether what was appended continues nothing that was kept until then: it is a conversation of its own."""
    left_out: int = 0
    """Messages, or parts of them, that were erased before; the option `again` records them."""
    erased_on: str = ""
    """The day of the last erasure of what was left out."""
    placed: int = 0
    """How many new positions hold a message that was left out: those after it keep their place."""

    def left_out_reason(self) -> str:
        """Return what was left out, when it was erased, and how to record it all the same; empty if nothing was."""
        if not self.left_out:
            return ""
        what = f"{self.left_out} message{' was' if self.left_out == 1 else 's were'} erased on {self.erased_on}"
        return f"{what}, in whole or in part, and skipped; the option `again` (--again) records them"


@dataclass(frozen=True, slots=True)
class DeletedMessages:
    """What deleting did: the positions whose words are gone, and what rested on them."""

    positions: tuple[int, ...] = ()
    withdrawn: tuple[str, ...] = ()
    """Memories and other knowledge that told of them."""
    receipt: ErasureReceipt | None = None
    """The proof of an erasure."""


class MessageLog:
    """The messages of one discussion. Keeps nothing between calls; several processes may write it.

    Writing raises `Conflict` where others are first again and again, and `Denied` where the space's policy asks
    for review of what its author writes.
    """

    def __init__(self, engine: Engine, ref: DiscussionRef) -> None:
        self._engine = engine
        self._ref = ref

    @property
    def ref(self) -> DiscussionRef:
        """Where the discussion lies."""
        return self._ref

    def count(self) -> int:
        """Tell how many messages there are, deleted ones too."""
        heads = self.blocks()
        return heads[-1].end if heads else 0

    def exists(self) -> bool:
        """Tell whether anything is kept of the discussion."""
        return bool(self.blocks())

    def read(self, first: int = 0, last: int | None = None) -> list[StoredMessage]:
        """Return the messages from position `first` to `last`, both included; deleted ones have no text."""
        return self._retried(lambda: self._history().messages(max(0, first), last))

    def tail(self, count: int) -> list[StoredMessage]:
        """Return the last messages."""
        return self._retried(lambda: self._tail(count)) if count > 0 else []

    def blocks(self) -> list[BlockHead]:
        """Return the blocks the messages lie in, in order, without reading them."""
        return heads_of(self._engine.ledger, scope=self._ref.scope, origin=self._ref.origin)

    def block(self, head: BlockHead) -> Block:
        """Read a block as it stands now. Raises `NotFound` where it was erased since."""
        return read_block(self._engine.ledger, head)

    def record(self, messages: Sequence[Message], *, start: int | None = None, again: bool = False) -> Recorded:
        """Keep messages as they are told; the same again changes nothing.

        With `start` they are all the messages from that position on. Without, a client tells all messages, or a
        window of the newest ones: `alignment` says how that is understood, and how little it can withdraw. What was
        erased before only takes its place, unless it is asked for `again`. Raises `InvalidInput` for a `start` after
        the end.
        """
        told = transcript_of(messages)
        return self._retried(lambda: self._record(told, start, again=again))

    def restore(self, messages: Sequence[Message], *, begins: Mapping[int, int]) -> Recorded:
        """Keep all messages of a discussion as they were exported. `begins`: what the part at a position continues."""
        told = transcript_of(messages)
        return self._retried(lambda: self._restore(told, begins))

    def append(self, messages: Sequence[Message], *, again: bool = False) -> Recorded:
        """Keep messages after all that are there; the same again is said again.

        What was erased before only takes its place, unless it is asked for `again`.
        """
        told = transcript_of(messages)
        return self._retried(lambda: self._append(told, again=again))

    def note(self, facts: Mapping[str, JsonValue]) -> None:
        """Store facts about the conversation with its newest messages, without secrets; the same again changes nothing.

        They are erased with any of these messages. Raises `Denied` if the space wants a review.
        """
        clean = screened(dict(facts)).value
        self._retried(lambda: self._note(clean))

    def delete(self, positions: Collection[int], *, erase: bool = False) -> DeletedMessages:
        """Take the words of messages away, and the memories that tell of them; their positions stay taken.

        With `erase` nothing of the words is left in any earlier version either, nor in a withdrawn version of
        the same stretch. Raises `InvalidInput` for a position that is not there, and `Denied` where the author
        may not erase.
        """
        wanted = frozenset(positions)
        if erase:
            return self._retried(lambda: _erase_messages(self._engine, self._ref, wanted))
        return self._retried(lambda: self._delete(wanted))

    def _note(self, facts: Mapping[str, JsonValue]) -> None:
        source = self.block(self.blocks()[-1]).source
        metadata = {**source.metadata, **facts}
        if metadata != source.metadata:
            noted = Update(id=source.id, expected_revision=source.revision, changes={"metadata": metadata})
            apply_patch(self._engine, self._ref, [noted], reason="Facts")

    def _history(self) -> LogSnapshot:
        return LogSnapshot.of(self._engine.ledger, self._ref)

    def _tail(self, count: int) -> list[StoredMessage]:
        history = self._history()
        return history.messages(max(0, history.count - count))

    def _record(self, transcript: Sequence[TranscriptMessage], start: int | None, *, again: bool) -> Recorded:
        history = self._whole_history()
        filtered = self._without_erased(history, transcript)
        told = filtered.told
        marks = [one.mark for one in told]
        place = _place_of(history, marks, start)
        restored: dict[int, TranscriptMessage] = {}
        if again and filtered.left_out:
            # A part that continues an earlier message agrees with what is told up to that message.
            end = place.position if place.after is None else place.after
            placed = history.placed(marks[: place.told], end=end)
            restored = {position: transcript[index] for index, position in placed.items()}
            told = transcript
        if not history.count and not any(one.key for one in told):
            return self._reported(filtered, Recorded(), again=again)  # no discussion begins with erased messages alone
        result = self._rewrite(
            history,
            told[place.told :],
            at=place.position,
            unchanged=place.told - place.ignored,
            begins={place.position: place.after} if place.after is not None else {},
            restored=restored,
        )
        return self._reported(filtered, result, again=again)

    def _append(self, transcript: Sequence[TranscriptMessage], *, again: bool) -> Recorded:
        history = self._whole_history()
        filtered = self._without_erased(history, transcript)
        told = transcript if again else filtered.told
        return self._reported(filtered, self._rewrite(history, told, at=history.count), again=again)

    def _restore(self, transcript: Sequence[TranscriptMessage], begins: Mapping[int, int]) -> Recorded:
        history = self._whole_history()
        filtered = self._without_erased(history, transcript)
        return self._reported(filtered, self._rewrite(history, filtered.told, at=0, begins=begins), again=False)

    def _without_erased(self, history: LogSnapshot, transcript: Sequence[TranscriptMessage]) -> "_Filtered":
        """Leave out of a transcript what was erased before, unless the discussion says it elsewhere."""
        texts = ErasedTexts.of(self._engine)
        if not texts.marks:
            return _Filtered(transcript)
        told = [_without_erased(one, texts, self._ref.origin) for one in transcript]
        cut = [at for at, (one, before) in enumerate(zip(told, transcript, strict=True)) if one is not before]
        if not cut:
            return _Filtered(transcript)
        stored = history.keys()
        left_out = [at for at in cut if transcript[at].key not in stored]
        for at in set(cut).difference(left_out):
            told[at] = transcript[at]
        return _Filtered(told, len(left_out), texts.last_day(), texts)

    def _reported(self, filtered: "_Filtered", result: Recorded, *, again: bool) -> Recorded:
        if not filtered.left_out:
            return result
        if again:
            forget(self._engine, filtered.texts)
            return result
        whole = sum(not one.key for one in filtered.told)
        unchanged = max(0, result.unchanged - (whole - result.placed))
        return replace(result, unchanged=unchanged, left_out=filtered.left_out, erased_on=filtered.erased_on)

    def _whole_history(self) -> LogSnapshot:
        """Read what is stored, and write the places of blocks whose source was erased by its id."""
        history = self._history()
        for first, end in history.gaps():
            entries = [LogEntry.erased(position) for position in range(first, end)]
            stretch = RewrittenStretch(first, entries, block_sizes(entry.at for entry in entries), is_end=False)
            operations = Rewriting(self._engine, self._ref, history, stretch).operations()
            apply_patch(self._engine, self._ref, operations, reason="Places of erased messages")
        return self._history() if history.gaps() else history

    def _rewrite(
        self,
        history: LogSnapshot,
        told: Sequence[TranscriptMessage],
        *,
        at: int,
        unchanged: int = 0,
        begins: Mapping[int, int] = MappingProxyType({}),
        restored: Mapping[int, TranscriptMessage] = MappingProxyType({}),
    ) -> Recorded:
        """Let `told` be all that stands from a position on. `begins`: what the part at a position continues.

        `restored`: messages that take the place of erased ones before that position.
        """
        if at == history.count and not told and not restored:
            return Recorded(unchanged=unchanged, count=at)
        # The block before is looked at too: it is closed, or goes on.
        since = min((at, *restored))
        first = next((head.first for head in reversed(history.heads) if head.first < since), since)
        found = [entry for block in history.blocks(first) for entry in entries_of(block)]
        kept = found[at - first :]
        stands = [
            replace(one, after=begins.get(place, one.after)) for place, one in enumerate(_merged(kept, told, at), at)
        ]
        before = [
            LogEntry(restored[place].key, restored[place].message, after=one.after) if place in restored else one
            for place, one in enumerate(found[: at - first], first)
        ]
        entries = [*before, *stands]
        stretch = RewrittenStretch(first, entries, block_sizes(entry.at for entry in entries))
        operations = Rewriting(self._engine, self._ref, history, stretch).operations()
        receipt = apply_patch(self._engine, self._ref, operations, reason="Messages")
        stays = sum(entry.kept is not None for entry in stands)
        placed = sum(entry.kept is None and entry.deletion is not None for entry in stands)
        live = sum(entry.deletion is None for entry in kept)
        return Recorded(
            appended=len(told) - stays - placed + len(restored),
            unchanged=unchanged + stays - len(restored),
            withdrawn=live - sum(entry.kept is not None and entry.deletion is None for entry in stands),
            diverged_at=at if kept else None,
            count=at + len(told),
            staled=receipt.staled,
            is_apart=begins.get(at) == 0,
            placed=placed,
        )

    def _delete(self, positions: frozenset[int]) -> DeletedMessages:
        history = self._history()
        _check_positions(positions, count=history.count)
        stretch = _without_words(history, positions)
        operations = Rewriting(self._engine, self._ref, history, stretch).operations() if stretch else []
        if not operations:
            return DeletedMessages(tuple(sorted(positions)))
        receipt = apply_patch(self._engine, self._ref, operations, reason="Deleted messages")
        archived = (step.id for step in operations if isinstance(step, Transition))
        return DeletedMessages(tuple(sorted(positions)), tuple(dict.fromkeys([*archived, *receipt.staled])))

    def _retried(self, work: Callable[[], _Done]) -> _Done:
        """Read or write, and look again where somebody else was first."""
        return retry_on_conflict(work, attempts=_ATTEMPTS, on=(Conflict, NotFound))


@dataclass(frozen=True, slots=True)
class _Filtered:
    """A transcript without what was erased before; of a message that was erased as a whole only the place is left."""

    told: Sequence[TranscriptMessage]
    left_out: int = 0
    erased_on: str = ""
    texts: ErasedTexts = field(default_factory=ErasedTexts)


def _without_erased(told: TranscriptMessage, texts: ErasedTexts, origin: str) -> TranscriptMessage:
    message = told.message
    left = texts.left_of(message.content, origin, at=message.at).strip()
    if left == message.content.strip():
        return told
    reduced = message.model_copy(update={"content": left})
    return TranscriptMessage(reduced, reduced.key if left else "")


def _merged(kept: Sequence[LogEntry], told: Sequence[TranscriptMessage], at: int) -> list[LogEntry]:
    """Return what shall stand: what is told, and in places where that is kept already, what is kept.

    The first continues what it continued, whatever it says.
    """
    pairs = zip_longest(told, kept[: len(told)])
    stands = [
        before if before and is_same_message(before.mark, one.mark) else _entry_of(one, position)
        for position, (one, before) in enumerate(pairs, at)
    ]
    return [replace(stands[0], after=kept[0].after), *stands[1:]] if kept and stands else stands


def _entry_of(told: TranscriptMessage, position: int) -> LogEntry:
    if told.key:
        return LogEntry(told.key, told.message)
    return LogEntry.erased(position, role=told.role, at=told.at)


def _place_of(history: LogSnapshot, marks: Sequence[Mark], start: int | None) -> Alignment:
    if start is None:
        return history.alignment(marks)
    _check_start(start, history.count)
    agreed = history.agreement(marks, start=start)
    return Alignment(agreed.kept, agreed.told)


def _check_start(start: int, count: int) -> None:
    if not 0 <= start <= count:
        raise InvalidInput(
            f"The messages cannot start at position {start}: there are {count}.",
            hint=f"Use a start from 0 to {count}, or omit it to match by content.",
            details={"start": start, "count": count},
        )


def _check_positions(positions: Collection[int], *, count: int) -> None:
    """Raise `InvalidInput` for a position where no message is."""
    beyond = sorted(position for position in positions if not 0 <= position < count)
    if beyond:
        raise InvalidInput(
            f"There is no message at {', '.join(map(str, beyond))}.",
            hint=f"Positions are 0 to {count - 1}." if count else "Nothing is stored for this discussion.",
            details={"positions": beyond, "count": count},
        )


def _without_words(
    history: LogSnapshot, positions: Collection[int], *, erased: bool = False
) -> RewrittenStretch | None:
    """Return what a discussion says without the words of some messages; `None` where none are named.

    `erased`: their blocks become new sources, and so do blocks that are found by these words.
    """
    touched = set(_touched(history, positions))
    if not touched:
        return None
    heads = [head for head in history.heads if min(touched) <= head.first <= max(touched)]
    entries = [
        _silenced(entry, position, erased=erased) if position in positions else entry
        for head in heads
        for position, entry in enumerate(entries_of(history.block(head)), start=head.first)
    ]
    return RewrittenStretch(
        first=heads[0].first,
        entries=entries,
        sizes=[head.count for head in heads],
        is_end=heads[-1] == history.heads[-1],
        anew=frozenset(touched) if erased else frozenset(),
    )


def _erase_messages(engine: Engine, ref: DiscussionRef, positions: Collection[int]) -> DeletedMessages:
    """Erase messages, with everything of the discussion that told of them, in all versions.

    First they are deleted, in one patch; then the sources and memories that held their words are erased. Where that
    was cut short, the same call again completes it. Raises `InvalidInput` and `Denied`; nothing was changed then.
    """
    history = LogSnapshot.of(engine.ledger, ref)
    _check_positions(positions, count=history.count)
    stretch = _without_words(history, positions, erased=True)
    if stretch is None:
        return DeletedMessages()
    _check_may_erase(engine, ref, history.heads[0])
    operations = Rewriting(engine, ref, history, stretch).operations()
    apply_patch(engine, ref, operations, reason="Deleted messages")
    sources = list(_past(LogSnapshot.of(engine.ledger, ref), positions))
    memories, words = _summaries_on(engine, sources), _words(engine, sources, positions)
    receipt = erasure.erase(
        engine,
        [*sources, *memories],
        reason=f"Erased messages of discussion {ref.id}",
        is_meant=lambda segment: isinstance(segment.locator, Turn) and segment.locator.turn in positions,
    )
    # What stays of a block stands in the new source too: that is not a repetition of what was erased.
    repeated = tuple(identity for identity in receipt.repeated_in if words & _excerpts(engine, identity).keys())
    receipt = receipt.model_copy(update={"repeated_in": repeated})
    return DeletedMessages(tuple(sorted(positions)), (*memories, *receipt.staled), receipt)


def _touched(history: LogSnapshot, positions: Collection[int]) -> Iterator[int]:
    """Return the first positions of the blocks with the messages, and of those that are found by them."""
    goes_on = False
    for head in history.heads:
        here = [position for position in positions if head.first <= position < head.end]
        if here or goes_on:
            yield head.first
        # The last words before a block are kept with its first messages.
        live_after = [kept for kept in history.block(head).messages if not kept.deleted] if here or goes_on else []
        goes_on = bool(here or goes_on) and _speaks_last(here, [kept.position for kept in live_after])


def _speaks_last(here: Collection[int], live: Collection[int]) -> bool:
    return sum(position > max(here, default=-1) for position in live) < TURNS_BEFORE


def _silenced(entry: LogEntry, position: int, *, erased: bool) -> LogEntry:
    done = entry.deletion and (not erased or not entry.deletion.key)
    return entry if done else entry.without_words(position, erased=erased)


def _check_may_erase(engine: Engine, ref: DiscussionRef, head: BlockHead) -> None:
    erase = Erase(id=head.source_id, expected_revision=head.revision)
    patch = build_patch(Call(engine, ref.scope), [erase], verb="ingest", reason="")
    policy = engine.ledger.policy
    check_trust(patch, policy)
    check_gate(patch, policy)


def _past(history: LogSnapshot, positions: Collection[int]) -> Iterator[str]:
    """Return the withdrawn sources that may hold words of the messages, or are found by them."""

    def near(first: int) -> bool:
        return any(abs(first - position) <= BLOCK_MESSAGES for position in positions)

    found = [identity for head in history.heads if near(head.first) for identity in history.block(head).formerly]
    found += [identity for first in history.withdrawn if near(first) for identity in history.formerly(first)]
    yield from history.ledger.heads(found)


def _words(engine: Engine, sources: Collection[str], positions: Collection[int]) -> set[str]:
    """Return what was ever said at the positions, as far as the sources tell."""
    said = (excerpt for identity in sources for excerpt in _excerpts(engine, identity).items())
    return {words for words, places in said if not places.isdisjoint(positions)}


def _excerpts(engine: Engine, source_id: str) -> dict[str, set[int]]:
    """Return the words of all revisions of a source, and at which positions they stood."""
    found: dict[str, set[int]] = {}
    for revision in engine.ledger.history(source_id):
        for segment in revision.segments if isinstance(revision, Source) else ():
            place = segment.locator.turn if isinstance(segment.locator, Turn) else -1
            found.setdefault(segment.excerpt, set()).add(place)
    return found


def _summaries_on(engine: Engine, sources: Collection[str]) -> list[str]:
    """Return the summaries that rest on some sources, and those that rest on them in turn."""
    found: dict[str, None] = {}
    queue = list(sources)
    while queue:
        for identity in engine.ledger.dependents(queue.pop()):
            item = engine.ledger.get(identity)
            if isinstance(item, Knowledge) and item.kind == "summary" and identity not in found:
                found[identity] = None
                queue.append(identity)
    return list(found)
