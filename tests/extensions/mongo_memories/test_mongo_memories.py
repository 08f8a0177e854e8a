"""Memories of wiki agents in MongoDB: the contract on a server that speaks its protocol, with and without search."""

import asyncio
import os
from datetime import UTC, datetime, timedelta
from itertools import count
from uuid import UUID

import pymongo
import pytest
from search_node import SearchNode

import mongo_server
import treering
from treering.core.errors import InvalidInput, Unavailable
from treering.extensions.encoder.onnx import BgeSmall
from treering.extensions.wiki.memories.mongo_indexes import vector_stage
from treering.extensions.wiki.memories.mongo_store import client_of
from treering.extensions.wiki.memories.space_memories import SpaceWikiMemories
from treering.extensions.wiki.memories.wiki_memory import WikiMemoryDraft, WikiMemoryType, WikiRepository
from treering.testing.fakes import HashingEmbedder, SteppingClock
from treering.testing.wiki_memory_contract import FLASK, TYPER, WikiMemoryContract, about, done, failed, found, store
from treering.wiki import MongoWikiMemories, WikiMemory, WikiMemoryService

_names = count()


@pytest.fixture(scope="module")
def address():
    """The address of a server: that of `TREERING_TEST_MONGODB`, else one that speaks its protocol."""
    if given := os.environ.get("TREERING_TEST_MONGODB"):
        yield given
        return
    with mongo_server.running() as server:
        yield server.url


@pytest.fixture
def memories(address):
    kept = MongoWikiMemories(address, embedder=HashingEmbedder(), collection=f"wiki_memories_{next(_names)}")
    yield kept
    kept._memories.drop()
    kept._generations.drop()
    kept.close()


@pytest.fixture
def service(memories):
    return WikiMemoryService(memories)


@pytest.fixture
def node(memories):
    """A search node in front of the collection, whose indexes are ready."""
    beside = memories._memories = SearchNode(memories._memories)
    memories.make_indexes()
    beside.follow()
    return beside


class TestMemoriesInMongoDB(WikiMemoryContract):
    """The fixtures of this module are its store: without a search node every memory is compared."""


class TestMemoriesInMongoDBWithASearchNodeThatKnowsNothingYet(WikiMemoryContract):
    @pytest.fixture
    def service(self, memories, node):
        return WikiMemoryService(memories)


def old(memories, *texts, repository=FLASK, **options):
    """Store memories, and let them be older than what is looked at besides the indexes."""
    service = WikiMemoryService(memories)
    ids = [store(service, text, repository=repository, **options) for text in texts]
    long_ago = datetime.now(UTC) - timedelta(days=1)
    memories._memories.update_many({"_id": {"$in": ids}}, {"$set": {"updated_at": long_ago}})
    return ids


def test_a_document_has_the_fields_and_the_collection_the_indexes_that_were_requested(memories, service):
    store(service, "Flask routes requests.", file_paths=["app.py"], related_pages=["overview"])
    (row,) = memories._memories.find({})
    assert row["repository_id"] == str(FLASK)
    assert {"memory_type", "content", "embedding", "source_agent", "file_paths", "related_pages"} <= row.keys()
    assert len(row["embedding"].as_vector().data) == row["embedding_metadata"]["dimension"]
    indexed = [tuple(one["key"]) for one in memories._memories.list_indexes()]
    assert {("repository_id",), ("repository_id", "memory_type"), ("repository_id", "file_paths")} <= {*indexed}


def test_the_usual_collection_is_wiki_memories(address):
    kept = MongoWikiMemories(address, embedder=HashingEmbedder())
    store(WikiMemoryService(kept), "Flask routes requests.")
    with pymongo.MongoClient(address) as client:
        database = client.get_default_database()
        assert database["wiki_memories"].count_documents({"content": "Flask routes requests."}) == 1
        kept.close()
        for name in database.list_collection_names():
            if name.startswith("wiki_memories"):
                database.drop_collection(name)


