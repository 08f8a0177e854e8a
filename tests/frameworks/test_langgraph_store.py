"""The LangGraph store: equal to LangGraph's own store in memory, with semantic search and times to live."""

from dataclasses import replace
from datetime import date, timedelta

import pytest
from framework_parts import blocking
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from langgraph.graph import START, StateGraph
from langgraph.runtime import Runtime
from langgraph.store.base import GetOp, Item, ListNamespacesOp, MatchCondition, PutOp, SearchOp
from langgraph.store.memory import InMemoryStore
from typing_extensions import TypedDict

from treering import Denied, InvalidInput
from treering.extensions.client.records import Records
from treering.langgraph import TreeringStore
from treering.testing import SteppingClock

LABELS = st.sampled_from(["a", "b", "c d", "e/f", "%2F", "ü", ""])
NAMESPACES = st.lists(LABELS, min_size=0, max_size=3).map(tuple)
KEYS = st.sampled_from(["1", "2", "a", "a/b", ""])
PARTS = st.one_of(st.integers(0, 3), st.sampled_from(["x", "y"]), st.booleans(), st.none())
VALUES = st.fixed_dictionaries(
    {"n": st.integers(0, 5), "s": st.sampled_from(["x", "y"])},
    optional={"d": st.dictionaries(st.sampled_from(["k", "l"]), PARTS), "l": st.lists(PARTS, max_size=2)},
)
FILTERS = st.sampled_from(
    [
        None,
        {"n": 3},
        {"s": "x"},
        {"n": {"$gte": 2, "$lt": 5}},
        {"n": {"$gt": 1, "$lte": 4}, "s": {"$ne": "x"}},
        {"s": {"$eq": "y"}},
        {"d": {"k": 1}},
        {"l": [1]},
        {"missing": None},
    ]
)
RULES = st.builds(
    MatchCondition,
    st.sampled_from(["prefix", "suffix"]),
    st.lists(st.sampled_from(["a", "b", "e/f", "*"]), min_size=1, max_size=2).map(tuple),
)
OPERATIONS = st.one_of(
    st.builds(lambda *given: GetOp(*given), NAMESPACES, KEYS),
    st.builds(lambda *given: PutOp(*given), NAMESPACES, KEYS, st.one_of(VALUES, VALUES, st.none())),
    st.builds(lambda *given: SearchOp(*given), NAMESPACES, FILTERS, st.just(1000)),
)
LISTINGS = st.builds(
    ListNamespacesOp,
    st.one_of(st.none(), st.lists(RULES, max_size=2).map(tuple)),
    st.sampled_from([None, 1, 2]),
    st.sampled_from([1, 100]),
    st.sampled_from([0, 1]),
)
BATCHES = st.lists(st.one_of(st.lists(OPERATIONS, min_size=1, max_size=5), LISTINGS.map(lambda one: [one])), max_size=8)


@pytest.fixture(scope="module")
def client():
    with blocking() as opened:
        yield opened


@pytest.fixture
def store(client, request):
    return TreeringStore(client, name=request.node.name)


_NUMBER = iter(range(1_000_000))


