"""`crystallize` in mode `node`: make a node, or change, archive or merge one."""

from typing import Any

from pydantic import ConfigDict, Field

from treering.core.errors import InvalidInput
from treering.core.objects import Node
from treering.core.patch import Create, Merge, Operation
from treering.tools.changing import changing, found_of
from treering.tools.drafting import NodeFields, draft_node
from treering.tools.envelope import Call, Mode, Value, parse
from treering.tools.rights import WRITES
from treering.tools.submission import WriteOptions, WriteReport, submit


class NodeInput(Value):
    """A new node, or with `id` what changes of one."""

    model_config = ConfigDict(extra="allow", frozen=True)

    id: str | None = Field(default=None, description="The one to change; none: a new one.")
    revision: int | None = Field(default=None, ge=1, description="The revision you saw.")
    status: str | None = Field(default=None, description="Where it moves.")
    into: str | None = Field(default=None, description="A node to merge it into.")

    @property
    def fields(self) -> dict[str, Any]:
        """Return the other fields of the node."""
        return dict(self.model_extra or {})


def crystallize_node(call: Call, given: NodeInput, options: WriteOptions) -> WriteReport:
    """Make a node, or change, archive or merge one. What is there already gets the new summary and names."""
    operations = _changes(call, given) if given.id else _creation(call, given)
    return submit(call, operations, options, verb="crystallize", mode="node")


def _creation(call: Call, given: NodeInput) -> list[Operation]:
    if given.into or given.status:
        raise InvalidInput(
            "A new node has neither 'into' nor 'status'.", hint="Give the id of the node that is to be changed."
        )
    return [Create(object=draft_node(call, parse(NodeFields, given.fields, where="input")))]


def _changes(call: Call, given: NodeInput) -> list[Operation]:
    item = found_of(call, given.id or "", Node)
    if given.into and given.status not in (None, "merged"):
        raise InvalidInput("A node is merged or moved to another status, not both.", hint="Leave out 'status'.")
    # A merge changes the names of both, so it comes last.
    operations = changing(item, given.fields, None if given.into else given.status, revision=given.revision)
    if given.into:
        operations.append(Merge(id=item.id, expected_revision=given.revision or item.revision, into=given.into))
    if not operations:
        raise InvalidInput(
            f"The input changes nothing of {item.id}.", hint="Give fields, a status or 'into' beside the id."
        )
    return operations


NODE = Mode(
    "node",
    "Make a node, or change, archive or merge one.",
    NodeInput,
    WriteOptions,
    WriteReport,
    crystallize_node,
    rights=WRITES,
    makes_space=True,
)
