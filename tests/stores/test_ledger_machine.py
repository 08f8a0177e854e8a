from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import pytest
from hypothesis import HealthCheck, settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, rule, run_state_machine_as_test
from postgres_spaces import new_space, open_target

from postgres_server import PostgresServer
from treering.core.errors import TreeringError
from treering.core.objects import Knowledge, Node, Object, Source, WorkItem
from treering.core.patch import (
    AddLink,
    Erase,
    Link,
    Merge,
    MoveScope,
    Operation,
    Patch,
    RemoveLink,
    Supersede,
    Transition,
    Update,
)
from treering.core.policy import Policy
from treering.extensions.postgres.ledger.ledger import PostgresLedger
from treering.ports.ledger import Ledger, Selection
from treering.stores.sqlite.database import MEMORY, Database
from treering.stores.sqlite.ledger.ledger import SqliteLedger
from treering.testing.builders import ADA, BOB, Builder, author, day
from treering.testing.fakes import SteppingClock
from treering.testing.memory_ledger import MemoryLedger

TEXTS = ["Ada keeps bees.", "Ada has 3 hives.", "x" * 300]
ORIGINS = ["a.md", "b.md"]
SCOPES = ["/", "/run", "/run/7"]
STATUSES = ["active", "archived", "invalid", "superseded", "stale", "in_progress", "resolved", "closed", "open"]
POLICIES = [
    Policy(),
    Policy(newer_supersedes=False),
    Policy(candidate_only_channels=frozenset({"adapter", "agent"}), erasing_channels=frozenset({"user", "agent"})),
]
AUTHORS = [ADA, BOB, author("agent", "eve"), author("adapter")]

pick = st.integers(min_value=0, max_value=999)
scopes = st.sampled_from(SCOPES)
authors = st.sampled_from(AUTHORS)


@dataclass(frozen=True)
class Refusal:
    code: str
    message: str
    hint: str


