"""The context pack, and how it is written for a model."""

import re
from bisect import bisect_right
from collections.abc import Iterable, Mapping, Sequence
from functools import lru_cache
from typing import Any, ClassVar, Literal, get_args

from pydantic import BaseModel, ConfigDict

from treering.core.canonical import Instant
from treering.core.characters import label, unmarked
from treering.core.evidence import place_in_words
from treering.core.fencing import fence, fence_items
from treering.core.scope import Scope
from treering.core.screening import instruction_flags
from treering.retrieval import limits
from treering.retrieval.text.analysis import cut_to_tokens, estimate_tokens
from treering.retrieval.tuning import TUNING


class _Value(BaseModel):
    model_config: ClassVar[ConfigDict] = ConfigDict(frozen=True, extra="forbid", defer_build=True)


Section = Literal[
    "constraints", "decisions", "facts", "procedures", "preferences", "work", "activities", "summaries", "sources"
]


class Citation(_Value):
    """The source of an item of the pack. `mark` is its reference in the text, such as `[3]`."""

    mark: str
    object_id: str
    segment_id: str = ""
    origin: str = ""
    place: str = ""
    """Such as `src/app.py#L10-L20 @ 1f3c…`."""


UNNUMBERED = "[10]"
"""The mark before the items are numbered: as long as a usual one, for the estimate of their cost."""
SECTIONS: tuple[Section, ...] = get_args(Section)


class PackItem(_Value):
    """One item of the pack. `text` is data: fenced with its origin for a model."""

    section: Section
    object_id: str
    segment_id: str = ""
    kind: str
    status: str
    title: str
    text: str
    citations: tuple[str, ...] = ()
    score: float = 0.0
    flags: tuple[str, ...] = ()
    """Warnings about the text, such as `ignore_instructions`, `repeats_question` or `superseded`."""
    channel: str = ""
    """The channel its words came through."""
    trust: str = ""
    """How far that channel is trusted: `high`, `medium` or `low`."""


class ConflictNote(_Value):
    """Claims that contradict each other, by id and title."""

    ids: tuple[str, ...]
    summary: str


class ContextPack(_Value):
    """An answer for a task within a token budget, stored until it expires."""

    id: str
    task: str
    summary: str
    scope: Scope
    items: tuple[PackItem, ...]
    rules: tuple[str, ...] = ()
    """Active constraints that apply to every task, each in one line; none of them is among the items."""
    commands: tuple[str, ...] = ()
    """The commands of the project for the jobs that the task asks how to do, such as "test `make test`"."""
    conflicts: tuple[ConflictNote, ...] = ()
    may_break: tuple[str, ...] = ()
    """Callers and tests of the code that is shown, which may break if it changes."""
    missing_context: tuple[str, ...] = ()
    recommended_next_reads: tuple[str, ...] = ()
    citations: tuple[Citation, ...] = ()
    generated_at: Instant
    expires_at: Instant
    budget: dict[str, int]
    """`max_tokens`, `used_tokens` (estimated, of the pack as it is written), `left_out` (items that did not fit)."""
    trace: dict[str, Any] = {}


USUAL_TRUST = "medium"
"""The trust of files, which is not worth a mention."""
_NOTES: tuple[tuple[str, str], ...] = (
    ("conflicts", "Conflicts"),
    ("missing_context", "Missing"),
    ("may_break", "May break"),
    ("recommended_next_reads", "Read next"),
)
"""The fields of a pack that are written as lists below the items, in order, and their headings."""

HEADINGS: Mapping[str, str] = {**{one: one.capitalize() for one in SECTIONS}, "constraints": "Rules"}
"""The headings of the sections."""
RULES_HEADING = "Rules for every task"


def section_of(type_: str, kind: str) -> Section:
    """Return the section that an object belongs in."""
    match type_:
        case "knowledge":
            return _BY_KIND.get(kind, "sources")
        case "work_item":
            return "work"
        case "activity":
            return "activities"
        case _:
            return "sources"


_BY_KIND: dict[str, Section] = {
    "constraint": "constraints",
    "decision": "decisions",
    "fact": "facts",
    "procedure": "procedures",
    "preference": "preferences",
    "summary": "summaries",
}


def render(context: ContextPack) -> str:
    """Write a pack as Markdown for a model.

    Stored text is fenced as data, one fence for each section, with a marker above each item that cites it. Outside
    are our own words, ids, and labels: the task, and titles and places in notes, each quoted on one line.
    """
    places = {citation.mark: citation for citation in context.citations}
    blocks = [
        f"# Context for {label(context.task, most=limits.MAX_TASK_CHARS)}",
        context.summary,
        *_listed(RULES_HEADING, context.rules),
        *(["## Commands", fence("\n".join(context.commands), origin="commands")] if context.commands else []),
    ]
    for section in SECTIONS:
        items = [item for item in context.items if item.section == section]
        written = [written_item(item, [places[mark] for mark in item.citations if mark in places]) for item in items]
        if written:
            blocks += [f"## {HEADINGS[section]}", fence_items(written, origin=section)]
    for field, heading in _NOTES:
        blocks += _listed(heading, getattr(context, field))
    return "\n\n".join(blocks) + "\n"


def _listed(heading: str, lines: Sequence[str | ConflictNote]) -> list[str]:
    texts = [one.summary if isinstance(one, ConflictNote) else one for one in lines]
    return [f"## {heading}", "\n".join(f"- {text}" for text in texts)] if texts else []


