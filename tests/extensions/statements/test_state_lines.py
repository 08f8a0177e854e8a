import pytest
from statement_parts import ledger_of

from treering.extensions.statements.document import NEWEST_LINES, document_of, lines_of, within


def shown(*lines):
    """Return the lines of the document of a conversation by section."""
    return {str(line).removeprefix("- ").rpartition(" [")[0]: line.section for line in lines_of(ledger_of(*lines))}


def test_line_has_the_statements_of_a_message():
    assert shown("Ada: bench it is. I'll order it, teak, three seats") == {
        "Ada: bench it is. I'll order it, teak, three seats": "Open"
    }


def test_clauses_of_a_sentence_are_joined_by_semicolons():
    assert list(
        shown("Ada: I prefer oak for the stand; walnut is too expensive. His wrist is fine, he comes again")
    ) == ["Ada: I prefer oak for the stand; walnut is too expensive. His wrist is fine; he comes again"]


def test_considered_plan_that_was_given_up_is_dropped():
    lines = shown("Ada: I thought about buying an electric motor, but gave up on it.")
    assert [*lines.values()] == ["Done or dropped"]


def test_exception_after_but_stays_with_its_statement():
    more = "I bought 3 lamps. I sold 4 cars. My rent is 900 euros. Ben visits on Friday. I work at Helio now."
    ledger = ledger_of("Ada: I've stopped eating meat", f"Ada: I eat fish again, but still no meat. {more}")
    assert "Ada: I eat fish again, but still no meat. " in document_of(lines_of(ledger))


def test_days_that_passed_are_before():
    lines = ("Ada: the parts arrive on Wednesday", *("Ben: still no heating in the gym",) * 4)
    assert shown(*lines)["Ada: the parts arrive on Wednesday"] == "Before"


@pytest.mark.parametrize("text", ["I start at Helio on Wednesday", "from Wednesday on I work at home"])
def test_beginnings_stay_current_after_their_day(text):
    assert shown(f"Ada: {text}", *("Ben: still no heating in the gym",) * 4)[f"Ada: {text}"] != "Before"


@pytest.mark.parametrize(
    ("text", "earlier"),
    [
        ("From May on the flat is 1,010 a month", "until then: The flat costs 940 a month"),
        ("The flat is 1,010 a month now", "was: The flat costs 940 a month"),
    ],
)
def test_change_ahead_leaves_the_present_value(text, earlier):
    assert f"Ada: {text} ({earlier})" in shown("Ada: The flat costs 940 a month", f"Ada: {text}")


def test_short_answer_is_shown_with_its_question():
    assert "Ben: Monday, early – in answer to Ada: when is my first shift" in shown(
        "Ada: when is my first shift", "Ben: Monday, early"
    )


def test_line_names_whom_you_means():
    assert "Ben (to Ada): you write about cheese" in shown("Ada: my sister is a nurse", "Ben: you write about cheese")


def test_suggestion_to_a_machine_is_a_plan():
    text = "let's say merino in winter and linen in summer"
    assert shown("Assistant: Which wool?", f"Ada: {text}") == {f"Ada: {text}": "Open"}
    assert shown("Ben: cold today", f"Ada: {text}")[f"Ada: {text}"] == "Said, not settled"


def test_long_document_omits_old_small_talk():
    chat = [f"Ada: that's so nice of your cousin {'very ' * at}much" for at in range(NEWEST_LINES + 5)]
    text = document_of(within(lines_of(ledger_of("Ada: I'm allergic to nuts", *chat)), 2_000))
    assert "allergic to nuts" in text
    assert text.count("\n- ") == NEWEST_LINES + 1


def test_newest_lines_are_complete_in_a_long_document():
    chat = [f"Ada: platform {at} has a new clock" for at in range(NEWEST_LINES + 10)]
    text = document_of(within(lines_of(ledger_of(*chat, "Ada: the hall is cold. she holds the key")), 2_000))
    assert "the hall is cold; she holds the key" in text


def test_old_line_that_tells_something_is_complete():
    chat = [f"Ada: that's so nice of your cousin {'very ' * at}much" for at in range(NEWEST_LINES)]
    text = document_of(within(lines_of(ledger_of("Ada: I'm allergic to nuts. it is annoying", *chat)), 2_000))
    assert "I'm allergic to nuts; it is annoying" in text


@pytest.mark.parametrize("reaction", ["Right.", "Good.", "Yes."])
def test_reaction_does_not_lead_a_line(reaction):
    assert "Ada: I can visit him on Sundays" in shown(f"Ada: {reaction} I can visit him on Sundays")


@pytest.mark.parametrize(
    "text",
    ["I do Tuesday and Thursday then", "Leyla is at the counter tuesday to friday", "yoga on Wednesday, weekly"],
)
def test_days_of_each_week_do_not_pass(text):
    assert shown(f"Ada: {text}", *("Ben: still no heating in the gym",) * 9)[f"Ada: {text}"] != "Before"


@pytest.mark.parametrize(
    ("text", "section"),
    [
        ("Please book a table at Luigi's for Friday", "Ahead"),
        ("Please book a table at Luigi's", "Open"),
        ("Please always answer in German", "Preferences"),
    ],
)
def test_request_is_open(text, section):
    assert shown(f"Ada: {text}") == {f"Ada: {text}": section}


@pytest.mark.parametrize(
    "chatter",
    [
        "What a rainy week!",
        "My mother thinks I moved, but she is wrong.",
        "I might move to Bonn, but nothing is decided.",
    ],
)
def test_exclamations_and_judgments_are_not_shown(chatter):
    assert [line for line in shown("Ada: I live in Kiel", f"Ada: {chatter}") if "Kiel" not in line] == []


def test_explained_correction_is_part_of_the_corrected_statement():
    lines = shown("Ada: The exam is on 4 May.", "Ada: The exam is on 14 May. I mistyped it.")
    assert [*lines] == ["Ada: The exam is on 14 May (was: The exam is on 4 May)"]


def test_context_without_words_of_its_own_is_not_shown():
    lines = shown("Ada: My address is Green Street 4, Kyiv.", "Ada: No, my address is now Svobody Avenue 5, Lviv.")
    assert [*lines] == ["Ada: No, my address is now Svobody Avenue 5, Lviv (was: My address is Green Street 4, Kyiv)"]


def test_request_that_replaces_a_preference_is_a_preference():
    lines = shown("Ada: I prefer email to phone calls", "Ada: Please don't email me any more, call me instead")
    assert [*lines.values()] == ["Preferences"]