class LedgersAgree(RuleBasedStateMachine):
    """Drives two ledgers with the same patches; both must say and hold the same."""

    def __init__(self, open_stored: Callable[[], Ledger]) -> None:
        super().__init__()
        self.make = Builder(SteppingClock())
        self.memory = MemoryLedger(clock=SteppingClock())
        self.stored = open_stored()
        self.made: list[str] = []
        self.patches: list[Patch] = []

    def teardown(self) -> None:
        assert self.memory.verify() == self.stored.verify()
        copy = MemoryLedger(clock=SteppingClock())
        copy.load(self.stored.records())
        assert list(copy.records()) == list(self.stored.records())
        self.stored.close()

    @initialize()
    def begin(self) -> None:
        source = self.make.source(*TEXTS, origin=ORIGINS[0])
        self.commit(source, self.make.node("Hive"), self.make.work("Buy smoke"))

    @rule(origin=st.sampled_from(ORIGINS), scope=scopes, texts=st.lists(st.sampled_from(TEXTS), unique=True))
    def create_source(self, origin: str, scope: str, texts: list[str]) -> None:
        self.commit(self.make.source(*texts, origin=origin, scope=scope))

    @rule(
        subject=st.sampled_from(["Ada", "ada ", "Bob"]),
        value=st.integers(0, 2),
        scope=scopes,
        evidence=st.lists(pick, max_size=2),
        parent=st.none() | pick,
        since=st.none() | st.sampled_from(["2025-01-01", "2026-01-01"]),
        by=authors,
        declared=st.booleans(),
    )
    def create_fact(
        self,
        subject: str,
        value: int,
        scope: str,
        evidence: list[int],
        parent: int | None,
        since: str | None,
        by: Any,
        declared: bool,
    ) -> None:
        refs = [
            self.make.evidence(source, at % len(source.segments)) for at in evidence if (source := self.a_source(at))
        ]
        fields: dict[str, Any] = {"scope": scope, "valid_from": day(since) if since else None}
        if declared:
            fields |= {"memory_source": "user_declared", "status": "active"}
        if parent is not None:
            fields["derived_from"] = (self.an_id(parent),)
        self.commit(self.make.fact(subject, "hives", value, *refs, **fields), by=by)

    @rule(name=st.sampled_from(["Hive", "Box", "Bee"]), scope=scopes)
    def create_node(self, name: str, scope: str) -> None:
        self.commit(self.make.node(name, scope=scope))

    @rule(parent=st.none() | pick, waits_on=st.lists(pick, max_size=2))
    def create_work(self, parent: int | None, waits_on: list[int]) -> None:
        depends_on = tuple(self.an_id(number) for number in waits_on)
        parent_ref = None if parent is None else self.an_id(parent)
        self.commit(self.make.work("Task", parent_ref=parent_ref, depends_on=depends_on))

    @rule(chosen=pick, late=st.booleans(), data=pick, by=authors)
    def update(self, chosen: int, late: bool, data: int, by: Any) -> None:
        item = self.an_object(chosen)
        self.commit(
            Update(id=item.id, expected_revision=item.revision - late, changes=self.some_changes(item, data)), by=by
        )

    @rule(chosen=pick, to=st.sampled_from(STATUSES), by=authors)
    def transition(self, chosen: int, to: str, by: Any) -> None:
        item = self.an_object(chosen)
        self.commit(Transition(id=item.id, expected_revision=item.revision, to=to, resolution="Done."), by=by)

    @rule(start=pick, end=pick, kind=st.sampled_from(["about", "part_of", "similar_to"]), there=st.booleans())
    def link(self, start: int, end: int, kind: Any, there: bool) -> None:
        link = Link(type=kind, source=self.an_id(start), target=self.an_id(end))
        self.commit(AddLink(link=link) if there else RemoveLink(link=link))

    @rule(chosen=pick, other=pick, scope=scopes, what=st.sampled_from(["merge", "supersede", "move", "erase"]))
    def reshape(self, chosen: int, other: int, scope: str, what: str) -> None:
        item, into = self.an_object(chosen), self.an_id(other)
        operations: dict[str, Operation] = {
            "merge": Merge(id=item.id, expected_revision=item.revision, into=into),
            "supersede": Supersede(id=item.id, expected_revision=item.revision, by=into),
            "move": MoveScope(id=item.id, expected_revision=item.revision, to=scope),
            "erase": Erase(id=item.id, expected_revision=item.revision),
        }
        self.commit(operations[what])

    @rule(several=st.lists(pick, min_size=2, max_size=3), to=st.sampled_from(STATUSES))
    def several_at_once(self, several: list[int], to: str) -> None:
        items = [self.an_object(number) for number in several]
        parts = [Transition(id=item.id, expected_revision=item.revision, to=to, resolution="Done.") for item in items]
        self.commit(self.make.node(f"Node {several[0]}"), *parts)

    @rule(chosen=pick, by=authors)
    def revert(self, chosen: int, by: Any) -> None:
        patch = self.patches[chosen % len(self.patches)]
        self.both(lambda ledger: ledger.revert(patch.id, by=by, reason="Wrong."))

    @rule(chosen=pick, data=pick, by=authors)
    def propose(self, chosen: int, data: int, by: Any) -> None:
        item = self.an_object(chosen)
        changes = self.some_changes(item, data)
        patch = self.make.patch(Update(id=item.id, expected_revision=item.revision, changes=changes), by=by)
        self.patches.append(patch)
        self.both(lambda ledger: ledger.propose(patch))

    @rule(number=pick, by=authors, approved=st.booleans())
    def decide(self, number: int, by: Any, approved: bool) -> None:
        waiting = self.memory.patches(status="proposed") or self.memory.patches(limit=3)
        record = waiting[number % len(waiting)]
        if approved:
            self.both(lambda ledger: ledger.approve(record.id, by=by))
        else:
            self.both(lambda ledger: ledger.reject(record.id, by=by, reason="No."))

    @rule(number=pick, key=st.sampled_from(["one", "two"]))
    def retry(self, number: int, key: str) -> None:
        patch = self.patches[number % len(self.patches)]
        self.both(lambda ledger: ledger.commit(patch, idempotency_key=key))

    @rule(policy=st.sampled_from(POLICIES), by=authors)
    def change_policy(self, policy: Policy, by: Any) -> None:
        self.both(lambda ledger: ledger.change_policy(policy, by=by))
        self.both(lambda ledger: ledger.policy)

    @rule(after=pick, limit=st.integers(0, 9))
    def read_the_feed(self, after: int, limit: int) -> None:
        self.both(lambda ledger: list(ledger.changes(after % (ledger.sequence() + 2), limit)))

    @rule(seq=pick, scope=scopes)
    def look_back(self, seq: int, scope: str) -> None:
        as_of = seq % (self.memory.sequence() + 2)
        self.both(lambda ledger: list(ledger.select(Selection(scope=scope, as_of=as_of))))
        self.both(lambda ledger: ledger.heads(self.made, as_of=as_of))
        self.both(lambda ledger: [list(ledger.links(identity, as_of=as_of)) for identity in self.made])

    @invariant()
    def both_hold_the_same(self) -> None:
        assert list(self.memory.records()) == list(self.stored.records())
        self.both(lambda ledger: list(ledger.select(Selection(scope="/run", descend=True))))
        self.both(lambda ledger: [list(ledger.dependents(identity)) for identity in self.made])
        self.both(lambda ledger: [list(ledger.referrers(identity)) for identity in self.made])

    def commit(self, *parts: Object | Operation, by: Any = ADA) -> None:
        patch = self.make.patch(*parts, by=by)
        self.patches.append(patch)
        self.made += [part.id for part in parts if isinstance(part, Source | Knowledge | Node | WorkItem)]
        self.both(lambda ledger: ledger.commit(patch))

    def both(self, ask: Callable[[Ledger], object]) -> None:
        assert self.answer(self.memory, ask) == self.answer(self.stored, ask)

    def answer(self, ledger: Ledger, ask: Callable[[Ledger], object]) -> object:
        before = ledger.sequence()
        try:
            return ask(ledger)
        except TreeringError as error:
            refusal = Refusal(error.code, error.message, error.hint)
        assert refusal.hint
        assert ledger.sequence() == before
        return refusal

    def an_id(self, number: int) -> str:
        return self.made[number % len(self.made)]

    def an_object(self, number: int) -> Object:
        found = list(self.memory.select(Selection(descend=True)))
        return found[number % len(found)] if found else self.make.node("Nowhere")

    def a_source(self, number: int) -> Source | None:
        sources = list(self.memory.select(Selection(descend=True, types=("source",))))
        source = sources[number % len(sources)] if sources else None
        return source if isinstance(source, Source) and source.segments else None

    def some_changes(self, item: Object, data: int) -> dict[str, Any]:
        match item:
            case Source():
                return {"segments": self.make.segments(item, *TEXTS[data % 4 :])}
            case Knowledge():
                source = self.a_source(data)
                evidence = [self.make.evidence(source).model_dump()] if source else []
                if data % 3:
                    return {"evidence_refs": evidence}
                return {"summary": f"{data}"} if data % 2 else {"confidence": 7}
            case WorkItem():
                return {"parent_ref": self.an_id(data)} if data % 2 else {"depends_on": [self.an_id(data)]}
            case _:
                return {"summary": f"Said {data % 2} times."}


