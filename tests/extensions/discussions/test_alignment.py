"""Where a history that is sent belongs beside what is kept. Letters are messages; `-` is one that was deleted."""

import subprocess
import sys
from collections import Counter

import pytest
from discussion_parts import new_log, said, talk, texts
from hypothesis import given
from hypothesis import strategies as st

from treering.extensions.discussions.log.alignment import Agreement, Mark, agreement, align, parts_of, steps
from treering.extensions.discussions.log.message_log import Recorded
from treering.verbs.ingest.turns import Message

A, B = "a1 a2 a3 a4 a5 a6 a7 a8 a9", "b1 b2 b3 b4 b5 b6 b7 b8 b9"
LETTERS = st.lists(st.sampled_from("abc"), max_size=8)


@pytest.fixture
def tell(space):
    """Record one history, then another, and return what is kept then, and what recording said."""

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


def test_the_first_history_is_kept_as_it_is(tell):
    assert tell("", "a b a") == ("a b a", Recorded(appended=3, count=3))


def test_empty_history_has_no_traces(tell):
    assert tell("a b c", "") == ("a b c", Recorded(count=3))


def test_another_last_answer_replaces_the_last(tell):
    assert tell("a b c d", "a b c x") == (
        "a b c x",
        Recorded(unchanged=3, appended=1, withdrawn=1, diverged_at=3, count=4),
    )


@pytest.mark.parametrize(
    ("kept", "told"),
    [
        *(("a b c", "a"), ("a b c d e", "a b"), ("a b c d e", "a b c"), ("a b c d e f g h i", "a b c d")),
        *(("a b c d e f", "a b c d"), ("a b c d e f", "c d e"), ("a b c d e f g h i", "b c d e")),
    ],
)
def test_a_shorter_history_withdraws_nothing(tell, kept, told):
    assert tell(kept, told) == (kept, Recorded(unchanged=len(told.split()), count=len(kept.split())))


def test_what_is_said_instead_withdraws_the_rest(told):
    assert told("a b c d e f", "a b c d", "a b c d x") == "a b c d x"


def test_early_edit_preserves_equal_later_messages(tell):
    assert tell("a b c d e f", "a x c d e f") == (
        "a x c d e f",
        Recorded(unchanged=5, appended=1, withdrawn=1, diverged_at=1, count=6),
    )


def test_an_edit_followed_by_something_else_withdraws_the_rest(tell):
    assert tell("a b c d e f", "a b c d x y z")[0] == "a b c d x y z"


def test_a_conversation_that_only_begins_alike_is_one_of_its_own(tell):
    assert tell("a b c d e", "a x y") == (
        "a b c d e a x y",
        Recorded(appended=3, count=8, is_apart=True),
    )


def test_large_edit_becomes_a_branch(tell):
    assert tell("a b c d e f g h i j", "a b c d x y") == (
        "a b c d e f g h i j x y",
        Recorded(unchanged=4, appended=2, count=12),
    )


def test_edit_of_first_message_is_distinguished_from_summary(tell):
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


def test_a_first_message_that_stays_while_the_middle_is_omitted_is_no_rewind(tell):
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
    assert tell("a b c", "x y") == ("a b c x y", Recorded(appended=2, count=5, is_apart=True))


def test_a_window_with_another_last_answer_replaces_it(tell):
    assert tell("a b c d e f", "c d e x")[0] == "a b c d e x"


def test_a_short_exchange_said_again_withdraws_nothing(tell):
    assert tell("a thanks welcome b c d", "thanks welcome")[0] == "a thanks welcome b c d thanks welcome"


def test_a_window_that_happens_to_begin_like_the_discussion_is_a_window_all_the_same(tell):
    assert tell("ok ok a b ok ok c d e f", "ok ok c d e f g")[0] == "ok ok a b ok ok c d e f g"


@pytest.mark.parametrize("kept", ["yes a b c yes 4711", "yes a b yes no yes 4711", "yes yes yes yes yes 4711"])
def test_a_short_window_of_the_newest_messages_that_begins_like_the_discussion_is_a_window(tell, kept):
    count = len(kept.split())
    assert tell(kept, "yes 4711 thanks") == (f"{kept} thanks", Recorded(unchanged=2, appended=1, count=count + 1))


