import numpy as np

from treering.retrieval.index.tables import Postings, WordTable


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


def test_a_change_takes_new_lengths_and_names_changed_passages():
    made = table([3, 3])
    made.keep("a", postings(0))
    made.renew([0, 4], np.array([0, 4]), np.array([3, 12]), rows=3, total=18)
    assert made.find("a") is not None
    assert list(made.changed_since("a")) == [0, 4]
    made.keep("a", made.find("a").renewed([0, 4], {4: 2.0}))
    assert made.find("a").keys.tolist() == [4]
    assert not made.changed_since("a")
    keys, _ = made.rank([postings(0, 4)], 5)
    assert keys.tolist() == [0, 4]


def test_a_removal_forgets_postings():
    made = table([3, 3])
    made.keep("a", postings(0))
    made.renew([1, 4], np.array([4]), np.array([12]), rows=2, total=15)
    assert made.find("a") is None
