"""Alignment: find where a transcript from a client belongs in the stored discussion. Pure functions.

A client sends all messages with every request, or the latest ones that fit, or those after a summary of the rest. So
omitted messages are not deletions, even at the end; different messages in their place are changes.

One discussion may contain several conversations: a client uses one id for two windows, or for another conversation by
mistake. So the stored messages form a tree of parts. A part is a run of consecutive messages; it continues a message of
an earlier part, or nothing. A transcript is compared with each conversation in that tree, not with the messages in the
order of their arrival:

- A transcript that begins like a conversation starts at its beginning. The longest agreement counts, of equal ones the
  latest.
- A transcript that shares a run of messages with the newest ones of a conversation (the longest; of equal ones the
  latest) is a window of its end, and messages before that run are a summary, or a prompt.
- Messages before the run that are as many as those they replace are an edit; fewer are a summary.
- A run at the beginning of the transcript is a window too if it is longer than the agreement from the beginning, and
  reaches the newest message of a conversation or has at least four messages: a window may begin like the conversation.
- A run that would withdraw more messages than it has must have at least four: shorter ones often occur twice.
- A transcript without shared messages is a new conversation.

If the transcript then differs from the stored messages, it replaces them only if they are the end of the newest part,
and are one message at most or no more than agree, at least four. Otherwise nothing is withdrawn: the new messages
become a part that continues the last message that agrees. If fewer than four messages agree and the next stored message
contradicts the transcript, the common beginning is a coincidence, and the transcript is a new conversation.
"""

from bisect import bisect_left
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import islice
from typing import Literal

_SURE = 4
"""The number of consecutive equal messages that are no coincidence."""
_CONVERSATIONS, _LOOKED_AT = 8, 100
"""The maximum number of conversations that are searched for a window, and of parts that are checked for candidates."""
_TOLD_COMPARED, _KEPT_COMPARED = 500, 900
"""The number of latest messages compared on each side: the time may grow with the product of both."""


@dataclass(frozen=True, slots=True)
class Mark:
    """The comparable properties of a message.

    A stored message that was erased is deleted and has no key: only its role is known, or not even that (""). A
    transcript message without a key was erased before.
    """

    key: str
    role: str = ""
    deleted: bool = False


@dataclass(frozen=True, slots=True)
class Agreement:
    """The numbers of stored messages and of transcript messages that agree from the beginning."""

    kept: int
    told: int


@dataclass(frozen=True, slots=True)
class ConversationPart:
    """Consecutive messages of a conversation.

    `after` is the position behind the message that the first one continues; 0 if it continues none.
    """

    start: int
    after: int
    marks: Sequence[Mark]

    @property
    def end(self) -> int:
        """The position after its last message."""
        return self.start + len(self.marks)


@dataclass(frozen=True, slots=True)
class Alignment:
    """The result: `transcript[told:]` belongs at `position`. `ignored` transcript messages before that are no messages.

    `after`: a new part begins there, which continues the stored messages before this position.
    """

    position: int
    told: int
    ignored: int = 0
    after: int | None = None


def is_same_message(stored: Mark, sent: Mark) -> bool:
    """Return whether a stored message equals a transcript message; of an erased one only the role can be compared."""
    if stored.deleted and not stored.key:
        return stored.role in ("", sent.role)
    return stored.key == sent.key


DeletedLookup = Literal["included", "omitted", "required"]
"""Whether a transcript contains deleted messages: possibly, never, or always."""


def steps(stored: Sequence[Mark], transcript: Sequence[Mark], *, deleted: DeletedLookup) -> list[int]:
    """Count the agreeing transcript messages: before the first stored one, after it, after the next, and so on."""
    counts = [0]
    for mark in stored:
        at = counts[-1]
        while at < len(transcript) and not transcript[at].key and (mark.key or not mark.deleted):
            at += 1  # it was erased, and has no position among the stored messages
        may_match = not mark.deleted or deleted != "omitted"
        if may_match and at < len(transcript) and is_same_message(mark, transcript[at]):
            counts.append(at + 1)
        elif not mark.deleted or deleted == "required":
            break
        else:
            counts.append(counts[-1])
    return counts


def agreement(stored: Sequence[Mark], transcript: Sequence[Mark]) -> Agreement:
    """Return how far a transcript agrees, with or without deleted messages."""
    counts = [steps(stored, transcript, deleted="included")]
    if any(mark.deleted for mark in stored):
        counts.append(steps(stored, transcript, deleted="omitted"))
    return max((agreed(each) for each in counts), key=lambda each: each.kept)


def agreed(counts: Sequence[int]) -> Agreement:
    """Return how far a transcript agrees, by the counts of `steps`."""
    return Agreement(len(counts) - 1, counts[-1])