QUICK = settings(max_examples=20, stateful_step_count=20, deadline=None, suppress_health_check=list(HealthCheck))
LONG = settings(QUICK, max_examples=1000, stateful_step_count=60)


def on_sqlite() -> LedgersAgree:
    return LedgersAgree(lambda: SqliteLedger(Database(MEMORY), clock=SteppingClock()))


def on_postgres(server: PostgresServer) -> LedgersAgree:
    def opened() -> Ledger:
        return PostgresLedger(open_target(server, new_space()), clock=SteppingClock(), server_time=False)

    return LedgersAgree(opened)


def test_a_ledger_on_sqlite_and_one_in_memory_agree_on_everything() -> None:
    run_state_machine_as_test(on_sqlite, settings=QUICK)


def test_a_ledger_on_postgres_and_one_in_memory_agree_on_everything(server: PostgresServer) -> None:
    run_state_machine_as_test(lambda: on_postgres(server), settings=settings(QUICK, max_examples=6))


@pytest.mark.torture
def test_they_agree_after_very_many_steps() -> None:
    run_state_machine_as_test(on_sqlite, settings=LONG)


@pytest.mark.torture
def test_they_agree_on_postgres_after_very_many_steps(server: PostgresServer) -> None:
    run_state_machine_as_test(lambda: on_postgres(server), settings=settings(LONG, max_examples=100))