def test_a_short_window_of_the_newest_messages_is_found_where_the_last_one_was_deleted(space):
    log = new_log(space)
    log.record(said("yes a b c yes 4711 sorry"))
    log.delete([6])
    assert log.record(said("yes 4711 thanks")).withdrawn == 0
    assert texts(log) == "yes a b c yes 4711 - thanks"


def test_what_begins_alike_and_shares_no_more_with_the_newest_messages_is_no_window(tell):
    assert tell("yes a b c yes d", "yes 4711 thanks")[0] == "yes a b c yes d yes 4711 thanks"


def test_an_edit_inside_a_window_is_an_edit(tell):
    assert tell("a b c d e f g h", "c x e f g h")[0] == "a b c x e f g h"


@pytest.mark.parametrize("erase", [False, True])
@pytest.mark.parametrize("told", ["a b c d", "a c d", "b c d", "c d"])
def test_deleted_message_stays_deleted_if_sent_again(open_space, told, erase):
    log = new_log(open_space(channel="user"))
    log.record(said("a b c d"))
    log.delete([1], erase=erase)
    assert log.record(said(told)).withdrawn == 0
    assert texts(log) == "a - c d"
    log.record(said(f"{told} e"))
    assert texts(log) == "a - c d e"


def test_another_message_instead_of_a_deleted_last_one_is_a_new_message(space):
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


def test_the_same_words_of_another_user_are_another_message(space):
    log = new_log(space)
    log.record(said("a b"))
    assert log.record([*said("a"), *said("b", role="assistant")]).diverged_at == 1


def test_white_space_makes_no_other_message(space):
    log = new_log(space)
    log.record([Message(role="user", content="two  words\n\nhere")])
    assert log.record([Message(role="user", content=" two words here ")]).unchanged == 1


@pytest.fixture
def told(space):
    """Record histories, one after the other, and return what is kept then."""

    def tell_all(*histories):
        log = new_log(space)
        for one in histories:
            log.record(said(one))
        return texts(log)

    return tell_all


@pytest.mark.parametrize("window", [9, 4, 2])
def test_two_conversations_side_by_side_under_one_id_take_nothing_from_each_other(space, window):
    log, first, second = new_log(space), A.split(), B.split()
    for end in range(2, 10):
        for words in (first, second):
            log.record(said(" ".join(words[:end][-window:])))
    assert {*texts(log).split()} == {*first, *second}


def test_what_is_new_in_conversations_told_from_the_beginning_is_kept_once(told):
    turns = [(first, second) for first in (2, 4, 6) for second in (A, B)]
    assert told(*(" ".join(words.split()[:end]) for end, words in turns)) == "a1 a2 b1 b2 a3 a4 b3 b4 a5 a6 b5 b6"


@pytest.mark.parametrize("beginning", ["hi", "hi hello"])
def test_conversations_that_begin_alike_with_a_greeting_take_nothing_from_each_other(told, beginning):
    kept = told(*(f"{beginning} {words[:end]}" for end in (5, 11, 17) for words in (A, B)))
    assert {*A[:17].split(), *B[:17].split()} <= {*kept.split()}


def test_changed_last_answer_replaces_it_in_one_conversation(told):
    assert told(A, B, f"{A} q1 r1", f"{A} q1 r2") == f"{A} {B} q1 r2"
    assert told(A, B, f"{A} q1 r1", f"{B} p1 s1", f"{A} q1 r2") == f"{A} {B} q1 r1 p1 s1 r2"


def test_an_edit_of_the_newest_part_ends_where_the_part_begins(told):
    assert told(A, B, f"{A} q1 r1 q2 r2", f"{A} x1 y1") == f"{A} {B} x1 y1"
    assert told(A, B, f"{A} x1", f"{B} y1", f"{A} x1 z1") == f"{A} {B} x1 y1 z1"


def test_an_edit_of_a_conversation_never_reaches_into_another(told):
    assert told(A, B, A[:14]) == f"{A} {B}"
    assert told(A, B, f"{A[:23]} x y") == f"{A} {B} x y"
    assert told(A, B, f"{A[:23]} x y", f"{A[:23]} x y z") == f"{A} {B} x y z"


