"""Where a telling belongs beside what is kept. Letters are messages; `-` is one that was deleted."""

import pytest
from discussion_parts import new_log, said, talk, texts
from hypothesis import given
from hypothesis import strategies as st

from treering.memories.discussion.alignment import Agreement, Mark, agreement, align, is_end, walk
from treering.memories.discussion.log import Recorded
from treering.tools.turns import Message

LETTERS = st.lists(st.sampled_from("abc"), max_size=8)


@pytest.fixture
def tell(space):
    """Keep a telling, record another one, and give what is kept then, and what recording said."""

    def tell_both(kept, told):
        log = new_log(space)
        log.record(said(kept))
        recorded = log.record(said(told))
        return texts(log), recorded

    return tell_both


def test_the_same_again_is_nothing_new(tell):
    assert tell("a b c", "a b c") == ("a b c", Recorded(unchanged=3, count=3))


def test_new_messages_at_the_end_are_appended(tell):
    assert tell("a b c", "a b c d e") == ("a b c d e", Recorded(unchanged=3, appended=2, count=5))


def test_the_first_telling_is_kept_as_it_is(tell):
    assert tell("", "a b a") == ("a b a", Recorded(appended=3, count=3))


def test_an_empty_telling_says_nothing(tell):
    assert tell("a b c", "") == ("a b c", Recorded(count=3))


def test_another_last_answer_takes_the_place_of_the_last(tell):
    assert tell("a b c d", "a b c x") == (
        "a b c x",
        Recorded(unchanged=3, appended=1, withdrawn=1, diverged_at=3, count=4),
    )


def test_a_beginning_alone_is_a_rewind(tell):
    assert tell("a b c d e", "a b") == ("a b", Recorded(unchanged=2, withdrawn=3, diverged_at=2, count=2))


def test_even_the_first_message_alone_is_a_rewind(tell):
    assert tell("a b c", "a")[0] == "a"


def test_an_edit_early_on_replaces_what_it_edits_and_keeps_equal_messages_in_their_places(tell):
    assert tell("a b c d e f", "a x c d e f") == (
        "a x c d e f",
        Recorded(unchanged=5, appended=1, withdrawn=1, diverged_at=1, count=6),
    )


def test_an_edit_followed_by_something_else_withdraws_the_rest(tell):
    assert tell("a b c d e", "a x y")[0] == "a x y"


def test_an_edit_of_the_first_message_is_told_from_a_summary_by_the_equal_number(tell):
    kept, recorded = tell("a b c d e", "x b c d e f")
    assert kept == "x b c d e f"
    assert recorded == Recorded(unchanged=4, appended=2, withdrawn=1, diverged_at=0, count=6)


def test_a_window_of_the_end_is_found(tell):
    assert tell("a b c d e f", "d e f g") == ("a b c d e f g", Recorded(unchanged=3, appended=1, count=7))


def test_a_window_that_holds_nothing_new_changes_nothing(tell):
    assert tell("a b c d e f", "d e f") == ("a b c d e f", Recorded(unchanged=3, count=6))


def test_the_last_message_alone_is_a_window(tell):
    assert tell("a b c d", "d e")[0] == "a b c d e"


def test_a_summary_in_front_of_a_window_is_no_message(tell):
    assert tell("a b c d e f", "summary d e f g") == (
        "a b c d e f g",
        Recorded(unchanged=3, appended=1, count=7),
    )


def test_a_prompt_in_front_of_everything_is_no_message(tell):
    assert tell("a b c d", "prompt a b c d e")[0] == "a b c d e"


def test_a_first_message_that_stays_while_the_middle_is_left_out_is_no_rewind(tell):
    assert tell("a b c d e f g h", "a e f g h i") == ("a b c d e f g h i", Recorded(unchanged=5, appended=1, count=9))


def test_a_summary_behind_a_first_message_that_stays_is_no_message(tell):
    assert tell("a b c d e f g h", "a summary e f g h i")[0] == "a b c d e f g h i"


def test_a_message_put_in_between_is_an_edit(tell):
    assert tell("a b c d e f", "a b x c d e f")[0] == "a b x c d e f"


def test_short_messages_said_again_and_again_are_placed_by_their_neighbours(tell):
    assert tell("ok a ok b ok c ok", "ok b ok c ok d") == (
        "ok a ok b ok c ok d",
        Recorded(unchanged=5, appended=1, count=8),
    )


def test_of_equal_runs_the_latest_counts(tell):
    assert tell("x ok y ok", "ok z")[0] == "x ok y ok z"


def test_ok_alone_at_the_end_is_the_last_one(tell):
    assert tell("ok a ok b ok", "ok") == ("ok a ok b ok", Recorded(unchanged=1, count=5))


def test_ok_said_again_after_other_messages_is_a_new_message(tell):
    assert tell("a ok b c", "ok")[0] == "a ok b c ok"


