"""Segments of a source after another reading, and the evidence in them."""

import re
from bisect import bisect_right
from collections.abc import Callable, Collection, Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from itertools import accumulate, count
from typing import Any

from treering.core.canonical import normalise_text
from treering.core.cited_lines import refs_to_lines
from treering.core.evidence import (
    Definition,
    EvidenceRef,
    Lines,
    Locator,
    Section,
    Segment,
    Turn,
    find_lines,
    relocate,
    segment_hash,
    united,
)
from treering.core.fencing import cut, is_fenced, recalled_spans
from treering.core.objects import Fact, Knowledge, Source, title_of
from treering.core.patch import HEADING, NAME, TITLE, shortened
from treering.ports.adapter import NodeDraft, SegmentDraft, SourceDraft
from treering.retrieval.index.passages import passages_of
from treering.retrieval.text.analysis import index_text

NewId = Callable[[], str]
"""Returns the id of a new segment."""
_BLANK_LINES = 3
_GAP = "\0 lines in no segment"


@dataclass(frozen=True, slots=True)
class Carried:
    """The segments of a source after a reading: one per draft, in order, then earlier ones retained for evidence."""

    segments: tuple[Segment, ...]
    gone: frozenset[str]
    """Ids of earlier segments that are no longer in the source."""


def first_segments(drafts: Sequence[SegmentDraft], *, salt: str, new_id: NewId) -> tuple[Segment, ...]:
    """Return the segments of a new source."""
    return tuple(_segment(draft, at, new_id(), salt) for at, draft in enumerate(drafts))


def carry(
    earlier: Sequence[Segment],
    drafts: Sequence[SegmentDraft],
    *,
    named: Collection[str],
    salt: str,
    new_id: NewId,
) -> Carried:
    """Match the segments of a new reading to the previous ones: equal texts retain their id.

    `named` are the ids of cited segments. If the text of such a segment is still in the source but in other segments,
    the segment is retained with its new place.
    """
    matches = relocate([segment.excerpt for segment in earlier], [draft.text for draft in drafts])
    segments = [
        _segment(draft, at, new_id(), salt) if match is None else _moved(earlier[match], draft, at)
        for at, (draft, match) in enumerate(zip(drafts, matches, strict=True))
    ]
    taken = set(matches)
    unmatched = [segment for at, segment in enumerate(earlier) if at not in taken]
    retained = _found_again([segment for segment in unmatched if segment.segment_id in named], drafts)
    segments += [_placed(segment, at) for at, segment in enumerate(retained, start=len(segments))]
    gone = {segment.segment_id for segment in unmatched} - {segment.segment_id for segment in retained}
    return Carried(tuple(segments), frozenset(gone))


def without_recalled_segments(draft: SourceDraft) -> tuple[SourceDraft, int]:
    """Return a draft without text recalled from this memory, and the number of dropped fences.

    A fence may span segments, but not of two turns, because a speaker cannot fence the words of another. Statements
    extracted from a changed segment are dropped.
    """
    texts = [segment.text for segment in draft.segments]
    spans = _recalled(draft.segments, texts) if any(map(is_fenced, texts)) else []
    if not spans:
        return draft, 0
    return with_texts(draft, list(_cut_each(texts, spans))), len(spans)


def with_texts(draft: SourceDraft, texts: Sequence[str]) -> SourceDraft:
    """Return a draft with these texts of its segments, without segments that became empty.

    Statements extracted from a changed segment are dropped.
    """
    left = [
        segment if text == segment.text else replace(segment, text=text, gist=None, triples=(), definitions=(), uses=())
        for segment, text in zip(draft.segments, texts, strict=True)
    ]
    places = {at: place for place, at in enumerate(at for at, segment in enumerate(left) if segment.text.strip())}
    stated = [
        replace(known, segment=places[known.segment])
        for known in draft.knowledge
        if known.segment in places and left[known.segment].text == draft.segments[known.segment].text
    ]
    return replace(draft, segments=[left[at] for at in places], knowledge=stated)


def _recalled(segments: Sequence[SegmentDraft], texts: Sequence[str]) -> list[tuple[int, int]]:
    starts = list(accumulate((len(text) + 1 for text in texts), initial=0))
    turns = [one.locator.turn if isinstance(one.locator, Turn) else None for one in segments]

    def turn_at(place: int) -> int | None:
        return turns[bisect_right(starts, place, hi=len(turns)) - 1]

    spans = recalled_spans("\n".join(texts))
    return [(start, end) for start, end in spans if turn_at(start) == turn_at(end - 1)]


