import asyncio
from dataclasses import dataclass, field
from enum import Enum
from typing import Any

import client_parts
import pytest

import treering
from treering.client import ExecutionHistoryMemoryBridge


class ExecutionStatus(Enum):
    SUCCESS = "success"
    FAILED = "failed"
    SKIPPED = "skipped"


@dataclass
class ExecutionItem:
    step_name: str
    tool: str
    status: ExecutionStatus
    result: dict[str, Any] | None = None
    error: str | None = None
    timestamp: float = 1.7e9
    parameters: dict[str, Any] | None = None
    duration: float | None = None
    retry_count: int = 0


@dataclass
class ExecutionHistory:
    items: list[ExecutionItem] = field(default_factory=list)

    def get_failure_patterns(self):
        failed = [item for item in self.items if item.status == ExecutionStatus.FAILED]
        return {"timeout": len(failed)} if failed else {}


ALIGN = ExecutionItem("align", "bwa", ExecutionStatus.SUCCESS, result={"mapped": 97}, duration=2.5, timestamp=1.7e9)
CALL = ExecutionItem("call", "freebayes", ExecutionStatus.FAILED, error="Timeout: no answer", timestamp=1.7e9 + 5)
PLAIN = {"session_ttl": None, "retrieval": {"max_age_seconds": None, "min_similarity": 0}}


def ingested(*histories, session_id="run-1", client=None):
    """Return how many memories each history made, and all memories there are then, in the order they were stored."""

    async def ingest():
        async with client or client_parts.asynchronous(client_parts.config(**PLAIN)) as opened:
            bridge = ExecutionHistoryMemoryBridge(opened)
            counts = [await bridge.ingest_execution_history(one, session_id) for one in histories]
            found = await opened.retrieve("Tool step failure patterns detected", top_k=50, scope="space")
            return counts, sorted(found, key=lambda one: one.metadata["memory_type"])

    return asyncio.run(ingest())


def test_each_step_is_a_trace_that_follows_the_one_before():
    counts, (first, second, analysis) = ingested(ExecutionHistory([ALIGN, CALL]))
    if "follows" in first.metadata:
        first, second = second, first
    assert counts == [3]
    assert first.content == "Tool bwa - Step align\nResult: {'mapped': 97}"
    assert second.content == "Tool freebayes - Step call\nError: Timeout: no answer"
    assert second.metadata["follows"] == first.id
    assert {name: first.metadata[name] for name in first.metadata if name != "timestamp"} == {
        "memory_type": "execution_trace",
        "tool": "bwa",
        "step_name": "align",
        "status": "success",
        "duration": 2.5,
        "retry_count": 0,
        "session_id": "run-1",
        "success": True,
    }
    assert (first.timestamp.timestamp(), second.metadata["success"]) == (1.7e9, False)
    assert analysis.content == "Failure patterns detected: {'timeout': 1}"
    assert analysis.metadata["memory_type"] == "failure_analysis"
    assert analysis.metadata["patterns"] == {"timeout": 1}
    assert analysis.metadata["importance_score"] == 0.8


def test_the_links_between_traces_can_be_followed():
    async def follow():
        async with client_parts.asynchronous(client_parts.config(**PLAIN)) as client:
            await ExecutionHistoryMemoryBridge(client).ingest_execution_history(
                ExecutionHistory([ALIGN, CALL]), "run-1"
            )
            (first,) = await client.retrieve("bwa align", top_k=1, filters={"tool": "bwa"})
            return client_parts.texts(await client.get_related_memories(first.id, types=["FOLLOWS"]))

    assert asyncio.run(follow()) == ["Tool freebayes - Step call\nError: Timeout: no answer"]


def test_the_same_history_again_stores_nothing():
    history = ExecutionHistory([ALIGN, CALL])
    assert ingested(history, history)[0] == [3, 0]


def test_the_same_history_again_stores_nothing_in_another_process(tmp_path):
    config = client_parts.config(backend="sqlite", sqlite={"path": str(tmp_path / "memory.db")}, **PLAIN)
    for expected in ([3], [0]):
        counts, found = ingested(ExecutionHistory([ALIGN, CALL]), client=client_parts.asynchronous(config))
        assert (counts, len(found)) == (expected, 3)


