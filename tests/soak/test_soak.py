import pytest

from soak import Plan, soak


@pytest.mark.parametrize(
    "plan",
    [
        Plan(processes=2, seconds=1, kills=1),
        pytest.param(Plan(processes=3, seconds=4, kills=3), marks=pytest.mark.nightly),
    ],
)
def test_processes_of_which_some_are_killed_work_on_one_project_and_lose_nothing(tmp_path, plan):
    outcome = soak(plan, tmp_path)
    assert outcome.wrong == []
    assert {"index", "delete", "retrieve"} <= {step.verb for step in outcome.steps if step.outcomes is not None}


@pytest.mark.torture
@pytest.mark.parametrize("kills", [0, 20])
def test_eight_processes_work_on_one_project_for_a_minute_and_lose_nothing(tmp_path, kills):
    outcome = soak(Plan(processes=8, seconds=60, kills=kills), tmp_path)
    assert outcome.wrong == []
