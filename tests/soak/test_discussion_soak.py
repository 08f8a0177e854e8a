import pytest
from discussion_soak import Plan, soak


def test_two_processes_three_times_killed_keep_one_discussion_as_a_quiet_run_does(tmp_path):
    outcome = soak(Plan(turns=60, kills=3), tmp_path)
    assert outcome.wrong == ()
    assert outcome.killed == 3
    assert outcome.memories > 10


@pytest.mark.torture
def test_a_discussion_of_two_thousand_turns_is_kept_through_forty_kills(tmp_path):
    outcome = soak(Plan(turns=2_000, kills=40), tmp_path)
    assert outcome.wrong == ()
