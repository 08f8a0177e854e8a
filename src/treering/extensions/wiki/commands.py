"""Commands for the wiki of a repository as files."""

from typing import Annotated, Literal

from typer import Argument, Option, Typer

from treering.surfaces.cli.flags import Access, add_group
from treering.surfaces.cli.help import CommandHelp

Scope = Annotated[str, Option("--scope", metavar="PATH", help="The scope of the repository in the space.")]
To = Annotated[str, Option("--to", metavar="FOLDER", help="The folder of the wiki. Default: wiki in the repository.")]
Repository = Annotated[
    str, Option("--repository", metavar="FOLDER", help="The work tree. Default: the one you are in.")
]
Links = Annotated[
    Literal["auto", "forge", "files", "text"],
    Option("--links", help="The target of citations. Default: a known forge, else files, else text."),
]
DryRun = Annotated[bool, Option("--dry-run", help="Only show what would change.")]


def add_wiki(app: Typer) -> None:
    """Add the commands to the command line."""
    commands = (build, status, page, publish, serve)
    add_group(app, "wiki", "Write a wiki of a repository as Markdown, and view it.", *commands)


def build(
    access: Access,
    to: To = "",
    repository: Repository = "",
    links: Links = "auto",
    scope: Scope = "/",
    dry_run: DryRun = False,
) -> None:
    """Write the wiki of the repository in the space.

    Writes only files that differ, all of them or none. Text that a person wrote
    stays; pages that a person changed are listed.
    """
    from treering.extensions.wiki import running

    running.build(access, scope, {"to": to, "repository": repository}, {"links": links, "dry_run": dry_run})


def status(
    access: Access,
    to: To = "",
    repository: Repository = "",
    scope: Scope = "/",
    check: Annotated[bool, Option("--check", help="Exit with 1 if anything needs attention.")] = False,
) -> None:
    """List stale pages with the reason, pages changed by a person, and broken links."""
    from treering.extensions.wiki import running

    running.status(access, scope, {"to": to, "repository": repository}, check=check)


def page(
    access: Access,
    path: Annotated[str, Argument(metavar="PAGE", help="Such as modules/flask-app.md. Default: the index.")] = "",
    of: Annotated[str, Option("--of", metavar="NAME", help="The repository, if the space has several.")] = "",
    scope: Scope = "/",
    generated: Annotated[
        str, Option("--generated", metavar="ID", help="Show the wiki that generate_wiki stored for this repository_id.")
    ] = "",
    branch: Annotated[str, Option("--branch", metavar="NAME", help="The branch of --generated.")] = "",
) -> None:
    """Show a page as it would be written now.

    Also shows the pages that link to it and the last changes of its files.
    Nothing is written.
    """
    from treering.extensions.wiki import running

    running.page(access, scope, {"path": path, "repository": of, "generated": generated, "branch": branch})


def publish(
    to: Annotated[str, Argument(metavar="FOLDER", help="The folder to write to, such as the source of a site.")],
    access: Access,
    repository: Repository = "",
    links: Links = "auto",
    scope: Scope = "/",
    dry_run: DryRun = False,
    generated: Annotated[
        str,
        Option("--generated", metavar="ID", help="Publish the wiki that generate_wiki stored for this repository_id."),
    ] = "",
    branch: Annotated[str, Option("--branch", metavar="NAME", help="The branch of --generated.")] = "",
) -> None:
    """Write the wiki into a folder for other readers.

    Like build, but citations link to the forge or nowhere, never into the work
    tree. With --generated, publishes the pages written by agents.
    """
    from treering.extensions.wiki import running

    paths = {"to": to, "repository": repository, "generated": generated, "branch": branch}
    running.publish(access, scope, paths, {"links": links, "dry_run": dry_run})


def serve(
    folder: Annotated[str, Argument(metavar="FOLDER", help="The folder of the wiki. Default: wiki.")] = "wiki",
    port: Annotated[
        int, Option("--port", metavar="N", min=0, max=65535, help="The port to listen on; 0 picks a free one.")
    ] = 8421,
) -> None:
    """Show a wiki in the browsers of this machine.

    Read-only. Prints its address and runs until stopped (Ctrl-C).
    """
    from treering.extensions.wiki import running

    running.serve(folder, port)


HELP = CommandHelp(
    groups={"Wikis, conversations, tickets": ("wiki",), "Databases and engines": ("mongodb",)},
    examples={
        "mongodb index": (
            (
                "for an Atlas cluster or your own server",
                "treering mongodb index mongodb+srv://ada@cluster.example.org/wikis",
            ),
        ),
        "mongodb status": (("how searches are answered", "treering mongodb status mongodb://127.0.0.1/wikis"),),
        "wiki build": (
            ("of the current repository, into its folder wiki", "treering wiki build"),
            ("into another folder, only showing the changes", "treering wiki build --to ../wiki --dry-run"),
        ),
        "wiki status": (
            ("stale and edited pages, broken links", "treering wiki status"),
            ("in CI, failing if there are any", "treering wiki status --check"),
        ),
        "wiki page": (
            ("list the pages", "treering wiki page"),
            ("show a page", "treering wiki page modules/flask-app.md"),
        ),
        "wiki publish": (("into the source folder of a site", "treering wiki publish site/docs"),),
        "wiki serve": (("the pages in a local browser", "treering wiki serve"),),
    },
)
