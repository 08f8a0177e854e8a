"""Commands for a MongoDB with the memories of wiki agents."""

from typing import Annotated

from typer import Argument, Option, Typer

from treering.surfaces.cli.flags import add_group

AddressOfMongo = Annotated[str, Argument(metavar="ADDRESS", help="mongodb://HOST/DATABASE or mongodb+srv://….")]
CollectionName = Annotated[str, Option("--collection", metavar="NAME", help="The address of the memories.")]
VectorIndex = Annotated[str, Option("--vector-index", metavar="NAME", help="The index of vectors.")]
TextIndex = Annotated[str, Option("--text-index", metavar="NAME", help="The index of words.")]
AsJson = Annotated[bool, Option("--json", help="Print only the report, as JSON.")]

_COLLECTION, _VECTORS, _TEXTS = "wiki_memories", "wiki_memories_index", "wiki_memories_text"


def add_mongodb(app: Typer) -> None:
    """Add the commands to the command line."""
    add_group(app, "mongodb", "Administer a MongoDB with the memories of wiki agents.", index, status=mongodb_status)


def index(
    address: AddressOfMongo,
    collection: CollectionName = _COLLECTION,
    vector_index: VectorIndex = _VECTORS,
    text_index: TextIndex = _TEXTS,
    wait: Annotated[
        int, Option("--wait", metavar="SECONDS", min=0, help="Maximum wait until searches can use them.")
    ] = 300,
    as_json: AsJson = False,
) -> None:
    """Create missing indexes for searches.

    A server without a search node has no indexes for vectors and words; searches
    then compare all memories of a repository, and this command reports it.
    """
    from treering.extensions.wiki import mongodb_running

    mongodb_running.mongodb_index(
        address, mongodb_running.MongoNames(collection, vector_index, text_index), wait=wait, as_json=as_json
    )


def mongodb_status(
    address: AddressOfMongo,
    collection: CollectionName = _COLLECTION,
    vector_index: VectorIndex = _VECTORS,
    text_index: TextIndex = _TEXTS,
    as_json: AsJson = False,
) -> None:
    """Show the number of memories and how they are searched."""
    from treering.extensions.wiki import mongodb_running

    mongodb_running.mongodb_status(
        address, mongodb_running.MongoNames(collection, vector_index, text_index), as_json=as_json
    )
