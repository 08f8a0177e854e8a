"""Commands for administrators of a Postgres database that holds spaces."""

from typing import Annotated

from typer import Argument, Context, Option, Typer

from treering.surfaces.cli.flags import Access, spread
from treering.surfaces.cli.help import Command
from treering.surfaces.cli.printing import say

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


def add_postgres(app: Typer) -> None:
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
    from treering.spaces import wiring

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
    from treering.surfaces.cli import serving_spaces

    serving_spaces.add(server, address, directory, as_json=as_json)


def list_servers(directory: Directory = "", as_json: AsJson = False) -> None:
    """List the servers of a directory, and moves that are not done."""
    from treering.surfaces.cli import serving_spaces

    serving_spaces.list_servers(directory, as_json=as_json)


def drain(server: ServerName, directory: Directory = "", as_json: AsJson = False) -> None:
    """Move all spaces of a server to the others.

    It takes no new ones from now on. Called again, it goes on.
    """
    from treering.surfaces.cli import serving_spaces

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
    from treering.surfaces.cli import serving_spaces

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
    from treering.spaces.space_worker import work_for_spaces
    from treering.surfaces.cli.session import told_to_stop
    from treering.surfaces.python.logs import log_warnings
    from treering.system.settings import Settings

    address = Settings.read().space_address(space or None)
    log_warnings()
    with told_to_stop() as wait:
        say(f"Treering works for all spaces of the database of {address}")
        work_for_spaces(address, wait=wait)


# Commands about access keys: who may ask a server that other machines reach.


Keys = Annotated[
    str,
    Option(
        "--keys",
        metavar="PLACE",
        help="A file, or postgresql://…. Default: TREERING_KEYS, else the database of the space, else keys.db in the "
        "data folder.",
    ),
]
Space = Annotated[str, Option("--space", metavar="ADDRESS", help="The space it opens; as for every command.")]


def add_keys(app: Typer) -> None:
    """Add the commands to the command line."""
    key = Typer(rich_markup_mode=None, invoke_without_command=True)
    key.callback()(manage)
    for name, command in (("create", create), ("list", list_keys), ("revoke", revoke)):
        key.command(name, cls=Command)(command)
    app.add_typer(key, name="key")


def manage(context: Context) -> None:
    """Make, list and revoke the keys of a server."""
    if context.invoked_subcommand is None:
        say(context.get_help())


def create(
    name: Annotated[str, Argument(metavar="NAME", help="Who writes with it, such as ci or ada@laptop.")],
    right: Annotated[
        str, Option("--right", metavar="RIGHT", help="read, write, review or admin; each includes those before it.")
    ] = "read",
    space: Space = "",
    project: Annotated[
        str, Option("--project", metavar="ID", help="Open the memory of this project instead of a space.")
    ] = "",
    projects: Annotated[
        str, Option("--projects", metavar="PLACE", help="Where the server keeps projects; as for `treering serve`.")
    ] = "",
    scope: Annotated[str, Option("--scope", metavar="PATH", help="Only this scope and what lies below it.")] = "/",
    expires: Annotated[str, Option("--expires", metavar="WHEN", help="12h, 90d, 1y, or a date. Default: never.")] = "",
    person: Annotated[
        bool, Option("--person", help="Write as a person, not as an agent (see the policy file).")
    ] = False,
    per_minute: Annotated[
        int | None,
        Option("--requests-per-minute", metavar="N", min=1, help="How often it may ask. Default: the server's number."),
    ] = None,
    at_once: Annotated[
        int | None,
        Option("--at-once", metavar="N", min=1, help="How many answers it may wait for. Default: the server's number."),
    ] = None,
    max_body: Annotated[
        int | None,
        Option("--max-body", metavar="BYTES", min=1, help="Its largest request. Default: the server's number."),
    ] = None,
    keys: Keys = "",
    as_json: AsJson = False,
) -> None:
    """Make a key, and print it once.

    It is kept as a hash: nobody can show it again. Give it to one program or
    person, who sends it as `Authorization: Bearer trk_…`.
    """
    from treering.ports.stores import KeyLimits
    from treering.surfaces.cli import keys as held

    limits = KeyLimits(per_minute, at_once, max_body)
    wanted = held.WantedKey(name, right, space, project, projects, scope, expires, person, limits)
    held.create(wanted, keys, as_json=as_json)


def list_keys(space: Space = "", keys: Keys = "", as_json: AsJson = False) -> None:
    """List keys: what they open, until when, and when they were used last."""
    from treering.surfaces.cli import keys as held

    held.list_keys(space, keys, as_json=as_json)


def revoke(
    key: Annotated[str, Argument(metavar="KEY", help="Its name, or its id.")],
    space: Space = "",
    keys: Keys = "",
    as_json: AsJson = False,
) -> None:
    """Have a key open nothing from now on, on all servers at once."""
    from treering.surfaces.cli import keys as held

    held.revoke(key, space, keys, as_json=as_json)


# Commands for the engine that searches the vectors of a space beside it.


Later = Annotated[bool, Option("--later", help="Leave taking the vectors over to a server or a later rebuild.")]


def add_index(app: Typer) -> None:
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
    from treering.surfaces.cli import keys

    keys.use(address, access, later=later)


def status(access: Access) -> None:
    """Tell which engine is used, and how far behind it is."""
    from treering.surfaces.cli import keys

    keys.status(access)


def rebuild(access: Access, later: Later = False) -> None:
    """Fill the engine anew, whatever it keeps now."""
    from treering.surfaces.cli import keys

    keys.rebuild(access, later=later)


def drop(access: Access) -> None:
    """Remove what the engine keeps, and use none."""
    from treering.surfaces.cli import keys

    keys.drop(access)
