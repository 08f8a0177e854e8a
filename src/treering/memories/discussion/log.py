"""The messages of a discussion, in the ledger: recorded as they are told, read, and deleted one by one."""

from collections.abc import Callable, Collection, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, replace
from itertools import zip_longest
from types import MappingProxyType
from typing import TypeVar

from treering.core.errors import Conflict, InvalidInput, NotFound
from treering.core.patch import Transition
from treering.memories.discussion.alignment import Mark, same
from treering.memories.discussion.blocks import Block, BlockHead, block_sizes, heads_of, read_block
from treering.memories.discussion.deletion import Deleted, check_positions, erase_messages, without_words
from treering.memories.discussion.entries import Entry, entries_of
from treering.memories.discussion.history import History
from treering.memories.discussion.identity import Place
from treering.memories.discussion.kept import Kept
from treering.memories.discussion.rewriting import Rewriting, Stretch
from treering.memories.discussion.submitting import apply_patch
from treering.memories.discussion.telling import Told, tell
from treering.tools.engine import Engine
from treering.tools.turns import Message

_Done = TypeVar("_Done")

_TRIES = 20
"""How often something is tried: of several processes that write one discussion, one is always first."""


@dataclass(frozen=True, slots=True)
class Recorded:
    """What recording did, in messages. `diverged_at` is where the telling parts from what was kept until then."""

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


