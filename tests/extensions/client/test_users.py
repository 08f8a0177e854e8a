"""Memories of several users in one space."""

import asyncio
from types import SimpleNamespace

import client_parts
import pytest

from treering.client import MemoryDependencies, memory_tools
from treering.core.errors import Denied, InvalidInput, NotFound
from treering.extensions.client.hooks.memory_access import memory_access
from treering.extensions.client.items import recalling
from treering.extensions.client.items.recalling import Who
from treering.extensions.client.record_names import RecordCollection, RecordDraft

SALARY = "My salary is 91,000 euros"


@pytest.fixture
def users(tmp_path):
    """Yield the clients of two users of one file; Oskar stored his salary."""
    config = client_parts.config(backend="sqlite", sqlite={"path": str(tmp_path / "memory.db")})
    with (
        client_parts.blocking(config, user_id="mira") as mira,
        client_parts.blocking(config, user_id="oskar", channel="user") as oskar,
    ):
        salary = oskar.store(SALARY)
        oskar.store(SALARY, {"session_id": "s1"})
        oskar.flush()
        yield SimpleNamespace(mira=mira, oskar=oskar, salary=salary, config=config)


@pytest.mark.parametrize("scope", ["lineage", "session", "user"])
@pytest.mark.parametrize("session_id", [None, "s1"])
@pytest.mark.parametrize("query", ["my salary", ""])
def test_client_of_a_user_returns_no_memory_of_another(users, scope, session_id, query):
    assert users.mira.retrieve(query, session_id=session_id, scope=scope) == []
    assert users.mira.brief(session_id, scope) == ""
    assert users.oskar.retrieve(query, session_id=session_id, scope=scope)


def test_whole_space_has_the_memories_of_all_users(users):
    assert client_parts.texts(users.mira.retrieve("my salary", scope="space")) == [SALARY, SALARY]


def test_memories_without_a_user_are_shared(users):
    with client_parts.blocking(users.config) as shared:
        shared.store("The office closes at six")
        assert SALARY in client_parts.texts(shared.retrieve("my salary"))
    assert client_parts.texts(users.mira.retrieve("when does the office close")) == ["The office closes at six"]


def test_filter_does_not_widen_the_memories_of_a_user(users):
    assert users.mira.retrieve("my salary", filters={"user_id": "oskar"}) == []


def test_memory_of_several_users_is_visible_to_each(users):
    users.oskar.store("The rent is 900 euros", {"user_id": ["mira", "oskar"]})
    users.oskar.store("The bonus is 900 euros", {"user_id": ["oskar", "lena"]})
    users.oskar.flush()
    assert client_parts.texts(users.mira.retrieve("")) == ["The rent is 900 euros"]


def test_memory_of_another_user_is_unknown_by_its_id(users):
    plan = users.mira.store("A plan", {"references": [users.salary]})
    users.mira.flush()
    assert users.mira.get_related_memories(plan) == []
    for use in (
        lambda: users.mira.get_related_memories(users.salary),
        lambda: users.mira.delete(users.salary),
        lambda: users.mira.store("My salary is 1 euro", replaces=users.salary),
    ):
        with pytest.raises(NotFound, match="there is no memory"):
            use()
    assert not any(memory.replaced_by for memory in users.oskar.retrieve("my salary"))
    assert users.oskar.delete(users.salary, erase=True)


def test_records_of_a_user_are_not_retrieved_by_another(users):
    draft = RecordDraft(RecordCollection(("notes",)).name("one"), text="My shoe size is 43")
    users.oskar.records.keep([draft], reason="Test")
    assert users.mira.retrieve("my shoe size") == []
    assert client_parts.texts(users.oskar.retrieve("my shoe size")) == ["My shoe size is 43"]


def test_model_chooses_neither_user_nor_session():
    async def work():
        async with client_parts.asynchronous(user_id="mira") as client:
            _, store = memory_tools(MemoryDependencies(memory_client=client))
            await store("Pay the invoice", {"user_id": "oskar", "session_id": "s1", "topic": "money"})
            return (await client.retrieve("invoice", scope="space"))[0].metadata

    metadata = asyncio.run(work())
    assert (metadata["user_id"], metadata["topic"], "session_id" in metadata) == ("mira", "money", False)


def test_state_resumed_without_its_client_gets_no_other_users_client():
    async def work():
        config = client_parts.config()
        async with (
            client_parts.asynchronous(config, user_id="mira") as mira,
            client_parts.asynchronous(config, user_id="oskar"),
        ):
            state = {"memory_config": config}
            return memory_access(state), memory_access({"memory_config": config, "memory_client": mira}).client is mira

    assert asyncio.run(work()) == (None, True)


def test_all_memories_of_a_user_are_erased_at_once(users):
    users.mira.store("My shoe size is 38")
    users.mira.flush()
    archived = users.oskar.store("My shoe size is 43")
    users.oskar.delete(archived)
    for hidden in (False, True):
        name = RecordCollection(("notes",), hidden=hidden).name("one")
        users.oskar.records.keep([RecordDraft(name, text="A note")], reason="Test")
    assert users.oskar.erase_user() == 5
    assert users.oskar.erase_user() == 0
    assert client_parts.texts(users.oskar.retrieve("", scope="space")) == ["My shoe size is 38"]
    with pytest.raises(NotFound):
        users.oskar.delete(archived)