def parts_of(marks: Sequence[Mark], begins: Mapping[int, int], *, first: int) -> list[ConversationPart]:
    """Split the stored messages from position `first` into parts. `begins`: the position that each part continues.

    The first part continues the messages before it, which are not given.
    """
    count = first + len(marks)
    starts = sorted({first, *(start for start in begins if first < start < count)})
    # A part continues an earlier message; other values occur only in files that were altered.
    after = {start: begins[start] if 0 <= begins[start] <= start else 0 for start in starts if start in begins}
    ends = [*starts[1:], count]
    return [
        ConversationPart(start, after.get(start, first), marks[start - first : end - first])
        for start, end in zip(starts, ends, strict=True)
    ]


def align(
    transcript: Sequence[Mark], parts: Sequence[ConversationPart], counts: Mapping[DeletedLookup, Sequence[int]]
) -> Alignment:
    """Find the position of a transcript that does not contain all stored messages in the order of their arrival.

    `parts` contain the newest messages. `counts` are the `steps` of all messages, for each treatment of deleted ones.
    """
    match = max((_from_beginning(transcript, parts, each, reading) for reading, each in counts.items()), key=_rank)
    if match.position < parts[-1].end:
        windows = (_in_thread(transcript, thread, match) for thread in _threads(transcript, parts))
        match = max((match, *(window for window in windows if window)), key=_weight)
    return _without_loss(transcript, parts, match)


@dataclass(frozen=True, slots=True)
class _Match:
    """A transcript agrees with a conversation up to a position with `told` messages, including the `ignored` ones.

    `kept`: the number of agreeing messages of the conversation. `edited`: the transcript begins with an edit of the
    conversation's first messages.
    """

    position: int
    told: int
    ignored: int = 0
    kept: int = 0
    edited: bool = False


def _rank(match: _Match) -> tuple[int, int, int]:
    return match.told, match.kept, match.position


def _weight(match: _Match) -> tuple[int, bool, int]:
    return match.told - match.ignored, match.edited, match.position


def _from_beginning(
    transcript: Sequence[Mark], parts: Sequence[ConversationPart], counts: Sequence[int], deleted: DeletedLookup
) -> _Match:
    """Match a transcript from its first message along the longest agreeing path of the tree of parts."""
    unread = min(len(counts) - 1, parts[0].start)
    best = _Match(unread, counts[unread], kept=unread)
    branches = {part.after for part in parts}
    erased = sum(not mark.key for mark in transcript)  # these may have no position in a part
    reached = {
        position: _Match(position, counts[position], kept=position) for position in branches if position <= unread
    }
    for part in parts:
        before = reached.get(part.after)
        if before is None:
            continue
        rest = transcript[before.told : before.told + len(part.marks) + erased]
        for at, count in enumerate(steps(part.marks, rest, deleted=deleted)):
            position = part.start + at
            if at and (position in branches or count > best.told - before.told):
                reached[position] = _Match(position, before.told + count, kept=before.kept + at)
                best = max(best, reached[position], key=_rank)
    return best


_Placed = Sequence[tuple[int, Mark]]


@dataclass(frozen=True, slots=True)
class _Thread:
    """The newest messages of one conversation with their positions, preceded by those before position `unread`.

    `is_tail`: the conversation consists of the newest part only.
    """

    placed: _Placed
    unread: int
    is_tail: bool

    def holds(self, position: int) -> bool:
        """Return whether the conversation contains the message before a position."""
        return 0 < position <= self.unread or any(at == position - 1 for at, _ in self.placed)


def _threads(transcript: Sequence[Mark], parts: Sequence[ConversationPart]) -> Iterator[_Thread]:
    """Return the newest conversations that share messages with a transcript."""
    keys = {mark.key for mark in transcript}
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


def _in_thread(transcript: Sequence[Mark], thread: _Thread, from_beginning: _Match) -> _Match | None:
    """Find a transcript in the newest messages of a conversation. `from_beginning`: its match from the beginning."""
    begun = from_beginning if from_beginning.told and thread.holds(from_beginning.position) else _Match(0, 0)
    if begun.told:
        whole = _closest(transcript, thread, after=0)
        if whole.is_end_of_more_than(begun.told):
            # The common beginning is a coincidence, such as "ok".
            return _on_from(transcript, thread, whole.placed[whole.run.kept][0], 0)
    comparison = _closest(transcript[begun.told :], thread, after=begun.position)
    first = comparison.left_out() if begun.told else comparison.window()
    if first is None:
        return None
    if not begun.told and thread.is_tail and comparison.is_edit(first):
        return _Match(0, 0, edited=True)
    return _on_from(transcript, thread, comparison.placed[first.kept][0], begun.told + first.told, ignored=first.told)


def _on_from(transcript: Sequence[Mark], thread: _Thread, position: int, at: int, *, ignored: int = 0) -> _Match:
    """Return how far a transcript agrees if its message `at` is at a position."""
    pairs = [pair for pair in thread.placed if pair[0] >= position]
    further = agreement([mark for _, mark in pairs], transcript[at:])
    end = pairs[further.kept - 1][0] + 1 if further.kept else position
    return _Match(end, at + further.told, ignored)


