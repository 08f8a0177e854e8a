"""Different people who state different values of the same shared thing."""

import pytest
from statement_parts import ledger_of

from treering.extensions.statements.contested import contested
from treering.extensions.statements.document import lines_of


def disputes(*lines):
    ledger = ledger_of(*lines)
    return {ledger.statements[one].message: other.message for one, other in contested(ledger).items()}


@pytest.mark.parametrize(
    "lines",
    [
        ["Ben: The deposit is 120 euros", "Cleo: The deposit is 150 euros"],
        ["Ben: The wifi password is tulip42", "Cleo: The wifi password is rose17"],
        ["Ben: Checkout is at 11.", "Cleo: Checkout is at 10, says the website"],
    ],
)
def test_other_value_of_another_person_is_contested(lines):
    assert disputes(*lines) == {0: 1, 1: 0}


@pytest.mark.parametrize(
    "lines",
    [
        ["Ben: My phone number is 555-0134", "Cleo: My phone number is 555-0190"],
        ["Ben: The deposit is 120 euros", "Ben: The deposit is 150 euros now"],
        ["Ben: The deposit is 120 euros", "Cleo: Is the deposit 150 euros?"],
        ["Ben: The deposit is 120 euros", "Cleo: The rent is 150 euros"],
        ["Ben: The deposit is 120 euros", "Cleo: The deposit is 120 euros"],
        ["Ben: The deposit is 120 euros", "Assistant: The deposit is 150 euros"],
    ],
)
def test_own_things_changes_and_questions_are_not_contested(lines):
    assert disputes(*lines) == {}


def test_contested_line_names_both_people():
    shown = list(map(str, lines_of(ledger_of("Ben: The deposit is 120 euros", "Cleo: The deposit is 150 euros"))))
    assert shown == [
        "- Ben: The deposit is 120 euros (contested by Cleo: The deposit is 150 euros) [2026-03-02, message 0]",
        "- Cleo: The deposit is 150 euros (contested by Ben: The deposit is 120 euros) [2026-03-03, message 1]",
    ]
