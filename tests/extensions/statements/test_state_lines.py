import pytest
from statement_parts import ledger_of

from treering.extensions.statements.document import ALL_SHOWN, document_of, lines_of, within


def shown(*lines):
    """Return the lines of the document of a conversation by section."""
    return {str(line).removeprefix("- ").rpartition(" [")[0]: line.section for line in lines_of(ledger_of(*lines))}


def test_line_has_the_statements_of_a_message():
    assert shown("Ada: bench it is. I'll order it, teak, three seats") == {
        "Ada: bench it is. I'll order it, teak, three seats": "Open"
    }


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


def test_long_document_omits_small_talk():
    chat = [f"Ada: that's so nice of your cousin {'very ' * at}much" for at in range(ALL_SHOWN + 5)]
    text = document_of(within(lines_of(ledger_of("Ada: I'm allergic to nuts", *chat)), 2_000))
    assert "allergic to nuts" in text
    assert text.count("\n- ") <= ALL_SHOWN
