"""Turn changes of a ledger into steps for an index: passages that begin, end or change, with their terms and names.

Pure, and shared by all stores, so that all find the same. A store applies the steps to its rows, and stores the range
of audit sequence numbers in which each row is valid.
"""

import re
from collections.abc import Callable, Iterator, Mapping, Sequence, Set
from dataclasses import dataclass
from functools import lru_cache
from typing import Any, NamedTuple

from treering.core.canonical import ids_in
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
from treering.retrieval.index.ties import (
    DIALOGUE_KINDS,
    Ties,
    excerpt_of,
    is_linked_code,
    names_of_linked_code,
    ties_of,
)
from treering.retrieval.text.analysis import names_in, stretches_of
from treering.retrieval.text.analysis import terms_of as text_terms

PARAGRAPH, TURN, SYMBOL, SUPPORT, CODE, DATA = range(6)
"""Priorities in the embedding backlog; lower is sooner.

Paragraphs come first, because the quick model hardly helps multi-hop questions (the encoder gains 8 points of recall,
the quick model 1 to 3). Turns of conversations come next; the quick model finds as many of them as the encoder.
"""

GENERATED = "generated"
SUPPORTING_PLACES = frozenset({"test", "example", "changelog", "data"})
"""Roles of files that contain little about how a project works."""

_BODIES = {"code": CODE, "data": DATA}


def priority_of(kind: str, role: str, place_role: str) -> int | None:
    """Return the embedding priority of a text; `None` for texts that are not embedded.

    These are generated texts, and bodies of code and data in a project: a third to three fifths of its texts. Of 89
    questions about two repositories (`benchmarks.code_data`), 80 find their file among the first five hits without
    them and 81 with them, and 86 among the first ten in both cases. A symbol represents its body.
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
    """A passage, its position in its object (from 0), and the ids of the objects that its object refers to."""

    passage: Passage
    position: int
    links: tuple[str, ...]

    @property
    def stated(self) -> tuple[object, ...]:
        """The inputs of its graph ties that may change while the passage stays."""
        # The language, which decides whether code is linked, is metadata.
        return self.passage.triples, self.links, is_linked_code(self.passage)

    @property
    def code_names(self) -> tuple[str, ...]:
        """Its names of code (`retrieval.index.code_names`)."""
        return names_of_code(self.passage, first=not self.position)


class IndexTerms(NamedTuple):
    """The terms of a passage for the word index, by field, and its names for the trigram index.

    See `index_text` and `identifier_text` in `retrieval.text.analysis`.
    """

    title: str
    heading: str
    body: str
    names: str


@dataclass(frozen=True, slots=True)
class Began:
    """A passage that is valid from `seq` on."""

    entry: Entry
    seq: int


@dataclass(frozen=True, slots=True)
class Ended:
    """A passage that was valid before `seq`, in its last state."""

    entry: Entry
    seq: int


@dataclass(frozen=True, slots=True)
class Touched:
    """A passage of which only the time, the position, the metadata or the graph ties change."""

    entry: Entry
    seq: int
    retied: bool
    """Whether the inputs of its graph ties change (`Entry.stated`)."""
    was: Entry
    """Its previous state."""


@dataclass(frozen=True, slots=True)
class Forgotten:
    """An erased object: all its passages are removed, also past ones."""

    object_id: str


Step = Began | Ended | Touched | Forgotten


def steps_of(change: Change) -> list[Step]:
    """Return the steps for the passages of a changed object; passages that end come first."""
    if change.after is None:
        return [Forgotten(change.object_id)]
    old, new = _by_part(change.before), _by_part(change.after)
    stays = {part for part in old.keys() & new.keys() if _essence(old[part].passage) == _essence(new[part].passage)}
    ended = [Ended(entry, change.seq) for part, entry in old.items() if part not in stays]
    begun = [_step(entry, old[part] if part in stays else None, change.seq) for part, entry in new.items()]
    return [*ended, *(step for step in begun if step)]


def ties_in(entries: Sequence[Entry], extractor: Extractor) -> list[Ties]:
    """Return the graph ties of each passage. The extractor reads all passages but code in files."""
    extractions: list[Extraction | PlainExtraction | None] = [names_of_linked_code(entry.passage) for entry in entries]
    places = [place for place, extraction in enumerate(extractions) if extraction is None]
    excerpts = [excerpt_of(entries[place].passage) for place in places]
    for place, extraction in zip(places, _extract(excerpts, extractor) if places else (), strict=True):
        extractions[place] = extraction
    return [
        ties_of(entry.passage, one, entry.links)
        for entry, one in zip(entries, extractions, strict=True)
        if one is not None
    ]


def _extract(excerpts: Sequence[Excerpt], extractor: Extractor) -> Sequence[Extraction | PlainExtraction]:
    extract: Callable[[Sequence[Excerpt]], Sequence[Extraction | PlainExtraction]]
    extract = getattr(extractor, "extract_plainly", extractor.extract)
    return extract(excerpts)


def terms_of(passage: Passage) -> IndexTerms:
    """Return the terms of a passage for the word index and its names for the trigram index."""
    # Every word of a signature is a name. Plain words in bodies of code are left to the word index.
    any_word = passage.role == "symbol"
    title = _terms_of_title(called(passage), any_word)
    heading = _READY.pop((passage.heading, any_word), None) or _terms_of_title(passage.heading, any_word)
    body = _READY.pop((passage.text, any_word), None) or terms_in_text(passage.text, any_word)
    names = dict.fromkeys("\n".join(filter(None, (title.names, heading.names, body.names))).split("\n"))
    return IndexTerms(title.terms, heading.terms, body.terms, " ".join(names))


class TextTerms(NamedTuple):
    """The terms of a text for the word index, and its distinct names for the trigram index, one per line."""

    terms: str
    names: str


TextRead = tuple[str, bool]
"""A text, and whether any word in it is a name."""


def terms_in_text(text: str, any_word: bool) -> TextTerms:
    """Return the terms and names of a text."""
    stretches = stretches_of(text)
    return TextTerms(text_terms(text, stretches), "\n".join(names_in(stretches, any_word=any_word)))


_terms_of_title = lru_cache(maxsize=256)(terms_in_text)  # shared by neighboring passages

_READY: dict[TextRead, TextTerms] = {}
_MAX_READY = 16_384
"""Texts: more than are read ahead and in a batch of ingest. Those of files that are not stored after all remain."""


def have_ready(terms: Mapping[TextRead, TextTerms]) -> None:
    """Take terms that another process computed, for passages that will be stored next."""
    if len(_READY) > _MAX_READY:
        _READY.clear()
    _READY.update(terms)


def places_of(passage: Passage) -> tuple[str, ...]:
    """Return the names that a passage can be found by, as a whole or by their end."""
    return tuple(filter(None, (passage.title, passage.heading, passage.origin)))


def called(passage: Passage) -> str:
    """Return the title of the source of a passage, with its path if the title does not contain it."""
    path = str(passage.metadata.get("path", ""))
    return passage.title if path in passage.title else f"{passage.title} {path}"


def entries_of(item: Object | None) -> list[Entry]:
    """Return the entries of an object, in the order of its text."""
    if item is None:
        return []
    links = tied_to(item)
    return [Entry(passage, place, links) for place, passage in enumerate(passages_of(item))]


def tied_to(item: Object) -> tuple[str, ...]:
    """Return the ids of the objects that the graph ties the passages of an object to."""
    match item:
        case Source() | Node():
            return ()  # a source refers to no object, and a merged node is not found
        case WorkItem(owner_refs=owners):
            # The owner of work is no part of its topic.
            return tuple(ref for ref in references_of(item) if ref not in owners)
        case _:
            return references_of(item)


def _step(entry: Entry, was: Entry | None, seq: int) -> Step | None:
    if was is None:
        return Began(entry, seq)
    # Most changes are only of the time, for every passage of an object.
    return Touched(entry, seq, retied=entry.stated != was.stated, was=was) if entry != was else None


def _by_part(item: Object | None) -> dict[str, Entry]:
    return {entry.passage.part: entry for entry in entries_of(item)}


def _essence(passage: Passage) -> tuple[object, ...]:
    """Return the values of a passage whose change makes it a new passage."""
    return (
        *(passage.type, passage.kind, passage.status, passage.scope, passage.channel, passage.live),
        *(passage.role, passage.title, passage.heading, passage.origin, passage.text, passage.gist),
        passage.place_role,
        passage.metadata.get("path"),  # its words are indexed with the title
        passage.said,
    )


BATCH = 500
"""Audit events that are read and applied at a time."""


@dataclass(frozen=True, slots=True)
class FeedPosition:
    """The audit sequence numbers of a projection and its ledger."""

    cursor: int
    sequence: int

    @property
    def events(self) -> int:
        """The number of audit events that are not applied yet."""
        return max(0, self.sequence - self.cursor)


def follow(ledger: Ledger, projection: Projection, limit: int | None = None, *, batch: int = BATCH) -> FeedPosition:
    """Apply at most `limit` audit events (`None`: all) after the cursor of a projection; return its position.

    Each batch moves the cursor, so that an interrupted run resumes. A projection ahead of the ledger is from another
    history, for example before an older backup was restored, and is rebuilt.
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


