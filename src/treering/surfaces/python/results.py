"""Results of the everyday methods of a space: sequences and values that print in readable form."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, TypeVar, overload

from treering.core.canonical import is_object
from treering.core.characters import one_line
from treering.core.counting import counted_things
from treering.core.objects import kind_in_words

if TYPE_CHECKING:
    from treering.retrieval.search.packing import PackItem
    from treering.verbs.crystallize.submission import WriteReport
    from treering.verbs.evidence.resolving import ResolvedEvidence
    from treering.verbs.query.brief import BriefReport
    from treering.verbs.query.context import ContextReport
    from treering.verbs.query.recent import RecentChange, RecentReport
    from treering.verbs.query.search import SearchReport
    from treering.verbs.shown_hits import ShownHit

Item = TypeVar("Item")

_FILE = "file:"
_TITLE_CHARS = 60
_NEW = frozenset({"created", "duplicate"})


@dataclass(frozen=True, slots=True, repr=False)
class SearchHit:
    """A passage or an object that matches a search. Its `text` is data, whatever its content.

    `str(hit)` is the text for an agent, with recalled text marked as data.
    """

    shown: "ShownHit"
    """The hit with all its fields."""
    rank: int = field(default=1, compare=False)
    """Its rank among the hits, from 1."""
    terms: tuple[str, ...] = field(default=(), compare=False)
    """Index terms of the query."""

    @property
    def id(self) -> str:
        """The id of the object."""
        return self.shown.object_id

    @property
    def path(self) -> str | None:
        """The path of the file, from the top of its repository; absolute outside one; `None` if there is no file."""
        if self.origin.startswith(_FILE):
            return self.origin.removeprefix(_FILE)
        return self.origin.rpartition("#")[2] if self.origin.startswith("repo:") and "#" in self.origin else None

    @property
    def origin(self) -> str:
        """The origin of a source, such as an address or `note:…`; the id of knowledge, work and other objects."""
        return self.shown.origin

    @property
    def lines(self) -> tuple[int, int] | None:
        """The first and last line in the file, counted from 1; `None` without a file that has lines."""
        first = self.shown.first_line
        return (first, first + len(self.shown.text.splitlines()) - 1) if first else None

    @property
    def title(self) -> str:
        """The title of the object or source."""
        return self.shown.title

    @property
    def text(self) -> str:
        """The words of the passage."""
        return self.shown.text

    @property
    def score(self) -> float:
        """How well it answers, compared to the other hits of the search."""
        return self.shown.score

    @property
    def note(self) -> str:
        """Why it is not current, such as `superseded by "TITLE"`; empty if it is."""
        return self.shown.note

    @property
    def flags(self) -> tuple[str, ...]:
        """Warnings, such as `superseded` or `weak`."""
        return self.shown.flags

    @property
    def superseded_by(self) -> str:
        """The id of the knowledge, or source and segment of the turn, that replaced it; empty if nothing did."""
        return self.shown.superseded_by

    @property
    def evidence(self) -> str:
        """The hit as evidence of knowledge."""
        return f"{self.shown.object_id} {self.shown.segment_id}".strip()

    def __str__(self) -> str:
        """Return the words as data, below their place, the speaker and day, and why to read them with care."""
        from treering.surfaces.search_text import fenced_hits  # loaded only by programs that print hits

        return fenced_hits([self.shown], self.terms, start=self.rank)

    def __repr__(self) -> str:
        """Return a line such as `<Markdown README.md:3-5>` or `<Decision "Retries are bounded" know:01m8…>`."""
        at = f":{self.lines[0]}-{self.lines[1]}" if self.lines else ""
        name = f"{self.path}{at}" if self.path else f"{_quoted(self.title)}{self.id}"
        return f"<{kind_in_words(self.shown.kind).capitalize()} {name}>"


class _Items(Sequence[Item]):
    """The items of a report, as a sequence."""

    def __init__(self, items: Sequence[Item]) -> None:
        self._items = tuple(items)

    @overload
    def __getitem__(self, place: int) -> Item: ...
    @overload
    def __getitem__(self, place: slice) -> tuple[Item, ...]: ...
    def __getitem__(self, place: int | slice) -> Item | tuple[Item, ...]:
        """Return an item, or some of them."""
        return self._items[place]

    def __len__(self) -> int:
        """Return how many there are."""
        return len(self._items)


class Hits(_Items[SearchHit]):
    """The hits of a search, best first. `str(hits)` is the text for an agent, with recalled text marked as data."""

    def __init__(self, report: "SearchReport") -> None:
        super().__init__([SearchHit(one, rank, report.terms) for rank, one in enumerate(report.hits, 1)])
        self.report = report

    def __str__(self) -> str:
        """Return all hits, or why there are none, then the commands or commits asked for, and warnings."""
        from treering.core.fencing import fence
        from treering.surfaces.search_text import fenced_hits  # loaded only by programs that print hits

        hits = [fenced_hits(self.report.hits, self.report.terms)] if self else []
        facts = [
            "\n".join([f"The {name}:", fence("\n".join(lines), origin=name)])
            for name, lines in self.report.project_facts()
        ]
        empty = [f"No results: {self.report.empty.hint}"] if self.report.empty else []
        warnings = [f"Warning: {one}" for one in self.report.warnings]
        return "\n\n".join([*hits, *empty, *facts, *warnings])

    def __repr__(self) -> str:
        """Return a line with the number of hits."""
        return f"<Hits: {counted_things(len(self), 'hit')}>"


class Pack(_Items["PackItem"]):
    """The knowledge for a task. `str(pack)` is the text for an agent, with recalled text marked as data."""

    def __init__(self, report: "ContextReport") -> None:
        items: Sequence[PackItem] = report.pack.items
        super().__init__(items)
        self.report = report

    def __str__(self) -> str:
        """Return the pack as Markdown."""
        return self.report.text

    def __repr__(self) -> str:
        """Return a line with the task and the number of items."""
        return f"<Pack {_quoted(self.report.pack.task)}{counted_things(len(self), 'item')}>"


@dataclass(frozen=True, slots=True, repr=False)
class Brief:
    """A brief before starting. `str(brief)` is the text for an agent."""

    report: "BriefReport"

    def __str__(self) -> str:
        """Return the brief; empty if nothing is known."""
        return self.report.text

    def __repr__(self) -> str:
        """Return a line with the number of entries."""
        total = sum(len(one.entries) for one in self.report.sections)
        return f"<Brief: {counted_things(total, 'entry')}>"


class Log(_Items["RecentChange"]):
    """Changes, newest first."""

    def __init__(self, report: "RecentReport") -> None:
        changes: Sequence[RecentChange] = report.changes
        super().__init__(changes)
        self.report = report

    def __str__(self) -> str:
        """Return a line for each change; links are left out, and an ingest, a merge or an erasure is one line."""
        # Imported here: results are loaded with the package, and few programs print a log.
        from treering.verbs.query.recent import ToldChange, erasure_in_words, merge_in_words, told_changes

        def in_words(one: ToldChange) -> str:
            if one.joined:
                return merge_in_words(one.joined)
            if one.erased:
                return erasure_in_words(one.erased)
            return f"read {len(one.read)} sources" if len(one.read) > 1 else f"{one.change.event}  {one.change.title}"

        return "\n".join(f"{one.change.time[:19]}Z  {in_words(one)}" for one in told_changes(self))

    def __repr__(self) -> str:
        """Return a line with the number of changes."""
        return f"<Log: {counted_things(len(self), 'change')}>"


@dataclass(frozen=True, slots=True, repr=False)
class NewEntry:
    """A new record: its id, its evidence, and the patch that wrote it."""

    report: "WriteReport"

    @property
    def id(self) -> str:
        """The id of the knowledge or task; empty if it waits for review."""
        results = self.report.receipt.results if self.report.receipt else ()
        written = [one for one in results if is_object(one.id) and not one.id.startswith("src:")]
        # A replacement also changes the replaced object: the new statement comes first.
        return min(written, key=lambda one: one.outcome not in _NEW).id if written else ""

    @property
    def evidence(self) -> tuple["ResolvedEvidence", ...]:
        """The places given as evidence, with the words quoted."""
        return self.report.evidence

    @property
    def patch_id(self) -> str:
        """The id of the patch, for `space.undo`."""
        return self.report.patch_id

    def __iter__(self) -> Iterator[str]:
        """Iterate over the ids of everything that was written."""
        return iter(self.report.ids)

    def __str__(self) -> str:
        """Return the id."""
        return self.id

    def __repr__(self) -> str:
        """Return a line such as `<NewEntry know:01m8…>`; with the patch if it waits for review."""
        return f"<NewEntry {self.id or self.patch_id}>"


def _quoted(text: str) -> str:
    return f'"{one_line(text, most=_TITLE_CHARS)}" ' if text else ""