@given(BATCHES)
@settings(max_examples=60, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
def test_any_operations_give_what_the_store_in_memory_gives(client, batches):
    ours, theirs = TreeringStore(client, name=f"random-{next(_NUMBER)}"), InMemoryStore()
    for operations in batches:
        forget_empty_namespaces(theirs)
        assert [plain(one) for one in ours.batch(operations)] == [plain(one) for one in theirs.batch(operations)]


def forget_empty_namespaces(store):
    """Take out what its own store lists besides: namespaces that were emptied, or only asked for."""
    for namespace in [name for name, items in store._data.items() if not items]:
        del store._data[namespace]


def plain(result):
    if isinstance(result, Item):
        return result.namespace, result.key, result.value
    return sorted(map(plain, result), key=repr) if isinstance(result, list) else result


def test_reads_of_a_batch_see_what_was_before_it_and_the_last_put_of_a_key_counts(store):
    store.put(("u",), "k", {"n": 1})
    get = GetOp(("u",), "k")
    before, *_ = store.batch([get, PutOp(("u",), "k", {"n": 2}), PutOp(("u",), "k", {"n": 3})])
    assert before.value == {"n": 1}
    assert store.get(("u",), "k").value == {"n": 3}


def test_a_query_finds_items_by_what_their_values_say_best_first(store):
    store.put(("users", "1"), "tea", {"text": "likes green tea in the morning", "kind": "taste"})
    store.put(("users", "1"), "dog", {"text": "has a dog called Rex", "kind": "pet"})
    store.put(("users", "2"), "tea", {"text": "likes black tea", "kind": "taste"})
    found = store.search(("users", "1"), query="green tea")
    assert [item.namespace for item in found] == [("users", "1")] * len(found)
    assert found[0].key == "tea"
    assert [item.score for item in found] == sorted((item.score for item in found), reverse=True)
    assert [item.key for item in store.search(("users",), query="tea", filter={"kind": "pet"})] in ([], ["dog"])
    assert {item.namespace for item in store.search(("users",), query="likes tea", filter={"kind": "taste"})} == {
        ("users", "1"),
        ("users", "2"),
    }


def test_comparing_filter_skips_items_without_the_field(store):
    store.put(("n",), "number", {"n": 3, "due": "2026-01-02"})
    store.put(("n",), "text", {"n": "20", "due": "2026-03-01"})
    store.put(("n",), "neither", {"due": None})
    for filters, keys in (
        ({"n": {"$gt": 1}}, ["text", "number"]),
        ({"n": {"$lt": 10}}, ["number"]),
        ({"due": {"$gte": "2026-02-01"}}, ["text"]),
        ({"due": {"$lte": 5}}, []),
    ):
        assert sorted(item.key for item in store.search(("n",), filter=filters)) == sorted(keys)


def test_only_the_fields_that_are_named_are_searched(client):
    store = TreeringStore(client, name="fields", fields=["text"])
    store.put(("n",), "shown", {"text": "zebra stripes", "other": "walrus"})
    store.put(("n",), "by put", {"text": "walrus", "other": "giraffe neck"}, index=["other"])
    store.put(("n",), "never", {"text": "zebra crossing"}, index=False)
    assert [item.key for item in store.search(("n",), query="zebra")][:1] == ["shown"]
    assert "never" not in [item.key for item in store.search(("n",), query="zebra crossing")]
    assert store.search(("n",), query="giraffe neck")[0].key == "by put"


def test_what_a_graph_puts_is_a_memory_that_the_client_retrieves(client, store):
    class State(TypedDict):
        text: str

    def keep(state: State, runtime: Runtime) -> State:
        runtime.store.put(("notes",), "first", {"text": state["text"]})
        return state

    graph = StateGraph(State).add_node("keep", keep).add_edge(START, "keep").compile(store=store)
    graph.invoke({"text": "the quokka lives on Rottnest Island"})
    [found, *_] = client.retrieve("quokka Rottnest Island")
    assert found.content == "the quokka lives on Rottnest Island"


def test_an_item_whose_time_is_over_is_neither_read_nor_listed_and_sweeping_removes_it(store):
    store.put(("t",), "over", {"text": "old news"}, ttl=1e-9)
    store.put(("t", "deeper"), "stays", {"text": "new news"}, ttl=60)
    assert store.get(("t",), "over") is None
    assert [item.key for item in store.search(("t",))] == ["stays"]
    assert [item.key for item in store.search(("t",), query="news")] == ["stays"]
    assert store.list_namespaces(prefix=("t",)) == [("t", "deeper")]
    assert store.sweep_ttl() == 1
    assert store.sweep_ttl() == 0


def test_reading_begins_the_time_of_an_item_again_unless_it_is_told_not_to(store):
    store.put(("t",), "k", {"n": 1}, ttl=60)
    kept = only_record(store)
    _, now = kept.value, kept.updated_at
    later = now + timedelta(minutes=30)
    store_at(store, later).get(("t",), "k", refresh_ttl=False)
    assert only_record(store).value == kept.value
    store_at(store, later).get(("t",), "k")
    assert only_record(store).value["expires"] > kept.value["expires"]
    again = only_record(store)
    store_at(store, later + timedelta(seconds=1)).get(("t",), "k")
    assert only_record(store).revision == again.revision, "a second is not worth a write"


def test_times_to_live_have_the_defaults_that_the_store_was_given(client):
    store = TreeringStore(client, name="defaults", ttl={"default_ttl": 60, "refresh_on_read": False})
    store.put(("t",), "k", {"n": 1})
    store.put(("t",), "always", {"n": 1}, ttl=None)
    by_key = {record.value["key"]: record for record in records_of(store)}
    assert by_key["k"].value["ttl"] == 60
    assert "ttl" not in by_key["always"].value
    store_at(store, by_key["k"].updated_at + timedelta(minutes=30)).get(("t",), "k")
    assert {record.revision for record in records_of(store)} == {1}


def test_what_is_deleted_is_withdrawn_and_with_erase_nothing_of_it_is_left():
    with blocking(channel="user") as client:
        store = TreeringStore(client)
        store.put(("n",), "k", {"text": "a platypus lays eggs"})
        store.delete(("n",), "k")
        assert client.retrieve("platypus eggs") == []
        engine = client.records.engine
        assert any("platypus" in str(record.row) for record in engine.ledger.records())
        erasing = TreeringStore(client, name="erasing", erase=True)
        erasing.put(("n",), "k", {"text": "an echidna lays eggs"})
        erasing.delete(("n",), "k")
        assert not any("echidna" in str(record.row) for record in engine.ledger.records())


def test_author_without_the_right_to_erase_gets_an_error():
    with blocking(channel="agent") as client:
        store = TreeringStore(client, erase=True)
        store.put(("n",), "k", {"n": 1})
        with pytest.raises(Denied, match="erase"):
            store.delete(("n",), "k")


DEEP: dict = {}
for _ in range(300):
    DEEP = {"inner": DEEP}


@pytest.mark.parametrize(
    ("value", "message"),
    [
        ({"when": date(2026, 1, 1)}, "value.when: date cannot be represented in JSON."),
        ({"scores": [1.0, float("nan")]}, r"value.scores\[1\]: nan is not a JSON number."),
        ({"limit": float("inf")}, "value.limit: inf is not"),
        ({"tags": {"a", "b"}}, "value.tags: set cannot be represented in JSON."),
        ({"raw": b"x"}, "value.raw: bytes cannot be represented in JSON."),
        ({"text": "\ud800"}, "value.text: the text contains a lone surrogate"),
        (DEEP, "nested deeper than 200 levels"),
        ("text", "value: str is not a dictionary."),
        ([1], "value: list is not a dictionary."),
    ],
)
def test_a_value_that_is_not_json_is_refused_by_its_path(store, value, message):
    store.put(("notes",), "kept", {"text": "Uses uv."})
    with pytest.raises(InvalidInput, match=message):
        store.batch([PutOp(("notes",), "kept", {"text": "Changed."}), PutOp(("notes",), "new", value)])
    assert store.get(("notes",), "kept").value == {"text": "Uses uv."}
    assert store.get(("notes",), "new") is None


def test_labels_that_langgraph_refuses_are_refused(store):
    for namespace in ((), ("a.b",), ("langgraph",), ("",)):
        with pytest.raises(ValueError, match=r"[Nn]amespace"):
            store.put(namespace, "k", {})


@pytest.mark.anyio
async def test_the_asynchronous_store_is_the_same_store(store):
    await store.aput(("a",), "k", {"text": "one"})
    assert (await store.aget(("a",), "k")).value == store.get(("a",), "k").value
    assert [item.key for item in await store.asearch(("a",))] == ["k"]
    assert await store.alist_namespaces(prefix=("a",)) == [("a",)]
    await store.adelete(("a",), "k")
    assert store.get(("a",), "k") is None


def records_of(store):
    return store._client.records.all_of(store._collection)


def only_record(store):
    [record] = records_of(store)
    return record


def store_at(store, moment):
    """Return the store as it is at a time."""
    engine = replace(store._client.records.engine, clock=SteppingClock(moment))

    class At:
        records = Records(engine)

    other = TreeringStore(store._client, ttl=store.ttl_config)
    other._client, other._collection = At, store._collection
    return other


def test_store_needs_a_memory_client():
    with pytest.raises(InvalidInput, match="client: str is not a memory client"):
        TreeringStore("memories.db")


def test_text_is_no_namespace():
    with blocking() as client:
        store = TreeringStore(client)
        for call in (
            lambda: store.put("users", "ann", {"text": "Uses uv."}),
            lambda: store.get("users", "ann"),
            lambda: store.search("users"),
            lambda: store.list_namespaces(prefix="users"),
        ):
            with pytest.raises(InvalidInput, match="namespace: str is not a tuple of texts"):
                call()
        assert store.list_namespaces() == []
        with pytest.raises(InvalidInput, match="fields: str is not a list of paths"):
            TreeringStore(client, fields="text")


def test_search_of_a_user_finds_their_items_below_a_namespace():
    with blocking(user_id="ada") as client:
        store = TreeringStore(client)
        store.put(("users", "ada"), "tools", {"text": "Uses uv."})
        store.put(("teams", "red"), "tools", {"text": "Uses uv."})
        assert [item.namespace for item in store.search(("users",), query="uses uv")] == [("users", "ada")]
