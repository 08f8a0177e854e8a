import asyncio

import client_parts
import pytest

from treering.client import MemoryDependencies, memory_tools
from treering.core.errors import InvalidInput, NotFound


@pytest.fixture
def client():
    with client_parts.blocking(client_parts.config(), user_id="ada") as opened:
        yield opened


def found(client, query, **options):
    return [(one.content, bool(one.replaced_by)) for one in client.retrieve(query, **options)]


def test_memory_replaces_the_last_one_under_its_key(client):
    for number in ("0171 333", "0171 444", "0171 555"):
        last = client.store(f"Ada can be called at {number}", key="phone", metadata={"session_id": number})
    memories = client.retrieve("Ada can be called at")
    assert memories[0].content.endswith("555")
    assert {one.replaced_by for one in memories[1:]} == {last}


def test_key_belongs_to_one_user():
    with client_parts.blocking() as client:
        for user in ("ada", "ben"):
            client.store(f"{user} can be called at 0171 333", key="phone", metadata={"user_id": user})
        assert not any(replaced for _, replaced in found(client, "can be called at"))


def test_client_of_a_user_replaces_nothing_of_another_by_a_key(client):
    with pytest.raises(InvalidInput, match="replaces no memories of other users"):
        client.store("Ben can be called at 0171 444", key="phone", metadata={"user_id": "ben"})


def test_replacement_is_first_even_if_its_text_does_not_answer(client):
    old = client.store("The project budget is 5000 euros")
    client.store("Ten thousand at most", replaces=old)
    assert found(client, "project budget") == [
        ("Ten thousand at most", False),
        ("The project budget is 5000 euros", True),
    ]
    assert found(client, "what was the project budget before")[0] == ("The project budget is 5000 euros", True)


def test_withdrawn_replacement_replaces_nothing(client):
    old = client.store("The project budget is 5000 euros")
    client.delete(client.store("Ten thousand at most", replaces=old))
    assert found(client, "project budget") == [("The project budget is 5000 euros", False)]


def test_changed_fact_is_read_from_the_texts(client):
    client.store("The rent of my flat is 940 euros", {"timestamp": "2026-01-01T10:00:00Z"})
    client.store("From March on the rent of my flat is 1010 euros", {"timestamp": "2026-02-01T10:00:00Z"})
    assert [replaced for _, replaced in found(client, "the rent of my flat in euros")] == [False, True]


def test_unknown_replaced_memory_and_empty_key_are_refused(client):
    with pytest.raises(NotFound, match="there is no memory 'src:none'"):
        client.store("something", replaces="src:none")
    with pytest.raises(InvalidInput, match="key: an empty text"):
        client.store("something", key=" ")
    assert client.retrieve("something") == []


def test_memories_hidden_by_age_are_counted():
    limited = client_parts.config(retrieval={"max_age_seconds": 60})
    with client_parts.blocking(limited) as client:
        client.store("The old cellar key hangs behind the door", {"timestamp": "2020-01-01T00:00:00Z"})
        answer = client.retrieve("cellar key")
    assert (list(answer), answer.trace["hidden_by_max_age_seconds"]) == ([], 1)
    assert "max_age_seconds hides 1 older memories" in answer.trace["warnings"][-1]


def test_memories_hidden_by_session_ttl_are_counted():
    limited = client_parts.config(session_ttl=1e-6)
    with client_parts.blocking(limited) as client:
        client.store("The old cellar key hangs behind the door")
        client.flush()
        answer = client.retrieve("cellar key")
    assert (list(answer), answer.trace["hidden_by_session_ttl"]) == ([], 1)
    assert answer.trace["warnings"][-1].startswith("session_ttl hides 1 older memories")


def test_given_threshold_leaves_nothing_out_above_it():
    everything = client_parts.config(retrieval={"min_similarity": 0.0})
    with client_parts.blocking(everything) as client:
        client.store("The old cellar key hangs behind the door")
        assert len(client.retrieve("where are the mangoes")) == 1


@pytest.mark.parametrize(
    ("old", "new", "query"),
    [
        ("I live in Oslo, Storgata 12.", "I moved to Bergen last week.", "in which city do I live"),
        (
            "My car is a white Renault Clio, parked in the garage.",
            "I sold the Clio and bought an electric bike.",
            "my white car",
        ),
    ],
)
def test_change_that_does_not_answer_the_query_leads(client, old, new, query):
    client.store(old, {"timestamp": "2026-03-02T10:00:00Z"})
    client.store(new, {"timestamp": "2026-04-04T10:00:00Z"})
    assert found(client, query) == [(new, False), (old, True)]


