"""Condensation: several old memories are replaced by one when read. They stay stored and searchable."""

from collections.abc import Iterator, Sequence
from contextlib import suppress
from itertools import takewhile

from treering.core.canonical import digest
from treering.core.errors import Conflict, InvalidPatch, NotFound
from treering.core.filters import And, Compare
from treering.core.objects import Knowledge, Summary
from treering.core.patch import Create, Operation, Receipt, Transition, Update
from treering.extensions.discussions.generators.built_in import BuiltInGenerator
from treering.extensions.discussions.generators.generator import GeneratedMemory
from treering.extensions.discussions.identity import DiscussionRef, apply_patch
from treering.extensions.discussions.log.blocks import (
    Block,
    BlockHead,
    Condensation,
    active_block,
    heads_of,
    read_block,
)
from treering.extensions.discussions.summaries.memories import Coverage, Memory, memory_object
from treering.extensions.discussions.summaries.versions import NAMES, GeneratorWork, title_of_versions
from treering.ports.ledger import Selection
from treering.verbs.engine import Engine, retry_on_conflict
from treering.verbs.leases import Lease


class Condenser(GeneratorWork):
    """Condenses the oldest memories of one discussion."""

    def condense(self, lease: Lease) -> list[Receipt]:
        """Condense while more than `condense_after + condense_every` memories are not; return the receipts.

        Memories that the rolling summary does not cover yet are not condensed, so that its position stays valid.
        Raises the errors of the generator; the memories then stay unchanged.
        """
        written = []
        while (parents := self._due()) and not lease.lost:
            receipt = self._replace(parents, lease)
            if receipt is None:
                break
            written.append(receipt)
        return written

    def _due(self) -> list[Memory]:
        size = self._settings.condense_every
        if not size:
            return []
        single = self._not_condensed(self._settings.condense_after + 2 * size)
        if len(single) <= self._settings.condense_after + size:
            return []
        parents = single[:size]
        return parents if parents[-1].last <= self._reached() else []

    def _not_condensed(self, count: int) -> list[Memory]:
        """Return the memories after the last condensation, oldest first. Reads few if most are condensed.

        Excludes imported memories without messages: no block could record their condensation.
        """
        recent = self._memories.recent(count)
        newest = takewhile(lambda memory: not memory.condensed and memory.last >= 0, reversed(recent))
        single = list(newest)[::-1]
        return self._not_condensed(2 * count) if len(single) == count else single

    def _reached(self) -> int:
        """Return the position of the last message that may be condensed."""
        summary = self._summary.current()
        if summary:
            return summary.last
        return -1 if self._settings.summary else max(head.end for head in heads_of(self._engine.ledger, self._ref))

    def _replace(self, parents: Sequence[Memory], lease: Lease) -> Receipt | None:
        """Write the condensation of `parents`; return `None` if one of them was withdrawn in the meantime."""
        item, made_by = self._condensed(parents)

        def write() -> Receipt | None:
            may_write = self._are_active(parents) and lease.renew()
            return self._write(item, parents, made_by) if may_write else None

        with suppress(*_CONFLICTS):
            return retry_on_conflict(write, on=_CONFLICTS)
        return None

    def _condensed(self, parents: Sequence[Memory]) -> tuple[GeneratedMemory, str]:
        """Merge several memories; use rules if the generator fails, so that it is not called again for them."""
        items = [parent.item for parent in parents]
        answer = self._generator.condense(items)
        self.usage += answer.usage
        if answer.items:
            return answer.items[0], self._generator.name
        rules = BuiltInGenerator()
        return (rules.condense(items).items or items)[0], rules.name

    def _write(self, item: GeneratedMemory, parents: Sequence[Memory], made_by: str) -> Receipt:
        first, last = parents[0].first, parents[-1].last
        home = next(head for head in heads_of(self._engine.ledger, self._ref) if head.first <= last < head.end)
        coverage = Coverage(first, last, memories=[parent.id for parent in parents])
        key = condensation_key(parents)
        memory = memory_object(self._engine, self._ref, item, coverage, key=key, made_by=made_by, form="condensation")
        operations = condensation_operations(read_block(self._engine.ledger, home), memory, first, last)
        return apply_patch(self._engine, self._ref, operations, reason=f"Memories {first} to {last}, condensed,")

    def _are_active(self, parents: Sequence[Memory]) -> bool:
        heads = self._engine.ledger.heads([parent.id for parent in parents])
        return all(parent.id in heads and heads[parent.id].status == "active" for parent in parents)


_CONFLICTS = (Conflict, InvalidPatch, NotFound)
"""The errors raised if a parent or the block was changed by another writer."""


def condensation_key(parents: Sequence[Memory]) -> str:
    """Return the key of the memory that replaces `parents`."""
    return digest("\n".join(parent.id for parent in parents))


def condensation_operations(block: Block, memory: Knowledge, first: int, last: int) -> list[Operation]:
    """Return the operations that create a condensation and record it in the block of its last message."""
    condensations = [*block.condensations, Condensation(first, last, memory.id)]
    return [block.changed(condensations=condensations), Create(object=memory)]


_MARK = "settled"
_MIN_WASTED_READS = 4
"""The number of unnecessarily read blocks after which a new mark is written."""


