import json

import pytest

RECALL = """
- {id: found, type: ConversationalKeywordSearchPerformerTool, keywords: "{agent1Input}"}
- {id: show, type: StaticResponse, content: "Found: {agent1Output}"}
"""
ASKING = """
nodes:
- {id: first, type: Standard, endpointName: small, prompt: "{agent1Input}?"}
- {id: second, type: Standard, endpointName: large, prompt: "{agent1Output}!", returnToUser: true}
"""
MESSAGES = json.dumps(
    [{"role": "user", "content": "The lamp costs 49 euros."}, {"role": "assistant", "content": "That is a lot."}]
)


@pytest.fixture
def desk(stage):
    stage.write({"recall.yaml": RECALL, "asking.yaml": ASKING, "chat.json": MESSAGES})
    return stage


def test_a_workflow_runs_on_messages_of_a_file_and_stores_nothing(desk):
    told = desk.done("workflow", "run", "recall.yaml", "--messages", "chat.json", "--input", "lamp")
    assert told.out == "Found: user: The lamp costs 49 euros.\n"
    assert told.err == "1/2  found\n2/2  show\n"
    assert sorted(path.name for path in desk.folder.iterdir()) == ["asking.yaml", "chat.json", "recall.yaml"]


def test_a_workflow_runs_in_a_discussion_of_the_space(desk):
    desk.done("init")
    told = desk.done("workflow", "run", "recall.yaml", "--discussion", "launch", "--input", "lamp")
    assert told.out == "Found: Nothing was found.\n"


def test_a_discussion_needs_a_space(desk):
    told = desk.run("workflow", "run", "recall.yaml", "--discussion", "launch", "--input", "lamp")
    assert told.code == 3
    assert "There is no space" in told.err


def test_answers_written_beforehand_represent_models(desk):
    desk.write({"one.json": '["yes", "of course"]', "by.yaml": "small: [a]\nlarge: [b]"})
    asked = ("workflow", "run", "asking.yaml", "--input", "Tea")
    assert desk.done(*asked, "--scripted", "one.json").out == "of course\n"
    report = desk.json(*asked, "--scripted", "by.yaml")
    assert (report["outcome"], report["text"], report["usage"]["requests"]) == ("done", "b", 2)
    assert [step["output"] for step in report["steps"]] == ["a", "b"]
    desk.write({"one.json": '["yes"]'})
    told = desk.run(*asked, "--scripted", "one.json")
    assert told.code == 6
    assert "node 2 (second) (Standard): scripted has no answers left." in told.err


def test_input_may_be_a_file(desk):
    desk.write(
        {
            "tea.txt": "Tea {agent1Input}",
            "one.json": '["yes", "no"]',
            "echo.yaml": "- {type: StaticResponse, content: '{agent1Input}'}",
        }
    )
    assert desk.done("workflow", "run", "echo.yaml", "--input", "@tea.txt").out == "Tea {agent1Input}\n"


def test_missing_model_is_reported_before_the_run(desk):
    told = desk.run("workflow", "run", "asking.yaml", "--input", "Tea")
    assert told.code == 2
    assert "node 1 (first), endpointName: no language model was given for its endpoint" in told.err


def test_requests_are_bounded(desk):
    desk.write({"one.json": '["yes", "no"]'})
    told = desk.run("workflow", "run", "asking.yaml", "--input", "Tea", "--scripted", "one.json", "--max-requests", "1")
    assert told.code == 5


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        (("--discussion", "a", "--messages", "chat.json"), "--discussion and --messages cannot be combined"),
        (("--endpoint", "main"), "--endpoint needs NAME=MODEL, not 'main'"),
        (("--scripted", "chat.json"), "must contain a list of answers"),
        (("--messages", "asking.yaml"), "must contain a list of messages"),
    ],
)
def test_a_wrong_command_line_says_what_is_wrong(desk, arguments, said):
    told = desk.run("workflow", "run", "asking.yaml", "--input", "x", *arguments)
    assert told.code == 2
    assert said in told.err


def test_a_check_reports_what_a_workflow_needs(desk):
    assert desk.done("workflow", "check", "asking.yaml").out.splitlines() == [
        "ok, 2 nodes",
        "nodes: first (Standard), second (Standard)",
        "returns: second",
        "inputs: 1",
        "endpoints: large, small",
    ]
    assert desk.json("workflow", "check", "recall.yaml")["needs a conversation"] == ["yes"]


def test_a_check_lists_everything_that_is_wrong(desk):
    desk.write(
        {"bad.yaml": "- {type: Standart, prompt: x}\n- {type: StaticResponse, content: '{agent9Output}', txt: 1}"}
    )
    told = desk.run("workflow", "check", "bad.yaml")
    assert told.code == 2
    for place in ("node 1, type", "node 2, txt", "node 2, content"):
        assert place in told.err
    told = desk.run("workflow", "check", "asking.yaml", "--endpoint", "small=openai:gpt-5-mini")
    assert "node 2 (second), endpointName: unknown endpoint 'large'" in told.err


def test_missing_file_is_reported_by_name(desk):
    assert "nowhere.yaml" in desk.run("workflow", "check", "nowhere.yaml").err


def test_examples_are_listed_and_printed_and_can_be_run(desk):
    listed = desk.json("workflow", "examples")
    assert "recall" in listed
    for name in listed:
        text = desk.done("workflow", "examples", name).out
        desk.write({f"{name}.yaml": text})
        desk.done("workflow", "check", f"{name}.yaml")
    told = desk.run("workflow", "examples", "recal")
    assert told.code == 3
    assert "Did you mean 'recall'?" in told.err


def test_an_example_runs_in_a_space(desk):
    desk.done("init")
    desk.write({"recall2.yaml": desk.done("workflow", "examples", "recall").out})
    told = desk.done("workflow", "run", "recall2.yaml", "--discussion", "launch", "--input", "lamp")
    assert "There is no summary of this conversation yet." in told.out


def test_without_a_command_the_help_is_shown(desk):
    assert "examples" in desk.done("workflow").out
