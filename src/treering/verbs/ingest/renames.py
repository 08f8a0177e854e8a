"""Evidence in files that have another path on the branch just read, and in files of deleted branches.

The author is the caller of the ingest, because files may only propose knowledge.
"""

from collections.abc import Collection, Iterator, Sequence

from treering.core.cited_lines import lines_in_source
from treering.core.evidence import EvidenceRef, united
from treering.core.objects import Knowledge, Source
from treering.core.patch import Receipt, Update
from treering.core.versions import OTHER_PATH
from treering.ports.ledger import Ledger
from treering.verbs.ingest.batch import BatchWriter, committed
from treering.verbs.ingest.known import is_live

_BACK = "A removed file is back."


def follow_renames(writer: BatchWriter) -> Iterator[Receipt]:
    """Add evidence in files that have another path on the branch just read; other branches keep theirs.

    Evidence that is on no branch any more is moved.
    """
    ledger = writer.engine.ledger
    for before, now in writer.renamed.items():
        for item in filter(is_live, writer.known_sources.citing(before)):
            source = writer.known_sources.whole(now)
            refs = united(one for ref in item.evidence_refs for one in _followed(ref, before, source, ledger))
            is_back = ledger.heads([before])[before].origin == source.origin
            yield from _with_evidence(item, refs, _BACK if is_back else OTHER_PATH, writer)


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


def _followed(ref: EvidenceRef, before: str, now: Source, ledger: Ledger) -> Sequence[EvidenceRef]:
    """Return a reference, if its segment is on some branch, and the same lines of a renamed file."""
    if ref.source_id != before:
        return [ref]
    places = lines_in_source(ref, ledger.segment(before, ref.segment_id), now.id, now.segments)
    added = [one.model_copy(update={"lost_on": ()}) for one in places]
    is_archived = ledger.heads([before])[before].status != "active"
    is_gone = is_archived or not ledger.segments([(before, ref.segment_id)])
    return added if added and is_gone else [ref, *added]
