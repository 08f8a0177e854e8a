"""The example of an agent system, run as its README says: what its second run recalls of the first makes it better."""

import json
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from treering.client import AgentProfile, BlockingMemoryClient

ROOT = Path(__file__).parents[1]
NO_NETWORK = """
import socket, runpy, sys

def refused(*_):
    raise OSError("the example reached for the network")

socket.socket.connect = socket.getaddrinfo = refused
sys.argv[0] = "research_agent"
runpy.run_module("examples.research_agent", run_name="__main__", alter_sys=True)
"""


def run_agent(*changes: str) -> dict[str, Any]:
    command = [sys.executable, "-W", "error", "-c", NO_NETWORK, *changes]
    done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, timeout=600, check=False)
    assert done.returncode == 0, done.stderr
    return json.loads(done.stdout)


@pytest.fixture(scope="module")
def runs(tmp_path_factory: pytest.TempPathFactory) -> tuple[dict[str, Any], dict[str, Any], Path]:
    """Two runs with one memory, and where that is."""
    path = tmp_path_factory.mktemp("memory") / "memory.db"
    first, second = (run_agent(f"memory.sqlite.path={path}") for _ in range(2))
    return first, second, path


@pytest.mark.nightly
def test_the_second_run_recalls_what_the_first_one_learned(runs: tuple[dict[str, Any], dict[str, Any], Path]) -> None:
    first, second, _ = runs
    assert first["recalled"] == first["earlier_plans"] == []
    learned = [tried.partition(":")[0] for tried in first["tried"]]
    assert sorted(text.split()[2] for text in second["recalled"]) == sorted(learned)
    assert second["earlier_plans"] == [
        "Plan for: Which seed length aligns the short reads of sample S7 best? Begin with seed length 19."
    ]


def test_what_is_recalled_makes_the_second_run_better(runs: tuple[dict[str, Any], dict[str, Any], Path]) -> None:
    first, second, _ = runs
    assert second["mapped"] > first["mapped"]
    assert not {*first["tried"]} & {*second["tried"]}
    assert any("failed" in tried for tried in first["tried"])
    assert not any("failed" in tried for tried in second["tried"])


def test_every_integration_point_left_its_memories(runs: tuple[dict[str, Any], dict[str, Any], Path]) -> None:
    *answers, path = runs
    everything = AgentProfile(agent_type="", relevance_threshold=0)
    with BlockingMemoryClient({"sqlite": {"path": str(path)}}, background=False) as client:
        found = client.retrieve("seed length reads sample tool", 200, scope="space", profile=everything)
    kinds = [memory.metadata["memory_type"] for memory in found]
    assert {kind: kinds.count(kind) for kind in kinds} == {
        "plan": 2,  # 8: the node
        "parameter_tuning": 6,  # 3: the agent's tool
        "tool_execution": 7,  # 6: six alignments, and one search in papers
        "execution_trace": 6,  # 7: the history
        "failure_analysis": 1,
        "tool_result": 2,  # 8: the node
    }
    assert len({memory.metadata["session_id"].partition(">")[0] for memory in found}) == 2
    assert [run["traces"] for run in answers] == [4, 3]
    in_loop = [memory for memory in found if "part_of" in memory.metadata]
    # 4: what the loop stored was merged into its run.
    assert {memory.metadata["memory_type"] for memory in in_loop} == {"parameter_tuning", "tool_execution"}
    assert {memory.metadata["agent_type"] for memory in found if memory.metadata["memory_type"] == "plan"} == {
        "planner"
    }


def test_without_a_memory_the_program_does_the_same_every_time() -> None:
    answer = run_agent("memory.enabled=false")
    assert answer["tried"] == ["19: failed", "17: 74 %", "15: 82 %"]
    assert (answer["recalled"], answer["earlier_plans"], answer["traces"]) == ([], [], 0)


def test_its_readme_shows_what_it_prints(runs: tuple[dict[str, Any], dict[str, Any], Path]) -> None:
    readme = (ROOT / "examples/research_agent/README.md").read_text(encoding="utf-8")
    assert json.dumps(runs[0], indent=2) in readme
    shown = json.dumps(runs[1], indent=2).partition('  "recalled"')[0]
    assert shown in readme
