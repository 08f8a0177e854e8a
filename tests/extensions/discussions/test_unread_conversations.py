"""Long conversations are read in steps by searches, and ahead by the process that embeds texts."""

from dataclasses import replace
from datetime import timedelta

import pytest
from recollection_parts import BEGAN

from treering.extensions.discussions.memory import DiscussionMemory
from treering.extensions.discussions.search import DiscussionSearch
from treering.extensions.statements import conversations, reading_ahead
from treering.extensions.statements.conversations import forget
from treering.extensions.statements.reading_ahead import read_ahead
from treering.verbs.ingest.turns import Message
from treering.verbs.replaced_turns import UNREAD

TEXTS = (
    "dentist on thursday at 3",
    *(f"errand {at} costs {at} euros" for at in range(8)),
    "the dentist can only do friday 11 now",
)
QUESTION = "when is the dentist?"


class Values(dict):
    """`ReadyValues` of a process."""

    read = dict.get
    write = dict.__setitem__


@pytest.fixture
def with_ready(space):
    return replace(space, engine=replace(space.engine, ready=Values()))


@pytest.fixture
def short_steps(monkeypatch):
    monkeypatch.setattr(conversations, "MAX_UNREAD", 4)
    monkeypatch.setattr(conversations, "SAVED_FROM", 1)
    monkeypatch.setattr(reading_ahead, "MAX_UNREAD", 4)


def tell(space, name="d", texts=TEXTS):
    said = [
        Message(role="user", name="Ada", content=text, at=BEGAN + timedelta(days=at)) for at, text in enumerate(texts)
    ]
    discussion = DiscussionMemory(space.engine).open(name)
    discussion.append(said)
    return discussion


def import_talk(space, texts=TEXTS):
    messages = [
        {"name": "Ada", "content": text, "at": f"2026-03-{at:02}T12:00:00Z"} for at, text in enumerate(texts, 1)
    ]
    space.ingest("source", input={"items": [{"kind": "conversation", "origin": "talk", "messages": messages}]})


def search(space, scope="/"):
    """Return whether the first message is marked, and the warning about unread conversations."""
    found = space.query("search", scope, {"text": QUESTION}, {"descend": True})
    marks = {hit.text: hit.superseded_by for hit in found.hits}
    return bool(marks[TEXTS[0]]), UNREAD in found.warnings


@pytest.mark.parametrize("record", [tell, import_talk])
def test_searches_read_a_long_conversation_in_steps(space, short_steps, record):
    record(space)
    assert [search(space) for _ in range(4)] == [(False, True), (False, True), (True, False), (True, False)]


@pytest.mark.parametrize("record", [tell, import_talk])
def test_next_process_continues_reading(with_ready, short_steps, record):
    record(with_ready)
    assert search(with_ready) == (False, True)
    forget(with_ready.engine)
    assert search(with_ready) == (False, True)
    forget(with_ready.engine)
    assert search(with_ready) == (True, False)


def test_context_warns_of_unread_conversations(space, short_steps):
    tell(space)
    assert UNREAD in space.query("context", input={"task": QUESTION}, options={"descend": True}).warnings


def test_search_in_a_discussion_warns_of_unread_messages(space, short_steps):
    discussion = tell(space)
    asked = DiscussionSearch(what="turns", mode="hybrid")
    warnings = [discussion.search(QUESTION, asked).warnings for _ in range(3)]
    assert [UNREAD in one for one in warnings] == [True, True, False]


def test_document_of_a_discussion_contains_unread_messages(space, short_steps):
    assert "friday 11 now (was: dentist on thursday at 3)" in tell(space).state()


@pytest.mark.parametrize("record", [tell, import_talk])
def test_search_after_reading_ahead_reads_nothing(with_ready, short_steps, record, monkeypatch):
    record(with_ready)
    read_ahead(with_ready)
    compared = []
    monkeypatch.setattr("treering.extensions.statements.ledger.relations_of", compared.append)
    assert search(with_ready) == (True, False)
    assert not compared


@pytest.fixture
def places_read(monkeypatch):
    places = []
    monkeypatch.setattr(reading_ahead, "conversation_at", lambda engine, **place: places.append(place["root"]))
    return places


def test_reading_ahead_reads_only_changed_conversations(with_ready, places_read):
    tell(with_ready, "a")
    tell(with_ready, "b")
    read_ahead(with_ready)
    assert places_read == ["discussion:a", "discussion:b"]
    read_ahead(with_ready)
    tell(with_ready, "a", ["make it friday at 12"])
    read_ahead(with_ready)
    assert places_read == ["discussion:a", "discussion:b", "discussion:a"]


def test_reading_ahead_begins_again_with_other_rules(with_ready, places_read, monkeypatch):
    tell(with_ready, "a")
    read_ahead(with_ready)
    monkeypatch.setattr(reading_ahead, "rules_digest", lambda: "other")
    read_ahead(with_ready)
    assert places_read == ["discussion:a", "discussion:a"]


def test_reading_ahead_continues_after_an_interruption(with_ready, monkeypatch):
    monkeypatch.setattr(reading_ahead, "_EVENTS", 1)
    tell(with_ready, "a")
    tell(with_ready, "b")
    places = []

    def read(_engine, *, root, **_rest):
        places.append(root)
        if places == ["discussion:a", "discussion:b"]:
            raise KeyboardInterrupt

    monkeypatch.setattr(reading_ahead, "conversation_at", read)
    with pytest.raises(KeyboardInterrupt):
        read_ahead(with_ready)
    read_ahead(with_ready)
    assert places == ["discussion:a", "discussion:b", "discussion:b"]


def test_nothing_is_read_ahead_if_it_cannot_be_saved(space, short_steps, monkeypatch):
    tell(space)
    monkeypatch.setattr(reading_ahead, "conversation_at", pytest.fail)
    read_ahead(space)
