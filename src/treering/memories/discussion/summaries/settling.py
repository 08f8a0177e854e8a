"""What a run finds before it makes anything: blocks that need no more work, and memories whose messages are gone."""

from collections.abc import Iterator, Sequence
from contextlib import suppress

from treering.core.canonical import digest
from treering.core.errors import Conflict, NotFound
from treering.core.filters import And, Compare
from treering.core.knowledge_payloads import Summary
from treering.core.objects import Knowledge
from treering.core.patch import Operation, Receipt, Transition, Update
from treering.memories.discussion.identity import DiscussionRef, apply_patch
from treering.memories.discussion.log.blocks import Block, BlockHead, active_block, heads_of, read_block
from treering.memories.discussion.summaries.versions import NAMES, title_of_versions
from treering.ports.ledger import Selection
from treering.tools.engine import Engine
from treering.tools.retrying import retry_on_conflict

_MARK = "settled"
_EVERY = 4
"""So many blocks are read in vain before a new mark is written."""


class Settled:
    """The blocks that are done for good, as one run knows them.

    A closed block may carry a mark: a hash of the ids and revisions of all blocks before it, written when every chunk
    of theirs was made. While the hash is right none of them has changed, so none needs to be read.
    """

    def __init__(self, engine: Engine, ref: DiscussionRef) -> None:
        self._engine = engine
        self._ref = ref
        self._heads = heads_of(engine.ledger, scope=ref.scope, origin=ref.origin)
        self._read = 0
        self._revisions = {head.source_id: head.revision for head in self._marked()}

    def open_blocks(self) -> list[BlockHead]:
        """Return the blocks that may need work, oldest first."""
        return [head for head in self._heads if head.source_id not in self._revisions]

    def is_last(self, head: BlockHead) -> bool:
        """Tell whether no block follows."""
        return head.source_id == self._heads[-1].source_id

    @property
    def count(self) -> int:
        """How many messages the discussion had when the run began."""
        return self._heads[-1].end if self._heads else 0

    def block_at(self, position: int) -> Block | None:
        """Read the block with a position as it stands now; `None` where it is gone."""
        head = next((head for head in self._heads if head.first <= position < head.end), None)
        return active_block(self._engine.ledger, head) if head else None

    def look(self, block: Block) -> None:
        """Note whether a block, as it was read, is done for good."""
        finished = {
            position
            for state in block.chunks
            if state.status in {"done", "empty"}
            for position in range(state.first, state.last + 1)
        }
        spoken = {message.position for message in block.messages if not message.deleted}
        if spoken <= finished and not self.is_last(block.head):
            self._revisions[block.source.id] = block.source.revision

    def wrote(self, receipt: Receipt) -> None:
        """Note the revisions of blocks that this run has changed itself."""
        self._revisions |= {result.id: result.revision for result in receipt.results if result.id in self._revisions}

    def keep(self) -> None:
        """Write a new mark, where without it the next run would read many blocks in vain."""
        done = next((at for at, head in enumerate(self._heads) if head.source_id not in self._revisions), 0)
        if self._read < _EVERY or done < _EVERY:
            return
        before, marked = self._heads[: done - 1], self._heads[done - 1]
        block = read_block(self._engine.ledger, marked)
        payload = {**block.source.payload, _MARK: self._hash(before)}
        update = Update(
            id=marked.source_id, expected_revision=self._revisions[marked.source_id], changes={"payload": payload}
        )
        try:
            apply_patch(self._engine, self._ref, [update], reason="Blocks that are done")
        except (Conflict, NotFound):
            return  # somebody changed it meanwhile: a later run writes the mark

    def _marked(self) -> list[BlockHead]:
        """Return the blocks before the newest mark that is right."""
        for at in range(len(self._heads) - 1, 0, -1):
            self._read += 1
            source = read_block(self._engine.ledger, self._heads[at]).source
            before = self._heads[:at]
            revisions = {head.source_id: head.revision for head in before}
            if source.payload.get(_MARK) == _hash_of(before, revisions):
                return before
        return []

    def _hash(self, heads: Sequence[BlockHead]) -> str:
        return _hash_of(heads, self._revisions)


def archive_fallen(engine: Engine, ref: DiscussionRef) -> None:
    """Archive the memories that went stale, because what they rest on was erased or archived by other means.

    In the same patch the states of their chunks go. Writes nothing where there are none.
    """

    def archive() -> None:
        if fallen := _fallen(engine, ref):
            operations = [*_forgotten(engine, ref, fallen), *_archived(fallen)]
            apply_patch(engine, ref, operations, reason="Memories whose messages are gone")

    with suppress(Conflict, NotFound):  # others are first again and again: the next run looks again
        retry_on_conflict(archive, on=(Conflict, NotFound))


def _hash_of(heads: Sequence[BlockHead], revisions: dict[str, int]) -> str:
    return digest("\n".join(f"{head.source_id} {revisions[head.source_id]}" for head in heads))


def _fallen(engine: Engine, ref: DiscussionRef) -> list[Knowledge]:
    found = engine.ledger.select(Selection(scope=ref.scope, types=("knowledge",), where=_where(ref)))
    return [item for item in found if isinstance(item, Knowledge) and _home(item) is not None]


def _where(ref: DiscussionRef) -> And:
    fields = {"kind": "summary", "scope": ref.scope, "status": "stale"}
    # The keepers of the texts see to their own versions.
    texts = (title_of_versions(ref, form) for form in NAMES)
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


def _forgotten(engine: Engine, ref: DiscussionRef, fallen: Sequence[Knowledge]) -> Iterator[Operation]:
    """Return what takes fallen memories out of the blocks that note them."""
    ids = {item.id for item in fallen}
    homes = {home for home in map(_home, fallen) if home is not None}
    for head in heads_of(engine.ledger, scope=ref.scope, origin=ref.origin):
        if any(head.first <= home < head.end for home in homes):
            yield from _without(read_block(engine.ledger, head), ids)


def _without(block: Block, ids: set[str]) -> Iterator[Operation]:
    chunks = [state for state in block.chunks if not ids & {*state.memories}]
    condensations = [one for one in block.condensations if one.memory not in ids]
    if len(chunks) < len(block.chunks) or len(condensations) < len(block.condensations):
        yield block.changed(chunks=chunks, condensations=condensations)
