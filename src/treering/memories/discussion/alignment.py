"""Where a telling of a discussion belongs beside what is kept of it. Pure: nothing is read or written here.

A client sends all messages with every request, or the newest ones that fit, or those behind a summary of the
rest. So leaving messages out says nothing; saying something else in their place does, and so does stopping
short, for what is sent always ends with the newest message:

- What begins like what is kept is told from the beginning. Where it parts from what is kept, or ends, everything
  from there on is withdrawn.
- What has a run of messages in common with the newest ones kept (the longest; of equal ones the latest) is a
  window of the end, and what stands in front of that run is a summary, or a prompt.
- As many messages as what they stand in the place of are an edit; fewer are a summary.
- A run that would make more go than it holds must be at least four messages long: shorter ones get said twice.
- What has nothing in common is something new, and nothing is withdrawn.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Literal

_SURE = 4
"""So many equal messages in a row are no coincidence."""


@dataclass(frozen=True, slots=True)
class Mark:
    """What is compared of a message. A deleted one that was erased has no key: only its role is known."""

    key: str
    role: str = ""
    deleted: bool = False


@dataclass(frozen=True, slots=True)
class Agreement:
    """How many messages, of those kept and of those told, agree from the beginning."""

    kept: int
    told: int


@dataclass(frozen=True, slots=True)
class Alignment:
    """From `position` on, `told[told:]` is what stands. Of what is told before that, `ignored` are no messages."""

    position: int
    told: int
    ignored: int = 0


def same(kept: Mark, told: Mark) -> bool:
    """Tell whether a kept message is the one that is told; of an erased one only the role can be compared."""
    if kept.deleted and not kept.key:
        return kept.role == told.role
    return kept.key == told.key


def agreement(kept: Sequence[Mark], told: Sequence[Mark]) -> Agreement:
    """Tell how far a telling agrees. A deleted message may be in it or not."""
    readings = [walk(kept, told, deleted="told")]
    if any(mark.deleted for mark in kept):
        readings.append(walk(kept, told, deleted="left out"))
    return max(readings, key=lambda found: found.kept)


Reading = Literal["told", "left out", "always told"]
"""How deleted messages are looked for in a telling: where they fit, not at all, or without exception."""


def walk(kept: Sequence[Mark], told: Sequence[Mark], *, deleted: Reading) -> Agreement:
    """Tell how far a telling agrees, where deleted messages are read in one way."""
    at = 0
    for place, mark in enumerate(kept):
        looked_for = not mark.deleted or deleted != "left out"
        if looked_for and at < len(told) and same(mark, told[at]):
            at += 1
        elif not mark.deleted or deleted == "always told":
            return Agreement(place, at)
    return Agreement(len(kept), at)


def align(told: Sequence[Mark], newest: Sequence[Mark], *, agreed: Agreement, count: int) -> Alignment:
    """Tell where a telling belongs that agrees with what is kept up to `agreed` and no further.

    `newest` are the last of the `count` messages kept: as many as a window is looked for in.
    """
    placed = list(enumerate(newest, start=count - len(newest)))
    if agreed.told:
        whole = _run(told, placed)
        if not whole.told and whole.size >= max(_SURE, agreed.told + 1):
            # It only happens to begin like the discussion did: a window that begins with "ok" does.
            return Alignment(placed[whole.kept][0], 0)
    comparison = _closest(told[agreed.told :], placed, after=agreed.kept)
    match comparison.left_out() if agreed.told else comparison.window():
        case _Run(told=at, kept=place):
            return Alignment(comparison.placed[place][0], agreed.told + at, ignored=at)
        case "edit":
            return Alignment(agreed.kept, agreed.told)
        case None:
            return Alignment(agreed.kept, agreed.told) if agreed.told else Alignment(count, 0)


def is_end(told: Sequence[Mark], newest: Sequence[Mark]) -> bool:
    """Tell whether a telling is just the last messages that are kept."""
    live = [mark.key for mark in newest if not mark.deleted]
    return bool(told) and live[-len(told) :] == [mark.key for mark in told]


@dataclass(frozen=True, slots=True)
class _Run:
    told: int
    kept: int
    size: int


_Placed = Sequence[tuple[int, Mark]]


@dataclass(frozen=True, slots=True)
class _Comparison:
    """Messages that are told beside the newest that are kept, and their longest common run.

    `unseen` kept messages that may be replaced stand before the first of `placed`.
    """

    rest: Sequence[Mark]
    placed: _Placed
    run: _Run
    unseen: int

    def left_out(self) -> _Run | None:
        """Give where a telling from the beginning goes on, if it only leaves out a stretch in the middle."""
        if self.run.size < _SURE:
            return None
        first = self._first_on_diagonal()
        return first if first.told < min(self._replaced(first)) else None

    def window(self) -> _Run | Literal["edit"] | None:
        """Give where a window of the end begins, or tell that it is an edit of the first messages."""
        size = self.run.size
        if not size:
            return None
        first = self._first_on_diagonal()
        if size < _SURE and (size <= self._withdrawn(first) or (first.told and size == 1)):
            return None
        return "edit" if first.told and first.told in self._replaced(first) else first

    def _replaced(self, first: _Run) -> set[int]:
        """Count the kept messages before the first that agrees: with deleted ones, and without."""
        before = [mark for _, mark in self.placed[: first.kept]]
        return {self.unseen + len(before), self.unseen + sum(not mark.deleted for mark in before)}

    def _withdrawn(self, first: _Run) -> int:
        marks = [mark for _, mark in self.placed[first.kept :]]
        agreed = agreement(marks, self.rest[first.told :])
        return sum(not mark.deleted for mark in marks[agreed.kept :])

    def _first_on_diagonal(self) -> _Run:
        """Give the first message that agrees at the same distance as the run: a window may begin before an edit."""
        shift = self.run.kept - self.run.told
        starts = range(max(0, -shift), self.run.told + 1)
        at = next(at for at in starts if same(self.placed[at + shift][1], self.rest[at]))
        return _Run(at, at + shift, self.run.size)


def _closest(rest: Sequence[Mark], placed: _Placed, *, after: int) -> _Comparison:
    """Compare with what is kept from position `after` on.

    A client may send deleted messages or not: with them or without, the longer run is the better reading.
    """
    known = [(position, mark) for position, mark in placed if position >= after]
    live = [(position, mark) for position, mark in known if not mark.deleted]
    unseen = known[0][0] - after if known else 0
    readings = [_Comparison(rest, marks, _run(rest, marks), unseen) for marks in (known, live)]
    return max(readings, key=lambda reading: reading.run.size)


def _run(told: Sequence[Mark], placed: _Placed) -> _Run:
    return _longest_run([mark.key for mark in told], [mark.key for _, mark in placed])


def _longest_run(told: Sequence[str], kept: Sequence[str]) -> _Run:
    """Give the longest run of equal messages; of equally long ones that which is latest in what is kept."""
    places: dict[str, list[int]] = {}
    for place, key in enumerate(kept):
        places.setdefault(key, []).append(place)
    best = _Run(0, 0, 0)
    ending: dict[int, int] = {}
    for at, key in enumerate(told):
        ending, before = {}, ending
        for place in places.get(key, ()):
            size = ending[place] = before.get(place - 1, 0) + 1
            found = _Run(at - size + 1, place - size + 1, size)
            if (found.size, found.kept) > (best.size, best.kept):
                best = found
    return best
