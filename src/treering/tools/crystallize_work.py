"""`crystallize` in mode `work_item`: open, change, move, link, resolve."""

from typing import Any

from pydantic import ConfigDict, Field

from treering.core.errors import InvalidInput
from treering.core.objects import WorkItem
from treering.core.patch import AddLink, Create, Link, LinkType, Operation
from treering.tools.changing import changing, found_of
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

    id: str | None = Field(default=None, description="The one to change; none: a new one.")
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
    item = found_of(call, given.id or "", WorkItem)
    moves = given.status and given.status != item.status
    changes = given.fields if moves or not given.resolution else {**given.fields, "resolution": given.resolution}
    operations = changing(item, changes, given.status, revision=given.revision, resolution=given.resolution)
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
