"""The object tables of a ledger in a database: revisions, segments and links, verified when they are read."""

from abc import ABC, abstractmethod
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from functools import cache

from treering.core.evidence import Segment
from treering.core.objects import Object
from treering.core.patch import Link
from treering.core.writing.draft import Cited
from treering.ports.ledger import Altered, noted
from treering.stores.rows.damage import row_of
from treering.stores.rows.packing import unpack, unpack_object
from treering.stores.rows.read_checks import (
    HINT,
    Body,
    EventRows,
    Newest,
    ReadChecks,
    SourceParts,
    Stored,
    read_segment,
    unreadable,
    unreadable_segment,
)

WordsOf = Callable[[str], Mapping[str, str]]
"""Return the texts of all segments of a source, by segment id."""


class StoredObjects(ABC):
    """The object tables of one ledger, in a transaction. Subclasses are also the `View` for planning a patch.

    With `checks`, objects and segments are verified against the audit log when they are read. `Corrupt` names the data
    that was modified.
    """

    def __init__(self, events: EventRows, checks: ReadChecks | None) -> None:
        self._events = events
        self._checks = checks

    def get(self, identity: str) -> Object | None:
        """Return the current revision."""
        return self.current([identity]).get(identity)

    def current(self, identities: Iterable[str], altered: Altered | None = None) -> dict[str, Object]:
        """Return the current revisions of objects. Unknown ids are left out, as are errors passed to `altered`."""
        newest = self.newest(identities)
        words_of = self._words_of([known.stored for known in newest.values()])
        items: dict[str, Object] = {}
        for identity, known in newest.items():
            with noted(altered):
                item = _item(known.stored, words_of)
                if self._checks:
                    self._checks.check_newest(self._events, known, item)
                items[identity] = item
        return items

    def as_of(self, identities: Iterable[str], seq: int, altered: Altered | None = None) -> dict[str, Object]:
        """Return the revisions that were current at an audit sequence number, like `current`."""
        stored = self._stored_as_of(list(dict.fromkeys(identities)), seq)
        words_of = self._words_of(stored)
        items: dict[str, Object] = {}
        for one in stored:
            with noted(altered):
                item = _item(one, words_of)
                if self._checks:
                    self._checks.check_as_of(self._events, one, item, seq)
                items[one.identity] = item
        return items

    def revision(self, identity: str, number: int) -> Object | None:
        """Return one revision."""
        return next(iter(self._checked(self._stored_revisions(identity, number))), None)

    def revisions(self, identity: str) -> list[Object]:
        """Return every revision, oldest first."""
        return self._checked(self._stored_revisions(identity, None))

    def load(self, stored: Sequence[Stored]) -> list[Object]:
        """Parse objects from their stored forms, with the texts of their segments."""
        words_of = self._words_of(stored)
        return [_item(one, words_of) for one in stored]

    def segment(self, source_id: str, segment_id: str) -> Segment | None:
        """Return the last state of a segment, even if it was removed from its source."""
        row = self._segment_row(source_id, segment_id)
        if row is None:
            self._require_absent([(source_id, segment_id)], None)
            return None
        vanished, place, body = row
        parts = (
            self._parts([source_id])(source_id) if vanished is None else self._earlier_parts(source_id, vanished - 1)
        )
        return read_segment(source_id, parts, place, body)

    def segments(
        self, places: Sequence[tuple[str, str]], altered: Altered | None = None
    ) -> dict[tuple[str, str], Segment]:
        """Return the segments (source id, segment id) that their sources contain now. Others are left out.

        Errors are passed to `altered`, if given, and the segment is left out.
        """
        rows = self._segment_rows(places) if places else ()
        parts = self._parts({source_id for source_id, *_ in rows})
        segments: dict[tuple[str, str], Segment] = {}
        for source_id, segment_id, place, body in rows:
            with noted(altered):
                segments[source_id, segment_id] = read_segment(source_id, parts(source_id), place, body)
        self._require_absent([place for place in dict.fromkeys(places) if place not in segments], altered)
        return segments

    def segment_text(self, source_id: str, segment_id: str) -> str | None:
        """Return the text of a segment, even if it was removed from its source."""
        segment = self.segment(source_id, segment_id)
        return segment.excerpt if segment else None

    def cited(self, source_id: str, segment_id: str) -> Cited | None:
        """Return a source as evidence needs it, without its other segments."""
        state, place = self._source_state(source_id), (source_id, segment_id)
        segment = self.segments([place]).get(place)
        return Cited(*state, segment) if state else None

    def exists(self, identity: str) -> bool:
        """Return whether an object has this id."""
        return self.scope_of(identity) is not None

    def dependents(self, identity: str) -> Sequence[str]:
        """Return the ids of knowledge that cites an object or is derived from it, in order."""
        return self.dependents_of([identity])[identity]

    def links_of(self, identity: str) -> Sequence[Link]:
        """Return the current links from and to an object."""
        return self.links_as_of(identity, None)

    @abstractmethod
    def newest(self, identities: Iterable[str]) -> dict[str, Newest]:
        """Return the newest stored revisions, with the values that must agree with each. Unknown ids are left out."""

    @abstractmethod
    def scope_of(self, identity: str) -> str | None:
        """Return the scope of an object without reading its revision."""

    @abstractmethod
    def sources_with(self, texts: Collection[str]) -> list[tuple[str, str]]:
        """Return the texts that segments have, with the ids of their sources, in order."""

    @abstractmethod
    def dependents_of(self, identities: Sequence[str]) -> dict[str, list[str]]:
        """Return, by id, the ids of knowledge that cites an object or is derived from it, in order."""

    @abstractmethod
    def links_as_of(self, identity: str, seq: int | None) -> list[Link]:
        """Return the links from and to an object at an audit sequence number."""

    @abstractmethod
    def _words_of(self, stored: Sequence[Stored]) -> WordsOf:
        """Return a function for the texts of those objects that are sources."""

    @abstractmethod
    def _stored_as_of(self, identities: Sequence[str], seq: int) -> Sequence[Stored]: ...

    @abstractmethod
    def _stored_revisions(self, identity: str, number: int | None) -> Sequence[Stored]:
        """Return one revision of an object, or all of them, oldest first."""

    @abstractmethod
    def _segment_row(self, source_id: str, segment_id: str) -> tuple[int | None, Body, Body] | None:
        """Return the revision that removed a segment, or `None`, its place and its text."""

    @abstractmethod
    def _segment_rows(self, places: Sequence[tuple[str, str]]) -> Sequence[tuple[str, str, Body, Body]]:
        """Return the ids, place and text of each segment that its source contains now."""

    @abstractmethod
    def _source_state(self, identity: str) -> tuple[str, str] | None:
        """Return the status and the fingerprint of a source."""

    def _checked(self, stored: Sequence[Stored]) -> list[Object]:
        items = self.load(stored)
        for one, item in zip(stored, items, strict=True):
            if self._checks:
                self._checks.check_revision(self._events, one, item)
        return items

    def _parts(self, source_ids: Iterable[str]) -> Callable[[str], SourceParts | None]:
        """Return a function that returns the verified segments in the newest revision of a source."""
        checks, newest = self._checks, self.newest(source_ids) if self._checks else {}

        @cache
        def parts(source_id: str) -> SourceParts | None:
            if checks is None:
                return None
            if source_id not in newest:
                raise unreadable(Stored(source_id, 0, 0, ""))
            return checks.newest_parts(self._events, newest[source_id])

        return parts

    def _earlier_parts(self, source_id: str, number: int) -> SourceParts | None:
        if self._checks is None:
            return None
        for stored in self._stored_revisions(source_id, number):
            return self._checks.earlier_parts(self._events, stored)
        raise unreadable(Stored(source_id, number, 0, ""))

    def _require_absent(self, places: Sequence[tuple[str, str]], altered: Altered | None) -> None:
        """Raise `Corrupt` if a missing segment is in its source according to the log."""
        if not self._checks or not places:
            return
        newest = self.newest(source_id for source_id, _ in places)
        for source_id, segment_id in places:
            with noted(altered):
                known = newest.get(source_id)
                if known and segment_id in self._checks.newest_parts(self._events, known).segments:
                    raise unreadable_segment(source_id)


def _item(stored: Stored, words_of: WordsOf) -> Object:
    with row_of(stored.identity, hint=HINT):
        return unpack_object(unpack(stored.body), words_of)
