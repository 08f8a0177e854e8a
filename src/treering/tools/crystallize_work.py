"""`crystallize` in mode `work_item`: open, change, move, link, resolve."""

from typing import Any

from pydantic import ConfigDict, Field

from treering.core.errors import InvalidInput
from treering.core.objects import WorkItem
from treering.core.patch import AddLink, Create, Link, LinkType, Operation, Transition, Update
from treering.tools.drafting import WorkItemFields, draft_work_item
from treering.tools.envelope import Call, Mode, Value, parse
from treering.tools.rights import WRITES
from treering.tools.submission import WriteOptions, WriteReport, submit


class LinkFields(Value):
    """A relation from the work item to another object."""

    type: LinkType
    target: str


class WorkItemInput(Value):
    """A new work item, or with `id` what changes of an existing one."""

    model_config = ConfigDict(extra="allow", frozen=True)

    id: str | None = Field(default=None, description="The work item to change; none: a new one.")
    revision: int | None = Field(default=None, ge=1, description="The revision you saw.")
    status: str | None = Field(default=None, description="Where it moves; `resolved` needs a resolution.")
    resolution: str = Field(default="", description="What resolved it.")
    links: tuple[LinkFields, ...] = ()

    @property
    def fields(self) -> dict[str, Any]:
        """Return the other fields of the work item."""
        return dict(self.model_extra or {})


def crystallize_work_item(call: Call, given: WorkItemInput, options: WriteOptions) -> WriteReport:
    """Open a work item, or change, move, link or resolve one."""
    identity, operations = _changes(call, given) if given.id else _opening(call, given)
    operations += [AddLink(link=Link(type=link.type, source=identity, target=link.target)) for link in given.links]
    if not operations:
        raise InvalidInput(
            f"The input changes nothing of {identity}.", hint="Give a status, links or fields beside the id."
        )
    return submit(call, operations, options, verb="crystallize", mode="work_item")


def _opening(call: Call, given: WorkItemInput) -> tuple[str, list[Operation]]:
    fields = given.fields if given.status is None else {**given.fields, "status": given.status}
    item = draft_work_item(call, parse(WorkItemFields, fields, where="input"))
    return item.id, [Create(object=item)]


def _changes(call: Call, given: WorkItemInput) -> tuple[str, list[Operation]]:
    item = call.engine.ledger.get(given.id or "")
    if not isinstance(item, WorkItem):
        raise InvalidInput(f"{item.id} is not a work item.", hint="Work item ids start with work:.")
    expected = given.revision or item.revision
    operations: list[Operation] = []
    if given.fields:
        operations.append(Update(id=item.id, expected_revision=expected, changes=given.fields))
    if given.status and given.status != item.status:
        operations.append(
            Transition(id=item.id, expected_revision=expected, to=given.status, resolution=given.resolution)
        )
    elif given.resolution:
        changes = {"resolution": given.resolution}
        operations.append(Update(id=item.id, expected_revision=expected, changes=changes))
    return item.id, operations


WORK_ITEM = Mode(
    "work_item",
    "Open, change, move, link or resolve a work item.",
    WorkItemInput,
    WriteOptions,
    WriteReport,
    crystallize_work_item,
    rights=WRITES,
    makes_space=True,
)
