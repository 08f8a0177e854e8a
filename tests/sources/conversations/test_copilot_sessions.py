"""Sessions of Copilot CLI, as version 1.0.102 writes them."""

from export_parts import ONE, lines, only, read, told

CONTEXT = {"cwd": "/shop", "gitRoot": "/shop", "branch": "cart"}


def event(kind: str, **data: object) -> dict[str, object]:
    return {"type": kind, "data": data, "id": kind, "timestamp": "2026-11-26T08:13:34.065Z", "parentId": None}


START = event("session.start", sessionId=ONE, copilotVersion="1.0.102", context=CONTEXT)


def request(identity: str, text: str, **more: object) -> dict[str, object]:
    return event("user.message", content=text, transformedContent=f"<now/> {text}", messageId=identity, **more)


def answer(identity: str, text: str, *calls: dict[str, object]) -> dict[str, object]:
    return event("assistant.message", content=text, toolRequests=list(calls), messageId=identity)


EDIT = {"toolCallId": "c1", "name": "edit", "arguments": {"path": "src/cart.py", "old_str": "1", "new_str": "2"}}
RUN = {"toolCallId": "c2", "name": "bash", "arguments": {"command": "pytest -q", "description": "Test"}}
RESULT = {"content": "FAILED tests/test_cart.py::test_sum\n<shellId: 0 completed with exit code 1>"}


def test_copilot_session_contains_messages_and_tool_calls() -> None:
    found = only(
        lines(
            START,
            request("m1", "Fix the sum"),
            answer("m2", "", EDIT),
            event("tool.execution_complete", toolCallId="c1", success=True, result={"content": "Updated."}),
            answer("m3", "", RUN),
            event(
                "tool.execution_complete", toolCallId="c2", success=True, shellExecution={"exitCode": 1}, result=RESULT
            ),
            answer("m4", "It fails."),
        ),
        "events.jsonl",
    )
    assert told(found) == [
        ("user", "Fix the sum"),
        ("tool", "[edit] src/cart.py"),
        ("tool", "[bash] pytest -q"),
        ("assistant", "It fails."),
    ]
    assert (found.id, found.known_as, found.metadata["format"]) == (ONE, f"copilot-cli:{ONE}", "copilot-cli")
    assert (found.metadata["folder"], found.metadata["branch"]) == ("/shop", "cart")
    assert found.metadata["session"] == {
        "edited": ["src/cart.py"],
        "edited_files": 1,
        "failing": {"command": "pytest -q", "line": "FAILED tests/test_cart.py::test_sum", "edited_since": False},
    }


def test_copilot_session_omits_subagents_and_requests_of_the_program() -> None:
    found = only(
        lines(
            START,
            request("m1", "Look around", source="user"),
            request("m2", "Use the skill", source="skill-pdf"),
            {**request("m3", "Search"), "agentId": "a1"},
            {**answer("m4", "Found."), "agentId": "a1"},
            event("system.message", content="You are an assistant."),
        ),
        "events.jsonl",
    )
    assert told(found) == [("user", "Look around")]


def test_copilot_session_reports_lines_without_a_type() -> None:
    found = read(lines(START, request("m1", "Hello"), {"other": 1}), "events.jsonl")
    assert found.problems == ("line 3: it is not a message",)
