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
