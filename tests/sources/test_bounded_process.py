import os
import subprocess
import sys
import time
from importlib.util import find_spec
from pathlib import Path

import pytest

from treering.sources.reading.bounded_process import BoundedProcess


@pytest.fixture
def process():
    return BoundedProcess("children")


@pytest.mark.skipif(sys.platform == "win32", reason="this system limits no CPU time of a process")
@pytest.mark.parametrize("hostile", [b"loop", b"crash"])
def test_a_question_that_ends_its_child_costs_no_other_one(process, hostile):
    assert process.ask(hostile, seconds=1) is None
    assert process.ask(b"next", seconds=1) == b"answer to next"


def test_a_child_that_gets_no_answer_in_time_is_ended():
    process = BoundedProcess("children", wall_seconds=0.5)
    assert process.ask(b"loop", seconds=100) is None
    assert process.ask(b"next", seconds=100) == b"answer to next"


@pytest.mark.skipif(sys.platform != "linux", reason="only Linux keeps to the limit of the address space")
def test_a_child_gets_no_more_memory_than_allowed(process):
    assert process.ask(b"eat", seconds=10) == b"refused"


@pytest.mark.skipif(sys.platform == "win32", reason="Windows does not limit CPU time")
def test_a_part_of_an_answer_has_its_own_cpu_limit(process):
    assert process.ask(b"loop in a part", seconds=100) is None
    assert process.ask(b"limits", seconds=100) == b"True"


@pytest.mark.skipif(sys.platform == "win32", reason="Windows does not limit CPU time")
def test_a_child_does_not_keep_the_cpu_limit_of_its_starter():
    program = """
import resource
_, hard = resource.getrlimit(resource.RLIMIT_CPU)
resource.setrlimit(resource.RLIMIT_CPU, (60, hard))
from treering.sources.reading.bounded_process import _bound
_bound(None)
assert resource.getrlimit(resource.RLIMIT_CPU) == (hard, hard)
"""
    subprocess.run([sys.executable, "-c", program], check=True)


def test_what_a_library_prints_is_no_answer(process):
    assert process.ask(b"print", seconds=10) == b"answer to print"
    assert process.ask(b"next", seconds=10) == b"answer to next"


def test_one_child_answers_many_questions(process):
    assert len({process.ask(b"who", seconds=10) for _ in range(50)}) == 1


def test_a_child_is_replaced_after_many_answers(process):
    assert len({process.ask(b"who", seconds=10) for _ in range(1_500)}) == 2


def test_a_child_takes_no_module_from_the_folder_that_its_starter_works_in(tmp_path, monkeypatch):
    marker = tmp_path / "it-ran"
    (tmp_path / "strangers.py").write_text(f"open({str(marker)!r}, 'w').close()\ndef serve(): pass\n")
    monkeypatch.chdir(tmp_path)
    # As `python -m` does, and an empty folder in PYTHONPATH.
    monkeypatch.syspath_prepend(str(tmp_path))
    assert find_spec("strangers")
    assert BoundedProcess("strangers").ask(b"next", seconds=10) is None
    assert not marker.exists()


@pytest.mark.skipif(sys.platform != "linux", reason="reads /proc")
def test_a_child_ends_after_its_starter_was_killed():
    start = (
        "import sys; sys.path.insert(0, sys.argv[1])\n"
        "from treering.sources.reading.bounded_process import BoundedProcess\n"
        "process = BoundedProcess('children')\n"
        "print(process.ask(b'who', seconds=10).decode(), flush=True); sys.stdin.read()"
    )
    command = [sys.executable, "-c", start, str(Path(__file__).parent)]
    with subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True) as starter:
        child = int(starter.stdout.readline())
        assert _is_running(child)
        starter.kill()
    deadline = time.monotonic() + 9  # it would end by itself after 10 s
    while _is_running(child) and time.monotonic() < deadline:
        time.sleep(0.01)
    assert not _is_running(child)


def _is_running(process_id):
    try:
        os.kill(process_id, 0)
        return " Z " not in Path(f"/proc/{process_id}/stat").read_text().rpartition(")")[2][:4]
    except (ProcessLookupError, FileNotFoundError):
        return False


def test_start_replaces_a_child_that_ended(process):
    process.start()
    ended = process._child.process
    ended.stdin.close()
    assert ended.wait() == 0
    process.start()
    running = process._child.process
    assert process.ask(b"print", seconds=1) is not None
    assert process._child.process is running is not ended
