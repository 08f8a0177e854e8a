"""Commands for administrators of a Postgres database that holds spaces."""

from typing import Annotated

from typer import Argument, Context, Option, Typer

from treering.edges.surfaces.cli.help import Command
from treering.edges.surfaces.cli.printing import say

Directory = Annotated[
    str,
    Option(
        "--directory",
        metavar="ADDRESS",
        help="postgresql://OWNER@HOST/DATABASE; default: that of TREERING_SPACE.",
    ),
]
ServerName = Annotated[str, Argument(metavar="SERVER", help="The name of a server.")]
AsJson = Annotated[bool, Option("--json", help="Print the report as JSON, and nothing else.")]


def add_to(app: Typer) -> None:
    """Add the commands to the command line."""
    postgres = Typer(rich_markup_mode=None, invoke_without_command=True)
    postgres.callback()(administer)
    postgres.command("plan", cls=Command)(plan)
    postgres.command("move", cls=Command)(move)
    servers = Typer(rich_markup_mode=None, invoke_without_command=True)
    servers.callback()(share)
    for name, command in (("add", add), ("list", list_servers), ("drain", drain)):
        servers.command(name, cls=Command)(command)
    postgres.add_typer(servers, name="servers")
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


def share(context: Context) -> None:
    """Let several servers share the spaces."""
    if context.invoked_subcommand is None:
        say(context.get_help())


def add(
    server: ServerName,
    address: Annotated[str, Argument(metavar="ADDRESS", help="postgresql://HOST/DATABASE, without a password.")],
    directory: Directory = "",
    as_json: AsJson = False,
) -> None:
    """Add a server to a directory, with the spaces it has.

    Its database is given the tables. Once more: with a new address, or to
    end draining.
    """
    from treering.edges.surfaces.cli import serving_spaces

    serving_spaces.add(server, address, directory, as_json=as_json)


def list_servers(directory: Directory = "", as_json: AsJson = False) -> None:
    """List the servers of a directory, and moves that are not done."""
    from treering.edges.surfaces.cli import serving_spaces

    serving_spaces.list_servers(directory, as_json=as_json)


def drain(server: ServerName, directory: Directory = "", as_json: AsJson = False) -> None:
    """Move all spaces of a server to the others.

    It takes no new ones from now on. Called again, it goes on.
    """
    from treering.edges.surfaces.cli import serving_spaces

    serving_spaces.drain(server, directory, as_json=as_json)


def move(
    space: Annotated[str, Argument(metavar="SPACE", help="The name of the space, as in ?space=NAME.")],
    server: ServerName,
    directory: Directory = "",
    as_json: AsJson = False,
) -> None:
    """Move a space to another server, while it is used.

    Called again, it goes on with what was broken off. The server that has
    the space ends a move that was begun.
    """
    from treering.edges.surfaces.cli import serving_spaces

    serving_spaces.move(space, server, directory, as_json=as_json)


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
