"""What `make check` leaves out: no test file as a whole, and examples beyond a cap."""

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

TRIED = []


def test_every_test_file_has_a_test_in_the_gate(request, collected_files):
    if request.config.option.keyword or "nightly" not in request.config.option.markexpr:
        pytest.skip("this run is not that of the gate")
    touched = {item.path for item in request.session.items}

    assert sorted(map(str, collected_files - touched)) == []


@settings(max_examples=2000)
@given(st.integers())
def test_examples_are_counted(number):
    TRIED.append(number)


def test_a_test_of_the_gate_tries_no_more_examples_than_the_cap(request):
    if request.config.getoption("--hypothesis-profile") not in (None, "gate"):
        pytest.skip("this run tries all examples")
    TRIED.clear()
    test_examples_are_counted()

    assert 0 < len(TRIED) <= settings.get_profile("gate").max_examples