def written_item(item: PackItem, citations: Sequence[Citation]) -> tuple[str, str]:
    """Return the marker above an item, and its text.

    Lines of a file are cited only by their place, which is accepted as evidence; other items also by their id.
    """
    first = next(iter(citations), None)
    is_in_file = first is not None and _names_lines(first, item)
    places = [f"{one.mark} {_written_place(one)}".rstrip() for one in citations]
    heading = item.title.partition(" — ")[2] if is_in_file else ""
    named = [unmarked(heading, most=limits.MAX_HEADING_CHARS)] if heading not in item.text else []
    warnings = [flag for flag in item.flags if flag != "cut"]  # the text shows that by itself
    notes = [
        *([item.status] if item.status != "active" else []),
        *([f"trust: {item.trust} ({item.channel})"] if item.trust not in ("", USUAL_TRUST) else []),
        *([f"warning: {', '.join(warnings)}"] if warnings else []),
    ]
    parts = [
        *([] if is_in_file else [f"`{item.object_id} {item.segment_id}".rstrip() + "`"]),
        *([" ".join(places)] if places else []),
        *named,
        *notes,
    ]
    return " — ".join(parts), item.text if is_in_file else titled(item.title, item.text)


def named_item(item: PackItem, citations: Iterable[Citation]) -> str:
    """Return how a reader asks for an item: by path, lines and heading; by title and ids if it is of no file."""
    first = next(iter(citations), None)
    if first is None or not _names_lines(first, item):
        return f"{quoted(item.title)} (`{f'{item.object_id} {item.segment_id}'.rstrip()}`)"
    place, heading = first.place.partition(" @ ")[0], item.title.partition(" — ")[2]
    return quoted(f"{place} {heading}".rstrip())


def _names_lines(citation: Citation, item: PackItem) -> bool:
    """Return whether a passage of a file is cited by its own lines."""
    return (citation.object_id, citation.segment_id) == (item.object_id, item.segment_id) and "#L" in citation.place


def _written_place(citation: Citation) -> str:
    place = place_in_words(citation.place or citation.origin)
    shown = place.partition(" @ ")[0] if "#L" in place else place
    return label(shown, most=limits.MAX_PLACE_CHARS) if shown else ""


def shortened(context: ContextPack, max_tokens: int) -> tuple[ContextPack, str, list[str]]:
    """Shorten a pack until it fits as it is written: notes that only help first, then items from the end.

    Statements are more important than notes on missing context. Also return the pack as it is written, and the dropped
    items, each as its object and segment. A pack without items may still be too long.
    """
    dropped: list[str] = []
    while (excess := estimate_tokens(text := render(context)) - max_tokens) > 0:
        if len(context.recommended_next_reads) > 1 and not dropped:
            context = context.model_copy(update={"recommended_next_reads": context.recommended_next_reads[:-1]})
        elif context.may_break:
            context = context.model_copy(update={"may_break": context.may_break[:-1]})
        elif context.missing_context and context.items and context.items[-1].section != "sources":
            context = _without_last_notes(context)
        elif context.items:
            *others, last = context.items
            if shorter := _shorter(last, excess):
                others.append(shorter)
            else:
                dropped.insert(0, f"{last.object_id} {last.segment_id}".strip())
                context = _with_read(context, last)
            context = _with_items(context, tuple(others))
        elif context.recommended_next_reads:
            context = context.model_copy(update={"recommended_next_reads": ()})
        else:
            break
    return context, text, dropped


def _without_last_notes(context: ContextPack) -> ContextPack:
    return context.model_copy(
        update={"missing_context": context.missing_context[:-1], "recommended_next_reads": ()},
    )


def _with_read(context: ContextPack, dropped: PackItem) -> ContextPack:
    """List a source for further reading if no other part of it is in the pack."""
    if not dropped.segment_id or any(item.object_id == dropped.object_id for item in context.items[:-1]):
        return context
    cited = (one for one in context.citations if one.mark in dropped.citations)
    reads = (f"{named_item(dropped, cited)}: did not fit", *context.recommended_next_reads)
    return context.model_copy(update={"recommended_next_reads": reads[: TUNING.packing.max_entries]})


def _shorter(item: PackItem, excess: int) -> PackItem | None:
    room = estimate_tokens(item.text) - excess
    if room < TUNING.packing.min_useful_tokens:
        return None
    flags = tuple(dict.fromkeys((*item.flags, "cut")))
    return item.model_copy(update={"text": f"{cut_to_tokens(item.text, room - 2)}\n…", "flags": flags})


def _with_items(context: ContextPack, items: tuple[PackItem, ...]) -> ContextPack:
    used = {mark for item in items for mark in item.citations}
    citations = tuple(citation for citation in context.citations if citation.mark in used)
    return context.model_copy(update={"items": items, "citations": citations})


@lru_cache(maxsize=512)
def quoted(title: str) -> str:
    """Quote a title outside a fence, with a warning for each flag."""
    flags = instruction_flags(title)
    return f"{label(title)} — warning: {', '.join(flags)}" if flags else label(title)


def titled(title: str, text: str) -> str:
    """Return a text below its title, or only the text if it begins with the words of the title."""
    bare = title.strip()
    words = _WORD.findall(bare)
    begins = words == _WORD.findall(text[: len(bare) + _MARKUP_CHARS])[: len(words)]
    if not text:
        return bare
    return text if begins else f"{bare}\n\n{text}"


_WORD = re.compile(r"\w+")
_MARKUP_CHARS = 20
"""Characters of markup and punctuation by which the beginning of a text may be longer than its title."""


def lines_within(lines: Sequence[str], *, origin: str, max_tokens: int) -> tuple[str, ...]:
    """Return the lines, most important first, without the last ones that are over the budget once they are fenced."""

    def tokens(count: int) -> int:
        return estimate_tokens(fence("\n".join(lines[:count]), origin=origin))

    return tuple(lines[: bisect_right(range(1, len(lines) + 1), max_tokens, key=tokens)])