def test_something_entirely_different_is_appended_and_withdraws_nothing(tell):
    assert tell("a b c", "x y") == ("a b c x y", Recorded(appended=2, count=5))


def test_a_window_that_stops_short_of_the_last_answer_is_a_rewind(tell):
    assert tell("a b c d e f", "c d e") == (
        "a b c d e",
        Recorded(unchanged=3, withdrawn=1, diverged_at=5, count=5),
    )


def test_a_window_with_another_last_answer_replaces_it(tell):
    assert tell("a b c d e f", "c d e x")[0] == "a b c d e x"


def test_a_long_window_that_stops_short_is_a_rewind_however_far(tell):
    assert tell("a b c d e f g h i j k l", "b c d e")[0] == "a b c d e"


def test_a_short_exchange_said_again_withdraws_nothing(tell):
    assert tell("a thanks welcome b c d", "thanks welcome")[0] == "a thanks welcome b c d thanks welcome"


def test_a_window_that_happens_to_begin_like_the_discussion_is_a_window_all_the_same(tell):
    assert tell("ok ok a b ok ok c d e f", "ok ok c d e f g")[0] == "ok ok a b ok ok c d e f g"


def test_an_edit_inside_a_window_is_an_edit(tell):
    assert tell("a b c d e f g h", "c x e f g h")[0] == "a b c x e f g h"


@pytest.mark.parametrize("erase", [False, True])
@pytest.mark.parametrize("told", ["a b c d", "a c d", "b c d", "c d"])
def test_a_deleted_message_may_be_told_again_or_not_and_stays_deleted(open_space, told, erase):
    log = new_log(open_space(channel="user"))
    log.record(said("a b c d"))
    log.delete([1], erase=erase)
    assert log.record(said(told)).withdrawn == 0
    assert texts(log) == "a - c d"
    log.record(said(f"{told} e"))
    assert texts(log) == "a - c d e"


def test_another_message_in_the_place_of_a_deleted_last_one_is_a_new_message(space):
    log = new_log(space)
    log.record(said("a b"))
    log.delete([1])
    log.record(said("a x"))
    assert texts(log) == "a - x"


def test_of_an_erased_message_only_the_role_is_known(open_space):
    log = new_log(open_space(channel="user"))
    log.record([Message(role="user", content="a"), Message(role="assistant", content="b")])
    log.delete([1], erase=True)
    log.record([Message(role="user", content="a"), Message(role="user", content="x")])
    assert texts(log) == "a - x"


def test_a_window_is_found_across_blocks_in_a_long_discussion(space):
    log = new_log(space)
    log.record(talk(0, 130))
    assert log.record(talk(70, 132)) == Recorded(unchanged=60, appended=2, count=132)


def test_the_same_words_of_somebody_else_are_another_message(space):
    log = new_log(space)
    log.record(said("a b"))
    assert log.record([*said("a"), *said("b", role="assistant")]).diverged_at == 1


def test_white_space_makes_no_other_message(space):
    log = new_log(space)
    log.record([Message(role="user", content="two  words\n\nhere")])
    assert log.record([Message(role="user", content=" two words here ")]).unchanged == 1


@given(LETTERS, LETTERS)
def test_agreement_is_the_common_beginning_where_nothing_is_deleted(kept, told):
    found = agreement(marks(kept), marks(told))
    common = next((at for at, pair in enumerate(zip(kept, told, strict=False)) if pair[0] != pair[1]), None)
    assert found == Agreement(*[min(len(kept), len(told)) if common is None else common] * 2)


@given(LETTERS, LETTERS)
def test_an_alignment_lies_within_what_is_kept_and_what_is_told(kept, told):
    agreed = agreement(marks(kept), marks(told))
    found = align(marks(told), marks(kept)[agreed.kept :], agreed=agreed, count=len(kept))
    assert agreed.kept <= found.position <= len(kept)
    assert 0 <= found.ignored <= found.told <= len(told)


@given(LETTERS)
def test_nothing_told_in_front_of_what_is_new_is_ever_lost(told):
    found = align(marks(told), marks("xyz"), agreed=Agreement(0, 0), count=3)
    assert (found.position, found.told) == (3, 0)


@given(LETTERS, LETTERS)
def test_the_end_is_recognised(kept, end):
    assert is_end(marks(end), marks([*kept, *end])) == bool(end)


@given(LETTERS, st.integers(0, 7))
def test_a_deleted_message_may_lack_only_where_that_is_allowed(kept, place):
    told = marks(kept)
    if place < len(kept):
        told.pop(place)
        stands = [Mark(key, deleted=at == place) for at, key in enumerate(kept)]
        assert agreement(stands, told).kept == len(kept)
        exact = walk(stands, told, deleted="always told")
        assert exact.kept == place + len_of_common(kept[place:], kept[place + 1 :])


def len_of_common(one, other):
    return next((at for at, pair in enumerate(zip(one, other, strict=False)) if pair[0] != pair[1]), len(other))


def marks(letters):
    return [Mark(letter) for letter in letters]
