"""Upkeep of a space: embedding pending passages, leases, and the vector engine."""

from dataclasses import asdict, replace

from pydantic import Field

from treering.core.errors import InvalidInput, NotFound, nearest
from treering.ports.runtime import Holding
from treering.ports.vector_engine import EngineReport, EngineSelection
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


class EngineInput(Value):
    """A vector engine."""

    address: str = Field(
        description="faiss:FOLDER, pgvector://HOST/DATABASE, redis://HOST:PORT/0, neo4j://HOST:PORT or "
        "mongodb://HOST/DATABASE; with a user and a password where needed.",
        repr=False,
    )


class EngineOptions(Value):
    """What follows."""

    wait: bool = Field(default=True, description="Move all vectors into the engine now; false: in the background.")


class EngineStatus(Value):
    """How the engine of a space is. The address has no password."""

    state: str = Field(description="none, loading, following, ready or failing.")
    address: str = ""
    kind: str = ""
    vectors: int = Field(default=0, description="Number of vectors in the engine.")
    total: int = Field(default=0, description="Number of current passages with a vector.")
    waiting: int = Field(
        default=0, description="Number of changes not yet in the engine; they are searched separately."
    )
    problem: str = ""
    hint: str = ""


def use_engine(call: Call, given: EngineInput, options: EngineOptions) -> EngineStatus:
    """Use an engine from now on. Until it has all vectors, the space searches its own."""
    selection = _selection(call)
    selection.use(given.address)
    return _filled(call, selection, options)


def engine_status(call: Call, _given: Nothing, _options: Nothing) -> EngineStatus:
    """Return the status of the engine of the space."""
    return _status(_selection(call).report())


def rebuild_engine(call: Call, _given: Nothing, options: EngineOptions) -> EngineStatus:
    """Delete the vectors in the engine, and copy all of them again."""
    selection = _selection(call)
    selection.rebuild()
    return _filled(call, selection, options)


def drop_engine(call: Call, _given: Nothing, _options: Nothing) -> EngineStatus:
    """Delete the vectors in the engine, search the space's own again, and return the former status."""
    return _status(_selection(call).drop())


def _filled(call: Call, selection: EngineSelection, options: EngineOptions) -> EngineStatus:
    if not options.wait:
        call.engine.vectoriser.start()
        return _status(selection.report())
    while selection.advance():
        report = selection.report()
        call.engine.progress("taking vectors over", report.vectors, report.total)
    return _status(selection.report())


def _selection(call: Call) -> EngineSelection:
    if call.engine.selection is None:
        raise InvalidInput(
            "An engine cannot search the vectors of this space.",
            hint="Use an engine with a space that is a file, or on Postgres.",
        )
    return call.engine.selection


def _status(report: EngineReport) -> EngineStatus:
    return EngineStatus.model_validate(asdict(report))


_CONNECTS = replace(DECIDES, writes_files=True, fetches=True)
"""Writes to a folder or server that the caller names."""

USE = Operation.of("index use", "Search the vectors of a space with an external engine.", use_engine, rights=_CONNECTS)
STATUS = Operation.of("index status", "Show the status of the engine of a space.", engine_status, rights=READS)
REBUILD = Operation.of("index rebuild", "Refill the engine of a space.", rebuild_engine, rights=WRITES, repeatable=True)
DROP = Operation.of(
    "index drop", "Delete the vectors in the engine, and search the space's own.", drop_engine, rights=DECIDES
)
ENGINE_OPERATIONS = (USE, STATUS, REBUILD, DROP)
