"""What lint looks at: every object a scope holds, once, and how they hang together."""

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from functools import cached_property
from typing import Literal, TypeVar

from pydantic import Field

from treering.core.lifecycle import CURRENT
from treering.core.objects import Knowledge, Object, Source
from treering.core.patch import Link, Operation
from treering.core.policy import Policy
from treering.core.references import references_of
from treering.ports.ledger import Ledger, Selection
from treering.tools.envelope import Value

Severity = Literal["error", "warning", "info"]
_Type = TypeVar("_Type", bound=Object)


class Finding(Value):
    """Something a person should know, and where possible what would put it right."""

    rule: str
    severity: Severity
    ids: tuple[str, ...]
    explanation: str
    fix: tuple[Operation, ...] = Field(default=(), description="Operations that would repair it.")
    fix_summary: str = ""


@dataclass(frozen=True)
class Survey:
    """All objects below a scope, and all that they refer to."""

    objects: Mapping[str, Object]
    links: Sequence[Link]
    ledger: Ledger
    policy: Policy
    now: datetime

    def each(self, cls: type[_Type]) -> Iterator[_Type]:
        """Give the objects of one type, in order of id."""
        return (item for _, item in sorted(self.objects.items()) if isinstance(item, cls))

    def current(self, cls: type[_Type]) -> Iterator[_Type]:
        """Give the objects of one type that stand."""
        return (item for item in self.each(cls) if item.status in CURRENT[item.type])

    def find(self, identity: str) -> Object | None:
        """Give an object by id, also from outside the surveyed scope."""
        return self.objects.get(identity) or self._outside.get(identity)

    def exists(self, identity: str) -> bool:
        """Tell whether an id leads somewhere in the space."""
        return self.find(identity) is not None

    def holds(self, source_id: str, segment_id: str) -> bool:
        """Tell whether a segment is in an active source now."""
        source = self.find(source_id)
        return isinstance(source, Source) and source.status == "active" and segment_id in self._segments(source)

    @cached_property
    def referred(self) -> frozenset[str]:
        """Ids that something refers or links to."""
        found = {ref for item in self.objects.values() for ref in references_of(item)}
        return frozenset(found | {link.target for link in self.links} | {link.source for link in self.links})

    @cached_property
    def claims(self) -> Mapping[str, Sequence[Knowledge]]:
        """Facts that stand, by claim key."""
        groups: dict[str, list[Knowledge]] = {}
        for item in self.current(Knowledge):
            if key := item.claim_key():
                groups.setdefault(key, []).append(item)
        return groups

    @cached_property
    def _outside(self) -> Mapping[str, Object]:
        missing = (ref for item in self.objects.values() for ref in references_of(item))
        wanted = {ref for ref in missing if ref not in self.objects} | _ends(self.links) - self.objects.keys()
        return {identity: self.ledger.get(identity) for identity in self.ledger.heads(sorted(wanted))}

    @cached_property
    def _segment_ids(self) -> dict[str, frozenset[str]]:
        return {}

    def _segments(self, source: Source) -> frozenset[str]:
        if source.id not in self._segment_ids:
            self._segment_ids[source.id] = frozenset(part.segment_id for part in source.segments)
        return self._segment_ids[source.id]


Rule = Callable[[Survey], Iterator[Finding]]
"""Looks at what a scope holds and reports what a person should know."""


def survey(ledger: Ledger, *, scope: str, now: datetime) -> Survey:
    """Read everything at and below a scope."""
    objects = {item.id: item for item in ledger.select(Selection(scope=scope, descend=True))}
    links = {(link.type, link.source, link.target): link for item in objects for link in ledger.links(item)}
    return Survey(objects, tuple(links.values()), ledger, ledger.policy, now)


def _ends(links: Iterable[Link]) -> set[str]:
    return {end for link in links for end in (link.source, link.target)}
