"""How a space stands, for a person who asks: what is in it, what waits, what is stale, and who wrote last."""

from collections import Counter
from collections.abc import Mapping
from itertools import islice

from pydantic import Field

from treering.core.ids import is_object
from treering.core.times import Instant
from treering.tools.envelope import Call, Nothing, Operation, Value
from treering.tools.rights import READS

_COUNTED = ("source", "knowledge", "work_item", "activity", "node")
_MOST_WAITING = 1_000
_TOGETHER = 1_000


class SpaceStatusOptions(Value):
    """How much is told."""

    writes: int = Field(default=5, ge=0, le=100, description="The last so many changes.")


class LastWrite(Value):
    """One of the last changes."""

    at: Instant
    actor: str
    channel: str
    what: str
    """Such as `created`."""
    target: str
    """The id of what was changed."""


class SpaceProtection(Value):
    """How a database that holds many spaces keeps them apart."""

    role: str
    """As whom this space is opened there."""
    protected: bool
    """Whether that role is held to the space it has opened."""
    why_not: str = ""


class SpaceStatus(Value):
    """How a space stands."""

    sequence: int
    """The audit sequence number of the newest change; 0 in an empty space."""
    objects: Mapping[str, Mapping[str, int]]
    """How many there are, by type and status."""
    passages: int
    pending_vectors: int
    behind: int
    """Objects that the index does not know yet."""
    waiting: int
    """Patches that wait for review, up to a thousand."""
    stale: int
    contested: int
    writes: tuple[LastWrite, ...]
    """The newest first."""
    protection: SpaceProtection | None = Field(default=None, exclude_if=lambda kept: kept is None)
    """Left out where nothing else lies in the database."""


def space_status(call: Call, _given: Nothing, options: SpaceStatusOptions) -> SpaceStatus:
    """Say how a space stands."""
    ledger = call.engine.ledger
    sequence = ledger.sequence()
    # By the log and the heads: to read the objects themselves takes ten times as long.
    targets = list(dict.fromkeys(event.target for event in ledger.events() if is_object(event.target)))
    counts: Counter[tuple[str, str]] = Counter()
    for start in range(0, len(targets), _TOGETHER):
        counts.update((one.type, one.status) for one in ledger.heads(targets[start : start + _TOGETHER]).values())
    by_type = {kind: {status: n for (of, status), n in sorted(counts.items()) if of == kind} for kind in _COUNTED}
    lag = call.engine.index.vectors.lag()
    last = islice(ledger.events(after=max(sequence - options.writes, 0)), options.writes)
    return SpaceStatus(
        sequence=sequence,
        objects={kind: told for kind, told in by_type.items() if told},
        passages=lag.total,
        pending_vectors=lag.pending,
        behind=lag.behind,
        waiting=len(ledger.patches(status="proposed", limit=_MOST_WAITING)),
        stale=counts["knowledge", "stale"],
        contested=counts["knowledge", "contested"],
        writes=tuple(
            LastWrite(at=one.timestamp, actor=one.actor, channel=one.channel, what=one.event_type, target=one.target)
            for one in reversed(list(last))
        ),
        protection=_protection(call),
    )


def _protection(call: Call) -> SpaceProtection | None:
    if call.engine.protection is None:
        return None
    found = call.engine.protection()
    return SpaceProtection(role=found.role, protected=not found.exempt, why_not=found.exempt)


STATUS = Operation(
    "status",
    "Tell how a space stands: what is in it, what waits, what is stale, and who wrote last.",
    Nothing,
    SpaceStatusOptions,
    SpaceStatus,
    space_status,
    rights=READS,
)
OPERATIONS = (STATUS,)