def test_longer_history_stores_new_steps():
    retried = ExecutionItem("call", "freebayes", ExecutionStatus.FAILED, error="Timeout", retry_count=1)
    counts, found = ingested(ExecutionHistory([ALIGN]), ExecutionHistory([ALIGN, CALL]), [ALIGN, CALL, retried])
    assert counts == [1, 2, 2]
    assert len(found) == 5


def test_equal_steps_are_a_trace_each():
    counts, found = ingested([ALIGN, ALIGN])
    assert (counts, len(found)) == ([2], 2)


def test_the_same_steps_of_another_session_are_other_traces():
    async def ingest():
        async with client_parts.asynchronous() as client:
            bridge = ExecutionHistoryMemoryBridge(client)
            return [await bridge.ingest_execution_history([ALIGN], session) for session in ("one", "two")]

    assert asyncio.run(ingest()) == [1, 1]


def test_without_a_failure_there_is_no_analysis():
    skipped = ExecutionItem("plot", "multiqc", ExecutionStatus.SKIPPED)
    counts, found = ingested(ExecutionHistory([ALIGN, skipped]))
    assert counts == [2]
    assert "Tool multiqc - Step plot\nError: None" in client_parts.texts(found)


def test_without_patterns_of_the_host_failures_are_counted_by_what_their_errors_begin_with():
    items = [{"step_name": str(at), "tool": "bwa", "status": "failed", "error": "Timeout: late"} for at in range(3)]
    _, found = ingested({"items": items})
    assert found[-1].metadata["patterns"] == {"Timeout": 3}


def test_secrets_of_results_are_not_kept():
    secret = "ghp_" + "a1B2" * 9
    leaking = ExecutionItem(
        "fetch",
        "git",
        ExecutionStatus.SUCCESS,
        result={"token": secret, "deep": [{"x": secret, "password": "hunter2"}]},
    )
    _, (trace,) = ingested([leaking])
    assert secret not in trace.content
    assert "hunter2" not in trace.content
    assert "redacted" in trace.content


def test_what_has_no_items_is_refused():
    with pytest.raises(treering.InvalidInput, match="int is not an execution history"):
        ingested(7)


def test_an_excluded_agent_has_no_traces():
    config = client_parts.config(excluded_agents=["executor"], **PLAIN)
    counts, found = ingested([ALIGN], client=client_parts.asynchronous(config, agent_type="executor"))
    assert (counts, found) == ([0], [])


def test_memories_that_are_stored_once_are_stored_before_the_call_returns_where_that_is_asked():
    config = client_parts.config(storage={"enable_async_writes": False, "batch_size": 1}, **PLAIN)
    counts, found = ingested([ALIGN, ALIGN, ALIGN], [ALIGN], client=client_parts.asynchronous(config))
    assert (counts, len(found)) == ([3, 0], 3)


@pytest.mark.parametrize(
    ("item", "content", "success"),
    [
        (
            {"agent_type": "executor", "tool": "rewrite", "success": True, "execution_time": 0.5, "error": None},
            "Tool rewrite\nSucceeded",
            True,
        ),
        (
            {"node": "plan", "success": False, "error": "timeout", "execution_time": 0.5},
            "Step plan\nError: timeout",
            False,
        ),
        ({"agent_type": "parser", "success": True, "execution_time": 0.5}, "Agent parser\nSucceeded", True),
    ],
    ids=["tool", "node", "agent"],
)
def test_steps_without_status_are_read_by_success(item, content, success):
    counts, (trace, *analyses) = ingested([{**item, "timestamp": 1.7e9}])
    assert (trace.content, trace.metadata["success"], trace.metadata["duration"]) == (content, success, 0.5)
    assert trace.metadata.get("agent_type") == item.get("agent_type")
    assert counts == [1 + len(analyses)] == [2 - success]


def test_history_without_a_client_stores_nothing():
    assert asyncio.run(ExecutionHistoryMemoryBridge(None).ingest_execution_history([ALIGN], None)) == 0
