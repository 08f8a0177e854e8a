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
    from treering.spaces import wiring

    say(wiring.postgres_plan(writer=writer, reader=reader, tablespaces=tablespace or (), citus=citus).rstrip())


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
    from treering.surfaces.cli.session import told_to_stop
    from treering.surfaces.python.logs import log_warnings
    from treering.system.settings import Settings

    address = Settings.read().space_address(space or None)
    log_warnings()
    with told_to_stop() as wait:
        say(f"Treering works for all spaces of the database of {address}")
        databases.work_for_spaces(address, wait=wait)


# Commands about access keys: who may ask a server that other machines reach.


Space = Annotated[str, Option("--space", metavar="ADDRESS", help="The space it opens; as in every command.")]


def add_keys(app: Typer) -> None:
    """Add the commands to the command line."""
    add_group(
        app,
        "key",
        "Create, list and revoke the keys of a server.",
        {"create": create, "list": list_keys, "revoke": revoke},
    )


@dataclass(frozen=True, slots=True)
class KeyFlags:
    """What a new key is to open."""

    right: Annotated[
        str, Option("--right", metavar="RIGHT", help="read, write, review or admin; each includes the ones before it.")
    ] = "read"
    space: Space = ""
    project: Annotated[
        str, Option("--project", metavar="ID", help="Open the memory of this project instead of a space.")
    ] = ""
    projects: Annotated[
        str, Option("--projects", metavar="PLACE", help="Location of the server's projects; as in `treering serve`.")
    ] = ""
    scope: Annotated[str, Option("--scope", metavar="PATH", help="Only this scope and the scopes below it.")] = "/"
    expires: Annotated[str, Option("--expires", metavar="WHEN", help="12h, 90d, 1y, or a date. Default: never.")] = ""
    person: Annotated[bool, Option("--person", help="Write as a person, not as an agent (see the policy file).")] = (
        False
    )
    requests_per_minute: Annotated[
        int | None,
        Option("--requests-per-minute", metavar="N", min=1, help="Requests per minute. Default: the server's limit."),
    ] = None
    at_once: Annotated[
        int | None,
        Option("--at-once", metavar="N", min=1, help="Concurrent requests. Default: the server's limit."),
    ] = None
    max_body_bytes: Annotated[
        int | None,
        Option("--max-body", metavar="BYTES", min=1, help="Largest request. Default: the server's limit."),
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
    name: Annotated[str, Argument(metavar="NAME", help="The author of its writes, such as ci or ada@laptop.")],
    wanted: KeyFlags,
    kept: KeptKeys,
) -> None:
    """Create a key and print it once.

    Only its hash is stored, so the key cannot be shown again. Give it to one
    program or person, who sends it as `Authorization: Bearer trk_…`.
    """
    databases.create_key(name, wanted, kept)


def list_keys(kept: KeptKeys, space: Space = "") -> None:
    """List keys with their rights, expiry and last use."""
    databases.list_keys(space, kept)


def revoke(
    key: Annotated[str, Argument(metavar="KEY", help="The key's name or id.")], kept: KeptKeys, space: Space = ""
) -> None:
    """Revoke a key on all servers at once."""
    databases.revoke_key(key, space, kept)


# Commands for the engine that searches the vectors of a space beside it.


Later = Annotated[bool, Option("--later", help="Leave copying the vectors to a server or a later rebuild.")]


def add_index(app: Typer) -> None:
    """Add the commands to the command line."""
    add_group(
        app,
        "index",
        "Search vectors with an engine next to the space.",
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

    The engine gets a copy of the space's vectors. Until it has all of them, the
    space's own vectors answer, so no results are missing.
    """
    databases.use_engine(address, access, later=later)


def status(access: Access) -> None:
    """Show the engine in use and its backlog."""
    databases.show_engine(access)


def rebuild(access: Access, later: Later = False) -> None:
    """Rebuild the engine's data from the space."""
    databases.rebuild_engine(access, later=later)


def drop(access: Access) -> None:
    """Delete the engine's data and stop using it."""
    databases.drop_engine(access)
