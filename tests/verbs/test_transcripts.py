"""Transcripts read again: what they leave out stays, what they say differently gives way."""

from itertools import count

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import treering

ORIGINS = count()


@pytest.fixture(scope="module")
def space():
    with treering.open(":memory:", background=False) as opened:
        yield opened


class Chat:
    """A conversation of one origin, as often as it is read."""

    def __init__(self, space, *, ids):
        self.space = space
        self.ids = ids
        self.origin = f"chat:{next(ORIGINS)}"

    def read(self, *said, **ids):
        named = {text: ids.get(text, text) if self.ids else "" for text in said}
        messages = [{"role": "user", "content": text, "id": named[text]} for text in said]
        given = {"kind": "conversation", "origin": self.origin, "messages": messages}
        return "".join(item.why for item in self.space.ingest("source", input=given).items)

    @property
    def source(self):
        state = self.space.engine.ledger.sources(scope="/", root=self.origin)[self.origin]
        return self.space.engine.ledger.get(state.id)

    @property
    def turns(self):
        segments = self.source.segments
        assert [segment.locator.turn for segment in segments] == [*range(len(segments))]
        return [segment.excerpt for segment in segments]


def windows(most):
    """Return stretches of a history, each of one message at least."""
    bounds = st.tuples(st.integers(0, most - 1), st.integers(1, most))
    return st.lists(bounds.map(lambda pair: slice(pair[0], pair[0] + pair[1])), min_size=1, max_size=5)


HISTORY = [f"Message {number} about {word}" for number, word in enumerate("abcdefghijkl")]


@pytest.mark.parametrize("ids", [True, False])
@settings(max_examples=40, deadline=None)
@given(read=windows(len(HISTORY)))
def test_windows_in_order_make_the_whole_history(space, ids, read):
    chat = Chat(space, ids=ids)
    for window in sorted(read, key=lambda one: one.start):
        assert "diverges" not in chat.read(*HISTORY[window])
    assert chat.turns == sorted({text for window in read for text in HISTORY[window]}, key=HISTORY.index)


@settings(max_examples=40, deadline=None)
@given(read=windows(len(HISTORY)))
def test_windows_in_any_order_lose_no_turn_and_double_none(space, read):
    chat = Chat(space, ids=True)
    for window in read:
        assert "diverges" not in chat.read(*HISTORY[window])
    assert sorted(chat.turns) == sorted({text for window in read for text in HISTORY[window]})


@settings(max_examples=40, deadline=None)
@given(sizes=st.lists(st.integers(1, 6), min_size=1, max_size=6), texts=st.lists(st.sampled_from("abc"), min_size=30))
def test_repeated_words_with_ids_are_messages_each(space, sizes, texts):
    chat, end = Chat(space, ids=False), 0
    for size in sizes:
        end = min(end + size, len(texts))
        messages = [{"role": "user", "content": texts[at], "id": f"{at}"} for at in range(max(0, end - size - 2), end)]
        chat.space.ingest("source", input={"kind": "conversation", "origin": chat.origin, "messages": messages})
    assert chat.turns == texts[:end]


@pytest.mark.parametrize("ids", [True, False])
def test_growing_and_shrinking_transcripts_keep_ids_of_segments(space, ids):
    chat = Chat(space, ids=ids)
    chat.read(*"abcdef")
    before = [segment.segment_id for segment in chat.source.segments]
    assert chat.read(*"ef") == "earlier turns retained that are missing from it: 4"
    assert chat.read(*"fgh") == "earlier turns retained that are missing from it: 5"
    assert chat.read(*"abcdefgh") == ""
    assert chat.turns == [*"abcdefgh"]
    assert [segment.segment_id for segment in chat.source.segments][:6] == before


@pytest.mark.parametrize(
    ("told", "stands", "why"),
    [
        ("abcdX", "abcdX", "diverges at turn 4: 2 turns replaced"),
        ("abXdef", "abXdef", "diverges at turn 2: 1 turns replaced"),
        ("Xbcdef", "Xbcdef", "diverges at turn 0: 1 turns replaced"),
        ("abXef", "abcdXef", "earlier turns retained that are missing from it: 2"),
        ("Sdef", "abcSdef", "earlier turns retained that are missing from it: 3"),
        ("abef", "abcdef", "earlier turns retained that are missing from it: 2"),
        ("abcd", "abcdef", "earlier turns retained that are missing from it: 2"),
        ("cdefX", "abcdefX", "earlier turns retained that are missing from it: 2"),
        ("XYZ", "abcdefXYZ", "earlier turns retained that are missing from it: 6"),
    ],
)
@pytest.mark.parametrize("ids", [True, False])
def test_only_other_turns_in_their_place_replace_turns(space, ids, told, stands, why):
    chat = Chat(space, ids=ids)
    chat.read(*"abcdef")
    assert chat.read(*told) == why
    assert chat.turns == [*stands]


def test_an_edit_in_a_frame_of_three_is_an_edit(space):
    chat = Chat(space, ids=False)
    chat.read(*"abcd")
    assert chat.read(*"abXd") == "diverges at turn 2: 1 turns replaced"
    assert chat.turns == [*"abXd"]


def test_words_said_twice_are_no_proof_of_an_edit(space):
    chat = Chat(space, ids=False)
    chat.read("hi", "Where is oak?", "In barn two.")
    chat.read("hi", "Where is ash?", "In barn three.")
    assert {"Where is oak?", "In barn two.", "Where is ash?", "In barn three."} <= set(chat.turns)


def test_an_edit_under_the_same_id_is_reported(space):
    chat = Chat(space, ids=True)
    chat.read(*"abc")
    assert chat.read("a", "B", "c", B="b") == "diverges at turn 1: 1 turns replaced"
    assert chat.turns == ["a", "B", "c"]


def test_a_window_into_a_gap_replaces_nothing(space):
    chat = Chat(space, ids=False)
    chat.read(*"abcd")
    chat.read(*"wxyz")
    chat.read(*"defgw")
    assert chat.turns == [*"abcdefgwxyz"]


def test_knowledge_on_absent_turns_stays_active(space):
    chat = Chat(space, ids=False)
    chat.read("Keep the retry limit at four.", "Four it is.", "Thanks.")
    source = chat.source
    ref = {"source_id": source.id, "segment_id": source.segments[0].segment_id}
    decision = {"question": "What is the retry limit?", "outcome": "four"}
    made = space.crystallize(
        "knowledge",
        input={"kind": "decision", "title": "Retry", "payload": decision, "evidence_refs": [ref], "status": "active"},
    )
    chat.read("Thanks.", "Set the dosing interval to nine.")
    (known,) = (identity for identity in made.ids if identity.startswith("know:"))
    assert space.engine.ledger.get(known).status == "active"
    chat.read("Keep the retry limit at five.", "Four it is.", "Thanks.", "Set the dosing interval to nine.", "Done.")
    assert space.engine.ledger.get(known).status == "active", "three turns in common are not sure to be the same talk"
    assert "Keep the retry limit at four." in chat.turns


def test_meeting_records_are_read_as_a_whole(space):
    for texts in (("One", "Two", "Three"), ("One", "Three")):
        messages = [{"name": "Ada", "content": text} for text in texts]
        given = {"kind": "meeting_record", "origin": "standup:1", "messages": messages}
        space.ingest("source", input=given)
    state = space.engine.ledger.sources(scope="/", root="standup:1")["standup:1"]
    assert [one.excerpt for one in space.engine.ledger.get(state.id).segments] == ["One", "Three"]
