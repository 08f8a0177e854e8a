"""Turn objects into passages, the units of search.

A source has one passage per segment. Every other object has one passage with its fields in words.
"""

import re
from collections.abc import Iterator, Mapping
from dataclasses import replace
from datetime import date
from typing import Any

from treering.core.canonical import canonical_json, digest, render_time
from treering.core.evidence import Lines, Segment, Turn
from treering.core.filters import asked_texts, element_name, matches
from treering.core.objects import (
    Activity,
    Constraint,
    Decision,
    Fact,
    Knowledge,
    Node,
    Object,
    Payload,
    Preference,
    Procedure,
    Source,
    Summary,
    WorkItem,
    title_of,
)
from treering.core.policy import CURRENT, is_current, is_over
from treering.ports.ledger import Head, head_of
from treering.ports.passages import Passage, Reach
from treering.retrieval.index.code_places import NO_PLACE, role_of
from treering.retrieval.index.ties import is_turn
from treering.retrieval.text.dates import date_ranges

MAX_GIST_CHARS = 1_500
"""Characters of a text that are embedded if its adapter supplied no gist: about the input length of the embedder."""

MAX_DAYS = 366
"""The longest period of a turn that is indexed; longer ones, such as "since 2016", contain too many days."""

Scalar = str | int | float | bool
_MOST_ELEMENTS = 200
_LONGEST = 500
"""Elements per list in the metadata of a note that filters find, and their maximal number of characters."""


def passages_of(item: Object) -> list[Passage]:
    """Return the passages of an object, in the order of its text; at least one."""
    match item:
        case Source():
            return _of_source(item)
        case Knowledge():
            lines = [item.summary, *_stated(item.payload)]
        case Activity():
            lines = list(_done(item))
        case WorkItem():
            lines = list(_asked(item))
        case Node():
            lines = [item.summary, _listed("Also called", item.aliases)]
    return [_of_words(item, "\n".join(filter(None, lines)))]


def told_once(title: str, text: str) -> str:
    """Return the text of an object without lines that repeat its title or another line.

    In a decision read from a file, the question is the title, and the summary is the beginning of the outcome.
    """
    pairs = [(line, _bare(line)) for line in text.splitlines()]
    long_lines = [bare for _, bare in pairs if len(bare) > _CUT]
    seen, lines = {_bare(title)}, []
    for line, bare in pairs:
        is_cut = len(bare) > _CUT and any(one.startswith(bare) and one != bare for one in long_lines)
        if not line.strip() or not (is_cut or bare in seen):
            lines.append(line)
            seen.add(bare)
    return "\n".join(lines)


_CUT = 100  # characters; a longer line that begins another one is its summary
_LABEL = re.compile(r"^(?:Outcome|Rationale|Expected|Resolution): ")


def _bare(line: str) -> str:
    return _LABEL.sub("", line.strip()).rstrip(".").casefold()


def gist_hash(passage: Passage) -> str:
    """Hash the embedded text of a passage (BLAKE2b, 160 bits, hex); equal texts share one vector."""
    return digest(passage.gist)


def days_of(passage: Passage) -> tuple[tuple[date, date], ...]:
    """Return the day of a turn and the distinct periods it mentions, as first and last days.

    Other passages have none, because only turns are searched by time.
    """
    if not is_turn(passage):
        return ()
    said = ((passage.said.date(), passage.said.date()),) if passage.said else ()
    mentioned = (dates.period for dates in date_ranges(passage.text, said=passage.said))
    return tuple(dict.fromkeys((*said, *(days for days in mentioned if (days[1] - days[0]).days < MAX_DAYS))))


def record_of(passage: Passage) -> dict[str, Any]:
    """Return a passage as the flat record that `core.filters.matches` reads."""
    return {
        "type": passage.type,
        "kind": passage.kind,
        "status": passage.status,
        "scope": passage.scope,
        "origin": passage.origin or None,
        "title": passage.title,
        "channel": passage.channel,
        "created_at": render_time(passage.created_at),
        "updated_at": render_time(passage.updated_at),
        "role": passage.place_role,
        **{f"metadata.{name}": value for name, value in passage.metadata.items()},
    }


def _of_source(source: Source) -> list[Passage]:
    segments = () if source.content_type == "binary_stub" else source.segments
    readable = [part for part in segments if part.excerpt.strip() or part.heading.strip()]
    metadata = {**_elements(source), **_scalars(source.metadata)}
    whole = replace(_of_name(source), metadata=metadata, place_role=role_of(source))
    return [_of_segment(source, part, whole) for part in readable] or [whole]


def _of_segment(source: Source, segment: Segment, whole: Passage) -> Passage:
    path = {"path": segment.locator.path} if isinstance(segment.locator, Lines) else {}
    gist = segment.gist or _short(_called(source.title, segment.heading), segment.excerpt)
    return replace(
        whole,
        part=segment.segment_id,
        role=segment.role,
        heading=segment.heading,
        text=segment.excerpt,
        gist=gist if gist.strip() else whole.title,
        triples=segment.triples,
        uses=segment.uses,
        defines=tuple(one.name for one in segment.definitions),
        metadata={**whole.metadata, **path},
        said=segment.locator.at if isinstance(segment.locator, Turn) else None,
    )


