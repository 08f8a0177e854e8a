"""Commands about access keys, engines that search vectors, and Postgres databases that hold spaces."""

from dataclasses import dataclass
from typing import TYPE_CHECKING, Annotated

from typer import Argument, Option, Typer

from treering.facades import LazyModule
from treering.surfaces.cli.flags import Access, AsJson, add_group
from treering.surfaces.cli.printing import say

if TYPE_CHECKING:
    from treering.surfaces.cli import databases
else:
    databases = LazyModule("treering.surfaces.cli.databases")


def add_postgres(app: Typer) -> None:
    """Add the commands to the command line."""
    told = "Administer a Postgres database that holds spaces."
    add_group(app, "postgres", told, {"plan": plan, "work": work})


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
    from treering.spaces import wiring

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
    from treering.surfaces.cli.session import told_to_stop
    from treering.surfaces.python.logs import log_warnings
    from treering.system.settings import Settings

    address = Settings.read().space_address(space or None)
    log_warnings()
    with told_to_stop() as wait:
        say(f"Treering works for all spaces of the database of {address}")
        databases.work_for_spaces(address, wait=wait)


# Commands about access keys: who may ask a server that other machines reach.


Space = Annotated[str, Option("--space", metavar="ADDRESS", help="The space it opens; as for every command.")]


def add_keys(app: Typer) -> None:
    """Add the commands to the command line."""
    add_group(
        app,
        "key",
        "Make, list and revoke the keys of a server.",
        {"create": create, "list": list_keys, "revoke": revoke},
    )


@dataclass(frozen=True, slots=True)
class KeyFlags:
    """What a new key is to open."""

    right: Annotated[
        str, Option("--right", metavar="RIGHT", help="read, write, review or admin; each includes those before it.")
    ] = "read"
    space: Space = ""
    project: Annotated[
        str, Option("--project", metavar="ID", help="Open the memory of this project instead of a space.")
    ] = ""
    projects: Annotated[
        str, Option("--projects", metavar="PLACE", help="Where the server keeps projects; as for `treering serve`.")
    ] = ""
    scope: Annotated[str, Option("--scope", metavar="PATH", help="Only this scope and what lies below it.")] = "/"
    expires: Annotated[str, Option("--expires", metavar="WHEN", help="12h, 90d, 1y, or a date. Default: never.")] = ""
    person: Annotated[bool, Option("--person", help="Write as a person, not as an agent (see the policy file).")] = (
        False
    )
    requests_per_minute: Annotated[
        int | None,
        Option("--requests-per-minute", metavar="N", min=1, help="How often it may ask. Default: the server's number."),
    ] = None
    at_once: Annotated[
        int | None,
        Option("--at-once", metavar="N", min=1, help="How many answers it may wait for. Default: the server's number."),
    ] = None
    max_body_bytes: Annotated[
        int | None,
        Option("--max-body", metavar="BYTES", min=1, help="Its largest request. Default: the server's number."),
    ] = None


@dataclass(frozen=True, slots=True)
class KeptKeys:
    """Where keys are kept, and how to answer."""

    keys: Annotated[
        str,
        Option(
            "--keys",
            metavar="PLACE",
            help="A file, or postgresql://…. Default: TREERING_KEYS, else the database of the space, else keys.db in "
            "the data folder.",
        ),
    ] = ""
    as_json: AsJson = False


def create(
    name: Annotated[str, Argument(metavar="NAME", help="Who writes with it, such as ci or ada@laptop.")],
    wanted: KeyFlags,
    kept: KeptKeys,
) -> None:
    """Make a key, and print it once.

    It is kept as a hash: nobody can show it again. Give it to one program or
    person, who sends it as `Authorization: Bearer trk_…`.
    """
    databases.create_key(name, wanted, kept)


def list_keys(kept: KeptKeys, space: Space = "") -> None:
    """List keys: what they open, until when, and when they were used last."""
    databases.list_keys(space, kept)


def revoke(
    key: Annotated[str, Argument(metavar="KEY", help="Its name, or its id.")], kept: KeptKeys, space: Space = ""
) -> None:
    """Have a key open nothing from now on, on all servers at once."""
    databases.revoke_key(key, space, kept)


# Commands for the engine that searches the vectors of a space beside it.


Later = Annotated[bool, Option("--later", help="Leave taking the vectors over to a server or a later rebuild.")]


def add_index(app: Typer) -> None:
    """Add the commands to the command line."""
    add_group(
        app,
        "index",
        "Search vectors with an engine beside the space.",
        {"use": use, "status": status, "rebuild": rebuild, "drop": drop},
    )


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
    databases.use_engine(address, access, later=later)


def status(access: Access) -> None:
    """Tell which engine is used, and how far behind it is."""
    databases.show_engine(access)


def rebuild(access: Access, later: Later = False) -> None:
    """Fill the engine anew, whatever it keeps now."""
    databases.rebuild_engine(access, later=later)


def drop(access: Access) -> None:
    """Remove what the engine keeps, and use none."""
    databases.drop_engine(access)
