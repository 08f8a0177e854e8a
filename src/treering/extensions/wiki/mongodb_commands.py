"""Commands for a MongoDB with the memories of wiki agents."""

import time
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import asdict
from typing import TYPE_CHECKING, Annotated

from typer import Argument, Option, Typer

from treering.core.counting import counted_things
from treering.core.errors import needing
from treering.surfaces.cli.flags import Access, AsJson, add_group
from treering.surfaces.cli.printing import IndentedLine, line
from treering.surfaces.cli.session import answer

if TYPE_CHECKING:
    from treering.extensions.wiki.memories.mongo_store import CollectionState, MongoWikiMemories

AddressOfMongo = Annotated[str, Argument(metavar="ADDRESS", help="mongodb://HOST/DATABASE or mongodb+srv://….")]
CollectionName = Annotated[str, Option("--collection", metavar="NAME", help="The address of the memories.")]
VectorIndex = Annotated[str, Option("--vector-index", metavar="NAME", help="The index of vectors.")]
TextIndex = Annotated[str, Option("--text-index", metavar="NAME", help="The index of words.")]

_COLLECTION, _VECTORS, _TEXTS = "wiki_memories", "wiki_memories_index", "wiki_memories_text"
_POLL_SECONDS = 1.0
_INDEX_STATES = {
    "ready": "ready",
    "building": "being built; searches are exact until it is ready",
    "failed": "failed; check the server, drop the index there, and create it again",
    "other": "incomplete: fields or the dimension that searches need are missing; drop it and create it again",
    "missing": "missing; `treering mongodb index` creates it",
    "not offered": "not offered by this server",
}


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
    with _opened_mongodb(address, collection, vector_index, text_index) as store:
        states = store.make_indexes()
        end = time.monotonic() + wait
        while "building" in states.values() and time.monotonic() < end:
            time.sleep(_POLL_SECONDS)
            states = store.make_indexes()
        state = store.state()
    answer(
        Access(as_json=as_json),
        _collection_facts(state),
        [line("All indexes of the collection exist."), *_collection_lines(state)],
    )


def mongodb_status(
    address: AddressOfMongo,
    collection: CollectionName = _COLLECTION,
    vector_index: VectorIndex = _VECTORS,
    text_index: TextIndex = _TEXTS,
    as_json: AsJson = False,
) -> None:
    """Show the number of memories and how they are searched."""
    with _opened_mongodb(address, collection, vector_index, text_index) as store:
        state = store.state()
    memories = counted_things(state.memories, "memory", "memories")
    repositories = counted_things(state.repositories, "repository", "repositories")
    withdrawn = f", {state.withdrawn:,} withdrawn" if state.withdrawn else ""
    answer(
        Access(as_json=as_json),
        _collection_facts(state),
        [line(f"{memories} of {repositories}{withdrawn}."), *_collection_lines(state)],
    )


@contextmanager
def _opened_mongodb(address: str, collection: str, vector_index: str, text_index: str) -> "Iterator[MongoWikiMemories]":
    with needing("mongodb", "`treering mongodb`"):
        from treering.extensions.wiki.memories.mongo_store import MongoWikiMemories
    store = MongoWikiMemories(address, collection=collection, vector_index=vector_index, text_index=text_index)
    try:
        yield store
    finally:
        store.close()


def _collection_facts(state: "CollectionState") -> Mapping[str, object]:
    return {**asdict(state), "searched": state.searched}


def _collection_lines(state: "CollectionState") -> list[IndentedLine]:
    lines = [line(f"{name}: {_INDEX_STATES[how]}", indent=2) for name, how in state.search.items()]
    if state.other_model:
        memories = counted_things(state.other_model, "memory has a vector", "memories have vectors")
        lines.append(line(f"{memories} of another model, and can be found only by words.", indent=2))
    how = "compared one by one" if state.searched == "exact" else f"found by {state.searched}"
    return [*lines, line(f"Memories are {how}.")]
