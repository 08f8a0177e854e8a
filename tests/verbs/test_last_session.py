"""The brief quotes the last conversation: what was asked, edited, failing, and announced as next."""

import pytest

AT = "2026-03-02T09:00:00Z"


def last(space, *turns, **metadata):
    messages = [{"role": role, "content": text, "at": AT} for role, text in turns]
    item = {"kind": "conversation", "origin": "talk", "messages": messages, "metadata": metadata}
    space.ingest("source", "/discussion/1", {"items": [item]})
    return space.query("brief").last


def test_last_session_names_branch_files_and_failure(space):
    failing = {"command": "pytest t/unit", "line": "FAILED t/unit/test_request.py::test_limit"}
    session = {"edited": ["/p/a.py", "b.py", "c.py", "d.py"], "edited_files": 4, "failing": failing}
    said = last(space, ("user", "Limit the redeliveries of tasks"), folder="/p", branch="redelivery", session=session)
    assert said == (
        "02 Mar, branch redelivery: “Limit the redeliveries of tasks”. Edited 4 files: a.py, b.py, c.py and 1 more. "
        "Failing: `pytest t/unit` (FAILED t/unit/test_request.py::test_limit)"
    )


def test_last_session_shows_a_failure_from_before_the_last_edits(space):
    failing = {"command": "make", "line": "no", "edited_since": True}
    assert "Failed before the last edits: `make` (no)" in last(space, ("user", "Hi"), session={"failing": failing})


def test_conversation_between_people_is_no_last_session(space):
    assert last(space, ("Ada", "The demo is on Thursday"), ("Jonas", "Good.")) == ""


def test_last_session_quotes_the_last_telling_request(space):
    said = last(space, ("user", "Limit the redeliveries of tasks"), ("assistant", "Done."), ("user", "commit this"))
    assert said == "02 Mar: “Limit the redeliveries of tasks”"


@pytest.mark.parametrize(
    ("answer", "step"),
    [
        ("Done. The docs come next.", "The docs"),
        ("All tests pass.\n\nNext: write the docs.", "write the docs."),
        ("Done.\n\n## Next steps\n\n1. Write the docs\n2. Release", "Write the docs"),
        ("**Remaining:** the docs page", "the docs page"),
    ],
)
def test_last_session_quotes_the_announced_step(space, answer, step):
    assert last(space, ("user", "Limit it"), ("assistant", answer)).endswith(f"Next: “{step}”")


@pytest.mark.parametrize(
    "answer",
    ["Done. The next request is served from the cache.", "Next requests are cached.", "Nothing else was changed."],
)
def test_last_session_announces_nothing_without_a_step(space, answer):
    assert "Next" not in last(space, ("user", "Limit it"), ("assistant", answer))


def test_last_session_prefers_the_answer_to_the_plan(space):
    turns = ("user", "Limit it"), ("assistant", "Next: the docs")
    assert last(space, *turns, session={"next": "Tests"}).endswith("Next: “the docs”")


@pytest.mark.parametrize(
    "session", ["x", {"edited": 1}, {"failing": []}, {"next": 3}, {"edited": [], "edited_files": 0}]
)
def test_last_session_ignores_facts_of_another_form(space, session):
    assert last(space, ("user", "Limit the redeliveries of tasks"), session=session).endswith("tasks”")
