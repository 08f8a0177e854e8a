"""The change feed: changes of objects in order, from which a projection elsewhere can be made and kept."""

from contextlib import suppress

from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from treering.core.errors import TreeringError
from treering.core.objects import Object, Source
from treering.core.patch import AddLink, Erase, Link, Operation, Transition, Update
from treering.ports.ledger import Ledger, Selection
from treering.testing.builders import ADA, Builder, author
from treering.testing.ledger_contract.stage import LedgerStage, OpenLedger

STEPS = ["source", "fact", "node", "change", "archive", "link", "propose", "approve", "erase", "revert"]
numbers = st.integers(min_value=0, max_value=999)
sizes = st.integers(min_value=0, max_value=5)


class ChangeFeed(LedgerStage):
    """`changes`."""

    def test_a_change_has_the_object_before_and_after(self, ledger: Ledger, make: Builder) -> None:
        node, source = make.node("Hive"), make.source("3 hives.")
        ledger.commit(make.patch(node, source))
        ledger.commit(make.patch(Update(id=node.id, expected_revision=1, changes={"name": "Box"})))
        first, second = ledger.history(node.id)
        found = ledger.changes(0, 10)
        assert [(one.seq, one.object_id) for one in found] == [(1, node.id), (2, source.id), (3, node.id)]
        assert [(one.before, one.after) for one in found if one.object_id == node.id] == [
            (None, first),
            (first, second),
        ]
        assert found[1].after == ledger.get(source.id)

    def test_a_cascade_is_told_object_by_object(self, ledger: Ledger, make: Builder) -> None:
        source = make.source("3 hives.")
        fact = make.fact("Ada", "hives", 3, make.evidence(source))
        ledger.commit(make.patch(source, fact))
        ledger.commit(make.patch(Transition(id=source.id, expected_revision=1, to="archived")))
        told = [(one.object_id, one.after.status) for one in ledger.changes(2, 10) if one.after]
        assert told == [(source.id, "archived"), (fact.id, "stale")]

    def test_events_about_links_and_patches_are_no_changes_and_count(self, ledger: Ledger, make: Builder) -> None:
        one, other = make.node("One"), make.node("Other")
        link = Link(type="about", source=one.id, target=other.id)
        ledger.commit(make.patch(one, other, AddLink(link=link)))
        ledger.propose(make.patch(make.node("Maybe"), by=author("agent")))
        later = make.node("Later")
        ledger.commit(make.patch(later))
        assert ledger.sequence() == 5
        assert list(ledger.changes(2, 2)) == []
        assert [change.object_id for change in ledger.changes(2, 3)] == [later.id]

    def test_a_limit_bounds_the_events_that_are_looked_at(self, ledger: Ledger, make: Builder) -> None:
        ledger.commit(make.patch(*(make.node(f"Node {number}") for number in range(5))))
        assert [change.seq for change in ledger.changes(1, 2)] == [2, 3]
        assert [change.seq for change in ledger.changes(3, 100)] == [4, 5]
        assert list(ledger.changes(0, 0)) == list(ledger.changes(5, 10)) == list(ledger.changes(99, 10)) == []

    def test_of_an_erased_object_only_the_erasure_is_told(self, ledger: Ledger, make: Builder) -> None:
        node, kept = make.node("Wilhelmina"), make.node("Hive")
        ledger.commit(make.patch(node, kept))
        ledger.commit(make.patch(Update(id=node.id, expected_revision=1, changes={"summary": "Lives here."})))
        ledger.commit(make.patch(Erase(id=node.id, expected_revision=2)))
        found = ledger.changes(0, 10)
        assert [(one.seq, one.object_id) for one in found] == [(2, kept.id), (4, node.id)]
        assert (found[-1].before, found[-1].after) == (None, None)
        assert "Wilhelmina" not in repr(found)

    def test_a_loaded_ledger_tells_the_same_changes(self, open_ledger: OpenLedger, make: Builder) -> None:
        old, new = open_ledger(), open_ledger()
        source, node = make.source("3 hives.", "Bees."), make.node("Hive")
        old.commit(make.patch(source, node))
        old.commit(make.patch(Update(id=source.id, expected_revision=1, changes={"segments": []})))
        old.commit(make.patch(Erase(id=node.id, expected_revision=1)))
        new.load(old.records())
        assert list(new.changes(0, 100)) == list(old.changes(0, 100))

    @settings(max_examples=20, deadline=None, suppress_health_check=list(HealthCheck))
    @given(steps=st.lists(st.tuples(st.sampled_from(STEPS), numbers, sizes), min_size=10, max_size=30))
    def test_folding_in_any_pieces_comes_to_what_starting_over_comes_to(
        self, open_ledger: OpenLedger, make: Builder, steps: list[tuple[str, int, int]]
    ) -> None:
        ledger, late = open_ledger(), _Copy()
        history = _History(ledger, make)
        for what, number, size in (("source", 0, 0), ("fact", 0, 0), *steps):
            history.step(what, number)
            late.catch_up(ledger, size)
        while late.cursor < ledger.sequence():
            late.catch_up(ledger, 2)
        anew = _Copy()
        anew.catch_up(ledger, ledger.sequence())
        assert late.held == anew.held == {item.id: item for item in ledger.select(Selection(descend=True))}


