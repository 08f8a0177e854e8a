from export_parts import ONE, TWO, lines, only, read, told


def line(kind: str, second: int = 0, **payload: object) -> dict[str, object]:
    """Write a line of a session."""
    return {"timestamp": f"2026-11-02T09:00:{second:02}.000Z", "type": kind, "payload": payload}


def says(role: str, *texts: str) -> dict[str, object]:
    """Write a line in which somebody speaks."""
    kind = "output_text" if role == "assistant" else "input_text"
    return line("response_item", type="message", role=role, content=[{"type": kind, "text": one} for one in texts])


META = line("session_meta", id=ONE, cwd="/p", base_instructions={"text": "You are an agent."})


def test_a_session_of_codex_is_what_people_and_the_assistant_said() -> None:
    found = only(
        lines(
            META,
            says("developer", "Be brief."),
            says("user", "# AGENTS.md instructions for /p\n\n<INSTRUCTIONS>x</INSTRUCTIONS>"),
            says("user", "<environment_context>\n<cwd>/p</cwd>\n</environment_context>"),
            line("turn_context", cwd="/p", model="gpt-5"),
            says("user", "Fix the test"),
            line("event_msg", type="user_message", message="Fix the test"),
            line("response_item", type="reasoning", summary=[{"type": "summary_text", "text": "Hm."}]),
            says("assistant", "Done."),
            line("event_msg", type="agent_message", message="Done."),
            line("compacted", message="A test was fixed."),
        ),
        "rollout.jsonl",
    )
    assert told(found) == [("user", "Fix the test"), ("assistant", "Done.")]
    assert (found.known_as, found.metadata["folder"]) == (f"codex:{ONE}", "/p")
    assert found.metadata["as_of"] == "2026-11-02T09:00:00.000000Z"


def test_what_the_program_puts_beside_a_request_is_omitted_and_the_request_is_kept() -> None:
    around = "<environment_context>x</environment_context>"
    found = only(lines(META, says("user", around, "Why does <b> not close?"), says("user", "<b> is bold")), "r.jsonl")
    assert told(found) == [("user", "Why does <b> not close?"), ("user", "<b> is bold")]


def test_the_use_of_tools_of_codex_is_told_shortly_and_by_its_own_role() -> None:
    found = only(
        lines(
            META,
            says("user", "Look"),
            line("response_item", type="function_call", name="exec_command", arguments='{"cmd": "git status"}'),
            line("response_item", type="function_call", name="shell", arguments='{"command": ["ls", "-l"]}'),
            line("response_item", type="function_call_output", call_id="1", output="nothing"),
            line("response_item", type="custom_tool_call", name="apply_patch", input="*** Begin Patch"),
            line("response_item", type="local_shell_call", action={"type": "exec", "command": ["pwd"]}),
            line("response_item", type="function_call", name="broken", arguments="{"),
        ),
        "r.jsonl",
    )
    uses = ["[exec_command] git status", "[shell] ls -l", "[apply_patch] *** Begin Patch", "[shell] pwd", "[broken] {"]
    assert told(found) == [("user", "Look"), *(("tool", one) for one in uses)]


def test_a_session_that_continues_another_one_keeps_its_own_name() -> None:
    found = only(lines(META, line("session_meta", id=TWO, cwd="/q"), says("user", "Go on")), "r.jsonl")
    assert (found.id, found.metadata["folder"]) == (ONE, "/p")


def test_lines_of_codex_that_cannot_be_read_are_reported_and_the_rest_is_kept() -> None:
    found = read(lines(META, "42", '{"type": "resp', says("user", "Hi"), line("response_item", type=7)), "r.jsonl")
    assert told(found.conversations[0]) == [("user", "Hi")]
    assert sorted(problem.partition(":")[0] for problem in found.problems) == ["line 2", "line 3"]


def test_empty_codex_session_is_no_conversation() -> None:
    assert read(lines(META, says("developer", "Be brief.")), "r.jsonl").conversations == ()
