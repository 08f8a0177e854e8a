"""Sessions of Codex: what was said and which tools were used, without what the program puts between."""

from typing import Any

import pytest
from export_parts import ONE, lines, only, read, told

META = {"type": "session_meta", "payload": {"id": ONE, "cwd": "/home/ada/acme", "originator": "codex-tui"}}


def item(kind: str, at: int = 1, **payload: Any) -> dict[str, Any]:
    return {
        "timestamp": f"2026-09-02T20:53:{at:02}.675Z",
        "type": "response_item",
        "payload": {"type": kind, **payload},
    }


def message(role: str, text: str, at: int = 1) -> dict[str, Any]:
    form = "output_text" if role == "assistant" else "input_text"
    return item("message", at, role=role, content=[{"type": form, "text": text}])


def test_a_session_is_what_the_user_and_the_assistant_said() -> None:
    found = only(
        lines(
            META,
            {
                "timestamp": "2026-09-02T20:53:01Z",
                "type": "event_msg",
                "payload": {"type": "user_message", "message": "x"},
            },
            message("user", "Which port?", 2),
            item("reasoning", 3, summary=[], encrypted_content="…"),
            message("assistant", "8080.", 4),
        ),
        "rollout-2026-09-02.jsonl",
    )
    assert told(found) == [("user", "Which port?"), ("assistant", "8080.")]
    assert (found.known_as, found.metadata["folder"]) == (f"codex:{ONE}", "/home/ada/acme")
    assert found.created is not None
    assert found.created.second == 2


@pytest.mark.parametrize(
    "text",
    [
        "<environment_context>\n  <cwd>/p</cwd>\n</environment_context>",
        "<user_instructions>\nBe brief.\n</user_instructions>",
        "# AGENTS.md instructions for /p\n\nBe brief.",
    ],
)
def test_what_the_program_tells_the_model_is_left_out(text: str) -> None:
    session = lines(META, message("developer", "Rules."), message("user", text), message("user", "Is <b> a tag?"))
    assert told(only(session, "s.jsonl")) == [("user", "Is <b> a tag?")]


def test_the_use_of_tools_is_told_shortly() -> None:
    found = only(
        lines(
            META,
            message("user", "List"),
            item("function_call", name="shell", arguments='{"command": ["ls", "-la"]}'),
            item("function_call", name="exec_command", arguments='{"cmd": "git status"}'),
            item("local_shell_call", action={"type": "exec", "command": ["pwd"]}),
            item("custom_tool_call", name="apply_patch", input="*** Begin Patch"),
            item("function_call_output", output="secret"),
            item("function_call", name="odd", arguments="{"),
        ),
        "s.jsonl",
    )
    assert told(found)[1:] == [
        ("tool", "[shell] ls -la"),
        ("tool", "[exec_command] git status"),
        ("tool", "[shell] pwd"),
        ("tool", "[apply_patch] *** Begin Patch"),
        ("tool", "[odd] {"),
    ]


def test_a_session_that_goes_on_from_another_keeps_its_own_id() -> None:
    parent = {"type": "session_meta", "payload": {"id": "another", "cwd": "/elsewhere"}}
    found = only(lines(META, parent, message("user", "Hi")), "s.jsonl")
    assert (found.id, found.metadata["folder"]) == (ONE, "/home/ada/acme")


def test_lines_that_cannot_be_read_are_reported_and_the_rest_is_kept() -> None:
    found = read(lines(META, message("user", "Hi"), '{"type": ', "42"), "s.jsonl")
    assert told(found.conversations[0]) == [("user", "Hi")]
    assert sorted(problem.partition(":")[0] for problem in found.problems) == ["line 3", "line 4"]