class _Copy:
    """A projection elsewhere, of the simplest kind: every object as it stands."""

    def __init__(self) -> None:
        self.cursor = 0
        self.held: dict[str, Object] = {}

    def catch_up(self, ledger: Ledger, size: int) -> None:
        upto = min(self.cursor + size, ledger.sequence())
        for change in ledger.changes(self.cursor, upto - self.cursor):
            assert self.cursor < change.seq <= upto
            if change.after is None:
                self.held.pop(change.object_id, None)
            else:
                assert change.before == self.held.get(change.object_id)
                self.held[change.object_id] = change.after
        self.cursor = upto


class _History:
    """Writes to a ledger, one step at a time; a step that finds nothing to work on does nothing."""

    def __init__(self, ledger: Ledger, make: Builder) -> None:
        self._ledger = ledger
        self._make = make
        self._patches: list[str] = []

    def step(self, what: str, number: int) -> None:
        item = self._item(number)
        match what:
            case "source":
                self._commit(self._make.source(f"{number} hives.", origin=f"{number}.md"))
            case "fact":
                self._state_a_fact(number)
            case "node":
                self._commit(self._make.node(f"Node {number}"))
            case "propose":
                self._ledger.propose(self._make.patch(self._make.node(f"Maybe {number}"), by=author("agent")))
            case "approve":
                for record in self._ledger.patches(status="proposed", limit=1):
                    self._ledger.approve(record.id, by=ADA)
            case "revert" if self._patches:
                self._revert(self._patches.pop())
            case _ if item:
                self._change(what, item, number)

    def _change(self, what: str, item: Object, number: int) -> None:
        match what, item:
            case "change", Source():
                segments = self._make.segments(item, f"{number} boxes.")
                self._commit(Update(id=item.id, expected_revision=item.revision, changes={"segments": segments}))
            case "archive", Source(status="active"):
                self._commit(Transition(id=item.id, expected_revision=item.revision, to="archived"))
            case "link", _:
                other = self._item(number + 1) or item
                self._commit(AddLink(link=Link(type="similar_to", source=item.id, target=other.id)))
            case "erase", _:
                self._commit(Erase(id=item.id, expected_revision=item.revision))
            case _:
                pass

    def _state_a_fact(self, number: int) -> None:
        sources = [item for item in self._items() if isinstance(item, Source) and item.segments]
        if sources:
            evidence = self._make.evidence(sources[number % len(sources)])
            self._commit(self._make.fact("Ada", "hives", number % 3, evidence))

    def _commit(self, part: Object | Operation) -> None:
        patch = self._make.patch(part)
        with suppress(TreeringError):  # a rule refuses this step: then it is none
            self._ledger.commit(patch)
            self._patches.append(patch.id)

    def _revert(self, patch_id: str) -> None:
        with suppress(TreeringError):
            self._ledger.revert(patch_id, by=ADA, reason="Wrong.")

    def _items(self) -> list[Object]:
        return list(self._ledger.select(Selection(descend=True)))

    def _item(self, number: int) -> Object | None:
        items = self._items()
        return items[number % len(items)] if items else None
