"""Commands for a MongoDB that keeps the memories of wiki agents."""

from typing import Annotated

from typer import Argument, Context, Option, Typer

from treering.edges.surfaces.cli.help import Command
from treering.edges.surfaces.cli.printing import say

AddressOfMongo = Annotated[str, Argument(metavar="ADDRESS", help="mongodb://HOST/DATABASE or mongodb+srv://….")]
CollectionName = Annotated[str, Option("--collection", metavar="NAME", help="Where the memories are.")]
VectorIndex = Annotated[str, Option("--vector-index", metavar="NAME", help="The index of vectors.")]
TextIndex = Annotated[str, Option("--text-index", metavar="NAME", help="The index of words.")]
AsJson = Annotated[bool, Option("--json", help="Print the report as JSON, and nothing else.")]

_COLLECTION, _VECTORS, _TEXTS = "wiki_memories", "wiki_memories_index", "wiki_memories_text"


def add_to(app: Typer) -> None:
    """Add the commands to the command line."""
    mongodb = Typer(rich_markup_mode=None, invoke_without_command=True)
    mongodb.callback()(administer)
    mongodb.command("index", cls=Command)(index)
    mongodb.command("status", cls=Command)(status)
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
    from treering.edges.surfaces.cli import mongodb

    mongodb.index(address, mongodb.Names(collection, vector_index, text_index), wait=wait, as_json=as_json)


def status(
    address: AddressOfMongo,
    collection: CollectionName = _COLLECTION,
    vector_index: VectorIndex = _VECTORS,
    text_index: TextIndex = _TEXTS,
    as_json: AsJson = False,
) -> None:
    """Tell how many memories there are, and how they are searched."""
    from treering.edges.surfaces.cli import mongodb

    mongodb.status(address, mongodb.Names(collection, vector_index, text_index), as_json=as_json)
