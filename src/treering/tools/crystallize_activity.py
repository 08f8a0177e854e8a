"""`crystallize` in mode `activity`: work done, and in the same patch what it produced."""

from typing import Literal

from pydantic import Field

from treering.core.patch import AddLink, Create, Link, Operation
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
from treering.tools.envelope import Call, Mode, Value
from treering.tools.reading import behind_warning
from treering.tools.rights import WRITES
from treering.tools.submission import WriteOptions, WriteReport, submit


class ActivityInput(Value):
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
    knowledge: tuple[KnowledgeFields, ...] = Field(default=(), max_length=100, description="What was learned.")
    nodes: tuple[NodeFields, ...] = Field(default=(), max_length=100)
    work_items: tuple[WorkItemFields, ...] = Field(default=(), max_length=100, description="Work it opened.")


def crystallize_activity(call: Call, given: ActivityInput, options: WriteOptions) -> WriteReport:
    """Record an activity with everything it produced, all or nothing."""
    nodes = [draft_node(call, fields) for fields in given.nodes]
    learned = [draft_knowledge(call, fields) for fields in given.knowledge]
    work = [draft_work_item(call, fields) for fields in given.work_items]
    produced = [*(item.id for item in nodes), *(item.id for item, _ in learned), *(item.id for item in work)]
    fields = given.model_dump(mode="json", exclude_none=True, exclude={"knowledge", "nodes", "work_items"})
    activity = draft_activity(call, {**fields, "produced_object_refs": [*given.produced_object_refs, *produced]})
    operations: list[Operation] = [Create(object=item) for item in nodes]
    operations += [operation for _, created in learned for operation in created]
    operations += [Create(object=item) for item in work]
    operations.append(Create(object=activity))
    operations += [AddLink(link=Link(type="produced", source=activity.id, target=target)) for target in produced]
    near = [identity for item, _ in learned for identity in possible_duplicates(call, item)]
    return submit(
        call,
        operations,
        options,
        verb="crystallize",
        mode="activity",
        possible_duplicates=tuple(dict.fromkeys(near)),
        warnings=behind_warning(call.engine.index.upkeep.behind().waiting),
    )


ACTIVITY = Mode(
    "activity",
    "Record work done and, in the same patch, the knowledge, nodes and work items it produced.",
    ActivityInput,
    WriteOptions,
    WriteReport,
    crystallize_activity,
    rights=WRITES,
    makes_space=True,
)