def test_the_index_for_vectors_has_the_name_dimension_and_filters_that_were_requested(memories):
    memories._memories = SearchNode(memories._memories)
    memories.make_indexes()
    (index,) = [one for one in memories._memories.list_search_indexes() if one["name"] == "wiki_memories_index"]
    vector, *filters = index["latestDefinition"]["fields"]
    expected = {"path": "embedding", "numDimensions": HashingEmbedder().dimension, "similarity": "cosine"}
    assert (index["type"], vector) == ("vectorSearch", {"type": "vector", **expected})
    assert {"repository_id", "memory_type"} <= {one["path"] for one in filters if one["type"] == "filter"}
    assert BgeSmall().dimension == 384, "the embedder that is used where none is given"


def test_search_reads_ten_candidates_per_memory():
    stage = vector_stage("wiki_memories_index", [1.0], {"repository_id": "a"}, limit=7)["$vectorSearch"]
    assert (stage["index"], stage["path"], stage["limit"]) == ("wiki_memories_index", "embedding", 7)
    assert stage["numCandidates"] == 70


def test_a_server_without_a_search_node_is_searched_exactly_and_the_answer_says_so(memories, service):
    store(service, "Flask routes requests.")
    assert done(service.search_memories(FLASK, "routes requests"))["searched"] == "exact"
    state = memories.state()
    assert (state.memories, state.repositories, state.searched) == (1, 1, "exact")
    assert set(state.search.values()) == {"not offered"}
    assert set(memories.make_indexes().values()) == {"not offered"}


def test_a_search_node_is_asked_and_the_answer_names_its_indexes(memories, service, node):
    old(memories, "Flask routes requests.", "Templates are rendered by Jinja.")
    old(memories, "Typer routes requests.", repository=TYPER)
    node.follow()
    answer = done(service.search_memories(FLASK, "routes requests"))
    assert [one["content"] for one in answer["memories"]] == ["Flask routes requests."]
    assert answer["searched"] == "wiki_memories_index and wiki_memories_text"
    assert node.asked == ["$vectorSearch", "$search"]


def test_a_memory_has_the_same_score_however_it_was_found(memories, service, node):
    old(memories, "Flask routes requests.", "Requests are routed by a map.", "Templates are rendered by Jinja.")
    node.follow()
    by_index = done(service.search_memories(FLASK, "routes requests", score_threshold=0.0))
    node.is_down = True
    exactly = done(service.search_memories(FLASK, "routes requests", score_threshold=0.0))
    assert (by_index["searched"], exactly["searched"]) == ("wiki_memories_index and wiki_memories_text", "exact")
    assert by_index["memories"] == exactly["memories"]


def test_what_the_search_node_does_not_know_yet_is_found(memories, service, node):
    store(service, "Flask routes requests.")
    assert found(service, "routes requests") == ["Flask routes requests."]
    assert node.asked


def test_what_was_withdrawn_is_not_found_although_the_search_node_still_knows_it(memories, service, node):
    old(memories, "Flask routes requests.")
    node.follow()
    done(service.purge_memories(FLASK))
    assert found(service, "routes requests") == []
    assert "$vectorSearch" in node.asked


def test_branches_and_generations_are_conditions_inside_the_search(memories, service, node):
    old(memories, *(f"Old {number}: routes requests." for number in range(60)))
    old(memories, "New: routes requests.", generation="2")
    old(memories, "Main: routes requests.", branch="main")
    node.follow()
    assert found(service, "routes requests", limit=1, generation="2") == ["New: routes requests."]
    assert "Main: routes requests." in found(service, "routes requests", limit=100, branch="main")
    assert "Main: routes requests." in found(service, "routes requests", limit=100)
    assert "Main: routes requests." not in found(service, "routes requests", limit=100, branch="next")


def test_an_index_that_is_built_or_lacks_fields_is_not_used_and_that_is_reported(memories, service):
    beside = memories._memories = SearchNode(memories._memories)
    assert set(memories.make_indexes().values()) == {"building"}
    store(service, "Flask routes requests.")
    assert done(service.search_memories(FLASK, "routes requests"))["searched"] == "exact"
    beside.follow()
    for one in beside.list_search_indexes():
        one["latestDefinition"] = {"fields": [{"type": "vector", "path": "embedding", "numDimensions": 3}]}
    assert set(memories.state().search.values()) == {"other"}
    assert done(service.search_memories(FLASK, "routes requests"))["searched"] == "exact"


