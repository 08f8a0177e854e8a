import pytest
from workflow_parts import ask, problems, say

from treering.core.errors import InvalidInput
from treering.extensions.workflows.catalog import NODE_TYPES
from treering.extensions.workflows.checking import WorkflowEnvironment, load
from treering.extensions.workflows.definition import NodeSettings
from treering.extensions.workflows.registry import NodeType, NodeTypes

CASES = {
    "a type nobody knows": (
        [{"type": "Standart", "prompt": "x"}],
        ["node 1, type: unknown type 'Standart'. Did you"],
    ),
    "no type": ([{"id": "a"}], ["node 1 (a), type: it has no type; known: Standard"]),
    "a type that is not text": ([{"type": ["Standard"]}], ["node 1, type: unknown type ['Standard']"]),
    "no object": (["Standard"], ["node 1: it is not an object"]),
    "a key nobody knows": (
        [say("x", contents="y")],
        ["node 1, contents: unknown key. Did you mean 'content'?"],
    ),
    "a missing key": ([{"type": "Standard"}], ["node 1, prompt: Field required"]),
    "a number instead of a text": ([say(7)], ["node 1, content: it must be a text"]),
    "a truth that is a word": (
        [say("x", returnToUser="yes")],
        ["node 1, returnToUser: Input should be a valid boolean"],
    ),
    "a number that is a word": (
        [ask("x", maxOutputTokens="many")],
        ["node 1, maxOutputTokens: Input should be a valid int"],
    ),
    "a number out of range": (
        [ask("x", maxOutputTokens=0)],
        ["node 1, maxOutputTokens: Input should be greater than 0"],
    ),
    "one id for two": (
        [say("x", id="a"), say("y", id="a")],
        ["node 1 (a), id: 2 nodes have", "node 2 (a), id: 2 nodes"],
    ),
    "an id that is another's number": (
        [say("x", id="2"), say("y")],
        ["node 1 (2), id: 2 nodes", "node 2, id: 2 nodes"],
    ),
    "a lone brace": ([say("{x")], ["node 1, content: the brace at character 0"]),
    "an output that comes later": (
        [say("{agent2Output}"), say("x")],
        ["node 1, content: {agent2Output} is not available yet: that node comes later"],
    ),
    "a node's own output": (
        [say("{agent1Output}")],
        ["node 1, content: {agent1Output} is not available yet: it is this node"],
    ),
    "an output of no node": (
        [say("x"), say("{agent7Output}")],
        ["node 2, content: unknown variable {agent7Output}. Did you mean 'agent1Output'?"],
    ),
    "a variable nobody knows": (
        [say("{todays_dat}")],
        ["node 1, content: unknown variable {todays_dat}. Did you mean 'todays_date'?"],
    ),
    "a variable of another type": ([say("{chunk}")], ["node 1, content: unknown variable {chunk}."]),
    "a key of the workflow": ({"nodes": [say("x")], "node": 1}, ["node: unknown key."]),
    "a key of a preset": (
        {"nodes": [say("x")], "presets": {"p": {"maxOutputToken": 1}}},
        ["presets.p.maxOutputToken: unknown key. Did you mean 'maxOutputTokens'?"],
    ),
    "a variable with a taken name": (
        {"nodes": [say("x")], "variables": {"todays_date": "never", "agent1Output": "x", "a-b": ""}},
        ["variables.todays_date: ", "variables.agent1Output: ", "variables.a-b: "],
    ),
    "a preset that is not there": (
        {"nodes": [ask("x", preset="shrt")], "presets": {"short": {}}},
        ["node 1, preset: unknown preset 'shrt'. Did you mean 'short'?"],
    ),
    "an endpoint that is not there": (
        {"nodes": [ask("x", endpointName="man")], "endpoints": {"main": ""}},
        ["node 1, endpointName: unknown endpoint 'man'. Did you mean 'main'?"],
    ),
    "no word on which endpoint": (
        {"nodes": [ask("x")], "endpoints": {"main": "", "other": ""}},
        ["node 1, endpointName: it must name its endpoint: main, other"],
    ),
}


@pytest.mark.parametrize("case", CASES, ids=str)
def test_error_names_node_and_key(case):
    data, expected = CASES[case]
    found = problems(data)
    assert len(found) == len(expected), found
    for one, beginning in zip(found, expected, strict=True):
        assert one.startswith(beginning)


def test_unknown_node_type_lists_known_ones():
    (problem,) = problems([{"type": "Conditional"}])
    assert all(name in problem for name in NODE_TYPES)


def test_all_problems_are_reported_together():
    data = {
        "nodes": [
            {"type": "Nothing"},
            say("{agent3Output} {nobody}", contnt="x"),
            ask("{agent1Output} {agent2Output}", preset="none", returnToUser=1),
        ],
        "endpoint": {},
        "variables": {"x": 3},
    }
    found = problems(data)
    places = [one.partition(": ")[0] for one in found]
    assert sorted(places) == sorted(
        [
            "node 1, type",
            "node 2, contnt",
            "node 2, content",
            "node 2, content",
            "node 3, returnToUser",
            "node 3, preset",
            "endpoint",
            "variables.x",
        ]
    )
    with pytest.raises(InvalidInput, match=r"\(and 1 more\)"):
        load('[{"type": "Nothing"}, {"type": "Nobody"}]')


def test_inputs_are_checked_where_their_number_is_known():
    nodes = [say("{agent1Input} {agent3Input}")]
    assert problems(nodes) == []
    assert problems(nodes, WorkflowEnvironment(inputs=3)) == []
    assert problems(nodes, WorkflowEnvironment(inputs=2)) == ["node 1, content: unknown {agent3Input}; inputs given: 2"]


def test_endpoints_are_checked_where_they_are_known():
    assert problems([ask("x", endpointName="main")]) == []
    assert problems([ask("x")], WorkflowEnvironment(endpoints=frozenset({"main"}))) == []
    assert problems([ask("x")], WorkflowEnvironment(endpoints=frozenset())) == [
        "node 1, endpointName: no language model was given for its endpoint"
    ]


def test_without_a_conversation_nothing_may_speak_of_one():
    data = [{"type": "RecentMemory"}, say("{chat_user_prompt_last_one} {todays_date} {agent1Output}")]
    assert problems(data) == []
    assert problems(data, WorkflowEnvironment(chat=False)) == [
        "node 1: a node of type RecentMemory needs a conversation, but the workflow runs without one",
        "node 2, content: {chat_user_prompt_last_one} needs a conversation, but the workflow runs without one",
        "node 2, content: {todays_date} needs a conversation, but the workflow runs without one",
    ]


class Shouting(NodeSettings):
    text: str


def test_new_types_are_added_to_a_table_which_stays_as_it_was():
    loud = NodeType("Shout", "says it loudly", Shouting, lambda told, step: told.text.upper())
    types = NODE_TYPES.with_types(loud)
    assert problems([{"type": "Shout", "text": "a"}], types=types) == []
    assert "Shout" not in NODE_TYPES
    with pytest.raises(InvalidInput, match="already used"):
        types.with_types(loud)
    with pytest.raises(InvalidInput, match="not a single word"):
        NodeTypes([NodeType("two words", "", Shouting, lambda told, step: "")])
