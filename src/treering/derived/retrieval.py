"""From a question to hits: ranked candidates, read again from the ledger, without repetition.

The index proposes; the ledger decides. A hit is read again from the ledger, where state, scope and time are
checked, so that a late or damaged index can never show what was withdrawn.
"""

from collections.abc import Collection, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field, replace
from typing import Any

from treering.core.errors import NotFound
from treering.core.evidence import Segment
from treering.core.injection import instruction_flags
from treering.core.lifecycle import CURRENT
from treering.core.locator import Locator
from treering.core.objects import Source
from treering.core.scope import sees
from treering.derived.association import Association
from treering.derived.diversity import Candidate, diversify
from treering.derived.fusion import Fused
from treering.derived.passages import passages_of
from treering.derived.question import Question
from treering.derived.ranking import Ranking, rank
from treering.derived.trusting import REPEATING_WEIGHT, Trusted, Wording, repetition_flags, trust_in
from treering.ports.index import Index, PassageHead
from treering.ports.ledger import Altered, Head, Ledger, noted
from treering.ports.reach import Reach

_OVERFETCH = 3


@dataclass(frozen=True, slots=True)
class Hit:
    """A passage that answers, as the ledger holds it."""

    head: PassageHead
    state: Head
    text: str
    locator: Locator | None
    score: float
    fused: Fused
    trusted: Trusted
    repeats: bool = False

    @property
    def flags(self) -> tuple[str, ...]:
        """Name what in it is shaped like instructions to a model, and whether it repeats the question."""
        shown = "\n".join((self.head.title, self.head.heading, self.text))
        return (*instruction_flags(shown), *repetition_flags(self.repeats))

    @property
    def falls_for_repeating(self) -> bool:
        """Tell whether its score falls because it repeats the question: only where others are trusted more."""
        return self.repeats and self.trusted.factor < 1


@dataclass(frozen=True, slots=True)
class Retrieval:
    """Hits, best first, and the trace of how they came to be."""

    hits: tuple[Hit, ...]
    trace: Mapping[str, Any]
    association: Association | None = None
    altered: Mapping[str, str] = field(default_factory=dict)
    """By id, what is wrong with objects that were found and left out: they are not what the audit log says."""


def retrieve(
    question: Question,
    *,
    index: Index,
    ledger: Ledger,
    reach: Reach,
    limit: int,
    max_per_source: int | None = None,
    deep: bool = False,
) -> Retrieval:
    """Find the passages that answer a question within reach; `deep` costs more and finds more (`derived.ranking`)."""
    ranking = rank(question, index=index, reach=reach, limit=limit * _OVERFETCH, deep=deep)
    altered: Altered = {}
    reader = _Reader(ledger, reach, altered)
    found, dropped = _weighed(ranking, reader)
    read = _read(found, Wording.of(question.text), reader, limit=limit * _OVERFETCH)
    hits = _diverse(read, limit=limit, max_per_source=max_per_source)
    duplicates = len(read) - len(hits) if len(hits) < limit else 0
    trace = {**ranking.trace, "dropped": dropped, "duplicates": duplicates}
    return Retrieval(tuple(hits), trace, ranking.association, altered)


@dataclass(frozen=True, slots=True)
class _Standing:
    """A candidate that may be shown, before its text is read; `score` is weighed by trust."""

    head: PassageHead
    state: Head
    score: float
    fused: Fused
    trusted: Trusted


def _weighed(ranking: Ranking, reader: "_Reader") -> tuple[list[_Standing], int]:
    """Ask the ledger for the state of the candidates, leave out what may not be shown, and weigh the rest by trust."""
    states = reader.states({head.object_id for head in ranking.heads.values()})
    ranked = [(fused, ranking.heads[fused.key]) for fused in ranking.hits if fused.key in ranking.heads]
    shown = [
        (fused, head, state)
        for fused, head in ranked
        if (state := states.get(head.object_id)) and is_shown(state, reader.reach)
    ]
    held = {state.id: (state.origin_channel, state.status) for _, _, state in shown}
    trust = trust_in(held, reader.ledger.policy)
    standing = [
        _Standing(head, state, fused.score * trust[state.id].factor, fused, trust[state.id])
        for fused, head, state in shown
    ]
    return sorted(standing, key=lambda one: -one.score), len(ranked) - len(shown)