def test_replaced_memory_has_a_mark_with_the_day(client):
    client.store("The weekly sync is in room Birch", key="room", metadata={"timestamp": "2026-03-02T10:00:00Z"})
    new = client.store("The weekly sync is in room Larch", key="room", metadata={"timestamp": "2026-04-04T10:00:00Z"})
    mark = f"superseded by {new} (2026-04-04)"
    for memories in (client.retrieve("room of the weekly sync"), client.retrieve("")):
        assert [memory.mark for memory in memories] == ["", mark]
        assert memories[1].replacement == {"replaced_by": new, "replaced_at": "2026-04-04T10:00:00.000000Z"}
    lines = client.brief().splitlines()[1:-1]
    assert lines == [
        "2026-04-04  The weekly sync is in room Larch",
        f"2026-03-02  The weekly sync is in room Birch [{mark}]",
    ]


def test_tool_shows_a_model_which_memory_was_replaced():
    async def work():
        async with client_parts.asynchronous() as client:
            retrieve, _ = memory_tools(MemoryDependencies(memory_client=client))
            old = await client.store("The weekly sync is in room Birch")
            new = await client.store("The weekly sync is in room Larch", replaces=old)
            return new, await retrieve("room of the weekly sync")

    new, (current, replaced) = asyncio.run(work())
    assert (replaced["replaced_by"], "replaced_by" in current) == (new, False)


@pytest.mark.parametrize("flushed_first", [0, 1])
def test_later_memory_under_a_key_is_current_in_whatever_order_clients_write(tmp_path, flushed_first):
    config = client_parts.config(backend="sqlite", sqlite={"path": str(tmp_path / "memory.db")})
    with client_parts.blocking(config) as first, client_parts.blocking(config) as second:
        first.store("My parking spot is A3.", key="parking")
        second.store("My parking spot is B12.", key="parking")
        for client in (first, second) if flushed_first == 0 else (second, first):
            client.flush()
        assert found(first, "parking spot") == [("My parking spot is B12.", False), ("My parking spot is A3.", True)]
        second.store("My parking spot is D9.", key="parking")
        assert found(second, "parking spot")[0] == ("My parking spot is D9.", False)


def test_memories_under_a_key_are_ordered_by_their_time(client):
    for day, spot in ((3, "C7"), (1, "A3"), (2, "B12"), (5, "E1"), (4, "D9")):
        client.store(f"My parking spot is {spot}.", {"timestamp": f"2026-03-0{day}T10:00:00Z"}, key="parking")
        client.flush()
    current = [text for text, replaced in found(client, "parking spot") if not replaced]
    assert current == ["My parking spot is E1."]


def test_link_outweighs_texts_that_state_the_reverse(client):
    raised, rent = "From March on the rent of my flat is 1010 euros", "The rent of my flat is 940 euros"
    wrong = client.store(raised, {"timestamp": "2026-02-01T10:00:00Z"})
    client.store(rent, {"timestamp": "2026-01-01T10:00:00Z"}, replaces=wrong)
    assert found(client, "the rent of my flat in euros") == [(rent, False), (raised, True)]


@pytest.mark.parametrize("user_id", [None, "ada"])
def test_change_stored_by_a_model_replaces_what_the_program_stored(user_id):
    async def work():
        async with client_parts.asynchronous(user_id=user_id) as client:
            await client.store("My budget for a new laptop is 1,500 euros.")
            _, store = memory_tools(MemoryDependencies(memory_client=client))
            await store("My laptop budget went up to 2,000 euros.")
            return [(one.content[:9], bool(one.replaced_by)) for one in await client.retrieve("laptop budget")]

    assert asyncio.run(work()) == [("My laptop", False), ("My budget", True)]


def test_brief_marks_a_replaced_memory_among_many():
    old = "My Spanish class is on Wednesday evening"
    with client_parts.blocking(user_id="eva") as client:
        client.store(old)
        for number in range(45):
            client.store(f"Recipe {number} needs {number} eggs")
        new = client.store("My Spanish class moved to Monday evening")
        lines = client.brief(scope="user", max_tokens=2_000).splitlines()
    assert f"[superseded by {new} " in next(line for line in lines if old in line)


@pytest.mark.parametrize("named", ["key", "replaces"])
def test_memory_replaced_many_times_leads_to_the_current_one(client, named):
    last = client.store("The weekly sync is in room 0", **({"key": "room"} if named == "key" else {}))
    for number in range(1, 45):
        given = {"key": "room"} if named == "key" else {"replaces": last}
        last = client.store(f"The weekly sync is in room {number}", **given)
    first, *rest = client.retrieve("weekly sync in room 0", top_k=10)
    assert first.id == last
    assert {one.replaced_by for one in rest} == {last}


@pytest.mark.parametrize("seconds", [0, 0.5, 300, 86_400])
@pytest.mark.parametrize("between", [0, 24])
def test_change_is_found_however_soon_it_was_stored(client, seconds, between):
    old, new = "My manager is Tom Hale.", "My manager is now Priya Nair."
    client.store(old, {"timestamp": 1_767_225_600})
    for number in range(between):
        client.store(f"Recipe {number} needs {number} eggs", {"timestamp": 1_767_225_600})
    client.store(new, {"timestamp": 1_767_225_600 + seconds})
    assert found(client, "Who is my manager?")[:2] == [(new, False), (old, True)]
    assert found(client, "Tom Hale")[:2] == [(new, False), (old, True)]
