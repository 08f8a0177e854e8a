"""A transcript that is read again, put together with the turns that are known of it. Pure.

A client compacts a session, or sends the last messages only: a transcript that leaves turns out does not take them
back. Only other turns in their place do.

- Turns are the same by their ids where both sides have such, otherwise by speaker and words.
- A new turn is placed between its neighbors in the transcript, or else behind all known turns.
- Known turns give way to others between the same neighbors, if those are at least as many; to others at the end of the
  transcript; and to as many others at its beginning. Without ids, at least four turns have to agree for that (three, if
  both begin and end alike), and at least as many as give way: short words are said twice. A single last turn gives way
  if everything before it agrees.
- Between turns that were never read next to each other others may be missing: what is new there replaces nothing.
"""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import groupby, pairwise

from treering.core.canonical import Json, chain_hashes, message_key
from treering.core.evidence import Locator, Segment, Stretch, Turn, matching_stretches
from treering.core.objects import Source
from treering.ports.adapter import SegmentDraft, SourceDraft

_SURE = 4
"""So many equal turns are no coincidence."""


@dataclass(frozen=True, slots=True)
class Continued:
    """A transcript with the known turns that it leaves out, and what a person should know of that."""

    draft: SourceDraft
    why: str = ""


def is_transcript(kind: str, metadata: Mapping[str, object]) -> bool:
    """Return whether a source is a transcript. A ticket is not: its tracker tells all of it each time."""
    return kind == "conversation" and "tracker" not in metadata


def continued(held: Source, draft: SourceDraft) -> Continued:
    """Put a transcript together with what is known of it."""
    known, told = _with_ids(_turns_held(held.segments), _turns(draft.segments))
    stands = _merged(known, told)
    gone = _gone(known, told, stands)
    left_out = sum(turn.told is None for turn in stands)
    whys = [f"diverges at turn {min(gone)}: {len(gone)} turns replaced"] if gone else []
    if not left_out and len(stands) == len(told):
        return Continued(draft, *whys)
    whys += [f"earlier turns retained that are missing from it: {left_out}"] if left_out else []
    metadata = {**draft.metadata, **_earliest(held.metadata, draft.metadata)}
    whole = replace(draft, title=held.title, segments=list(_numbered(stands)), metadata=metadata)
    return Continued(whole, "; ".join(whys))


@dataclass(frozen=True, slots=True)
class _Turn:
    """A turn: what tells it from others, what it says, and its places in what is known and in what is told.

    `follows`: it was read right behind the turn that is known before it.
    """

    key: str
    words: str
    drafts: tuple[SegmentDraft, ...]
    known: int | None = None
    told: int | None = None
    follows: bool = True

    @property
    def id(self) -> str:
        locator = self.drafts[0].locator
        return locator.message_id if isinstance(locator, Turn) else ""


_Turns = Sequence[_Turn]


def _turns_held(segments: Sequence[Segment]) -> _Turns:
    drafts = [
        SegmentDraft(one.locator, one.excerpt, one.heading, one.role, one.gist, one.triples, one.definitions, one.uses)
        for one in segments
    ]
    # Segments that are kept for evidence alone come last, and repeat words of others.
    turns = enumerate(pairwise(map(_turn_of, drafts)), start=1)
    end = next((at for at, (one, other) in turns if other < one), len(drafts))
    found = _turns(drafts[:end])
    chains = ["", *(_chain(turn) for turn in found)]
    return [
        replace(turn, known=at, told=None, follows=not chain or [*chain_hashes([turn.words], after=chain)] == [own])
        for at, (turn, chain, own) in enumerate(zip(found, chains, chains[1:], strict=False))
    ]


def _turns(drafts: Sequence[SegmentDraft]) -> _Turns:
    groups = [tuple(group) for _, group in groupby(drafts, key=_turn_of)]
    words = [_words(parts) for parts in groups]
    return [_Turn(key, key, parts, told=at) for at, (key, parts) in enumerate(zip(words, groups, strict=True))]


def _turn_of(draft: SegmentDraft) -> int:
    return draft.locator.turn if isinstance(draft.locator, Turn) else -1


def _chain(turn: _Turn) -> str:
    locator = turn.drafts[0].locator
    return locator.chain if isinstance(locator, Turn) else ""


def _words(parts: Sequence[SegmentDraft]) -> str:
    locator = parts[0].locator
    speaker = (locator.role or locator.speaker) if isinstance(locator, Turn) else ""
    return message_key(speaker, "\n".join(part.text for part in parts))


def _with_ids(known: _Turns, told: _Turns) -> tuple[_Turns, _Turns]:
    """Tell turns apart by their ids, if those are unique on both sides and some are on both."""
    ids, others = [turn.id for turn in known if turn.id], [turn.id for turn in told if turn.id]
    if len({*ids}) < len(ids) or len({*others}) < len(others) or {*ids}.isdisjoint(others):
        return known, told
    return [_named(turn) for turn in known], [_named(turn) for turn in told]


def _named(turn: _Turn) -> _Turn:
    return replace(turn, key=f"id {turn.id}") if turn.id else turn


