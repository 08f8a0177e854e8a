"""Merging a transcript that is read again with its stored turns. Pure.

Clients compact sessions, or send only the last messages, so a stored turn that is missing from a new transcript is
retained. It is only replaced by other turns in its place.

- Turns are matched by their ids if both sides have ids, otherwise by speaker and words.
- A new turn is placed between its neighbors in the transcript, or else after all stored turns.
- Stored turns are replaced by new turns between the same neighbors, if there are at least as many; by new turns at the
  end of the transcript; and by as many new turns at its beginning. Without ids, this requires at least four matching
  turns (three if both begin and end alike), and at least as many as are replaced, because short messages are often
  repeated. A single last turn is replaced if everything before it matches.
- Between turns that were never read next to each other, turns may be missing, so new turns there replace nothing.
"""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import groupby, pairwise

from treering.core.canonical import Json, chain_hashes, message_key
from treering.core.evidence import Locator, Segment, Stretch, Turn, matching_stretches
from treering.core.objects import Source
from treering.ports.adapter import SegmentDraft, SourceDraft

_MIN_MATCHES = 4
"""This number of equal turns is no coincidence."""


def is_transcript(kind: str, metadata: Mapping[str, object]) -> bool:
    """Return whether a source is a transcript. A ticket is not, because it is always read completely."""
    return kind == "conversation" and "tracker" not in metadata


def continued(stored: Source, draft: SourceDraft) -> tuple[SourceDraft, str]:
    """Merge a transcript with its stored turns that are missing from it; return a note about them, too."""
    known, new = _with_ids(_stored_turns(stored.segments), _turns(draft.segments))
    merged = _merged(known, new)
    gone = _gone(known, new, merged)
    left_out = sum(turn.new is None for turn in merged)
    whys = [f"diverges at turn {min(gone)}: {len(gone)} turns replaced"] if gone else []
    if not left_out and len(merged) == len(new):
        return draft, "".join(whys)
    whys += [f"earlier turns retained that are missing from it: {left_out}"] if left_out else []
    metadata = {**draft.metadata, **_earliest(stored.metadata, draft.metadata)}
    whole = replace(draft, title=stored.title, segments=list(_numbered(merged)), metadata=metadata)
    return whole, "; ".join(whys)


@dataclass(frozen=True, slots=True)
class _Turn:
    """A turn: its key for matching, a hash of its words, and its positions in the stored and the new turns.

    `follows`: it was read directly after the stored turn before it.
    """

    key: str
    words: str
    drafts: tuple[SegmentDraft, ...]
    known: int | None = None
    new: int | None = None
    follows: bool = True

    @property
    def id(self) -> str:
        locator = self.drafts[0].locator
        return locator.message_id if isinstance(locator, Turn) else ""


_Turns = Sequence[_Turn]


def _stored_turns(segments: Sequence[Segment]) -> _Turns:
    drafts = [
        SegmentDraft(one.locator, one.excerpt, one.heading, one.role, one.gist, one.triples, one.definitions, one.uses)
        for one in segments
    ]
    # Segments retained for evidence come last, and repeat the text of others.
    pairs = enumerate(pairwise(map(_turn_of, drafts)), start=1)
    end = next((at for at, (one, other) in pairs if other < one), len(drafts))
    turns = _turns(drafts[:end])
    chains = ["", *(_chain(turn) for turn in turns)]
    return [
        replace(turn, known=at, new=None, follows=not chain or [*chain_hashes([turn.words], after=chain)] == [own])
        for at, (turn, chain, own) in enumerate(zip(turns, chains, chains[1:], strict=False))
    ]


def _turns(drafts: Sequence[SegmentDraft]) -> _Turns:
    groups = [tuple(group) for _, group in groupby(drafts, key=_turn_of)]
    words = [_words(parts) for parts in groups]
    return [_Turn(key, key, parts, new=at) for at, (key, parts) in enumerate(zip(words, groups, strict=True))]


def _turn_of(draft: SegmentDraft) -> int:
    return draft.locator.turn if isinstance(draft.locator, Turn) else -1


def _chain(turn: _Turn) -> str:
    locator = turn.drafts[0].locator
    return locator.chain if isinstance(locator, Turn) else ""


def _words(parts: Sequence[SegmentDraft]) -> str:
    locator = parts[0].locator
    speaker = (locator.role or locator.speaker) if isinstance(locator, Turn) else ""
    return message_key(speaker, "\n".join(part.text for part in parts))


def _with_ids(known: _Turns, new: _Turns) -> tuple[_Turns, _Turns]:
    """Match turns by their ids, if these are unique on both sides and some are on both."""
    ids, others = [turn.id for turn in known if turn.id], [turn.id for turn in new if turn.id]
    if len({*ids}) < len(ids) or len({*others}) < len(others) or {*ids}.isdisjoint(others):
        return known, new
    return [_named(turn) for turn in known], [_named(turn) for turn in new]


def _named(turn: _Turn) -> _Turn:
    return replace(turn, key=f"id {turn.id}") if turn.id else turn


