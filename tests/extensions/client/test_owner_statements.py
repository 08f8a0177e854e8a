"""Marks of replaced memories depend on the memories of an owner alone."""

import random
from datetime import UTC, datetime, timedelta

import client_parts
import pytest

from treering.extensions.client.items import owner_memories
from treering.extensions.client.items.owner_statements import (
    ComparedMemory,
    OwnerStatements,
    stated_in,
    topics_of,
)

BEGIN = datetime(2026, 1, 1, tzinfo=UTC)
SUBJECTS = ("My rent", "The weekly sync", "Our cat Minka", "The staging server")
CHANGES = (
    "is {n} euros",
    "is in room {n}",
    "moved to room {n}",
    "is now {n} euros",
    "weighs {n} kg",
    "no longer exists",
)


SHARE_OF_MODELS = 0.3


class Memories:
    """Memories that are compared, by id. `refs` are added in any order."""

    def __init__(self, count, seed):
        chosen = random.Random(seed)
        self.stated, self.compared = {}, {}
        for number in range(count):
            text = f"{chosen.choice(SUBJECTS)} {chosen.choice(CHANGES).format(n=chosen.randint(1, 9))}."
            at = BEGIN + timedelta(hours=chosen.randint(0, count))
            identity = f"src:{number:03}"
            self.stated[identity] = stated_in("ada", text, at)
            topics = tuple(map(topics_of, self.stated[identity]))
            by_model = chosen.random() < SHARE_OF_MODELS
            self.compared[identity] = ComparedMemory(at, topics, ((),) * len(topics), by_model)

    def read(self, ids):
        return {one: self.stated[one] for one in ids}

    def all_at_once(self, ids):
        statements = OwnerStatements(self.read)
        statements.update({one: self.compared[one] for one in ids})
        return statements


def marks(statements, ids):
    return {one: new for one in ids if (new := statements.replacement(one))}


REPLIES = ("Your manager is now Priya Nair.", "I will use Postgres then.", "The staging server is now in room 2.")
STATED = ("My manager is Tom Hale.", "I will use MySQL.", "The staging server is in room 1.")


@pytest.mark.parametrize("role", ["assistant", "ai", "Model", "tool"])
def test_reply_of_a_model_replaces_no_statement_of_the_user(config, role):
    with opened(config) as client:
        for stated, reply in zip(STATED, REPLIES, strict=True):
            client.store(stated, {"role": "user"})
            client.store(reply, {"role": role})
        assert replaced(client) == set()


def test_user_corrects_a_reply_of_a_model(config):
    with opened(config) as client:
        client.store(REPLIES[2], {"role": "assistant"})
        client.store("No, the staging server is now in room 3.", {"role": "user"})
        assert replaced(client) == {REPLIES[2]}


def test_user_repeating_a_reply_replaces_the_earlier_statement_of_the_user(config):
    with opened(config) as client:
        client.store(STATED[2], {"role": "user"})
        client.store(REPLIES[2], {"role": "assistant"})
        client.store(REPLIES[2].replace("now", "now really"), {"role": "user"})
        assert STATED[2] in replaced(client)


def test_later_reply_replaces_no_statement_that_an_earlier_reply_repeats(config):
    with opened(config) as client:
        client.store("The staging server is in room 1 on the left.", {"role": "assistant"})
        client.store(STATED[2], {"role": "user"})
        client.store(REPLIES[2], {"role": "assistant"})
        assert STATED[2] not in replaced(client)


def test_roles_are_the_same_with_saved_results(config):
    with opened(config) as client:
        client.store(STATED[0], {"role": "user"})
        client.store(REPLIES[0], {"role": "assistant"})
        assert replaced(client) == set()
    with opened(config) as client:
        client.store("My manager is now Ada Byron.", {"role": "assistant"})
        assert STATED[0] not in replaced(client)


@pytest.mark.parametrize("seed", range(4))
def test_result_depends_on_no_order_of_additions_and_removals(seed):
    memories = Memories(60, seed)
    ids, left = list(memories.compared), set()
    chosen = random.Random(seed)
    statements = OwnerStatements(memories.read)
    for _ in range(80):
        one = chosen.choice(ids)
        if one in left:
            statements.update({}, [one])
        else:
            statements.update({one: memories.compared[one]})
        left ^= {one}
    expected = memories.all_at_once(left)
    assert dict(statements.compared()) == dict(expected.compared())
    assert marks(statements, left) == marks(expected, left) != {}