def test_memories_with_vectors_of_another_model_are_found_by_words_and_counted(memories, service):
    store(service, "Flask routes requests.")
    memories._memories.update_many({}, {"$set": {"embedding_metadata.model": "another"}})
    assert found(service, "routes requests") == ["Flask routes requests."]
    assert found(service, "how are urls dispatched") == []
    assert memories.state().other_model == 1


def test_what_was_withdrawn_stays_as_a_document_until_it_is_erased(memories, service):
    store(service, "Flask routes requests.")
    done(service.purge_memories(FLASK))
    assert memories.state().withdrawn == 1
    done(service.purge_memories(FLASK, erase=True))
    assert memories.state().withdrawn == 0


def test_a_generation_is_switched_by_one_document_so_a_crash_behind_it_shows_no_old_memory(memories, service):
    store(service, "Old: routes requests.", file_paths=["app.py"])
    store(service, "New: routes requests.", generation="2", file_paths=["app.py"])
    told = {"repository_id": str(FLASK), "branch": "", "current": "2"}
    # As if the process had ended right there, on a server without transactions.
    memories._generations.insert_one({"_id": f"36:{FLASK}:", **told})
    assert found(service, "routes requests") == ["New: routes requests."]
    assert about(service, "app.py") == {"New: routes requests."}
    assert done(service.complete_generation(FLASK, "2"))["deleted_count"] == 1


def test_memory_id_is_valid_only_in_its_repository(memories, service):
    kept = store(service, "Flask routes requests.")
    assert memories.get(WikiRepository.of(FLASK), kept).content == "Flask routes requests."
    assert memories.get(WikiRepository.of(TYPER), kept) is None


def test_the_clock_and_chance_are_arguments(address):
    clock = SteppingClock()
    kept = MongoWikiMemories(address, embedder=HashingEmbedder(), collection="clocked", clock=clock)
    draft = WikiMemoryDraft("Routes requests.", WikiMemoryType.PATTERN_FOUND, "page_agent", ("a.py",))
    kept.store(WikiRepository.of("flask"), draft)
    (memory,) = kept.by_files(WikiRepository.of("flask"), ["a.py"])
    assert memory.created_at < clock.now()
    assert UUID(memory.id).version == 4
    kept._memories.drop()
    kept.close()


def test_a_client_that_is_given_stays_open(address):
    with pymongo.MongoClient(address) as client:
        kept = MongoWikiMemories(client, embedder=HashingEmbedder(), collection="lent")
        assert kept.state().memories == 0
        kept.close()
        assert client.admin.command("ping")["ok"] == 1


def test_a_server_that_is_not_there_is_an_error_without_its_address(caplog):
    kept = MongoWikiMemories(
        "mongodb://me:hunter2@127.0.0.1:1/x?serverSelectionTimeoutMS=50", embedder=HashingEmbedder()
    )
    with pytest.raises(Unavailable, match="Cannot reach") as refused:
        kept.state()
    assert "hunter2" not in f"{refused.value}{refused.value.hint}"
    result = failed(WikiMemoryService(kept).search_memories(FLASK, "routes"))
    assert "127.0.0.1" not in str(result)
    kept.close()


def test_a_timeout_in_the_address_is_kept_and_the_others_are_set():
    with client_of("mongodb://127.0.0.1:1/x?serverSelectionTimeoutMS=50") as client:
        assert client.options.server_selection_timeout == 0.05
        assert client.options.pool_options.connect_timeout == 5


@pytest.mark.parametrize("given", ["mongodb://localhost:70000/x", "http://localhost/x", 7])
def test_what_is_no_address_and_no_client_is_refused(given):
    with pytest.raises(InvalidInput, match=r"not a MongoDB address|not a thread-safe"):
        MongoWikiMemories(given, embedder=HashingEmbedder())


