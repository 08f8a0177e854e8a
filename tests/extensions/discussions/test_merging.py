import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from treering.extensions.discussions.summaries.lines import added_lines, merge_lines

TEXTS = st.lists(st.sampled_from("abcdef"), max_size=8).map("\n".join)
quick = settings(max_examples=60, deadline=None)


@quick
@given(TEXTS, TEXTS)
def test_where_only_one_side_changed_a_text_the_change_is_taken(base, other):
    assert merge_lines(base, base, other) == other
    assert merge_lines(base, other, base) == other
    assert merge_lines(base, other, other) == other


@quick
@given(TEXTS, TEXTS, TEXTS)
def test_no_line_that_either_side_added_is_lost(base, mine, theirs):
    merged = merge_lines(base, mine, theirs).split("\n")
    assert {*added_lines(base, mine), *added_lines(base, theirs)} <= set(merged)


@pytest.mark.parametrize(
    ("mine", "theirs", "merged"),
    [
        ("a\nB\nc\nd", "a\nb\nc\nD", "a\nB\nc\nD"),
        ("new\na\nb\nc\nd", "a\nb\nc\nd\nlast", "new\na\nb\nc\nd\nlast"),
        ("a\nc\nd", "a\nb\nc", "a\nc"),
        ("a\nmine\nb\nc\nd", "a\ntheirs\nb\nc\nd", "a\nmine\ntheirs\nb\nc\nd"),
        ("a\nmine\nc\nd", "a\ntheirs\nc\nd", "a\nmine\ntheirs\nc\nd"),
        ("a\nc\nd", "a\nbetter b\nc\nd", "a\nbetter b\nc\nd"),
    ],
)
def test_changes_in_different_places_are_both_taken_and_in_one_place_mine_comes_first(mine, theirs, merged):
    assert merge_lines("a\nb\nc\nd", mine, theirs) == merged