def test_only_a_client_of_a_user_that_may_erase_erases_the_user(users):
    users.mira.store("My shoe size is 38")
    with pytest.raises(Denied) as refused:
        users.mira.erase_user()
    assert 'channel="user"' in refused.value.hint
    with client_parts.blocking() as client, pytest.raises(InvalidInput, match="no user to erase"):
        client.erase_user()
    assert client_parts.texts(users.mira.retrieve("")) == ["My shoe size is 38"]


def test_many_newer_memories_of_others_do_not_hide_the_memories_of_a_user(users, monkeypatch):
    monkeypatch.setattr(recalling, "_MOST_UNRELATED", 3)
    users.mira.store("My shoe size is 38")
    users.mira.flush()
    for number in range(6):
        users.oskar.store(f"Note {number}")
    users.oskar.flush()
    assert client_parts.texts(users.mira.retrieve("")) == ["My shoe size is 38"]
    assert "My shoe size is 38" in users.mira.brief()


def test_memory_of_another_user_gets_no_link_from_metadata(users):
    users.mira.store("My salary is 1 euro", {"replaces": users.salary})
    users.mira.flush()
    assert not any(memory.replaced_by for memory in users.oskar.retrieve("my salary"))
    assert users.oskar.get_related_memories(users.salary) == []


@pytest.mark.parametrize("change", ["merge_nested_context", "discard_nested_context"])
def test_nested_context_of_a_user_has_no_memory_of_another(users, change):
    context = users.mira.create_nested_context("run-1", "loop-1")
    for client in (users.mira, users.oskar):
        client.store(f"Kinase finding of {client.user_id}", {"session_id": context.session_id})
    assert getattr(users.oskar, change)(context) == 1
    (own,) = users.mira.retrieve("kinase finding", session_id=context.session_id, scope="session")
    assert own.content == "Kinase finding of mira"


@pytest.mark.parametrize("owner", [None, "mira", "oskar", [], ["mira", "lena"], ["lena"]])
def test_filter_and_rule_of_visible_memories_agree(users, owner):
    with client_parts.blocking(users.config) as client:
        memory_id = client.store("Kinase finding", {"user_id": owner})
        metadata = client.retrieve("kinase finding")[0].metadata
    is_found = memory_id in [one.id for one in users.mira.retrieve("")]
    assert Who(user_id="mira").owns(metadata) == is_found == (owner in (None, "mira", ["mira", "lena"]))


def test_rejected_memories_of_another_user_are_not_shown(users):
    writer = users.oskar._memory.writer
    writer._journal.set_aside({"id": "src:1", "content": SALARY, "metadata": {"user_id": "oskar"}}, "rejected")
    assert [one.content for one in users.oskar.set_aside()] == [SALARY]
    assert users.mira.set_aside() == []
    with pytest.raises(NotFound):
        users.mira.delete("src:1")
    assert users.oskar.delete("src:1")


def test_memory_of_all_users_is_withdrawn_by_each_of_them(users):
    with client_parts.blocking(users.config) as shared:
        shared_id = shared.store("The office closes at six")
    assert users.mira.delete(shared_id)
    assert users.oskar.retrieve("when does the office close") == []


def test_unwritten_memories_of_other_clients_are_erased_with_their_user(users):
    with client_parts.blocking(users.config, user_id="oskar") as other:
        other.store("My rent is 900 euros")
        assert users.oskar.erase_user() == 3
        other.flush()
        other.store("My shoe size is 43")
        assert client_parts.texts(other.retrieve("")) == ["My shoe size is 43"]
    assert client_parts.texts(users.oskar.retrieve("", scope="space")) == ["My shoe size is 43"]


def test_memory_is_seen_by_other_clients_at_once(users):
    with client_parts.blocking(users.config, user_id="oskar") as other:
        for text in ("My rent is 900 euros", "My shoe size is 43"):
            stored = users.oskar.store(text)
            assert text in client_parts.texts(other.retrieve("", scope="user"))
            assert text in other.brief(scope="user")
        assert other.delete(stored)
        users.oskar.flush()
    assert "My shoe size is 43" not in client_parts.texts(users.oskar.retrieve(""))


def test_all_memories_of_a_user_can_be_listed_in_pages(users):
    first = users.oskar.retrieve("", scope="user", top_k=1)
    older = users.oskar.retrieve("", scope="user", filters={"timestamp": {"lt": first[0].timestamp}})
    assert {one.id for one in [*first, *older]} == {one.id for one in users.oskar.retrieve("", scope="user")}
    assert len(older) == 1


@pytest.mark.parametrize(("options", "named"), [({"user_id": ""}, "user_id"), ({"channel": "boss"}, "'boss'")])
def test_invalid_user_or_channel_is_refused_at_once(options, named):
    with pytest.raises(InvalidInput, match=named):
        client_parts.blocking(**options)


@pytest.mark.parametrize("user_id", ["", 5, True, ["ada"]])
def test_user_id_must_be_text(user_id):
    with pytest.raises(InvalidInput, match="user_id"):
        client_parts.blocking(client_parts.config(), user_id=user_id)
