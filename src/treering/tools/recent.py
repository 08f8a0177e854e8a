"""`query` in mode `recent`: what changed or happened in a window of time."""

from datetime import UTC, datetime, timedelta

from pydantic import Field

from treering.core.audit import AuditEvent
from treering.core.objects import ObjectType
from treering.tools.envelope import Call, Mode, Report, Value
from treering.tools.flagging import flagged
from treering.tools.history import Change, change_of
from treering.tools.reading import ReadOptions, parse_moment
from treering.tools.rights import READS
from treering.tools.scoped_ledger import whole

_TICK = timedelta(microseconds=1)
_BEGINNING = datetime.min.replace(tzinfo=UTC) + timedelta(days=1)


class RecentInput(Value):
    """A window of time; open ends are the beginning and now."""

    since: str | None = Field(default=None, description="ISO time.")
    until: str | None = Field(default=None, description="ISO time.")
    types: tuple[ObjectType, ...] = Field(default=(), description="Object types; empty: all.")
    limit: int = Field(default=50, ge=1, le=1000)


class RecentChange(Change):
    """A change, and what it changed."""

    id: str
    type: str
    title: str


class RecentReport(Report):
    """Changes, newest first."""

    changes: tuple[RecentChange, ...]
    more: int = 0
    """Changes in the window beyond the limit."""


def recent(call: Call, given: RecentInput, options: ReadOptions) -> RecentReport:
    """List what changed in a window of time, the base of reports."""
    ledger = call.engine.ledger
    since, until = parse_moment(given.since), parse_moment(given.until)
    moment = options.moment()
    last = ledger.sequence(moment)
    # An event of the very moment `since` belongs to the window.
    first = ledger.sequence(since - _TICK) if since and since > _BEGINNING else 0
    events = [event for event in whole(ledger).events(after=first, limit=last - first) if _within(event, since, until)]
    heads = ledger.heads((event.target for event in events), as_of=moment)
    shown = []
    for event in reversed(events):
        head = heads.get(event.target)
        if head and (not given.types or head.type in given.types):
            change = change_of(event).model_dump()
            shown.append(RecentChange(**change, id=head.id, type=head.type, title=head.title))
    kept = tuple(shown[: given.limit])
    return RecentReport(
        verb="query",
        mode="recent",
        scope=call.scope,
        status="ok" if kept else "empty",
        warnings=flagged((change.id, (change.title, change.reason)) for change in kept),
        ids=tuple(dict.fromkeys(change.id for change in kept)),
        changes=kept,
        more=len(shown) - len(kept),
    )


def _within(event: AuditEvent, since: datetime | None, until: datetime | None) -> bool:
    return (since is None or event.timestamp >= since) and (until is None or event.timestamp <= until)


RECENT = Mode(
    "recent", "What changed, by window of time.", RecentInput, ReadOptions, RecentReport, recent, rights=READS
)
