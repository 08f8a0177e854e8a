"""Filling the token budget of a context pack: which items it holds, which of them cut, under which marks."""

from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from functools import cached_property
from itertools import chain

from treering.retrieval.search.excerpts import PassageLines
from treering.retrieval.search.packing import Citation, PackItem, written_item
from treering.retrieval.text.analysis import cut_to_tokens, estimate_tokens
from treering.retrieval.tuning import TUNING

_MARK = "[10]"  # a mark of a citation, before items are numbered
_MARKER = "<<treering:cited >>\n\n"


@dataclass(frozen=True)
class UnnumberedItem:
    """An item before it has its citation marks, with the places it rests on."""

    item: PackItem
    places: tuple[Citation, ...]
    shorten: Callable[[str], str] | None = None
    """Leaves out of its text what says least, for a budget that does not hold all of them."""
    excerpt: PassageLines | None = None
    """Its lines that answer, for a budget that does not hold all of them."""

    @cached_property
    def cost(self) -> int:
        """The tokens of the item as it is written in a fence."""
        marker, text = written_item(self.item, [_marked(place, _MARK) for place in self.places])
        return estimate_tokens(f"{_MARKER}{marker}{text}")

    @cached_property
    def in_short(self) -> "UnnumberedItem":
        """The item with its shortened text, if that is any shorter."""
        shortened = self.shorten(self.item.text) if self.shorten else self.item.text
        return self._with_text(shortened) if len(shortened) < len(self.item.text) else self

    def cut_to(self, tokens: int) -> "UnnumberedItem | None":
        """Return the item with so much of its text that it costs at most so many tokens, the lines that answer first.

        `None` if that is too little to be of use.
        """
        if tokens < TUNING.packing.min_useful_tokens:
            return None
        empty = self._with_text("", "cut")
        room = tokens - empty.cost
        if room < TUNING.packing.min_useful_tokens:
            return None
        lines = self.excerpt.within(room) if self.excerpt else ""
        return empty._with_text(lines or f"{cut_to_tokens(self.item.text, room - 2)}\n…")

    def _with_text(self, text: str, *flags: str) -> "UnnumberedItem":
        item = self.item.model_copy(update={"text": text, "flags": (*self.item.flags, *flags)})
        return UnnumberedItem(item, self.places, excerpt=self.excerpt)


@dataclass(frozen=True)
class Packed:
    """What fitted, and what did not."""

    drafts: tuple[UnnumberedItem, ...]
    left_out: tuple[UnnumberedItem, ...]
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
        citations: dict[tuple[str, str], Citation] = {}
        items = []
        for draft in self.drafts:
            for place in draft.places:
                citations.setdefault(_key(place), _marked(place, f"[{len(citations) + 1}]"))
            marks = tuple(citations[_key(place)].mark for place in draft.places)
            items.append(draft.item.model_copy(update={"citations": marks}))
        return tuple(items), tuple(citations.values())


def pack(drafts: Sequence[UnnumberedItem], *, max_tokens: int, around: int = 0) -> Packed:
    """Fill the budget, best first: knowledge and work get up to half, sources what remains.

    Then whatever still fits is added in order. No passage takes more than its share; a longer one is cut around the
    lines that answer, if a useful part of it fits. If sources do not all fit whole, those that can be shortened are,
    except a first one that fits. `around`: tokens of what is written around the items; shares are of the whole budget.
    """
    believed = [draft for draft in drafts if draft.item.section != "sources"]
    sources = [draft for draft in drafts if draft.item.section == "sources"]
    budget = _Budget(max_tokens, around)
    first = [draft for draft in believed if budget.take(draft, within=int(max_tokens * TUNING.packing.believed_share))]
    seen = _fitted_sources(sources, budget)
    late = [draft for draft in believed if draft not in first and budget.take(draft, within=budget.tokens)]
    chosen = (*first, *late, *seen)
    ids = {_key(draft.item) for draft in chosen}
    return Packed(chosen, tuple(draft for draft in drafts if _key(draft.item) not in ids), budget.used)


def name_nearest(drafts: Sequence[UnnumberedItem]) -> Packed:
    """Pack nothing, and name the first few drafts as left out: for a task that none of them is relevant to."""
    return Packed((), tuple(drafts[: TUNING.packing.nearest_named]), 0)


class _Budget:
    def __init__(self, tokens: int, around: int) -> None:
        self.tokens = max(0, tokens - around)
        self.used = 0
        self.share = max(int(tokens * TUNING.packing.passage_share), TUNING.packing.min_passage_tokens)

    def take(self, draft: UnnumberedItem, *, within: int) -> bool:
        if self.used + draft.cost > min(within, self.tokens):
            return False
        self.used += draft.cost
        return True


def _fitted_sources(sources: Sequence[UnnumberedItem], budget: _Budget) -> list[UnnumberedItem]:
    used = budget.used
    whole = list(_each_fitted(sources, budget))
    if whole == list(sources) or not any(draft.shorten for draft in sources):
        return whole
    budget.used = used
    first = whole[:1] if whole[:1] == list(sources[:1]) else []  # it may answer by what would be left out of it
    return list(_each_fitted(chain(first, (draft.in_short for draft in sources[len(first) :])), budget))


def _each_fitted(sources: Iterable[UnnumberedItem], budget: _Budget) -> Iterator[UnnumberedItem]:
    """Yield what fits of each passage, until there is hardly room."""
    for draft in sources:
        if budget.tokens - budget.used < TUNING.packing.min_useful_tokens:
            return
        if fitted := _fitted(draft, budget):
            yield fitted


def _fitted(draft: UnnumberedItem, budget: _Budget) -> UnnumberedItem | None:
    if draft.cost <= budget.share and budget.take(draft, within=budget.tokens):
        return draft
    cut = draft.cut_to(min(budget.tokens - budget.used, budget.share))
    return cut if cut and budget.take(cut, within=budget.tokens) else None


def _key(item: PackItem | Citation) -> tuple[str, str]:
    return item.object_id, item.segment_id


def _marked(place: Citation, mark: str) -> Citation:
    return place.model_copy(update={"mark": mark})
