import struct

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from treering.core.errors import Corrupt
from treering.ports.search import EdgeType
from treering.retrieval.index.ties import NumberedTies, pack_ties, unpack_ties

NUMBERS = st.integers(0, 2**29 - 1)
WORDS = st.lists(st.integers(0, 2**16 - 1), max_size=4).map(tuple)
TIES = st.builds(
    NumberedTies,
    st.lists(st.tuples(NUMBERS, st.sampled_from([EdgeType.MENTION, EdgeType.TITLE])), max_size=4).map(tuple),
    st.lists(st.tuples(NUMBERS, NUMBERS, WORDS), max_size=4).map(tuple),
    st.lists(st.tuples(NUMBERS, NUMBERS, st.sampled_from([EdgeType.FORM, EdgeType.LINK])), max_size=4).map(tuple),
)


@given(TIES)
def test_what_is_packed_comes_back_the_same(ties):
    back = unpack_ties(pack_ties(ties))
    assert (back.facts, back.pairs) == (ties.facts, ties.pairs)
    assert sorted(back.nodes) == sorted(ties.nodes)
    assert len(pack_ties(ties)) % 4 == 0


def test_the_own_object_comes_first():
    ties = NumberedTies(((5, EdgeType.MENTION), (9, EdgeType.PART), (1, EdgeType.TITLE)))
    assert unpack_ties(pack_ties(ties)).nodes == ((9, EdgeType.PART), (1, EdgeType.TITLE), (5, EdgeType.MENTION))


def test_the_numbers_of_a_record_are_all_that_occur_in_it():
    ties = NumberedTies(((1, EdgeType.PART),), ((2, 3, (7,)),), ((3, 4, EdgeType.FORM),))
    assert ties.numbers() == {1, 2, 3, 4}


@settings(max_examples=200)
@given(TIES, st.data())
def test_a_record_that_was_cut_or_lengthened_is_damaged(ties, data):
    record = pack_ties(ties)
    cut = data.draw(st.integers(1, len(record)))
    for damaged in (record[:-cut], record + b"\0" * 4, record[:-1] + b"\0\0"):
        with pytest.raises(Corrupt) as error:
            unpack_ties(damaged)
        assert "reindex" in error.value.hint


@given(st.binary(max_size=60))
def test_any_bytes_are_a_record_or_damaged(noise):
    try:
        unpack_ties(noise)
    except Corrupt:
        return
    assert len(noise) >= 12


def test_unknown_reason_is_damage():
    with pytest.raises(Corrupt):
        unpack_ties(struct.pack("<4I", 1, 0, 0, 5 << 3 | 7))
