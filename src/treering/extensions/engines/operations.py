"""Operations on the vector engine of a space."""

from dataclasses import asdict, replace

from pydantic import Field

from treering.core.errors import InvalidInput
from treering.extensions.engines.engine_address import FORMS
from treering.ports.vector_engine import EngineReport, EngineSelection
from treering.verbs.envelope import DECIDES, READS, WRITES, Call, Nothing, Operation, Value


class EngineInput(Value):
    """A vector engine."""

    address: str = Field(
        description=f"{FORMS}; with a user and a password where needed.",
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
OPERATIONS = (USE, STATUS, REBUILD, DROP)
