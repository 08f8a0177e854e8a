import json

import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from treering.core.fingerprint import fence
from treering.edges.surfaces.rest.chat_body import read_chat_body

BLOCK = fence('Ada said: "ünï"\nC:\\x \ud83c\udf0d'.encode("utf-16", "surrogatepass").decode("utf-16"), origin="m")

scalars = st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False) | st.text(max_size=8)
values = st.recursive(
    scalars,
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=5), inner, max_size=3),
    max_leaves=8,
)
texts = st.text(max_size=12) | st.sampled_from(["[DiscussionId]d[/DiscussionId]", "a[discussionid] d [/discussionid]b"])
parts = st.fixed_dictionaries({"type": st.just("text"), "text": texts}) | values
contents = texts | st.lists(parts, max_size=3) | values
messages = st.lists(
    st.fixed_dictionaries(
        {"role": st.sampled_from(["system", "developer", "user", "assistant", "tool"])},
        optional={"content": contents, "tool_calls": values, "name": values},
    )
    | values,
    max_size=4,
)
bodies = st.builds(
    lambda rest, messages: {**rest, "messages": messages}, st.dictionaries(st.text(max_size=5), values), messages
)


def read(data):
    body = read_chat_body(json.dumps(data).encode())
    assert body is not None
    return body


@settings(max_examples=60, deadline=None)
@given(bodies, st.booleans(), st.sampled_from([None, 1]))
@example({"messages": [{"role": "system", "content": 0}]}, True, None)
def test_everything_but_the_messages_stays_byte_for_byte(data, ascii_only, indent):
    text = json.dumps(data, ensure_ascii=ascii_only, indent=indent)
    if any("\ud800" <= c <= "\udfff" for c in text):
        return
    body = read_chat_body(text.encode())
    assert body is not None
    edited = json.loads(body.with_recalled(BLOCK))

    assert {**edited, "messages": 0} == {**data, "messages": 0}
    assert len(body.messages) == len(data["messages"])
    assert BLOCK in json.dumps(edited["messages"], ensure_ascii=False).replace("\\n", "\n").replace('\\"', '"').replace(
        "\\\\", "\\"
    )
    if body.tag is None:
        assert body.data == text.encode()


def recalled(messages):
    return json.loads(read({"messages": messages}).with_recalled(BLOCK))["messages"]


def test_what_is_recalled_goes_to_the_end_of_the_last_leading_system_message():
    first, second, user = ({"role": role, "content": role} for role in ("system", "developer", "user"))

    told = recalled([first, second, user, {"role": "system", "content": "late"}])

    assert told[1] == {"role": "developer", "content": f"developer\n\n{BLOCK}"}
    assert [told[0], *told[2:]] == [first, user, {"role": "system", "content": "late"}]


def test_a_system_message_of_parts_gets_one_more():
    part = {"type": "text", "text": "Be kind."}

    assert recalled([{"role": "system", "content": [part]}])[0]["content"] == [part, {"type": "text", "text": BLOCK}]
    assert recalled([{"role": "system", "content": []}])[0]["content"] == [{"type": "text", "text": BLOCK}]


@pytest.mark.parametrize("messages", [[], [{"role": "user", "content": "hi"}], [{"role": "system"}], [5]])
def test_without_one_that_can_be_added_to_it_is_a_system_message_in_front(messages):
    assert recalled(messages) == [{"role": "system", "content": BLOCK}, *messages]


def test_tags_are_taken_out_of_all_texts_and_the_last_one_names_the_discussion():
    tagged = [
        {"role": "system", "content": "[DiscussionId]one[/DiscussionId]Be kind."},
        {"role": "user", "content": [{"type": "text", "text": "hi [discussionid] two [/discussionid]"}, {"type": "x"}]},
        {"role": "user", "content": None, "n": 1.50},
    ]
    body = read({"messages": tagged, "user": "u"})

    assert (body.tag, body.user) == (" two ", "u")
    assert json.loads(body.data)["messages"] == [
        {"role": "system", "content": "Be kind."},
        {"role": "user", "content": [{"type": "text", "text": "hi "}, {"type": "x"}]},
        {"role": "user", "content": None, "n": 1.5},
    ]
    assert [message.content for message in body.messages] == ["Be kind.", "hi ", ""]


def test_of_two_members_of_one_name_the_last_counts_as_for_everybody_else():
    body = read_chat_body(
        b'{"messages": [{"role": "user", "content": "a"}], "messages": [{"role": "user", "content": "b"}]}'
    )

    assert body is not None
    assert [message.content for message in body.messages] == ["b"]
    assert json.loads(body.with_recalled(BLOCK))["messages"][1]["content"] == "b"


def test_halves_of_characters_pass_and_are_not_remembered():
    data = (
        b'{"messages": [{"role": "system", "content": "\\ud800"}, {"role": "user", "content": "a\\udc00b"}], "n": 1E+2}'
    )
    body = read_chat_body(data)

    assert body is not None
    assert body.data == data
    assert [message.content for message in body.messages] == ["?", "a?b"]
    assert body.with_recalled("x") == data.replace(b"\\ud800", b"\\ud800\\n\\nx")
