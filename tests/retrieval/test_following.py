"""A projection elsewhere is brought up to date in batches that each move its cursor."""

from dataclasses import dataclass, field

import pytest

from treering.retrieval.index.projection import FeedPosition, follow
from treering.testing.builders import Builder
from treering.testing.fakes import SteppingClock
from treering.testing.memory_ledger import MemoryLedger


@dataclass
class Noted:
    """A projection that notes the ids of what changed, and in how many batches they came."""

    cursor: int = 0
    ids: list[str] = field(default_factory=list)
    batches: list[int] = field(default_factory=list)

    def apply(self, changes, *, upto):
        self.ids += [change.object_id for change in changes]
        self.batches.append(upto)
        self.cursor = upto

    def clear(self):
        self.cursor, self.ids = 0, []


def ledger_with(count):
    clock = SteppingClock()
    ledger, make = MemoryLedger(clock=clock), Builder(clock)
    for number in range(count):
        ledger.commit(make.patch(make.node(f"Node {number}")))
    return ledger


@pytest.fixture
def ledger():
    return ledger_with(7)


def test_all_that_waits_is_applied_in_batches(ledger):
    noted = Noted()
    assert follow(ledger, noted, batch=3) == FeedPosition(7, 7)
    assert noted.batches == [3, 6, 7]
    assert noted.ids == [change.object_id for change in ledger.changes(0, 7)]


def test_a_limit_leaves_the_rest_to_the_next_time_and_mentions_it(ledger):
    noted = Noted()
    behind = follow(ledger, noted, 5, batch=3)
    assert (behind, behind.events) == (FeedPosition(5, 7), 2)
    assert noted.batches == [3, 5]
    assert follow(ledger, noted, 0) == FeedPosition(5, 7)
    assert follow(ledger, noted, 5).events == 0
    assert len(noted.ids) == 7


def test_current_projection_gets_no_batch(ledger):
    noted = Noted()
    follow(ledger, noted)
    follow(ledger, noted)
    assert noted.batches == [7]


def test_a_projection_that_is_ahead_of_its_ledger_starts_over(ledger):
    noted = Noted()
    follow(ledger, noted)
    older = ledger_with(2)
    assert follow(older, noted) == FeedPosition(2, 2)
    assert len(noted.ids) == 2


def test_a_batch_that_fails_leaves_the_cursor_behind_it(ledger):
    class Breaking(Noted):
        def apply(self, changes, *, upto):
            if upto > 3:
                raise OSError("The network is down.")
            super().apply(changes, upto=upto)

    noted = Breaking()
    with pytest.raises(OSError, match="network"):
        follow(ledger, noted, batch=3)
    assert noted.cursor == 3
