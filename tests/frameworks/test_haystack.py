"""Haystack: its public contract of document stores, and pipelines."""

import pytest
from framework_parts import blocking, config

pytest.importorskip("haystack", reason="needs the extra 'haystack'")

from haystack import Document, Pipeline
from haystack.components.writers import DocumentWriter
from haystack.dataclasses import ByteStream
from haystack.document_stores.errors import DuplicateDocumentError
from haystack.document_stores.types import DuplicatePolicy, FilterPolicy
from haystack.testing import document_store as contract
from haystack.testing import document_store_async as async_contract

from treering import InvalidInput
from treering.frameworks import haystack
from treering.haystack import TreeringDocumentRetriever, TreeringDocumentStore


@pytest.fixture
def client():
    with blocking(channel="user") as opened:
        yield opened


@pytest.fixture
def store(client):
    return TreeringDocumentStore(client)


class TestDocumentStore(
    contract.DocumentStoreBaseExtendedTests,
    contract.CountDocumentsByFilterTest,
    contract.CountUniqueMetadataByFilterTest,
    contract.GetMetadataFieldMinMaxTest,
    contract.GetMetadataFieldUniqueValuesTest,
    contract.GetMetadataFieldsInfoTest,
):
    """The contract of Haystack; its base tests are among the extended ones."""

    @pytest.fixture
    def document_store(self, store):
        return store

    def test_write_documents(self, document_store):
        # The kit asks every store to state its default policy.
        assert document_store.write_documents([Document(id="1", content="a")]) == 1
        with pytest.raises(DuplicateDocumentError):
            document_store.write_documents([Document(id="1", content="b")])


@pytest.mark.anyio
class TestAsyncDocumentStore(
    async_contract.CountDocumentsAsyncTest,
    async_contract.CountDocumentsByFilterAsyncTest,
    async_contract.CountUniqueMetadataByFilterAsyncTest,
    async_contract.DeleteAllAsyncTest,
    async_contract.DeleteByFilterAsyncTest,
    async_contract.DeleteDocumentsAsyncTest,
    async_contract.FilterDocumentsAsyncTest,
    async_contract.GetMetadataFieldMinMaxAsyncTest,
    async_contract.GetMetadataFieldUniqueValuesAsyncTest,
    async_contract.GetMetadataFieldsInfoAsyncTest,
    async_contract.UpdateByFilterAsyncTest,
    async_contract.WriteDocumentsAsyncTest,
):
    """The same for the asynchronous methods."""

    @pytest.fixture
    def document_store(self, store):
        return store

    async def test_write_documents_async(self, document_store):
        assert await document_store.write_documents_async([Document(id="1", content="a")]) == 1
        with pytest.raises(DuplicateDocumentError):
            await document_store.write_documents_async([Document(id="1", content="b")])


class TestErasingDocumentStore(contract.DeleteAllTest, contract.DeleteByFilterTest, contract.DeleteDocumentsTest):
    """What the contract says of deleting, where that erases."""

    @pytest.fixture
    def document_store(self, client):
        return TreeringDocumentStore(client, erase=True)


PETS = [
    Document(id="rex", content="The dog is called Rex.", meta={"kind": "dog"}),
    Document(id="tom", content="The cat is called Tom.", meta={"kind": "cat"}),
    Document(id="tea", content="Tea is green.", meta={"kind": "drink"}),
]


def test_a_pipeline_retrieves_what_answers_best(store):
    store.write_documents(PETS)
    pipeline = Pipeline()
    pipeline.add_component("retriever", TreeringDocumentRetriever(store, top_k=2))
    found = pipeline.run({"retriever": {"query": "what is the dog called"}})["retriever"]["documents"]

    assert [document.id for document in found] == ["rex", "tom"]
    assert found[0].meta == {"kind": "dog"}
    assert 1 >= found[0].score > found[1].score >= 0


@pytest.mark.anyio
async def test_asynchronous_pipeline_writes_documents(store):
    pipeline = Pipeline()
    pipeline.add_component("writer", DocumentWriter(store))

    assert await pipeline.run_async({"writer": {"documents": PETS}}) == {"writer": {"documents_written": 3}}
    assert await store.count_documents_async() == 3


def test_metadata_values_of_different_types_are_distinct(store):
    values = [1, True, 1.0, "1", [1], {"b": 1, "a": 2}, {"a": 2, "b": 1}, None]
    store.write_documents([Document(content=str(number), meta={"v": one}) for number, one in enumerate(values)])

    assert store.count_unique_metadata_by_filter({}, ["meta.v"]) == {"v": 6}
    assert store.get_metadata_field_unique_values("v", size=2) == (["1", 1], 6)
    assert store.get_metadata_field_min_max("v") == {"min": None, "max": None}


