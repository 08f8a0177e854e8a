"""Time travel and the audit log."""

from collections.abc import Callable
from contextlib import suppress
from datetime import timedelta

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from treering.core.audit import GENESIS, Anchor, verify_chain
from treering.core.errors import Corrupt, NotFound, TreeringError
from treering.core.filters import parse_filter
from treering.core.objects import Object, Source
from treering.core.patch import (
    AddLink,
    Create,
    Link,
    MoveScope,
    Operation,
    RecordedCreate,
    RemoveLink,
    Transition,
)
from treering.core.writing.draft import asked
from treering.ports.ledger import Ledger, Selection
from treering.testing.builders import ADA, Builder, author
from treering.testing.fakes import START, SteppingClock
from treering.testing.ledger_contract.stage import (
    LedgerStage,
    OpenLedger,
    contents,
    erasing,
    moving,
    selected,
    updating,
)


class LedgerHistory(LedgerStage):
    """Past states of the ledger, and the audit log."""

    def test_an_object_is_read_as_it_stood(self, ledger: Ledger, make: Builder) -> None:
        node = make.node("One")
        first = ledger.commit(make.patch(node))
        second = ledger.commit(make.patch(updating(node.id, name="Two")))
        for as_of in (first.sequence, first.committed_at):
            assert getattr(ledger.get(node.id, as_of=as_of), "name", "") == "One"
            assert ledger.heads([node.id], as_of=as_of)[node.id].title == "One"
            assert [item.revision for item in ledger.select(Selection(as_of=as_of))] == [1]
        assert ledger.get(node.id, as_of=second.committed_at).revision == 2
        assert ledger.get(node.id, as_of=second.sequence + 100).revision == 2

    def test_before_it_was_made_there_was_nothing(self, ledger: Ledger, make: Builder) -> None:
        node = make.node("One")
        receipt = ledger.commit(make.patch(node))
        for as_of in (0, receipt.committed_at - timedelta(microseconds=1)):
            with pytest.raises(NotFound):
                ledger.get(node.id, as_of=as_of)
            assert ledger.heads([node.id], as_of=as_of) == {}
            assert list(ledger.select(Selection(as_of=as_of))) == []
            assert ledger.sequence(as_of) == 0

    def test_a_selection_in_the_past_judges_objects_as_they_were(self, ledger: Ledger, make: Builder) -> None:
        node = make.node("One", scope="/then")
        first = ledger.commit(make.patch(node))
        ledger.commit(make.patch(MoveScope(id=node.id, expected_revision=1, to="/now")))
        assert [item.id for item in ledger.select(Selection("/then", as_of=first.sequence))] == [node.id]
        assert list(ledger.select(Selection("/then"))) == []

    def test_a_selection_in_the_past_keeps_to_its_scope_types_and_filter(self, ledger: Ledger, make: Builder) -> None:
        near, far = make.node("Near", scope="/a"), make.node("Far", scope="/b")
        work = make.work("Mow", scope="/a")
        then = ledger.commit(make.patch(near, far, work)).sequence
        ledger.commit(make.patch(moving(near.id, 1, "archived")))
        active, archived = parse_filter({"status": "active"}), parse_filter({"status": "archived"})
        for as_of in (then, ledger.get(near.id, as_of=then).updated_at):
            assert selected(ledger, Selection("/a", as_of=as_of)) == [near.id, work.id]
            assert selected(ledger, Selection("/", as_of=as_of)) == []
            assert selected(ledger, Selection("/", descend=True, as_of=as_of)) == [near.id, far.id, work.id]
            assert selected(ledger, Selection("/a", types=("work_item",), as_of=as_of)) == [work.id]
            assert selected(ledger, Selection("/a", types=("node",), where=active, as_of=as_of)) == [near.id]
            assert selected(ledger, Selection("/a", where=archived, as_of=as_of)) == []

    def test_links_are_read_as_they_stood(self, ledger: Ledger, make: Builder) -> None:
        one, two = make.node("One"), make.node("Two")
        link = Link(type="about", source=one.id, target=two.id)
        made = ledger.commit(make.patch(one, two))
        tied = ledger.commit(make.patch(AddLink(link=link)))
        cut = ledger.commit(make.patch(RemoveLink(link=link)))
        ledger.commit(make.patch(AddLink(link=link)))
        counts = [len(ledger.links(two.id, as_of=at.sequence)) for at in (made, tied, cut)]
        assert counts == [0, 1, 0]
        assert len(ledger.links(one.id, as_of=tied.committed_at)) == len(ledger.links(one.id)) == 1

    def test_every_change_is_an_event_and_events_have_no_gaps(self, ledger: Ledger, make: Builder) -> None:
        one, two = make.node("One"), make.node("Two")
        link = Link(type="about", source=one.id, target=two.id)
        receipt = ledger.commit(make.patch(one, two, AddLink(link=link), reason="Because.", by=author("agent", "eve")))
        events = list(ledger.events())
        assert [event.seq for event in events] == [1, 2, 3]
        assert [event.event_type for event in events] == ["created", "created", "linked"]
        assert events[2].after == {"link": ["about", one.id, two.id]}
        assert (events[0].before, events[0].target) == (None, one.id)
        assert events[0].after is not None
        assert events[0].after.keys() == {"revision", "status", "hash"}
        assert {(event.actor, event.channel, event.reason) for event in events} == {("eve", "agent", "Because.")}
        assert {event.patch_id for event in events} == {receipt.patch_id}
        assert (receipt.sequence, receipt.head) == (3, events[-1].hash)

    def test_the_log_never_holds_content(self, ledger: Ledger, make: Builder) -> None:
        source = make.source("A secret word.", title="Hidden title")
        ledger.commit(make.patch(source, make.fact("Ada", "word", "xyzzy", make.evidence(source))))
        text = " ".join(event.model_dump_json() for event in ledger.events())
        assert not any(word in text for word in ("secret", "Hidden", "xyzzy"))

    def test_an_applied_patch_keeps_its_operations_and_the_revisions_what_they_say(
        self, ledger: Ledger, make: Builder
    ) -> None:
        source, node, work = make.source("3 hives."), make.node("Hive"), make.work("Count them")
        first = make.patch(source, node, work, AddLink(link=Link(type="about", source=work.id, target=node.id)))
        changing = make.patch(
            updating(node.id, summary="Where bees live."),
            Transition(id=work.id, expected_revision=1, to="resolved", resolution="Counted."),
        )
        for patch in (first, changing):
            ledger.commit(patch)
        kept = ledger.patch(first.id).operations
        assert [operation.op for operation in kept] == ["create", "create", "create", "link"]
        told = [asked(operation, _revision_in(ledger)) for operation in kept]
        made = [operation.object.id for operation in told if isinstance(operation, Create)]
        assert made == [source.id, node.id, work.id]
        again = tuple(asked(one, _revision_in(ledger)) for one in ledger.patch(changing.id).operations)
        assert again == changing.operations

    def test_the_operations_of_an_applied_patch_lose_what_is_erased(self, ledger: Ledger, make: Builder) -> None:
        node, other = make.node("Hive", summary="xyzzy"), make.node("Box")
        patch = make.patch(node, other)
        ledger.commit(patch)
        kept = ledger.patch(patch.id)
        ledger.commit(make.patch(erasing(node.id)))
        assert ledger.patch(patch.id) == kept
        gone, there = (asked(one, _revision_in(ledger)) for one in kept.operations)
        assert gone == RecordedCreate(id=node.id, revision=1)
        assert isinstance(there, Create)
        assert not any("xyzzy" in text for text in contents(ledger))
        ledger.verify()

    def test_a_duplicate_is_recorded_with_what_stands_for_it(self, ledger: Ledger, make: Builder) -> None:
        one, two = make.node("Hive"), make.node("Hive", aliases=("Skep",))
        ledger.commit(make.patch(one))
        patch = make.patch(two)
        ledger.commit(patch)
        assert ledger.patch(patch.id).operations == (RecordedCreate(id=one.id, revision=2, merged=two.id),)

    def test_the_feed_goes_on_after_any_event_and_stops_at_a_limit(self, ledger: Ledger, make: Builder) -> None:
        for name in ("One", "Two", "Three", "Four"):
            ledger.commit(make.patch(make.node(name)))
        assert [event.seq for event in ledger.events(after=1, limit=2)] == [2, 3]
        assert [event.seq for event in ledger.events(after=3)] == [4]
        assert list(ledger.events(after=4)) == list(ledger.events(limit=0)) == []

    def test_the_events_of_one_object_are_listed(self, ledger: Ledger, make: Builder) -> None:
        one, two = make.node("One"), make.node("Two")
        ledger.commit(make.patch(one, two))
        ledger.commit(make.patch(updating(one.id, name="Uno")))
        first, second = ledger.events_of(one.id)
        assert (first.event_type, second.event_type) == ("created", "updated")
        assert first.after == second.before

    def test_the_log_verifies_and_gives_its_head(self, ledger: Ledger, make: Builder) -> None:
        assert ledger.verify() == Anchor(seq=0, hash=GENESIS)
        early = ledger.commit(make.patch(make.node("One")))
        anchor = Anchor(seq=early.sequence, hash=early.head)
        late = ledger.commit(make.patch(make.node("Two")))
        assert ledger.verify(anchor=anchor) == Anchor(seq=late.sequence, hash=late.head)
        assert verify_chain(ledger.events()) == ledger.verify()

    def test_an_anchor_of_another_history_does_not_verify(self, ledger: Ledger, make: Builder) -> None:
        receipt = ledger.commit(make.patch(make.node("One")))
        for anchor in (Anchor(seq=1, hash="0" * 40), Anchor(seq=9, hash=receipt.head)):
            with pytest.raises(Corrupt):
                ledger.verify(anchor=anchor)

    def test_history_runs_forward_also_where_the_clock_is_put_back(
        self, ledger: Ledger, make: Builder, clock: SteppingClock
    ) -> None:
        node = make.node("One")
        first = ledger.commit(make.patch(node))
        patch = make.patch(updating(node.id, name="Two"))
        clock.set(START - timedelta(days=1))
        second = ledger.commit(patch)
        assert second.committed_at >= first.committed_at
        assert ledger.get(node.id, as_of=second.committed_at).revision == 2


