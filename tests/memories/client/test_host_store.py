"""A vector store of the host searches beside a space: what it is handed and asked, and what it can do without harm."""

import asyncio
from concurrent.futures import Future

import client_parts
import pytest
from host_stores import Document, IdsOfItsOwn, KeywordStore, OutOfOrder, PlainStore

import treering
from treering.client import VectorStoreAdapter
from treering.derived.engine_vectors import EngineVectors

TEXTS = [f"Alignment {number} of the reads of sample {number}" for number in range(8)]


@pytest.fixture
def config(tmp_path):
    return client_parts.config(backend="sqlite", sqlite={"path": str(tmp_path / "memory.db")})


@pytest.fixture
def _asks_the_store(monkeypatch):
    """Let the store be asked whatever the filter: few memories would be compared one by one."""
    made = EngineVectors.__init__
    monkeypatch.setattr(EngineVectors, "__init__", lambda self, *given: made(self, *given, few=0))


def filled(config, store, **options):
    client = client_parts.blocking(config, vector_store=VectorStoreAdapter(store, **options))
    for text in TEXTS:
        client.store(text)
    return client


@pytest.mark.usefixtures("_asks_the_store")
def test_the_store_is_asked_with_the_question_and_what_is_not_ours_is_left_out(config):
    store = KeywordStore()
    with filled(config, store, document=Document) as client:
        client.catch_up()
        assert [memory.content for memory in client.retrieve("alignment of sample 5", top_k=1)] == [TEXTS[5]]
        assert store.searches == ["alignment of sample 5"]
        assert all(memory.id != "foreign" for memory in client.retrieve("finding of somebody else about a kinase"))


@pytest.mark.usefixtures("_asks_the_store")
@pytest.mark.parametrize("store", [PlainStore, OutOfOrder])
def test_a_store_that_answers_too_little_or_not_at_all_changes_no_answer(config, store, caplog):
    options = {"as_chunks": True} if store is PlainStore else {"document": Document}
    with filled(config, store(), **options) as client:
        client.catch_up()
        assert [client.retrieve(text, top_k=1)[0].content for text in TEXTS] == TEXTS
    assert ("the collection is locked" in caplog.text) == (store is OutOfOrder)


def test_what_is_erased_is_deleted_from_the_store(config):
    store = KeywordStore()
    with filled(config, store, document=Document) as client:
        client.catch_up()
        assert sorted(one.content for one in store.documents.values() if one.id != "foreign") == TEXTS
    adapter = VectorStoreAdapter(store, document=Document)
    with client_parts.blocking(config, channel="user", vector_store=adapter) as client:
        (memory,) = client.retrieve(TEXTS[5], top_k=1)
        assert client.delete(memory.id, erase=True)
        assert TEXTS[5] not in {one.content for one in store.documents.values()}


def test_a_process_without_the_store_says_that_something_may_be_left_in_it(config, tmp_path):
    store = KeywordStore()
    with filled(config, store, document=Document) as client:
        client.catch_up()
        (memory,) = client.retrieve(TEXTS[5], top_k=1)
    with treering.open(
        str(tmp_path / "memory.db"), channel="user", background=False, embedder=client_parts.PARTS["embedder"]
    ) as space:
        status = space.perform("index status")
        assert (status.state, status.address) == ("failing", "given:KeywordStore")
        assert "none was given here" in status.problem
        assert not space.perform("erase", input={"ids": [memory.id]}).clean
    with client_parts.blocking(config, vector_store=VectorStoreAdapter(store, document=Document)) as client:
        client.catch_up()
        assert TEXTS[5] not in {one.content for one in store.documents.values()}


def test_a_store_that_keeps_other_ids_is_refused_and_keeps_nothing(config):
    store = IdsOfItsOwn()
    with filled(config, store, document=Document) as client:
        with pytest.raises(treering.Unavailable, match="other ids"):
            client.catch_up()
        assert list(store.documents) == ["foreign"]
        assert client.retrieve(TEXTS[2], top_k=1)[0].content == TEXTS[2]


def test_what_was_handed_over_by_half_is_deleted_before_it_is_handed_over_again(config):
    class Stops(KeywordStore):
        async def add_documents(self, documents):
            await super().add_documents(documents[:3])
            raise OSError("the store went away")

    store = Stops()
    client = filled(config, store, document=Document)
    with pytest.raises(treering.Unavailable, match="went away"):
        client.catch_up()
    client.close()
    assert len(store.documents) == 4
    healthy = KeywordStore()
    healthy.documents = store.documents
    with client_parts.blocking(config, vector_store=VectorStoreAdapter(healthy, document=Document)) as client:
        assert client.catch_up().vectors == len(TEXTS)
        assert len(store.documents) == len(TEXTS) + 1


def test_a_store_is_used_in_the_event_loop_it_belongs_to(config):
    loops = Future()

    class Bound(KeywordStore):
        async def add_documents(self, documents):
            loops.set_result(asyncio.get_running_loop())
            return await super().add_documents(documents)

    async def use():
        adapter = VectorStoreAdapter(Bound(), document=Document, loop=asyncio.get_running_loop())
        async with client_parts.asynchronous(config, vector_store=adapter) as client:
            await client.store("Alignment of a sample")
            report = await client.catch_up()
            return report.vectors, loops.result() is asyncio.get_running_loop()

    assert asyncio.run(use()) == (1, True)


def test_an_object_without_the_methods_of_a_store_is_refused():
    with pytest.raises(treering.InvalidInput, match="has no method 'add_documents'"):
        VectorStoreAdapter(object())
    with pytest.raises(treering.InvalidInput, match="has no method 'add_documents'"):
        VectorStoreAdapter(PlainStore())


def test_a_host_store_stands_in_for_the_engine_that_a_configuration_names(tmp_path):
    config = client_parts.config(
        backend="sqlite", sqlite={"path": str(tmp_path / "memory.db")}, vector_store={"backend": "qdrant"}
    )
    with filled(config, KeywordStore(), document=Document) as client:
        assert client.catch_up().kind == "KeywordStore of the host"
