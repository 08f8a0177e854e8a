import numpy as np
import pytest

from treering.core.errors import Corrupt
from treering.retrieval.index.tables import PackedTable
from treering.retrieval.index.word_table import Postings, WordTable


def postings(*keys):
    return Postings(np.array(keys, np.int32), np.ones(len(keys), np.float32))


def table(lengths, **given):
    made = WordTable(**given)
    keys = np.arange(len(lengths))
    made.begin(keys, np.array(lengths), rows=len(lengths), total=sum(lengths))
    return made


def test_of_equal_scores_the_lower_key_comes_first_and_the_limit_holds():
    keys, scores = table([5] * 9).rank([postings(7, 8, 2, 5), postings(8)], 3)
    assert keys.tolist() == [8, 2, 5]
    assert scores[0] > scores[1] == scores[2]


def test_the_shorter_of_two_that_have_a_term_comes_first():
    keys, _ = table([9, 3, 6, 4]).rank([postings(0, 2)], 5)
    assert keys.tolist() == [2, 0]


def test_a_term_of_nearly_all_passages_still_counts_a_little():
    keys, scores = table([4] * 4).rank([postings(0, 1, 2)], 5)
    assert keys.tolist() == [0, 1, 2]
    assert 0 < scores[0] < 1e-5


def test_nothing_is_found_in_an_empty_table():
    keys, scores = table([]).rank([postings()], 5)
    assert len(keys) == len(scores) == 0


def test_postings_not_requested_lately_are_forgotten_where_they_are_too_many():
    made = table([3] * 10, most_postings=6)
    for term, keys in (("a", (1, 2)), ("b", (3, 4)), ("c", (5, 6))):
        made.keep(term, postings(*keys))
    assert made.find("a") is not None
    made.keep("d", postings(7))
    assert made.find("b") is None
    assert all(made.find(term) is not None for term in "acd")


def without_look_up(first):
    raise AssertionError(f"looked up from {first}")


def looked_up(found, asked):
    return lambda first: (asked.append(first), {key: count for key, count in found.items() if key >= first})[1]


def test_a_change_takes_new_lengths_and_looks_up_added_passages():
    made, asked = table([3, 3]), []
    made.keep("a", postings(0, 1))
    made.renew([2, 4], np.array([2, 4]), np.array([3, 12]), rows=4, total=21)
    assert made.renewed("a", looked_up({4: 2.0}, asked)).keys.tolist() == [0, 1, 4]
    assert asked == [2]
    assert made.renewed("a", without_look_up).counts.tolist() == [1, 1, 2]
    keys, _ = made.rank([postings(0, 4)], 5)
    assert keys.tolist() == [0, 4]


def test_passages_whose_words_stay_are_not_looked_up():
    made = table([3, 3, 3])
    made.keep("a", postings(0, 1))
    made.renew([0, 1], np.array([0, 1]), np.array([3, 3]), rows=3, total=9)
    assert made.renewed("a", without_look_up).keys.tolist() == [0, 1]


def test_a_passage_with_the_key_of_an_erased_one_is_looked_up():
    made, asked = table([3, 3, 3]), []
    made.keep("a", postings(0, 2))
    made.renew([1, 2], np.array([1, 2]), np.array([3, 3]), rows=3, total=9)
    assert made.renewed("a", looked_up({1: 3.0}, asked)).keys.tolist() == [0, 1]
    assert asked == [1]


def saved(made, **lists):
    """A table as read from the file that another one was saved to."""
    packed = made.packed({term: len(each.keys) for term, each in lists.items()}, lists.__getitem__)
    parts = list(packed.parts)
    joined = {name: np.concatenate([part[name] for part in parts]) for name in parts[0]}
    again = WordTable()
    again.unpack(PackedTable(packed.numbers, {**packed.arrays, **joined}))
    return again


def test_a_saved_table_ranks_like_the_table_that_was_saved():
    lists = {"a": postings(0, 2), "b": Postings(np.array([2], np.int32), np.array([1.5], np.float32))}
    made = table([5, 3, 4])
    again = saved(made, **lists)
    assert again.held(["a", "b", "c"]) == {"a", "b"}
    assert (again.having("a"), again.having("c")) == (2, None)
    found = [again.renewed(term, without_look_up) for term in lists]
    assert [each.tolist() for each in again.rank(found, 5)] == [
        each.tolist() for each in made.rank([*lists.values()], 5)
    ]


def test_saved_postings_follow_changes():
    again = saved(table([3, 3, 3]), a=postings(0, 2))
    again.renew([0, 4], np.array([4]), np.array([5]), rows=3, total=11)
    assert again.renewed("a", looked_up({4: 2.0}, [])).keys.tolist() == [2, 4]


def test_counts_of_very_long_passages_are_saved():
    lists = {"a": Postings(np.array([0], np.int32), np.array([70_000], np.float32))}
    assert saved(table([70_000]), **lists).find("a").counts.tolist() == [70_000]


@pytest.mark.parametrize(
    "damage",
    [
        {"bounds": np.array([0, 1], np.int64)},
        {"bounds": np.array([0, 3, 2], np.int64)},
        {"bounds": np.array([], np.int64)},
        {"doubled": np.zeros(1, np.int16)},
        {"terms": np.zeros(0, np.uint32)},
        {"terms": np.array([2**31], np.uint32)},
        {"lengths": np.zeros(3, np.int64)},
    ],
)
def test_saved_postings_that_do_not_fit_together_are_refused(damage):
    packed = table([3, 3, 3]).packed({}, without_look_up)
    good = {
        "bounds": np.array([0, 1, 2], np.int64),
        "terms": np.array([97, 10, 98], np.uint32),
        "keys": np.array([0, 1], np.int32),
        "doubled": np.array([2, 2], np.int16),
    }
    WordTable().unpack(PackedTable(packed.numbers, {**packed.arrays, **good}))
    with pytest.raises(Corrupt):
        WordTable().unpack(PackedTable(packed.numbers, {**packed.arrays, **good, **damage}))


def test_a_removal_forgets_postings():
    made = table([3, 3])
    made.keep("a", postings(0))
    made.renew([1, 4], np.array([4]), np.array([12]), rows=2, total=15)
    assert made.find("a") is None
