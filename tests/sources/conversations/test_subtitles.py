from export_parts import only, read, told

VTT = """WEBVTT - Standup

NOTE recorded by a machine

STYLE
::cue { color: white }

1
00:00:01.000 --> 00:00:03.000 align:start position:0%
<v Ada Lovelace>Good <i>morning</i>.</v>

00:00:03.500 --> 00:00:05.000
<v.loud Ada Lovelace>Who made tea &amp; toast?

second-cue
00:01:02.250 --> 00:01:04.000
<v Bob>I did.</v>
"""

SRT = """1
00:00:01,000 --> 00:00:03,000
Ada: Good morning.
And welcome.

2
00:00:03,500 --> 00:00:05,000
Bob: Hello.
"""


def test_cues_of_one_speaker_are_joined_into_a_turn() -> None:
    found = only(VTT, "standup.vtt")
    assert told(found) == [("Ada Lovelace", "Good morning. Who made tea & toast?"), ("Bob", "I did.")]
    assert (found.kind, found.title) == ("meeting_record", "Standup")


def test_a_turn_is_called_by_where_it_begins_and_has_no_time_unless_the_file_tells() -> None:
    assert [(one.id, one.at) for one in only(VTT, "standup.vtt").messages] == [
        ("00:00:01.000", None),
        ("00:01:02.250", None),
    ]


def test_a_date_in_the_name_or_in_a_note_gives_turns_their_time() -> None:
    named = only(VTT, "GMT20240501-150000_Recording.vtt")
    assert str(named.messages[1].at) == "2024-05-01 15:01:02.250000+00:00"
    noted = only(VTT.replace("recorded by a machine", "recorded 2024-05-01 17:00+02:00"), "standup.vtt")
    assert str(noted.messages[0].at) == "2024-05-01 15:00:01+00:00"
    assert str(only(VTT, "2024-05-01 standup.vtt").messages[0].at) == "2024-05-01 00:00:01+00:00"


def test_subrip_is_read_like_webvtt() -> None:
    assert told(only(SRT, "standup.srt")) == [("Ada", "Good morning. And welcome."), ("Bob", "Hello.")]
    assert told(only(SRT.replace("\n", "\r\n"), "standup.srt"))[1] == ("Bob", "Hello.")


def test_without_names_a_pause_ends_a_turn_and_rolling_lines_count_once() -> None:
    cues = [
        ("00:01.000", "00:02.000", "so we"),
        ("00:02.000", "00:03.000", "so we\nbegin"),
        ("00:09.000", "00:10.000", "now"),
    ]
    text = "WEBVTT\n\n" + "\n\n".join(f"{start} --> {end}\n{words}" for start, end, words in cues)
    assert told(only(text, "talk.vtt")) == [("", "so we begin"), ("", "now")]


def test_a_long_silence_begins_a_new_turn_of_the_same_speaker() -> None:
    text = "WEBVTT\n\n00:01.000 --> 00:02.000\n<v Ada>One\n\n05:00.000 --> 05:01.000\n<v Ada>Two"
    assert [one.id for one in only(text, "talk.vtt").messages] == ["00:00:01.000", "00:05:00.000"]


def test_what_is_called_so_and_is_none_is_not_read() -> None:
    assert read("Just words --> more words", "a.vtt").conversations == ()
    assert read("1 --> 2", "a.srt").conversations == ()
