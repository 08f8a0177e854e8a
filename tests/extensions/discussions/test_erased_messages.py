"""What was erased of a discussion stays out when its transcript is recorded again, unless it is asked for."""

import random

import pytest
from discussion_parts import new_log, said, talk, texts

from treering.extensions.discussions.identity import discussion_ref
from treering.extensions.discussions.log.blocks import BLOCK_MESSAGES
from treering.extensions.discussions.log.message_log import MessageLog
from treering.extensions.discussions.operations import RECORD
from treering.verbs.ingest.turns import Message

CARD = Message(role="user", content="Mila Orlov pays with the corporate card ending 4242.")
TRAIN = Message(role="assistant", content="The train to Graz leaves at seven in the morning.")
HOTEL = Message(role="user", content="Book the hotel beside the station for two nights.")
TALK = [CARD, TRAIN, HOTEL]


@pytest.fixture(autouse=True)
def data(tmp_path, monkeypatch):
    monkeypatch.setenv("TREERING_DATA_DIR", str(tmp_path / "data"))


@pytest.fixture
def space(open_space, tmp_path):
    return open_space(f"sqlite:{tmp_path / 'space.db'}", channel="user", actor="ada")


def erase_source(space, log, position=0):
    space.erase([log.read(position, position)[0].source_id], "asked")


def contents(log):
    return [kept.text for kept in log.read() if not kept.deleted]


def test_an_erased_discussion_is_not_recorded_again(space):
    log = new_log(space)
    log.record(TALK)
    erase_source(space, log)
    result = log.record(TALK)
    assert (result.appended, result.left_out, log.count()) == (0, 3, 0)
    assert "3 messages were erased on 2" in result.left_out_reason()


def test_new_messages_follow_the_erased(space):
    log = new_log(space)
    log.record(TALK)
    erase_source(space, log)
    more = [*TALK, Message(role="assistant", content="The hotel is booked for you, with breakfast.")]
    result = log.record(more)
    assert (result.appended, result.left_out, result.count) == (1, 3, 4)
    assert contents(log) == [more[-1].content]
    again = log.record(more)
    assert (again.appended, again.unchanged, again.withdrawn, again.diverged_at) == (0, 1, 0, None)


@pytest.mark.parametrize("words", ["PIN 4242", "yes", "naïve – 東京"])
def test_short_messages_stay_out_of_their_discussion(space, words):
    log, other = new_log(space), new_log(space)
    told = [*said("one two"), Message(role="user", content=words)]
    log.record(told)
    erase_source(space, log)
    assert log.record(told).left_out == 3
    assert other.record(told).left_out == 0


def test_a_short_message_said_later_is_recorded(space):
    log = new_log(space)
    log.record([Message(role="user", content="yes"), TRAIN])
    log.delete([0], erase=True)
    later = Message(role="user", content="yes", at="2031-01-01T00:00:00Z")
    assert log.record([Message(role="user", content="yes"), TRAIN, later]).appended == 1
    assert contents(log) == [TRAIN.content, "yes"]


def test_an_erased_message_is_left_out_of_other_discussions(space):
    log, other = new_log(space), new_log(space)
    log.record(TALK)
    log.delete([0], erase=True)
    result = other.record([HOTEL, CARD, TRAIN])
    assert (result.appended, result.left_out, result.placed) == (2, 1, 1)
    assert texts(other) == f"{HOTEL.content} - {TRAIN.content}"


def test_erased_scope_leaves_discussions_of_other_scopes_complete(space):
    places = [discussion_ref("order", within="/c/bolt"), discussion_ref("order", within="/c/acme")]
    erased, other = (MessageLog(space.engine, place) for place in places)
    erased.record(TALK)
    space.erase(scope="/c/bolt", reason="asked")
    result = other.record(TALK)
    assert (result.appended, result.left_out, contents(other)) == (3, 0, [one.content for one in TALK])
    assert other.append([CARD]).appended == 1
    assert MessageLog(space.engine, discussion_ref("next", within="/c/bolt")).append(TALK).left_out == 3


