"""The context pack, and packing hits into one: sections, citations, a token budget."""

from collections.abc import Collection, Iterable, Sequence
from dataclasses import dataclass
from functools import cached_property, lru_cache
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
    """`max_tokens`, `used_tokens` (estimated, of the pack as it is written), `left_out` (items that did not fit)."""
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
_TASK_CHARS = 120
_PLACE_CHARS = 200
_TWO_DIGITS = 10
_MARK = f"[{_TWO_DIGITS}] "  # a mark of a citation, before items are numbered
_FENCE_CHARS = len(fence("", origin=""))
_BETWEEN = 2  # characters of the empty line after an item


@dataclass(frozen=True)
class UnnumberedItem:
    """An item before it has its citation marks, with the places it rests on."""

    item: PackItem
    places: tuple[Citation, ...]
    shortened: str = ""
    """Its text without what says least, for a budget that does not hold all; empty where there is no such text."""

    @cached_property
    def cost(self) -> int:
        """The tokens of the item as it is written, with the empty lines around it."""
        return estimate_tokens(self.sized + " " * _BETWEEN)

    @cached_property
    def sized(self) -> str:
        """A text as long as the item is written, made without its fence."""
        origin = next(map(_place, self.places), self.item.object_id)
        around = len(self.places) * len(_MARK) + _FENCE_CHARS + len(origin)
        return f"{_head(self.item)}\n\n{titled(self.item.title, self.item.text)}{' ' * around}"

    @cached_property
    def cut(self) -> "UnnumberedItem":
        """The item without its text, flagged as cut."""
        return _with_text(self, "", "cut")

    @cached_property
    def in_short(self) -> "UnnumberedItem":
        """The item with its shortened text, where it has one."""
        return _with_text(self, self.shortened) if self.shortened else self


@dataclass(frozen=True)
class Packed:
    """What fitted, and what did not."""

    drafts: tuple[UnnumberedItem, ...]
    left_out: tuple[PackItem, ...]
    used_tokens: int

    @property
    def unnumbered(self) -> tuple[PackItem, ...]:
        """The items that fitted, still without their marks."""
        return tuple(draft.item for draft in self.drafts)

    @property
    def items(self) -> tuple[PackItem, ...]:
        """The items that fitted, with their marks."""
        return self._numbered[0]

    @property
    def citations(self) -> tuple[Citation, ...]:
        """The places that the items rest on, each once."""
        return self._numbered[1]

    @cached_property
    def _numbered(self) -> tuple[tuple[PackItem, ...], tuple[Citation, ...]]:
        return _numbered(self.drafts)


@dataclass(frozen=True, slots=True)
class Surroundings:
    """What a pack says around its items: see `ContextPack`."""

    task: str
    summary: str
    conflicts: tuple[ConflictNote, ...] = ()
    may_break: tuple[str, ...] = ()
    missing_context: tuple[str, ...] = ()
    recommended_next_reads: tuple[str, ...] = ()


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


def pack(drafts: Sequence[UnnumberedItem], *, max_tokens: int, around: int = 0) -> Packed:
    """Fill the budget, best first: what is believed and done gets up to half, sources what remains.

    Then whatever still fits is added in order. No passage takes more than its share; a long one is cut at the end
    rather than left out, as long as a useful part of it fits. Where sources do not all fit whole, those that can be
    shortened are, but for a first one that fits. An item counts as it is written, with its marks, its id and its
    fence. `around`: tokens that what stands around the items takes; shares are parts of the whole budget.
    """
    believed = [draft for draft in drafts if draft.item.section != "sources"]
    sources = [draft for draft in drafts if draft.item.section == "sources"]
    budget = _Budget(max_tokens, around)
    first = [draft for draft in believed if budget.take(draft, within=int(max_tokens * _BELIEVED_SHARE))]
    seen = _fitted_sources(sources, budget)
    late = [draft for draft in believed if draft not in first and budget.take(draft, within=budget.tokens)]
    chosen = (*first, *late, *seen)
    ids = {_key(draft.item) for draft in chosen}
    return Packed(chosen, tuple(draft.item for draft in drafts if _key(draft.item) not in ids), budget.used)


def name_nearest(drafts: Sequence[UnnumberedItem]) -> Packed:
    """Pack nothing, and name the first few drafts as left out: for a task that none of them is relevant to."""
    return Packed((), tuple(draft.item for draft in drafts[:_NAMED]), 0)


