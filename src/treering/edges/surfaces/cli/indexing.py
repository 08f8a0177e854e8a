"""What `treering index` does."""

from treering.edges.surfaces.cli.flags import Access
from treering.edges.surfaces.cli.rendering.lines import IndentedLine, line
from treering.edges.surfaces.cli.session import answer, opened, watched
from treering.tools.index_engine import DROP, REBUILD, STATUS, USE, EngineStatus

_SAID = {
    "loading": "It takes the vectors over: {vectors} of {total}. Until it knows all, the space's own answer.",
    "following": "It keeps {vectors} of {total} vectors; {waiting} changes wait and are searched besides.",
    "ready": "It keeps all {vectors} vectors.",
    "failing": "It cannot be used, and the space's own vectors answer: {problem}",
}


def use(address: str, access: Access, *, later: bool) -> None:
    """Use an engine."""
    with opened(access) as space, watched(space) as busy:
        told = busy.perform(USE, input={"address": address}, options={"wait": not later})
    answer(access, told, _lines(told))


def status(access: Access) -> None:
    """Tell how the engine is."""
    with opened(access) as space:
        told = space.perform(STATUS)
    answer(access, told, _lines(told))


def rebuild(access: Access, *, later: bool) -> None:
    """Fill the engine anew."""
    with opened(access) as space, watched(space) as busy:
        told = busy.perform(REBUILD, options={"wait": not later})
    answer(access, told, _lines(told))


def drop(access: Access) -> None:
    """Use no engine."""
    with opened(access) as space:
        told = space.perform(DROP)
    lines = [line("This space used no engine.")]
    if told.state != "none":
        lines = [line(f"{told.address} is no longer used; the space searches its own vectors.")]
    if told.problem:
        lines += [line(f"What it keeps could not be removed: {told.problem}"), line(told.hint, indent=2)]
    answer(access, told, lines)


def _lines(told: EngineStatus) -> list[IndentedLine]:
    if told.state == "none":
        return [line("This space searches its own vectors; it uses no engine.")]
    said = _SAID[told.state].format(**told.model_dump())
    lines = [line(f"{told.address} ({told.kind or 'not reached'})"), line(said, indent=2)]
    return [*lines, line(told.hint, indent=2)] if told.hint else lines
