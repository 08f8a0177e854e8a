"""Sources that are the same thing: which one goes on, and what becomes of the others and of what rests on them."""

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass

from treering.core.evidence import EvidenceRef, Segment, Turn
from treering.core.objects import Source
from treering.core.patch import Transition
from treering.ports.adapter import SegmentDraft, SourceDraft
from treering.ports.ledger import SourceState
from treering.verbs.ingest.known import KnownSources, is_live


@dataclass(frozen=True, slots=True)
class Twins:
    """The sources that one thing is known by. `kept` goes on; it is known by the origin `before` until now.

    `folded` are archived in its favour. `standing` are left as they are: knowledge rests on them that ingest may not
    change.
    """

    kept: SourceState
    before: str
    folded: tuple[SourceState, ...] = ()
    standing: tuple[str, ...] = ()

    def archiving(self) -> list[Transition]:
        """Return the operations that archive what is folded."""
        return [Transition(id=one.id, expected_revision=one.revision, to="archived") for one in self.folded]

    def note(self) -> str:
        """Say which sources of the same thing stand beside it still; empty where none does."""
        if not self.standing:
            return ""
        return f"the same is also known as {', '.join(self.standing)}, on which knowledge rests: see lint repair"


def twins_of(origin: str, earlier: Sequence[str], known_sources: KnownSources) -> Twins | None:
    """Choose the source that goes on as `origin`, of those known by it or by an earlier origin; `None` without any.

    One that knowledge rests on goes on before others: ingest may move the evidence of candidates alone.
    """
    states = {name: known_sources.source(name) for name in dict.fromkeys((origin, *earlier))}
    found = {name: state for name, state in states.items() if state is not None}
    if not found:
        return None
    held = [name for name, state in found.items() if len(found) > 1 and _is_held(state, known_sources)]
    kept = (held or list(found))[0]
    return Twins(
        kept=found[kept],
        before=next((name for name in (kept, *found) if name != origin), ""),
        folded=tuple(state for name, state in found.items() if name != kept and name not in held),
        standing=tuple(name for name in held if name != kept),
    )


def repointed(
    refs: Sequence[EvidenceRef], folded: Source, kept: str, segments: Sequence[Segment]
) -> tuple[EvidenceRef, ...]:
    """Point evidence in a source that is folded to where its words stand in the one kept, with these segments.

    What stands there no more keeps its place in the source that is folded.
    """
    words = {part.segment_id: part.excerpt for part in folded.segments}
    there = _places(segments)
    moved: dict[tuple[str, str, str], EvidenceRef] = {}
    for ref in refs:
        place = _holder(words.get(ref.segment_id), there, segments) if ref.source_id == folded.id else None
        now = EvidenceRef(source_id=kept, segment_id=place, role=ref.role) if place else ref
        moved.setdefault((now.source_id, now.segment_id, now.role), now)
    return tuple(moved.values())


def _is_held(state: SourceState, known_sources: KnownSources) -> bool:
    return any(is_live(item) and item.status != "candidate" for item in known_sources.resting_on(state.id))


def _places(segments: Sequence[Segment]) -> Mapping[str, str]:
    return {part.excerpt: part.segment_id for part in reversed(segments)}


def _holder(words: str | None, there: Mapping[str, str], segments: Sequence[Segment]) -> str | None:
    if words is None:
        return None
    whole = there.get(words)
    return whole or next((part.segment_id for part in segments if words in part.excerpt), None)


# Two exports of one conversation: which of them is kept, and where they differ.


AS_OF = "as_of"
"""Metadata of an exported conversation: the time until which the export reaches, as `core.ids` writes it."""

SINCE = "since"
"""Metadata of a conversation of which a stretch of time was exported: when that begins, written the same way."""


def is_dated(draft: SourceDraft) -> bool:
    """Tell whether a draft is a conversation with the time until which its export reaches."""
    return draft.kind in _KINDS and bool(_time(draft, AS_OF))


def why_kept(held: Source, draft: SourceDraft) -> str:
    """Say why the conversation that is kept stays as it is; empty where the new export takes its place.

    Neither an older export nor one of a shorter time does: turns would be lost that nobody took back.
    """
    if "" < _time(draft, AS_OF) < _time(held, AS_OF):
        return "it is an older export than the one that is kept"
    if _time(draft, SINCE) > _time(held, SINCE) > "":
        return "it begins later than what is kept: export all of it, or bring it into a scope of its own"
    return ""


def divergence(held: Sequence[Segment], arrived: Sequence[SegmentDraft], *, gone: Collection[str]) -> str:
    """Say at which turn a new export differs from what is kept; empty where it only goes on.

    `gone` are the ids of segments that are nowhere in the new one.
    """
    chains = {place.turn: place.chain for draft in arrived if isinstance(place := draft.locator, Turn)}
    before = {place.turn: place.chain for segment in held if isinstance(place := segment.locator, Turn)}
    parted = [turn for turn, chain in before.items() if chain and chains.get(turn) != chain]
    if not parted:
        return ""
    turns = {
        place.turn for segment in held if segment.segment_id in gone and isinstance(place := segment.locator, Turn)
    }
    return f"diverges at turn {min(parted)}: {len(turns)} turns replaced"


_KINDS = frozenset({"conversation", "meeting_record"})


def _time(item: SourceDraft | Source, name: str) -> str:
    value = item.metadata.get(name)
    return value if isinstance(value, str) else ""
