"""What the readers of transcripts note of the work of a session: edited files, a failing command, the open plan."""

import pytest
from export_parts import ONE, claude_line, lines, only

from treering.core.fencing import fence
from treering.extensions.conversations.session_work import SessionWork

FAILED = "Exit code 1\n=== FAILURES ===\nE   assert 4 == 5\nFAILED tests/test_sum.py::test_sum - assert 4 == 5\n"


def facts(*calls):
    """Return the facts of commands with their output and whether they failed."""
    work = SessionWork()
    for number, (command, output, failed) in enumerate(calls):
        work.call("Bash", {"command": command}, str(number))
        work.answer(str(number), output, failed=failed)
    return work.facts()


def claude(*parts):
    return only(lines(claude_line("user", "Fix the sum"), *(claude_line(*one) for one in parts)), "session.jsonl")


def used(name, call="1", **given):
    return ("assistant", [{"type": "tool_use", "id": call, "name": name, "input": given}])


def answered(text, call="1", **more):
    return ("user", [{"type": "tool_result", "tool_use_id": call, "content": text, **more}])


def test_claude_code_session_notes_edited_files():
    edit = used("Edit", file_path="/p/sum.py", old_string="a", new_string="b")
    found = claude(used("Read", file_path="/p/README.md"), edit, answered("Done"), edit)
    assert found.metadata["session"] == {"edited": ["/p/sum.py"], "edited_files": 1}


def test_edit_that_failed_is_no_edit():
    found = claude(used("Edit", file_path="/p/sum.py"), answered("String not found", is_error=True))
    assert "session" not in found.metadata


def test_failing_command_is_noted_with_its_test():
    failing = facts(("cd /p && pytest -q tests", FAILED, True))["failing"]
    assert failing["command"] == "cd /p && pytest -q tests"
    assert failing["line"] == "FAILED tests/test_sum.py::test_sum - assert 4 == 5"


def test_command_that_passes_later_is_not_failing():
    assert facts(("uv run pytest tests/a.py", FAILED, True), ("pytest -x", "2 passed", False)) == {}


def test_other_command_that_passes_leaves_the_failure():
    left = facts(("make test", FAILED, True), ("make lint", "ok", False), ("git commit -m x", "ok", False))
    assert left["failing"]["command"] == "make test"


@pytest.mark.parametrize("command", ["grep -rn sum src", "ls missing", "git diff --quiet", "cd x && cat missing"])
def test_failure_of_looking_around_is_ignored(command):
    assert facts((command, "Exit code 1", True)) == {}


def test_edit_after_a_failure_is_noted():
    work = SessionWork()
    work.call("Bash", {"command": "pytest"}, "1")
    work.answer("1", FAILED, failed=True)
    assert not work.facts()["failing"]["edited_since"]
    work.call("Edit", {"file_path": "sum.py"}, "2")
    assert work.facts()["failing"]["edited_since"]


def test_recalled_text_in_an_output_is_not_the_failing_line():
    recalled = fence("Decided: the error is ignored", origin="treering")
    assert facts(("make", f"ValueError: no\n\n{recalled}", True))["failing"]["line"] == "ValueError: no"


@pytest.mark.parametrize(
    "output",
    [
        '{"output": "boom", "metadata": {"exit_code": 2}}',
        "Exit code: 2\nWall time: 1 s\nOutput:\nboom",
        "Chunk ID: a\nProcess exited with code 2\nOutput:\nboom",
        [{"functionResponse": {"response": {"output": "Output: boom\nExit Code: 2"}}}],
    ],
)
def test_exit_code_in_an_output_is_a_failure(output):
    assert "failing" in facts(("make", output, None))


def test_plan_gives_the_step_in_progress_as_next():
    steps = [("Read", "completed"), ("Test", "pending"), ("Fix", "in_progress")]
    found = claude(used("TodoWrite", todos=[{"content": step, "status": status} for step, status in steps]))
    assert found.metadata["session"] == {"next": "Fix"}


@pytest.mark.parametrize(("request_text", "left"), [("go on", {"next": "Fix"}), ("Now write the docs please", None)])
def test_new_request_ends_the_plan(request_text, left):
    plan = used("update_plan", plan=[{"step": "Fix", "status": "pending"}])
    assert claude(plan, ("user", request_text)).metadata.get("session") == left


def test_codex_session_notes_patches_and_branch():
    patch = "*** Begin Patch\n*** Update File: src/a.py\n@@\n-a\n+b\n*** Add File: src/b.py\n+c\n*** End Patch\n"
    said = {"type": "message", "role": "user", "content": [{"type": "input_text", "text": "Fix it"}]}
    payloads = [
        said,
        {"type": "custom_tool_call", "name": "apply_patch", "input": patch, "call_id": "1"},
        {"type": "custom_tool_call_output", "call_id": "1", "output": "Exit code: 0\nSuccess."},
        {
            "type": "function_call",
            "name": "shell",
            "arguments": '{"command": ["bash", "-lc", "npm test"]}',
            "call_id": "2",
        },
        {"type": "function_call_output", "call_id": "2", "output": "Exit code: 1\nOutput:\nnot ok 3 adds"},
    ]
    meta = {"type": "session_meta", "payload": {"id": ONE, "cwd": "/p", "git": {"branch": "sums"}}}
    found = only(lines(meta, *({"type": "response_item", "payload": one} for one in payloads)), "rollout.jsonl")
    assert found.metadata["branch"] == "sums"
    assert found.metadata["session"] == {
        "edited": ["src/a.py", "src/b.py"],
        "edited_files": 2,
        "failing": {"command": "npm test", "line": "not ok 3 adds", "edited_since": False},
    }


def test_gemini_session_notes_its_tool_calls():
    calls = [
        {"id": "1", "name": "write_file", "args": {"file_path": "/p/a.py", "content": "a"}, "status": "success"},
        {"id": "2", "name": "run_shell_command", "args": {"command": "cargo test"}, "status": "success"},
    ]
    calls[1]["result"] = [{"functionResponse": {"response": {"output": "error: no\nExit Code: 101"}}}]
    head = {"sessionId": ONE, "projectHash": "p"}
    turns = [{"id": "a", "type": "user", "content": "Fix it"}, {"id": "b", "type": "gemini", "toolCalls": calls}]
    found = only(lines(head, *turns), "session.jsonl").metadata["session"]
    assert (found["edited"], found["failing"]["command"]) == (["/p/a.py"], "cargo test")


def test_messages_of_opencode_note_tools_and_leave_them_out():
    tool = [
        {"type": "tool_use", "id": "1", "name": "edit", "input": {"filePath": "/p/a.py"}},
        {"type": "tool_result", "tool_use_id": "1", "content": "ok", "is_error": False},
    ]
    found = only(
        lines(
            {"role": "user", "content": "Fix it", "session_id": "s"},
            {"role": "tool", "content": tool, "session_id": "s"},
            {"role": "assistant", "content": "Fixed.", "session_id": "s"},
        ),
        "s.jsonl",
    )
    assert [one.content for one in found.messages] == ["Fix it", "Fixed."]
    assert found.metadata["session"]["edited"] == ["/p/a.py"]