class MessageLog:
    """The messages of one discussion. Keeps nothing between calls; several processes may write it.

    Writing raises `Conflict` where others are first again and again, and `Denied` where the space's policy asks
    for review of what its author writes.
    """

    def __init__(self, engine: Engine, place: Place) -> None:
        self._engine = engine
        self._place = place

    @property
    def place(self) -> Place:
        """Where the discussion lies."""
        return self._place

    def count(self) -> int:
        """Tell how many messages there are, deleted ones too."""
        heads = self.blocks()
        return heads[-1].end if heads else 0

    def exists(self) -> bool:
        """Tell whether anything is kept of the discussion."""
        return bool(self.blocks())

    def read(self, first: int = 0, last: int | None = None) -> list[Kept]:
        """Return the messages from position `first` to `last`, both included; deleted ones have no text."""
        return self._retried(lambda: self._history().messages(max(0, first), last))

    def tail(self, count: int) -> list[Kept]:
        """Return the last messages."""
        return self._retried(lambda: self._tail(count)) if count > 0 else []

    def blocks(self) -> list[BlockHead]:
        """Return the blocks the messages lie in, in order, without reading them."""
        return heads_of(self._engine.ledger, scope=self._place.scope, origin=self._place.origin)

    def block(self, head: BlockHead) -> Block:
        """Read a block as it stands now. Raises `NotFound` where it was erased since."""
        return read_block(self._engine.ledger, head)

    def record(self, messages: Sequence[Message], *, start: int | None = None) -> Recorded:
        """Keep messages as they are told; the same again changes nothing.

        With `start` they are all the messages from that position on. Without, a client tells all messages, or a
        window of the newest ones: `alignment` says how that is understood, and how little it can withdraw. Raises
        `InvalidInput` for a `start` after the end.
        """
        told = tell(messages)
        return self._retried(lambda: self._record(told, start))

    def restore(self, messages: Sequence[Message], *, begins: Mapping[int, int]) -> Recorded:
        """Keep all messages of a discussion as they were exported. `begins`: what the part at a position continues."""
        told = tell(messages)
        return self._retried(lambda: self._rewrite(self._history(), told, at=0, begins=begins))

    def append(self, messages: Sequence[Message]) -> Recorded:
        """Keep messages after all that are there; the same again is said again."""
        told = tell(messages)
        return self._retried(lambda: self._append(told))

    def delete(self, positions: Collection[int], *, erase: bool = False) -> Deleted:
        """Take the words of messages away, and the memories that tell of them; their positions stay taken.

        With `erase` nothing of the words is left in any earlier version either, nor in a withdrawn telling of
        the same stretch. Raises `InvalidInput` for a position that is not there, and `Denied` where the author
        may not erase.
        """
        wanted = frozenset(positions)
        if erase:
            return self._retried(lambda: erase_messages(self._engine, self._place, wanted))
        return self._retried(lambda: self._delete(wanted))

    def _history(self) -> History:
        return History.of(self._engine.ledger, self._place)

    def _tail(self, count: int) -> list[Kept]:
        history = self._history()
        return history.messages(max(0, history.count - count))

    def _record(self, told: Sequence[Told], start: int | None) -> Recorded:
        history, marks = self._history(), [Mark(one.key, one.role) for one in told]
        if start is not None:
            _check_start(start, history.count)
            agreed = history.agreement(marks, start=start)
            return self._rewrite(history, told[agreed.told :], at=agreed.kept, unchanged=agreed.told)
        place = history.alignment(marks)
        begins = {place.position: place.after} if place.after is not None else {}
        unchanged = place.told - place.ignored
        return self._rewrite(history, told[place.told :], at=place.position, unchanged=unchanged, begins=begins)

    def _append(self, told: Sequence[Told]) -> Recorded:
        history = self._history()
        return self._rewrite(history, told, at=history.count)

    def _rewrite(
        self,
        history: History,
        told: Sequence[Told],
        *,
        at: int,
        unchanged: int = 0,
        begins: Mapping[int, int] = MappingProxyType({}),
    ) -> Recorded:
        """Let `told` be all that stands from a position on. `begins`: what the part at a position continues."""
        if at == history.count and not told:
            return Recorded(unchanged=unchanged, count=at)
        # The block before is looked at too: it is closed, or goes on.
        first = next((head.first for head in reversed(history.heads) if head.first < at), at)
        found = [entry for block in history.blocks(first) for entry in entries_of(block)]
        kept = found[at - first :]
        stands = [replace(one, after=begins.get(place, one.after)) for place, one in enumerate(_merged(kept, told), at)]
        entries = [*found[: at - first], *stands]
        stretch = Stretch(first, entries, block_sizes(entries))
        operations = Rewriting(self._engine, self._place, history, stretch).operations()
        receipt = apply_patch(self._engine, self._place, operations, reason="Messages")
        stays = sum(entry.kept is not None for entry in stands)
        live = sum(entry.deletion is None for entry in kept)
        return Recorded(
            appended=len(told) - stays,
            unchanged=unchanged + stays,
            withdrawn=live - sum(entry.kept is not None and entry.deletion is None for entry in stands),
            diverged_at=at if kept else None,
            count=at + len(told),
            staled=receipt.staled,
            is_apart=begins.get(at) == 0,
        )

    def _delete(self, positions: frozenset[int]) -> Deleted:
        history = self._history()
        check_positions(positions, count=history.count)
        stretch = without_words(history, positions)
        operations = Rewriting(self._engine, self._place, history, stretch).operations() if stretch else []
        if not operations:
            return Deleted(tuple(sorted(positions)))
        receipt = apply_patch(self._engine, self._place, operations, reason="Deleted messages")
        archived = (step.id for step in operations if isinstance(step, Transition))
        return Deleted(tuple(sorted(positions)), tuple(dict.fromkeys([*archived, *receipt.staled])))

    def _retried(self, work: Callable[[], _Done]) -> _Done:
        """Read or write, and look again where somebody else was first."""
        for _ in range(_TRIES - 1):
            with suppress(Conflict, NotFound):
                return work()
        return work()


def _merged(kept: Sequence[Entry], told: Sequence[Told]) -> list[Entry]:
    """Return what shall stand: what is told, and in places where that is kept already, what is kept.

    The first continues what it continued, whatever it says.
    """
    pairs = zip_longest(told, kept[: len(told)])
    stands = [
        before if before and same(before.mark, Mark(one.key, one.role)) else Entry(one.key, one.message)
        for one, before in pairs
    ]
    return [replace(stands[0], after=kept[0].after), *stands[1:]] if kept and stands else stands


def _check_start(start: int, count: int) -> None:
    if not 0 <= start <= count:
        raise InvalidInput(
            f"The messages cannot begin at position {start}: there are {count}.",
            hint=f"Give a start from 0 to {count}, or none, and the place is found.",
            details={"start": start, "count": count},
        )
