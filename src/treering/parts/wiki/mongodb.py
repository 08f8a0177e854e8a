"""What `treering mongodb` does."""

import time
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import asdict, dataclass
from typing import TYPE_CHECKING

from treering.core.errors import MissingExtra
from treering.surfaces.cli.flags import Access
from treering.surfaces.cli.printing import IndentedLine, line
from treering.surfaces.cli.session import answer

if TYPE_CHECKING:
    from treering.parts.wiki.memories.mongo_store import CollectionState, MongoWikiMemories

_BETWEEN_LOOKS = 1.0
_SAID = {
    "ready": "ready",
    "building": "being built; searches are exact until it is ready",
    "failed": "failed; look at the server, drop it there, and make it again",
    "other": "there, but without the fields or the dimension that searches need; drop it, and make it again",
    "missing": "missing; `treering mongodb index` makes it",
    "not offered": "not offered by this server",
}


@dataclass(frozen=True, slots=True)
class Names:
    """What the collection and its indexes are called."""

    collection: str
    vector_index: str
    text_index: str


def index(address: str, names: Names, *, wait: int, as_json: bool) -> None:
    """Make the indexes, and wait until they are usable."""
    with _opened(address, names) as kept:
        states = kept.make_indexes()
        end = time.monotonic() + wait
        while "building" in states.values() and time.monotonic() < end:
            time.sleep(_BETWEEN_LOOKS)
            states = kept.make_indexes()
        state = kept.state()
    answer(Access(as_json=as_json), _facts(state), [line("The indexes of the collection are there."), *_told(state)])


def status(address: str, names: Names, *, as_json: bool) -> None:
    """Tell how the collection is."""
    with _opened(address, names) as kept:
        state = kept.state()
    memories = _counted(state.memories, "memory", "memories")
    repositories = _counted(state.repositories, "repository", "repositories")
    withdrawn = f", {state.withdrawn:,} withdrawn" if state.withdrawn else ""
    answer(Access(as_json=as_json), _facts(state), [line(f"{memories} of {repositories}{withdrawn}."), *_told(state)])


@contextmanager
def _opened(address: str, names: Names) -> "Iterator[MongoWikiMemories]":
    try:
        from treering.parts.wiki.memories.mongo_store import MongoWikiMemories
    except ModuleNotFoundError as error:
        raise MissingExtra("mongodb", needed_for="`treering mongodb`") from error
    kept = MongoWikiMemories(
        address, collection=names.collection, vector_index=names.vector_index, text_index=names.text_index
    )
    try:
        yield kept
    finally:
        kept.close()


def _facts(state: "CollectionState") -> Mapping[str, object]:
    return {**asdict(state), "searched": state.searched}


def _told(state: "CollectionState") -> list[IndentedLine]:
    lines = [line(f"{name}: {_SAID[how]}", indent=2) for name, how in state.search.items()]
    if state.other_model:
        memories = _counted(state.other_model, "memory has a vector", "memories have vectors")
        lines.append(line(f"{memories} of another model, and can be found by words alone.", indent=2))
    how = "compared one by one" if state.searched == "exact" else f"found by {state.searched}"
    return [*lines, line(f"Memories are {how}.")]


def _counted(number: int, one: str, many: str) -> str:
    return f"{number:,} {one if number == 1 else many}"
