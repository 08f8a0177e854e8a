import os
import sys
import time
from pathlib import Path

import pytest

from treering.extensions.projects.shell_worker import OUTPUT_BYTES, ShellWorker

PYTHON = f'"{sys.executable}"'
pytestmark = pytest.mark.skipif(os.name == "nt", reason="the commands here are written for a POSIX shell")


def ends(pid):
    """Tell whether a process that was killed is gone soon."""
    for _ in range(200):
        if not is_alive(pid):
            return True
        time.sleep(0.05)
    return False


def is_alive(pid):
    try:
        os.kill(pid, 0)
    except ProcessLookupError:
        return False
    # A process that has ended and that nobody has asked for yet still has its number.
    status = Path(f"/proc/{pid}/stat")
    return not status.exists() or status.read_text().rpartition(")")[2].split()[0] != "Z"


def test_a_command_is_told_on_stdin_in_its_folder_and_answers_with_both_outputs(tmp_path):
    (tmp_path / "here.txt").write_text("found")
    response = ShellWorker("cat; cat here.txt; echo oops >&2", tmp_path).work("do it\n", seconds=30)
    assert response.text == "do it\nfoundoops\n"
    assert response.problem == ""


def test_a_command_that_fails_says_how(tmp_path):
    response = ShellWorker("echo tried; exit 3", tmp_path).work("do it", seconds=30)
    assert (response.text, response.problem) == ("tried\n", "the command ended with exit code 3")


def test_a_command_that_does_not_exist_is_a_problem_and_no_error(tmp_path):
    assert "exit code 127" in ShellWorker("no-such-command-here", tmp_path).work("do it", seconds=30).problem
    assert "cannot be started" in ShellWorker("true", tmp_path / "nowhere").work("do it", seconds=30).problem


def test_command_may_ignore_its_input(tmp_path):
    assert ShellWorker("true", tmp_path).work("x" * 1_000_000, seconds=30).problem == ""


def test_when_its_time_is_over_a_command_is_stopped_with_all_it_started(tmp_path):
    worker = ShellWorker("sleep 60 & echo $! > child; echo begun; wait", tmp_path)
    response = worker.work("do it", seconds=0.5)
    assert response.text == "begun\n"
    assert "was stopped after" in response.problem
    assert ends(int((tmp_path / "child").read_text()))


def test_a_turn_gets_no_more_time_than_its_ticket_has_left(tmp_path):
    assert "was stopped" in ShellWorker("sleep 60", tmp_path).work("do it", seconds=0.2).problem


def test_what_a_command_leaves_running_holds_nothing_up_and_is_ended(tmp_path):
    response = ShellWorker("sleep 60 & echo $! > child; echo done", tmp_path).work("do it", seconds=50)
    assert (response.text, response.problem) == ("done\n", "")
    assert ends(int((tmp_path / "child").read_text()))


def test_of_a_flood_of_output_the_beginning_and_the_end_are_kept(tmp_path):
    program = f"{PYTHON} -c \"print('begin'); print('x' * 5_000_000); print('end')\""
    text = ShellWorker(program, tmp_path).work("do it", seconds=60).text
    assert text.startswith("begin\n")
    assert text.endswith("end\n")
    assert len(text) < OUTPUT_BYTES + 100


def test_output_that_is_no_text_is_shown_as_far_as_it_is(tmp_path):
    assert ShellWorker(r"printf 'a\377b'", tmp_path).work("", seconds=30).text == "a\ufffdb"
