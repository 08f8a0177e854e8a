"""When messages make up a chunk. The number of a message is its position."""

from dataclasses import replace

from hypothesis import given, settings
from hypothesis import strategies as st

from treering.extensions.discussions.generators.generator import DiscussionSettings
from treering.extensions.discussions.log.blocks import ChunkState, StoredMessage
from treering.extensions.discussions.summaries.chunks import chunk_key, due_chunks

SETTINGS = DiscussionSettings(chunk_tokens=100, max_messages=3, lookback=2)
NO_LOOKBACK = replace(SETTINGS, lookback=0)
LONG = "word " * 100


def kept(position, text="short", *, deleted=False):
    return StoredMessage(position, "user", "user", text, None, "", "src:1", (f"seg_{position}",), deleted)


def many(end, first=0):
    return [kept(position) for position in range(first, end)]


def due(messages, states=(), *, given_settings=SETTINGS, last=True):
    """Return the ranges that are due where the block is the only one."""
    count = messages[-1].position + 1 if messages else 0
    chunks = due_chunks(messages, states, settings=given_settings, count=count, is_last_block=last)
    return [(chunk.first, chunk.last) for chunk in chunks]


def state(first, last, status="done"):
    return ChunkState(first, last, f"{first}-{last}", status)


def test_a_chunk_is_complete_with_so_many_messages():
    assert due(many(8)) == [(0, 2), (3, 5)]


def test_chunk_is_complete_at_token_limit():
    assert due([kept(0, LONG), kept(1), kept(2, LONG), *many(6, 3)]) == [(0, 0), (1, 2)]


def test_the_last_messages_are_omitted():
    assert due(many(4)) == []
    assert due(many(5)) == [(0, 2)]


def test_a_lookback_of_nothing_leaves_nothing_out():
    assert due(many(3), given_settings=NO_LOOKBACK) == [(0, 2)]


def test_the_newest_partial_chunk_waits():
    assert due(many(5), given_settings=NO_LOOKBACK) == [(0, 2)]


def test_rest_of_closed_block_is_a_chunk():
    assert due(many(5), given_settings=NO_LOOKBACK, last=False) == [(0, 2), (3, 4)]


def test_even_there_the_lookback_is_omitted():
    found = due_chunks(many(5), (), settings=SETTINGS, count=6, is_last_block=False)
    assert [(chunk.first, chunk.last) for chunk in found] == [(0, 2)]


def test_what_is_in_a_state_is_not_due_whatever_became_of_it():
    for status in ("pending", "done", "empty", "failed"):
        assert due(many(11), [state(3, 5, status)]) == [(0, 2), (6, 8)]


def test_what_stands_right_before_a_state_is_complete():
    assert due(many(6), [state(2, 5)], given_settings=NO_LOOKBACK) == [(0, 1)]


def test_deleted_messages_are_in_no_chunk():
    messages = [kept(0, deleted=True), kept(1), kept(2, deleted=True), kept(3), kept(4), *many(9, 5)]
    assert due(messages) == [(1, 4)]
    assert due([kept(0, deleted=True)], given_settings=NO_LOOKBACK, last=False) == []


def test_an_empty_block_has_no_chunk():
    assert due([]) == []


def test_the_key_tells_chunks_by_words_speakers_and_places():
    same = chunk_key(many(3))
    others = [many(4), many(4, 1), [*many(2), kept(2, "other")], [*many(2), replace(kept(2), role="assistant")]]
    assert chunk_key(many(3)) == same
    assert len({same, *map(chunk_key, others)}) == 5


def test_chunks_are_pending_and_bear_their_key():
    (chunk,) = due_chunks(many(3), (), settings=NO_LOOKBACK, count=3, is_last_block=True)
    assert (chunk.status, chunk.key, chunk.attempts) == ("pending", chunk_key(many(3)), 0)


MESSAGES = st.lists(st.sampled_from(["short", LONG, "middle " * 25]), max_size=20).map(
    lambda texts: [kept(position, text) for position, text in enumerate(texts)]
)
ANY_SETTINGS = st.builds(
    DiscussionSettings,
    chunk_tokens=st.sampled_from([1, 40, 100, 1000]),
    max_messages=st.integers(1, 5),
    lookback=st.integers(0, 3),
)


@given(MESSAGES, ANY_SETTINGS)
def test_in_the_end_every_message_of_a_block_is_in_one_chunk(messages, chosen):
    after = chosen.lookback + len(messages)
    chunks = due_chunks(messages, (), settings=chosen, count=after, is_last_block=False)
    covered = [position for chunk in chunks for position in range(chunk.first, chunk.last + 1)]
    assert covered == [message.position for message in messages]


@settings(max_examples=60)
@given(MESSAGES, ANY_SETTINGS, st.data())
def test_chunks_are_the_same_whenever_and_in_whatever_order_they_are_made(messages, chosen, data):
    made, arrived = {}, 0
    while arrived < len(messages):
        arrived += data.draw(st.integers(1, 6))
        so_far = messages[:arrived]
        open_chunks = due_chunks(so_far, list(made.values()), settings=chosen, count=len(so_far), is_last_block=True)
        wanted = data.draw(st.lists(st.sampled_from(open_chunks), unique=True)) if open_chunks else []
        made |= {chunk.first: replace(chunk, status="done") for chunk in wanted}
    left = due_chunks(messages, list(made.values()), settings=chosen, count=len(messages), is_last_block=True)
    at_once = due_chunks(messages, (), settings=chosen, count=len(messages), is_last_block=True)
    told = sorted([*made.values(), *left], key=lambda chunk: chunk.first)
    assert [(chunk.first, chunk.last, chunk.key) for chunk in told] == [
        (chunk.first, chunk.last, chunk.key) for chunk in at_once
    ]
