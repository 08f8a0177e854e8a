"""The note of a cited line that a file does not have any more shows the new line if there is one."""

import pytest

from treering.verbs.edited_lines import fate_of_lines, is_edit_of

OLD = "# Retry\n\nLIMIT = 3\nWAIT = 9\n\nLAST = 1\n"


@pytest.mark.parametrize(
    ("quote", "new", "fate"),
    [
        ("LIMIT = 3", OLD.replace("3", "read_limit()"), 'retry.py:3 is now "LIMIT = read_limit()"'),
        ("LIMIT = 3\nWAIT = 9", "import os\n" + OLD.replace("9", "2"), 'retry.py:5 is now "WAIT = 2"'),
        ("LIMIT = 3", OLD.replace("LIMIT = 3\n", ""), "these lines of retry.py are gone"),
        ("LIMIT = 3", OLD.replace("LIMIT = 3", "def call(): ..."), "these lines of retry.py are gone"),
        ("LIMIT = 3\nWAIT = 9", OLD.replace("WAIT = 9\n", ""), "some of these lines of retry.py are gone"),
        (
            "LIMIT = 3\nWAIT = 9",
            OLD.replace("WAIT", "X = 1\nWAIT"),
            "there are other lines between these lines of retry.py",
        ),
        ("LIMIT = 3", "", "these lines of retry.py are gone"),
    ],
)
def test_note_of_missing_lines_shows_their_edit(quote, new, fate):
    assert fate_of_lines("retry.py", OLD, quote, new) == fate


def test_line_elsewhere_is_no_edit_of_a_removed_one():
    new = OLD.replace("LIMIT = 3\n", "") + "\ndef slow():\n    LIMIT = 30\n"
    assert fate_of_lines("retry.py", OLD, "LIMIT = 3", new) == "these lines of retry.py are gone"


FORK = "a\nlimit = 50\nb\nc\n"
THEIRS = FORK.replace("50", "100")


@pytest.mark.parametrize(
    ("fork", "theirs", "ours", "is_edited"),
    [
        (THEIRS, THEIRS, FORK.replace("50", "9"), True),
        (FORK, THEIRS, FORK.replace("50", "9"), True),
        (FORK, "new\n" + THEIRS, FORK.replace("50", "9"), True),
        (FORK, THEIRS, FORK, False),
        (FORK, THEIRS, FORK.replace("c", "d"), False),
        (FORK, THEIRS, THEIRS.replace("c", "d"), False),
        (FORK, FORK, FORK.replace("50", "9"), False),
    ],
)
def test_edit_of_lines_is_told_from_edits_elsewhere(fork, theirs, ours, is_edited):
    assert is_edit_of("limit = 100", fork=fork, theirs=theirs, ours=ours) == is_edited


@pytest.mark.parametrize(
    ("code", "shown"),
    [
        ('LIMIT = f"{n} times"', '`LIMIT = f"{n} times"`'),
        ("LIMIT = a[0] * 3", "`LIMIT = a[0] * 3`"),
        (r"LIMIT = r'\d+'", r"`LIMIT = r'\d+'`"),
        ("LIMIT = `date`", "`` LIMIT = `date` ``"),
        ("LIMIT = 3 << 1 < 9", '"LIMIT = 3 << 1 < 9"'),
        ("LIMIT = 3 >> 1", '"LIMIT = 3 ›› 1"'),
        ("LIMIT = 3 <<treering:", '"LIMIT = 3 (quoted marker) treering:"'),
    ],
)
def test_note_shows_code_unchanged_except_for_markers(code, shown):
    new = OLD.replace("LIMIT = 3", code)
    assert fate_of_lines("retry.py", OLD, "LIMIT = 3", new) == f"retry.py:3 is now {shown}"
