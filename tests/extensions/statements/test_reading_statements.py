from datetime import date

import pytest
from hypothesis import given
from hypothesis import strategies as st
from statement_parts import read

from treering.extensions.statements.quotes import UNKNOWN


@pytest.mark.parametrize(
    ("text", "force"),
    [
        ("The flat costs 940", "asserted"),
        ("Does the flat cost 940?", "asked"),
        ("if the flat costs 940 we take it", "hypothetical"),
        ("we should take the flat", "suggested"),
        ("I will renew my passport", "planned"),
        ("the report is finished", "done"),
        ("The trip is cancelled", "ended"),
        ("Before that I lived in Lund", "past"),
        ("oh sure, I'll just buy a yacht", "hypothetical"),
        ("sure, I'll just take the front row", "hypothetical"),
        ("how I love platform 9 in the sleet", "hypothetical"),
        ("I would like a window seat", "asserted"),
        ("the donkey has to wait, maybe next weekend", "planned"),
        ("who has the key", "asked"),
        ("you moved to Kiel then", "asked"),
        ("Friday at 5?", "suggested"),
        ("pour at 8 then", "suggested"),
        ("I'd go for Crete", "suggested"),
        ("the report needs to be finished by Monday", "planned"),
    ],
)
def test_force_is_what_a_sentence_does(text, force):
    assert [one.force for one in read(text)] == [force]


@pytest.mark.parametrize("text", ["https://example.org/a?b=1", "@Ben Lee: <https://example.org/a>", "@ben www.a.org"])
def test_link_alone_states_nothing(text):
    assert read(text) == ()


@pytest.mark.parametrize("text", ["What a lovely day today!", "Happy Friday!", "Have a great weekend!"])
def test_exclamation_states_nothing(text):
    assert not read(text)


def test_sentence_with_a_link_is_stated():
    assert [one.text for one in read("The guide is at https://example.org/a")] == [
        "The guide is at https://example.org/a"
    ]


@pytest.mark.parametrize(
    ("text", "first"),
    [
        ("the exam is in three weeks", date(2026, 3, 23)),
        ("we meet on Sunday", date(2026, 3, 8)),
        ("we met on Sunday", date(2026, 3, 1)),
        ("the lease ends in half a year", date(2026, 9, 1)),
        ("the party is tomorrow", date(2026, 3, 3)),
        ("due on 15 November", date(2026, 11, 15)),
        ("the fee goes up from May", date(2026, 5, 1)),
        ("I moved here two months ago", date(2026, 1, 1)),
    ],
)
def test_dates_are_read_by_tense_and_day(text, first):
    values = [value for one in read(text) for value in one.values if value.kind == "date"]
    assert [value.first for value in values] == [first]


@pytest.mark.parametrize(
    ("text", "author"),
    [
        ('Ben wrote: "I quit at the end of the month."', "Ben"),
        ("> I moved to Graz", UNKNOWN),
        ("Forwarding what Hugo sent:\n> I moved to Graz", "Hugo"),
        ("from yesterday\nMax: I'm allergic to cats", "Max"),
        ("Got this from the insurance:\nWe will pay 1,200 euros", UNKNOWN),
        ("fwd from a customer >> I run version 3.1 on a Pi in my barn << can you take it", "someone"),
    ],
)
def test_quoted_words_belong_to_whoever_said_them(text, author):
    quoted = [one for one in read(text) if one.quoted_by]
    assert [(one.author, one.quoted_by) for one in quoted] == [(author, "Ada")]


def test_subject_of_a_sentence_owns_it():
    assert [one.owner for one in read("Emi has piano lessons")] == ["Emi"]
    assert [one.owner for one in read("I have piano lessons")] == ["Ada"]
    assert [one.owner for one in read("we have piano lessons")] == [""]


_NAMES = st.sampled_from(["Ada", "Ben", "May", "Will", "Rose", "Mark", "Update", "Note", "O'Neil", "Jean-Luc"])
_MARKS = st.sampled_from([": ", ":", " wrote: ", '"', "“", "”", "> ", "\n", "; ", ", ", " said ", "From: ", "- ", " "])
_WORDS = st.sampled_from(
    ["I quit", "the flat costs 940", "moved to Kiel", "no, 41", "yes", "?", "cancelled", "🙂", "  "]
)


@given(st.lists(st.one_of(_NAMES, _MARKS, _WORDS), max_size=14).map("".join))
def test_words_are_never_credited_to_somebody_else_unquoted(text):
    for one in read(text, "Speaker"):
        assert one.author == "Speaker" or one.quoted_by == "Speaker"


@given(st.text(max_size=300))
def test_any_text_is_read(text):
    assert [one.number for one in read(text)] == [*range(len(read(text)))]


@given(
    st.sampled_from(["Ada", "Ben"]), st.lists(st.one_of(_NAMES, _MARKS, _WORDS), min_size=1, max_size=8).map("".join)
)
def test_marks_around_a_text_do_not_make_the_sender_its_author(name, text):
    quoted = "\n".join(f"> {line}" for line in text.split("\n"))
    assert all(one.quoted_by == "Speaker" for one in read(f"{name} sent:\n{quoted}", "Speaker"))


@pytest.mark.parametrize(
    ("text", "author"),
    [
        ("Mum rang, she goes, I'm giving the dog to Peter", "Mum"),
        ("Tom told me he's out of the race. He goes, I'm not coming back.", "Tom"),
        ("Tom's text: running late, start without me", "Tom"),
        ("Ben told me he's allergic to nuts, so bring the other cake", "Ben"),
        ("Anouk was here. she said 'I eat cheese again'", "Anouk"),
        ('My pupils. Listen: "I am going to Norway with my uncle." By Casimir.', "Casimir"),
        ("the sign says “we close at 6”", UNKNOWN),
        ("our Tiago swears by Sensitech loggers, I have no opinion", "Tiago"),
        ("[14/03, 10:32] Ben: bring the cake\n[14/03, 10:33] Ben: and the wine", "Ben"),
        ("From: Carla\nHi, I left the key with Tom.", "Carla"),
    ],
)
def test_speech_in_a_message_is_quoted(text, author):
    assert {one.author for one in read(text) if one.quoted_by} == {author}


@pytest.mark.parametrize(
    "text",
    [
        'I told Ben "I will never sell the house"',
        "Plan: the boat leaves at 9",
        "quick note: I moved to Kiel",
        "the weekend edition goes, I've told them",
        'we watched "A House of Sand" on Friday',
    ],
)
def test_own_words_are_not_quoted(text):
    assert {one.author for one in read(text)} == {"Ada"}


_SPEAKERS = st.sampled_from(["Ben", "Mum", "O'Neil", "the landlord", "my sister"])
_REPORTS = st.sampled_from(['{} said: "{}"', "{} wrote “{}” yesterday", '"{1}" – {0} told me', "{} said '{}'"])
_CONFESSIONS = st.sampled_from(
    ["I sold the car", "I quit, my boss laughed", "we moved to Kiel. I hate it", "I owe Ada 50"]
)


@given(_SPEAKERS, _REPORTS, _CONFESSIONS)
def test_quoted_confessions_are_not_the_senders(name, report, words):
    assert not [one for one in read(report.format(name, words), "Zoe") if one.author == "Zoe" and words[:7] in one.text]
