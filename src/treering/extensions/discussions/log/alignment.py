"""Where a transcript of a discussion belongs beside what is kept of it. Pure: nothing is read or written here.

A client sends all messages with every request, or the newest ones that fit, or those behind a summary of the
rest. So leaving messages out says nothing, at the end either; saying something else in their place does.

One discussion may hold several conversations: a client names by one id what a person said in two windows, or
somebody names an id that is not theirs. So what is kept is a tree of parts. A part is a run of messages that
follow each other; it continues a message of an earlier part, or nothing. What is told is compared with each
conversation in that tree, not with the messages in the order in which they came in:

- What begins like a conversation is told from its beginning. The longest agreement counts, of equal ones the latest.
- What has a run of messages in common with the newest ones of a conversation (the longest; of equal ones the
  latest) is a window of its end, and what stands in front of that run is a summary, or a prompt.
- As many messages as what they stand in the place of are an edit; fewer are a summary.
- A run that begins the transcript, is longer than what agrees from the beginning, and reaches the newest message of a
  conversation or is at least four messages long, is a window too: a window may begin like the conversation does.
- A run that would make more go than it holds must be at least four messages long: shorter ones get said twice.
- What has nothing in common is a conversation of its own.

Where a transcript then parts from what is kept, what it replaces is withdrawn, if that is the end of the newest part,
and one message at most or no more than agree, at least four. Otherwise nothing is withdrawn:
what is new becomes a part that continues the last message that agrees. Where less than four agree and the next
kept message contradicts the transcript, it only happens to begin alike, and is a conversation of its own.
"""

from bisect import bisect_left
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import islice
from typing import Literal

_SURE = 4
"""So many equal messages in a row are no coincidence."""
_CONVERSATIONS, _LOOKED_AT = 8, 100
"""A window is looked for in so many conversations that share a message with it, among so many of the newest."""
_TOLD_COMPARED, _KEPT_COMPARED = 500, 900
"""A run is looked for among so many of the newest messages of each: equal ones can take time as the product of both."""


@dataclass(frozen=True, slots=True)
class Mark:
    """What is compared of a message.

    A stored message that was erased is deleted and has no key: only its role is known, or not even that (""). A told
    message without a key was erased before.
    """

    key: str
    role: str = ""
    deleted: bool = False


@dataclass(frozen=True, slots=True)
class Agreement:
    """How many messages, of those kept and of those told, agree from the beginning."""

    kept: int
    told: int


@dataclass(frozen=True, slots=True)
class ConversationPart:
    """Messages that follow each other: where they begin, what they continue, and what is compared of them.

    `after` is the position behind the message that the first one continues; 0: it continues none.
    """

    start: int
    after: int
    marks: Sequence[Mark]

    @property
    def end(self) -> int:
        """The position behind its last message."""
        return self.start + len(self.marks)


@dataclass(frozen=True, slots=True)
class Alignment:
    """From `position` on, `told[told:]` is what stands. Of what is told before that, `ignored` are no messages.

    `after`: what stands there is a new part, which continues what is kept before this position.
    """

    position: int
    told: int
    ignored: int = 0
    after: int | None = None


def is_same_message(kept: Mark, told: Mark) -> bool:
    """Tell whether a kept message is the one that is told; of an erased one only the role can be compared."""
    if kept.deleted and not kept.key:
        return kept.role in ("", told.role)
    return kept.key == told.key


DeletedLookup = Literal["included", "omitted", "required"]
"""How deleted messages are looked for in a transcript: where they fit, not at all, or without exception."""


def steps(kept: Sequence[Mark], told: Sequence[Mark], *, deleted: DeletedLookup) -> list[int]:
    """Count the told messages that agree: before the first kept one, behind it, behind the next, as far as they do."""
    counts = [0]
    for mark in kept:
        at = counts[-1]
        while at < len(told) and not told[at].key and (mark.key or not mark.deleted):
            at += 1  # it was erased, and has no place among the stored messages
        looked_for = not mark.deleted or deleted != "omitted"
        if looked_for and at < len(told) and is_same_message(mark, told[at]):
            counts.append(at + 1)
        elif not mark.deleted or deleted == "required":
            break
        else:
            counts.append(counts[-1])
    return counts


