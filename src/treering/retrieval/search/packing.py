"""The context pack, and packing hits into one: sections, citations, a token budget."""

from collections.abc import Collection, Iterable, Sequence
from dataclasses import dataclass
from typing import Any, ClassVar, Literal

from pydantic import BaseModel, ConfigDict

from treering.core.canonical import Instant
from treering.core.characters import label
from treering.core.evidence import EvidenceRef
from treering.core.fencing import fence
from treering.core.scope import Scope
from treering.core.screening import instruction_flags
from treering.retrieval.text.analysis import cut_to_tokens, estimate_tokens


class _Value(BaseModel):
    model_config: ClassVar[ConfigDict] = ConfigDict(frozen=True, extra="forbid", defer_build=True)


Section = Literal[
    "constraints", "decisions", "facts", "procedures", "preferences", "work", "activities", "summaries", "sources"
]


class Citation(_Value):
    """Where an item of the pack comes from. `mark` is how the text refers to it, such as `[3]`."""

    mark: str
    object_id: str
    segment_id: str = ""
    origin: str = ""
    place: str = ""
    """Such as `src/app.py#L10-L20 @ 1f3c…`."""


class PackItem(_Value):
    """One thing to know. `text` is data: fenced with its origin when given to a model."""

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
    """An answer for a task inside a token budget, kept only until it expires."""

    id: str
    task: str
    summary: str
    scope: Scope
    items: tuple[PackItem, ...]
    conflicts: tuple[ConflictNote, ...] = ()
    may_break: tuple[str, ...] = ()
    """What uses and tests the code that is shown: it may break where that code is changed."""
    missing_context: tuple[str, ...] = ()
    recommended_next_reads: tuple[str, ...] = ()
    citations: tuple[Citation, ...] = ()
    generated_at: Instant
    expires_at: Instant
    budget: dict[str, int]
    """`max_tokens`, `used_tokens` (estimated), `left_out` (items that did not fit)."""
    trace: dict[str, Any] = {}


# Packing hits into a context pack: sections, citations, a token budget.


SECTIONS: tuple[Section, ...] = (
    "constraints",
    "decisions",
    "facts",
    "procedures",
    "preferences",
    "work",
    "activities",
    "summaries",
    "sources",
)
_BELIEVED_SHARE = 0.5
"""Part of the budget that knowledge and work may take before sources have had their turn."""
_PASSAGE_SHARE = 0.25
"""Part of the budget that a single passage may take, so that one long text does not hide all others."""
_LEAST_SHARE = 200  # tokens: a passage may take as many of a small budget
_LEAST_USEFUL = 40  # tokens: a shorter beginning of a text tells nobody anything
_NAMED = 3  # passages that a pack without items names
_TASK_CHARS = 300
_PLACE_CHARS = 200
_OVERHEAD = 24  # tokens of heading, mark and fence around an item


@dataclass(frozen=True, slots=True)
class UnnumberedItem:
    """An item before it has its citation marks, with the places it rests on."""

    item: PackItem
    places: tuple[Citation, ...]


@dataclass(frozen=True, slots=True)
class Packed:
    """What fitted, numbered; and what did not."""

    items: tuple[PackItem, ...]
    citations: tuple[Citation, ...]
    left_out: tuple[PackItem, ...]
    used_tokens: int


def section_of(type_: str, kind: str) -> Section:
    """Tell under which heading an object belongs."""
    match type_:
        case "knowledge":
            return _BY_KIND.get(kind, "sources")
        case "work_item":
            return "work"
        case "activity":
            return "activities"
        case _:
            return "sources"


def pack(drafts: Sequence[UnnumberedItem], *, max_tokens: int) -> Packed:
    """Fill the budget, best first: what is believed and done gets up to half, sources what remains.

    Then whatever still fits is added in order. No passage takes more than its share; a long one is cut at the end
    rather than left out, as long as a useful part of it fits.
    """
    believed = [draft for draft in drafts if draft.item.section != "sources"]
    sources = [draft for draft in drafts if draft.item.section == "sources"]
    budget = _Budget(max_tokens)
    first = [draft for draft in believed if budget.take(draft.item, within=int(max_tokens * _BELIEVED_SHARE))]
    seen = [fitted for draft in sources if (fitted := _fitted(draft, budget))]
    late = [draft for draft in believed if draft not in first and budget.take(draft.item, within=max_tokens)]
    chosen = [*first, *late, *seen]
    ids = {_key(draft.item) for draft in chosen}
    left_out = tuple(draft.item for draft in drafts if _key(draft.item) not in ids)
    items, citations = _numbered(chosen)
    return Packed(items, citations, left_out, budget.used)


def name_nearest(drafts: Sequence[UnnumberedItem]) -> Packed:
    """Pack nothing, and name the first few drafts as left out: for a task that none of them is relevant to."""
    return Packed((), (), tuple(draft.item for draft in drafts[:_NAMED]), 0)


def cite(ref: EvidenceRef, *, origin: str, place: str) -> Citation:
    """Make a citation, still without its mark."""
    return Citation(mark="", object_id=ref.source_id, segment_id=ref.segment_id, origin=origin, place=place)


