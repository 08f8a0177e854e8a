"""A vector store of the host searches beside a space: what it is handed and asked, and what it can do without harm."""

import asyncio
from concurrent.futures import Future

import client_parts
import pytest
from host_stores import Document, IdsOfItsOwn, KeywordStore, OutOfOrder, PlainStore

import treering
from treering.client import VectorStoreAdapter

TEXTS = [f"Alignment {number} of the reads of sample {number}" for number in range(8)]


@pytest.fixture
def config(tmp_path):
    return client_parts.config(backend="sqlite", sqlite={"path": str(tmp_path / "memory.db")})


def filled(config, store, **options):
    client = client_parts.blocking(config, vector_store=VectorStoreAdapter(store, **options))
    for text in TEXTS:
        client.store(text)
    return client


def test_the_store_is_asked_with_the_question_and_what_is_not_ours_is_omitted(config):
    store = KeywordStore()
    with filled(config, store, document=Document) as client:
        client.catch_up()
        assert [memory.content for memory in client.retrieve("alignment of sample 5", top_k=1)] == [TEXTS[5]]
        assert store.searches == ["alignment of sample 5"]
        assert all(memory.id != "foreign" for memory in client.retrieve("finding of somebody else about a kinase"))


@pytest.mark.parametrize("store", [PlainStore, OutOfOrder])
def test_incomplete_store_changes_no_answer(config, store, caplog):
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


def test_missing_host_store_is_reported(config, tmp_path):
    store = KeywordStore()
    with filled(config, store, document=Document) as client:
        client.catch_up()
        (memory,) = client.retrieve(TEXTS[5], top_k=1)
    with treering.open(
        str(tmp_path / "memory.db"), channel="user", background=False, embedder=client_parts.PARTS["embedder"]
    ) as space:
        status = space.perform("index status")
        assert (status.state, status.address) == ("failing", "given:KeywordStore")
        assert "none was given" in status.problem
        assert not space.perform("erase", input={"ids": [memory.id]}).clean
    with client_parts.blocking(config, vector_store=VectorStoreAdapter(store, document=Document)) as client:
        client.catch_up()
        assert TEXTS[5] not in {one.content for one in store.documents.values()}


def test_the_store_is_asked_from_the_first_memory_on_or_above_the_number_that_is_given(config):
    asked, few = KeywordStore(), KeywordStore()
    for store, options in ((asked, {}), (few, {"compare_up_to": 1})):
        with client_parts.blocking(vector_store=VectorStoreAdapter(store, document=Document, **options)) as client:
            client.store(TEXTS[0])
            client.catch_up()
            assert client.retrieve("alignment of sample 0")[0].content == TEXTS[0]
            client.store(TEXTS[1])
            client.catch_up()
            assert client.retrieve("alignment of sample 1")[0].content == TEXTS[1]
    assert asked.searches == ["alignment of sample 0", "alignment of sample 1"]
    assert few.searches == ["alignment of sample 1"]
    with pytest.raises(treering.InvalidInput, match="compare_up_to: -1"):
        VectorStoreAdapter(few, compare_up_to=-1)


def test_a_store_may_give_ids_of_its_own(config):
    store = IdsOfItsOwn()
    with filled(config, store, document=Document) as client:
        assert client.catch_up().state == "ready"
        assert [client.retrieve(text, top_k=1)[0].content for text in TEXTS] == TEXTS
        assert [*dict.fromkeys(store.searches)] == TEXTS
    adapter = VectorStoreAdapter(store, document=Document)
    with client_parts.blocking(config, channel="user", vector_store=adapter) as client:
        (memory,) = client.retrieve(TEXTS[5], top_k=1)
        assert memory.content == TEXTS[5]
        assert client.delete(memory.id, erase=True)
        assert sorted(one.content for one in store.documents.values() if one.id != "foreign") == [
            text for text in TEXTS if text != TEXTS[5]
        ]


def test_host_store_without_document_ids_is_refused(config):
    class OneId(IdsOfItsOwn):
        async def add_documents(self, documents):
            return (await super().add_documents(documents))[:1] if len(documents) == 1 else await self._one(documents)

        async def _one(self, documents):
            self.documents["all"] = Document("all", " ".join(one.content for one in documents))
            return ["all"]

    store = OneId()
    with filled(config, store, document=Document) as client:
        with pytest.raises(treering.Unavailable, match="returned 1 ids for 8 documents"):
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