def _read(found: Sequence[_Standing], wording: Wording, reader: "_Reader", *, limit: int) -> list[Hit]:
    """Read the texts of candidates from the ledger, in rank order, until there are enough; rank them again.

    What repeats the question while others are trusted more falls, and is not counted: many copies of it must not
    keep out what stands behind them.
    """
    hits: list[Hit] = []
    for start in range(0, len(found), limit):
        batch = found[start : start + limit]
        words = reader.words([one.head for one in batch])
        hits += [_hit(one, words[one.head.key], wording) for one in batch if one.head.key in words]
        if sum(not hit.falls_for_repeating for hit in hits) >= limit:
            break
    return sorted(hits, key=lambda hit: -hit.score)[:limit]


def _hit(found: _Standing, words: "_Words", wording: Wording) -> Hit:
    head = _as_it_is(found.head, found.state, words)
    repeats = wording.repeated_in(f"{head.title}\n{head.heading}\n{words.text}")
    hit = Hit(head, found.state, words.text, words.locator, found.score, found.fused, found.trusted, repeats)
    return replace(hit, score=hit.score * REPEATING_WEIGHT) if hit.falls_for_repeating else hit


def _as_it_is(head: PassageHead, state: Head, words: "_Words") -> PassageHead:
    """Return a passage's head as the ledger has it: what the index says of it is shown nowhere."""
    title = state.title or state.origin
    return replace(head, kind=state.kind, scope=state.scope, title=title, heading=words.heading, origin=state.origin)


def is_shown(state: Head | None, reach: Reach) -> bool:
    """Tell whether an object in this state may be shown to a read: scope and status, filters apart."""
    if state is None:
        return False
    shown = reach.withdrawn or state.status in CURRENT[state.type]
    return shown and sees(reach.scope, state.scope, descend=reach.descend)


@dataclass(frozen=True, slots=True)
class _Words:
    """The words of a passage, as the ledger holds them."""

    text: str
    heading: str = ""
    locator: Locator | None = None


@dataclass(frozen=True, slots=True)
class _Reader:
    """Reads candidates from the ledger; what does not verify is left out and noted."""

    ledger: Ledger
    reach: Reach
    altered: Altered

    def states(self, identities: Collection[str]) -> Mapping[str, Head]:
        """Return the heads of objects at the time of the read."""
        return self.ledger.heads(identities, as_of=self.reach.at, altered=self.altered)

    def words(self, heads: Sequence[PassageHead]) -> dict[int, _Words]:
        """Read the words of passages: segments one by one, objects in their text form."""
        segments = self._segments([head for head in heads if head.part])
        words: dict[int, _Words] = {}
        for head in heads:
            segment = segments.get((head.object_id, head.part))
            if segment:
                words[head.key] = _Words(segment.excerpt, segment.heading, segment.locator)
            elif not head.part:
                with noted(self.altered):
                    item = self.ledger.get(head.object_id, as_of=self.reach.at)
                    words[head.key] = _Words(passages_of(item)[0].text)
        return words

    def _segments(self, heads: Sequence[PassageHead]) -> Mapping[tuple[str, str], Segment]:
        places = [(head.object_id, head.part) for head in heads]
        if self.reach.at is None and not self.reach.withdrawn:
            return self.ledger.segments(places, altered=self.altered)
        found: dict[tuple[str, str], Segment] = {}
        for place in places:
            with suppress(NotFound), noted(self.altered):
                if segment := self._past_segment(*place):
                    found[place] = segment
        return found

    def _past_segment(self, source_id: str, segment_id: str) -> Segment | None:
        if self.reach.at is None:
            return self.ledger.segment(source_id, segment_id)
        item = self.ledger.get(source_id, as_of=self.reach.at)
        parts = item.segments if isinstance(item, Source) else ()
        return next((part for part in parts if part.segment_id == segment_id), None)


def _diverse(hits: Sequence[Hit], *, limit: int, max_per_source: int | None) -> list[Hit]:
    candidates = [Candidate(hit.head.key, hit.score, hit.head.object_id, hit.text, hit.trusted.factor) for hit in hits]
    chosen = diversify(candidates, limit, max_per_source=max_per_source)
    by_key = {hit.head.key: hit for hit in hits}
    return [by_key[key] for key in chosen.keys]
