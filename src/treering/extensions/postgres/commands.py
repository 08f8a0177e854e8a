"""Commands for a Postgres database that holds spaces."""

from typing import Annotated

from typer import Option, Typer

from treering.core.errors import needing
from treering.surfaces.cli.flags import add_group
from treering.surfaces.cli.help import CommandHelp
from treering.surfaces.cli.printing import say
from treering.surfaces.cli.session import stop_requested
from treering.system.settings import Settings


def add_postgres(app: Typer) -> None:
    """Add the commands to the command line."""
    add_group(app, "postgres", "Administer a Postgres database that holds spaces.", plan, work)


def plan(
    writer: Annotated[str, Option("--writer", metavar="ROLE", help="Grant this role the rights to write.")] = "",
    reader: Annotated[str, Option("--reader", metavar="ROLE", help="Grant this role the rights to read.")] = "",
    tablespace: Annotated[
        list[str] | None,
        Option("--tablespace", metavar="NAME", help="Spread the partitions over these tablespaces; repeatable."),
    ] = None,
    citus: Annotated[
        bool, Option("--citus", help="Distribute the tables over the servers of a Citus cluster.")
    ] = False,
) -> None:
    """Print SQL for roles, several disks or Citus.

    Does not run anything or connect to a database: read the SQL, then run it
    with psql as the owner of the tables.
    """
    with needing("postgres", "A plan for Postgres"):
        from treering.extensions.postgres.plan import Wanted, plan_of
    wanted = Wanted(writer=writer, reader=reader, tablespaces=tuple(tablespace or ()), citus=citus)
    say(plan_of(wanted).rstrip())


def work(
    space: Annotated[
        str,
        Option("--space", metavar="ADDRESS", help="Any space of the database; the work covers all its spaces."),
    ] = "",
) -> None:
    """Do the background work of all spaces of a database until stopped.

    Embeds pending passages and finishes index rebuilds. Any number of processes
    on any number of machines may run this: they share the work and take over
    from processes that died.
    """
    from treering.extensions.postgres.space_worker import work_for_spaces
    from treering.surfaces.python.logs import log_warnings

    address = Settings.read().space_address(space or None)
    log_warnings()
    with stop_requested() as wait:
        say(f"Treering works for all spaces of the database of {address}")
        work_for_spaces(address, wait=wait)


HELP = CommandHelp(
    groups={"Databases and engines": ("postgres",)},
    examples={
        "postgres work": (
            (
                "next to the servers, in any number of processes",
                "treering postgres work --space 'postgresql://app@db/team?space=acme'",
            ),
        ),
        "postgres plan": (
            ("a role for programs and one for reports", "treering postgres plan --writer app --reader report"),
            ("on two disks", "treering postgres plan --tablespace fast --tablespace wide"),
            ("distributed over several servers", "treering postgres plan --citus --writer app"),
        ),
    },
)
