"""The objects that lint checks, read in batches so that a large space does not fill the memory."""

from collections import defaultdict
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from datetime import datetime
from functools import cached_property, lru_cache
from itertools import chain, islice
from typing import Any, ClassVar, Literal, NamedTuple, TypeVar, get_args

from pydantic import Field

from treering.core.characters import named
from treering.core.filters import EVERYTHING, Compare, Filter
from treering.core.objects import Knowledge, Object, ObjectType, Source, WorkItem, title_of
from treering.core.patch import Link, Operation
from treering.core.policy import CITABLE, is_current
from treering.core.scope import ROOT, is_within, sees
from treering.core.versions import TreeView
from treering.core.writing.integrity import references_of
from treering.ports.adapter import FileLookup, KnownRepository
from treering.ports.ledger import Altered, Ledger, ObjectRequest, ObjectsFound, Selection
from treering.ports.runtime import check_interrupt
from treering.verbs.envelope import Value
from treering.verbs.scoped_ledger import item_in_tree
from treering.verbs.stale import MAY_BE_STALE, may_be_stale, noted_in, stale_in
from treering.verbs.trees import CHANGED

Severity = Literal["error", "warning", "info"]
_Type = TypeVar("_Type", bound=Object)

EVERY_TYPE: tuple[ObjectType, ...] = get_args(ObjectType)
_BATCH = 200
_MAX_FOUND = 200
"""Objects that are remembered because others are likely to name them, too."""


class Finding(Value):
    """A problem, with a fix if possible."""

    rule: str
    severity: Severity
    ids: tuple[str, ...]
    explanation: str
    fix: tuple[Operation, ...] = Field(default=(), description="Operations that repair it.")
    fix_summary: str = ""
    after_merge: bool = Field(default=False, description="Whether to archive it only after a merge.")


class Problem(NamedTuple):
    """What a built-in rule reports; `run` makes it a finding of the rule."""

    ids: tuple[str, ...]
    explanation: str
    fix: tuple[Operation, ...] = ()
    fix_summary: str = ""
    after_merge: bool = False
    group: str = ""
    """What several objects have in common, such as "test files …": their problems are one finding."""


