"""Fill the token budget of a context pack: choose its items, cut some of them, and number the citations."""

from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from functools import cached_property
from itertools import chain

from treering.retrieval import limits
from treering.retrieval.search.excerpts import PassageLines, lines_of_body
from treering.retrieval.search.packing import Citation, PackItem, written_item
from treering.retrieval.text.analysis import cut_to_tokens, estimate_tokens
from treering.retrieval.tuning import TUNING

_PAST = frozenset({"resolved", "closed", "superseded", "stale", "archived"})
"""Statuses of work that is done, and of statements that were withdrawn."""
_MARKER = "<<treering:cited >>\n\n"


@dataclass(frozen=True)
class UnnumberedItem:
    """An item before it has its citation marks, with the places of its evidence."""

    item: PackItem
    places: tuple[Citation, ...]
    shorten: Callable[[str], str] | None = None
    """A function that omits the least informative parts of its text, for a small budget."""
    excerpt: PassageLines | None = None
    """The lines that answer, for a small budget."""
    is_code: bool = False

    @cached_property
    def cost(self) -> int:
        """The tokens of the item as it is written in a fence."""
        marker, text = written_item(self.item, self.places)
        return estimate_tokens(f"{_MARKER}{marker}{text}")

    @cached_property
    def in_short(self) -> "UnnumberedItem":
        """The item with its shortened text, if that is any shorter."""
        shortened = self.shorten(self.item.text) if self.shorten else self.item.text
        return self._with_text(shortened) if len(shortened) < len(self.item.text) else self

    def cut_to(self, tokens: int) -> "UnnumberedItem | None":
        """Return the item with its text cut to a cost of `tokens`, preferably to the lines that answer.

        `None` if too little of it remains to be useful.
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
        return UnnumberedItem(item, self.places, excerpt=self.excerpt, is_code=self.is_code)

    @property
    def shows_body(self) -> bool:
        """Whether it shows more than the signature of code, in a text that may be shortened or cut."""
        least = TUNING.packing.min_body_lines if "cut" in self.item.flags else 1
        return not self.is_code or "…" not in self.item.text or lines_of_body(self.item.text) >= least


@dataclass(frozen=True)
class Packed:
    """The items that fit into the budget, and the others."""

    drafts: tuple[UnnumberedItem, ...]
    left_out: tuple[UnnumberedItem, ...]
    used_tokens: int

    @property
    def unnumbered(self) -> tuple[PackItem, ...]:
        """The items that fit, without marks."""
        return tuple(draft.item for draft in self.drafts)

    @property
    def items(self) -> tuple[PackItem, ...]:
        """The items that fit, with their marks."""
        return self._numbered[0]

    @property
    def citations(self) -> tuple[Citation, ...]:
        """The distinct places of the items' evidence."""
        return self._numbered[1]

    @cached_property
    def _numbered(self) -> tuple[tuple[PackItem, ...], tuple[Citation, ...]]:
        # A decision may cite one line of a passage that is also shown as a whole.
        citations: dict[tuple[str, str, str], Citation] = {}
        items = []
        for draft in self.drafts:
            for place in draft.places:
                if (key := (*_key(place), place.place)) not in citations:
                    citations[key] = place.model_copy(update={"mark": f"[{len(citations) + 1}]"})
            marks = tuple(citations[*_key(place), place.place].mark for place in draft.places)
            items.append(draft.item.model_copy(update={"citations": marks}))
        return tuple(items), tuple(citations.values())


def pack(drafts: Sequence[UnnumberedItem], *, max_tokens: int, around: int = 0) -> Packed:
    """Fill the budget, best first: knowledge and work get up to half, sources the rest.

    Current statements and open work come before work that is done. The first statement is cut if it does not fit, and
    notes around the items give way to it. Then whatever still fits is added in order. No passage takes more than its
    share; a longer one is cut around the lines that answer, if a useful part of it fits. If sources do not all fit as a
    whole, they are shortened if possible, except a first one that fits. `around`: tokens of the text around the items;
    shares are of the whole budget.
    """
    believed = sorted((draft for draft in drafts if draft.item.section != "sources"), key=_is_past)
    sources = [draft for draft in drafts if draft.item.section == "sources"]
    budget = _Budget(max_tokens, around)
    first = list(_fitted_beliefs(believed, budget, within=int(max_tokens * TUNING.packing.believed_share)))
    keys = {_key(draft.item) for draft in first}
    seen = _fitted_sources(sources, budget)
    late = [draft for draft in believed if _key(draft.item) not in keys and budget.take(draft, within=budget.tokens)]
    chosen = (*first, *late, *seen)
    ids = {_key(draft.item) for draft in chosen}
    return Packed(chosen, tuple(draft for draft in drafts if _key(draft.item) not in ids), budget.used)


def name_nearest(drafts: Sequence[UnnumberedItem]) -> Packed:
    """Pack nothing, and name the first few drafts as left out: for a task that none of them is relevant to."""
    return Packed((), tuple(drafts[: limits.MAX_NEAREST]), 0)


class _Budget:
    def __init__(self, tokens: int, around: int) -> None:
        self.whole = tokens
        self.tokens = max(0, tokens - around)
        self.used = 0
        self.share = max(int(tokens * TUNING.packing.passage_share), TUNING.packing.min_passage_tokens)

    def take(self, draft: UnnumberedItem, *, within: int) -> bool:
        if self.used + draft.cost > min(within, self.tokens):
            return False
        self.used += draft.cost
        return True

    def place_first(self, draft: UnnumberedItem) -> UnnumberedItem | None:
        """Take the most important item, cut if necessary, even in the space for the text around the items."""
        fitted = draft if draft.cost <= self.whole else draft.cut_to(self.whole)
        self.used += fitted.cost if fitted else 0
        return fitted


def _is_past(draft: UnnumberedItem) -> bool:
    """Return whether an item is not current: work that is done, or a statement that was withdrawn."""
    return draft.item.section == "activities" or draft.item.status in _PAST


def _fitted_beliefs(believed: Sequence[UnnumberedItem], budget: _Budget, *, within: int) -> Iterator[UnnumberedItem]:
    for rank, draft in enumerate(believed):
        if budget.take(draft, within=within):
            yield draft
        elif not rank and not _is_past(draft) and (fitted := budget.place_first(draft)):
            yield fitted


def _fitted_sources(sources: Sequence[UnnumberedItem], budget: _Budget) -> list[UnnumberedItem]:
    used = budget.used
    whole = list(_each_fitted(sources, budget))
    if whole == list(sources) or not any(draft.shorten for draft in sources):
        return whole
    budget.used = used
    first = whole[:1] if whole[:1] == list(sources[:1]) else []  # it may answer by what would be left out of it
    return list(_each_fitted(chain(first, (draft.in_short for draft in sources[len(first) :])), budget))


def _each_fitted(sources: Iterable[UnnumberedItem], budget: _Budget) -> Iterator[UnnumberedItem]:
    """Yield the fitting part of each passage, until little room is left."""
    for draft in sources:
        if budget.tokens - budget.used < TUNING.packing.min_useful_tokens:
            return
        if fitted := _fitted(draft, budget):
            yield fitted


def _fitted(draft: UnnumberedItem, budget: _Budget) -> UnnumberedItem | None:
    if draft.cost <= budget.share and draft.shows_body and budget.take(draft, within=budget.tokens):
        return draft
    cut = draft.cut_to(min(budget.tokens - budget.used, budget.share))
    return cut if cut and cut.shows_body and budget.take(cut, within=budget.tokens) else None


def _key(item: PackItem | Citation) -> tuple[str, str]:
    return item.object_id, item.segment_id
