from export_parts import packed, read, slack, told

from treering.extensions.conversations.exports import read_conversations

MORNING = "tea/2026-01-15"


def post(text: str, ts: str = "1768471200.000100", **fields: object) -> dict[str, object]:
    return {"type": "message", "user": "U00000ADA", "text": text, "ts": ts, **fields}


def test_a_channel_is_a_conversation_with_the_names_of_people() -> None:
    export = slack({MORNING: [post("Tea?")], "tea/2026-01-16": [post("Yes", "1768557600.0001", user="U00000BOB")]})
    found = read_conversations(export, "acme Slack export.zip")
    (tea,) = found.conversations
    assert told(tea) == [("Ada Lovelace", "Tea?"), ("Bob Hope", "Yes")]
    assert (tea.title, tea.known_as) == ("#tea", "slack:T00000ACME/C00000TEA")
    assert str(tea.messages[0].at) == "2026-01-15 10:00:00.000100+00:00"


def test_mentions_channels_and_links_read_as_people_read_them() -> None:
    text = "<@U00000BOB> in <#C1|milk>: <https://tea.example|tea &amp; milk>, <https://x.example> <!here> <@U9|eve>"
    (tea,) = read(slack({MORNING: [post(text)]}), "s.zip").conversations
    assert told(tea)[0][1] == ("@Bob Hope in #milk: tea & milk (https://tea.example), https://x.example @here @eve")


def test_replies_are_in_the_order_of_time() -> None:
    day = [
        post("First", "1768471200.1"),
        post("Third", "1768471203.1"),
        post("Second", "1768471202.1", thread_ts="1768471200.1"),
    ]
    (tea,) = read(slack({MORNING: day}), "s.zip").conversations
    assert [text for _, text in told(tea)] == ["First", "Second", "Third"]


def test_joining_is_omitted_and_programs_speak_by_their_attachments() -> None:
    bot = {"type": "message", "subtype": "bot_message", "username": "ci", "text": "", "ts": "1768471201.1"}
    built = {**bot, "attachments": [{"pretext": "Build 7", "text": "passed", "fallback": "no"}]}
    (tea,) = read(slack({MORNING: [post("joined", subtype="channel_join"), built]}), "s.zip").conversations
    assert told(tea) == [("ci", "Build 7\npassed")]
    assert tea.notes == ("1 message(s) about joining and leaving were skipped",)


def test_a_broken_day_does_not_hide_the_others() -> None:
    export = slack({MORNING: [post("Tea?")]}, **{"tea/2026-01-16.json": b'[{"type":'})
    found = read_conversations(export, "s.zip")
    assert [told(one) for one in found.conversations] == [[("Ada Lovelace", "Tea?")]]
    assert [problem.partition(":")[0] for problem in found.problems] == ["tea/2026-01-16.json"]


def test_a_direct_conversation_is_called_by_its_members() -> None:
    dms = [{"id": "D00000001", "members": ["U00000ADA", "U00000BOB"]}]
    export = slack({"D00000001/2026-01-15": [post("Psst")]}, **{"dms.json": dms})
    (talk,) = read(export, "s.zip").conversations
    assert talk.title == "Ada Lovelace, Bob Hope"


def test_other_zip_files_hold_no_conversations() -> None:
    for members in ({"a.txt": b"x"}, {"channels.json": []}, {"tea/2026-01-15.json": []}):
        assert read(packed(members), "a.zip").conversations == ()
