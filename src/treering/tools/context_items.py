"""The items of a context pack, with the places they rest on."""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace

from treering.core.evidence import EvidenceRef, Segment
from treering.core.injection import instruction_flags
from treering.core.lifecycle import is_over
from treering.core.locator import place_in
from treering.core.objects import Activity, Channel, Knowledge, Object, WorkItem, title_of
from treering.core.pack import Citation, PackItem
from treering.core.trust import TrustLevel, trust_of
from treering.derived.packing import UnnumberedItem, cite, section_of
from treering.derived.passages import passages_of
from treering.derived.retrieval import Hit
from treering.derived.trusting import Wording, repetition_flags
from treering.ports.ledger import Altered, ObjectRequest, sources_named
from treering.ports.reach import Reach
from treering.tools.envelope import Call

_WITH_REPLY = 5
"""Passages shown with their reply. Those of all took the place of evidence (3 points, LoCoMo, 2,000 tokens)."""


@dataclass(frozen=True, slots=True)
class Citing:
    """What citations need of the sources they name."""

    origins: Mapping[str, str]
    """By id of a source: what it is called. One in another scope is not in it."""
    segments: Mapping[tuple[str, str], Segment]

    @classmethod
    def read(cls, call: Call, items: Sequence[Object], reach: Reach, altered: Altered) -> "Citing":
        """Read all of it at once, but for what does not verify, which is noted."""
        refs = [ref for item in items if isinstance(item, Knowledge) for ref in item.evidence_refs]
        if not items:
            return cls({}, {})
        request = ObjectRequest(
            heads=tuple(dict.fromkeys(sources_named(items))),
            segments=tuple(dict.fromkeys((ref.source_id, ref.segment_id) for ref in refs)),
            as_of=reach.at,
            vanished=True,
        )
        (found,) = call.engine.ledger.read([request])
        altered |= found.altered
        return cls({identity: head.title for identity, head in found.heads.items()}, found.segments)

    def of(self, item: Object) -> Iterator[Citation]:
        """Return the citations of an object."""
        match item:
            case Knowledge():
                yield from (cited for ref in item.evidence_refs if (cited := self._evidence(ref)))
            case Activity() | WorkItem():
                for source_id in item.source_refs:
                    yield Citation(mark="", object_id=source_id, origin=self.origins.get(source_id, source_id))
            case _:
                return

    def _evidence(self, ref: EvidenceRef) -> Citation | None:
        """Cite evidence that is what the audit log says; of a source in another scope only its id is told."""
        origin = self.origins.get(ref.source_id, ref.source_id)
        if origin == ref.source_id:
            return cite(ref, origin=origin, place="")
        segment = self.segments.get((ref.source_id, ref.segment_id))
        return cite(ref, origin=origin, place=place_in(segment.locator, origin)) if segment else None


def belief_item(
    item: Object,
    score: float,
    citing: Citing,
    wording: Wording,
    trusted: Mapping[Channel, TrustLevel],
    reach: Reach,
) -> UnnumberedItem:
    """Make an item of knowledge, work or an activity, with what it rests on."""
    passage = passages_of(item)[0]
    words = f"{title_of(item)}\n{passage.text}"
    return UnnumberedItem(
        PackItem(
            section=section_of(item.type, item.kind),
            object_id=item.id,
            kind=item.kind,
            status=item.status,
            title=title_of(item),
            text=passage.text,
            score=round(score, 6),
            flags=(
                *instruction_flags(words),
                *repetition_flags(wording.repeated_in(words)),
                *(["over"] if reach.now and is_over(item, now=reach.now) else []),
            ),
            channel=item.origin_channel,
            trust=trust_of(item.origin_channel, item.status, trusted),
        ),
        tuple(citing.of(item)),
    )


def source_items(hits: Sequence[Hit]) -> Iterator[UnnumberedItem]:
    """Make an item of each passage of a source, the first of them with the turn that answers it.

    A turn that stands in the item of its question is not an item of its own.
    """
    told: set[tuple[str, str]] = set()
    for rank, hit in enumerate(hits):
        shown = hit if rank < _WITH_REPLY else replace(hit, reply=None)
        if (hit.head.object_id, hit.head.part) not in told:
            yield _source_item(shown)
        if shown.reply:
            told.add((hit.head.object_id, shown.reply.segment_id))


def _source_item(hit: Hit) -> UnnumberedItem:
    place = place_in(hit.locator, hit.head.origin) if hit.locator else hit.head.origin
    item = PackItem(
        section="sources",
        object_id=hit.head.object_id,
        segment_id=hit.head.part,
        kind=hit.state.kind,
        status=hit.state.status,
        title=" — ".join(filter(None, (hit.head.title, hit.head.heading))),
        text=hit.text_with_reply,
        score=round(hit.score, 6),
        flags=hit.flags,
        channel=hit.trusted.channel,
        trust=hit.trusted.level,
    )
    places = [(hit.head.part, place)]
    if hit.reply:
        places.append((hit.reply.segment_id, place_in(hit.reply.locator, hit.head.origin)))
    cited = (
        Citation(mark="", object_id=hit.head.object_id, segment_id=segment, origin=hit.head.origin, place=where)
        for segment, where in places
    )
    return UnnumberedItem(item, tuple(cited))
