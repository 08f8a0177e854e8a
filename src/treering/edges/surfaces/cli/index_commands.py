"""Commands for the engine that searches the vectors of a space beside it."""

from typing import Annotated

from typer import Argument, Context, Option, Typer

from treering.edges.surfaces.cli.flags import Access, spread
from treering.edges.surfaces.cli.help import Command
from treering.edges.surfaces.cli.printing import say

Later = Annotated[bool, Option("--later", help="Leave taking the vectors over to a server or a later rebuild.")]


def add_to(app: Typer) -> None:
    """Add the commands to the command line."""
    index = Typer(rich_markup_mode=None, invoke_without_command=True)
    index.callback()(engine)
    for name, command in (("use", use), ("status", status), ("rebuild", rebuild), ("drop", drop)):
        index.command(name, cls=Command)(spread(command))
    app.add_typer(index, name="index")


def engine(context: Context) -> None:
    """Search vectors with an engine beside the space."""
    if context.invoked_subcommand is None:
        say(context.get_help())


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

    It takes them over from the space, which keeps its own. Until it knows
    all, the space's own vectors answer, and nothing is missing.
    """
    from treering.edges.surfaces.cli import indexing

    indexing.use(address, access, later=later)


def status(access: Access) -> None:
    """Tell which engine is used, and how far behind it is."""
    from treering.edges.surfaces.cli import indexing

    indexing.status(access)


def rebuild(access: Access, later: Later = False) -> None:
    """Fill the engine anew, whatever it keeps now."""
    from treering.edges.surfaces.cli import indexing

    indexing.rebuild(access, later=later)


def drop(access: Access) -> None:
    """Remove what the engine keeps, and use none."""
    from treering.edges.surfaces.cli import indexing

    indexing.drop(access)
