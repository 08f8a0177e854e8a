import json
from datetime import UTC, datetime

import pytest
from export_parts import ONE, chatgpt, message, node, only, packed, read, told


def test_conversation_is_shown_in_order_with_times_and_ids() -> None:
    found = only([chatgpt(("user", "Green or black?"), ("assistant", "Green."))], "conversations.json")
    assert told(found) == [("user", "Green or black?"), ("assistant", "Green.")]
    assert (found.id, found.title, found.kind) == (ONE, "Tea", "conversation")
    assert [one.id for one in found.messages] == ["m0", "m1"]
    assert found.messages[1].at == datetime(2023, 11, 14, 22, 13, 21, tzinfo=UTC)
    assert found.metadata["as_of"] == "2023-11-14T22:13:21.000000Z"


def test_an_id_that_is_unique_everywhere_is_what_the_conversation_is_known_by() -> None:
    assert only([chatgpt(("user", "Hi"))], "conversations.json").known_as == f"chatgpt:{ONE}"
    assert only([chatgpt(("user", "Hi"), identity="conv_001")], "conversations.json").known_as == ""


def test_branches_beside_the_current_node_are_omitted_and_counted() -> None:
    tea = chatgpt(("user", "Green or black?"), ("assistant", "Black."))
    tea["mapping"]["other"] = node("n0", message("assistant", "Green.", at=9))
    assert told(found := only([tea], "c.json")) == [("user", "Green or black?"), ("assistant", "Black.")]
    assert found.notes == ("1 message(s) on inactive branches were skipped",)
    tea["current_node"] = "other"
    assert told(only([tea], "c.json"))[-1] == ("assistant", "Green.")


def test_without_a_current_node_the_newest_leaf_is_current() -> None:
    tea = chatgpt(("user", "Green or black?"), ("assistant", "Black."), current_node=None)
    tea["mapping"]["other"] = node("n0", message("assistant", "Green.", at=9))
    assert told(only([tea], "c.json"))[-1] == ("assistant", "Green.")


def test_hidden_messages_and_those_of_the_system_and_of_tools_are_no_part_of_it() -> None:
    tea = chatgpt(("system", "Be kind."), ("user", "Hi"), ("assistant", ""), ("tool", "{}"), ("assistant", "Hello"))
    unseen = [
        message("user", "My profile", metadata={"is_visually_hidden_from_conversation": True}),
        message("assistant", "search('tea')", recipient="browser"),
        message("assistant", "Let me think", kind="thoughts"),
        message("assistant", "Gone", weight=0),
    ]
    for at, said in enumerate(unseen):
        tea["mapping"][f"x{at}"] = node(f"x{at - 1}" if at else "n4", said)
    tea["current_node"] = "x3"
    assert told(only([tea], "c.json")) == [("user", "Hi"), ("assistant", "Hello")]


@pytest.mark.parametrize(
    "unspoken",
    [
        {"author": {"role": "assistant"}, "recipient": "web", "content": {"content_type": "text", "parts": ["tea"]}},
        {
            "author": {"role": "assistant"},
            "recipient": "all",
            "content": {"content_type": "code", "text": "find('tea')"},
        },
        {"author": {"role": "assistant"}, "recipient": {"name": "x"}, "content": {"parts": ["tea"]}},
        {"author": {"role": "assistant"}, "channel": "analysis", "content": {"parts": ["They want tea."]}},
        {"author": {"role": "user"}, "content": {"content_type": "user_editable_context", "user_profile": "Tea"}},
        {"author": {"role": "tool", "name": "web"}, "recipient": "all", "content": {"parts": ["Tea is a drink."]}},
    ],
)
def test_messages_to_and_from_tools_are_no_answer(unspoken) -> None:
    tea = chatgpt(("user", "Which tea?"), ("assistant", ""), ("assistant", "Green."))
    tea["mapping"]["n1"]["message"] = {"id": "m1", **unspoken}
    assert told(only([tea], "c.json")) == [("user", "Which tea?"), ("assistant", "Green.")]


def test_code_and_preambles_for_people_are_said() -> None:
    tea = chatgpt(("user", ""), ("assistant", ""), ("assistant", "Green."))
    code = {"content_type": "code", "language": "python", "text": "brew(tea)"}
    tea["mapping"]["n0"]["message"] = {"id": "m0", "author": {"role": "user"}, "content": code}
    preamble = {"author": {"role": "assistant"}, "channel": "commentary", "recipient": "all"}
    tea["mapping"]["n1"]["message"] = {"id": "m1", **preamble, "content": {"parts": ["I will look it up."]}}
    said = [("user", "brew(tea)"), ("assistant", "I will look it up."), ("assistant", "Green.")]
    assert told(only([tea], "c.json")) == said


def test_parts_that_are_no_text_are_named_where_they_are() -> None:
    picture = {"content_type": "image_asset_pointer", "asset_pointer": "file-service://x"}
    spoken = {"content_type": "audio_transcription", "text": "And this?"}
    tea = chatgpt(("user", ""))
    tea["mapping"]["n0"]["message"] = message("user", picture, "What is this?", spoken, kind="multimodal_text")
    found = only([tea], "c.json")
    assert told(found) == [("user", "[image]\n\nWhat is this?\n\nAnd this?")]
    assert found.notes == ("1 part(s) without text are only named",)


def test_a_circle_of_parents_ends() -> None:
    tea = chatgpt(("user", "Hi"), ("assistant", "Hello"))
    tea["mapping"]["n0"]["parent"] = "n1"
    assert told(only([tea], "c.json")) == [("user", "Hi"), ("assistant", "Hello")]


def test_the_zip_file_as_it_is_handed_out_is_read() -> None:
    export = packed({"chat.html": b"<html>", "conversations.json": [chatgpt(("user", "Hi"))], "file-x.png": b"\x89PNG"})
    assert told(only(export, "export.zip")) == [("user", "Hi")]
    parts = {f"conversations-00{at}.json": [chatgpt(("user", "Hi"), identity=f"c{at}")] for at in range(2)}
    assert [one.id for one in read(packed(parts), "export.zip").conversations] == ["c0", "c1"]


def test_conversations_without_an_id_keep_their_name_when_they_go_on() -> None:
    short = chatgpt(("user", "Hi"), identity="")
    longer = chatgpt(("user", "Hi"), ("assistant", "Hello"), identity="")
    (before,), (after,) = (read([one], "c.json").conversations for one in (short, longer))
    assert before.id == after.id != ""


def test_a_broken_conversation_does_not_hide_the_others() -> None:
    whole = [json.dumps(chatgpt(("user", "Hi"), identity=f"c{at}")) for at in range(2)]
    found = read(f'[{whole[0]}, {{"mapping": tru}}, 7, {{"title": "x"}}, {whole[1]}, {{"title": "cut o', "c.json")
    assert [one.id for one in found.conversations] == ["c0", "c1"]
    assert [problem.partition(":")[0] for problem in found.problems] == [
        "conversation 2",
        "conversation 3",
        "conversation 4",
        "conversation 6",
    ]
