"""Memories whose messages are gone: they are archived, and what is left of their chunks is made anew."""

from collections.abc import Iterator, Sequence

from treering.core.errors import Conflict, NotFound
from treering.core.filters import And, Compare
from treering.core.knowledge_payloads import Summary
from treering.core.objects import Knowledge
from treering.core.patch import Operation, Transition
from treering.derived.lookup import make_whole
from treering.memories.discussion.blocks import Block, heads_of, read_block
from treering.memories.discussion.identity import Place
from treering.memories.discussion.submitting import ATTEMPTS, apply_patch
from treering.memories.discussion.versions import NAMES, title_of_versions
from treering.ports.ledger import Selection
from treering.ports.reach import Reach
from treering.tools.engine import Engine


def archive_fallen(engine: Engine, place: Place) -> None:
    """Archive the memories that went stale, because what they rest on was erased or archived by other means.

    In the same patch the states of their chunks go. Writes nothing where there are none.
    """
    for _ in range(ATTEMPTS):
        fallen = _fallen(engine, place)
        if not fallen:
            return
        try:
            operations = [*_forgotten(engine, place, fallen), *_archived(fallen)]
            apply_patch(engine, place, operations, reason="Memories whose messages are gone")
        except (Conflict, NotFound):  # somebody was first: look again
            continue


def _fallen(engine: Engine, place: Place) -> list[Knowledge]:
    where = _where(place)
    make_whole(engine.index)
    # The index counts them without reading anything; mostly there are none.
    if not engine.index.passages.count(Reach(place.scope, where=where, withdrawn=True)):
        return []
    found = engine.ledger.select(Selection(scope=place.scope, types=("knowledge",), where=where))
    return [item for item in found if isinstance(item, Knowledge) and _home(item) is not None]


def _where(place: Place) -> And:
    fields = {"type": "knowledge", "kind": "summary", "scope": place.scope, "status": "stale"}
    # The keepers of the texts see to their own versions.
    texts = (title_of_versions(place, form) for form in NAMES)
    wanted = [Compare(name, "eq", value) for name, value in fields.items()]
    return And((*wanted, *(Compare("title", "ne", text) for text in texts)))


def _home(item: Knowledge) -> int | None:
    """Return the position in whose block a memory is noted; other summaries are noted in none."""
    match item.payload:
        case Summary(form="memory", first=position) | Summary(form="condensation", last=position):
            return position
        case _:
            return None


def _archived(fallen: Sequence[Knowledge]) -> Iterator[Operation]:
    for item in fallen:
        yield Transition(id=item.id, expected_revision=item.revision, to="archived")


def _forgotten(engine: Engine, place: Place, fallen: Sequence[Knowledge]) -> Iterator[Operation]:
    """Return what takes fallen memories out of the blocks that note them."""
    ids = {item.id for item in fallen}
    homes = {home for home in map(_home, fallen) if home is not None}
    for head in heads_of(engine.ledger, scope=place.scope, origin=place.origin):
        if any(head.first <= home < head.end for home in homes):
            yield from _without(read_block(engine.ledger, head), ids)


def _without(block: Block, ids: set[str]) -> Iterator[Operation]:
    chunks = [state for state in block.chunks if not ids & {*state.memories}]
    condensations = [one for one in block.condensations if one.memory not in ids]
    if len(chunks) < len(block.chunks) or len(condensations) < len(block.condensations):
        yield block.changed(chunks=chunks, condensations=condensations)
