"""Commands for the wiki of a repository as files."""

from typing import Annotated, Literal

from typer import Argument, Context, Option, Typer

from treering.surfaces.cli.flags import Access, spread
from treering.surfaces.cli.help import Command, CommandHelp
from treering.surfaces.cli.printing import say

Scope = Annotated[str, Option("--scope", metavar="PATH", help="Where in the space the repository is.")]
To = Annotated[str, Option("--to", metavar="FOLDER", help="The folder of the wiki. Default: wiki in the repository.")]
Repository = Annotated[
    str, Option("--repository", metavar="FOLDER", help="The work tree. Default: the one you are in.")
]
Links = Annotated[
    Literal["auto", "forge", "files", "text"],
    Option("--links", help="Where citations lead. Default: the forge if its form is known, else files, else nowhere."),
]
DryRun = Annotated[bool, Option("--dry-run", help="Tell what would change, and change nothing.")]


def add_wiki(app: Typer) -> None:
    """Add the commands to the command line."""
    wiki = Typer(rich_markup_mode=None, invoke_without_command=True)
    wiki.callback()(tell)
    for name, command in (
        ("build", build),
        ("status", status),
        ("page", page),
        ("publish", publish),
        ("serve", serve),
    ):
        wiki.command(name, cls=Command)(spread(command))
    app.add_typer(wiki, name="wiki")


def tell(context: Context) -> None:
    """Write a wiki of a repository as Markdown, and look at it."""
    if context.invoked_subcommand is None:
        say(context.get_help())


def build(
    access: Access,
    to: To = "",
    repository: Repository = "",
    links: Links = "auto",
    scope: Scope = "/",
    dry_run: DryRun = False,
) -> None:
    """Write the wiki of the repository that the space holds.

    Only files that differ are written, all of them or none. What a person
    wrote stays; pages that they changed are told.
    """
    from treering.parts.wiki import running

    running.build(access, scope, {"to": to, "repository": repository}, {"links": links, "dry_run": dry_run})


def status(
    access: Access,
    to: To = "",
    repository: Repository = "",
    scope: Scope = "/",
    check: Annotated[bool, Option("--check", help="Fail where anything asks for somebody.")] = False,
) -> None:
    """Tell which pages are stale and why, which a person changed, and which links are broken."""
    from treering.parts.wiki import running

    running.status(access, scope, {"to": to, "repository": repository}, check=check)


def page(
    access: Access,
    path: Annotated[str, Argument(metavar="PAGE", help="Such as modules/flask-app.md. Default: the index.")] = "",
    of: Annotated[str, Option("--of", metavar="NAME", help="The repository, where the space holds several.")] = "",
    scope: Scope = "/",
    generated: Annotated[
        str, Option("--generated", metavar="ID", help="Show what generate_wiki keeps of this repository_id.")
    ] = "",
    branch: Annotated[str, Option("--branch", metavar="NAME", help="The branch that --generated is of.")] = "",
) -> None:
    """Show a page as it would be written now.

    With the pages that link to it, and the last changes of its files.
    Nothing is written.
    """
    from treering.parts.wiki import running

    running.page(access, scope, {"path": path, "repository": of, "generated": generated, "branch": branch})


def publish(
    to: Annotated[str, Argument(metavar="FOLDER", help="The folder to write to, such as that of a site.")],
    access: Access,
    repository: Repository = "",
    links: Links = "auto",
    scope: Scope = "/",
    dry_run: DryRun = False,
    generated: Annotated[
        str, Option("--generated", metavar="ID", help="Publish what generate_wiki keeps of this repository_id.")
    ] = "",
    branch: Annotated[str, Option("--branch", metavar="NAME", help="The branch that --generated is of.")] = "",
) -> None:
    """Write the wiki into a folder for readers elsewhere.

    As build does, but citations lead to the forge or nowhere, never into the
    work tree. With --generated the pages that agents wrote are published.
    """
    from treering.parts.wiki import running

    given = {"to": to, "repository": repository, "generated": generated, "branch": branch}
    running.publish(access, scope, given, {"links": links, "dry_run": dry_run})


