"""Commands about access keys: who may ask a server that other machines reach."""

from typing import Annotated

from typer import Argument, Context, Option, Typer

from treering.edges.surfaces.cli.help import Command
from treering.edges.surfaces.cli.printing import say

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
AsJson = Annotated[bool, Option("--json", help="Print the report as JSON, and nothing else.")]


def add_to(app: Typer) -> None:
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
    from treering.edges.surfaces.cli import keys as held
    from treering.ports.access_keys import KeyLimits

    limits = KeyLimits(per_minute, at_once, max_body)
    wanted = held.WantedKey(name, right, space, project, projects, scope, expires, person, limits)
    held.create(wanted, keys, as_json=as_json)


def list_keys(space: Space = "", keys: Keys = "", as_json: AsJson = False) -> None:
    """List keys: what they open, until when, and when they were used last."""
    from treering.edges.surfaces.cli import keys as held

    held.list_keys(space, keys, as_json=as_json)


def revoke(
    key: Annotated[str, Argument(metavar="KEY", help="Its name, or its id.")],
    space: Space = "",
    keys: Keys = "",
    as_json: AsJson = False,
) -> None:
    """Have a key open nothing from now on, on all servers at once."""
    from treering.edges.surfaces.cli import keys as held

    held.revoke(key, space, keys, as_json=as_json)
