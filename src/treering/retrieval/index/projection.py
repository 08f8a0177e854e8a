"""From a ledger's changes to what an index keeps: which passages come, go and change, and what each is found by.

Pure, and shared by all stores, so that they cannot differ in what can be found. A store keeps rows: it begins and ends
them as the steps say, and remembers from which audit sequence number to which each stood.
"""

from collections.abc import Callable, Iterator, Sequence, Set
from dataclasses import dataclass
from functools import lru_cache
from itertools import chain
from typing import Any, NamedTuple

from treering.core.objects import Node, Object, Source, WorkItem
from treering.core.writing.integrity import references_of
from treering.ports.index import Change, Projection
from treering.ports.ledger import Ledger
from treering.ports.models import Excerpt, Extraction, Extractor, PlainExtraction
from treering.ports.passages import Passage
from treering.ports.runtime import JobRow, check_interrupt
from treering.retrieval.index.code_names import names_of_code
from treering.retrieval.index.code_places import NO_PLACE
from treering.retrieval.index.passages import passages_of
from treering.retrieval.index.ties import DIALOGUE_KINDS, Ties, excerpt_of, names_of_linked_code, ties_of
from treering.retrieval.text.analysis import names_in, stretches_of
from treering.retrieval.text.analysis import terms_of as text_terms

PARAGRAPH, TURN, SYMBOL, SUPPORT, CODE, DATA = range(6)
"""How long a text may wait for its vector: less is sooner.

Paragraphs come first, for a chain of questions finds nearly nothing more by the quick model (8 points of recall by the
encoder, 1 to 3 by the quick one); turns of conversations next, of which that finds as much as the encoder.
"""

GENERATED = "generated"
SUPPORTING_PLACES = frozenset({"test", "example", "changelog", "data"})
"""Places of a project that say little of how it works."""

_BODIES = {"code": CODE, "data": DATA}


def priority_of(kind: str, role: str, place_role: str) -> int | None:
    """Return how long a text may wait for its vector; `None` for one that gains nothing by it.

    Those are what was generated, and bodies of code and data in a project, a third to three fifths of its texts. Of 89
    questions about two repositories (`benchmarks.code_data`) 80 found their file among the first five without them and
    81 with them, 86 among the first ten either way. A symbol stands for its body.
    """
    if place_role == GENERATED or (role in _BODIES and place_role != NO_PLACE):
        return None
    if role in _BODIES:
        return _BODIES[role]
    if kind in DIALOGUE_KINDS:
        return TURN
    if place_role in SUPPORTING_PLACES:
        return SUPPORT
    return SYMBOL if role == "symbol" else PARAGRAPH


@dataclass(frozen=True, slots=True)
class Entry:
    """A passage, its place in its object (from 0), and the ids of the objects that its object refers to."""

    passage: Passage
    position: int
    links: tuple[str, ...]

    @property
    def stated(self) -> tuple[object, ...]:
        """What its ties are made of that may change while the passage stays."""
        return self.passage.triples, self.links

    @property
    def code_names(self) -> tuple[str, ...]:
        """The names of code that it vouches for (`retrieval.index.code_names`)."""
        return names_of_code(self.passage, first=not self.position)


class IndexTerms(NamedTuple):
    """What a passage is found by: its terms for the word index by field, and its names for the index of their parts.

    `retrieval.text.analysis` says what both are (`index_text`, `identifier_text`).
    """

    title: str
    heading: str
    body: str
    names: str


@dataclass(frozen=True, slots=True)
class Began:
    """A passage that stands from `seq` on."""

    entry: Entry
    seq: int


@dataclass(frozen=True, slots=True)
class Ended:
    """A passage that stood until before `seq`, as it stood."""

    entry: Entry
    seq: int


