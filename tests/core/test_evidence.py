from hypothesis import given
from hypothesis import strategies as st

from treering.core.evidence import find_lines, relocate, segment_hash

texts = st.lists(st.sampled_from("abcd"), max_size=8)


def test_unchanged_texts_keep_their_places() -> None:
    assert relocate(["a", "b", "c"], ["a", "b", "c"]) == [0, 1, 2]


def test_an_insertion_moves_what_follows() -> None:
    assert relocate(["a", "b"], ["new", "a", "b"]) == [None, 0, 1]


def test_a_text_that_moved_is_found_again() -> None:
    assert relocate(["a", "b", "c"], ["c", "a", "b"]) == [2, 0, 1]


def test_equal_texts_are_distinguished_by_their_neighbours() -> None:
    assert relocate(["x", "a", "y", "x", "b"], ["x", "b"]) == [3, 4]


def test_an_edited_text_is_new() -> None:
    assert relocate(["a", "b"], ["a", "b!"]) == [0, None]


@given(texts, texts)
def test_each_old_text_is_matched_at_most_once_and_only_to_its_equal(old: list[str], new: list[str]) -> None:
    matched = relocate(old, new)
    taken = [index for index in matched if index is not None]
    assert len(matched) == len(new)
    assert len(taken) == len(set(taken))
    assert all(old[index] == text for index, text in zip(matched, new, strict=True) if index is not None)


@given(texts, texts)
def test_every_equal_that_is_left_is_used(old: list[str], new: list[str]) -> None:
    matched = relocate(old, new)
    for letter in "abcd":
        found = sum(index is not None for index, text in zip(matched, new, strict=True) if text == letter)
        assert found == min(old.count(letter), new.count(letter))


def test_lines_are_found_word_for_word() -> None:
    text = "one\ntwo\nthree\ntwo\nfour\n"
    assert find_lines("two\nfour", text) == (4, 5)
    assert find_lines("two", text) == (2, 2)
    assert find_lines("one\n", text) == (1, 1)
    assert find_lines("two\nfive", text) is None
    assert find_lines("tw", text) is None
    assert find_lines("", text) is None
    assert find_lines("one", "") is None


@given(st.lists(st.text(alphabet="ab ", max_size=2), min_size=1, max_size=6), st.data())
def test_every_stretch_of_lines_is_found_where_it_or_its_like_stands(lines: list[str], data: st.DataObject) -> None:
    start = data.draw(st.integers(0, len(lines) - 1))
    end = data.draw(st.integers(start, len(lines) - 1))
    quote = "".join(line + "\n" for line in lines[start : end + 1])
    found = find_lines(quote, "".join(line + "\n" for line in lines))
    assert found is not None
    assert found[0] <= start + 1
    assert lines[found[0] - 1 : found[1]] == lines[start : end + 1]


def test_the_hash_of_a_segment_depends_on_its_sources_salt() -> None:
    assert segment_hash("yes", salt="one") == segment_hash("yes", salt="one")
    assert segment_hash("yes", salt="one") != segment_hash("yes", salt="two")
