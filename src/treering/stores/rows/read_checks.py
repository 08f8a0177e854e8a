"""Verify single objects, segments, links and patches against the audit log when they are read.

`verification` checks a whole ledger, including the chain. These checks cover only the data that is returned: the stored
revision must match its audit event and be the newest one, the rows read in place of it must agree with it, and texts
must match their hashes. They detect changes to the tables without the audit log. Changes to both are detected by the
chain and its anchor.
"""

import threading
from collections import OrderedDict
from collections.abc import Callable, Hashable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from functools import lru_cache
from hashlib import blake2b
from typing import Any, Generic, Protocol, TypeVar

from treering.core.audit import AuditEvent, event_hash
from treering.core.canonical import canonical_json, parse_time, render_time
from treering.core.errors import Corrupt, InvalidInput
from treering.core.evidence import Segment, segment_hash
from treering.core.objects import Object, Source, content_hash, title_of
from treering.core.patch import Link, PatchRecord, record_hash
from treering.core.policy import Policy
from treering.core.writing.journal import POLICY, policy_in
from treering.stores.rows.damage import row_of
from treering.stores.rows.packing import json_of, unpack, unpack_json, unpack_model

HINT = "Run lint audit at the scope /; restore the space from a backup or an export made before the damage."


_EVENTS = 4_096


_SOURCES = 1_024


_PARTS = 50_000


_FEW_PARTS = 4


Body = str | bytes
"""A compressed text, as `packing` makes it."""


@dataclass(frozen=True, slots=True)
class Stored:
    """A row of the table `revisions`."""

    identity: str
    number: int
    seq: int
    body: Body


@dataclass(frozen=True, slots=True)
class Newest:
    """The newest revision of an object, and the values that must agree with it."""

    stored: Stored
    event: Body | None
    last: int
    """The sequence number of the last event about the object."""
    row: tuple[str | int, ...]


class EventRows(Protocol):
    """The audit log of a transaction, for checks of single objects."""

    def body_at(self, seq: int) -> Body | None:
        """Return the stored event of a sequence number, or `None`."""
        ...

    def numbers_of(self, target: str, *, after: int) -> Sequence[int]:
        """Return the sequence numbers after `after` of the events about an id, newest first."""
        ...


@dataclass(frozen=True, slots=True)
class SourceParts:
    """The segments in a revision of a source, without their texts: the data of each by id, or a digest of it."""

    identity: str
    salt: str
    content: str
    """The hash of the revision's stored form."""
    row: tuple[str | int, ...]
    segments: Mapping[str, bytes | Mapping[str, Any]]
    good: set[bytes] = field(default_factory=set)
    """Digests of stored places that have been verified."""

    def says(self, segment_id: str, told: Mapping[str, Any]) -> bool:
        """Return whether the revision contains this data of a segment."""
        known = self.segments.get(segment_id)
        return known == (_digest(canonical_json(told)) if isinstance(known, bytes) else told)


