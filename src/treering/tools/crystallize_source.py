"""`crystallize` in mode `source`: say that a source is invalid, valid again, or over."""

from typing import Literal

from pydantic import Field

from treering.core.errors import InvalidInput
from treering.core.objects import Source
from treering.tools.changing import changing, found_of
from treering.tools.envelope import Call, Mode, Value
from treering.tools.rights import WRITES
from treering.tools.submission import WriteOptions, WriteReport, submit


class SourceStatus(Value):
    """Which source, and what becomes of it."""

    id: str = Field(min_length=1, description="The source.")
    revision: int | None = Field(default=None, ge=1, description="The revision you saw.")
    status: Literal["active", "invalid", "archived"] = Field(
        description="invalid: counts for nothing; archived: it is over."
    )


def crystallize_source(call: Call, given: SourceStatus, options: WriteOptions) -> WriteReport:
    """Move a source to another status. What rested on it alone becomes stale."""
    item = found_of(call, given.id, Source)
    operations = changing(item, {}, given.status, revision=given.revision)
    if not operations:
        raise InvalidInput(f"{item.id} is {item.status} already.", hint="Give another status.")
    return submit(call, operations, options, verb="crystallize", mode="source")


SOURCE = Mode(
    "source",
    "Make a source invalid, valid again, or archived.",
    SourceStatus,
    WriteOptions,
    WriteReport,
    crystallize_source,
    rights=WRITES,
)
