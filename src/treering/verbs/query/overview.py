"""What a space holds at a glance: how far its log goes, what waits, and its objects by type, kind and status."""

from collections import Counter
from collections.abc import Mapping
from datetime import datetime
from itertools import islice
from typing import Literal

from pydantic import Field

from treering.core.canonical import Instant, is_object
from treering.core.filters import And, Compare, Filter
from treering.core.objects import Knowledge, Object, title_of
from treering.core.policy import CURRENT, is_over
from treering.ports.ledger import Altered, Selection, head_of
from treering.ports.runtime import VECTORS
from treering.retrieval.index.rounds import lag_of
from treering.verbs.engine import Engine
from treering.verbs.envelope import READS, Call, Nothing, Operation, Value
from treering.verbs.read_reports import altered_warnings
from treering.verbs.reading import ReadOptions, time_of
from treering.verbs.trees import notes_of_objects

_MOST_SCOPES = 200
_MOST_WAITING = 100


class OverviewOptions(Value):
    """Of which moment."""

    as_of: int | None = Field(default=None, ge=0, description="State at this audit sequence number; default: now.")


class Overview(Value):
    """The contents of a space and its pending work."""

    sequence: int
    """The audit sequence number of the newest change; 0 in an empty space."""
    at: Instant | None
    """When the event that was asked for happened, or the newest one."""
    scopes: tuple[str, ...]
    """The scopes below the root, the first of them."""
    passages: int
    pending_vectors: int
    quick_vectors: int
    """Passages among these that have a vector of the quick model so far."""
    behind: int
    """Objects that the index does not know yet."""
    waiting: int
    """Patches that wait for review, up to a hundred."""


def overview(call: Call, _given: Nothing, options: OverviewOptions) -> Overview:
    """Say what a space holds, and what waits in it."""
    ledger = call.engine.ledger
    sequence = ledger.sequence()
    asked = sequence if options.as_of is None else min(options.as_of, sequence)
    lag = lag_of(call.engine.index)
    return Overview(
        sequence=sequence,
        at=time_of(call, asked) if asked else None,
        scopes=tuple(ledger.scopes(call.scope)[:_MOST_SCOPES]),
        passages=lag.total,
        pending_vectors=lag.pending,
        quick_vectors=lag.quick,
        behind=lag.behind,
        waiting=len(ledger.patches(status="proposed", limit=_MOST_WAITING)),
    )


class ObjectsInput(Value):
    """The objects to list. Sources are many: use `recent` and `search` for them."""

    type: Literal["knowledge", "work_item", "activity", "node"] = Field(description="Type of object.")
    kinds: tuple[str, ...] = Field(default=(), description="Kinds; empty: all.")
    statuses: tuple[str, ...] = Field(default=(), description="Statuses; empty: all.")


class ObjectsOptions(ReadOptions):
    """How many, and of which moment."""

    limit: int = Field(default=100, ge=1, le=1000, description="Maximum number of objects.")
    expired: bool = Field(default=False, description="Only objects past their validity.")


class ListedObject(Value):
    """One object of a list."""

    id: str
    type: str
    kind: str
    status: str
    scope: str
    title: str
    updated_at: Instant
    current: bool
    """Whether it is current."""
    note: str = ""
    """Why it is not current in the requested tree."""


class ObjectList(Value):
    """Objects in order of their ids, the newest first."""

    items: tuple[ListedObject, ...]
    more: bool = False
    """Whether there are more than the limit."""
    warnings: tuple[str, ...] = ()


def objects(call: Call, given: ObjectsInput, options: ObjectsOptions) -> ObjectList:
    """List objects of one type."""
    moment = options.moment()
    altered: Altered = {}
    now = time_of(call, moment)
    selection = Selection(
        scope=call.scope,
        descend=options.descend,
        types=(given.type,),
        where=_where(given, expired=options.expired),
        as_of=moment,
        # One more tells that there are more. Until when something holds is said by the object itself.
        newest=0 if options.expired else options.limit + 1,
    )
    selected = call.engine.ledger.select(selection, altered=altered)
    found = [item for item in selected if not options.expired or _expired(item, now)]
    kept = list(islice(reversed(found), options.limit))
    notes = notes_of_objects(call.tree, call.engine.ledger, map(head_of, kept), read=kept)
    return ObjectList(
        items=tuple(
            ListedObject(
                id=item.id,
                type=item.type,
                kind=item.kind,
                status=item.status,
                scope=item.scope,
                title=title_of(item),
                updated_at=item.updated_at,
                current=item.status in CURRENT[item.type] and not is_over(item, now=now) and item.id not in notes,
                note=notes.get(item.id, ""),
            )
            for item in kept
        ),
        more=len(found) > len(kept),
        warnings=altered_warnings(altered),
    )


def _where(given: ObjectsInput, *, expired: bool) -> Filter:
    asked = (("kind", given.kinds), ("status", given.statuses), ("status", _MAY_EXPIRE if expired else ()))
    return And(tuple(Compare(field, "in", values) for field, values in asked if values))


_MAY_EXPIRE = ("active", "contested")


def _expired(item: Object, now: datetime) -> bool:
    return isinstance(item, Knowledge) and item.status in _MAY_EXPIRE and is_over(item, now=now)