class ReadChecks:
    """Verify data that was read. Thread-safe.

    Verified data is remembered by a digest of its bytes, so that later changes are detected.
    """

    def __init__(self) -> None:
        self._events: _Remembered[AuditEvent] = _Remembered(_EVENTS)
        self._parts: _Remembered[SourceParts] = _Remembered(
            _SOURCES, most_weight=_PARTS, weigh=lambda parts: len(parts.segments)
        )

    def check_newest(self, rows: EventRows, newest: Newest, item: Object) -> None:
        """Check the newest revision, that it is the newest one, and the object's row. Raises `Corrupt`."""
        self._check_item(newest.stored, item)
        content = content_hash(unpack(newest.stored.body), salt=item.salt)
        self._check_standing(rows, newest, content, _row_of(item))

    def check_as_of(self, rows: EventRows, stored: Stored, item: Object, seq: int) -> None:
        """Check the revision that was the newest one at a sequence number. Raises `Corrupt`."""
        self.check_revision(rows, stored, item)
        self._check_later(rows, stored, seq)

    def check_revision(self, rows: EventRows, stored: Stored, item: Object) -> None:
        """Check a revision and the texts of its segments. Raises `Corrupt`."""
        event = self._event(rows, stored.seq, stored.identity)
        _check_stored(event, stored, content_hash(unpack(stored.body), salt=item.salt))
        self._check_item(stored, item)

    def _check_item(self, stored: Stored, item: Object) -> None:
        if (item.id, item.revision) != (stored.identity, stored.number):
            raise _altered(f"revision {stored.number} of {stored.identity} belongs to another object", stored.identity)
        for segment in item.segments if isinstance(item, Source) else ():
            _check_words(stored.identity, segment, item.salt)

    def newest_parts(self, rows: EventRows, newest: Newest) -> SourceParts:
        """Check the newest revision of a source without its texts; return the data of its segments.

        Takes little time once the revision is known, regardless of its size. Raises `Corrupt`.
        """
        parts = self._parts_of(newest.stored)
        self._check_standing(rows, newest, parts.content, parts.row)
        return parts

    def earlier_parts(self, rows: EventRows, stored: Stored) -> SourceParts:
        """Check an earlier revision of a source in the same way. Raises `Corrupt`."""
        parts = self._parts_of(stored)
        _check_stored(self._event(rows, stored.seq, stored.identity), stored, parts.content)
        return parts

    def _parts_of(self, stored: Stored) -> SourceParts:
        return self._parts.get((stored.identity, stored.number), _digest(stored.body), lambda: _parts(stored))

    def check_link(self, rows: EventRows, link: Link, added: int) -> None:
        """Check a link against the event that added it. Raises `Corrupt`."""
        event = self._event(rows, added, link.source)
        logged = event.after.get("link") if event.after else None
        if logged != [link.type, link.source, link.target] or event.patch_id != link.patch_id:
            what = f"the link {link.source} {link.type} {link.target} does not match the audit log"
            raise _altered(what, link.source)

    def check_event(self, event: AuditEvent) -> None:
        """Check an event against its own hash. Raises `Corrupt`."""
        if event.hash != event_hash(event):
            raise _altered(f"event {event.seq}, about {event.target}, was changed", event.target)

    def check_record(self, rows: EventRows, record: PatchRecord) -> None:
        """Check the record of a patch against the audit log. Raises `Corrupt`.

        The hash of a decided patch is in the event about the patch, and that of a directly applied patch in its last
        event: about its last effect, or about the patch it reverts. Events of earlier versions have no hash.
        """
        decisions = list(self._told_of(rows, record.id, after=0))
        hashes = [str(event.after["hash"]) for event in decisions if event.after and "hash" in event.after]
        if not decisions and record.effects:
            targets = filter(None, [record.effects[-1].target, record.reverts])
            events = [event for target in targets for event in self._told_of(rows, target, after=0)]
            own = [event for event in events if event.patch_id == record.id]
            hashes = (
                [event.patch_hash for event in own if event.patch_hash]
                if own
                else ["the audit log has no event for it"]
            )
        if hashes and hashes[0] != record_hash(record):
            raise _altered(f"the record of {record.id} does not match the audit log", record.id)

    def _check_standing(self, rows: EventRows, newest: Newest, content: str, expected: tuple[str | int, ...]) -> None:
        stored = newest.stored
        _check_stored(self._known_event(stored.seq, stored.identity, newest.event), stored, content)
        if newest.last != stored.seq:
            self._check_later(rows, stored, None)
        if newest.row != expected:
            what = f"the row of {stored.identity} does not match its newest revision"
            raise _altered(what, stored.identity)

    def _check_later(self, rows: EventRows, stored: Stored, until: int | None) -> None:
        for event in self._told_of(rows, stored.identity, after=stored.seq):
            newer = event.event_type == "erased" or (event.after and "revision" in event.after)
            if newer and (until is None or event.seq <= until):
                raise _altered(f"revision {stored.number} of {stored.identity} is not its newest", stored.identity)

    def _told_of(self, rows: EventRows, target: str, *, after: int) -> Iterator[AuditEvent]:
        """Return the events about an id, newest first."""
        return (self._event(rows, seq, target) for seq in rows.numbers_of(target, after=after))

    def _event(self, rows: EventRows, seq: int, target: str) -> AuditEvent:
        return self._known_event(seq, target, rows.body_at(seq))

    def _known_event(self, seq: int, target: str, body: Body | None) -> AuditEvent:
        if body is None:
            raise _altered(f"event {seq}, about {target}, is missing", target)
        event = self._events.get(seq, _digest(body), lambda: self._read_event(body, target))
        if (event.seq, event.target) != (seq, target):
            raise _altered(f"event {seq} is not about {target}", target)
        return event

    def _read_event(self, body: Body, target: str) -> AuditEvent:
        try:
            event = unpack_model(AuditEvent, body)
        except Corrupt as error:
            raise _altered(f"an event about {target} cannot be read", target) from error
        self.check_event(event)
        return event


def read_segment(source_id: str, parts: SourceParts | None, place: Body, body: Body) -> Segment:
    """Parse a segment from its text and its place (the stored form without the text).

    If `parts` is given, check the segment against its source. Raises `Corrupt`.
    """
    with row_of(source_id, hint=HINT):
        data = unpack_json(place)
        segment = Segment.model_validate({**data, "excerpt": unpack(body)})
    if parts:
        if (digest := _digest(place)) not in parts.good:
            if not parts.says(segment.segment_id, data):
                what = f"segment {segment.segment_id} of {parts.identity} does not match its source"
                raise _altered(what, parts.identity)
            parts.good.add(digest)
        _check_words(parts.identity, segment, parts.salt)
    return segment