def _revision_in(ledger: Ledger) -> Callable[[str, int], Object | None]:
    def revision(identity: str, number: int) -> Object | None:
        try:
            return ledger.history(identity)[number - 1]
        except NotFound:
            return None

    return revision


# The change feed: changes of objects in order, from which a projection elsewhere can be made and kept.


STEPS = ["source", "fact", "node", "change", "archive", "link", "propose", "approve", "erase", "revert"]
numbers: st.SearchStrategy[int] = st.integers(min_value=0, max_value=999)
sizes: st.SearchStrategy[int] = st.integers(min_value=0, max_value=5)


class ChangeFeed(LedgerStage):
    """`changes`."""

    def test_a_change_has_the_object_before_and_after(self, ledger: Ledger, make: Builder) -> None:
        node, source = make.node("Hive"), make.source("3 hives.")
        ledger.commit(make.patch(node, source))
        ledger.commit(make.patch(updating(node.id, name="Box")))
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
        ledger.commit(make.patch(moving(source.id, 1, "archived")))
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
        ledger.commit(make.patch(updating(node.id, summary="Lives here.")))
        ledger.commit(make.patch(erasing(node.id, 2)))
        found = ledger.changes(0, 10)
        assert [(one.seq, one.object_id) for one in found] == [(2, kept.id), (4, node.id)]
        assert (found[-1].before, found[-1].after) == (None, None)
        assert "Wilhelmina" not in repr(found)

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
    """A minimal external projection: the current state of every object."""

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
                self._commit(updating(item.id, item.revision, segments=segments))
            case "archive", Source(status="active"):
                self._commit(moving(item.id, item.revision, "archived"))
            case "link", _:
                other = self._item(number + 1) or item
                self._commit(AddLink(link=Link(type="similar_to", source=item.id, target=other.id)))
            case "erase", _:
                self._commit(erasing(item.id, item.revision))
            case _:
                pass

    def _state_a_fact(self, number: int) -> None:
        sources = [item for item in self._items() if isinstance(item, Source) and item.segments]
        if sources:
            evidence = self._make.evidence(sources[number % len(sources)])
            self._commit(self._make.fact("Ada", "hives", number % 3, evidence))

    def _commit(self, part: Object | Operation) -> None:
        patch = self._make.patch(part)
        with suppress(TreeringError):  # a rule refuses this step: then nothing is done
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
