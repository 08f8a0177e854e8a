"""Sources that are the same thing: which one goes on, and what becomes of the others and of what rests on them."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from treering.core.evidence import EvidenceRef, Segment
from treering.core.objects import Source
from treering.core.patch import Transition
from treering.ports.ledger import SourceState
from treering.tools.ingest_known import KnownSources, is_live


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
