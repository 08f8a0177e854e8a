"""`crystallize` in mode `activity`: work done, and in the same patch what it produced; later, what changes of it."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, Literal

from pydantic import ConfigDict, Field

from treering.core.draft import united
from treering.core.errors import InvalidInput
from treering.core.objects import Activity, Node, WorkItem
from treering.core.patch import AddLink, Create, Link, Operation
from treering.tools.changing import changing, found_of
from treering.tools.crystallize_knowledge import possible_duplicates
from treering.tools.drafting import (
    KnowledgeFields,
    NodeFields,
    WorkItemFields,
    draft_activity,
    draft_knowledge,
    draft_node,
    draft_work_item,
)
from treering.tools.envelope import Call, Mode, Value, parse
from treering.tools.reading import behind_warning
from treering.tools.rights import WRITES
from treering.tools.submission import WriteOptions, WriteReport, submit


class Outputs(Value):
    """New objects that an activity produced."""

    knowledge: tuple[KnowledgeFields, ...] = Field(default=(), max_length=100, description="What was learned.")
    nodes: tuple[NodeFields, ...] = Field(default=(), max_length=100)
    work_items: tuple[WorkItemFields, ...] = Field(default=(), max_length=100, description="Work it opened.")


class ActivityFields(Outputs):
    """What was done, and what came of it."""

    kind: Literal["episode", "debug", "review", "research", "implementation", "meeting", "reading"] = "episode"
    title: str = Field(min_length=1)
    summary: str = ""
    status: Literal["draft", "finalized"] = "finalized"
    outcome: Literal["success", "failure", "partial", "unknown"] = "unknown"
    started_at: str | None = None
    ended_at: str | None = None
    source_refs: tuple[str, ...] = ()
    artifact_refs: tuple[str, ...] = Field(default=(), description="Files, commits, URLs it left outside.")
    related_node_refs: tuple[str, ...] = ()
    related_work_item_refs: tuple[str, ...] = ()
    produced_object_refs: tuple[str, ...] = ()


class ActivityInput(Value):
    """What was done, or with `id` what changes of an activity: its fields, its status, and what it produced since."""

    model_config = ConfigDict(extra="allow", frozen=True)

    id: str | None = Field(default=None, description="The one to change; none: a new one.")
    revision: int | None = Field(default=None, ge=1, description="The revision you saw.")
    status: str | None = Field(default=None, description="Where it moves. New: finalized.")

    @property
    def fields(self) -> dict[str, Any]:
        """Return the other fields of the activity."""
        return dict(self.model_extra or {})


def crystallize_activity(call: Call, given: ActivityInput, options: WriteOptions) -> WriteReport:
    """Record an activity with everything it produced, or change one, all or nothing."""
    said = given.fields
    outputs = {name: said.pop(name) for name in Outputs.model_fields if given.id and name in said}
    fields = parse(Outputs, outputs, where="input") if given.id else _new(given)
    made = _Made.of(call, fields)
    operations = _change(call, given, said, made) if given.id else _record(call, fields, made)
    return submit(
        call,
        operations,
        options,
        verb="crystallize",
        mode="activity",
        possible_duplicates=made.possible_duplicates,
        warnings=behind_warning(call.engine.index.upkeep.behind().waiting),
    )


@dataclass(frozen=True, slots=True)
class _Made:
    """What an activity produced: the operations that create it, and its ids."""

    operations: tuple[Operation, ...]
    ids: tuple[str, ...]
    possible_duplicates: tuple[str, ...]

    @classmethod
    def of(cls, call: Call, fields: Outputs) -> "_Made":
        nodes: Sequence[Node] = [draft_node(call, one) for one in fields.nodes]
        learned = [draft_knowledge(call, one) for one in fields.knowledge]
        work: Sequence[WorkItem] = [draft_work_item(call, one) for one in fields.work_items]
        operations: list[Operation] = [Create(object=item) for item in nodes]
        operations += [operation for _, created in learned for operation in created]
        operations += [Create(object=item) for item in work]
        ids = (*(item.id for item in nodes), *(item.id for item, _ in learned), *(item.id for item in work))
        near = [identity for item, _ in learned for identity in possible_duplicates(call, item)]
        return cls(tuple(operations), ids, tuple(dict.fromkeys(near)))

    def links(self, activity: str) -> list[Operation]:
        return [AddLink(link=Link(type="produced", source=activity, target=target)) for target in self.ids]


def _new(given: ActivityInput) -> ActivityFields:
    said = given.fields if given.status is None else {**given.fields, "status": given.status}
    return parse(ActivityFields, said, where="input")


def _record(call: Call, given: Outputs, made: _Made) -> list[Operation]:
    fields = given.model_dump(mode="json", exclude_none=True, exclude=set(Outputs.model_fields))
    activity = draft_activity(call, {**fields, "produced_object_refs": [*fields["produced_object_refs"], *made.ids]})
    return [*made.operations, Create(object=activity), *made.links(activity.id)]


def _change(call: Call, given: ActivityInput, said: dict[str, Any], made: _Made) -> list[Operation]:
    item = found_of(call, given.id or "", Activity)
    changes = dict(said)
    if made.ids:
        produced = tuple(changes.get("produced_object_refs", item.produced_object_refs))
        changes["produced_object_refs"] = united(produced, made.ids)
    changed = changing(item, changes, given.status, revision=given.revision)
    if not changed:
        raise InvalidInput(f"The input changes nothing of {item.id}.", hint="Give fields or a status beside the id.")
    return [*made.operations, *changed, *made.links(item.id)]


ACTIVITY = Mode(
    "activity",
    "Record work done with the knowledge, nodes and work items it produced; or finalize, archive, correct a record.",
    ActivityInput,
    WriteOptions,
    WriteReport,
    crystallize_activity,
    rights=WRITES,
    makes_space=True,
)
