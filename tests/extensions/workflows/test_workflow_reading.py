import json

import pytest

from treering.core.errors import InvalidInput
from treering.extensions.workflows.checking import MAX_CHARS, load
from treering.extensions.workflows.definition import MOST_NODES

NODES = [{"id": "one", "type": "StaticResponse", "content": "a"}, {"type": "StaticResponse", "content": "b"}]


@pytest.mark.parametrize(
    "text",
    [
        json.dumps(NODES),
        json.dumps({"nodes": NODES}),
        "- {id: one, type: StaticResponse, content: a}\n- {type: StaticResponse, content: b}\n",
        "# a comment\nnodes:\n- {id: one, type: StaticResponse, content: a}\n- {type: StaticResponse, content: b}\n",
        "{nodes: [{id: one, type: StaticResponse, content: a}, {type: StaticResponse, content: b}]} # YAML",
    ],
)
def test_a_workflow_is_a_list_of_nodes_or_an_object_with_one_in_json_or_yaml(text):
    workflow = load(text)
    assert [(node.position, node.id) for node in workflow.nodes] == [(1, "one"), (2, "2")]


def test_keys_are_written_in_either_way():
    nodes = [{"type": "StaticResponse", "content": "a", key: True} for key in ("returnToUser", "return_to_user")]
    assert [load(json.dumps([node])).returned.settings.return_to_user for node in nodes] == [True, True]


def test_an_id_may_be_a_number():
    assert load("- {id: 7, type: StaticResponse, content: a}").nodes[0].id == "7"


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("", "a list of at least one node"),
        ("just words", "a list of at least one node"),
        ("[]", "a list of at least one node"),
        ("{}", "a list of at least one node"),
        ("nodes: 3", "a list of at least one node"),
        ('[{"type": "StaticResponse",]', "is not valid"),
        ("nodes: [", "is not valid"),
        ('[{"type": "a", "type": "b"}]', "key 'type' twice"),
        ("- {type: a, type: b}", "key 'type' twice"),
        ("- !!python/object/apply:os.system [ls]", "is not valid"),
        ("- &a [1]\n- *a", "aliases"),
        ("[" * 100_000, "is not valid"),
        ("{a: [" * 30_000, "nested more than 20 levels deep"),
        ("- " * 90_000, "nested more than 20 levels deep"),
        (
            '{\n  // the answer\n  "nodes": [{"type": "StaticResponse", "content": "a"}]\n}',
            "comment at line 2, column 3",
        ),
        ('// the answer\n{"nodes": []}', "comment at line 1, column 1"),
        ('{"nodes": [] /* none */}', "comment at line 1, column 14"),
        (" " * (MAX_CHARS + 1), f"maximum is {MAX_CHARS}"),
        (json.dumps([NODES[1]] * (MOST_NODES + 1)), f"{MOST_NODES}"),
    ],
)
def test_what_is_no_workflow_is_refused_with_a_hint(text, said):
    with pytest.raises(InvalidInput, match=said) as refused:
        load(text)
    assert refused.value.hint


def test_aliases_of_aliases_are_refused_before_they_grow():
    lines = ["a0: &a0 [x, x, x, x, x, x, x, x, x]"]
    lines += [f"a{n}: &a{n} [{', '.join([f'*a{n - 1}'] * 9)}]" for n in range(1, 12)]
    with pytest.raises(InvalidInput, match="aliases"):
        load("\n".join(lines))
