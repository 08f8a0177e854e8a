"""Condensation: several old memories become one that stands for them. They stay, and are still found."""

from collections.abc import Sequence
from contextlib import suppress
from itertools import takewhile

from treering.core.canonical import digest
from treering.core.errors import Conflict, InvalidPatch, NotFound
from treering.core.objects import Knowledge
from treering.core.patch import Create, Operation, Receipt
from treering.memories.discussion.generators.built_in import BuiltInGenerator
from treering.memories.discussion.generators.generator import GeneratedMemory, Generator
from treering.memories.discussion.identity import DiscussionRef, apply_patch
from treering.memories.discussion.log.blocks import BlockHead, Condensation, heads_of, read_block
from treering.memories.discussion.settings import DiscussionSettings
from treering.memories.discussion.summaries.memories import Coverage, Memory, memory_object
from treering.memories.discussion.summaries.timeline import Memories
from treering.memories.discussion.summaries.versions import Versions
from treering.memories.leasing import Lease
from treering.ports.model import Usage
from treering.tools.engine import Engine
from treering.tools.retrying import retry_on_conflict


class Condenser:
    """Condenses the oldest memories of one discussion. `usage` adds up what its generator used."""

    def __init__(
        self, engine: Engine, ref: DiscussionRef, *, settings: DiscussionSettings, generator: Generator
    ) -> None:
        self.usage = Usage()
        self._engine = engine
        self._ref = ref
        self._settings = settings
        self._generator = generator
        self._memories = Memories(engine, ref)

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
        summary = Versions(self._engine, self._ref, "rolling_summary").current()
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
        self.usage += answer.usage
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
