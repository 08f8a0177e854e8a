"""Evidence in a file that has other contents, or another path, on other branches."""

from collections.abc import Iterable, Iterator

from treering.core.cited_lines import lines_in_source, segments_on
from treering.core.evidence import EvidenceRef
from treering.core.objects import Source
from treering.core.versions import SEVERAL, HeldContents, known_branches
from treering.ports.ledger import Head, Ledger
from treering.verbs.scoped_ledger import on_all_branches


def on_other_branches(ledger: Ledger, refs: Iterable[EvidenceRef]) -> Iterator[EvidenceRef]:
    """Yield references, and references to the same lines on branches on which the file differs or has another path."""
    everywhere, cited = on_all_branches(ledger), list(refs)
    heads = everywhere.heads({ref.source_id for ref in cited})
    others = {one: _under_other_paths(everywhere, head) for one, head in heads.items()}
    for ref in cited:
        yield ref
        yield from _in_other_contents(everywhere, ref, heads.get(ref.source_id))
        words = everywhere.segment(ref.source_id, ref.segment_id).excerpt if others.get(ref.source_id) else ""
        for other in others.get(ref.source_id, ()):
            same = next((one for one in other.segments if one.excerpt == words), None)
            if same:
                yield ref.moved(same.segment_id, source_id=other.id, lines=ref.lines, together=ref.together)


def _in_other_contents(ledger: Ledger, ref: EvidenceRef, head: Head | None) -> Iterator[EvidenceRef]:
    """Yield references to the cited lines in contents of a file that have them in another segment.

    A part of a place that spans several segments is left out if it is in several segments there.
    """
    source = ledger.get(head.id) if head and head.fingerprint.startswith(SEVERAL) else None
    if not isinstance(source, Source):
        return
    segment = ledger.segment(source.id, ref.segment_id)
    for contents in HeldContents.parse(source.fingerprint).fingerprints:
        if not segment.place_in_contents(contents):
            parts = lines_in_source(ref, segment, source.id, segments_on(source.segments, contents))
            yield from () if ref.together and len(parts) > 1 else parts


def _under_other_paths(ledger: Ledger, head: Head) -> list[Source]:
    """Return the sources of a repository that have the contents of a file on branches without this file."""
    root, of_root, _ = head.origin.partition("#")
    if not of_root or not head.fingerprint.startswith(SEVERAL):
        return []
    held = HeldContents.parse(head.fingerprint)
    on = frozenset(held.branches_of(held.fingerprints) or ())
    repository = ledger.sources_at(scope=head.scope, origins=[root]).get(root)
    known = ledger.get(repository.id) if repository else None
    if isinstance(known, Source) and on.issuperset(known_branches(known.payload)):
        return []  # without reading all files
    sources = []
    for state in ledger.sources(scope=head.scope, root=root).values():
        if state.status == "active" and any(one in state.fingerprint for one in held.fingerprints):
            branches = HeldContents.parse(state.fingerprint).branches_of(held.fingerprints)
            sources += [ledger.get(state.id)] if branches and on.isdisjoint(branches) else []
    return [one for one in sources if isinstance(one, Source)]