class FinishedBlocks:
    """The blocks known to be finished, in one run.

    A closed block may have a mark: a hash of the ids and revisions of all earlier blocks, written when all their chunks
    were processed. While the hash matches, the blocks are unchanged and need not be read.
    """

    def __init__(self, engine: Engine, ref: DiscussionRef) -> None:
        self._engine = engine
        self._ref = ref
        self._heads = heads_of(engine.ledger, ref)
        self._read = 0
        self._revisions = {head.source_id: head.revision for head in self._marked()}

    def open_blocks(self) -> list[BlockHead]:
        """Return the heads of the blocks that may need work, oldest first."""
        return [head for head in self._heads if head.source_id not in self._revisions]

    def is_last(self, head: BlockHead) -> bool:
        """Return whether no block follows."""
        return head.source_id == self._heads[-1].source_id

    @property
    def count(self) -> int:
        """The number of messages in the discussion when the run began."""
        return self._heads[-1].end if self._heads else 0

    def block_at(self, position: int) -> Block | None:
        """Read the current block with a position; return `None` if it is gone."""
        head = next((head for head in self._heads if head.first <= position < head.end), None)
        return active_block(self._engine.ledger, head) if head else None

    def look(self, block: Block) -> None:
        """Record whether a block is finished."""
        if not block.unfinished and not self.is_last(block.head):
            self._revisions[block.source.id] = block.source.revision

    def wrote(self, receipt: Receipt) -> None:
        """Record the revisions of blocks that this run changed."""
        self._revisions |= {result.id: result.revision for result in receipt.results if result.id in self._revisions}

    def write_mark(self) -> None:
        """Write a new mark if the next run would otherwise read many blocks unnecessarily."""
        done = next((at for at, head in enumerate(self._heads) if head.source_id not in self._revisions), 0)
        if self._read < _MIN_WASTED_READS or done < _MIN_WASTED_READS:
            return
        before, marked = self._heads[: done - 1], self._heads[done - 1]
        block = read_block(self._engine.ledger, marked)
        payload = {**block.source.payload, _MARK: _hash_of(before, self._revisions)}
        update = Update(
            id=marked.source_id, expected_revision=self._revisions[marked.source_id], changes={"payload": payload}
        )
        try:
            apply_patch(self._engine, self._ref, [update], reason="Blocks that are done")
        except (Conflict, NotFound):
            return  # another writer changed it; a later run writes the mark

    def _marked(self) -> list[BlockHead]:
        """Return the blocks before the newest matching mark."""
        for at in range(len(self._heads) - 1, 0, -1):
            self._read += 1
            source = read_block(self._engine.ledger, self._heads[at]).source
            before = self._heads[:at]
            revisions = {head.source_id: head.revision for head in before}
            if source.payload.get(_MARK) == _hash_of(before, revisions):
                return before
        return []


def archive_stale_memories(engine: Engine, ref: DiscussionRef) -> None:
    """Archive memories that became stale because their evidence was erased or archived outside this module.

    The same patch removes the states of their chunks. Writes nothing if there are none.
    """

    def archive() -> None:
        if stale := _stale(engine, ref):
            archived = (Transition(id=item.id, expected_revision=item.revision, to="archived") for item in stale)
            operations = [*_forgotten(engine, ref, stale), *archived]
            apply_patch(engine, ref, operations, reason="Memories whose messages are gone")

    with suppress(Conflict, NotFound):  # after repeated conflicts the next run tries again
        retry_on_conflict(archive, on=(Conflict, NotFound))


def _hash_of(heads: Sequence[BlockHead], revisions: dict[str, int]) -> str:
    return digest("\n".join(f"{head.source_id} {revisions[head.source_id]}" for head in heads))


def _stale(engine: Engine, ref: DiscussionRef) -> list[Knowledge]:
    where = And(
        (
            Compare("kind", "eq", "summary"),
            Compare("scope", "eq", ref.scope),
            Compare("status", "eq", "stale"),
            # `Versions` handles the versions of the summary and the state document.
            *(Compare("title", "ne", title_of_versions(ref, form)) for form in NAMES),
        )
    )
    items = engine.ledger.select(Selection(scope=ref.scope, types=("knowledge",), where=where))
    return [item for item in items if isinstance(item, Knowledge) and _home(item) is not None]


def _home(item: Knowledge) -> int | None:
    """Return the position whose block records a memory, or `None` for other summaries."""
    match item.payload:
        case Summary(form="memory", first=position) | Summary(form="condensation", last=position):
            return position
        case _:
            return None


def _forgotten(engine: Engine, ref: DiscussionRef, stale: Sequence[Knowledge]) -> Iterator[Operation]:
    """Yield the operations that remove stale memories from their blocks."""
    ids = {item.id for item in stale}
    homes = {home for home in map(_home, stale) if home is not None}
    for head in heads_of(engine.ledger, ref):
        if any(head.first <= home < head.end for home in homes):
            block = read_block(engine.ledger, head)
            chunks = [state for state in block.chunks if ids.isdisjoint(state.memories)]
            condensations = [one for one in block.condensations if one.memory not in ids]
            if len(chunks) < len(block.chunks) or len(condensations) < len(block.condensations):
                yield block.changed(chunks=chunks, condensations=condensations)
