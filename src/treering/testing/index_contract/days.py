"""Search by the days that turns were said on, or speak of."""

from datetime import UTC, date, datetime, timedelta

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from treering.derived.passages import passages_of
from treering.derived.shares import day_share
from treering.ports.passages import AskedDays
from treering.testing.clocks import SteppingClock
from treering.testing.index_contract.stage import IndexedSpace, IndexStage, OpenIndex
from treering.testing.index_questions import by_days, days, on_days, seen

MAY, JUNE = days("2023-05-01", "2023-05-31"), days("2023-06-01", "2023-06-30")
SAID = datetime(2023, 5, 8, 12, tzinfo=UTC)

_DAYS = st.dates(date(2022, 1, 1), date(2024, 12, 31))
_ASKED = st.builds(
    lambda one, other, weight: AskedDays(min(one, other), max(one, other), weight),
    _DAYS,
    _DAYS,
    st.sampled_from([1.0, 0.5]),
)
_TEXTS = st.sampled_from(["Yes.", "Last week.", "In 2023.", "In May.", "Yesterday, and last year.", "since 2015"])


class Days(IndexStage):
    """`TextSearch` by days."""

    def test_turns_said_on_a_day_or_speaking_of_it_are_found_by_it(self, space: IndexedSpace) -> None:
        later = SAID + timedelta(days=60)
        talk = space.talk(("Bees hum.", SAID), ("The bees of May 2023 were many.", later), ("Ants dig.", later))
        space.commit(talk)
        assert _scores(space, MAY) == {space.key(talk, 0): 1.0, space.key(talk, 1): 1.0}
        assert _scores(space, JUNE) == _scores(space) == {}

    def test_a_longer_time_counts_by_the_part_of_it_that_is_asked_for(self, space: IndexedSpace) -> None:
        talk = space.talk(("In May 2023.", None), ("The first half of May 2023 and 2023-05-31.", None))
        space.commit(talk)
        one, other = space.key(talk, 0), space.key(talk, 1)
        day = days("2023-05-31", weight=0.5)
        assert _scores(space, day) == pytest.approx({one: 0.5 / 31, other: 0.5})
        assert _scores(space, day, MAY) == {one: 1.0, other: 1.0}

    def test_the_best_come_first_then_the_newest_and_no_more_than_asked_for(self, space: IndexedSpace) -> None:
        talk, later = space.talk(("In 2023.", None), ("Bees.", SAID)), space.talk(("Ants.", SAID), origin="later")
        space.commit(talk)
        space.commit(later)
        wanted = [space.key(later), space.key(talk, 1), space.key(talk, 0)]
        assert [hit.key for hit in by_days(space.index, [MAY], reach=seen(), limit=10)] == wanted
        assert [hit.key for hit in by_days(space.index, [MAY], reach=seen(), limit=2)] == wanted[:2]

    def test_some_turns_have_the_scores_they_have_among_all(self, space: IndexedSpace) -> None:
        turns = [(f"Bee {n}, and in May 2023.", SAID + timedelta(days=20 * n)) for n in range(40)]
        talk = space.talk(*turns)
        space.commit(talk)
        every = _scores(space, MAY, JUNE)
        assert len(every) == 40
        assert on_days(space.index, [MAY, JUNE], [*every, 10**9]) == pytest.approx(every)
        first = space.key(talk)
        assert on_days(space.index, [MAY, JUNE], [first]) == pytest.approx({first: every[first]})
        assert on_days(space.index, [], every) == on_days(space.index, [MAY], []) == {}

    def test_days_are_found_within_reach_alone(self, space: IndexedSpace) -> None:
        one, other = space.talk(("Bees.", SAID), scope="/a"), space.talk(("Ants.", SAID), scope="/b", origin="b")
        space.commit(one, other)
        by_scope = by_days(space.index, [MAY], reach=seen("/a"), limit=9)
        by_filter = by_days(space.index, [MAY], reach=seen(where={"scope": "/b"}), limit=9)
        assert (space.objects(by_scope), space.objects(by_filter)) == ([one.id], [other.id])

    def test_days_of_what_was_said_otherwise_are_found_as_of_then(self, space: IndexedSpace) -> None:
        talk = space.talk(("Bees came in May 2023.", None))
        made = space.commit(talk).sequence
        before = space.key(talk)
        space.reread(talk, "Bees came in June 2023.")
        assert (_scores(space, MAY), list(_scores(space, JUNE).values())) == ({}, [1.0])
        then = by_days(space.index, [MAY], reach=seen(at=made), limit=9)
        assert [(hit.key, hit.score) for hit in then] == [(before, 1.0)]

    def test_erased_turns_are_found_by_no_day(self, space: IndexedSpace) -> None:
        talk, other = space.talk(("Bees came yesterday.", SAID)), space.talk(("Ants.", SAID), origin="other")
        space.commit(talk, other)
        gone = space.key(talk)
        space.erase(talk)
        assert _scores(space, MAY) == {space.key(other): 1.0}
        assert on_days(space.index, [MAY], [gone]) == {}

    @settings(max_examples=15, deadline=None, suppress_health_check=list(HealthCheck))
    @given(
        turns=st.lists(st.tuples(_TEXTS, _DAYS), min_size=1, max_size=6), asked=st.lists(_ASKED, min_size=1, max_size=4)
    )
    def test_a_score_is_the_best_share_of_a_told_period(
        self, open_index: OpenIndex, clock: SteppingClock, turns: list[tuple[str, date]], asked: list[AskedDays]
    ) -> None:
        space = IndexedSpace(open_index(), clock)
        talk = space.talk(*((text, datetime(day.year, day.month, day.day, tzinfo=UTC)) for text, day in turns))
        space.commit(talk)
        keys = space.keys(talk)
        wanted = {keys[passage.part]: day_share(passage, asked) for passage in passages_of(talk)}
        assert _scores(space, *asked) == pytest.approx({key: share for key, share in wanted.items() if share})


def _scores(space: IndexedSpace, *asked: AskedDays) -> dict[int, float]:
    return {hit.key: hit.score for hit in by_days(space.index, asked, reach=seen(), limit=1_000)}
