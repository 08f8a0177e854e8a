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
from treering.derived.ranking import rank
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

    @property
    def flags(self) -> tuple[str, ...]:
        """Name what in the title, the heading and the text is shaped like instructions to a model."""
        return instruction_flags("\n".join((self.head.title, self.head.heading, self.text)))


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
    read, dropped = _recheck(ranking.hits, ranking.heads, reader=reader, limit=limit * _OVERFETCH)
    hits = _diverse(read, limit=limit, max_per_source=max_per_source)
    duplicates = len(read) - len(hits) if len(hits) < limit else 0
    trace = {**ranking.trace, "dropped": dropped, "duplicates": duplicates}
    return Retrieval(tuple(hits), trace, ranking.association, altered)


def _recheck(
    ranked: Sequence[Fused], heads: Mapping[int, PassageHead], *, reader: "_Reader", limit: int
) -> tuple[list[Hit], int]:
    """Read candidates again from the ledger, in rank order, until enough of them hold."""
    states = reader.states({head.object_id for head in heads.values()})
    hits: list[Hit] = []
    dropped = 0
    for start in range(0, len(ranked), limit):
        batch = [(fused, heads[fused.key]) for fused in ranked[start : start + limit] if fused.key in heads]
        seen = [(fused, head) for fused, head in batch if is_shown(states.get(head.object_id), reader.reach)]
        words = reader.words([head for _, head in seen])
        for fused, head in seen:
            if head.key in words:
                state, found = states[head.object_id], words[head.key]
                hits.append(Hit(_as_it_is(head, state, found), state, found.text, found.locator, fused.score, fused))
        dropped += len(batch) - len(seen)
        if len(hits) >= limit:
            break
    return hits[:limit], dropped


def _as_it_is(head: PassageHead, state: Head, words: "_Words") -> PassageHead:
    """Give a passage's head as the ledger has it: what the index says of it is shown nowhere."""
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
        """Give the heads of objects at the time of the read."""
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
    candidates = [Candidate(hit.head.key, hit.score, hit.head.object_id, hit.text) for hit in hits]
    chosen = diversify(candidates, limit, max_per_source=max_per_source)
    by_key = {hit.head.key: hit for hit in hits}
    return [by_key[key] for key in chosen.keys]
