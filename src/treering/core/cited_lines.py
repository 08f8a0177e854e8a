"""Finding cited lines in other segments: of other contents of their source, or of another source."""

from collections.abc import Iterable, Sequence

from treering.core.evidence import EvidenceRef, Lines, Segment, find_lines


def segments_on(segments: Iterable[Segment], contents: str | None) -> list[Segment]:
    """Return the segments of some contents of a source, in the order of the source."""
    here = [one for segment in segments if (one := segment.in_contents(contents))]
    here.sort(key=lambda one: one.locator.start if isinstance(one.locator, Lines) else one.position)
    return [one.model_copy(update={"position": at}) for at, one in enumerate(here)]


def refs_to_lines(ref: EvidenceRef, old: Segment, now: Sequence[Segment], *, source_id: str) -> list[EvidenceRef]:
    """Return references to the current places of cited lines; empty if they are gone."""
    parts = _lines_now(ref.quote(old), now)
    together = ref.together or len(parts) > 1
    return [ref.moved(part.segment_id, source_id=source_id, lines=lines, together=together) for part, lines in parts]


def lines_in_source(ref: EvidenceRef, cited: Segment, source_id: str, now: Sequence[Segment]) -> list[EvidenceRef]:
    """Return references to cited lines in the segments of a source; empty if they are not there."""
    same = next((one for one in now if one.excerpt == cited.excerpt), None)
    if same:
        return [ref.moved(same.segment_id, source_id=source_id, lines=ref.lines, together=ref.together)]
    return refs_to_lines(ref, cited, now, source_id=source_id)


def _lines_now(quote: str, now: Sequence[Segment]) -> Sequence[tuple[Segment, tuple[int, int]]]:
    """Return the segments that contain some lines now, possibly consecutive ones, with the lines in each.

    Blank lines are ignored, because those between two segments are in neither.
    """
    rows = [
        (part, number, line)
        for part in sorted(now, key=lambda one: one.position)
        for number, line in enumerate(part.excerpt.splitlines(), 1)
        if line.strip()
    ]
    wanted = "\n".join(line for line in quote.splitlines() if line.strip())
    span = find_lines(wanted, "\n".join(line for _, _, line in rows))
    chosen = rows[span[0] - 1 : span[1]] if span else []
    return [
        (part, (numbers[0], numbers[-1]))
        for part in now
        if (numbers := [number for other, number, _ in chosen if other is part])
    ]
