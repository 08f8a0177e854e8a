import pytest
from discussion_soak import Plan, soak


@pytest.mark.parametrize(
    ("turns", "kills", "memories"), [(20, 1, 3), pytest.param(60, 3, 10, marks=pytest.mark.nightly)]
)
def test_two_processes_that_are_killed_keep_one_discussion_as_a_quiet_run_does(tmp_path, turns, kills, memories):
    outcome = soak(Plan(turns=turns, kills=kills), tmp_path)
    assert outcome.wrong == ()
    assert outcome.killed == kills
    assert outcome.memories > memories


@pytest.mark.torture
def test_a_discussion_of_two_thousand_turns_is_kept_through_forty_kills(tmp_path):
    outcome = soak(Plan(turns=2_000, kills=40), tmp_path)
    assert outcome.wrong == ()
