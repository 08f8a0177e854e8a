"""The citations of the items of a context pack."""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field

from treering.core.characters import one_line
from treering.core.declarations import declared_by, is_declaration
from treering.core.evidence import EvidenceRef, Lines, Segment, place_in
from treering.core.objects import Activity, Knowledge, Object, WorkItem
from treering.ports.ledger import AsOf, ObjectRequest, ObjectsFound, sources_named
from treering.retrieval.search.packing import UNNUMBERED, Citation

_MAX_QUOTED_LINES = 2
"""Cited lines that are quoted below a statement; more are only named."""
_MAX_QUOTED_CHARS = 160


def citing_request(items: Sequence[Object], *, as_of: AsOf) -> ObjectRequest:
    """Return the request for the sources and segments that some objects cite."""
    refs = [ref for item in items if isinstance(item, Knowledge) for ref in item.evidence_refs]
    return ObjectRequest(
        heads=tuple(dict.fromkeys(sources_named(items))),
        segments=tuple(dict.fromkeys((ref.source_id, ref.segment_id) for ref in refs)),
        as_of=as_of,
        vanished=True,
    )


@dataclass(frozen=True, slots=True)
class Citing:
    """The sources and segments that objects cite."""

    origins: Mapping[str, str] = field(default_factory=dict)
    """The titles of sources by id, except of sources in another scope."""
    segments: Mapping[tuple[str, str], Segment] = field(default_factory=dict)
    declared: Mapping[str, str] = field(default_factory=dict)
    """By id of a source that holds a declaration: its author and day."""
    withheld: frozenset[str] = frozenset()
    """Ids of sources whose authors do not share them."""

    @classmethod
    def of(cls, cited: ObjectsFound) -> "Citing":
        """Take the answer to a `citing_request`."""
        return cls(
            {identity: head.title for identity, head in cited.heads.items()},
            cited.segments,
            {
                identity: declared_by(head.title, head.updated_at)
                for identity, head in cited.heads.items()
                if is_declaration(head.origin)
            },
            frozenset(identity for identity, head in cited.heads.items() if head.status == "withheld"),
        )

    def citations(self, item: Object) -> Iterator[Citation]:
        """Yield the citations of an object."""
        match item:
            case Knowledge():
                citations = [citation for ref in item.evidence_refs if (citation := self._evidence(ref))]
                places = [one.place for one in citations]
                yield from (one for at, one in enumerate(citations) if not one.place or one.place not in places[:at])
            case Activity() | WorkItem():
                for source_id in item.source_refs:
                    yield Citation(mark=UNNUMBERED, object_id=source_id, origin=self.origins.get(source_id, source_id))
            case _:
                return

    def cites_lines(self, item: Object) -> bool:
        """Return whether an object is knowledge that cites lines of a file."""
        refs = item.evidence_refs if isinstance(item, Knowledge) else ()
        segments = (self.segments.get((ref.source_id, ref.segment_id)) for ref in refs)
        return any(segment is not None and isinstance(segment.locator, Lines) for segment in segments)

    def first_quote(self, item: Object) -> str:
        """Return the first one or two lines that knowledge cites, in quotes; longer places are only named."""
        for ref in item.evidence_refs if isinstance(item, Knowledge) else ():
            segment = self.segments.get((ref.source_id, ref.segment_id))
            is_shared = ref.source_id not in self.withheld and ref.source_id in self.origins
            if ref.lines and segment and is_shared and ref.lines[1] - ref.lines[0] < _MAX_QUOTED_LINES:
                return f'"{one_line(ref.quote(segment), most=_MAX_QUOTED_CHARS)}"'
        return ""

    def _evidence(self, ref: EvidenceRef) -> Citation | None:
        """Cite evidence that verifies, or is withheld; of a source in another scope only its id is shown."""
        origin = self.origins.get(ref.source_id, ref.source_id)
        segment = self.segments.get((ref.source_id, ref.segment_id))
        if ref.source_id in self.withheld:
            return Citation(mark=UNNUMBERED, object_id=ref.source_id, origin=origin, place=origin)
        if origin != ref.source_id and segment is None:
            return None
        place = "" if origin == ref.source_id or segment is None else self._place(ref, segment, origin)
        return Citation(mark=UNNUMBERED, object_id=ref.source_id, segment_id=ref.segment_id, origin=origin, place=place)

    def _place(self, ref: EvidenceRef, segment: Segment, origin: str) -> str:
        return self.declared.get(ref.source_id) or place_in(ref.locator(segment), origin)
