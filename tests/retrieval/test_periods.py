from datetime import date, timedelta

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from treering.retrieval.text import periods

DAYS = st.dates(date(1900, 1, 1), date(2100, 12, 31))
UNITS = st.sampled_from(["day", "week", "weekend", "month", "year"])


@pytest.mark.parametrize(
    ("at", "unit", "count", "to"),
    [
        (date(2024, 1, 31), "month", 1, date(2024, 2, 29)),
        (date(2024, 2, 29), "year", -1, date(2023, 2, 28)),
        (date(2023, 12, 15), "month", 1, date(2024, 1, 15)),
        (date(2024, 1, 15), "month", -13, date(2022, 12, 15)),
        (date(2024, 1, 1), "week", -1, date(2023, 12, 25)),
        (date(2024, 1, 1), "day", -1, date(2023, 12, 31)),
    ],
)
def test_a_day_moves_by_units_and_stays_within_shorter_months(at, unit, count, to):
    assert periods.moved(at, unit, count) == to


def test_a_winter_ends_in_the_next_year_on_the_last_of_february():
    assert periods.season(2023, "winter") == (date(2023, 12, 1), date(2024, 2, 29))
    assert periods.season(2023, "fall") == periods.season(2023, "autumn") == (date(2023, 9, 1), date(2023, 11, 30))


def test_parts_of_a_month_and_of_a_year_share_it_out():
    may, year = periods.month(2023, 5), periods.year(2023)
    assert [periods.part(may, name)[1].day for name in ("early", "mid", "late")] == [10, 20, 31]
    assert [periods.part(year, name)[1].month for name in ("early", "mid", "late")] == [4, 8, 12]
    assert periods.half(may, 0)[1] + timedelta(1) == periods.half(may, 1)[0]
    assert [periods.week_of(may, number)[0].day for number in (0, 1, 2, 3, -1)] == [1, 8, 15, 22, 25]


@settings(max_examples=100)
@given(DAYS, st.integers(0, 6))
def test_the_weekdays_before_and_after_a_day_are_the_nearest_such_days_that_are_not_it(at, weekday):
    before, after = periods.weekday_before(at, weekday), periods.weekday_after(at, weekday)
    assert before.weekday() == after.weekday() == weekday
    assert timedelta(1) <= at - before <= timedelta(7)
    assert timedelta(1) <= after - at <= timedelta(7)


@settings(max_examples=100)
@given(DAYS, UNITS, st.integers(-50, 50))
def test_a_period_ends_after_it_begins(at, unit, count):
    for first, last in (periods.around(at, unit, count), periods.whole(at, unit, count)):
        assert first <= last
