import json
import subprocess
import sys

import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from treering.core.fencing import fence
from treering.extensions.discussions.chat.body import MAX_MESSAGES, read_chat_body

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


def read(data, *, tags=True):
    body = read_chat_body(json.dumps(data).encode(), tags=tags)
    assert body is not None
    return body


@settings(max_examples=60, deadline=None)
@given(bodies, st.booleans(), st.sampled_from([None, 1]))
@example({"messages": [{"role": "system", "content": 0}]}, True, None)
def test_everything_but_the_messages_stays_byte_for_byte(data, ascii_only, indent):
    text = json.dumps(data, ensure_ascii=ascii_only, indent=indent)
    if any("\ud800" <= c <= "\udfff" for c in text):
        return
    body = read_chat_body(text.encode(), tags=True)
    assert body is not None
    edited = json.loads(body.with_recalled(BLOCK))

    assert {**edited, "messages": 0} == {**data, "messages": 0}
    assert len(body.messages) == len(data["messages"])
    assert BLOCK in json.dumps(edited["messages"], ensure_ascii=False).replace("\\n", "\n").replace('\\"', '"').replace(
        "\\\\", "\\"
    )
    untouched = read_chat_body(text.encode(), tags=False)
    assert untouched is not None
    assert (untouched.tags, untouched.data) == ((), text.encode())


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


TAG = "[DiscussionId]d[/DiscussionId]"


def message(role, content):
    return {"role": role, "content": content}


def test_the_tag_of_the_first_system_message_names_the_discussion_before_that_of_the_last_user():
    first = [message("user", "before"), message("system", "[DiscussionId]one[/DiscussionId]Be kind.")]
    parts = [{"type": "text", "text": "hi [discussionid] two [/discussionid]"}, {"type": "x"}]
    last = [message("user", parts), message("assistant", "yes"), {"role": "user", "content": None, "n": 1.50}]
    body = read({"messages": [*first, *last[:1]], "user": "u"})

    assert (body.tags, body.user) == (("one",), "u")
    assert json.loads(body.data)["messages"] == [
        message("user", "before"),
        message("system", "Be kind."),
        message("user", [{"type": "text", "text": "hi "}, {"type": "x"}]),
    ]
    assert [one.content for one in body.messages] == ["before", "[DiscussionId]one[/DiscussionId]Be kind.", "hi "]
    assert read({"messages": last[:1]}).tags == ("two",)
    assert read({"messages": last}).tags == ()


@pytest.mark.parametrize(
    "others",
    [
        [message("tool", TAG)],
        [message("function", TAG)],
        [message("assistant", TAG)],
        [message("user", TAG), message("assistant", "yes")],
        [message("system", "first"), message("system", TAG)],
        [message("", TAG)],
        [{"content": TAG}],
        [{"role": "user", "name": TAG, "tool_calls": TAG, "content": [{"type": "x", "note": TAG}]}],
    ],
)
def test_a_tag_anywhere_else_is_text(others):
    data = {"messages": [*others, message("user", "hi")]}
    body = read(data)

    assert (body.tags, body.data) == ((), json.dumps(data).encode())


def test_a_tag_that_is_quoted_from_memory_names_nothing():
    assert read({"messages": [message("user", f"You said: {fence(TAG, origin='memory')}")]}).tags == ()


def test_without_the_option_no_tag_means_anything():
    data = {"messages": [message("system", TAG), message("user", TAG)]}
    body = read(data, tags=False)

    assert (body.tags, body.data) == ((), json.dumps(data).encode())
    assert [one.content for one in body.messages] == [TAG, TAG]


def test_of_very_many_messages_the_newest_are_remembered_and_all_are_passed_on():
    data = {"messages": [message("user", str(number)) for number in range(MAX_MESSAGES + 5)]}
    body = read(data)

    assert [one.content for one in body.messages] == [str(number) for number in range(5, MAX_MESSAGES + 5)]
    assert body.data == json.dumps(data).encode()


def test_several_ids_in_one_message_are_all_given():
    assert read({"messages": [message("user", f"{TAG} {TAG} [DiscussionId]e[/DiscussionId]")]}).tags == ("d", "e")


def test_the_user_is_told_without_tags_in_earlier_messages_too():
    body = read({"messages": [message("user", f"{TAG}one"), message("assistant", TAG), message("user", f"{TAG}two")]})

    assert [one.content for one in body.messages] == ["one", TAG, "two"]


def test_a_body_of_nothing_but_tags_or_brackets_is_no_work_without_end():
    # In the square of the length this would take hours; the time limit only ends that.
    script = """
import json
from treering.extensions.discussions.chat.body import read_chat_body
for text in ("[DiscussionId]", "[", "<<treering:recalled origin=\\"x\\" 0123456789abcdef>>", "\\ud800", "\\n "):
    for messages in ([{"role": "user", "content": text * 100_000}], [{"role": "user", "content": text}] * 20_000):
        body = read_chat_body(json.dumps({"messages": messages}).encode(), tags=True)
        assert body.tags == () and body.with_recalled("x")
"""
    subprocess.run([sys.executable, "-c", script], check=True, timeout=120)


def test_of_two_members_of_one_name_the_last_counts_as_for_everybody_else():
    body = read_chat_body(
        b'{"messages": [{"role": "user", "content": "a"}], "messages": [{"role": "user", "content": "b"}]}',
        tags=False,
    )

    assert body is not None
    assert [message.content for message in body.messages] == ["b"]
    assert json.loads(body.with_recalled(BLOCK))["messages"][1]["content"] == "b"


def test_halves_of_characters_pass_and_are_not_remembered():
    data = (
        b'{"messages": [{"role": "system", "content": "\\ud800"}, {"role": "user", "content": "a\\udc00b"}], "n": 1E+2}'
    )
    body = read_chat_body(data, tags=True)

    assert body is not None
    assert body.data == data
    assert [message.content for message in body.messages] == ["\ufffd", "a\ufffdb"]
    assert body.with_recalled("x") == data.replace(b"\\ud800", b"\\ud800\\n\\nx")