def _segment(draft: SegmentDraft, at: int, identity: str, salt: str) -> Segment:
    text = draft.text
    return Segment(segment_id=identity, excerpt=text, hash=segment_hash(text, salt=salt), **_properties(draft, at))


def _definitions(draft: SegmentDraft) -> tuple[Definition, ...]:
    """Return the definitions of a draft; none if its text was cut after their lines were counted."""
    lines = draft.text.count("\n") + 1
    return draft.definitions if all(one.last <= lines for one in draft.definitions) else ()


def _moved(segment: Segment, draft: SegmentDraft, at: int) -> Segment:
    """Return a segment with the place and properties of a draft with the same text."""
    return segment.model_copy(update=_properties(draft, at))


def _properties(draft: SegmentDraft, at: int) -> dict[str, Any]:
    """Return the fields of a segment that do not depend on its text alone."""
    return {
        "locator": draft.locator,
        "position": at,
        "heading": draft.heading,
        "role": draft.role,
        "gist": draft.gist,
        "triples": draft.triples,
        "definitions": _definitions(draft),
        "uses": draft.uses,
    }


def _placed(segment: Segment, at: int) -> Segment:
    return segment.model_copy(update={"position": at})


def _found_again(segments: Sequence[Segment], drafts: Sequence[SegmentDraft]) -> list[Segment]:
    """Return the segments whose text is still in the drafts, with their new places."""
    if not segments:
        return []
    lines = _numbered_lines(drafts)
    places = ((segment, _place(segment, drafts, lines)) for segment in segments)
    return [segment.model_copy(update={"locator": place}) for segment, place in places if place]


def _place(segment: Segment, drafts: Sequence[SegmentDraft], lines: Sequence[tuple[int, str]]) -> Locator | None:
    if isinstance(segment.locator, Lines):
        return _place_in_file(segment, segment.locator, drafts, lines)
    for draft in drafts:
        if find_lines(segment.excerpt, draft.text):
            return _place_inside(segment.excerpt, draft)
    return None


def _place_in_file(
    segment: Segment, before: Lines, drafts: Sequence[SegmentDraft], lines: Sequence[tuple[int, str]]
) -> Lines | None:
    span = find_lines(segment.excerpt, "\n".join(text for _, text in lines))
    now = next((draft.locator for draft in drafts if isinstance(draft.locator, Lines)), None)
    if not span or now is None:
        return None
    start, end = (lines[at - 1][0] for at in span)
    return Lines(path=now.path, start=start, end=end, commit=now.commit, heading=before.heading)


def _place_inside(quote: str, draft: SegmentDraft) -> Locator:
    if isinstance(draft.locator, Section):
        offset = draft.locator.offset + max(draft.text.find(quote), 0)
        return draft.locator.model_copy(update={"offset": offset})
    return draft.locator


def _numbered_lines(drafts: Sequence[SegmentDraft]) -> list[tuple[int, str]]:
    """Return the lines of a file in its segments, with their numbers.

    Segments may overlap (a class and its methods); each line is returned once.
    """
    by_number: dict[int, str] = {}
    for draft in drafts:
        if isinstance(draft.locator, Lines):
            by_number.update(zip(count(draft.locator.start), draft.text.split("\n"), strict=False))
    return list(_with_gaps(by_number))


def _with_gaps(by_number: dict[int, str]) -> Iterator[tuple[int, str]]:
    """Insert the blank lines between segments, which are in none of them; a longer gap contains other text."""
    last = 0
    for number in sorted(by_number):
        left_out = range(last + 1, number)
        if len(left_out) <= _BLANK_LINES:
            yield from ((blank, "") for blank in left_out)
        else:
            yield last, _GAP
        # Split like `find_lines`, which also splits at form feeds and similar characters.
        yield from ((number, part) for part in by_number[number].splitlines() or [""])
        last = number


def _cut_each(texts: Sequence[str], spans: Sequence[tuple[int, int]]) -> Iterator[str]:
    """Cut ranges of the joined texts (separated by line feeds) out of each text."""
    start = 0
    for text in texts:
        end = start + len(text)
        inside = [(max(one, start) - start, min(other, end) - start) for one, other in spans]
        yield cut(text, [(one, other) for one, other in inside if one < other])
        start = end + 1