_ERASED = "(erased)"


@dataclass(frozen=True, slots=True)
class Named:
    """The ids of erased objects and all their origins."""

    ids: Set[str]
    origins: Set[str] = frozenset()

    def is_in(self, value: Any) -> bool:
        """Return whether a value, or any value in it, names one of the objects."""
        match value:
            case str():
                return value in self.origins or self._begins_with_origin(value) or self._has_id(value)
            case dict():
                return any(map(self.is_in, value.values()))
            case list():
                return any(map(self.is_in, value))
        return False

    def without(self, row: JobRow) -> dict[str, Any]:
        """Return a job without the results, warnings and stale objects that name one of the objects."""
        redacted: dict[str, Any] = {
            name: [line for line in value if not self.is_in(line)] if isinstance(value, list) else value
            for name, value in row.items()
        }
        return {**redacted, "target": _ERASED} if self.is_in(row.get("target")) else redacted

    def _begins_with_origin(self, text: str) -> bool:
        return any(text[: found.start()] in self.origins for found in _ENDS_OF_ORIGIN.finditer(text))

    def _has_id(self, text: str) -> bool:
        return not self.ids.isdisjoint(ids_in(text))


_ENDS_OF_ORIGIN = re.compile(": ")


def sources_in(row: JobRow) -> list[str]:
    """Return the ids of the sources in the results of a job."""
    return [item["source_id"] for item in row.get("items", ()) if item.get("source_id")]


def origins_in(row: JobRow, ids: Set[str]) -> Iterator[str]:
    """Yield the origins, also earlier ones, of some objects in the results of a job."""
    for item in row.get("items", ()):
        if item.get("source_id") in ids:
            yield from filter(None, (item.get("origin"), item.get("moved_from")))
