"""The implementation of `treering mongodb`."""

import time
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import asdict, dataclass
from typing import TYPE_CHECKING

from treering.core.counting import counted_things
from treering.core.errors import MissingExtra
from treering.surfaces.cli.flags import Access
from treering.surfaces.cli.printing import IndentedLine, line
from treering.surfaces.cli.session import answer

if TYPE_CHECKING:
    from treering.extensions.wiki.memories.mongo_store import CollectionState, MongoWikiMemories


_POLL_SECONDS = 1.0
_INDEX_STATES = {
    "ready": "ready",
    "building": "being built; searches are exact until it is ready",
    "failed": "failed; check the server, drop the index there, and create it again",
    "other": "incomplete: fields or the dimension that searches need are missing; drop it and create it again",
    "missing": "missing; `treering mongodb index` creates it",
    "not offered": "not offered by this server",
}


@dataclass(frozen=True, slots=True)
class MongoNames:
    """The names of the collection and its indexes."""

    collection: str
    vector_index: str
    text_index: str


def mongodb_index(address: str, names: MongoNames, *, wait: int, as_json: bool) -> None:
    """Create the indexes, and wait until they are ready."""
    with _opened_mongodb(address, names) as store:
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


def mongodb_status(address: str, names: MongoNames, *, as_json: bool) -> None:
    """Report the state of the collection."""
    with _opened_mongodb(address, names) as store:
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
def _opened_mongodb(address: str, names: MongoNames) -> "Iterator[MongoWikiMemories]":
    try:
        from treering.extensions.wiki.memories.mongo_store import MongoWikiMemories
    except ModuleNotFoundError as error:
        raise MissingExtra("mongodb", needed_for="`treering mongodb`") from error
    store = MongoWikiMemories(
        address, collection=names.collection, vector_index=names.vector_index, text_index=names.text_index
    )
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