def _merged(known: _Turns, told: _Turns) -> list[_Turn]:
    """Return the turns that stand."""
    keys, others = [turn.key for turn in known], [turn.key for turn in told]
    by_ids = any(turn.key != turn.words for turn in told)
    shared = [] if by_ids else _overlap(keys, others)
    shared = shared or matching_stretches(keys, others)
    agreed = len(known) if by_ids else sum(one.size for one in shared)
    is_sure = by_ids or agreed >= _SURE - _frames(shared, known, told)
    present = {*others} if by_ids else set[str]()
    stands: list[_Turn] = []
    at = place = 0
    for one in [*shared, Stretch(len(known), len(told), 0)]:
        before = [turn for turn in known[at : one.old] if turn.key not in present]
        gap = _Gap(before, told[place : one.new], stands[-1:], known[one.old : one.old + 1])
        begins_alike = 0 < agreed == place == at
        most = agreed if is_sure else int(begins_alike)
        stands += gap.settled(most)
        stands += map(_agreeing, known[one.old : one.old + one.size], told[one.new : one.new + one.size])
        at, place = one.old + one.size, one.new + one.size
    return stands


def _frames(shared: Sequence[Stretch], known: _Turns, told: _Turns) -> bool:
    """Return whether both begin and end alike: then the transcript is no window."""
    first, last = (shared[0], shared[-1]) if shared else (None, None)
    begins = first is not None and first.old == first.new == 0
    return begins and last is not None and (last.old + last.size, last.new + last.size) == (len(known), len(told))


def _overlap(known: Sequence[str], told: Sequence[str]) -> list[Stretch]:
    """Return what is shared, if one is a part of the other, or the transcript goes on from the end of what is known."""
    if not known or not told:
        return []
    ends = list(_prefixes(told, known))
    if len(told) in ends:
        return [Stretch(ends.index(len(told)) + 1 - len(told), 0, len(told))]
    begins = list(_prefixes(known, told))
    if len(known) in begins:
        return [Stretch(0, begins.index(len(known)) + 1 - len(known), len(known))]
    return [Stretch(len(known) - ends[-1], 0, ends[-1])] if ends[-1] else []


def _prefixes(part: Sequence[str], whole: Sequence[str]) -> Iterator[int]:
    """Yield for each place in `whole` how much of the beginning of `part` ends there (Knuth, Morris and Pratt 1977)."""
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


def _agreeing(known: _Turn, told: _Turn) -> _Turn:
    return replace(told, known=known.known, follows=known.follows)


@dataclass(frozen=True, slots=True)
class _Gap:
    """What is known and what is told between two turns that agree. `left` and `right` are empty where there is none."""

    known: _Turns
    told: _Turns
    left: _Turns
    right: _Turns

    def settled(self, most: int) -> list[_Turn]:
        """Return the turns that stand here; at most so many known ones give way."""
        if not self.known or not self.told:
            return [*self.known, *self.told]
        if not self.left:
            gives_way = len(self.known) == len(self.told) <= most and self._is_joined()
            return [*(() if gives_way else self.known), *self.told]
        end = next((at for at, turn in enumerate(self.known) if not turn.follows), len(self.known))
        joined, apart = self.known[:end], self.known[end:]
        gives_way = len(joined) <= most and (not self.right or len(self.told) >= len(joined))
        return [*(() if gives_way else joined), *self.told, *apart]

    def _is_joined(self) -> bool:
        """Return whether the known turns were read right before the one that agrees."""
        return bool(self.right) and all(turn.follows for turn in (*self.known[1:], *self.right))


def _gone(known: _Turns, told: _Turns, stands: _Turns) -> list[int]:
    """Return the places of known turns that gave way, or say something else now under the same id."""
    words = {turn.known: turn.words for turn in stands if turn.known is not None}
    ids = {turn.key for turn in told if turn.key != turn.words}
    return [at for at, turn in enumerate(known) if (turn.words != words[at] if at in words else turn.key not in ids)]


def _earliest(held: Mapping[str, Json], draft: Mapping[str, Json]) -> dict[str, Json]:
    """Return the times of the beginning, which the transcript may have lost."""
    times = {name: (held.get(name), draft.get(name)) for name in ("created_at", "since")}
    return {
        name: min(one, other) for name, (one, other) in times.items() if isinstance(one, str) and isinstance(other, str)
    }


def _numbered(turns: _Turns) -> Iterator[SegmentDraft]:
    """Yield the segments of turns in their new places; the chain begins again where turns never stood together."""
    chain = ""
    for place, turn in enumerate(turns):
        joined = place > 0 and _stood_together(turns[place - 1], turn)
        (chain,) = chain_hashes([turn.words], after=chain if joined else "")
        for draft in turn.drafts:
            yield replace(draft, locator=_placed(draft.locator, place, chain))


def _stood_together(one: _Turn, other: _Turn) -> bool:
    in_known = one.known is not None and other.known == one.known + 1 and other.follows
    return in_known or (one.told is not None and other.told == one.told + 1)


def _placed(locator: Locator, turn: int, chain: str) -> Locator:
    return locator.model_copy(update={"turn": turn, "chain": chain}) if isinstance(locator, Turn) else locator
