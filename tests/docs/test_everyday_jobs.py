from pathlib import Path
from tempfile import TemporaryDirectory

import pytest
from everyday_jobs import JOBS, PAGE, effort, rendered, run_before


def test_everyday_jobs_page_shows_what_happens():
    # Where lines break depends on how long a path is, so it is a short one, and breaks do not count.
    with TemporaryDirectory() as place:
        made = rendered(Path(place))
    shown = PAGE.read_text(encoding="utf-8")
    assert "".join(shown.split()) == "".join(made.split()), "run `python tests/docs/everyday_jobs.py`"


def test_everyday_jobs_need_one_command_and_no_copying():
    assert {(effort([job.command]).commands, effort([job.command]).copied) for job in JOBS} == {(1, 0)}
    assert all(effort([job.command]).keystrokes <= effort(job.before).keystrokes for job in JOBS)


@pytest.mark.nightly
def test_longer_commands_of_everyday_jobs_are_valid(tmp_path):
    run_before(tmp_path)