def _of_words(item: Object, text: str) -> Passage:
    named = _of_name(item)
    return replace(named, text=text, gist=_short(title_of(item), text) or named.title)


def _of_name(item: Object) -> Passage:
    """Return the passage of an object that is found by its name alone."""
    origin = item.origin if isinstance(item, Source) else ""
    title = title_of(item) or origin
    return Passage(
        object_id=item.id,
        part="",
        type=item.type,
        kind=item.kind,
        status=item.status,
        scope=item.scope,
        role="prose",
        title=title,
        heading="",
        text="",
        gist=title,
        origin=origin,
        channel=item.origin_channel,
        created_at=item.created_at,
        updated_at=item.updated_at,
        live=is_current(item),
        place_role=NO_PLACE,
    )


def _called(title: str, heading: str) -> str:
    """Return the heading of a segment with the title of its source, which shows the topic of a short text."""
    return heading if not title or heading.startswith(title) else " > ".join(filter(None, (title, heading)))


def _short(name: str, text: str) -> str:
    return f"{name}\n{text}"[:MAX_GIST_CHARS].strip()


def _scalars(metadata: Mapping[str, Any]) -> dict[str, Scalar]:
    return {name: value for name, value in metadata.items() if isinstance(value, Scalar)}


def _elements(source: Source) -> dict[str, Scalar]:
    """Return keys for the elements of lists in the metadata of a note; `core.filters.element_name` names them."""
    if source.kind != "note":
        return {}
    lists = {name: value for name, value in source.metadata.items() if isinstance(value, list)}
    held = ((name, one) for name, several in lists.items() for one in several[:_MOST_ELEMENTS])
    return {
        **{element_name(name): True for name in lists},
        **{element_name(name, one): True for name, one in held if isinstance(one, Scalar) and _is_short(one)},
    }


def _is_short(value: Scalar) -> bool:
    return not isinstance(value, str) or len(value) <= _LONGEST


def _stated(payload: Payload) -> Iterator[str]:
    match payload:
        case Fact(subject=subject, predicate=predicate, object=end, value=value):
            yield f"{subject} {predicate} {_said(value) if end is None else end}"
        case Procedure():
            yield _listed("Before", payload.preconditions)
            yield from (f"{number}. {step}" for number, step in enumerate(payload.steps, start=1))
            yield _said_of("Expected", payload.expected_outcome)
        case Decision():
            yield "" if payload.is_replacement else payload.question
            yield _said_of("Outcome", payload.outcome)
            yield _said_of("Rationale", payload.rationale)
            yield _listed("Alternatives", payload.alternatives)
        case Constraint():
            yield payload.rule
            yield _said_of("Holds for", payload.scope)
            yield _said_of("Why", payload.violation_impact)
        case Preference():
            yield payload.statement
            yield _said_of("Holds for", payload.scope)
        case Summary():
            yield _listed("Names", payload.entities)
            yield _listed("Key phrases", payload.key_phrases)
            yield _listed("Topics", payload.topics)


def _done(item: Activity) -> Iterator[str]:
    yield item.summary
    yield _said_of("Outcome", "" if item.outcome == "unknown" else item.outcome)
    yield _listed("Artifacts", item.artifact_refs)


def _asked(item: WorkItem) -> Iterator[str]:
    yield item.summary
    yield _said_of("Priority", "" if item.priority == "normal" else item.priority)
    yield _listed("Owners", item.owner_refs)
    yield _said_of("Due", item.due_at.date().isoformat() if item.due_at else "")
    yield _said_of("Resolution", item.resolution)


def _said_of(label: str, text: str) -> str:
    return f"{label}: {text}" if text else ""


def _listed(label: str, texts: tuple[str, ...]) -> str:
    return _said_of(label, "; ".join(texts))


def _said(value: object) -> str:
    return value if isinstance(value, str) else canonical_json(value)


def is_shown(state: Head | None, reach: Reach) -> bool:
    """Return whether a read may show an object by its scope and status, apart from filters."""
    if state is None:
        return False
    shown = reach.withdrawn or state.status in CURRENT[state.type]
    return shown and reach.sees(state.scope)


def is_withheld(item: Object, reach: Reach) -> bool:
    """Return whether a read omits an object because it is over, whatever its status."""
    return not reach.withdrawn and reach.now is not None and is_over(item, now=reach.now)


def repeats_turns(item: Object, reach: Reach) -> bool:
    """Return whether a read omits a summary that only copies turns, also those that were replaced since.

    A read that asks for summaries gets it.
    """
    is_extract = isinstance(item, Knowledge) and isinstance(item.payload, Summary) and item.payload.is_extract
    return is_extract and ("kind", ("summary",)) not in asked_texts(reach.where)


def may_be_packed(item: Object, reach: Reach) -> bool:
    """Return whether a read may show an object that its search did not find."""
    is_left_out = is_withheld(item, reach) or repeats_turns(item, reach)
    return is_shown(head_of(item), reach) and not is_left_out and matches(reach.where, record_of(passages_of(item)[0]))
