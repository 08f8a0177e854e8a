from export_parts import lines, only, read, told


def says(role: str, *parts: object) -> dict[str, object]:
    """Write a line in which somebody speaks."""
    content = [{"type": "text", "text": one} if isinstance(one, str) else one for one in parts]
    return {"role": role, "message": {"content": content}}


def test_a_transcript_of_cursor_is_what_people_and_the_assistant_said() -> None:
    use = {"type": "tool_use", "name": "Grep", "input": {"pattern": "port"}}
    found = only(
        lines(
            says("user", "<attached_files>a.py</attached_files>\n<user_query>\nWhich port?\n</user_query>"),
            says("assistant", "I look.", use),
            says("assistant", use),
            says("assistant", "8080."),
            {"type": "turn_ended", "status": "success"},
            {"role": "user", "message": {"content": "Thanks"}},
        ),
        "7a1e2d3f-04b5-4c6d-9e7f-8091a2b3c4d5.jsonl",
    )
    line = "[Grep] port"
    assert told(found) == [
        ("user", "Which port?"),
        ("assistant", f"I look.\n{line}"),
        ("tool", line),
        ("assistant", "8080."),
        ("user", "Thanks"),
    ]
    assert found.metadata["format"] == "cursor"


def test_lines_of_cursor_that_cannot_be_read_are_reported_and_the_rest_is_kept() -> None:
    content = lines(says("user", "Hi"), says("assistant", "Hello"), "42", '{"role": "us', says("user", "Bye"))
    found = read(content, "c.jsonl")
    assert told(found.conversations[0]) == [("user", "Hi"), ("assistant", "Hello"), ("user", "Bye")]
    assert sorted(problem.partition(":")[0] for problem in found.problems) == ["line 3", "line 4"]


def test_what_nobody_said_is_no_transcript_of_cursor() -> None:
    assert read(lines(says("user", ""), says("assistant")), "c.jsonl").conversations == ()
    ended = {"type": "turn_ended", "status": "success"}
    assert read(lines(ended, ended), "c.jsonl").conversations == ()
