"""From a ledger's changes to what an index keeps: which passages come, go and change, and what each is found by.

Pure, and shared by all stores, so that they cannot differ in what can be found. A store keeps rows: it begins and ends
them as the steps say, and remembers from which audit sequence number to which each stood.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from treering.core.objects import Node, Object, Source, WorkItem
from treering.core.references import references_of
from treering.derived.analysis import identifier_text, index_text
from treering.derived.code_names import names_of_code
from treering.derived.passages import passages_of
from treering.derived.ties import Ties, excerpt_of, ties_of
from treering.ports.extractor import Extractor
from treering.ports.passages import Passage
from treering.ports.projection import Change

PRIORITIES: Mapping[str, int] = {"data": 2, "code": 1}
"""By role, how long a text may wait for its vector: less is sooner, and 0 for every other role.

Words and names find code and data well enough meanwhile.
"""


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
        """The names of code that it vouches for (`derived.code_names`)."""
        return names_of_code(self.passage, first=not self.position)


@dataclass(frozen=True, slots=True)
class IndexTerms:
    """The terms of a passage for the word index (`derived.analysis.index_text`), by field."""

    title: str
    heading: str
    body: str


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
    """Read what passages say, and return what each ties together in the graph."""
    found = extractor.extract([excerpt_of(entry.passage) for entry in entries])
    return [ties_of(entry.passage, extraction, entry.links) for entry, extraction in zip(entries, found, strict=True)]


def words_of(passage: Passage) -> IndexTerms:
    """Return what a passage is found by in the word index."""
    return IndexTerms(index_text(called(passage)), index_text(passage.heading), index_text(passage.text))


def names_of(passage: Passage) -> str:
    """Return what a passage is found by in the index of parts of names."""
    text = f"{called(passage)}\n{passage.heading}\n{passage.text}"
    # Every word of a signature is a name. In bodies of code plain words are many, and the word index finds them.
    return identifier_text(text, code=passage.role == "symbol")


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