def agreement(kept: Sequence[Mark], told: Sequence[Mark]) -> Agreement:
    """Tell how far a transcript agrees. A deleted message may be in it or not."""
    counts = [steps(kept, told, deleted="included")]
    if any(mark.deleted for mark in kept):
        counts.append(steps(kept, told, deleted="omitted"))
    return max((agreed(each) for each in counts), key=lambda found: found.kept)


def agreed(counts: Sequence[int]) -> Agreement:
    """Tell how far a transcript agrees by the counts of `steps`."""
    return Agreement(len(counts) - 1, counts[-1])


def parts_of(marks: Sequence[Mark], begins: Mapping[int, int], *, first: int) -> list[ConversationPart]:
    """Cut the kept messages from position `first` on into parts. `begins`: where one begins, and what it continues.

    The first part continues what stands before it and is not given.
    """
    count = first + len(marks)
    starts = sorted({first, *(start for start in begins if first < start < count)})
    # A part continues something that came in before it. Anything else can only stand in a file that was altered.
    after = {start: begins[start] if 0 <= begins[start] <= start else 0 for start in starts if start in begins}
    ends = [*starts[1:], count]
    return [
        ConversationPart(start, after.get(start, first), marks[start - first : end - first])
        for start, end in zip(starts, ends, strict=True)
    ]


def align(
    told: Sequence[Mark], parts: Sequence[ConversationPart], counts: Mapping[DeletedLookup, Sequence[int]]
) -> Alignment:
    """Tell where a transcript belongs. It does not hold everything that is kept, in the order in which it came in.

    `parts` hold the newest messages. `counts` are the `steps` of everything, for each way to read deleted messages.
    """
    found = max((_from_beginning(told, parts, each, reading) for reading, each in counts.items()), key=_rank)
    if found.position < parts[-1].end:
        windows = (_in_thread(told, thread, found) for thread in _threads(told, parts))
        found = max((found, *(window for window in windows if window)), key=_weight)
    return _without_loss(told, parts, found)


def is_end(told: Sequence[Mark], newest: Sequence[Mark]) -> bool:
    """Tell whether a transcript is just the last messages that are kept."""
    live = [mark.key for mark in newest if not mark.deleted]
    return bool(told) and live[-len(told) :] == [mark.key for mark in told]


@dataclass(frozen=True, slots=True)
class _Match:
    """A transcript agrees up to a position with a conversation; `told` of its messages, the `ignored` ones with them.

    `kept`: how many messages of the conversation agree. `edited`: it tells the conversation from its first message
    on, but another one in the place of that.
    """

    position: int
    told: int
    ignored: int = 0
    kept: int = 0
    edited: bool = False


def _rank(found: _Match) -> tuple[int, int, int]:
    return found.told, found.kept, found.position


def _weight(found: _Match) -> tuple[int, bool, int]:
    return found.told - found.ignored, found.edited, found.position


def _from_beginning(
    told: Sequence[Mark], parts: Sequence[ConversationPart], counts: Sequence[int], deleted: DeletedLookup
) -> _Match:
    """Follow a transcript from its first message on through the tree of parts, as far as any way agrees."""
    unread = min(len(counts) - 1, parts[0].start)
    best = _Match(unread, counts[unread], kept=unread)
    branches = {part.after for part in parts}
    erased = sum(not mark.key for mark in told)  # these may have no place in a part
    reached = {
        position: _Match(position, counts[position], kept=position) for position in branches if position <= unread
    }
    for part in parts:
        before = reached.get(part.after)
        if before is None:
            continue
        rest = told[before.told : before.told + len(part.marks) + erased]
        for at, count in enumerate(steps(part.marks, rest, deleted=deleted)):
            position = part.start + at
            if at and (position in branches or count > best.told - before.told):
                reached[position] = _Match(position, before.told + count, kept=before.kept + at)
                best = max(best, reached[position], key=_rank)
    return best


_Placed = Sequence[tuple[int, Mark]]


@dataclass(frozen=True, slots=True)
class _Thread:
    """The newest messages of one conversation, each with its position. Those before position `unread` come first.

    `is_tail`: the newest part is all of it.
    """

    placed: _Placed
    unread: int
    is_tail: bool

    def holds(self, position: int) -> bool:
        """Tell whether the conversation leads through the message before a position."""
        return 0 < position <= self.unread or any(at == position - 1 for at, _ in self.placed)