def test_restored_results_are_equal():
    memories = Memories(40, 1)
    statements = memories.all_at_once(memories.compared)
    restored = OwnerStatements(memories.read)
    restored.restore(dict(statements.compared()))
    assert restored.comparisons == 0
    assert marks(restored, memories.compared) == marks(statements, memories.compared)


def test_added_memory_is_compared_once():
    memories = Memories(300, 2)
    *before, last = sorted(memories.compared, key=lambda one: (memories.compared[one].at, one))
    statements = memories.all_at_once(before)
    done = statements.comparisons
    statements.update({last: memories.compared[last]})
    assert statements.comparisons - done == len(memories.stated[last])


@pytest.fixture
def config(tmp_path, monkeypatch):
    monkeypatch.setenv("TREERING_DATA_DIR", str(tmp_path / "data"))
    monkeypatch.setattr(owner_memories, "SAVED_FROM", 1)
    return client_parts.config(backend="sqlite", sqlite={"path": str(tmp_path / "memory.db")})


def opened(config, user="ada"):
    return client_parts.blocking(config, user_id=user, channel="user")


def replaced(client, query="", **options):
    return {one.content for one in client.retrieve(query, 50, **options) if one.replaced_by}


OLD, NEW = "My manager is Tom Hale.", "My manager is now Priya Nair."


def test_mark_is_the_same_whatever_a_search_returns(config):
    with opened(config) as client:
        client.store(OLD)
        for number in range(60):
            client.store(f"Recipe {number} needs {number} eggs")
        client.store(NEW)
        for query in ("Tom Hale", "who is my manager", "manager recipe eggs"):
            (memory,) = [one for one in client.retrieve(query, 200) if one.content == OLD]
            assert memory.replaced_by


def test_next_process_compares_only_new_memories(config, monkeypatch):
    with opened(config) as client:
        for text in (OLD, NEW):
            client.store(text)
        assert replaced(client) == {OLD}
    compared = []
    original = OwnerStatements._compared
    monkeypatch.setattr(OwnerStatements, "_compared", lambda self, ref: compared.append(ref) or original(self, ref))
    with opened(config) as client:
        assert replaced(client) == {OLD}
        assert compared == []
        client.store("The choir sings on Monday")
        assert replaced(client) == {OLD}
        assert len(compared) == 1


def test_mark_ends_with_the_memory_that_replaced(config):
    with opened(config) as client, opened(config) as other:
        client.store(OLD)
        new = client.store(NEW)
        for one in (client, other):
            assert replaced(one) == {OLD}
        other.delete(new, erase=True)
        for one in (client, other):
            assert replaced(one) == set()
    with opened(config) as client:
        assert replaced(client) == set()


def test_unmerged_context_replaces_memories_only_in_itself(config):
    with opened(config) as client:
        client.store(OLD, {"session_id": "run"})
        client.store("The weekly sync is in room Birch", key="room")
        context = client.create_nested_context("run", "loop")
        client.store(NEW, {"session_id": context.session_id})
        client.store("The weekly sync is in room Larch", {"session_id": context.session_id}, key="room")
        in_both = {OLD, "The weekly sync is in room Birch"}
        assert replaced(client, session_id=context.session_id) == in_both
        assert replaced(client, session_id="run") == set()
        assert replaced(client) == set()
        client.merge_nested_context(context)
        assert replaced(client, session_id="run") == in_both
    with opened(config) as client:
        assert replaced(client) == in_both


def test_memories_of_another_user_replace_nothing(config):
    with opened(config, "ada") as ada, opened(config, "ben") as ben:
        ada.store(OLD)
        ben.store(NEW)
        assert replaced(ada) == replaced(ada, scope="space") == set()


def test_memories_that_are_not_compared_yet_are_reported(config, monkeypatch):
    monkeypatch.setattr(owner_memories, "MAX_NEW", 2)
    with opened(config) as client:
        for text in (OLD, "The choir sings on Monday", NEW):
            client.store(text)
        first, second = client.retrieve("my manager"), client.retrieve("my manager")
    assert any("not compared yet" in one for one in first.trace["warnings"])
    assert not any("not compared yet" in one for one in second.trace["warnings"])
    assert [bool(one.replaced_by) for one in second] == [False, True]