def _merged(known: _Turns, new: _Turns) -> list[_Turn]:
    """Return the turns after the merge."""
    keys, others = [turn.key for turn in known], [turn.key for turn in new]
    by_ids = any(turn.key != turn.words for turn in new)
    shared = [] if by_ids else _overlap(keys, others)
    shared = shared or matching_stretches(keys, others)
    agreed = len(known) if by_ids else sum(one.size for one in shared)
    is_sure = by_ids or agreed >= _MIN_MATCHES - _frames(shared, known, new)
    present = {*others} if by_ids else set[str]()
    merged: list[_Turn] = []
    at = place = 0
    for one in [*shared, Stretch(len(known), len(new), 0)]:
        before = [turn for turn in known[at : one.old] if turn.key not in present]
        gap = _Gap(before, new[place : one.new], merged[-1:], known[one.old : one.old + 1])
        begins_alike = 0 < agreed == place == at
        merged += gap.settled(agreed if is_sure else int(begins_alike))
        merged += map(_agreeing, known[one.old : one.old + one.size], new[one.new : one.new + one.size])
        at, place = one.old + one.size, one.new + one.size
    return merged


def _frames(shared: Sequence[Stretch], known: _Turns, new: _Turns) -> bool:
    """Return whether both begin and end alike, so that the transcript is not just a window."""
    first, last = (shared[0], shared[-1]) if shared else (None, None)
    begins = first is not None and first.old == first.new == 0
    return begins and last is not None and (last.old + last.size, last.new + last.size) == (len(known), len(new))


def _overlap(known: Sequence[str], new: Sequence[str]) -> list[Stretch]:
    """Return the shared turns, if one side is part of the other, or the transcript continues the stored turns."""
    if not known or not new:
        return []
    ends = list(_prefixes(new, known))
    if len(new) in ends:
        return [Stretch(ends.index(len(new)) + 1 - len(new), 0, len(new))]
    begins = list(_prefixes(known, new))
    if len(known) in begins:
        return [Stretch(0, begins.index(len(known)) + 1 - len(known), len(known))]
    return [Stretch(len(known) - ends[-1], 0, ends[-1])] if ends[-1] else []


def _prefixes(part: Sequence[str], whole: Sequence[str]) -> Iterator[int]:
    """Yield, for each place in `whole`, the length of the prefix of `part` that ends there (Knuth, Morris, Pratt)."""
    shorter = [0] * len(part)
    size = 0
    for at in range(1, len(part)):
        while size and part[at] != part[size]:
            size = shorter[size - 1]
        size += part[at] == part[size]
        shorter[at] = size
    size = 0
    for item in whole:
        while size and (size == len(part) or item != part[size]):
            size = shorter[size - 1]
        size += item == part[size]
        yield size


def _agreeing(known: _Turn, new: _Turn) -> _Turn:
    return replace(new, known=known.known, follows=known.follows)


@dataclass(frozen=True, slots=True)
class _Gap:
    """The stored and the new turns between two matching turns. `left` and `right` are empty at the ends."""

    known: _Turns
    new: _Turns
    left: _Turns
    right: _Turns

    def settled(self, most: int) -> list[_Turn]:
        """Return the turns of the gap, which replace at most this number of stored turns."""
        if not self.known or not self.new:
            return [*self.known, *self.new]
        if not self.left:
            gives_way = len(self.known) == len(self.new) <= most and self._is_joined()
            return [*(() if gives_way else self.known), *self.new]
        end = next((at for at, turn in enumerate(self.known) if not turn.follows), len(self.known))
        joined, apart = self.known[:end], self.known[end:]
        gives_way = len(joined) <= most and (not self.right or len(self.new) >= len(joined))
        return [*(() if gives_way else joined), *self.new, *apart]

    def _is_joined(self) -> bool:
        """Return whether the stored turns were read directly before the matching one."""
        return bool(self.right) and all(turn.follows for turn in (*self.known[1:], *self.right))


def _gone(known: _Turns, new: _Turns, merged: _Turns) -> list[int]:
    """Return the positions of stored turns that were replaced, or have other words under the same id."""
    words = {turn.known: turn.words for turn in merged if turn.known is not None}
    ids = {turn.key for turn in new if turn.key != turn.words}
    return [at for at, turn in enumerate(known) if (turn.words != words[at] if at in words else turn.key not in ids)]


def _earliest(stored: Mapping[str, Json], draft: Mapping[str, Json]) -> dict[str, Json]:
    """Return the times of the beginning, which may be missing from the transcript."""
    times = {name: (stored.get(name), draft.get(name)) for name in ("created_at", "since")}
    return {
        name: min(one, other) for name, (one, other) in times.items() if isinstance(one, str) and isinstance(other, str)
    }


def _numbered(turns: _Turns) -> Iterator[SegmentDraft]:
    """Yield the segments of turns with their new positions; the chain restarts between turns never read together."""
    chain = ""
    for place, turn in enumerate(turns):
        joined = place > 0 and _were_adjacent(turns[place - 1], turn)
        (chain,) = chain_hashes([turn.words], after=chain if joined else "")
        for draft in turn.drafts:
            yield replace(draft, locator=_placed(draft.locator, place, chain))


def _were_adjacent(one: _Turn, other: _Turn) -> bool:
    in_known = one.known is not None and other.known == one.known + 1 and other.follows
    return in_known or (one.new is not None and other.new == one.new + 1)


def _placed(locator: Locator, turn: int, chain: str) -> Locator:
    return locator.model_copy(update={"turn": turn, "chain": chain}) if isinstance(locator, Turn) else locator
