"""The places of a statement at their current lines, for the statement that replaces it."""

from collections.abc import Iterable, Mapping, Sequence

from treering.core.errors import NotFound
from treering.core.evidence import EvidenceRef, Lines, Segment, matching_stretches
from treering.core.objects import Knowledge, Source
from treering.verbs.envelope import Call
from treering.verbs.evidence.resolving import ResolvedEvidence, Resolver, stored_lines
from treering.verbs.trees import tree_of

_Cited = tuple[EvidenceRef, Segment]
_LineRange = tuple[int, int]


def has_places(call: Call, item: Knowledge) -> bool:
    """Return whether knowledge is based on lines of a file.

    A file may have changed together with the knowledge; a note or a message still states the old knowledge.
    """
    return any(isinstance(segment.locator, Lines) for cited in _sources(call, item).values() for _, segment in cited)


def inherited_evidence(call: Call, item: Knowledge, *, dry_run: bool) -> tuple[ResolvedEvidence, ...]:
    """Resolve the places that knowledge is based on again, at their current lines; those that are gone are left out.

    A file that differs in the work tree is read first. Raises what `resolve_evidence` raises for it.
    """
    resolver = Resolver(call, tree_of(call.engine, call.scope), dry_run=dry_run)
    resolved: list[ResolvedEvidence] = []
    for identity, cited in _sources(call, item).items():
        source = call.engine.ledger.get(identity)
        if isinstance(source, Source) and source.status == "active":
            resolved += _resolved(resolver, source, cited)
    return tuple(one.model_copy(update={"inherited": True}) for one in resolved)


def lines_now(cited: EvidenceRef, segment: Segment, stored: Mapping[int, tuple[Segment, str]]) -> _LineRange | None:
    """Return the first and last current line of cited lines, which may have moved or changed.

    `stored`: the lines of the source now. Returns `None` if they were deleted or the segment has no lines.
    """
    place = cited.locator(segment)
    if not isinstance(place, Lines) or not isinstance(segment.locator, Lines) or not stored:
        return None
    for known in {id(one): one for one, _ in stored.values() if one.segment_id == segment.segment_id}.values():
        locator = cited.locator(known)
        return (locator.start, locator.end) if isinstance(locator, Lines) else None
    numbers = sorted(stored)
    old = segment.excerpt.splitlines()
    first, last = place.start - segment.locator.start, place.end - segment.locator.start
    span = _between(old, [stored[number][1] for number in numbers], first, last)
    if span is None:  # nothing around them is left: the same numbers, which the receipt shows with their text
        return (place.start, min(place.end, numbers[-1])) if place.start <= numbers[-1] else None
    return (numbers[span[0]], numbers[span[1]]) if span[0] <= span[1] else None


def _between(old: Sequence[str], new: Sequence[str], first: int, last: int) -> _LineRange | None:
    """Return the range of `new` between the lines that still surround the range `first` to `last` of `old`.

    The range is empty (its start is after its end) if the lines were deleted; `None` if no line of `old` is left.
    """
    now = {one.old + step: one.new + step for one in matching_stretches(old, new) for step in range(one.size)}
    if not now:
        return None
    before = max((line for line in now if line <= first), default=None)
    after = min((line for line in now if line >= last), default=None)
    top, bottom = min(now), max(now)
    start = max(0, now[top] - (top - first)) if before is None else now[before] + (before != first)
    end = min(len(new) - 1, now[bottom] + (last - bottom)) if after is None else now[after] - (after != last)
    return start, end


def _sources(call: Call, item: Knowledge) -> Mapping[str, Sequence[_Cited]]:
    """Return the cited segments of knowledge by the sources that support it; erased ones are left out."""
    cited: dict[str, list[_Cited]] = {}
    for ref in item.evidence_refs:
        try:
            segment = call.engine.ledger.segment(ref.source_id, ref.segment_id)
        except NotFound:
            continue
        if ref.role == "supports":
            cited.setdefault(ref.source_id, []).append((ref, segment))
    return cited


def _resolved(resolver: Resolver, source: Source, cited: Sequence[_Cited]) -> Iterable[ResolvedEvidence]:
    paths = {segment.locator.path for _, segment in cited if isinstance(segment.locator, Lines)}
    for path in paths:
        file = resolver.file(path)
        if file and (known := resolver.at(file.path, file)) and known.id == source.id:
            source = resolver.up_to_date(source, file)
    stored = stored_lines(resolver.segments_of(source))
    ranges: dict[str, list[_LineRange]] = {}
    for number, (ref, segment) in enumerate(cited):
        if lines := lines_now(ref, segment, stored):
            ranges.setdefault("together" if ref.together else str(number), []).append(lines)
    spans = ((min(start for start, _ in parts), max(end for _, end in parts)) for parts in ranges.values())
    for first, last in dict.fromkeys(spans):
        yield resolver.cited_lines(source, first, last)