def cite(ref: EvidenceRef, *, origin: str, place: str) -> Citation:
    """Make a citation, still without its mark."""
    return Citation(mark="", object_id=ref.source_id, segment_id=ref.segment_id, origin=origin, place=place)


def render(context: ContextPack) -> str:
    """Write a pack as Markdown for a model or a person.

    What was stored stands fenced as data, with its origin: an item's title and text. Outside are our own words, ids,
    and labels: the task, places cited, and titles in notes, each quoted on one line.
    """
    origins = {citation.mark: citation for citation in context.citations}
    items = [(item, _render_item(item, _origin(item, origins))) for item in context.items]
    told = {_key(item): mark for item in context.items for mark in item.citations[:1]}
    rest = [one for one in context.citations if told.get(_key(one)) != one.mark]
    return _written(context, items, rest)


def estimate_written(packed: Packed, around: Surroundings) -> int:
    """Estimate the tokens of what fitted, as `render` writes it, at a tenth of its cost: nothing is fenced."""
    items = [(draft.item, draft.sized) for draft in packed.drafts]
    told = {
        _key(draft.item) for draft in packed.drafts for place in draft.places[:1] if _key(place) == _key(draft.item)
    }
    rest = {_key(place): place for draft in packed.drafts for place in draft.places if _key(place) not in told}
    return estimate_tokens(_written(around, items, [_marked(place, _TWO_DIGITS) for place in rest.values()]))


def _written(
    around: ContextPack | Surroundings, items: Sequence[tuple[PackItem, str]], rest: Sequence[Citation]
) -> str:
    """Write a pack of items that are written already. `rest`: the citations of which no item says where they stand."""
    blocks = [f"# Context for {label(around.task, most=_TASK_CHARS)}", around.summary]
    for section in SECTIONS:
        if within := [written for item, written in items if item.section == section]:
            blocks += [f"## {section.capitalize()}", *within]
    if around.conflicts:
        blocks += ["## Conflicts", _bullets(note.summary for note in around.conflicts)]
    if around.may_break:
        blocks += ["## May break", _bullets(around.may_break)]
    if around.missing_context:
        blocks += ["## Missing", _bullets(around.missing_context)]
    if around.recommended_next_reads:
        blocks += ["## Read next", _bullets(around.recommended_next_reads)]
    # A passage says above where it stands: under its own mark, in its fence.
    if rest:
        shown = {_key(item) for item, _ in items}
        blocks += ["## Citations", _bullets(_cited(citation, shown) for citation in rest)]
    return "\n\n".join(blocks) + "\n"


def shortened(context: ContextPack, max_tokens: int) -> tuple[ContextPack, list[str]]:
    """Shorten a pack until it fits as it is written: the last items first, then what to read next.

    Also return what is gone altogether, each as its object and segment. A pack without items may still be too long.
    """
    dropped: list[str] = []
    while (excess := estimate_tokens(render(context)) - max_tokens) > 0 and context.items:
        last = context.items[-1]
        shorter = _shorter(last, excess)
        if shorter is None:
            dropped.insert(0, f"{last.object_id} {last.segment_id}".strip())
            context = _with_read(context, last)
        context = _with_items(context, (*context.items[:-1], *([shorter] if shorter else ())))
    if excess > 0:
        context = context.model_copy(update={"recommended_next_reads": (), "may_break": ()})
    return context, dropped


_BY_KIND: dict[str, Section] = {
    "constraint": "constraints",
    "decision": "decisions",
    "fact": "facts",
    "procedure": "procedures",
    "preference": "preferences",
    "summary": "summaries",
}


class _Budget:
    def __init__(self, tokens: int, around: int) -> None:
        self.tokens = max(0, tokens - around)
        self.used = 0
        self.share = max(int(tokens * _PASSAGE_SHARE), _LEAST_SHARE)

    @property
    def left(self) -> int:
        return self.tokens - self.used

    def take(self, draft: UnnumberedItem, *, within: int) -> bool:
        cost = draft.cost
        if self.used + cost > min(within, self.tokens):
            return False
        self.used += cost
        return True


def _fitted_sources(sources: Sequence[UnnumberedItem], budget: _Budget) -> list[UnnumberedItem]:
    used = budget.used
    whole = [fitted for draft in sources if (fitted := _fitted(draft, budget))]
    if whole == list(sources) or not any(draft.shortened for draft in sources):
        return whole
    budget.used = used
    first = whole[:1] if whole[:1] == list(sources[:1]) else []  # it may answer by what would be left out of it
    shorter = [*first, *(draft.in_short for draft in sources[len(first) :])]
    return [fitted for draft in shorter if (fitted := _fitted(draft, budget))]