def with_short_names(draft: SourceDraft) -> SourceDraft:
    """Cut titles, headings and names that are too long; they end with `…` then."""
    segments = draft.segments
    if any(len(part.heading) > HEADING for part in segments):
        segments = [replace(part, heading=shortened(part.heading, HEADING)) for part in segments]
    return replace(
        draft,
        title=shortened(draft.title, TITLE),
        segments=segments,
        nodes=[_named(node) for node in draft.nodes],
        knowledge=[replace(known, title=shortened(known.title, TITLE)) for known in draft.knowledge],
    )


def _named(node: NodeDraft) -> NodeDraft:
    aliases = tuple(shortened(alias, NAME) for alias in node.aliases)
    return replace(node, name=shortened(node.name, NAME), aliases=aliases)


def moved_refs(
    item: Knowledge, before: Source, now: Sequence[Segment], *, gone: frozenset[str]
) -> Sequence[EvidenceRef]:
    """Return the evidence of knowledge after some segments of a source changed.

    A reference to a segment in `gone` is moved to the segments that now contain its lines or the definitions that the
    knowledge is about. If one of these changed, or they are unknown, it stays and is no longer valid.
    """
    old = {part.segment_id: part for part in before.segments if part.segment_id in gone}
    refs: list[EvidenceRef] = []
    for ref in item.evidence_refs:
        part = old.get(ref.segment_id) if (ref.source_id, ref.role) == (before.id, "supports") else None
        refs += list(_moved_to(item, ref, part, now) if part else ()) or [ref]
    return united(refs)


def _moved_to(item: Knowledge, ref: EvidenceRef, old: Segment, now: Sequence[Segment]) -> Iterator[EvidenceRef]:
    """Yield references to the current places of the cited lines, or of the definitions that the knowledge is about."""
    if ref.lines is None:
        yield from (ref.moved(place) for place in places_now(item, old, now))
        return
    yield from refs_to_lines(ref, old, now, source_id=ref.source_id)


def places_now(item: Knowledge, old: Segment, now: Sequence[Segment]) -> tuple[str, ...]:
    """Return the ids of the segments that contain the definitions knowledge is about; none if one is missing."""
    holders = [_holder(_words_of(one, old), now) for one in _about(item, old)]
    return tuple(dict.fromkeys(filter(None, holders))) if all(holders) else ()


def _holder(quote: str, segments: Iterable[Segment]) -> str:
    return next((part.segment_id for part in segments if find_lines(quote, part.excerpt)), "")


def _about(item: Knowledge, segment: Segment) -> list[Definition]:
    """Return the definitions of a segment that knowledge is about; none if that is unknown.

    These are the definitions that it names. If there are none, these are the definitions that share a word with it that
    occurs nowhere else in the segment, unless it shares such a word with the text between them.
    """
    text = f"{title_of(item)}\n{passages_of(item)[0].text}"
    named = [one for one in segment.definitions if _names(one.name, text, item)]
    if named:
        return named
    wanted = set(index_text(text).split())
    terms = [set(index_text(_words_of(one, segment)).split()) for one in segment.definitions]
    between = set(index_text(_words_between(segment)).split())
    if wanted & between.difference(*terms):
        return []
    return [
        one
        for place, one in enumerate(segment.definitions)
        if wanted & terms[place].difference(between, *terms[:place], *terms[place + 1 :])
    ]


def _names(name: str, text: str, item: Knowledge) -> bool:
    """Return whether knowledge names a definition: as its subject, a call, in backticks, or by a name that is no word.

    Words such as `run` have other meanings, too.
    """
    last = name.rpartition(".")[2]
    subject = item.payload.subject if isinstance(item.payload, Fact) else ""
    if normalise_text(subject).removesuffix("()") in (normalise_text(name), normalise_text(last)):
        return True
    known = re.escape(last)
    no_word = "_" in last.strip("_") or not (last.islower() or last.istitle())
    return re.search(rf"(?<!\w){known}(?!\w)" if no_word else rf"`{known}`|(?<!\w){known}\(", text) is not None


def _words_of(one: Definition, segment: Segment) -> str:
    return "\n".join(segment.excerpt.split("\n")[one.first - 1 : one.last])


def _words_between(segment: Segment) -> str:
    inside = {line for one in segment.definitions for line in range(one.first, one.last + 1)}
    lines = enumerate(segment.excerpt.split("\n"), start=1)
    return "\n".join(text for number, text in lines if number not in inside)
