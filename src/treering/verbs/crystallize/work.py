"""`crystallize` in modes `activity`, `work_item`, `node` and `source`."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Literal, NamedTuple

from pydantic import Field

from treering.core.canonical import normalise_text
from treering.core.characters import label
from treering.core.errors import InvalidInput
from treering.core.filters import And, Compare, Not
from treering.core.objects import Activity, Node, Source, WorkItem
from treering.core.patch import AddLink, Create, Link, LinkType, Merge, Operation
from treering.core.writing.draft import merge_unique
from treering.ports.passages import Reach
from treering.verbs.crystallize.changing import ChangeInput, changing, found_of
from treering.verbs.crystallize.drafting import (
    KnowledgeFields,
    NodeFields,
    WorkItemFields,
    draft_activity,
    draft_knowledge,
    draft_node,
    draft_work_item,
    with_resolved_evidence,
    with_resolved_sources,
)
from treering.verbs.crystallize.knowledge import KnowledgeInput, possible_duplicates
from treering.verbs.crystallize.submission import WriteOptions, WriteReport, submit
from treering.verbs.envelope import WRITES, Call, Mode, Value, parse
from treering.verbs.evidence.resolving import ResolvedEvidence
from treering.verbs.index_warnings import index_warning
from treering.verbs.work_order import FINISHED, order_warnings


class Outputs(Value):
    """New objects that an activity produced."""

    knowledge: tuple[KnowledgeFields, ...] = Field(default=(), max_length=100, description="Knowledge gained.")
    nodes: tuple[NodeFields, ...] = Field(default=(), max_length=100)
    work_items: tuple[WorkItemFields, ...] = Field(default=(), max_length=100, description="Work items opened by it.")


class ActivityFields(Outputs):
    """Work and its results."""

    kind: Literal["episode", "debug", "review", "research", "implementation", "meeting", "reading"] = "episode"
    title: str = Field(min_length=1)
    summary: str = ""
    status: Literal["draft", "finalized"] = "finalized"
    outcome: Literal["success", "failure", "partial", "unknown"] = "unknown"
    started_at: str | None = None
    ended_at: str | None = None
    source_refs: tuple[str, ...] = ()
    artifact_refs: tuple[str, ...] = Field(default=(), description="Files, commits and URLs it produced.")
    related_node_refs: tuple[str, ...] = ()
    related_work_item_refs: tuple[str, ...] = ()
    produced_object_refs: tuple[str, ...] = ()


class ActivityInput(ChangeInput):
    """A new activity, or changes to the one with this `id`: its fields, its status, and its new results."""

    status: str | None = Field(default=None, description="New status. New activities: finalized.")


def crystallize_activity(call: Call, given: ActivityInput, options: WriteOptions) -> WriteReport:
    """Record an activity with everything it produced, or change one, all or nothing."""
    own, sources = with_resolved_sources(call, given.fields, dry_run=options.dry_run)
    outputs = {name: own.pop(name) for name in Outputs.model_fields if given.id and name in own}
    fields = parse(Outputs, outputs, where="input") if given.id else _new(given, own)
    made = _Made.of(call, fields, dry_run=options.dry_run)
    operations = _change(call, given, own, made) if given.id else _record(call, fields, made)
    return submit(
        call,
        operations,
        options,
        mode="activity",
        possible_duplicates=made.possible_duplicates,
        evidence=(*sources, *made.evidence),
        warnings=index_warning(call.engine),
    )


@dataclass(frozen=True, slots=True)
class _Made:
    """The objects that an activity produced: the operations that create them, and their ids."""

    operations: tuple[Operation, ...]
    ids: tuple[str, ...]
    possible_duplicates: tuple[str, ...]
    evidence: tuple[ResolvedEvidence, ...]

    @classmethod
    def of(cls, call: Call, fields: Outputs, *, dry_run: bool) -> "_Made":
        nodes: Sequence[Node] = [draft_node(call, one) for one in fields.nodes]
        given = [with_resolved_evidence(call, one, dry_run=dry_run) for one in fields.knowledge]
        learned = [draft_knowledge(call, one) for one, _ in given]
        sources = [
            with_resolved_sources(call, one.model_dump(mode="json", exclude_none=True), dry_run=dry_run)
            for one in fields.work_items
        ]
        work = [draft_work_item(call, parse(WorkItemFields, one, where="input")) for one, _ in sources]
        operations: list[Operation] = [Create(object=item) for item in nodes]
        operations += [operation for _, created in learned for operation in created]
        operations += [Create(object=item) for item in work]
        ids = (*(item.id for item in nodes), *(item.id for item, _ in learned), *(item.id for item in work))
        near = [identity for item, _ in learned for identity in possible_duplicates(call, item)]
        near += [identity for item in work for identity in same_work(call, item)]
        evidence = tuple(one for _, resolved in (*given, *sources) for one in resolved)
        return cls(tuple(operations), ids, tuple(dict.fromkeys(near)), evidence)

    def links(self, activity: str) -> list[Operation]:
        return [AddLink(link=Link(type="produced", source=activity, target=target)) for target in self.ids]


def _new(given: ActivityInput, fields: dict[str, Any]) -> ActivityFields:
    given_status = {} if given.status is None else {"status": given.status}
    return parse(ActivityFields, {**fields, **given_status}, where="input")


def _record(call: Call, given: Outputs, made: _Made) -> list[Operation]:
    fields = given.model_dump(mode="json", exclude_none=True, exclude=set(Outputs.model_fields))
    activity = draft_activity(call, {**fields, "produced_object_refs": [*fields["produced_object_refs"], *made.ids]})
    return [*made.operations, Create(object=activity), *made.links(activity.id)]


def _change(call: Call, given: ActivityInput, fields: dict[str, Any], made: _Made) -> list[Operation]:
    item = found_of(call, given.id or "", Activity)
    changes = dict(fields)
    if made.ids:
        produced = tuple(changes.get("produced_object_refs", item.produced_object_refs))
        changes["produced_object_refs"] = merge_unique(produced, made.ids)
    beside = {*ActivityInput.model_fields, *Outputs.model_fields}
    changed = changing(item, changes, given.status, revision=given.revision, beside=beside)
    if not changed:
        raise InvalidInput(
            f"The input changes nothing of {item.id}.", hint="Give fields or a status along with the id."
        )
    return [*made.operations, *changed, *made.links(item.id)]


ACTIVITY = Mode.of(
    "activity",
    "Record work and its results; finalize, archive, correct.",
    crystallize_activity,
    rights=WRITES,
    makes_space=True,
)


_SAME_CANDIDATES = 20
"""Work items with words of a title whose whole titles are compared with it."""


class LinkFields(Value):
    """A relation from the work item to another object."""

    type: LinkType
    target: str


class WorkItemInput(ChangeInput):
    """A new work item, or changes to the one with this `id`."""

    status: str | None = Field(default=None, description="New status; `resolved` needs a resolution.")
    resolution: str = Field(default="", description="How it was resolved.")
    links: tuple[LinkFields, ...] = ()


def crystallize_work_item(call: Call, given: WorkItemInput, options: WriteOptions) -> WriteReport:
    """Open a work item, or change, move, link or resolve one.

    Warns if it is taken from owners who have it in progress, or started before the work that it waits for.
    """
    fields, evidence = with_resolved_sources(call, given.fields, dry_run=options.dry_run)
    written = _changes(call, given, fields) if given.id else _opening(call, given, fields)
    item, operations = written.item, list(written.operations)
    operations += [AddLink(link=Link(type=link.type, source=item.id, target=link.target)) for link in given.links]
    if not operations:
        raise InvalidInput(
            f"The input changes nothing of {item.id}.", hint="Give a status, links or fields along with the id."
        )
    return submit(
        call,
        operations,
        options,
        mode="work_item",
        possible_duplicates=() if given.id else same_work(call, item),
        evidence=evidence,
        warnings=written.warnings,
    )


class _WrittenWork(NamedTuple):
    item: WorkItem
    operations: Sequence[Operation]
    warnings: tuple[str, ...]


def _opening(call: Call, given: WorkItemInput, fields: dict[str, Any]) -> _WrittenWork:
    fields = fields if given.status is None else {**fields, "status": given.status}
    item = draft_work_item(call, parse(WorkItemFields, fields, where="input"))
    return _WrittenWork(item, [Create(object=item)], order_warnings(call.engine.ledger, item))


def _changes(call: Call, given: WorkItemInput, fields: dict[str, Any]) -> _WrittenWork:
    item = found_of(call, given.id or "", WorkItem)
    moves = given.status and given.status != item.status
    changes = fields if moves or not given.resolution else {**fields, "resolution": given.resolution}
    operations = changing(
        item,
        changes,
        given.status,
        revision=given.revision,
        resolution=given.resolution,
        beside=WorkItemInput.model_fields,
    )
    changed = item.model_copy(
        update={
            **{name: _texts(changes[name]) for name in ("owner_refs", "depends_on", "blocked_by") if name in changes},
            **({"status": given.status} if given.status else {}),
        }
    )
    starts = order_warnings(call.engine.ledger, changed) if moves else ()
    return _WrittenWork(item, operations, (*_taken_warnings(call, item, changed), *starts))


def same_work(call: Call, item: WorkItem) -> tuple[str, ...]:
    """Return the ids of unfinished work in sight with the title and kind of an item."""
    unfinished = Not(Compare("status", "in", tuple(sorted(FINISHED))))
    where = And((Compare("type", "eq", "work_item"), Compare("kind", "eq", item.kind), unfinished))
    heads = call.engine.lookup.passages_with(item.title, Reach(call.scope, where=where), limit=_SAME_CANDIDATES)
    title = normalise_text(item.title)
    return tuple(head.object_id for head in heads if normalise_text(head.title) == title)


def _texts(value: object) -> tuple[str, ...]:
    """Return the texts in a list; whether it is a valid one is checked later."""
    return tuple(one for one in value if isinstance(one, str)) if isinstance(value, list) else ()


def _taken_warnings(call: Call, before: WorkItem, after: WorkItem) -> tuple[str, ...]:
    """Warn if owners lose work that they have in progress, unless the author is one of them."""
    lost = [owner for owner in before.owner_refs if owner not in after.owner_refs]
    if before.status != "in_progress" or not lost or call.engine.author.actor in before.owner_refs:
        return ()
    return (f"{label(before.title)} was in progress with {', '.join(map(label, lost))}, who no longer owns it.",)


WORK_ITEM = Mode.of(
    "work_item", "Open, change, link or resolve work.", crystallize_work_item, rights=WRITES, makes_space=True
)


class NodeInput(ChangeInput):
    """A new node, or changes to the one with this `id`."""

    status: str | None = Field(default=None, description="New status.")
    into: str | None = Field(default=None, description="A node to merge it into.")


def crystallize_node(call: Call, given: NodeInput, options: WriteOptions) -> WriteReport:
    """Make a node, or change, archive or merge one. An existing node gets the new summary and names."""
    operations = _node_changes(call, given) if given.id else _creation(call, given)
    return submit(call, operations, options, mode="node")


def _creation(call: Call, given: NodeInput) -> list[Operation]:
    if given.into or given.status:
        raise InvalidInput(
            "A new node has neither 'into' nor 'status'.", hint="Give the id of the node that is to be changed."
        )
    return [Create(object=draft_node(call, parse(NodeFields, given.fields, where="input")))]


def _node_changes(call: Call, given: NodeInput) -> list[Operation]:
    item = found_of(call, given.id or "", Node)
    if given.into and given.status not in (None, "merged"):
        raise InvalidInput("A node is merged or moved to another status, not both.", hint="Leave out 'status'.")
    # A merge changes the names of both, so it comes last.
    status = None if given.into else given.status
    operations = changing(item, given.fields, status, revision=given.revision, beside=NodeInput.model_fields)
    if given.into:
        operations.append(Merge(id=item.id, expected_revision=given.revision or item.revision, into=given.into))
    if not operations:
        raise InvalidInput(
            f"The input changes nothing of {item.id}.", hint="Give fields, a status or 'into' along with the id."
        )
    return operations


NODE = Mode.of("node", "Create, change, archive or merge a node.", crystallize_node, rights=WRITES, makes_space=True)


class SourceStatus(Value):
    """A source and its new status."""

    id: str = Field(min_length=1, description="The source.")
    revision: int | None = Field(default=None, ge=1, description="The revision you read.")
    status: Literal["active", "invalid", "archived"] = Field(
        description="invalid: ignored; archived: no longer current."
    )


def crystallize_source(call: Call, given: SourceStatus, options: WriteOptions) -> WriteReport:
    """Move a source to another status. Knowledge without other evidence becomes stale."""
    item = found_of(call, given.id, Source)
    operations = changing(item, {}, given.status, revision=given.revision)
    if not operations:
        raise InvalidInput(f"{item.id} is already {item.status}.", hint="Give another status.")
    return submit(call, operations, options, mode="source")


SOURCE = Mode.of("source", "Mark a source invalid, valid or archived.", crystallize_source, rights=WRITES)

NEW_OBJECT_FIELDS: Mapping[type[Value], type[Value]] = {
    ActivityInput: ActivityFields,
    KnowledgeInput: KnowledgeFields,
    WorkItemInput: WorkItemFields,
    NodeInput: NodeFields,
}
"""By input: the fields of a new object, which the input accepts besides its own."""