@dataclass
class Survey:
    """The objects at and below a scope with their links, and the objects that they name."""

    ledger: Ledger
    now: datetime
    scope: str = ROOT
    altered: Altered = field(default_factory=dict)
    """By id, the problem of objects read so far that do not match the audit log; rules skip them."""
    lookups: Sequence[FileLookup] = ()
    """What finds the current places of the files of active sources that are read."""
    elsewhere: dict[tuple[str, str], str] = field(default_factory=dict)
    """By scope and origin of sources read so far, the other origin that their file has today; empty if it is gone."""
    trees: tuple[TreeView, ...] = ()
    """One tree for each repository: the branch of the caller's work tree, or the first branch."""
    _near: ObjectsFound | None = None
    """Links, heads and segments for the objects read last."""

    def batches(self, types: Collection[str] = EVERY_TYPE, *, whole: bool = False) -> Iterator[Sequence[Object]]:
        """Read objects of some types at and below the scope, oldest first, each batch with everything that it names.

        `whole`: also read the rest of the space, to find altered objects.
        """
        selection = Selection(ROOT if whole else self.scope, descend=True, types=tuple(types))
        objects = self.ledger.select(selection, altered=self.altered)
        while batch := [*islice(objects, _BATCH)]:
            check_interrupt()
            inside = [item for item in batch if is_within(item.scope, self.scope)]
            self._near = self._read_near(inside)
            self._look_up(inside)
            yield inside

    def each(self, cls: type[_Type], where: Filter = EVERYTHING) -> Iterator[_Type]:
        """Read the objects of one type at and below the scope, oldest first."""
        selection = Selection(self.scope, descend=True, types=(cls.model_fields["type"].default,), where=where)
        for item in self.ledger.select(selection, altered=self.altered):
            check_interrupt()
            if isinstance(item, cls) and is_within(item.scope, self.scope):
                yield item

    def current(self, cls: type[_Type]) -> Iterator[_Type]:
        """Return the current objects of one type (`core.policy.CURRENT`); resolved and closed work is current, too."""
        return filter(is_current, self.each(cls))

    def find(self, identity: str) -> Object | None:
        """Return an object by id, also from outside of the scope."""
        return None if identity in self.altered else self._find(identity)

    def exists(self, identity: str) -> bool:
        """Return whether an object with this id exists in the space."""
        is_near = self._near is not None and identity in self._near.heads
        return is_near or self.find(identity) is not None or identity in self.altered

    def holds(self, source_id: str, segment_id: str) -> bool:
        """Return whether a segment is in an active source now, or in a withheld one."""
        if self._near and (source_id, segment_id) in self._near.segments and source_id in self._near.heads:
            return self._near.heads[source_id].status == "active"
        source = self.find(source_id)
        if source_id in self.altered:
            return True  # its former segments are unknown
        if not isinstance(source, Source) or source.status not in CITABLE:
            return False
        return source.withholds(segment_id) or any(part.segment_id == segment_id for part in source.segments)

    def links(self, identity: str) -> Sequence[Link]:
        """Return the links that start or end at an object."""
        if self._near and identity in self._near.links:
            return self._near.links[identity]
        return self._read(ObjectRequest(links=(identity,))).links.get(identity, ())

    def is_named(self, identity: str) -> bool:
        """Return whether an object of the space refers to another, or has a link to it."""
        referrers = map(self.find, self.ledger.referrers(identity))
        return bool(self.links(identity)) or any(item and identity in references_of(item) for item in referrers)

    @cached_property
    def owners(self) -> frozenset[str]:
        """The owners of work, case-folded."""
        return frozenset(owner.casefold() for work in self.each(WorkItem) for owner in work.owner_refs)

    def here(self, source: Source) -> Source | None:
        """Return a source as it is in the tree of its repository; `None` if it is not in it."""
        tree = next((one for one in self.trees if one.has(source.origin)), None)
        here = item_in_tree(source, tree)
        return here if isinstance(here, Source) else None

    @cached_property
    def stale(self) -> Mapping[str, str]:
        """By id of stale knowledge, the tree that lost its lines; empty if no branch has them."""
        return stale_in(self.trees, self.ledger, self._marked)

    @cached_property
    def lost_by_first_branch(self) -> frozenset[str]:
        """Ids of current knowledge that lost its lines on the first branch, usually the default one."""
        first = [replace(one, branch=one.leading, name=one.leading, changed={}) for one in self.trees if one.leading]
        current = [item for item in self._marked if item.status != "stale"]
        return frozenset(one for tree in first for one in noted_in(tree, self.ledger, current, CHANGED))

    @cached_property
    def _marked(self) -> Sequence[Knowledge]:
        return [item for item in self.each(Knowledge, where=MAY_BE_STALE) if may_be_stale(item)]

    def named(self, item: Object) -> str:
        """Return the quoted title of an object; for a hidden object only that it is in another scope."""
        return named(title_of(item)) if self.shows(item) else "an object in another scope"

    def told(self, identities: Iterable[str]) -> tuple[str, ...]:
        """Return the ids that a reader of the scope may see, each once."""
        items = ((identity, self.find(identity)) for identity in dict.fromkeys(identities))
        return tuple(identity for identity, item in items if item is None or self.shows(item))

    def shows(self, item: Object) -> bool:
        """Return whether a reader of the scope may see an object."""
        return sees(self.scope, item.scope, descend=True)

    def _look_up(self, objects: Sequence[Object]) -> None:
        by_scope: dict[str, list[str]] = defaultdict(list)
        for item in objects if self.lookups else ():
            if isinstance(item, Source) and is_current(item):
                by_scope[item.scope].append(item.origin)
        for scope, origins in by_scope.items():
            today: dict[str, str] = {}
            for lookup in self.lookups:
                today |= lookup.origins_today(origins, self._repositories.get(scope, ()))
            self.elsewhere |= {(scope, origin): place for origin, place in today.items() if place != origin}

    @cached_property
    def _repositories(self) -> Mapping[str, Sequence[KnownRepository]]:
        repositories: dict[str, list[KnownRepository]] = defaultdict(list)
        for item in filter(is_current, self.each(Source, where=Compare("kind", "eq", "repo"))):
            repositories[item.scope].append(KnownRepository(item.origin, item.title, item.payload))
        return repositories

    @cached_property
    def _find(self) -> Callable[[str], Object | None]:
        return lru_cache(_MAX_FOUND)(lambda one: self._read(ObjectRequest(objects=(one,))).objects.get(one))

    def _read_near(self, objects: Sequence[Object]) -> ObjectsFound:
        refs = [ref for item in objects if isinstance(item, Knowledge) for ref in item.evidence_refs]
        links = self._read(ObjectRequest(links=tuple(item.id for item in objects))).links
        ends = (end for few in links.values() for link in few for end in (link.source, link.target))
        heads = dict.fromkeys([*(one for item in objects for one in references_of(item)), *ends])
        segments = dict.fromkeys((ref.source_id, ref.segment_id) for ref in refs)
        return replace(self._read(ObjectRequest(heads=tuple(heads), segments=tuple(segments))), links=links)

    def _read(self, request: ObjectRequest) -> ObjectsFound:
        (found,) = self.ledger.read([request])
        self.altered.update(found.altered)
        return found