def serve(
    folder: Annotated[str, Argument(metavar="FOLDER", help="The folder of the wiki. Default: wiki.")] = "wiki",
    port: Annotated[int, Option("--port", metavar="N", min=0, max=65535, help="0: any that is free.")] = 8421,
) -> None:
    """Show a wiki to the browsers of this machine.

    Read-only. Prints its address, and answers until it is told to stop (Ctrl-C).
    """
    from treering.parts.wiki import running

    running.serve(folder, port)


# Commands for a MongoDB that keeps the memories of wiki agents.


AddressOfMongo = Annotated[str, Argument(metavar="ADDRESS", help="mongodb://HOST/DATABASE or mongodb+srv://….")]
CollectionName = Annotated[str, Option("--collection", metavar="NAME", help="Where the memories are.")]
VectorIndex = Annotated[str, Option("--vector-index", metavar="NAME", help="The index of vectors.")]
TextIndex = Annotated[str, Option("--text-index", metavar="NAME", help="The index of words.")]
AsJson = Annotated[bool, Option("--json", help="Print the report as JSON, and nothing else.")]

_COLLECTION, _VECTORS, _TEXTS = "wiki_memories", "wiki_memories_index", "wiki_memories_text"


def add_mongodb(app: Typer) -> None:
    """Add the commands to the command line."""
    mongodb = Typer(rich_markup_mode=None, invoke_without_command=True)
    mongodb.callback()(administer)
    mongodb.command("index", cls=Command)(index)
    mongodb.command("status", cls=Command)(mongodb_status)
    app.add_typer(mongodb, name="mongodb")


def administer(context: Context) -> None:
    """Look after a MongoDB that keeps memories of wiki agents."""
    if context.invoked_subcommand is None:
        say(context.get_help())


def index(
    address: AddressOfMongo,
    collection: CollectionName = _COLLECTION,
    vector_index: VectorIndex = _VECTORS,
    text_index: TextIndex = _TEXTS,
    wait: Annotated[
        int, Option("--wait", metavar="SECONDS", min=0, help="Wait at most so long until searches can use them.")
    ] = 300,
    as_json: AsJson = False,
) -> None:
    """Make the indexes that searches use, where they are missing.

    A server without a search node has none for vectors and words: there every
    memory of a repository is compared, and this says so.
    """
    from treering.parts.wiki import running

    running.mongodb_index(address, running.MongoNames(collection, vector_index, text_index), wait=wait, as_json=as_json)


def mongodb_status(
    address: AddressOfMongo,
    collection: CollectionName = _COLLECTION,
    vector_index: VectorIndex = _VECTORS,
    text_index: TextIndex = _TEXTS,
    as_json: AsJson = False,
) -> None:
    """Tell how many memories there are, and how they are searched."""
    from treering.parts.wiki import running

    running.mongodb_status(address, running.MongoNames(collection, vector_index, text_index), as_json=as_json)


HELP = CommandHelp(
    groups={"Wikis, conversations, tickets": ("wiki",), "Databases and engines": ("mongodb",)},
    examples={
        "mongodb index": (
            (
                "for an Atlas cluster, or a server of your own",
                "treering mongodb index mongodb+srv://ada@cluster.example.org/wikis",
            ),
        ),
        "mongodb status": (("how searches are answered", "treering mongodb status mongodb://127.0.0.1/wikis"),),
        "wiki build": (
            ("of the repository you are in, into its folder wiki", "treering wiki build"),
            ("into another folder, telling only what would change", "treering wiki build --to ../wiki --dry-run"),
        ),
        "wiki status": (
            ("what is stale, edited or broken", "treering wiki status"),
            ("in a check that fails where anything is", "treering wiki status --check"),
        ),
        "wiki page": (
            ("which pages there are", "treering wiki page"),
            ("one of them", "treering wiki page modules/flask-app.md"),
        ),
        "wiki publish": (("into the folder of a site", "treering wiki publish site/docs"),),
        "wiki serve": (("the pages in a browser of this machine", "treering wiki serve"),),
    },
)
