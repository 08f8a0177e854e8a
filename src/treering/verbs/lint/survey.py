"""The objects and links that lint checks, each read once."""

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime
from functools import cached_property
from typing import Literal, TypeVar

from pydantic import Field

from treering.core.characters import named
from treering.core.objects import Knowledge, Object, Source, title_of
from treering.core.patch import Link, Operation
from treering.core.policy import CURRENT
from treering.core.scope import ROOT, is_within, sees
from treering.core.versions import TreeView
from treering.core.writing.integrity import references_of
from treering.ports.ledger import Altered, Ledger, ObjectRequest, Selection, head_of
from treering.ports.runtime import check_interrupt
from treering.verbs.envelope import Value
from treering.verbs.scoped_ledger import item_in_tree
from treering.verbs.trees import CHANGED, AskedTree, notes_of_objects

Severity = Literal["error", "warning", "info"]
_Type = TypeVar("_Type", bound=Object)


class Finding(Value):
    """A problem, with a fix if possible."""

    rule: str
    severity: Severity
    ids: tuple[str, ...]
    explanation: str
    fix: tuple[Operation, ...] = Field(default=(), description="Operations that repair it.")
    fix_summary: str = ""


@dataclass(frozen=True)
class Survey:
    """All objects at and below a scope with their links, and the other objects of the space."""

    objects: Mapping[str, Object]
    """By id, in order of id."""
    links: Sequence[Link]
    ledger: Ledger
    now: datetime
    scope: str = ROOT
    elsewhere: Mapping[str, Object] = field(default_factory=dict)
    altered: Mapping[str, str] = field(default_factory=dict)
    """By id, the problem of objects that do not match the audit log; rules skip them."""
    origins_today: Mapping[str, str] = field(default_factory=dict)
    """By origin of a source that was looked up, the origin of its file today; empty if the file is gone."""
    trees: tuple[TreeView, ...] = ()
    """One tree for each repository: the branch of the caller's work tree, or the first branch."""

    def each(self, cls: type[_Type]) -> Iterator[_Type]:
        """Yield the objects of one type, in the order of `objects`."""
        for item in self.objects.values():
            check_interrupt()
            if isinstance(item, cls):
                yield item

    def current(self, cls: type[_Type]) -> Iterator[_Type]:
        """Return the current objects of one type (`core.policy.CURRENT`); resolved and closed work is current, too."""
        return (item for item in self.each(cls) if item.status in CURRENT[item.type])

    def find(self, identity: str) -> Object | None:
        """Return an object by id, also from outside of the scope."""
        return self.objects.get(identity) or self.elsewhere.get(identity)

    def exists(self, identity: str) -> bool:
        """Return whether an object with this id exists in the space."""
        return identity in self.altered or self.find(identity) is not None

    def holds(self, source_id: str, segment_id: str) -> bool:
        """Return whether a segment is in an active source now."""
        source = self.find(source_id)
        if source_id in self.altered:
            return True  # its former segments are unknown
        return isinstance(source, Source) and source.status == "active" and segment_id in self._segments(source)

    def here(self, source: Source) -> Source | None:
        """Return a source as it is in the tree of its repository; `None` if it is not in it."""
        tree = next((one for one in self.trees if one.has(source.origin)), None)
        here = item_in_tree(source, tree)
        return here if isinstance(here, Source) else None

    @cached_property
    def lost(self) -> Mapping[str, str]:
        """By id of current knowledge that lost its lines in a tree, the name of the tree; other branches have them."""
        marked = [one for one in self.current(Knowledge) if any(ref.lost_on for ref in one.evidence_refs)]
        lost: dict[str, str] = {}
        for tree in self.trees if marked else ():
            notes = notes_of_objects(AskedTree(tree), self.ledger, map(head_of, marked), read=marked)
            lost |= {identity: tree.name for identity, note in notes.items() if note.startswith(CHANGED)}
        return lost

    def named(self, item: Object) -> str:
        """Return the quoted title of an object; for one out of sight only that it is in another scope."""
        return named(title_of(item)) if self.shows(item) else "an object in another scope"

    def told(self, identities: Iterable[str]) -> tuple[str, ...]:
        """Return the ids that a reader of the scope may see, each once."""
        items = ((identity, self.find(identity)) for identity in dict.fromkeys(identities))
        return tuple(identity for identity, item in items if item is None or self.shows(item))

    def shows(self, item: Object) -> bool:
        """Return whether a reader of the scope may see an object."""
        return sees(self.scope, item.scope, descend=True)

    @cached_property
    def referred(self) -> frozenset[str]:
        """The ids with references or links to them."""
        everything = (*self.objects.values(), *self.elsewhere.values())
        references = {ref for item in everything for ref in references_of(item)}
        return frozenset(references | {link.target for link in self.links} | {link.source for link in self.links})

    @cached_property
    def claims(self) -> Mapping[str, Sequence[Knowledge]]:
        """Current claims by claim key."""
        groups: dict[str, list[Knowledge]] = {}
        for item in self.current(Knowledge):
            if key := item.claim_key():
                groups.setdefault(key, []).append(item)
        return groups

    @cached_property
    def _segment_ids(self) -> dict[str, frozenset[str]]:
        return {}

    def _segments(self, source: Source) -> frozenset[str]:
        if source.id not in self._segment_ids:
            self._segment_ids[source.id] = frozenset(part.segment_id for part in source.segments)
        return self._segment_ids[source.id]


Rule = Callable[[Survey], Iterator[Finding]]
"""Checks a survey and yields findings."""


@dataclass(frozen=True, slots=True)
class LintRule:
    """A rule of a part: its name, and the mode of lint that runs it."""

    name: str
    mode: Literal["structure", "semantic"]
    find: Rule


def survey(ledger: Ledger, *, scope: str, now: datetime) -> Survey:
    """Read all objects at and below a scope, and the others of the space, which they may refer to."""
    altered: Altered = {}
    everything = list(ledger.select(Selection(scope=ROOT, descend=True), altered=altered))
    objects = {item.id: item for item in everything if is_within(item.scope, scope)}
    elsewhere = {item.id: item for item in everything if item.id not in objects}
    found = ledger.read([ObjectRequest(links=tuple(objects))])[0]
    altered |= found.altered
    unique = {(link.type, link.source, link.target): link for links in found.links.values() for link in links}
    return Survey(objects, tuple(unique.values()), ledger, now, scope, elsewhere, altered)
