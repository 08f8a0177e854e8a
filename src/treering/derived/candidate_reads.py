"""Reading candidates of a search from the ledger: their states, and the words of some of them."""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field

from treering.core.evidence import Segment
from treering.core.locator import Locator
from treering.core.objects import Object, Source
from treering.core.policy import Policy
from treering.derived.passages import passages_of
from treering.derived.rounds import Steps
from treering.derived.showing import is_withheld
from treering.ports.ledger import Head, ObjectRequest, ObjectsFound
from treering.ports.passages import PassageHead
from treering.ports.reach import Reach


@dataclass(frozen=True, slots=True)
class CandidateWords:
    """The words of a passage, as the ledger holds them; of one that is a whole object, the object."""

    text: str
    heading: str = ""
    locator: Locator | None = None
    item: Object | None = None
    segment: Segment | None = None
    source: Source | None = None


@dataclass(slots=True)
class CandidateReader:
    """Reads candidates from the ledger, each once; what does not verify is left out and noted."""

    reach: Reach
    whole: bool = False
    """Read sources whole in the place of their segments."""
    sequence: int = 0
    """The audit sequence number of the newest of the answers."""
    policy: Policy = field(default_factory=Policy)
    states: dict[str, Head] = field(default_factory=dict)
    altered: dict[str, str] = field(default_factory=dict)
    _asked: set[int] = field(default_factory=set)
    _segments: dict[tuple[str, str], Segment] = field(default_factory=dict)
    _objects: dict[str, Object] = field(default_factory=dict)

    def read(self, standing: Sequence[PassageHead], shown: Sequence[PassageHead]) -> Steps[None]:
        """Read the states of candidates, and the texts of some that were not read so far."""
        new = [head for head in shown if head.key not in self._asked]
        if not new and not standing and self.sequence:
            return
        found: ObjectsFound = yield ObjectRequest(
            heads=tuple(dict.fromkeys(head.object_id for head in standing)),
            objects=tuple(dict.fromkeys(head.object_id for head in new if self.whole or not head.part)),
            segments=tuple((head.object_id, head.part) for head in new if head.part and not self.whole),
            as_of=self.reach.at,
            vanished=self.reach.withdrawn and self.reach.at is None,
        )
        self._asked.update(head.key for head in new)
        self.sequence, self.policy = found.sequence, found.policy
        self.states |= found.heads
        self.altered |= found.altered
        self._segments |= found.segments
        self._objects |= found.objects
        if self.whole:
            sources = (item for item in found.objects.values() if isinstance(item, Source))
            self._segments |= {(one.id, segment.segment_id): segment for one in sources for segment in one.segments}

    def over(self) -> tuple[Object, ...]:
        """Return the objects that were read and are over, best first."""
        return tuple(item for item in self._objects.values() if is_withheld(item, self.reach))

    def segments(self, heads: Iterable[PassageHead]) -> list[Segment]:
        """Return the segments that were read of some passages."""
        found = (self._segments.get((head.object_id, head.part)) for head in heads)
        return [segment for segment in found if segment]

    def words(self, head: PassageHead) -> CandidateWords | None:
        """Return the words of a passage that was read: those of its segment, or the text form of its object."""
        item = self._objects.get(head.object_id)
        if segment := self._segments.get((head.object_id, head.part)):
            source = item if isinstance(item, Source) else None
            return CandidateWords(segment.excerpt, segment.heading, segment.locator, segment=segment, source=source)
        if head.part:
            return None
        if item is None or is_withheld(item, self.reach):
            return None
        return CandidateWords(passages_of(item)[0].text, item=item)
