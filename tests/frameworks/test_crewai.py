"""CrewAI: its own memory without a model, over two sessions."""

import os

import pytest
from framework_parts import blocking

os.environ.update(CREWAI_DISABLE_TELEMETRY="true", OTEL_SDK_DISABLED="true")
pytest.importorskip("crewai", reason="needs the extra 'crewai'")

from crewai.memory.storage.backend import EmbeddingDimensionMismatchError, StorageBackend
from crewai.memory.types import MemoryRecord
from crewai.memory.unified_memory import Memory

from treering.crewai import TreeringStorage
from treering.testing import HashingEmbedder


def embedded(texts):
    return [vector.tolist() for vector in HashingEmbedder(512).embed_documents(texts)]


@pytest.fixture
def client():
    with blocking() as opened:
        yield opened


def remember(client, *told, **given):
    memory = Memory(storage=TreeringStorage(client), embedder=embedded)
    for text, scope in told:
        memory.remember(text, scope=scope, categories=["fact"], importance=0.5, metadata={"by": "ann"}, **given)
    memory.drain_writes()
    return memory


FACTS = (("the dog is called Rex", "/ann"), ("tea is green", "/ann/kitchen"), ("the dog is called Max", "/bob"))


def test_a_second_session_recalls_what_the_first_one_told(client):
    remember(client, *FACTS)
    again = Memory(storage=TreeringStorage(client), embedder=embedded)
    found = again.recall("dog called", scope="/ann", depth="shallow", limit=1)

    assert [one.record.content for one in found] == ["the dog is called Rex"]


def test_it_is_a_storage_to_crewai(client):
    assert isinstance(TreeringStorage(client), StorageBackend)


def test_scopes_and_categories_are_reported(client):
    remember(client, *FACTS)
    storage = TreeringStorage(client)

    assert storage.list_scopes() == ["/ann", "/bob"]
    assert storage.list_scopes("/ann") == ["/ann/kitchen"]
    assert storage.list_categories("/ann") == {"fact": 2}
    assert (storage.count(), storage.count("/ann"), storage.count("/an")) == (3, 2, 0)
    assert storage.get_scope_info("/ann").record_count == 2
    assert [one.scope for one in storage.list_records(limit=1)] == ["/bob"]


def test_what_is_forgotten_is_recalled_no_more(client):
    memory = remember(client, *FACTS)
    assert memory.forget(scope="/bob") == 1

    assert memory.recall("dog called", depth="shallow", limit=5)[0].record.scope == "/ann"
    assert TreeringStorage(client).count() == 2
    assert [one.content for one in client.retrieve("dog called")] == ["the dog is called Rex"]


def test_a_record_is_replaced_and_deleted_by_what_is_given(client):
    memory = remember(client, *FACTS)
    storage = TreeringStorage(client)
    [record, *_] = [one for one in storage.list_records() if one.scope == "/ann"]
    storage.update(record.model_copy(update={"content": "the dog is called Tim"}))

    assert storage.get_record(record.id).content == "the dog is called Tim"
    assert storage.get_record(record.id).embedding == record.embedding
    assert storage.delete(metadata_filter={"by": "bob"}) == 0
    assert storage.delete(older_than=record.created_at) == 0
    assert storage.delete(record_ids=[record.id], categories=["fact"]) == 1
    assert storage.get_record(record.id) is None
    storage.reset()
    assert memory.recall("dog", depth="shallow") == []


def test_an_erasing_storage_leaves_nothing_of_what_it_deletes():
    with blocking(channel="user") as client:
        storage = TreeringStorage(client, erase=True)
        Memory(storage=storage, embedder=embedded).remember(
            "the dog is called Rex", scope="/ann", categories=["fact"], importance=0.5, metadata={"by": "ann"}
        )
        storage.reset()

        assert not [one for one in client.records.engine.ledger.records() if one.table == "segment"]


def test_vectors_of_another_length_are_refused(client):
    storage = TreeringStorage(client)
    storage.save([MemoryRecord(content="the dog is called Rex", embedding=[0.1] * 4)])

    for refused in (
        lambda: storage.save([MemoryRecord(content="tea is green", embedding=[0.1] * 8)]),
        lambda: storage.search([0.1] * 8),
    ):
        with pytest.raises(EmbeddingDimensionMismatchError, match="4-dimensional"):
            refused()
    assert storage.count() == 1
    storage.reset()
    storage.save([MemoryRecord(content="tea is green", embedding=[0.1] * 8)])
    assert len(storage.search([0.1] * 8)) == 1