def _fitted(draft: UnnumberedItem, budget: _Budget) -> UnnumberedItem | None:
    if draft.cost <= budget.share and budget.take(draft, within=budget.tokens):
        return draft
    if min(budget.left, budget.share) < _LEAST_USEFUL:
        return None
    room = min(budget.left, budget.share) - draft.cut.cost
    if room < _LEAST_USEFUL:
        return None
    cut = _with_text(draft.cut, _beginning(draft.item.text, room))
    return cut if budget.take(cut, within=budget.tokens) else None


def _beginning(text: str, tokens: int) -> str:
    """Return as much of a text as fits, with a mark that there is more."""
    return cut_to_tokens(text, tokens - 2) + "\n…"


def _with_text(draft: UnnumberedItem, text: str, *flags: str) -> UnnumberedItem:
    item = draft.item.model_copy(update={"text": text, "flags": (*draft.item.flags, *flags)})
    return UnnumberedItem(item, draft.places)


def _with_read(context: ContextPack, dropped: PackItem) -> ContextPack:
    """Name a source of which nothing is left in a pack among what to read next."""
    if not dropped.segment_id or any(item.object_id == dropped.object_id for item in context.items[:-1]):
        return context
    reads = (quoted(dropped.title), *context.recommended_next_reads)
    return context.model_copy(update={"recommended_next_reads": reads})


def _shorter(item: PackItem, excess: int) -> PackItem | None:
    room = estimate_tokens(item.text) - excess
    if room < _LEAST_USEFUL:
        return None
    flags = tuple(dict.fromkeys((*item.flags, "cut")))
    return item.model_copy(update={"text": _beginning(item.text, room), "flags": flags})


def _with_items(context: ContextPack, items: tuple[PackItem, ...]) -> ContextPack:
    used = {mark for item in items for mark in item.citations}
    citations = tuple(citation for citation in context.citations if citation.mark in used)
    return context.model_copy(update={"items": items, "citations": citations})


def _key(item: PackItem | Citation) -> tuple[str, str]:
    return item.object_id, item.segment_id


def _numbered(drafts: Sequence[UnnumberedItem]) -> tuple[tuple[PackItem, ...], tuple[Citation, ...]]:
    citations: dict[tuple[str, str], Citation] = {}
    items = []
    for draft in drafts:
        marks = []
        for place in draft.places:
            key = _key(place)
            if key not in citations:
                citations[key] = _marked(place, len(citations) + 1)
            marks.append(citations[key].mark)
        items.append(draft.item.model_copy(update={"citations": tuple(marks)}))
    return tuple(items), tuple(citations.values())


def _marked(place: Citation, number: int) -> Citation:
    return place.model_copy(update={"mark": f"[{number}]"})


def _render_item(item: PackItem, origin: str) -> str:
    head = f"{' '.join(item.citations)} {_head(item)}".strip()
    return f"{head}\n\n{fence(titled(item.title, item.text), origin=origin)}"


def _origin(item: PackItem, origins: dict[str, Citation]) -> str:
    return next((_place(origins[mark]) for mark in item.citations), item.object_id)


def _head(item: PackItem) -> str:
    """Write what stands above an item, but for its marks."""
    state = "" if item.status == "active" else f" ({item.status})"
    warning = f" — warning: {', '.join(item.flags)}" if item.flags else ""
    trust = f" — trust: {item.trust} ({item.channel})" if item.trust else ""
    named = f"{item.object_id} {item.segment_id}".strip()
    return f"`{named}`{state}{trust}{warning}"


def _cited(citation: Citation, shown: Collection[tuple[str, str]]) -> str:
    """Write a citation: its place, and what to cite it by where no item above says that."""
    named = (
        "" if _key(citation) in shown or not citation.segment_id else f" `{citation.object_id} {citation.segment_id}`"
    )
    return f"{citation.mark} {label(_place(citation), most=_PLACE_CHARS)}{named}"


@lru_cache(maxsize=512)
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


def lines_within(lines: Sequence[str], *, origin: str, max_tokens: int) -> tuple[str, ...]:
    """Return the lines, most important first, without the last ones that are over the budget once they are fenced."""
    shown = list(lines)
    while shown and estimate_tokens(fence("\n".join(shown), origin=origin)) > max_tokens:
        shown.pop()
    return tuple(shown)
