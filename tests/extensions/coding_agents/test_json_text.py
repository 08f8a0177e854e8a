import json

import pytest
from hypothesis import given
from hypothesis import strategies as st

from treering.core.errors import Conflict, InvalidInput
from treering.extensions.coding_agents.json_text import insert_item, insert_member, read_json

WITH_COMMENTS = """\ufeff// Mine: keep it
{
  /* servers { of mine } */
  "mcpServers": {
    "other": { "command": "x // no comment", "args": ["a", "b",], }, // trailing
  },
  "theme": "dark",
}
"""
VALUES = st.recursive(
    st.none() | st.booleans() | st.integers() | st.text(),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(), inner, max_size=3),
    max_leaves=12,
)


def taken_out(made):
    assert made.text.count(made.piece) == 1
    return made.text.replace(made.piece, "")


def test_a_file_with_comments_and_stray_commas_keeps_every_byte_around_what_is_put_in():
    made = insert_member(WITH_COMMENTS, ("mcpServers", "treering"), {"command": "treering", "args": ["mcp"]})
    assert taken_out(made) == WITH_COMMENTS
    told = read_json(made.text)
    assert told["mcpServers"]["treering"] == {"command": "treering", "args": ["mcp"]}
    assert told["mcpServers"]["other"] == {"command": "x // no comment", "args": ["a", "b"]}
    assert told["theme"] == "dark"


def test_objects_on_the_way_are_made():
    made = insert_member("{}", ("a", "b", "c"), 1)
    assert json.loads(made.text) == {"a": {"b": {"c": 1}}}
    assert taken_out(made) == "{}"


def test_what_is_there_already_is_left_alone_and_another_value_is_no_guess():
    text = '{"servers": {"treering": {"command": "treering"}}}'
    assert insert_member(text, ("servers", "treering"), {"command": "treering"}) is None
    with pytest.raises(Conflict, match="already"):
        insert_member(text, ("servers", "treering"), {"command": "other"})


def test_an_item_is_put_first_into_a_list_that_is_made_where_it_is_missing():
    made = insert_item('{"hooks": {"Stop": [{"x": 1}]}}', ("hooks", "Stop"), {"y": 2})
    assert json.loads(made.text) == {"hooks": {"Stop": [{"y": 2}, {"x": 1}]}}
    made = insert_item('{"hooks": {"Stop": []}}', ("hooks", "Stop"), {"y": 2})
    assert json.loads(made.text) == {"hooks": {"Stop": [{"y": 2}]}}
    made = insert_item("{}", ("hooks", "Stop"), {"y": 2})
    assert json.loads(made.text) == {"hooks": {"Stop": [{"y": 2}]}}
    assert insert_item(made.text, ("hooks", "Stop"), {"y": 2}) is None


@pytest.mark.parametrize(
    "text", ["", "[", "{", "nul", '{"a" 1}', '{"a": 1} x', "{'a': 1}", '{"a": }', '{"a": 1 "b": 2}', "[1]", "7"]
)
def test_what_is_no_object_in_json_is_refused(text):
    with pytest.raises(InvalidInput):
        insert_member(text, ("a", "b"), 1)


def test_a_value_where_an_object_should_be_is_refused():
    with pytest.raises(InvalidInput, match="mcpServers is not an object"):
        insert_member('{"mcpServers": []}', ("mcpServers", "treering"), {})


@pytest.mark.parametrize("path", [("a",), ("a", "b"), ("a", "b", "c")])
def test_file_without_an_object_is_named_in_the_error(path):
    with pytest.raises(InvalidInput, match=r"^The file is not an object"):
        insert_member("[1]", path, {})


def test_white_space_may_follow_a_number():
    assert read_json('{"a": 1\ufeff, "b": 2\u00a0}') == {"a": 1, "b": 2}


def test_deep_nesting_is_refused_and_not_followed():
    with pytest.raises(InvalidInput, match="nested"):
        read_json("[" * 100_000 + "]" * 100_000)


@given(st.dictionaries(st.text(), VALUES, max_size=4), VALUES, st.sampled_from([None, 0, 2, "\t"]))
def test_whatever_an_object_holds_one_member_more_is_there_and_can_be_taken_out(held, value, indent):
    held.pop("ours", None)
    text = json.dumps(held, indent=indent)
    made = insert_member(text, ("ours", "treering"), value)
    assert read_json(made.text) == {**held, "ours": {"treering": value}}
    at = made.text.index(made.piece)
    assert made.text[:at] + made.text[at + len(made.piece) :] == text
