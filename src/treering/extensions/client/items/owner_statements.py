"""The statements of one owner's memories, and which of them later ones retired.

The result depends on the memories alone, not on the order in which they were added: a statement is compared with those
before it that share a topic, and with the last ones. A model's statement retires no statement of a person.
"""

from bisect import bisect_left, insort
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import datetime
from heapq import heapify, heappop, heappush
from typing import NamedTuple

from treering.extensions.statements.comparison import Comparison
from treering.extensions.statements.ledger import MAX_CANDIDATES, RECENT_STATEMENTS, StatementLedger
from treering.extensions.statements.reading import statements_of
from treering.extensions.statements.relations import relations_of
from treering.extensions.statements.statement import SaidMessage, Statement


class StatementRef(NamedTuple):
    """A statement of a memory: the time of the remembered event, the id of the memory, and the place in it."""

    at: datetime
    memory: str
    number: int


@dataclass(frozen=True, slots=True)
class Retirement:
    """A statement that no longer holds: `target` is repeated or changed by `source`."""

    target: StatementRef
    source: StatementRef
    repeats: bool


Topics = tuple[str, ...]
ReadStatements = Callable[[Collection[str]], Mapping[str, Sequence[Statement]]]
"""Return the statements of memories by id; a memory that vanished has none."""


@dataclass(frozen=True, slots=True)
class ComparedMemory:
    """A memory that is compared, by the topics of its statements. `retired`: the result, if it is known."""

    at: datetime
    topics: tuple[Topics, ...]
    retired: tuple[tuple[Retirement, ...], ...] = ()
    """For each statement, the statements that it retired, sometimes itself."""
    by_model: bool = False
    """Whether it is a message of a model."""


def stated_in(speaker: str, text: str, at: datetime) -> tuple[Statement, ...]:
    """Return the statements of a memory, each with the topics that it has from those before it."""
    ledger = StatementLedger()
    for one in statements_of(SaidMessage(0, speaker, text, at)):
        ledger.append(ledger.compare(one).new)
    return tuple(ledger.statements.values())


def topics_of(statement: Statement) -> Topics:
    """Return the topics under which a statement is compared with others."""
    return (*sorted(statement.things), *(f"@{name}" for name in sorted(statement.attributes)))