@dataclass(frozen=True, slots=True)
class Touched:
    """A passage that stays, but for its time, its place in the object, its metadata, and what it is tied to."""

    entry: Entry
    seq: int
    retied: bool
    """Whether it states or refers to something else than before."""
    was: Entry
    """How it stood before."""


@dataclass(frozen=True, slots=True)
class Forgotten:
    """An erased object: nothing of its passages may stay, of whatever time."""

    object_id: str


Step = Began | Ended | Touched | Forgotten


def steps_of(change: Change) -> list[Step]:
    """Return what a change makes of an object's passages; what ends comes before what begins."""
    if change.after is None:
        return [Forgotten(change.object_id)]
    old, new = _by_part(change.before), _by_part(change.after)
    stays = {part for part in old.keys() & new.keys() if _essence(old[part].passage) == _essence(new[part].passage)}
    ended = [Ended(entry, change.seq) for part, entry in old.items() if part not in stays]
    begun = [_step(entry, old[part] if part in stays else None, change.seq) for part, entry in new.items()]
    return [*ended, *(step for step in begun if step)]


def ties_in(entries: Sequence[Entry], extractor: Extractor) -> list[Ties]:
    """Return what each passage ties together in the graph; all but code in files is read by the extractor."""
    found: list[Extraction | PlainExtraction | None] = [names_of_linked_code(entry.passage) for entry in entries]
    told = [place for place, names in enumerate(found) if names is None]
    excerpts = [excerpt_of(entries[place].passage) for place in told]
    for place, read in zip(told, _read(excerpts, extractor) if told else (), strict=True):
        found[place] = read
    return [
        ties_of(entry.passage, one, entry.links) for entry, one in zip(entries, found, strict=True) if one is not None
    ]


def _read(excerpts: Sequence[Excerpt], extractor: Extractor) -> Sequence[Extraction | PlainExtraction]:
    extract: Callable[[Sequence[Excerpt]], Sequence[Extraction | PlainExtraction]]
    extract = getattr(extractor, "extract_plainly", extractor.extract)
    return extract(excerpts)


def terms_of(passage: Passage) -> IndexTerms:
    """Return what a passage is found by in the index of words and in that of parts of names."""
    title, in_title = _of_title(called(passage))
    in_heading, in_text = stretches_of(passage.heading), stretches_of(passage.text)
    # Every word of a signature is a name. In bodies of code plain words are many, and the word index finds them.
    names = names_in(chain(in_title, in_heading, in_text), any_word=passage.role == "symbol")
    return IndexTerms(
        title, text_terms(passage.heading, in_heading), text_terms(passage.text, in_text), " ".join(names)
    )


@lru_cache(maxsize=256)  # that of all passages of a file, which come one after another
def _of_title(title: str) -> tuple[str, tuple[str, ...]]:
    stretches = stretches_of(title)
    return text_terms(title, stretches), tuple(stretches)


def places_of(passage: Passage) -> tuple[str, ...]:
    """Return the names of which a passage is found by the whole or the end."""
    return tuple(filter(None, (passage.title, passage.heading, passage.origin)))


def called(passage: Passage) -> str:
    """Return what a passage's source is called, with its path where the title does not say it."""
    path = str(passage.metadata.get("path", ""))
    return passage.title if path in passage.title else f"{passage.title} {path}"


def entries_of(item: Object | None) -> list[Entry]:
    """Return the entries of an object, in the order of its text."""
    if item is None:
        return []
    links = tied_to(item)
    return [Entry(passage, place, links) for place, passage in enumerate(passages_of(item))]


def tied_to(item: Object) -> tuple[str, ...]:
    """Return the ids that the graph ties an object's passages to."""
    match item:
        case Source() | Node():
            return ()  # a source refers to no object, and a merged node is found by none
        case WorkItem(owner_refs=owners):
            # Who owns work says little about what it is about.
            return tuple(ref for ref in references_of(item) if ref not in owners)
        case _:
            return references_of(item)


