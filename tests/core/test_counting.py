"""Numbers with their nouns."""

import pytest

from treering.core.counting import counted_things


@pytest.mark.parametrize(
    ("number", "thing", "words"),
    [
        (1, "file", "1 file"),
        (0, "file", "0 files"),
        (1200, "memory", "1,200 memories"),
        (2, "day", "2 days"),
        (2, "patch", "2 patches"),
        (3, "version of the summary", "3 versions of the summary"),
        (1, "knowledge", "1 statement"),
        (2, "knowledge", "2 statements"),
    ],
)
def test_nouns_follow_their_number(number, thing, words):
    assert counted_things(number, thing) == words


def test_plural_can_be_given():
    assert counted_things(2, "pair goes", "pairs go") == "2 pairs go"