OVERVIEW = Operation(
    "overview",
    "Summarize the contents and the backlog of a space.",
    Nothing,
    OverviewOptions,
    Overview,
    overview,
    rights=READS,
)
OBJECTS = Operation(
    "objects",
    "List the objects of a type, by kind and status.",
    ObjectsInput,
    ObjectsOptions,
    ObjectList,
    objects,
    rights=READS,
)


# How a space stands, for a person who asks: what is in it, what waits, what is stale, and who wrote last.


_COUNTED = ("source", "knowledge", "work_item", "activity", "node")
_MOST_WAITING_SHOWN = 1_000
_BATCH_SIZE = 1_000


class SpaceStatusOptions(Value):
    """The number of changes to show."""

    writes: int = Field(default=5, ge=0, le=100, description="Number of latest changes.")


class LastWrite(Value):
    """One of the last changes."""

    at: Instant
    actor: str
    channel: str
    what: str
    """Such as `created`."""
    target: str
    """The id of the changed object."""


class VectorWork(Value):
    """The process that embeds pending passages."""

    process: int
    minutes_left: float | None
    """At the pace of the last background process; `None` before it is known."""


class SpaceProtection(Value):
    """How a database separates its spaces."""

    role: str
    """As whom this space is opened there."""
    protected: bool
    """Whether that role is held to the space it has opened."""
    why_not: str = ""


class SpaceStatus(Value):
    """The status of a space."""

    sequence: int
    """The audit sequence number of the newest change; 0 in an empty space."""
    objects: Mapping[str, Mapping[str, int]]
    """How many there are, by type and status."""
    passages: int
    pending_vectors: int
    quick_vectors: int
    """Passages among these that have a vector of the quick model so far."""
    behind: int
    """Objects that the index does not know yet."""
    waiting: int
    """Patches that wait for review, up to a thousand."""
    stale: int
    contested: int
    writes: tuple[LastWrite, ...]
    """The newest first."""
    making_vectors: VectorWork | None = None
    """`None` if no process is embedding, or several share the work."""
    protection: SpaceProtection | None = Field(default=None, exclude_if=lambda kept: kept is None)
    """Omitted if the database contains only this space."""


def space_status(call: Call, _given: Nothing, options: SpaceStatusOptions) -> SpaceStatus:
    """Say how a space stands."""
    ledger = call.engine.ledger
    sequence = ledger.sequence()
    # By the log and the heads: to read the objects themselves takes ten times as long.
    targets = list(dict.fromkeys(event.target for event in ledger.events() if is_object(event.target)))
    counts: Counter[tuple[str, str]] = Counter()
    for start in range(0, len(targets), _BATCH_SIZE):
        counts.update((one.type, one.status) for one in ledger.heads(targets[start : start + _BATCH_SIZE]).values())
    by_type = {kind: {status: n for (of, status), n in sorted(counts.items()) if of == kind} for kind in _COUNTED}
    lag = lag_of(call.engine.index)
    last = islice(ledger.events(after=max(sequence - options.writes, 0)), options.writes)
    return SpaceStatus(
        sequence=sequence,
        objects={kind: told for kind, told in by_type.items() if told},
        passages=lag.total,
        pending_vectors=lag.pending,
        quick_vectors=lag.quick,
        behind=lag.behind,
        waiting=len(ledger.patches(status="proposed", limit=_MOST_WAITING_SHOWN)),
        stale=counts["knowledge", "stale"],
        contested=counts["knowledge", "contested"],
        writes=tuple(
            LastWrite(at=one.timestamp, actor=one.actor, channel=one.channel, what=one.event_type, target=one.target)
            for one in reversed(list(last))
        ),
        making_vectors=_vector_work(call, lag.pending),
        protection=_protection(call),
    )


_PACE = "pace of vectors"
"""The id of the row that tells it. Its scope is null: it is of the whole space."""


def note_pace(engine: Engine, made: int, seconds: float) -> None:
    """Keep how many vectors a process in the background made in so many seconds."""
    engine.jobs.save(_PACE, {"scope": None, "made": made, "seconds": seconds})


def _vector_work(call: Call, pending: int) -> VectorWork | None:
    holding = next((one for one in call.engine.leases.held() if one.name == VECTORS), None)
    if holding is None:
        return None
    return VectorWork(process=holding.process, minutes_left=minutes_left(call.engine, pending))


def minutes_left(engine: Engine, pending: int) -> float | None:
    """Return how long `pending` vectors take at the pace of the last process in the background; None if unknown."""
    pace = engine.jobs.find(_PACE)
    return pending * pace["seconds"] / pace["made"] / 60 if pace and pace["made"] else None


def _protection(call: Call) -> SpaceProtection | None:
    if call.engine.protection is None:
        return None
    found = call.engine.protection()
    return SpaceProtection(role=found.role, protected=not found.exempt, why_not=found.exempt)


STATUS = Operation(
    "status",
    "Show the status of a space: contents, backlog, stale objects and latest changes.",
    Nothing,
    SpaceStatusOptions,
    SpaceStatus,
    space_status,
    rights=READS,
)
OPERATIONS = (STATUS,)
