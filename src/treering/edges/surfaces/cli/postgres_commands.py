"""Commands for administrators of a Postgres database that holds spaces."""

from typing import Annotated

from typer import Context, Option, Typer

from treering.edges.surfaces.cli.help import Command
from treering.edges.surfaces.cli.printing import say


def add_to(app: Typer) -> None:
    """Add the commands to the command line."""
    postgres = Typer(rich_markup_mode=None, invoke_without_command=True)
    postgres.callback()(administer)
    postgres.command("plan", cls=Command)(plan)
    postgres.command("work", cls=Command)(work)
    app.add_typer(postgres, name="postgres")


def administer(context: Context) -> None:
    """Administer a Postgres database that holds spaces."""
    if context.invoked_subcommand is None:
        say(context.get_help())


def plan(
    writer: Annotated[str, Option("--writer", metavar="ROLE", help="Grant this role what writing needs.")] = "",
    reader: Annotated[str, Option("--reader", metavar="ROLE", help="Grant this role what reading needs.")] = "",
    tablespace: Annotated[
        list[str] | None,
        Option("--tablespace", metavar="NAME", help="Spread the partitions over it and the others; repeatable."),
    ] = None,
    citus: Annotated[bool, Option("--citus", help="Distribute the tables over the servers of a Citus.")] = False,
) -> None:
    """Print SQL for roles, for several disks or for Citus.

    Nothing is run and no database is asked: read it, and run it with psql as
    the owner of the tables.
    """
    from treering.edges import wiring

    say(wiring.postgres_plan(writer=writer, reader=reader, tablespaces=tablespace or (), citus=citus).rstrip())


def work(
    space: Annotated[
        str,
        Option("--space", metavar="ADDRESS", help="Any space of the database; all of its spaces are worked for."),
    ] = "",
) -> None:
    """Do the background work of all spaces of a database, until told to stop.

    It makes the vectors that wait, and finishes indexes that are being made
    anew. Any number of processes may do this, on any number of machines: they
    share the work, and take over what one that died was at.
    """
    from treering.edges.settings import Settings
    from treering.edges.space_worker import work_for_spaces
    from treering.edges.surfaces.cli.stopping import told_to_stop
    from treering.edges.surfaces.logs import log_warnings

    address = Settings.read().space_address(space or None)
    log_warnings()
    with told_to_stop() as wait:
        say(f"Treering works for all spaces of the database of {address}")
        work_for_spaces(address, wait=wait)
