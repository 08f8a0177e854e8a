"""Short ways to make valid objects and patches for tests."""

from datetime import datetime
from typing import Any

from treering.core.canonical import parse_time
from treering.core.evidence import EvidenceRef, Section, Segment, segment_hash
from treering.core.objects import Activity, Channel, Knowledge, Node, Object, Source, WorkItem
from treering.core.patch import Author, Create, Operation, Patch
from treering.ports.runtime import Clock, fresh_id, fresh_salt, fresh_segment_id

ADA = Author(actor="ada", channel="user")
BOB = Author(actor="bob", channel="user")
_OBJECTS = Source | Node | Knowledge | Activity | WorkItem


class Builder:
    """Makes objects with ids and times of one clock. `fields` are fields of the object, taken as they are."""

    def __init__(self, clock: Clock) -> None:
        self._clock = clock

    def source(self, *texts: str, origin: str = "notes.md", **fields: Any) -> Source:
        """Make a source with one segment for each text."""
        salt = fresh_salt(self._clock)
        segments = tuple(self._segment(text, place, salt) for place, text in enumerate(texts))
        return Source.model_validate(
            {
                **self._envelope("source"),
                "kind": "markdown",
                "origin": origin,
                "salt": salt,
                "segments": segments,
                "captured_at": self._clock.now(),
                **fields,
            }
        )

    def segments(self, source: Source, *texts: str) -> list[dict[str, Any]]:
        """Return the segments of a new version of a source; unchanged texts keep their segment ids."""
        known = {segment.excerpt: segment for segment in source.segments}
        parts = [known.get(text) or self._segment(text, 0, source.salt) for text in texts]
        return [{**part.model_dump(), "position": place} for place, part in enumerate(parts)]

    def evidence(self, source: Source, place: int = 0, **fields: Any) -> EvidenceRef:
        """Refer to a segment of a source."""
        segment = source.segments[place]
        return EvidenceRef.model_validate({"source_id": source.id, "segment_id": segment.segment_id, **fields})

    def fact(self, subject: str, predicate: str, value: object, *evidence: EvidenceRef, **fields: Any) -> Knowledge:
        """Return a fact with a value. It is active if it has evidence, unless another status is given."""
        payload = {"subject": subject, "predicate": predicate, "value": value}
        return self.knowledge("fact", payload, *evidence, **fields)

    def relation(self, subject: str, predicate: str, other: str, *evidence: EvidenceRef, **fields: Any) -> Knowledge:
        """Make a fact about two things."""
        payload = {"subject": subject, "predicate": predicate, "object": other}
        return self.knowledge("fact", payload, *evidence, **fields)

    def knowledge(self, kind: str, payload: dict[str, Any], *evidence: EvidenceRef, **fields: Any) -> Knowledge:
        """Make knowledge of any kind."""
        return Knowledge.model_validate(
            {
                **self._envelope("knowledge"),
                "kind": kind,
                "title": " ".join(str(part) for part in payload.values()),
                "payload": payload,
                "evidence_refs": evidence,
                "status": "active" if evidence else "candidate",
                **fields,
            }
        )

    def node(self, name: str, **fields: Any) -> Node:
        """Make a node whose slug is its name in lower case."""
        slug = name.lower().replace(" ", "-")
        return Node.model_validate(
            {**self._envelope("node"), "kind": "concept", "name": name, "slug": slug, **fields},
        )

    def activity(self, title: str, **fields: Any) -> Activity:
        """Make an activity, in draft."""
        return Activity.model_validate({**self._envelope("activity"), "kind": "episode", "title": title, **fields})

    def work(self, title: str, **fields: Any) -> WorkItem:
        """Make a work item, open."""
        return WorkItem.model_validate({**self._envelope("work_item"), "kind": "task", "title": title, **fields})

    def patch(self, *parts: Object | Operation, by: Author = ADA, reason: str = "") -> Patch:
        """Return a patch; an object in it means its creation."""
        operations = [Create(object=part) if isinstance(part, _OBJECTS) else part for part in parts]
        return Patch.model_validate(
            {
                "id": fresh_id("patch", self._clock),
                "source": by,
                "operations": operations,
                "reason": reason,
                "created_at": self._clock.now(),
            }
        )

    def _envelope(self, kind: str) -> dict[str, Any]:
        now = self._clock.now()
        return {
            "id": fresh_id(kind, self._clock),
            "scope": "/",
            "created_at": now,
            "updated_at": now,
            "salt": fresh_salt(self._clock),
        }

    def _segment(self, text: str, place: int, salt: str) -> Segment:
        return Segment(
            segment_id=fresh_segment_id(self._clock),
            locator=Section(offset=place),
            excerpt=text,
            hash=segment_hash(text, salt=salt),
            position=place,
        )


def author(channel: Channel, actor: str = "somebody") -> Author:
    """Return an author who writes through a channel."""
    return Author(actor=actor, channel=channel)


def day(text: str) -> datetime:
    """Return the first moment of a day, such as `2026-01-31`, in UTC."""
    return parse_time(f"{text}T00:00:00Z")


def content_of(item: Object) -> dict[str, Any]:
    """Return the content of an object, without the fields set by a ledger."""
    return item.model_dump(exclude={*item.STAMPED, "origin_channel", "opened_at", "last_verified_at"})
