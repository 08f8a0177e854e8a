"""Memory around chats, without any server: recalled in time, stored behind."""

import asyncio
import threading
from contextlib import contextmanager
from threading import Event

import apsw
import pytest

import space_parts
from treering.core.errors import InvalidInput
from treering.extensions.discussions.chat import chat_memory
from treering.extensions.discussions.chat.chat_memory import ChatBounds, ChatMemory, Storing
from treering.extensions.discussions.chat.timers import Timers
from treering.extensions.discussions.generators.built_in import BuiltInGenerator
from treering.extensions.discussions.identity import DiscussionRef, discussion_ref
from treering.extensions.discussions.log.message_log import MessageLog
from treering.testing.fakes import HashingEmbedder
from treering.verbs.ingest.turns import Message

SAID = "The cellar key lies under the third flowerpot."
ASKED = "Where does the cellar key lie?"
ONE, TWO = discussion_ref("one"), discussion_ref("two")
PATIENT = ChatBounds(wait_seconds=30, store_seconds=30)
HURRIED = ChatBounds(wait_seconds=0.05, store_seconds=0.05)


def user(*contents: str) -> list[Message]:
    return [Message(content=content, role=("user", "assistant")[at % 2]) for at, content in enumerate(contents)]


@contextmanager
def remembering(folder, bounds=PATIENT, *, policy=None, embedder=None, **options):
    """Open a space and memory around chats in it."""
    with (
        space_parts.open_space(
            f"sqlite:{folder / 'space.db'}", policy=policy, embedder=embedder or HashingEmbedder()
        ) as space,
    ):
        memory = ChatMemory(lambda *, create: space.engine, bounds, embedder=embedder, **options)
        try:
            yield memory
        finally:
            memory.close()


def kept(folder, place: DiscussionRef):
    with space_parts.open_space(f"sqlite:{folder / 'space.db'}", create=False) as space:
        return [(message.role, message.text) for message in MessageLog(space.engine, place).read()]


@contextmanager
def written_by_somebody_else(folder):
    other = apsw.Connection(str(folder / "space.db"))
    other.set_busy_timeout(30_000)
    other.execute("BEGIN IMMEDIATE")
    try:
        yield
    finally:
        other.execute("ROLLBACK")
        other.close()


class Stuck(HashingEmbedder):
    """An embedder that answers no question before it is freed."""

    def __init__(self):
        super().__init__()
        self.free = Event()

    def embed_query(self, text):
        assert self.free.wait(30)
        return super().embed_query(text)


class Slow(BuiltInGenerator):
    """A generator that makes nothing before it is freed."""

    def __init__(self):
        self.begun, self.free = Event(), Event()

    def memories(self, chunk, background):
        self.begun.set()
        assert self.free.wait(30)
        return super().memories(chunk, background)


def test_what_is_said_in_one_conversation_is_recalled_in_another(tmp_path):
    with remembering(tmp_path) as memory:
        assert memory.keep(ONE, user(SAID), "I will remember.").result() == Storing("stored")
        recall = memory.recall(TWO, user(ASKED)).result()

    assert (recall.how, recall.unstored) == ("recalled", 0)
    assert recall.reminder.hits >= 1
    assert SAID in recall.reminder.text
    assert kept(tmp_path, ONE) == [("user", SAID), ("assistant", "I will remember.")]


def test_in_an_event_loop_it_is_awaited(tmp_path):
    async def talk(memory):
        stored = await asyncio.wrap_future(memory.keep(ONE, user(SAID), "Noted."))
        return stored, await asyncio.wrap_future(memory.recall(TWO, user(ASKED)))

    with remembering(tmp_path) as memory:
        stored, recall = asyncio.run(talk(memory))

    assert stored.how == "stored"
    assert SAID in recall.reminder.text


def test_where_nothing_is_kept_nothing_is_recalled_and_no_space_is_made(tmp_path):
    address = f"sqlite:{tmp_path / 'none.db'}"
    memory = ChatMemory(lambda *, create: space_parts.open_space(address, create=create).engine, PATIENT)
    recall = memory.recall(ONE, user(ASKED)).result()
    memory.close()

    assert (recall.how, recall.reminder.hits, recall.reminder.text) == ("recalled", 0, "")
    assert not (tmp_path / "none.db").exists()


def test_a_recall_that_takes_too_long_is_skipped(tmp_path):
    with remembering(tmp_path) as memory:
        memory.keep(ONE, user(SAID), "Noted.").result()
    with space_parts.open_space(f"sqlite:{tmp_path / 'space.db'}") as space:
        space.embed_pending()
    stuck = Stuck()
    with remembering(tmp_path, HURRIED, embedder=stuck) as memory:
        recalls = [memory.recall(TWO, user(f"{ASKED} {number}")).result() for number in range(6)]
        stuck.free.set()

    assert [(recall.how, recall.reason) for recall in recalls] == [("skipped", "timeout")] * 6


def test_a_cancelled_recall_leaves_the_others_alone(tmp_path):
    with remembering(tmp_path) as memory:
        memory.keep(ONE, user(SAID), "Noted.").result()
        recalls = [memory.recall(TWO, user(ASKED)) for _ in range(8)]
        for recall in recalls[:4]:
            recall.cancel()
        assert all(SAID in recall.result().reminder.text for recall in recalls[4:])


def test_while_another_user_writes_exchanges_are_told_to_be_late_and_stored_behind(tmp_path):
    with remembering(tmp_path, ChatBounds(wait_seconds=0.1, store_seconds=0.1)) as memory:
        memory.keep(ONE, user("first"), "Noted.").result()
        with written_by_somebody_else(tmp_path):
            told = [memory.keep(discussion_ref(f"d{at}"), user(f"remark {at}"), "Noted.").result() for at in range(3)]

    assert told == [Storing("late")] * 3
    for at in range(3):
        assert kept(tmp_path, discussion_ref(f"d{at}")) == [("user", f"remark {at}"), ("assistant", "Noted.")]


