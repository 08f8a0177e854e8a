"""Condensation: several old memories become one that stands for them. They stay, and are still found."""

from collections.abc import Iterator, Sequence
from contextlib import suppress
from itertools import takewhile

from treering.core.canonical import digest
from treering.core.errors import Conflict, InvalidPatch, NotFound
from treering.core.filters import And, Compare
from treering.core.objects import Knowledge, Summary
from treering.core.patch import Create, Operation, Receipt, Transition, Update
from treering.parts.discussions.generators.built_in import BuiltInGenerator
from treering.parts.discussions.generators.generator import GeneratedMemory
from treering.parts.discussions.identity import DiscussionRef, apply_patch
from treering.parts.discussions.log.blocks import Block, BlockHead, Condensation, active_block, heads_of, read_block
from treering.parts.discussions.summaries.memories import Coverage, Memory, memory_object
from treering.parts.discussions.summaries.versions import NAMES, GeneratorWork, title_of_versions
from treering.ports.ledger import Selection
from treering.verbs.engine import Engine, retry_on_conflict
from treering.verbs.leases import Lease


class Condenser(GeneratorWork):
    """Condenses the oldest memories of one discussion."""

    def condense(self, lease: Lease) -> list[Receipt]:
        """Condense as long as more than `condense_after + condense_every` memories are not; return what was written.

        Memories that the rolling summary does not tell of yet are left alone, so that its position stays right.
        Raises what the generator raises; the memories stay then as they are.
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
        """Return the memories after the last condensation, oldest first. Reads few where most are condensed.

        Imported ones that tell of no messages here belong to no block that could remember the condensation.
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
        return -1 if self._settings.summary else max(head.end for head in self._heads())

    def _replace(self, parents: Sequence[Memory], lease: Lease) -> Receipt | None:
        """Write what stands for `parents`; `None` where one of them was withdrawn meanwhile."""
        item, made_by = self._made_of(parents)

        def write() -> Receipt | None:
            stand = self._still_stand(parents) and lease.renew()
            return self._write(item, parents, made_by) if stand else None

        with suppress(*_BEATEN):
            return retry_on_conflict(write, on=_BEATEN)
        return None

    def _made_of(self, parents: Sequence[Memory]) -> tuple[GeneratedMemory, str]:
        """Make one memory of several: by rules where the generator cannot, or it would be asked again and again."""
        items = [parent.item for parent in parents]
        answer = self._generator.condense(items)
        self.count(answer.usage)
        if answer.items:
            return answer.items[0], self._generator.name
        rules = BuiltInGenerator()
        return (rules.condense(items).items or items)[0], rules.name

    def _write(self, item: GeneratedMemory, parents: Sequence[Memory], made_by: str) -> Receipt:
        first, last = parents[0].first, parents[-1].last
        home = next(head for head in self._heads() if head.first <= last < head.end)
        block = read_block(self._engine.ledger, home)
        made = self._knowledge(item, parents, made_by)
        known = [*block.condensations, Condensation(first, last, made.id)]
        operations: list[Operation] = [block.changed(condensations=known), Create(object=made)]
        return apply_patch(self._engine, self._ref, operations, reason=f"Memories {first} to {last}, condensed,")

    def _knowledge(self, item: GeneratedMemory, parents: Sequence[Memory], made_by: str) -> Knowledge:
        ids = [parent.id for parent in parents]
        coverage = Coverage(parents[0].first, parents[-1].last, memories=ids)
        key = digest("\n".join(ids))
        return memory_object(self._engine, self._ref, item, coverage, key=key, made_by=made_by, form="condensation")

    def _still_stand(self, parents: Sequence[Memory]) -> bool:
        heads = self._engine.ledger.heads([parent.id for parent in parents])
        return all(parent.id in heads and heads[parent.id].status == "active" for parent in parents)

    def _heads(self) -> list[BlockHead]:
        return heads_of(self._engine.ledger, scope=self._ref.scope, origin=self._ref.origin)


_BEATEN = (Conflict, InvalidPatch, NotFound)
"""What is raised where a parent, or the block, was changed by somebody else."""


# What a run finds before it makes anything: blocks that need no more work, and memories whose messages are gone.


_MARK = "settled"
_EVERY = 4
"""So many blocks are read in vain before a new mark is written."""


class FinishedBlocks:
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


def archive_stale_memories(engine: Engine, ref: DiscussionRef) -> None:
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