@dataclass(frozen=True, slots=True)
class ObjectRule:
    """A rule about each object of some types: a function from an object and the survey to problems."""

    severity: Severity
    find: Callable[[Any, Survey], Iterable[Problem]]
    types: Collection[str] = EVERY_TYPE


@dataclass(frozen=True, slots=True)
class SpaceRule:
    """A rule about the whole space: a function from the survey of all objects of some types to problems."""

    severity: Severity
    find: Callable[[Survey], Iterable[Problem]]
    types: Collection[str] = ()


@dataclass(frozen=True, slots=True)
class LintRule:
    """A rule of a part: its name, the mode of lint that runs it, and a function from a survey to findings."""

    name: str
    mode: Literal["structure", "semantic"]
    find: Callable[[Survey], Iterable[Finding]]
    types: ClassVar[Collection[str]] = ()


Rule = ObjectRule | SpaceRule | LintRule


def run(rules: Mapping[str, Rule], seen: Survey, *, whole_space: bool = False) -> list[Finding]:
    """Return the findings of some rules, one rule after the other. The objects are read once.

    `whole_space`: read all objects, to find any that was altered.
    """
    types = EVERY_TYPE if whole_space else {one for rule in rules.values() for one in rule.types}
    problems: dict[str, list[Problem]] = {name: [] for name in rules}
    about_objects = [(name, rule) for name, rule in rules.items() if isinstance(rule, ObjectRule)]
    for item in chain.from_iterable(seen.batches(types, whole=whole_space) if types else ()):
        for name, rule in about_objects:
            if item.type in rule.types:
                problems[name] += rule.find(item, seen)
    findings: list[Finding] = []
    for name, each in rules.items():
        if isinstance(each, LintRule):
            findings += each.find(seen)
        else:
            reported = each.find(seen) if isinstance(each, SpaceRule) else _grouped(problems[name])
            findings += (_finding(name, each, one) for one in reported)
    return findings


def _grouped(problems: Iterable[Problem]) -> Iterator[Problem]:
    """Yield problems, and a group of problems as one with the explanation of the first."""
    groups: dict[str, list[Problem]] = defaultdict(list)
    for one in problems:
        if one.group:
            groups[one.group].append(one)
        else:
            yield one
    for group, (first, *others) in groups.items():
        ids = tuple(dict.fromkeys(chain(first.ids, *(one.ids for one in others))))
        explanation = f"{len(others) + 1} {group}. The first: {first.explanation}" if others else first.explanation
        yield first._replace(ids=ids, explanation=explanation)


def _finding(name: str, rule: ObjectRule | SpaceRule, one: Problem) -> Finding:
    fields = {field: value for field, value in one._asdict().items() if field != "group"}
    return Finding(rule=name, severity=rule.severity, **fields)
