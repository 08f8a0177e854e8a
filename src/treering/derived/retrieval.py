"""From a question to hits: ranked candidates, read again from the ledger, without repetition.

The index proposes; the ledger decides. A hit is read again from the ledger, where state, scope and time are
checked, so that a late or damaged index can never show what was withdrawn.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

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
from treering.ports.ledger import Head, Ledger
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
    read, dropped = _recheck(ranking.hits, ranking.heads, ledger=ledger, reach=reach, limit=limit * _OVERFETCH)
    hits = _diverse(read, limit=limit, max_per_source=max_per_source)
    duplicates = len(read) - len(hits) if len(hits) < limit else 0
    trace = {**ranking.trace, "dropped": dropped, "duplicates": duplicates}
    return Retrieval(tuple(hits), trace, ranking.association)


def _recheck(
    ranked: Sequence[Fused], heads: Mapping[int, PassageHead], *, ledger: Ledger, reach: Reach, limit: int
) -> tuple[list[Hit], int]:
    """Read candidates again from the ledger, in rank order, until enough of them hold."""
    states = ledger.heads((head.object_id for head in heads.values()), as_of=reach.at)
    hits: list[Hit] = []
    dropped = 0
    for start in range(0, len(ranked), limit):
        batch = [(fused, heads[fused.key]) for fused in ranked[start : start + limit] if fused.key in heads]
        seen = [(fused, head) for fused, head in batch if is_shown(states.get(head.object_id), reach)]
        words = _words([head for _, head in seen], ledger, reach)
        for fused, head in seen:
            if head.key in words:
                text, locator = words[head.key]
                hits.append(Hit(head, states[head.object_id], text, locator, fused.score, fused))
        dropped += len(batch) - len(seen)
        if len(hits) >= limit:
            break
    return hits[:limit], dropped


def is_shown(state: Head | None, reach: Reach) -> bool:
    """Tell whether an object in this state may be shown to a read: scope and status, filters apart."""
    if state is None:
        return False
    shown = reach.withdrawn or state.status in CURRENT[state.type]
    return shown and sees(reach.scope, state.scope, descend=reach.descend)


def _words(heads: Sequence[PassageHead], ledger: Ledger, reach: Reach) -> dict[int, tuple[str, Locator | None]]:
    """Read the words of passages: segments one by one, objects in their text form."""
    if reach.at is not None or reach.withdrawn:
        segments = {(head.object_id, head.part): _past_segment(head, ledger, reach) for head in heads if head.part}
    else:
        segments = dict(ledger.segments([(head.object_id, head.part) for head in heads if head.part]))
    words: dict[int, tuple[str, Locator | None]] = {}
    for head in heads:
        segment = segments.get((head.object_id, head.part))
        if segment:
            words[head.key] = (segment.excerpt, segment.locator)
        elif not head.part:
            item = ledger.get(head.object_id, as_of=reach.at)
            words[head.key] = (passages_of(item)[0].text, None)
    return words


def _past_segment(head: PassageHead, ledger: Ledger, reach: Reach) -> Segment | None:
    if reach.at is None:
        return ledger.segment(head.object_id, head.part)
    item = ledger.get(head.object_id, as_of=reach.at)
    parts = item.segments if isinstance(item, Source) else ()
    return next((part for part in parts if part.segment_id == head.part), None)


def _diverse(hits: Sequence[Hit], *, limit: int, max_per_source: int | None) -> list[Hit]:
    candidates = [Candidate(hit.head.key, hit.score, hit.head.object_id, hit.text) for hit in hits]
    chosen = diversify(candidates, limit, max_per_source=max_per_source)
    by_key = {hit.head.key: hit for hit in hits}
    return [by_key[key] for key in chosen.keys]
