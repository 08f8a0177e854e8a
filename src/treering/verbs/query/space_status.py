"""The status of a space for people: contents, backlog, stale objects and latest changes."""

from collections import Counter
from collections.abc import Callable, Mapping
from itertools import islice

from pydantic import Field

from treering.core.canonical import Instant
from treering.ports.runtime import VECTORS
from treering.retrieval.index.rounds import lag_of
from treering.verbs.engine import Engine
from treering.verbs.envelope import READS, Call, Nothing, Operation, Value
from treering.verbs.index_warnings import lag_seen
from treering.verbs.stale import stale_knowledge

_COUNTED = ("source", "knowledge", "work_item", "activity", "node")
_MAX_WAITING_SHOWN = 1_000
_PACE = "pace of vectors"
"""The id of the row with the pace of embedding. Its scope is null: it covers the whole space."""
_EARLIER_VECTORS = 500
"""The maximum weight of earlier processes in the pace of the current one."""


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
    """At the pace of the latest background processes; `None` before it is known."""


class SpaceProtection(Value):
    """How a database separates its spaces."""

    role: str
    """The database role that this space was opened with."""
    protected: bool
    """Whether that role can access only this space."""
    why_not: str = ""


class SpaceStatus(Value):
    """The status of a space."""

    sequence: int
    """The audit sequence number of the newest change; 0 in an empty space."""
    objects: Mapping[str, Mapping[str, int]]
    """Number of objects by type and status."""
    passages: int
    pending_vectors: int
    quick_vectors: int
    """Passages among these that have a vector of the quick model so far."""
    behind: int
    """Objects that the index does not know yet."""
    waiting: int
    """Patches that wait for review, up to a thousand."""
    stale: int
    """Stale statements, including statements that lost their lines only on the branch of the work tree."""
    contested: int
    writes: tuple[LastWrite, ...]
    """The newest first."""
    making_vectors: VectorWork | None = None
    """`None` if no process is embedding, or several share the work."""
    protection: SpaceProtection | None = Field(default=None, exclude_if=lambda protection: protection is None)
    """Omitted if the database contains only this space."""


def space_status(call: Call, _given: Nothing, options: SpaceStatusOptions) -> SpaceStatus:
    """Return the status of a space."""
    ledger = call.engine.ledger
    sequence = ledger.sequence()
    counts: Counter[tuple[str, str]] = Counter()
    for (_scope, kind, status), number in ledger.counts().items():
        counts[kind, status] += number
    by_type = {kind: {status: n for (of, status), n in sorted(counts.items()) if of == kind} for kind in _COUNTED}
    lag = lag_seen(call.engine, lag_of(call.engine.index))
    last = islice(ledger.events(after=max(sequence - options.writes, 0)), options.writes)
    return SpaceStatus(
        sequence=sequence,
        objects={kind: statuses for kind, statuses in by_type.items() if statuses},
        passages=lag.total,
        pending_vectors=lag.pending,
        quick_vectors=lag.quick,
        behind=lag.behind,
        waiting=len(ledger.patches(status="proposed", limit=_MAX_WAITING_SHOWN)),
        stale=len(stale_knowledge(call.engine, call.scope, {})),
        contested=counts["knowledge", "contested"],
        writes=tuple(
            LastWrite(at=one.timestamp, actor=one.actor, channel=one.channel, what=one.event_type, target=one.target)
            for one in reversed(list(last))
        ),
        making_vectors=_vector_work(call, lag.pending),
        protection=_protection(call),
    )


def pace_notes(engine: Engine) -> Callable[[int, float], None]:
    """Return a function that saves the vectors that a background process has made so far, and its seconds.

    They are added to earlier ones: the first vectors of a process take longest, because it loads the model.
    """
    earlier = engine.jobs.find(_PACE) or {"made": 0, "seconds": 0.0}
    share = min(1.0, _EARLIER_VECTORS / max(earlier["made"], 1))

    def note(made: int, seconds: float) -> None:
        total = {"made": made + share * earlier["made"], "seconds": seconds + share * earlier["seconds"]}
        engine.jobs.save(_PACE, {"scope": None, **total})

    return note


def _vector_work(call: Call, pending: int) -> VectorWork | None:
    holding = next((one for one in call.engine.leases.held() if one.name == VECTORS), None)
    if holding is None:
        return None
    return VectorWork(process=holding.process, minutes_left=minutes_left(call.engine, pending))


def minutes_left(engine: Engine, pending: int) -> float | None:
    """Return the minutes that `pending` vectors take at the pace of background processes; `None` if unknown."""
    pace = engine.jobs.find(_PACE)
    return pending * pace["seconds"] / pace["made"] / 60 if pace and pace["made"] else None


def _protection(call: Call) -> SpaceProtection | None:
    if call.engine.protection is None:
        return None
    protection = call.engine.protection()
    return SpaceProtection(role=protection.role, protected=not protection.exempt, why_not=protection.exempt)


STATUS = Operation.of(
    "status",
    "Show the status of a space: contents, backlog, stale objects and latest changes.",
    space_status,
    rights=READS,
)
OPERATIONS = (STATUS,)
