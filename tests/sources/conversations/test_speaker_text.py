import pytest
from export_parts import only, read, told

TALK = """# Tea standup, 2024-05-01

Ada: Good morning everybody, who made the tea?
It is good.
Bob Hope: I did, and I want to make more of it.
Ada: Then do that today, please.
**Bob Hope:** Right after this meeting.
Ada: Good, that is all.
Bob Hope: See you tomorrow then.
"""


def test_turns_go_on_until_the_next_name() -> None:
    found = only(TALK, "standup.txt")
    assert told(found)[:2] == [
        ("Ada", "Good morning everybody, who made the tea?\nIt is good."),
        ("Bob Hope", "I did, and I want to make more of it."),
    ]
    assert told(found)[3] == ("Bob Hope", "Right after this meeting.")
    assert (len(found.messages), found.title, found.kind) == (6, "Tea standup, 2024-05-01", "meeting_record")


def test_where_nearly_all_lines_are_speech_nothing_else_has_to_say_so() -> None:
    spoken = "\n".join(line for line in TALK.splitlines() if ":" in line)
    assert len(only(spoken, "notes.txt").messages) == 6


@pytest.mark.parametrize("line", ["[10:03] {}: {}", "10:03 {}: {}", "{} (10:03): {}", "[10:03:00] - {}: {}"])
def test_times_beside_names_are_read_in_several_ways(line: str) -> None:
    text = "\n".join(["2024-05-01", line.format("Ada", "Tea?"), line.format("Bob", "Yes.")])
    found = only(text, "log.txt")
    assert told(found) == [("Ada", "Tea?"), ("Bob", "Yes.")]
    assert {str(one.at) for one in found.messages} == {"2024-05-01 10:03:00+00:00"}


def test_a_whole_time_beside_a_name_is_the_turn_s_and_a_bare_clock_is_not() -> None:
    found = only("[2024-05-01 10:03] Ada: Tea?\n[2024-05-02, 09:00:10] Bob: Yes.", "log.txt")
    assert [str(one.at) for one in found.messages] == ["2024-05-01 10:03:00+00:00", "2024-05-02 09:00:10+00:00"]
    bare = only("[10:03] Ada: Tea?\n[10:04] Bob: Yes.", "log.txt")
    assert [(one.id, one.at) for one in bare.messages] == [("10:03", None), ("10:04", None)]


def test_the_name_of_a_file_may_say_that_it_is_a_transcript() -> None:
    short = "Ada: Tea?\nBob: Yes."
    assert told(only(short, "team-meeting.txt")) == [("Ada", "Tea?"), ("Bob", "Yes.")]
    assert read(short, "readme.txt").conversations == ()


@pytest.mark.parametrize(
    "text",
    [
        "Tea is made of leaves. There is one thing to know: it is hot.\nAnd good.\n",
        "Host: a\nPort: 1\nHost: b\nPort: 2\n",
        "Note: read this first of all\nWarning: it is hot in here\nNote: and very wet outside\nWarning: really very\n",
        "INFO: tea is being made now\nERROR: tea is too hot\nINFO: tea is being made now\nERROR: it is cold\n",
        "10:01:02 INFO: tea\n10:01:03 ERROR: milk\n",
        "Added: a way to make tea here\nFixed: the milk that was sour\nAdded: some sugar to it\nFixed: all of it\n",
        "Name: Ada\nAge: 36\n\nName: Bob\nAge: 40\n",
        "def f():\n    try:\n        x()\n    except E:\n        y()\n    else:\n        z()\n",
        "https://a.example: tea\nhttps://b.example: milk\n",
        "Ada: I talk to myself all day long.\nAda: And again I say it.\nAda: So it is, believe me.\n",
    ],
)
def test_lists_logs_and_prose_are_no_conversations(text: str) -> None:
    assert read(text, "file.txt").conversations == ()
    assert read(text, "FILE.md").conversations == ()