def _without_loss(transcript: Sequence[Mark], parts: Sequence[ConversationPart], match: _Match) -> Alignment:
    """Return the alignment, and withdraw only messages that certainly belong to this conversation."""
    tail, rest = parts[-1], transcript[match.told :]
    if match.position == tail.end or not rest:
        return Alignment(tail.end, match.told, match.ignored)
    if not match.told and not match.edited:
        return Alignment(tail.end, 0, after=0)
    agreed = match.told - match.ignored
    at = tail.start if match.position == tail.after else match.position
    own = match.position == tail.after or match.position > tail.start
    if own and _may_go(tail.marks[at - tail.start :], rest, agreed=agreed):
        return Alignment(at, match.told, match.ignored)
    ends = {part.end for part in parts} | {part.start for part in parts if part.after != part.start}
    contradicted = match.position not in ends
    if rest and contradicted and agreed < _SURE:
        return Alignment(tail.end, 0, after=0)
    return Alignment(tail.end, match.told, match.ignored, after=match.position)


def _may_go(stored: Sequence[Mark], transcript: Sequence[Mark], *, agreed: int) -> bool:
    """Return whether a transcript may replace the stored messages after those that agree."""
    live = Counter(mark.key for mark in stored if not mark.deleted)
    lost = (live - Counter(mark.key for mark in transcript)).total()
    sure = agreed + live.total() - lost
    return lost <= 1 or sure >= max(_SURE, lost)


@dataclass(frozen=True, slots=True)
class _CommonRun:
    told: int
    kept: int
    size: int


@dataclass(frozen=True, slots=True)
class _Comparison:
    """Transcript messages, the newest stored messages, and their longest common run.

    `unseen` stored messages that may be replaced precede the first of `placed`.
    """

    rest: Sequence[Mark]
    placed: _Placed
    run: _CommonRun
    unseen: int

    def left_out(self) -> _CommonRun | None:
        """Return where a transcript from the beginning continues, if it only omits messages in the middle."""
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
        """Return whether the run begins the transcript and is a window, not a common beginning of `begun` messages.

        It is a window if it is longer, and reaches the newest stored message or is no coincidence.
        """
        run = self.run
        reaches_newest = all(mark.deleted for _, mark in self.placed[run.kept + run.size :])
        return not run.told and run.size > begun and (reaches_newest or run.size >= _SURE)

    def is_edit(self, first: _CommonRun) -> bool:
        """Return whether each message before a window is an edit of one stored message."""
        return first.told > 0 and first.told in self._replaced(first)

    def _replaced(self, first: _CommonRun) -> set[int]:
        """Return the numbers of stored messages before the first that agrees: with deleted ones, and without."""
        before = [mark for _, mark in self.placed[: first.kept]]
        return {self.unseen + len(before), self.unseen + sum(not mark.deleted for mark in before)}

    def _withdrawn(self, first: _CommonRun) -> int:
        marks = [mark for _, mark in self.placed[first.kept :]]
        agreeing = agreement(marks, self.rest[first.told :]).kept
        return sum(not mark.deleted for mark in marks[agreeing:])

    def _first_on_diagonal(self) -> _CommonRun:
        """Return the first agreeing message at the same distance as the run: a window may begin before an edit."""
        shift = self.run.kept - self.run.told
        starts = range(max(0, -shift), self.run.told + 1)
        at = next(at for at in starts if is_same_message(self.placed[at + shift][1], self.rest[at]))
        return _CommonRun(at, at + shift, self.run.size)


def _closest(rest: Sequence[Mark], thread: _Thread, *, after: int) -> _Comparison:
    """Compare a transcript with a conversation from position `after`.

    A client may include deleted messages or not: the reading with the longer run counts.
    """
    known = [(position, mark) for position, mark in thread.placed if position >= after]
    live = [(position, mark) for position, mark in known if not mark.deleted]
    unseen = max(0, thread.unread - after)
    readings = [_Comparison(rest, marks, _run(rest, marks), unseen) for marks in (known, live)]
    return max(readings, key=lambda reading: reading.run.size)


def _run(transcript: Sequence[Mark], placed: _Placed) -> _CommonRun:
    """Return the longest common run of the newest messages on both sides."""
    before, earlier = max(0, len(transcript) - _TOLD_COMPARED), max(0, len(placed) - _KEPT_COMPARED)
    run = _longest_run([*map(_name, transcript[before:])], [_name(mark) for _, mark in placed[earlier:]])
    return _CommonRun(run.told + before, run.kept + earlier, run.size)


def _name(mark: Mark) -> str:
    return mark.key or f"erased, {mark.role}"


def _longest_run(transcript: Sequence[str], stored: Sequence[str]) -> _CommonRun:
    """Return the longest run of equal messages; of equally long ones the latest in the stored messages."""
    places: dict[str, list[int]] = {}
    for place, key in enumerate(stored):
        places.setdefault(key, []).append(place)
    best = _CommonRun(0, 0, 0)
    ending: dict[int, int] = {}
    for at, key in enumerate(transcript):
        ending, before = {}, ending
        for place in places.get(key, ()):
            size = ending[place] = before.get(place - 1, 0) + 1
            run = _CommonRun(at - size + 1, place - size + 1, size)
            if (run.size, run.kept) > (best.size, best.kept):
                best = run
    return best
