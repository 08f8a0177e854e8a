"""Evidence in a segment whose text has changed: whether the definitions that the knowledge is about still stand."""

import re
from collections.abc import Iterable, Sequence

from treering.core.canonical import normalise_text
from treering.core.evidence import Definition, EvidenceRef, Segment, find_lines
from treering.core.knowledge_payloads import Fact
from treering.core.objects import Knowledge, Source, title_of
from treering.derived.analysis import index_text
from treering.derived.passages import passages_of


def moved_refs(item: Knowledge, before: Source, now: Sequence[Segment], *, gone: frozenset[str]) -> list[EvidenceRef]:
    """Return the evidence of knowledge after a reading of a source that has changed some segments.

    A reference to a segment that is `gone` goes to where the definitions it is about stand now, word for word. Where
    one of them changed, or it is not known which they are, it stays: it no longer holds.
    """
    old = {part.segment_id: part for part in before.segments if part.segment_id in gone}
    refs: dict[tuple[str, str, str], EvidenceRef] = {}
    for ref in item.evidence_refs:
        part = old.get(ref.segment_id) if (ref.source_id, ref.role) == (before.id, "supports") else None
        places = _places(item, part, now) if part else ()
        moved = [EvidenceRef(source_id=before.id, segment_id=place) for place in places] or [ref]
        refs |= {(one.source_id, one.segment_id, one.role): one for one in moved}
    return list(refs.values())


def _places(item: Knowledge, old: Segment, now: Sequence[Segment]) -> tuple[str, ...]:
    """Return the ids of the segments that hold what knowledge is about; none where any of it is held nowhere."""
    found = [_holder(_words_of(one, old), now) for one in _about(item, old)]
    return tuple(dict.fromkeys(filter(None, found))) if all(found) else ()


def _holder(quote: str, segments: Iterable[Segment]) -> str:
    return next((part.segment_id for part in segments if find_lines(quote, part.excerpt)), "")


def _about(item: Knowledge, segment: Segment) -> list[Definition]:
    """Return the definitions of a segment that knowledge is about; none where that is not known.

    It is about those that it names. Where it names none it is about those with which it shares a word that stands
    nowhere else in the segment, unless it shares such a word with what lies between them.
    """
    said = f"{title_of(item)}\n{passages_of(item)[0].text}"
    named = [one for one in segment.definitions if _names(one.name, said, item)]
    if named:
        return named
    asked = set(index_text(said).split())
    terms = [set(index_text(_words_of(one, segment)).split()) for one in segment.definitions]
    between = set(index_text(_words_between(segment)).split())
    if asked & between.difference(*terms):
        return []
    return [
        one
        for place, one in enumerate(segment.definitions)
        if asked & terms[place].difference(between, *terms[:place], *terms[place + 1 :])
    ]


def _names(name: str, said: str, item: Knowledge) -> bool:
    """Tell whether knowledge names a definition: as its subject, as a call, in backticks, or by a name that is no word.

    Words such as `run` are said of much else.
    """
    last = name.rpartition(".")[2]
    subject = item.payload.subject if isinstance(item.payload, Fact) else ""
    if normalise_text(subject).removesuffix("()") in (normalise_text(name), normalise_text(last)):
        return True
    known = re.escape(last)
    no_word = "_" in last.strip("_") or not (last.islower() or last.istitle())
    return re.search(rf"(?<!\w){known}(?!\w)" if no_word else rf"`{known}`|(?<!\w){known}\(", said) is not None


def _words_of(one: Definition, segment: Segment) -> str:
    return "\n".join(segment.excerpt.split("\n")[one.first - 1 : one.last])


def _words_between(segment: Segment) -> str:
    inside = {line for one in segment.definitions for line in range(one.first, one.last + 1)}
    lines = enumerate(segment.excerpt.split("\n"), start=1)
    return "\n".join(text for number, text in lines if number not in inside)
