"""What every projection must do, as tests: for any history and any cut, catching up equals rebuilding.

A backend's own test class inherits `ProjectionContract`:

class TestMyProjection(ProjectionContract):
    @pytest.fixture
    def open_projection(self, clock):
        def open_projection():
            projection = MyProjection()
            return MemoryLedger(clock=clock), projection, projection.contents
        return open_projection
"""

from collections.abc import Callable, Sequence

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from treering.core.patch import Erase, Update
from treering.ports.index import Projection
from treering.ports.ledger import Ledger
from treering.retrieval.index.projection import FeedPosition, follow
from treering.testing.builders import Builder
from treering.testing.fakes import SteppingClock
from treering.testing.index_contract.histories import HistoryWriter, Step, histories
from treering.testing.index_contract.stage import LedgerWriter
from treering.testing.ledger_contract.stage import LedgerStage
from treering.testing.memory_ledger import MemoryLedger

Contents = Callable[[], object]
"""Gives all that a projection made of changes, as a value that can be compared."""

OpenProjection = Callable[[], tuple[Projection, Contents]]
"""Opens a new projection. The fixture that makes it closes what it opened."""


class ProjectionContract(LedgerStage):
    """Inherit this in a test class and return the fixture `open_projection`."""

    @pytest.fixture
    def ledger(self, clock: SteppingClock) -> Ledger:
        return MemoryLedger(clock=clock)

    def test_a_new_one_begins_at_the_beginning(self, open_projection: OpenProjection) -> None:
        projection, _ = open_projection()
        assert projection.cursor == 0

    def test_the_cursor_moves_over_events_that_change_nothing(self, open_projection: OpenProjection) -> None:
        projection, contents = open_projection()
        before = contents()
        projection.apply([], upto=7)
        assert projection.cursor == 7
        assert contents() == before

    def test_changes_that_were_applied_are_not_applied_again(
        self, open_projection: OpenProjection, ledger: Ledger, make: Builder
    ) -> None:
        projection, contents = open_projection()
        source = make.source("Bees hum.", "Ants dig.")
        ledger.commit(make.patch(source))
        ledger.commit(make.patch(Update(id=source.id, expected_revision=1, changes={"title": "Notes"})))
        projection.apply(ledger.changes(0, 1), upto=1)
        projection.apply(ledger.changes(0, 2), upto=2)
        once = contents()
        projection.apply(ledger.changes(0, 2), upto=2)
        projection.apply(ledger.changes(0, 1), upto=1)
        assert (projection.cursor, contents()) == (2, once)
        assert once == _anew(open_projection, ledger)

    def test_what_was_erased_is_gone(self, open_projection: OpenProjection, ledger: Ledger, make: Builder) -> None:
        projection, contents = open_projection()
        empty = contents()
        source = make.source("Bees hum.")
        ledger.commit(make.patch(source))
        follow(ledger, projection)
        assert contents() != empty
        ledger.commit(make.patch(Erase(id=source.id, expected_revision=1)))
        follow(ledger, projection)
        assert contents() == empty

    def test_one_that_was_cleared_starts_over(
        self, open_projection: OpenProjection, ledger: Ledger, make: Builder
    ) -> None:
        projection, contents = open_projection()
        empty = contents()
        ledger.commit(make.patch(make.source("Bees hum.")))
        follow(ledger, projection)
        grown = contents()
        projection.clear()
        assert (projection.cursor, contents()) == (0, empty)
        assert follow(ledger, projection) == FeedPosition(1, 1)
        assert contents() == grown

    @settings(max_examples=15, deadline=None, suppress_health_check=list(HealthCheck))
    @given(steps=histories, cuts=st.lists(st.integers(0, 4), min_size=25, max_size=25))
    def test_catching_up_equals_rebuilding(
        self, open_projection: OpenProjection, steps: Sequence[Step], cuts: Sequence[int]
    ) -> None:
        clock = SteppingClock()
        ledger = MemoryLedger(clock=clock)
        projection, contents = open_projection()
        history = HistoryWriter(LedgerWriter(ledger, clock))
        for step, size in zip(steps, cuts, strict=False):
            history.take(step)
            follow(ledger, projection, size, batch=2)
        follow(ledger, projection, batch=3)
        assert contents() == _anew(open_projection, ledger)


def _anew(open_projection: OpenProjection, ledger: Ledger) -> object:
    projection, contents = open_projection()
    follow(ledger, projection)
    return contents()
