"""The engine that searches the vectors of a space beside it: using one, looking at it, filling it, and dropping it."""

from dataclasses import asdict, replace

from pydantic import Field

from treering.core.errors import InvalidInput
from treering.ports.vector_engine import EngineReport, EngineSelection
from treering.tools.envelope import Call, Nothing, Operation, Value
from treering.tools.rights import DECIDES, READS, WRITES


class EngineInput(Value):
    """Which engine."""

    address: str = Field(
        description="faiss:FOLDER, pgvector://HOST/DATABASE, redis://HOST:PORT/0, neo4j://HOST:PORT or "
        "mongodb://HOST/DATABASE; with a user and a password where needed.",
        repr=False,
    )


class EngineOptions(Value):
    """What follows."""

    wait: bool = Field(default=True, description="Let the engine take over all vectors now; false: in the background.")


class EngineStatus(Value):
    """How the engine of a space is. The address has no password."""

    state: str = Field(description="none, loading, following, ready or failing.")
    address: str = ""
    kind: str = ""
    vectors: int = Field(default=0, description="How many vectors the engine keeps.")
    total: int = Field(default=0, description="How many current passages of the space have a vector.")
    waiting: int = Field(default=0, description="How many changes the engine does not know yet; searched besides.")
    problem: str = ""
    hint: str = ""


def use_engine(call: Call, given: EngineInput, options: EngineOptions) -> EngineStatus:
    """Use an engine from now on. Until it has taken the vectors over, the space's own answer."""
    selection = _selection(call)
    selection.use(given.address)
    return _filled(call, selection, options)


def engine_status(call: Call, _given: Nothing, _options: Nothing) -> EngineStatus:
    """Tell how the engine of the space is."""
    return _status(_selection(call).report())


def rebuild_engine(call: Call, _given: Nothing, options: EngineOptions) -> EngineStatus:
    """Throw away what the engine keeps, and let it take all vectors over again."""
    selection = _selection(call)
    selection.rebuild()
    return _filled(call, selection, options)


def drop_engine(call: Call, _given: Nothing, _options: Nothing) -> EngineStatus:
    """Remove what the engine keeps, and search the space's own vectors again; tell how it was."""
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
            "The vectors of this space cannot be searched by an engine.",
            hint="Use one with a space that is a file, or on Postgres.",
        )
    return call.engine.selection


def _status(report: EngineReport) -> EngineStatus:
    return EngineStatus.model_validate(asdict(report))


_CONNECTS = replace(DECIDES, writes_files=True, fetches=True)
"""Names folders and servers, which are written to."""

USE = Operation(
    "index use",
    "Search the vectors of a space with an engine beside it.",
    EngineInput,
    EngineOptions,
    EngineStatus,
    use_engine,
    rights=_CONNECTS,
)
STATUS = Operation(
    "index status", "Tell how the engine of a space is.", Nothing, Nothing, EngineStatus, engine_status, rights=READS
)
REBUILD = Operation(
    "index rebuild",
    "Fill the engine of a space anew.",
    Nothing,
    EngineOptions,
    EngineStatus,
    rebuild_engine,
    rights=WRITES,
    repeatable=True,
)
DROP = Operation(
    "index drop",
    "Remove what the engine keeps, and search the space's own vectors.",
    Nothing,
    Nothing,
    EngineStatus,
    drop_engine,
    rights=DECIDES,
)
OPERATIONS = (USE, STATUS, REBUILD, DROP)
