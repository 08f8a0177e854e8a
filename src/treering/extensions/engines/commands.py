"""Commands for the engine that searches the vectors of a space."""

from typing import TYPE_CHECKING, Annotated

from typer import Argument, Option, Typer

from treering.surfaces.cli.flags import Access, add_group
from treering.surfaces.cli.help import CommandHelp
from treering.surfaces.cli.printing import IndentedLine, line
from treering.surfaces.cli.session import answer, opened, watched

if TYPE_CHECKING:
    from treering.extensions.engines.operations import EngineStatus

Later = Annotated[bool, Option("--later", help="Leave copying the vectors to a server or a later rebuild.")]
_STATES = {
    "loading": "Copying vectors to it: {vectors} of {total}. Until then, the space's own vectors answer.",
    "following": "It holds {vectors} of {total} vectors; {waiting} pending changes are searched separately.",
    "ready": "It holds all {vectors} vectors.",
    "failing": "It is not available; the space's own vectors answer: {problem}",
}


def add_index(app: Typer) -> None:
    """Add the commands to the command line."""
    add_group(app, "index", "Search vectors with an engine next to the space.", use, status, rebuild, drop)


def use(
    address: Annotated[
        str,
        Argument(
            metavar="ENGINE",
            help="faiss:FOLDER, pgvector://HOST/DATABASE, redis://HOST:PORT/0, neo4j://HOST:PORT or mongodb://HOST/DATABASE.",
        ),
    ],
    access: Access,
    later: Later = False,
) -> None:
    """Search the vectors with an engine from now on.

    The engine gets a copy of the space's vectors. Until it has all of them, the
    space's own vectors answer, so no results are missing.
    """
    from treering.extensions.engines.operations import USE

    with opened(access) as space, watched(space) as busy:
        report = busy.perform(USE, input={"address": address}, options={"wait": not later})
    answer(access, report, _engine_lines(report))


def status(access: Access) -> None:
    """Show the engine in use and its backlog."""
    from treering.extensions.engines.operations import STATUS

    with opened(access) as space:
        report = space.perform(STATUS)
    answer(access, report, _engine_lines(report))


def rebuild(access: Access, later: Later = False) -> None:
    """Rebuild the engine's data from the space."""
    from treering.extensions.engines.operations import REBUILD

    with opened(access) as space, watched(space) as busy:
        report = busy.perform(REBUILD, options={"wait": not later})
    answer(access, report, _engine_lines(report))


def drop(access: Access) -> None:
    """Delete the engine's data and stop using it."""
    from treering.extensions.engines.operations import DROP

    with opened(access) as space:
        report = space.perform(DROP)
    lines = [line("This space had no engine.")]
    if report.state != "none":
        lines = [line(f"{report.address} is no longer used; the space searches its own vectors.")]
    if report.problem:
        lines += [line(f"Its data could not be removed: {report.problem}"), line(report.hint, indent=2)]
    answer(access, report, lines)


def _engine_lines(report: "EngineStatus") -> list[IndentedLine]:
    if report.state == "none":
        return [line("This space searches its own vectors; it uses no engine.")]
    state = _STATES[report.state].format(**report.model_dump())
    lines = [line(f"{report.address} ({report.kind or 'not reached'})"), line(state, indent=2)]
    return [*lines, line(report.hint, indent=2)] if report.hint else lines


HELP = CommandHelp(
    groups={"Databases and engines": ("index",)},
    examples={
        "index use": (
            ("files next to the space, with exact search", "treering index use faiss:.treering/vectors"),
            ("with an HNSW graph, for very many vectors", "treering index use 'faiss:/data/acme-vectors?kind=hnsw'"),
            ("a server", "treering index use redis://localhost:6379/0"),
            ("with a graph for people to browse", "treering index use 'neo4j://neo4j:secret@localhost?space=acme'"),
        ),
        "index status": (("the engine's backlog", "treering index status"),),
        "index rebuild": (("rebuild damaged files", "treering index rebuild"),),
        "index drop": (("back to the space's own vectors", "treering index drop"),),
    },
)
