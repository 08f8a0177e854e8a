"""Evidence in files that have another path on the branch just read, and in files of deleted branches.

The author is the caller who asked for the reading, because files may only propose knowledge.
"""

from collections.abc import Collection, Iterator, Sequence

from treering.core.evidence import EvidenceRef, any_place_holds, united
from treering.core.objects import Knowledge, Source
from treering.core.patch import Receipt, Update
from treering.ports.adapter import BranchRead
from treering.verbs.ingest.batch import BatchWriter, committed, lines_in_source
from treering.verbs.ingest.branches import contents_here, read_of
from treering.verbs.ingest.known import is_live


def follow_renames(writer: BatchWriter) -> Iterator[Receipt]:
    """Add evidence in files that have another path on the branch just read; other branches keep theirs.

    Evidence that is on no branch any more is moved.
    """
    for before, now in writer.renamed.items():
        for item in filter(is_live, writer.known_sources.citing(before)):
            refs = _followed(item, before, writer.known_sources.whole(now), writer)
            yield from _with_evidence(item, refs, "The file has another path on a branch.", writer)


def drop_unmerged(writer: BatchWriter, sources: Collection[str]) -> Iterator[Receipt]:
    """Remove evidence in files that were only on deleted branches from knowledge with other evidence."""
    for item in {one.id: one for source in sources for one in writer.known_sources.citing(source)}.values():
        refs = tuple(ref for ref in item.evidence_refs if ref.source_id not in sources)
        if is_live(item) and any(ref.role == "supports" for ref in refs):
            yield from _with_evidence(item, refs, "The file was only on a deleted branch.", writer)


def _with_evidence(
    item: Knowledge, refs: tuple[EvidenceRef, ...], reason: str, writer: BatchWriter
) -> Iterator[Receipt]:
    if refs != item.evidence_refs:
        update = Update(id=item.id, expected_revision=item.revision, changes={"evidence_refs": refs})
        receipt = committed([update], reason, writer)
        yield from [receipt] if receipt else []


def _followed(item: Knowledge, before: str, now: Source, writer: BatchWriter) -> tuple[EvidenceRef, ...]:
    read = read_of(now.origin, writer.branches)
    is_here = any_place_holds(item.evidence_refs, lambda ref: _is_on(ref, writer, read))

    def followed(ref: EvidenceRef) -> Sequence[EvidenceRef]:
        is_held = _is_on(ref, writer, None)
        if ref.source_id != before or (is_held and is_here):
            return [ref]
        cited = writer.engine.ledger.segment(before, ref.segment_id)
        added = [one.model_copy(update={"lost_on": ()}) for one in lines_in_source(ref, cited, now.id, now.segments)]
        return [ref, *added] if is_held else added or [ref]

    return united(one for ref in item.evidence_refs for one in followed(ref))


def _is_on(ref: EvidenceRef, writer: BatchWriter, read: BranchRead | None) -> bool:
    """Return whether evidence exists on the branch being read; without one, on any branch."""
    ledger = writer.engine.ledger
    head = ledger.heads([ref.source_id]).get(ref.source_id)
    segment = ledger.segments([(ref.source_id, ref.segment_id)]).get((ref.source_id, ref.segment_id))
    if head is None or head.status != "active" or segment is None:
        return False
    return read is None or segment.place_in_contents(contents_here(head.fingerprint, read)) is not None