class OwnerStatements:
    """Compares each statement once; a change of the memories compares only the statements next to it again."""

    def __init__(self, read: ReadStatements) -> None:
        self._read = read
        self._memories: dict[str, ComparedMemory] = {}
        self._order: list[StatementRef] = []
        self._by_topic: dict[str, list[StatementRef]] = {}
        self._made: dict[StatementRef, tuple[Retirement, ...]] = {}
        """By statement, the statements that it retired."""
        self._retired: dict[StatementRef, tuple[StatementRef, Retirement]] = {}
        """By retired statement, the statement that retired it, which is itself if it repeats an earlier one."""
        self.comparisons = 0
        """The number of statements that were compared with others."""

    def copy(self) -> "OwnerStatements":
        """Return a copy that changes by itself."""
        copied = OwnerStatements(self._read)
        copied._memories = dict(self._memories)
        copied._order = list(self._order)
        copied._by_topic = {topic: list(refs) for topic, refs in self._by_topic.items()}
        copied._made, copied._retired = dict(self._made), dict(self._retired)
        return copied

    def restore(self, memories: Mapping[str, ComparedMemory]) -> None:
        """Add memories whose results are known, as `compared` returned them."""
        for identity, memory in memories.items():
            self._memories[identity] = memory
            for ref, retired in zip(self._refs(identity), memory.retired, strict=True):
                self._insert(ref)
                self._apply(ref, retired)

    def compared(self) -> Iterator[tuple[str, ComparedMemory]]:
        """Return all memories with their results."""
        for identity, memory in self._memories.items():
            retired = tuple(self._made.get(ref, ()) for ref in self._refs(identity))
            yield identity, replace(memory, retired=retired)

    def update(self, added: Mapping[str, ComparedMemory], removed: Collection[str] = ()) -> None:
        """Remove memories, and add or replace others."""
        changed: set[StatementRef] = set()
        for identity in (*removed, *added):
            for ref in self._refs(identity) if identity in self._memories else ():
                changed |= self._remove(ref)
            self._memories.pop(identity, None)
        for identity, memory in added.items():
            self._memories[identity] = memory
            for ref in self._refs(identity):
                self._insert(ref)
                changed.add(ref)
        for identity in added:
            for ref in self._refs(identity):
                changed.update(self._followers(ref))
        self._compare_all(changed)

    def replacement(self, identity: str) -> str:
        """Return the id of the memory with the last change, if others changed all that a memory states; else empty."""
        if identity not in self._memories:
            return ""
        refs = self._refs(identity)
        changes = [source.memory for ref in refs if (source := self._change(ref))]
        if not changes:
            return ""
        stated = zip(refs, self._read([identity]).get(identity, ()), strict=False)
        holds = any(one.is_stated and one.has_substance and ref not in self._retired for ref, one in stated)
        return "" if holds else changes[-1]

    def _change(self, ref: StatementRef) -> StatementRef | None:
        """Return the last statement that changed one, if it is of another memory and does not only repeat it."""
        last, is_repeated = ref, True
        while last in self._retired:
            _, retirement = self._retired[last]
            last, is_repeated = retirement.source, is_repeated and retirement.repeats
        return None if is_repeated or last.memory == ref.memory else last

    def _refs(self, identity: str) -> list[StatementRef]:
        memory = self._memories[identity]
        return [StatementRef(memory.at, identity, number) for number in range(len(memory.topics))]

    def _topics(self, ref: StatementRef) -> Topics:
        return self._memories[ref.memory].topics[ref.number]

    def _lists(self, ref: StatementRef) -> Iterator[tuple[list[StatementRef], int]]:
        """Return the lists that have a statement, each with the number of its last statements that are compared."""
        yield self._order, RECENT_STATEMENTS
        for topic in self._topics(ref):
            yield self._by_topic.setdefault(topic, []), MAX_CANDIDATES

    def _insert(self, ref: StatementRef) -> None:
        for refs, _ in self._lists(ref):
            insort(refs, ref)

    def _remove(self, ref: StatementRef) -> set[StatementRef]:
        """Remove a statement; return the statements that have to be compared again."""
        changed = self._followers(ref)
        for refs, _ in self._lists(ref):
            del refs[bisect_left(refs, ref)]
        for target in self._withdraw(ref):
            changed |= self._followers(target) if target != ref else set()
        self._retired.pop(ref, None)
        return changed - {ref}

    def _followers(self, ref: StatementRef) -> set[StatementRef]:
        """Return the later statements that are compared with a statement."""
        followers: set[StatementRef] = set()
        for refs, most in self._lists(ref):
            begin = bisect_left(refs, ref)
            followers.update(refs[begin : begin + most + 1])
        return followers - {ref}

    def _before(self, ref: StatementRef) -> list[StatementRef]:
        """Return the earlier statements that a statement is compared with, oldest first."""
        before: set[StatementRef] = set()
        for refs, most in self._lists(ref):
            end = bisect_left(refs, ref)
            before.update(refs[max(0, end - most) : end])
        return sorted(one for one in before if not self._is_retired(one, before=ref))

    def _is_retired(self, ref: StatementRef, *, before: StatementRef) -> bool:
        return ref in self._retired and self._retired[ref][0] < before

    def _compare_all(self, changed: set[StatementRef]) -> None:
        """Compare statements again in their order, and later ones whose candidates change by it."""
        waiting = [ref for ref in changed if ref.memory in self._memories]
        heapify(waiting)
        queued = set(waiting)
        while waiting:
            ref = heappop(waiting)
            queued.discard(ref)
            before = self._made.get(ref, ())
            self._withdraw(ref)
            after = self._compared(ref)
            targets = {one.target for one in {*before} ^ {*after}} | self._apply(ref, after)
            for target in targets:
                if target.memory not in self._memories:
                    continue
                for one in self._followers(target) - queued:
                    if one > ref:
                        queued.add(one)
                        heappush(waiting, one)

    def _withdraw(self, ref: StatementRef) -> list[StatementRef]:
        """Forget what a statement retired; return it."""
        targets = [one.target for one in self._made.pop(ref, ()) if self._retired.get(one.target, (None,))[0] == ref]
        for target in targets:
            del self._retired[target]
        return targets

    def _apply(self, ref: StatementRef, retired: tuple[Retirement, ...]) -> set[StatementRef]:
        """Note what a statement retired; return the targets that a later statement had retired."""
        if retired:
            self._made[ref] = retired
        overtaken = {one.target for one in retired if one.target in self._retired}
        self._retired.update({one.target: (ref, one) for one in retired})
        return overtaken

    def _is_by_model(self, ref: StatementRef) -> bool:
        return self._memories[ref.memory].by_model

    def _compared(self, ref: StatementRef) -> tuple[Retirement, ...]:
        """Return the statements that a statement retires, as if no others existed than its candidates.

        Statements of people and of models are candidates apart, so that a model's words hide no person's.
        """
        self.comparisons += 1
        before = self._before(ref)
        of_models = [one for one in before if self._is_by_model(one)]
        if self._is_by_model(ref):
            return self._compared_with(of_models, ref)
        retired = self._compared_with([one for one in before if one not in of_models], ref)
        corrected = self._compared_with(of_models, ref) if of_models else ()
        return (*retired, *(one for one in corrected if one.target != ref))

    def _compared_with(self, candidates: Sequence[StatementRef], ref: StatementRef) -> tuple[Retirement, ...]:
        refs = [*candidates, ref]
        memories = list(dict.fromkeys(one.memory for one in refs))
        stated = self._read(memories)
        numbers = {identity: number for number, identity in enumerate(memories)}
        local = {(numbers[one.memory], one.number): one for one in refs}
        statements = {
            place: replace(stated[one.memory][one.number], message=place[0])
            for place, one in local.items()
            if one.number < len(stated.get(one.memory, ()))
        }
        new = statements.pop((numbers[ref.memory], ref.number), None)
        if new is None:
            return ()
        earlier = list(statements.values())
        recent = [one for one in earlier if one.message == new.message]
        relations = relations_of(Comparison(new, [one for one in earlier if one.is_stated], recent, len(earlier)))
        return tuple(
            Retirement(local[one.target.id], local[one.source.id], one.kind == "repeats")
            for one in relations
            if one.sure and one.kind != "settles"
        )