@lru_cache(maxsize=16)
def policy_told(seq: int, body: Body) -> Policy:
    """Parse the policy in a stored event and check the event's own hash. Raises `Corrupt`.

    Cached, because every write and most reads need it and it rarely changes.
    """
    event = unpack_model(AuditEvent, body)
    if (event.seq, event.target, event.hash) != (seq, POLICY, event_hash(event)):
        raise _altered(f"event {seq}, about the policy, was changed", POLICY)
    return policy_in(event)


_Value = TypeVar("_Value")


class _Remembered(Generic[_Value]):
    """A cache of the most recently used values, each with a digest of the bytes it was parsed from."""

    def __init__(self, most: int, *, most_weight: int = 0, weigh: Callable[[_Value], int] = lambda _: 0) -> None:
        self._most = most
        self._most_weight = most_weight
        self._weigh = weigh
        self._weight = 0
        self._values: OrderedDict[Hashable, tuple[bytes, _Value]] = OrderedDict()
        self._lock = threading.Lock()

    def get(self, key: Hashable, digest: bytes, make: Callable[[], _Value]) -> _Value:
        """Return the cached value, or call `make` if the digest differs. Errors are not cached."""
        with self._lock:
            known = self._values.get(key)
            if known and known[0] == digest:
                self._values.move_to_end(key)
                return known[1]
        value = make()
        with self._lock:
            self._forget(key)
            self._values[key] = (digest, value)
            self._weight += self._weigh(value)
            while len(self._values) > 1 and (len(self._values) > self._most or self._weight > self._most_weight > 0):
                self._forget(next(iter(self._values)))
        return value

    def _forget(self, key: Hashable) -> None:
        if gone := self._values.pop(key, None):
            self._weight -= self._weigh(gone[1])


def _parts(stored: Stored) -> SourceParts:
    try:
        text = unpack(stored.body)
        data = json_of(text)
        few = len(data["segments"]) <= _FEW_PARTS  # a digest takes less memory, but more time
        segments = {part["segment_id"]: part if few else _digest(canonical_json(part)) for part in data["segments"]}
        salt = str(data["salt"])
        content = content_hash(text, salt=salt)
        return SourceParts(stored.identity, salt, content, _row_of_stored(data), segments)
    except (AttributeError, Corrupt, InvalidInput, KeyError, TypeError, ValueError) as error:
        raise unreadable(stored) from error


def unreadable(stored: Stored) -> Corrupt:
    """Return the error for a revision that cannot be parsed."""
    return _altered(f"revision {stored.number} of {stored.identity} cannot be read", stored.identity)


def missing_revision(identity: str, number: int) -> Corrupt:
    """Return the error for a revision that is in the log, but neither stored nor erased."""
    return _altered(f"revision {number} of {identity} is missing", identity)


def unreadable_segment(source_id: str) -> Corrupt:
    """Return the error for a segment that cannot be parsed."""
    return _altered(f"a segment of {source_id} cannot be read", source_id)


def _row_of(item: Object) -> tuple[str | int, ...]:
    times = (render_time(item.created_at), render_time(item.updated_at))
    origin = item.origin if isinstance(item, Source) else ""
    return (
        *(item.type, item.kind, item.status, item.scope, item.revision, title_of(item), item.origin_channel),
        *times,
        origin,
    )


def _row_of_stored(data: Mapping[str, Any]) -> tuple[str | int, ...]:
    names = ("type", "kind", "status", "scope", "revision", "title", "origin_channel")
    created = render_time(parse_time(data["created_at"]))
    # Most objects have one revision.
    updated = created if data["updated_at"] == data["created_at"] else render_time(parse_time(data["updated_at"]))
    return (*(data[name] for name in names), created, updated, data["origin"])


def _check_stored(event: AuditEvent, stored: Stored, content: str) -> None:
    after = event.after or {}
    if (after.get("revision"), after.get("hash")) != (stored.number, content):
        what = f"revision {stored.number} of {stored.identity} does not match the audit log"
        raise _altered(what, stored.identity)


def _check_words(identity: str, segment: Segment, salt: str) -> None:
    if segment.hash != segment_hash(segment.excerpt, salt=salt):
        raise _altered(f"the text of segment {segment.segment_id} of {identity} was changed", identity)


def _digest(stored: str | bytes) -> bytes:
    data = stored.encode() if isinstance(stored, str) else stored
    return blake2b(data, digest_size=16).digest()


def _altered(what: str, identity: str) -> Corrupt:
    return Corrupt(
        f"The ledger does not verify: {what}.",
        hint=HINT,
        details={"id": identity},
    )