def test_messages_sent_without_those_before_are_appended_and_so_is_a_window_of_them(told):
    assert told("a1 a2", "a3 a4", "a5 a6", "a3 a4 a5 a6 a7 a8") == "a1 a2 a3 a4 a5 a6 a7 a8"


def test_foreign_discussion_with_same_id_withdraws_nothing(space):
    log = new_log(space)
    log.record(talk(0, 60))
    for stranger in ("x", "hi there", "x y z x y z x y z"):
        assert log.record(said(stranger)).withdrawn == 0
    assert [kept.text for kept in log.read(0, 59)] == [message.content for message in talk(0, 60)]
    assert log.record([*talk(0, 62)]).appended == 2


def test_parts_are_kept_where_messages_are_deleted_or_erased(open_space):
    for erase in (False, True):
        log = new_log(open_space(channel="user"))
        for words in (A, B, f"{A} q1 r1", f"{B} p1 s1"):
            log.record(said(words))
        log.delete([9, 18], erase=erase)
        log.record(said(f"{A} q1 r1 q2"))
        log.record(said(f"{B} p1 s1 p2"))
        assert texts(log) == f"{A} - {B[3:]} - r1 p1 s1 q2 p2"


def test_equal_messages_by_ten_thousands_are_no_work_without_end():
    # Comparing each with each would take minutes; the time limit only ends that.
    script = """
from treering.extensions.discussions.log.alignment import Mark, align, parts_of
kept = [Mark("ok")] * 40_000
parts = parts_of(kept, {at: 0 for at in range(2, 40_000, 2)}, first=0)
for told in ([Mark("new"), *kept], [Mark("new")] * 40_000, kept[:20_000] + [Mark("new")] * 20_000):
    align(told, parts_of(kept, {}, first=0), {"told": [0]})
    align(told, parts, {"told": [0]})
"""
    subprocess.run([sys.executable, "-c", script], check=True, timeout=60)


@given(LETTERS, LETTERS)
def test_agreement_is_the_common_beginning_where_nothing_is_deleted(kept, told):
    found = agreement(marks(kept), marks(told))
    common = next((at for at, pair in enumerate(zip(kept, told, strict=False)) if pair[0] != pair[1]), None)
    assert found == Agreement(*[min(len(kept), len(told)) if common is None else common] * 2)


def aligned(told, kept, begins=None):
    counts = {"included": steps(marks(kept), marks(told), deleted="included")}
    return align(marks(told), parts_of(marks(kept), begins or {}, first=0), counts)


@given(LETTERS, LETTERS.filter(bool), st.dictionaries(st.integers(1, 7), st.integers(-1, 9), max_size=3))
def test_alignment_is_within_both_transcripts(told, kept, begins):
    found = aligned(told, kept, begins)
    assert 0 <= found.ignored <= found.told <= len(told)
    assert 0 <= found.position <= len(kept)
    assert found.after is None or (found.position == len(kept) and found.after <= len(kept))


@given(LETTERS, LETTERS.filter(bool), st.dictionaries(st.integers(1, 7), st.integers(0, 7), max_size=3))
def test_no_more_goes_than_agrees_and_nothing_of_an_older_part(told, kept, begins):
    found = aligned(told, kept, begins)
    lost = Counter(kept[found.position :]) - Counter(told[found.told :])
    agree = len(told) - (Counter(told) - Counter(kept)).total()
    assert lost.total() <= max(1, agree if agree >= 4 else 0)
    assert found.position >= max((start for start in begins if start < len(kept)), default=0)


@given(LETTERS)
def test_messages_before_new_ones_are_never_lost(told):
    found = aligned(told, "xyz")
    assert (found.position, found.told) == (3, 0)


@given(LETTERS, st.integers(0, 7))
def test_missing_deleted_message_needs_permission(kept, place):
    told = marks(kept)
    if place < len(kept):
        told.pop(place)
        stands = [Mark(key, deleted=at == place) for at, key in enumerate(kept)]
        assert agreement(stands, told).kept == len(kept)
        exact = steps(stands, told, deleted="required")
        assert len(exact) - 1 == place + len_of_common(kept[place:], kept[place + 1 :])


def len_of_common(one, other):
    return next((at for at, pair in enumerate(zip(one, other, strict=False)) if pair[0] != pair[1]), len(other))


def marks(letters):
    return [Mark(letter) for letter in letters]