def test_what_stays_of_a_block_is_not_remembered_as_erased(space):
    log, other = new_log(space), new_log(space)
    log.record(TALK)
    log.delete([0], erase=True)
    assert other.record([TRAIN, HOTEL]).left_out == 0
    log.append([HOTEL])
    assert contents(log) == [TRAIN.content, HOTEL.content, HOTEL.content]


def test_only_the_erased_paragraph_of_a_message_is_omitted(space):
    log, other = new_log(space), new_log(space)
    log.record(TALK)
    log.delete([0], erase=True)
    quoting = Message(role="user", content=f"{CARD.content}\n\nIs that card still valid in the new year?")
    result = other.record([quoting, TRAIN])
    assert (result.appended, result.left_out) == (2, 1)
    assert contents(other) == ["Is that card still valid in the new year?", TRAIN.content]
    assert other.record([quoting, TRAIN]).unchanged == 2


def test_a_long_message_in_several_segments_is_recognised(space):
    paragraphs = (f"Paragraph {at} of the will of Ada Byron. " * 40 for at in range(9))
    long = Message(role="user", content="\n\n".join(paragraphs))
    log, other = new_log(space), new_log(space)
    log.record([long, TRAIN])
    assert len(log.read(0, 0)[0].segment_ids) > 1
    log.delete([0], erase=True)
    assert other.record([long, TRAIN]).appended == 1


def test_appending_omits_the_erased(space):
    log = new_log(space)
    log.record(TALK)
    log.delete([0], erase=True)
    result = log.append([CARD, Message(role="user", content="And a taxi.")])
    assert (result.appended, result.left_out) == (1, 1)
    assert CARD.content not in contents(log)
    assert log.append([CARD], again=True).appended == 1
    assert contents(log)[-1] == CARD.content


@pytest.mark.parametrize("whole", [True, False])
def test_asking_again_restores_erased_messages(space, whole):
    log = new_log(space)
    log.record(TALK)
    if whole:
        erase_source(space, log)
    else:
        log.delete([0, 2], erase=True)
    log.record([*TALK, *said("taxi")])
    result = log.record([*TALK, *said("taxi")], again=True)
    assert (result.appended, result.left_out, result.withdrawn) == (3 if whole else 2, 0, 0)
    assert contents(log) == [*(one.content for one in TALK), "taxi"]
    assert log.record([*TALK, *said("taxi")]).unchanged == 4


def test_recording_is_asked_again_by_an_option(space):
    given = {"id": "trip", "messages": [one.model_dump() for one in TALK]}
    space.perform(RECORD, input=given)
    log = new_log(space, "trip")
    erase_source(space, log)
    assert space.perform(RECORD, input=given).recorded.left_out == 3
    assert space.perform(RECORD, input=given, options={"again": True}).recorded.appended == 3


@pytest.mark.parametrize("seed", range(6))
def test_recording_again_keeps_all_but_the_erased(space, seed):
    chance = random.Random(seed)
    log, told = new_log(space), talk(0, chance.randrange(2, 2 * BLOCK_MESSAGES))
    log.record(told)
    erased = set()
    for _ in range(4):
        live = [kept for kept in log.read() if not kept.deleted]
        if live and chance.random() < 0.3:
            gone = chance.choice(live).source_id
            erased |= {kept.text for kept in live if kept.source_id == gone}
            space.erase([gone], "asked")
        elif live:
            picked = chance.sample(live, min(len(live), chance.randrange(1, 4)))
            erased |= {kept.text for kept in picked}
            log.delete([kept.position for kept in picked], erase=True)
        if chance.random() < 0.7:
            told += talk(len(told), len(told) + chance.randrange(1, 5))
        window = told if chance.random() < 0.6 else told[-chance.randrange(5, 30) :]
        result = log.record(window)
        assert result.withdrawn == 0
        result = log.record(told)
        assert (result.withdrawn, result.diverged_at) == (0, None)
        assert sorted(contents(log)) == sorted(one.content for one in told if one.content not in erased)
    assert log.record(told).appended == 0
    assert contents(log) == [one.content for one in told if one.content not in erased]


def test_receipt_of_an_erased_message_names_no_stored_message(space):
    log = new_log(space)
    log.record(TALK)
    receipt = log.delete([0], erase=True).receipt
    assert receipt.clean
    assert not [place for place in receipt.out_of_reach if "the original at" in place]
