"""What `treering wiki` and `treering mongodb` do."""

import time
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import TYPE_CHECKING

import typer

from treering.core.canonical import render_time
from treering.core.counting import counted_things
from treering.core.errors import MissingExtra
from treering.extensions.wiki.operations import BUILD, PUBLISH, STATUS, WikiStatus, WikiWritten
from treering.extensions.wiki.reading import PAGE
from treering.surfaces.cli.flags import Access
from treering.surfaces.cli.printing import IndentedLine, line, say
from treering.surfaces.cli.session import answer, opened, watched
from treering.verbs.envelope import Operation

if TYPE_CHECKING:
    from treering.extensions.wiki.memories.mongo_store import CollectionState, MongoWikiMemories

_NOT_IN_ORDER = 1
_MOST_LISTED = 20


def build(access: Access, scope: str, given: Mapping[str, str], options: Mapping[str, object]) -> None:
    """Write the wiki into its folder."""
    _write(BUILD, access, scope, given, options)


def publish(access: Access, scope: str, given: Mapping[str, str], options: Mapping[str, object]) -> None:
    """Write the wiki into another folder."""
    _write(PUBLISH, access, scope, given, options)


def status(access: Access, scope: str, given: Mapping[str, str], *, check: bool) -> None:
    """Tell how a wiki stands."""
    with opened(access) as space:
        told = space.perform(STATUS, scope, given)
    answer(access, told, _standing(told))
    if check and not told.in_order:
        raise typer.Exit(_NOT_IN_ORDER)


def page(access: Access, scope: str, given: Mapping[str, str]) -> None:
    """Show a page."""
    with opened(access) as space, watched(space) as busy:
        told = busy.perform(PAGE, scope, given)
    linked = [line(f"{one.path}  {one.title}", indent=2) for one in told.linked_from[:_MOST_LISTED]]
    changed = [
        line(f"{render_time(one.at)[:16].replace('T', ' ')}  {one.what} {one.path}  by {one.actor}", indent=2)
        for one in told.changes
    ]
    lines = [
        *(line(one) for one in told.text.strip().splitlines()),
        *([line(""), line("Linked from:"), *linked] if linked else []),
        *([line(""), line("Changes of its files:"), *changed] if changed else []),
    ]
    answer(access, told, lines)


def serve(folder: str, port: int) -> None:
    """Show a wiki until it is told to stop."""
    from treering.extensions.wiki.showing import wiki_server

    with wiki_server(Path(folder), port=port) as server:
        say(f"The wiki is at http://127.0.0.1:{server.server_address[1]}/")
        server.serve_forever()


def _write(
    operation: Operation[WikiWritten],
    access: Access,
    scope: str,
    given: Mapping[str, str],
    options: Mapping[str, object],
) -> None:
    with opened(access) as space, watched(space) as busy:
        told = busy.perform(operation, scope, given, options)
    answer(access, told, _written(told))


def _written(told: WikiWritten) -> Iterator[IndentedLine]:
    would = "would be " if told.dry_run else ""
    count = f"{told.pages} {'page' if told.pages == 1 else 'pages'}"
    yield line((told.title, "bold"), f": {count} in {told.folder}")
    changes = (f"{len(told.written)} files {would}written", f"{len(told.unchanged)} unchanged")
    yield line(f"{', '.join(changes)}, {len(told.removed)} {would}removed.", indent=2)
    yield from _list(
        "Left unchanged because a person wrote or changed them:",
        told.conflicts,
        "`treering ingest` proposes such edits; delete a page to have it rewritten.",
    )


def _standing(told: WikiStatus) -> Iterator[IndentedLine]:
    fresh = sum(page.state == "fresh" for page in told.pages)
    yield line((told.title, "bold"), f": {fresh} of {len(told.pages)} pages are fresh, in {told.folder}")
    stale = [page for page in told.pages if page.state != "fresh"]
    for page in stale[:_MOST_LISTED]:
        yield line(f"{page.path} ", (page.state, "yellow"), indent=2)
        yield from (line(why, indent=4) for why in page.why)
    if len(stale) > _MOST_LISTED:
        yield line(f"and {len(stale) - _MOST_LISTED} more; --json lists them", indent=2)
    yield from _list("Changed by a person:", told.conflicts, "`treering ingest` proposes such edits.")
    yield from _list("Missing:", told.missing, "`treering wiki build` restores them.")
    broken = [f"{one.page}: {one.target} ({one.why})" for one in told.broken_links]
    yield from _list("Broken links:", broken, "")
    if told.in_order:
        yield line("Nothing to do.", indent=2)


def _list(title: str, names: Sequence[str], hint: str) -> Iterator[IndentedLine]:
    if not names:
        return
    yield line((title, "yellow"), indent=2)
    yield from (line(name, indent=4) for name in names[:_MOST_LISTED])
    if len(names) > _MOST_LISTED:
        yield line(f"and {len(names) - _MOST_LISTED} more; --json lists them", indent=4)
    if hint:
        yield line(hint, indent=4)


# What `treering mongodb` does.


_BETWEEN_LOOKS = 1.0
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
    """What the collection and its indexes are called."""

    collection: str
    vector_index: str
    text_index: str


def mongodb_index(address: str, names: MongoNames, *, wait: int, as_json: bool) -> None:
    """Make the indexes, and wait until they are usable."""
    with _opened_mongodb(address, names) as kept:
        states = kept.make_indexes()
        end = time.monotonic() + wait
        while "building" in states.values() and time.monotonic() < end:
            time.sleep(_BETWEEN_LOOKS)
            states = kept.make_indexes()
        state = kept.state()
    answer(
        Access(as_json=as_json),
        _collection_facts(state),
        [line("All indexes of the collection exist."), *_collection_lines(state)],
    )


def mongodb_status(address: str, names: MongoNames, *, as_json: bool) -> None:
    """Tell how the collection is."""
    with _opened_mongodb(address, names) as kept:
        state = kept.state()
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
    kept = MongoWikiMemories(
        address, collection=names.collection, vector_index=names.vector_index, text_index=names.text_index
    )
    try:
        yield kept
    finally:
        kept.close()


def _collection_facts(state: "CollectionState") -> Mapping[str, object]:
    return {**asdict(state), "searched": state.searched}


def _collection_lines(state: "CollectionState") -> list[IndentedLine]:
    lines = [line(f"{name}: {_INDEX_STATES[how]}", indent=2) for name, how in state.search.items()]
    if state.other_model:
        memories = counted_things(state.other_model, "memory has a vector", "memories have vectors")
        lines.append(line(f"{memories} of another model, and can be found only by words.", indent=2))
    how = "compared one by one" if state.searched == "exact" else f"found by {state.searched}"
    return [*lines, line(f"Memories are {how}.")]