def _step(entry: Entry, was: Entry | None, seq: int) -> Step | None:
    if was is None:
        return Began(entry, seq)
    # Most touches change the time alone, of every passage of an object: these are not read again.
    return Touched(entry, seq, retied=entry.stated != was.stated, was=was) if entry != was else None


def _by_part(item: Object | None) -> dict[str, Entry]:
    return {entry.passage.part: entry for entry in entries_of(item)}


def _essence(passage: Passage) -> tuple[object, ...]:
    """Return what of a passage cannot change while it stays the same."""
    return (
        *(passage.type, passage.kind, passage.status, passage.scope, passage.channel, passage.live),
        *(passage.role, passage.title, passage.heading, passage.origin, passage.text, passage.gist),
        passage.place_role,
        passage.metadata.get("path"),  # its words are indexed with the title
        passage.said,
    )


# Bringing a projection that lives elsewhere up to date with its ledger, in bounded batches.


BATCH = 500
"""Audit events that are read and applied at a time."""


@dataclass(frozen=True, slots=True)
class FeedPosition:
    """How far a projection is behind its ledger: both are audit sequence numbers."""

    cursor: int
    sequence: int

    @property
    def events(self) -> int:
        """Count the audit events that were not applied yet."""
        return max(0, self.sequence - self.cursor)


def follow(ledger: Ledger, projection: Projection, limit: int | None = None, *, batch: int = BATCH) -> FeedPosition:
    """Apply at most `limit` audit events (all there are where `None`) behind a projection's cursor; tell what is left.

    Each batch moves the cursor, so what is broken off goes on where it was. A projection that is ahead of the ledger
    was made of another history, such as one before an older backup was put back: it starts over.
    """
    if projection.cursor > ledger.sequence():
        projection.clear()
    left = limit
    while (behind := _behind(ledger, projection)).events and (left is None or left > 0):
        check_interrupt()
        size = min(batch, behind.events, behind.events if left is None else left)
        upto = behind.cursor + size
        projection.apply(ledger.changes(behind.cursor, size), upto=upto)
        left = None if left is None else left - size
    return behind


def _behind(ledger: Ledger, projection: Projection) -> FeedPosition:
    return FeedPosition(projection.cursor, ledger.sequence())


# What the record of a job tells of objects, and the record without what it tells of erased ones.


_ERASED = "(erased)"


@dataclass(frozen=True, slots=True)
class Named:
    """Erased objects, by their ids and by everything they were read from."""

    ids: Set[str]
    origins: Set[str] = frozenset()

    def is_in(self, value: Any) -> bool:
        """Tell whether a value, or anything in it, names one of them."""
        match value:
            case str():
                return value in self.origins or self._begins_with_origin(value) or self._has_id(value)
            case dict():
                return any(map(self.is_in, value.values()))
            case list():
                return any(map(self.is_in, value))
        return False

    def without(self, row: JobRow) -> dict[str, Any]:
        """Return a job without the lines that name one of them: results, warnings, what went stale."""
        kept: dict[str, Any] = {
            name: [line for line in value if not self.is_in(line)] if isinstance(value, list) else value
            for name, value in row.items()
        }
        return {**kept, "target": _ERASED} if self.is_in(row.get("target")) else kept

    def _begins_with_origin(self, text: str) -> bool:
        return any(text.startswith(f"{origin}: ") for origin in self.origins)

    def _has_id(self, text: str) -> bool:
        return any(identity in text for identity in self.ids)


def sources_in(row: JobRow) -> list[str]:
    """Return the ids of the sources that a job's results name."""
    return [item["source_id"] for item in row.get("items", ()) if item.get("source_id")]


def origins_in(row: JobRow, ids: Set[str]) -> Iterator[str]:
    """Return what a job says that some objects were read from, and from where they were moved."""
    for item in row.get("items", ()):
        if item.get("source_id") in ids:
            yield from filter(None, (item.get("origin"), item.get("moved_from")))