def test_once_the_store_moves_again_exchanges_are_waited_for_again(tmp_path):
    with remembering(tmp_path, ChatBounds(wait_seconds=30, store_seconds=1)) as memory:
        memory.keep(ONE, user("first"), "Noted.").result()
        with written_by_somebody_else(tmp_path):
            assert memory.keep(ONE, user("first", "Noted.", "second"), "Noted.").result().how == "late"
        memory.recall(ONE, user("second")).result()  # comes when what waited is stored
        told = (memory.keep(discussion_ref(f"d{at}"), user("hi"), "Noted.").result() for at in range(10))
        assert any(storing.how == "stored" for storing in told)


def test_exchange_is_stored_without_awaiting(tmp_path):
    with remembering(tmp_path) as memory, written_by_somebody_else(tmp_path):
        memory.keep(ONE, user(SAID), "Noted.").cancel()

    assert kept(tmp_path, ONE) == [("user", SAID), ("assistant", "Noted.")]


def test_who_asks_one_thing_after_the_other_is_reminded_of_it(tmp_path):
    with remembering(tmp_path) as memory:
        memory.keep(ONE, user(SAID), "Noted.")  # not waited for
        assert SAID in memory.recall(TWO, user(ASKED)).result().reminder.text


def test_unrelated_exchange_is_reported_as_new_conversation(tmp_path):
    with remembering(tmp_path) as memory:
        told = [
            memory.keep(ONE, user(*contents), "Noted.").result()
            for contents in (["One."], ["One.", "Noted.", "Two."], ["Other."])
        ]

    assert [storing.is_apart for storing in told] == [False, False, True]


def test_exchange_does_not_wait_for_memories(tmp_path):
    slow = Slow()
    contents = [f"Remark {number} is about number {number}." for number in range(19)]
    with remembering(tmp_path, generator=slow) as memory:
        memory.keep(ONE, user(*contents), "Noted.").result()
        assert slow.begun.wait(30)
        assert memory.keep(TWO, user("Something else."), "Noted.").result() == Storing("stored")
        assert memory.recall(TWO, user(ASKED)).result().how == "recalled"
        slow.free.set()


def test_what_is_over_the_bound_is_not_held_and_is_counted(tmp_path, monkeypatch):
    monkeypatch.setattr(chat_memory, "MAX_WAITING", 2)
    with remembering(tmp_path, HURRIED) as memory:
        memory.keep(ONE, user("first"), "Noted.").result()
        with written_by_somebody_else(tmp_path):
            told = [memory.keep(discussion_ref(f"d{at}"), user("hi"), "Noted.").result() for at in range(4)]
            unstored = memory.recall(TWO, user(ASKED)).result().unstored

    assert [storing.how for storing in told] == ["late", "late", "lost", "lost"]
    assert unstored == 2


def test_failing_memory_is_logged_and_chat_continues(tmp_path):
    (tmp_path / "space.policy.toml").write_text('direct_channels = ["system"]\n', encoding="utf-8")
    with remembering(tmp_path, policy=tmp_path / "space.policy.toml") as memory:
        storing = memory.keep(ONE, user(SAID), "Noted.").result()
        recall = memory.recall(ONE, user(ASKED)).result()

    assert storing == Storing("lost")
    assert (recall.how, recall.unstored) == ("recalled", 1)


def test_unopenable_space_is_reported_by_error_code(tmp_path):
    (tmp_path / "space.db").write_bytes(b"no database at all" * 100)
    address = f"sqlite:{tmp_path / 'space.db'}"
    memory = ChatMemory(lambda *, create: space_parts.open_space(address, create=create).engine, PATIENT)
    recall = memory.recall(ONE, user(ASKED)).result()
    memory.close()

    assert (recall.how, recall.reason in {"corrupt", "unavailable"}) == ("failed", True)


def test_close_stores_everything_and_ends_threads(tmp_path):
    before = {thread.name for thread in threading.enumerate()}
    with remembering(tmp_path) as memory:
        memory.warm()
        for at in range(10):
            memory.keep(discussion_ref(f"d{at}"), user(f"remark {at}"), "Noted.")

    assert {thread.name for thread in threading.enumerate()} <= before
    assert all(kept(tmp_path, discussion_ref(f"d{at}")) for at in range(10))


def test_asked_when_it_is_closed_it_recalls_nothing(tmp_path):
    with remembering(tmp_path) as memory:
        pass
    assert memory.recall(ONE, user(ASKED)).result().how == "skipped"


@pytest.mark.parametrize("bounds", [{"tokens": 0}, {"wait_seconds": 0}, {"store_seconds": float("inf")}])
def test_bounds_that_make_no_sense_are_refused(bounds):
    with pytest.raises(InvalidInput):
        ChatBounds(**bounds)


def test_timers_call_in_the_order_of_their_times():
    called, done = [], Event()
    timers = Timers()
    timers.after(0.04, done.set)
    timers.after(0.02, lambda: called.append("later"))
    timers.after(0, lambda: called.append("now"))
    assert done.wait(30)
    timers.stop()
    assert called == ["now", "later"]


def test_alarms_that_are_stopped_make_the_calls_that_wait():
    called = []
    timers = Timers()
    timers.after(1_000, lambda: called.append("waited"))
    timers.stop()
    timers.after(1_000, lambda: called.append("came after"))
    assert called == ["waited", "came after"]