def test_documents_of_beanie_and_memories_of_the_store_are_the_same(address, memories, service, monkeypatch):
    from beanie import init_beanie

    store(service, "Flask routes requests.", file_paths=["app.py"])
    monkeypatch.setattr(WikiMemory.Settings, "name", memories._memories.name)

    async def through_beanie():
        client = pymongo.AsyncMongoClient(address)
        await init_beanie(database=client.get_default_database(), document_models=[WikiMemory])
        read = await WikiMemory.find(WikiMemory.repository_id == str(FLASK)).to_list()
        written = WikiMemory(
            repository_id=FLASK.hex,
            memory_type=WikiMemoryType.PATTERN_FOUND,
            content="Blueprints group routes.",
            embedding=HashingEmbedder().embed_documents(["Blueprints group routes."])[0].tolist(),
            embedding_metadata={"model": HashingEmbedder().model_id},
            source_agent="page_agent",
        )
        await written.insert()
        with pytest.raises(ValueError, match="at most 4000 characters"):
            WikiMemory(**{**written.model_dump(), "content": "x" * 4_001})
        await client.close()
        return read

    (read,) = asyncio.run(through_beanie())
    assert (read.content, len(read.embedding)) == ("Flask routes requests.", HashingEmbedder().dimension)
    assert found(service, "blueprints group routes") == ["Blueprints group routes."]
    assert memories.state().other_model == 0


def test_setting_names_mongodb_for_services_without_arguments(address, monkeypatch, tmp_path):
    monkeypatch.setenv("TREERING_WIKI_MEMORY", f"{address.rpartition('/')[0]}/wikis_of_a_setting")
    monkeypatch.setenv("TREERING_SPACE", f"sqlite:{tmp_path / 'unused.db'}")

    async def remember():
        async with WikiMemoryService(embedder=HashingEmbedder()) as service:
            await service.store_memory(FLASK, "Flask routes requests.", "pattern_found", "page_agent")
            await service.store_memory(TYPER, "Typer routes commands.", "pattern_found", "page_agent", branch="main")
            return await service.search_memories(TYPER, "routes commands")

    assert done(remember())["searched"] == "exact"
    assert done(WikiMemoryService.purge_for_repository(TYPER))["deleted_count"] == 1
    with pymongo.MongoClient(address) as client:
        held = client["wikis_of_a_setting"]["wiki_memories"]
        assert {(one["repository_id"], one["status"]) for one in held.find()} == {
            (str(FLASK), "active"),
            (str(TYPER), "withdrawn"),
        }
        client.drop_database("wikis_of_a_setting")
    assert list(tmp_path.iterdir()) == []


def test_middleware_without_a_service_remembers_in_mongodb(address, monkeypatch):
    from treering.langchain import WikiMemoryMiddleware

    monkeypatch.setenv("TREERING_WIKI_MEMORY", f"{address.rpartition('/')[0]}/wikis_of_agents")
    middleware = WikiMemoryMiddleware("page_agent")
    store = middleware._service._repository.opened()
    middleware.close()

    assert isinstance(store, MongoWikiMemories)


@pytest.mark.parametrize("code", [13, 18, 8000])
def test_refused_user_is_no_passing_error(memories, monkeypatch, code):
    def refuse(*_, **__):
        raise pymongo.errors.OperationFailure("not authorized as me:hunter2", code)

    monkeypatch.setattr(pymongo.collection.Collection, "distinct", refuse)

    result = failed(WikiMemoryService(memories).search_memories(FLASK, "routes"))

    assert result["error_type"] == "Denied"
    assert "the password and the permissions" in result["error"]
    assert "hunter2" not in str(result)


def test_wiki_that_is_generated_without_a_space_remembers_in_mongodb(address, monkeypatch, tmp_path):
    from treering.frameworks.wiki_generation.generate import stores_for

    monkeypatch.setenv("TREERING_WIKI_MEMORY", f"{address.rpartition('/')[0]}/wikis_of_a_workflow")
    monkeypatch.setenv("TREERING_SPACE", f"sqlite:{tmp_path / 'space.db'}")

    with stores_for(None, None) as (_, named):
        assert isinstance(named, MongoWikiMemories)
    with treering.open(":memory:", background=False) as space, stores_for(space, None) as (_, own):
        assert isinstance(own, SpaceWikiMemories)