def _threads(told: Sequence[Mark], parts: Sequence[ConversationPart]) -> Iterator[_Thread]:
    """Return the newest conversations that have messages in common with a transcript."""
    keys = {mark.key for mark in told}
    starts = [part.start for part in parts]
    continued = {part.after for part in parts[1:]}
    ends = (part for part in reversed(parts) if part is parts[-1] or part.end not in continued)
    threads = (_thread(parts, starts, part) for part in islice(ends, _LOOKED_AT))
    known = (thread for thread in threads if any(mark.key in keys for _, mark in thread.placed))
    return islice(known, _CONVERSATIONS)


def _thread(parts: Sequence[ConversationPart], starts: Sequence[int], end: ConversationPart) -> _Thread:
    """Return the conversation that ends with a part."""
    pieces, part = [list(enumerate(end.marks, end.start))], end
    while (at := bisect_left(starts, part.after)) > 0:
        stop, part = part.after, parts[at - 1]
        pieces.append(list(enumerate(part.marks[: stop - part.start], part.start)))
    placed = [pair for piece in reversed(pieces) for pair in piece]
    return _Thread(placed, part.after, is_tail=end is parts[-1] and part is end and not part.after)


def _in_thread(told: Sequence[Mark], thread: _Thread, found: _Match) -> _Match | None:
    """Look for a transcript among the newest messages of a conversation. `found`: how it agrees from the beginning."""
    begun = found if found.told and thread.holds(found.position) else _Match(0, 0)
    if begun.told:
        whole = _closest(told, thread, after=0)
        if whole.is_end_of_more_than(begun.told):
            # It only happens to begin like the conversation did: a window that begins with "ok" does.
            return _on_from(told, thread, whole.placed[whole.run.kept][0], 0)
    comparison = _closest(told[begun.told :], thread, after=begun.position)
    first = comparison.left_out() if begun.told else comparison.window()
    if first is None:
        return None
    if not begun.told and thread.is_tail and comparison.is_edit(first):
        return _Match(0, 0, edited=True)
    return _on_from(told, thread, comparison.placed[first.kept][0], begun.told + first.told, ignored=first.told)


def _on_from(told: Sequence[Mark], thread: _Thread, position: int, at: int, *, ignored: int = 0) -> _Match:
    """Tell how far a transcript agrees whose message `at` stands at a position."""
    pairs = [pair for pair in thread.placed if pair[0] >= position]
    further = agreement([mark for _, mark in pairs], told[at:])
    end = pairs[further.kept - 1][0] + 1 if further.kept else position
    return _Match(end, at + further.told, ignored)


def _without_loss(told: Sequence[Mark], parts: Sequence[ConversationPart], found: _Match) -> Alignment:
    """Say what stands from where on, so that nothing goes which is not sure to be this conversation's own."""
    tail, rest = parts[-1], told[found.told :]
    if found.position == tail.end or not rest:
        return Alignment(tail.end, found.told, found.ignored)
    if not found.told and not found.edited:
        return Alignment(tail.end, 0, after=0)
    agreed = found.told - found.ignored
    at = tail.start if found.position == tail.after else found.position
    own = found.position == tail.after or found.position > tail.start
    if own and _may_go(tail.marks[at - tail.start :], rest, agreed=agreed):
        return Alignment(at, found.told, found.ignored)
    ends = {part.end for part in parts} | {part.start for part in parts if part.after != part.start}
    contradicted = found.position not in ends
    if rest and contradicted and agreed < _SURE:
        return Alignment(tail.end, 0, after=0)
    return Alignment(tail.end, found.told, found.ignored, after=found.position)


def _may_go(kept: Sequence[Mark], told: Sequence[Mark], *, agreed: int) -> bool:
    """Tell whether a transcript may take the place of what is kept behind the messages that agree."""
    live = Counter(mark.key for mark in kept if not mark.deleted)
    lost = (live - Counter(mark.key for mark in told)).total()
    sure = agreed + live.total() - lost
    return lost <= 1 or sure >= max(_SURE, lost)


@dataclass(frozen=True, slots=True)
class _CommonRun:
    told: int
    kept: int
    size: int