def render(context: ContextPack) -> str:
    """Write a pack as Markdown for a model or a person.

    What was stored stands fenced as data, with its origin: an item's title and text. Outside are our own words, ids,
    and labels: the task, places cited, and titles in notes, each quoted on one line.
    """
    blocks = [f"# Context for {label(context.task, most=_TASK_CHARS)}", context.summary]
    origins = {citation.mark: citation for citation in context.citations}
    for section in SECTIONS:
        items = [item for item in context.items if item.section == section]
        if items:
            blocks.append(f"## {section.capitalize()}")
            blocks += [_render_item(item, origins) for item in items]
    if context.conflicts:
        blocks += ["## Conflicts", _bullets(note.summary for note in context.conflicts)]
    if context.may_break:
        blocks += ["## May break", _bullets(context.may_break)]
    if context.missing_context:
        blocks += ["## Missing", _bullets(context.missing_context)]
    if context.recommended_next_reads:
        blocks += ["## Read next", _bullets(context.recommended_next_reads)]
    if context.citations:
        shown = {_key(item) for item in context.items}
        blocks += ["## Citations", _bullets(_cited(citation, shown) for citation in context.citations)]
    return "\n\n".join(blocks) + "\n"


_BY_KIND: dict[str, Section] = {
    "constraint": "constraints",
    "decision": "decisions",
    "fact": "facts",
    "procedure": "procedures",
    "preference": "preferences",
    "summary": "summaries",
}


class _Budget:
    def __init__(self, tokens: int) -> None:
        self.tokens = tokens
        self.used = 0

    @property
    def left(self) -> int:
        return self.tokens - self.used

    def take(self, item: PackItem, *, within: int) -> bool:
        cost = _cost(item)
        if self.used + cost > min(within, self.tokens):
            return False
        self.used += cost
        return True


def _fitted(draft: UnnumberedItem, budget: _Budget) -> UnnumberedItem | None:
    share = max(int(budget.tokens * _PASSAGE_SHARE), _LEAST_SHARE)
    if _cost(draft.item) <= share and budget.take(draft.item, within=budget.tokens):
        return draft
    room = min(budget.left, share) - _OVERHEAD - estimate_tokens(draft.item.title)
    if room < _LEAST_USEFUL:
        return None
    cut = draft.item.model_copy(
        update={"text": cut_to_tokens(draft.item.text, room - 2) + "\n…", "flags": (*draft.item.flags, "cut")}
    )
    return UnnumberedItem(cut, draft.places) if budget.take(cut, within=budget.tokens) else None


def _cost(item: PackItem) -> int:
    return _OVERHEAD + estimate_tokens(item.title) + estimate_tokens(item.text)


def _key(item: PackItem) -> tuple[str, str]:
    return item.object_id, item.segment_id


def _numbered(drafts: Sequence[UnnumberedItem]) -> tuple[tuple[PackItem, ...], tuple[Citation, ...]]:
    citations: dict[tuple[str, str], Citation] = {}
    items = []
    for draft in drafts:
        marks = []
        for place in draft.places:
            key = (place.object_id, place.segment_id)
            if key not in citations:
                citations[key] = place.model_copy(update={"mark": f"[{len(citations) + 1}]"})
            marks.append(citations[key].mark)
        items.append(draft.item.model_copy(update={"citations": tuple(marks)}))
    return tuple(items), tuple(citations.values())


def _render_item(item: PackItem, origins: dict[str, Citation]) -> str:
    marks = " ".join(item.citations)
    state = "" if item.status == "active" else f" ({item.status})"
    warning = f" — warning: {', '.join(item.flags)}" if item.flags else ""
    origin = next((_place(origins[mark]) for mark in item.citations), item.object_id)
    trust = f" — trust: {item.trust} ({item.channel})" if item.trust else ""
    named = f"{item.object_id} {item.segment_id}".strip()
    head = f"{marks} `{named}`{state}{trust}{warning}".strip()
    return f"{head}\n\n{fence(titled(item.title, item.text), origin=origin)}"


def _cited(citation: Citation, shown: Collection[tuple[str, str]]) -> str:
    """Write a citation: its place, and what to cite it by where no item above says that."""
    key = (citation.object_id, citation.segment_id)
    named = "" if key in shown or not citation.segment_id else f" `{citation.object_id} {citation.segment_id}`"
    return f"{citation.mark} {label(_place(citation), most=_PLACE_CHARS)}{named}"


def quoted(title: str) -> str:
    """Quote a title that stands outside a fence, with what it is flagged for."""
    flags = instruction_flags(title)
    return f"{label(title)} — warning: {', '.join(flags)}" if flags else label(title)


def titled(title: str, text: str) -> str:
    """Return a text under its title, as it stands inside a fence; once where the text begins with it."""
    bare = title.strip()
    begins = text.lstrip().lstrip("#").lstrip().startswith(bare)
    return text if begins else f"{bare}\n\n{text}" if text else bare


def _place(citation: Citation) -> str:
    return citation.place or citation.origin


def _bullets(lines: Iterable[str]) -> str:
    return "\n".join(f"- {line}" for line in lines)
