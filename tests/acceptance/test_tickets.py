"""The flow of tickets end to end: the command line, a scripted supervisor, a shell worker, a project's memory."""

import os
import signal
import subprocess
import sys
import time

import pytest

import treering
from treering.extensions.projects.ticket import Ticket, TicketMemory
from treering.ports.ledger import Selection
from treering.testing.fakes import HashingEmbedder

pytestmark = pytest.mark.skipif(os.name == "nt", reason="the worker is written for a POSIX shell")

PAST = "Ticket: Slow pages. The pages were slow. A page cache in front of the pages made them quick"
TICKETS = """
- {id: T-1, title: Stale pages, description: The page cache serves stale pages after a deploy}
- {id: T-2, title: Stale images, description: The page cache serves stale images after a deploy}
"""
SCRIPT = """
- {complete: false, next_prompt: Find out how keys are made.}
- {complete: false, next_prompt: Put the deploy into them.}
- {complete: true, summary: Keys of the page cache now name the deploy.}
"""
# The second turn kills the supervisor, once.
WORKER = """
cat >> prompts.log; echo >> prompts.log
if grep -q deploy prompts.log && [ ! -e crashed ]; then touch crashed; kill -9 $PPID; exit 1; fi
echo "The page cache serves stale pages: I looked."
"""
PROMPTS = ["Find out how keys are made.", "Put the deploy into them."]


@pytest.fixture
def tree(tmp_path):
    """A work tree with a worker, and a project that knows of one ticket."""
    (tmp_path / "tickets.yaml").write_text(TICKETS)
    (tmp_path / "script.yaml").write_text(SCRIPT)
    (tmp_path / "work.sh").write_text(WORKER)
    with projects(tmp_path) as memory:
        memory.index("acme", [PAST])
    return tmp_path


def projects(tree):
    return treering.open_projects(tree / "data" / "projects", background=False, embedder=HashingEmbedder())


def begin(tree, worker):
    command = "supervise tickets.yaml --script script.yaml --project acme --worker".split()
    return subprocess.Popen(
        [sys.executable, "-m", "treering", *command, worker],
        cwd=tree,
        env={**os.environ, "TREERING_DATA_DIR": str(tree / "data"), "TREERING_BACKGROUND": "0"},
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    )


def supervise(tree):
    process = begin(tree, "exec sh work.sh")
    out, err = process.communicate(timeout=120)
    return subprocess.CompletedProcess(process.args, process.returncode, out, err)


def test_tickets_are_worked_through_over_a_crash_and_the_next_one_profits(tree):
    assert supervise(tree).returncode == -signal.SIGKILL
    again = supervise(tree)
    assert (again.returncode, again.stderr.count("Stale pages: turn")) == (0, 1), again
    prompts = (tree / "prompts.log").read_text().splitlines()
    assert prompts == [*PROMPTS, PROMPTS[1], *PROMPTS], "only the turn that was cut off is done again"

    done = supervise(tree)
    assert (done.returncode, done.stdout.count("already completed")) == (0, 2)
    assert (tree / "prompts.log").read_text().splitlines() == prompts

    with projects(tree) as memory:
        tickets = TicketMemory("acme", memory)
        block = tickets.start(Ticket(title="Stale fonts", description="The page cache serves stale fonts"))
        assert block.startswith("Memories invoked:\n")
        lessons = block.splitlines()[1:]
        kept = "The page cache serves stale pages after a deploy. Keys of the page cache now name the deploy."
        assert f"Ticket: Stale pages. {kept}" in lessons
        assert not [lesson for lesson in lessons if lesson in (tree / "prompts.log").read_text()]
        with memory.engine("acme") as engine:
            objects = list(engine.ledger.select(Selection(scope="/", descend=True)))
            assert engine.ledger.verify()
        assert [item.type for item in objects].count("source") == 3
        assert {item.status for item in objects if item.type == "work_item"} == {"resolved"}
        assert [item.status for item in objects if item.type == "activity"] == ["finalized"] * 2


@pytest.mark.nightly
def test_what_a_ticket_taught_can_be_taken_back(tree):
    (tree / "crashed").touch()
    assert supervise(tree).returncode == 0
    with projects(tree) as memory:
        tickets = TicketMemory("acme", memory)
        ticket = Ticket(id="T-1", title="Stale pages", description="The page cache serves stale pages after a deploy")
        assert tickets.revert(ticket)
        assert "Ticket: Stale pages." not in tickets.start(ticket)
        assert "Ticket: Stale images." in tickets.start(ticket)
        assert tickets.failures == []
    assert supervise(tree).stdout.count("already completed") == 1


def test_a_supervisor_that_is_asked_to_end_leaves_no_worker_behind(tree):
    process = begin(tree, "echo $$ > worker.pid; exec sleep 600")
    while not (tree / "worker.pid").exists() or not (tree / "worker.pid").read_text().strip():
        assert process.poll() is None, process.communicate()
        time.sleep(0.05)
    process.terminate()
    process.communicate(timeout=60)
    assert process.returncode == 128 + signal.SIGTERM
    with pytest.raises(ProcessLookupError):
        os.kill(int((tree / "worker.pid").read_text()), 0)
