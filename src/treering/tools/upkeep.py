"""Upkeep of a space: the vectors that wait, and the leases that processes hold."""

from pydantic import Field

from treering.core.errors import NotFound, nearest
from treering.derived.lookup import make_whole
from treering.ports.lease import Holding
from treering.tools.envelope import Call, Nothing, Operation, Value
from treering.tools.rights import DECIDES, READS, WRITES


class LeaseInput(Value):
    """Which lease."""

    name: str = Field(description="The lease to take away, as the list names it.")


class VectorsMade(Value):
    """How many vectors were made now, how many texts still wait for theirs, and of how many."""

    made: int
    pending: int
    total: int


class HeldLeases(Value):
    """The leases that are held now, by name."""

    held: tuple[Holding, ...]


class Cleared(Value):
    """The lease that was taken away. Its holder stops at its next renewal."""

    cleared: Holding


def make_vectors(call: Call, _given: Nothing, _options: Nothing) -> VectorsMade:
    """Make all vectors that wait, now; an index that is being made anew is finished first."""
    index, told = call.engine.index, call.engine.progress
    make_whole(index, told=lambda behind: told("indexing", behind.done, behind.total))
    waiting = index.vectors.lag().pending
    if waiting:
        call.engine.vectoriser.finish(call.engine.progress)
    lag = index.vectors.lag()
    return VectorsMade(made=waiting - lag.pending, pending=lag.pending, total=lag.total)


def list_leases(call: Call, _given: Nothing, _options: Nothing) -> HeldLeases:
    """List who holds a lease."""
    return HeldLeases(held=tuple(call.engine.leases.held()))


def unlock(call: Call, given: LeaseInput, _options: Nothing) -> Cleared:
    """Take a lease away from its holder. Raises `NotFound` where nobody holds it."""
    names = [one.name for one in call.engine.leases.held()]
    cleared = call.engine.leases.clear(given.name)
    if cleared is None:
        hint = nearest(given.name, names) if names else "Nobody holds a lease here."
        raise NotFound(f"No process holds the lease {given.name!r}.", hint=hint)
    return Cleared(cleared=cleared)


VECTORS = Operation(
    "vectors",
    "Make the vectors that wait.",
    Nothing,
    Nothing,
    VectorsMade,
    make_vectors,
    rights=WRITES,
    repeatable=True,
)
LEASES = Operation(
    "leases", "List who holds a lease of a space.", Nothing, Nothing, HeldLeases, list_leases, rights=READS
)
UNLOCK = Operation(
    "unlock",
    "Take a lease away from a process that hangs and renews it.",
    LeaseInput,
    Nothing,
    Cleared,
    unlock,
    rights=DECIDES,
)
OPERATIONS = (VECTORS, LEASES, UNLOCK)
