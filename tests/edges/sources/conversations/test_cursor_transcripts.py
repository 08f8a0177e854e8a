"""Transcripts of Cursor's agent."""

from typing import Any

from export_parts import lines, only, read, told


def said(role: str, *parts: Any) -> dict[str, Any]:
    content = [{"type": "text", "text": one} if isinstance(one, str) else one for one in parts]
    return {"role": role, "message": {"content": content}}


def test_a_transcript_is_what_was_said_and_shortly_which_tools_were_used() -> None:
    use = {"type": "tool_use", "name": "Grep", "input": {"pattern": "port"}}
    found = only(
        lines(
            said("user", "<timestamp>Sunday</timestamp>\n<user_query>\nWhich port?\n</user_query>"),
            said("assistant", use),
            said("assistant", "8080.", use),
            {"type": "turn_ended", "status": "completed"},
        ),
        "6f0d1c2e.jsonl",
    )
    line = "[Grep] port"
    assert told(found) == [("user", "Which port?"), ("tool", line), ("assistant", f"8080.\n{line}")]
    assert found.metadata["format"] == "cursor"


def test_a_message_without_a_query_and_one_that_is_plain_text_stand_as_they_are() -> None:
    plain = {"role": "assistant", "message": {"content": "Yes."}}
    assert told(only(lines(said("user", "Is it?"), plain), "s.jsonl")) == [("user", "Is it?"), ("assistant", "Yes.")]


def test_what_is_not_a_message_is_reported_and_the_rest_is_kept() -> None:
    found = read(lines(said("user", "Hi"), {"role": "user"}, "42", "{"), "s.jsonl")
    assert told(found.conversations[0]) == [("user", "Hi")]
    assert sorted(problem.partition(":")[0] for problem in found.problems) == ["line 2", "line 3", "line 4"]