def test_filters_are_applied_below_the_ranking(store):
    store.write_documents([*PETS, *(Document(content=f"A dog called Rex {number}") for number in range(60))])
    retriever = TreeringDocumentRetriever(store, top_k=1)
    cats = {"field": "meta.kind", "operator": "==", "value": "cat"}

    assert [document.id for document in retriever.run("dog called Rex", filters=cats)["documents"]] == ["tom"]
    nothing = {"field": "meta.kind", "operator": "==", "value": "fish"}
    assert retriever.run("dog called Rex", filters=nothing)["documents"] == []


def test_a_filter_that_lets_too_much_pass_says_so(store, monkeypatch):
    monkeypatch.setattr(haystack, "MOST_VALUES", 2)
    store.write_documents(PETS)

    with pytest.raises(InvalidInput, match="3 documents pass"):
        store.search("dog", top_k=1, filters={"field": "meta.kind", "operator": "!=", "value": "fish"})


def test_filters_of_a_component_are_replaced_or_merged(store):
    store.write_documents(PETS)
    cats = {"field": "meta.kind", "operator": "==", "value": "cat"}
    rex = {"field": "id", "operator": "==", "value": "rex"}
    replacing = TreeringDocumentRetriever(store, filters=cats)
    merging = TreeringDocumentRetriever(store, filters=cats, filter_policy=FilterPolicy.MERGE)

    assert [one.id for one in replacing.run("called", filters=rex)["documents"]] == ["rex"]
    assert merging.run("called", filters=rex)["documents"] == []


def test_what_is_below_a_similarity_is_omitted(store):
    store.write_documents(PETS)
    retriever = TreeringDocumentRetriever(store, min_similarity=0.7)

    assert [one.id for one in retriever.run("is the dog called Rex")["documents"]] == ["rex"]
    assert retriever.run("")["documents"] == []


def test_a_document_of_any_kind_comes_back_as_it_was(store):
    documents = [
        Document(id="a", content="text", meta={"list": [1, {"deep": None}]}, embedding=[0.1, -2.5e-3]),
        Document(id="b", blob=ByteStream(b"\x00\xff", meta={"name": "x"}, mime_type="image/png")),
        Document(id="c", content=""),
        Document(id="d e/f#g", content="text", score=0.5),
    ]
    store.write_documents(documents)

    assert store.filter_documents() == documents


def test_a_document_that_is_overwritten_is_found_by_what_it_says_now(store):
    store.write_documents(PETS)
    store.write_documents([Document(id="rex", content="The parrot is called Rex.")], DuplicatePolicy.OVERWRITE)

    assert store.search("parrot", top_k=1)[0].content == "The parrot is called Rex."
    assert store.count_documents() == 3


def test_nothing_is_written_where_one_of_several_is_there(store):
    store.write_documents(PETS[:1])

    with pytest.raises(DuplicateDocumentError):
        store.write_documents([*PETS[1:], PETS[0]])
    assert store.count_documents() == 1


def test_collections_are_apart(client, store):
    store.write_documents(PETS)

    assert TreeringDocumentStore(client, collection="others").count_documents() == 0
    assert TreeringDocumentStore(client, collection="others").search("dog", top_k=3) == []


def test_documents_are_memories_of_the_space(client, store):
    store.write_documents(PETS)

    assert [memory.content for memory in client.retrieve("is the dog called Rex", 1)] == ["The dog is called Rex."]


def test_a_pipeline_that_is_kept_as_text_finds_its_documents_again(tmp_path):
    place = config(backend="sqlite", sqlite={"path": str(tmp_path / "memory.db")})
    with blocking(place.model_dump(exclude_unset=True)) as client:
        store = TreeringDocumentStore(client, collection="pets")
        store.write_documents(PETS)
        pipeline = Pipeline()
        merging = TreeringDocumentRetriever(store, top_k=1, filter_policy=FilterPolicy.MERGE)
        pipeline.add_component("retriever", merging)
        text = pipeline.dumps()

    again = Pipeline.loads(text, allowed_modules=["treering.haystack"])
    retriever = again.get_component("retriever")
    with retriever.document_store.client:
        assert retriever.document_store.count_documents() == 3
        assert retriever.filter_policy is FilterPolicy.MERGE
        assert again.dumps() == text
    assert "treering.frameworks" not in text


def test_filtered_search_of_a_user_finds_their_documents():
    with blocking(user_id="ada") as client:
        store = TreeringDocumentStore(client)
        store.write_documents(PETS)
        cats = {"field": "meta.kind", "operator": "==", "value": "cat"}
        assert [document.id for document in store.search("cat", top_k=5, filters=cats)] == ["tom"]


def test_store_of_a_pipeline_file_keeps_its_user(tmp_path):
    given = {"backend": "sqlite", "sqlite": {"path": str(tmp_path / "memory.db")}}
    with blocking(given, user_id="ada") as client:
        loaded = TreeringDocumentStore.from_dict(TreeringDocumentStore(client).to_dict())
        with pytest.raises(InvalidInput, match="user_id was given with a client"):
            TreeringDocumentStore(client, user_id="ben")
    assert loaded.client.user_id == "ada"
