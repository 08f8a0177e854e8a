from datetime import UTC, datetime, timedelta, timezone

import pytest
from hypothesis import given
from hypothesis import strategies as st

from treering.core.canonical import parse_time, render_time
from treering.core.errors import InvalidInput

zones = st.integers(-14 * 60, 14 * 60).map(lambda minutes: timezone(timedelta(minutes=minutes)))
times = st.datetimes(min_value=datetime(1000, 1, 2), max_value=datetime(9999, 12, 30), timezones=zones)  # noqa: DTZ001 - bounds are naive by contract


@given(times)
def test_a_time_comes_back_as_the_same_moment(time: datetime) -> None:
    assert parse_time(render_time(time)) == time


@given(times, times)
def test_written_times_sort_as_the_moments_do(one: datetime, two: datetime) -> None:
    assert (render_time(one) < render_time(two)) == (one < two)


def test_a_time_is_written_in_utc_with_microseconds() -> None:
    time = datetime(2026, 1, 31, 14, tzinfo=timezone(timedelta(hours=2)))
    assert render_time(time) == "2026-01-31T12:00:00.000000Z"


@pytest.mark.parametrize("text", ["2026-01-31T12:00:00Z", "2026-01-31T14:00:00+02:00", "2026-01-31 12:00:00.0+00:00"])
def test_iso_8601_is_read(text: str) -> None:
    assert parse_time(text) == datetime(2026, 1, 31, 12, tzinfo=UTC)


@pytest.mark.parametrize("text", ["", "yesterday", "2026-13-01T00:00:00Z", "2026-01-31T12:00:00", "2026-01-31"])
def test_a_time_without_a_zone_or_no_time_at_all_is_refused(text: str) -> None:
    with pytest.raises(InvalidInput) as refused:
        parse_time(text)
    assert refused.value.hint
