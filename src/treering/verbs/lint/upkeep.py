"""Upkeep of a space: embedding pending passages, and leases."""

from pydantic import Field

from treering.core.errors import NotFound, nearest
from treering.ports.runtime import Holding
from treering.retrieval.index.rounds import make_whole
from treering.verbs.envelope import DECIDES, READS, WRITES, Call, Nothing, Operation, Value


class LeaseInput(Value):
    """A lease."""

    name: str = Field(description="The lease to release, as named in the list.")


class VectorsMade(Value):
    """The number of vectors computed now, of texts still to embed, and of all texts."""

    made: int
    pending: int
    total: int


class HeldLeases(Value):
    """The leases that are held now, by name."""

    held: tuple[Holding, ...]


class Cleared(Value):
    """The released lease. Its holder stops at its next renewal."""

    cleared: Holding


def make_vectors(call: Call, _given: Nothing, _options: Nothing) -> VectorsMade:
    """Embed all pending passages now, after finishing a rebuild of the index."""
    index, progress = call.engine.index, call.engine.progress
    make_whole(index, told=lambda behind: progress("indexing", behind.done, behind.total))
    pending = index.vectors.lag().pending
    if pending:
        call.engine.vectoriser.finish(call.engine.progress)
    lag = index.vectors.lag()
    return VectorsMade(made=pending - lag.pending, pending=lag.pending, total=lag.total)


def list_leases(call: Call, _given: Nothing, _options: Nothing) -> HeldLeases:
    """List the leases that are held."""
    return HeldLeases(held=tuple(call.engine.leases.held()))


def unlock(call: Call, given: LeaseInput, _options: Nothing) -> Cleared:
    """Release a lease for its holder. Raises `NotFound` if it is not held."""
    names = [one.name for one in call.engine.leases.held()]
    cleared = call.engine.leases.clear(given.name)
    if cleared is None:
        hint = nearest(given.name, names) if names else "No leases are held here."
        raise NotFound(f"No process holds the lease {given.name!r}.", hint=hint)
    return Cleared(cleared=cleared)


VECTORS = Operation.of("vectors", "Embed all pending passages.", make_vectors, rights=WRITES, repeatable=True)
LEASES = Operation.of("leases", "List the leases of a space and their holders.", list_leases, rights=READS)
UNLOCK = Operation.of(
    "unlock", "Release the lease of a process that hangs but keeps renewing it.", unlock, rights=DECIDES
)
OPERATIONS = (VECTORS, LEASES, UNLOCK)
