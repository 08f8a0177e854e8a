from export_parts import ONE, lines, only, read, told

HEAD = {"sessionId": ONE, "projectHash": "ab12", "startTime": "2026-11-26T08:13:34.065Z", "kind": "main"}
CALL = {"id": "c1", "name": "run_shell_command", "args": {"command": "pytest -q"}, "result": [{"output": "1 failed"}]}


def says(identity: str, kind: str, *texts: str, **more: object) -> dict[str, object]:
    """Write a line in which somebody speaks."""
    content = [{"text": one} for one in texts] if kind == "user" else "".join(texts)
    return {"id": identity, "timestamp": "2026-11-26T08:13:35.000Z", "type": kind, "content": content, **more}


def test_a_session_of_gemini_cli_is_what_people_and_the_assistant_said_at_last() -> None:
    found = only(
        lines(
            HEAD,
            {"$set": {"messages": [says("m0", "user", "<session_context>\nLinux.\n</session_context>")]}},
            says("m1", "user", "Fix the test"),
            {"$set": {"lastUpdated": "2026-11-26T08:13:36.000Z"}},
            says("m2", "gemini", ""),
            says("m2", "gemini", "", toolCalls=[CALL], thoughts=[{"subject": "Hm."}]),
            {**says("m3", "user"), "content": [{"functionResponse": {"name": "run_shell_command", "response": {}}}]},
            says("m4", "gemini", "It is f"),
            says("m4", "gemini", "It is fixed."),
            says("m5", "info", "Update available."),
        ),
        "session.jsonl",
    )
    assert told(found) == [
        ("user", "Fix the test"),
        ("tool", "[run_shell_command] pytest -q"),
        ("assistant", "It is fixed."),
    ]
    assert (found.id, found.known_as, found.metadata["format"]) == (ONE, f"gemini-cli:{ONE}", "gemini-cli")


def test_what_hooks_told_in_gemini_cli_is_nobodys_word() -> None:
    asked = "<hook_context>Sessions live in SQLite.</hook_context>\n\nWhere do sessions live?"
    found = only(lines(HEAD, says("m1", "user", asked, "<hook_context>And more.</hook_context>")), "session.jsonl")
    assert told(found) == [("user", "Where do sessions live?")]


def test_what_was_taken_back_in_gemini_cli_is_omitted() -> None:
    said = [says(f"m{number}", "user", f"Word {number}") for number in range(3)]
    again = says("m9", "user", "Another word")
    assert told(only(lines(HEAD, *said, {"$rewindTo": "m1"}, again), "session.jsonl")) == [
        ("user", "Word 0"),
        ("user", "Another word"),
    ]
    assert told(only(lines(HEAD, *said, {"$set": {"messages": [again]}}), "session.jsonl")) == [
        ("user", "Another word")
    ]


def test_a_line_of_gemini_cli_that_is_no_message_is_named() -> None:
    found = read(lines(HEAD, says("m1", "user", "Hello"), {"other": 1}), "session.jsonl")
    assert [told(one) for one in found.conversations] == [[("user", "Hello")]]
    assert found.problems == ("line 3: it is not a message",)