@dataclass(frozen=True, slots=True)
class _Comparison:
    """Messages that are told beside the newest that are kept, and their longest common run.

    `unseen` kept messages that may be replaced stand before the first of `placed`.
    """

    rest: Sequence[Mark]
    placed: _Placed
    run: _CommonRun
    unseen: int

    def left_out(self) -> _CommonRun | None:
        """Return where a transcript from the beginning goes on, if it only leaves out a stretch in the middle."""
        if self.run.size < _SURE:
            return None
        first = self._first_on_diagonal()
        return first if first.told < min(self._replaced(first)) else None

    def window(self) -> _CommonRun | None:
        """Return where a window of the end begins."""
        size = self.run.size
        if not size:
            return None
        first = self._first_on_diagonal()
        if size < _SURE and (size <= self._withdrawn(first) or (first.told and size == 1)):
            return None
        return first

    def is_end_of_more_than(self, begun: int) -> bool:
        """Tell whether the run begins with the first message told, and is a window rather than what begins alike.

        So is one of more messages than agree from the beginning, `begun`, that reaches the newest kept message or is
        no coincidence.
        """
        run = self.run
        reaches_newest = all(mark.deleted for _, mark in self.placed[run.kept + run.size :])
        return not run.told and run.size > begun and (reaches_newest or run.size >= _SURE)

    def is_edit(self, first: _CommonRun) -> bool:
        """Tell whether what is told in front of a window is an edit of as many messages."""
        return first.told > 0 and first.told in self._replaced(first)

    def _replaced(self, first: _CommonRun) -> set[int]:
        """Count the kept messages before the first that agrees: with deleted ones, and without."""
        before = [mark for _, mark in self.placed[: first.kept]]
        return {self.unseen + len(before), self.unseen + sum(not mark.deleted for mark in before)}

    def _withdrawn(self, first: _CommonRun) -> int:
        marks = [mark for _, mark in self.placed[first.kept :]]
        found = agreement(marks, self.rest[first.told :])
        return sum(not mark.deleted for mark in marks[found.kept :])

    def _first_on_diagonal(self) -> _CommonRun:
        """Return the first message that agrees at the same distance as the run: a window may begin before an edit."""
        shift = self.run.kept - self.run.told
        starts = range(max(0, -shift), self.run.told + 1)
        at = next(at for at in starts if is_same_message(self.placed[at + shift][1], self.rest[at]))
        return _CommonRun(at, at + shift, self.run.size)


def _closest(rest: Sequence[Mark], thread: _Thread, *, after: int) -> _Comparison:
    """Compare with what is kept of a conversation from position `after` on.

    A client may send deleted messages or not: with them or without, the longer run is the better reading.
    """
    known = [(position, mark) for position, mark in thread.placed if position >= after]
    live = [(position, mark) for position, mark in known if not mark.deleted]
    unseen = max(0, thread.unread - after)
    readings = [_Comparison(rest, marks, _run(rest, marks), unseen) for marks in (known, live)]
    return max(readings, key=lambda reading: reading.run.size)


def _run(told: Sequence[Mark], placed: _Placed) -> _CommonRun:
    """Return the longest common run of the newest messages that are told and the newest that are kept."""
    before, earlier = max(0, len(told) - _TOLD_COMPARED), max(0, len(placed) - _KEPT_COMPARED)
    run = _longest_run([*map(_name, told[before:])], [_name(mark) for _, mark in placed[earlier:]])
    return _CommonRun(run.told + before, run.kept + earlier, run.size)


def _name(mark: Mark) -> str:
    return mark.key or f"erased, {mark.role}"


def _longest_run(told: Sequence[str], kept: Sequence[str]) -> _CommonRun:
    """Return the longest run of equal messages; of equally long ones that which is latest in what is kept."""
    places: dict[str, list[int]] = {}
    for place, key in enumerate(kept):
        places.setdefault(key, []).append(place)
    best = _CommonRun(0, 0, 0)
    ending: dict[int, int] = {}
    for at, key in enumerate(told):
        ending, before = {}, ending
        for place in places.get(key, ()):
            size = ending[place] = before.get(place - 1, 0) + 1
            found = _CommonRun(at - size + 1, place - size + 1, size)
            if (found.size, found.kept) > (best.size, best.kept):
                best = found
    return best
