"""The service over a repository and an embedding tool of the host, as its unit tests mock them."""

import asyncio
from unittest.mock import AsyncMock, MagicMock, create_autospec
from uuid import UUID

import pytest

from treering.core.errors import InvalidInput
from treering.testing.wiki_memory_contract import FLASK, done, failed
from treering.wiki import EmbeddingTool, MemoryType, WikiMemoryRepository, WikiMemoryService

VECTOR = [0.5] * 384
KEPT = {"memory_type": "pattern_found", "content": "All handlers return JSON."}


def async_mock():
    return AsyncMock(serialize=MagicMock(side_effect=dict))


def autospec():
    repository = create_autospec(WikiMemoryRepository, instance=True)
    repository.serialize.side_effect = dict
    return repository


@pytest.fixture(params=[async_mock, autospec, lambda: MagicMock(serialize=dict)], ids=["async", "autospec", "plain"])
def repository(request):
    made = request.param()
    made.insert.return_value = None
    made.vector_search.return_value = made.find_by_file_paths.return_value = [KEPT]
    made.delete_by_repository.return_value = 3
    return made


@pytest.fixture
def tool():
    return MagicMock(create_embedding=AsyncMock(return_value=VECTOR))


@pytest.fixture
def service(repository, tool):
    return WikiMemoryService(wiki_memory_repo=repository, embedding_tool=tool)


def test_memory_is_embedded_and_inserted(service, repository, tool):
    result = done(
        service.store_memory(FLASK, "Pages follow packages.", MemoryType.STRUCTURAL_DECISION, "page_agent", ["a.py"])
    )

    ((memory,), _) = repository.insert.call_args
    tool.create_embedding.assert_awaited_once_with("Pages follow packages.")
    assert (memory.repository_id, memory.embedding, memory.file_paths, memory.related_pages) == (
        FLASK,
        VECTOR,
        ["a.py"],
        [],
    )
    assert (memory.memory_type, memory.source_agent) == (MemoryType.STRUCTURAL_DECISION, "page_agent")
    assert (result["status"], UUID(result["memory_id"]), result["repository_id"]) == ("success", memory.id, str(FLASK))


def test_long_memory_is_cut_before_it_is_embedded(service, repository, tool):
    result = done(service.store_memory(FLASK, "x" * 5_000, "pattern_found", "page_agent"))

    tool.create_embedding.assert_awaited_once_with("x" * 4_000)
    assert len(repository.insert.call_args[0][0].content) == 4_000
    assert (result["kept_chars"], result["given_chars"]) == (4_000, 5_000)


def test_query_is_embedded_and_searched_by_its_vector(service, repository):
    result = done(service.search_memories(FLASK, "what do handlers return", limit=5, memory_type="pattern_found"))

    repository.vector_search.assert_called_once_with(
        repository_id=FLASK, query_embedding=VECTOR, limit=5, memory_type=MemoryType.PATTERN_FOUND
    )
    assert (result["count"], result["memories"]) == (1, [KEPT])


def test_memories_are_found_by_files_and_purged(service, repository):
    by_files = done(service.get_memories_by_files(FLASK, ["src/a.py"]))
    purged = done(service.purge_memories(FLASK))

    repository.find_by_file_paths.assert_called_once_with(repository_id=FLASK, file_paths=["src/a.py"])
    repository.delete_by_repository.assert_called_once_with(repository_id=FLASK)
    assert (by_files["count"], purged["deleted_count"], purged["repository_id"]) == (1, 3, str(FLASK))


@pytest.mark.parametrize("method", ["insert", "vector_search", "find_by_file_paths", "delete_by_repository"])
def test_error_of_the_repository_is_an_answer(service, repository, method):
    getattr(repository, method).side_effect = RuntimeError("The cluster is being moved.")
    call = {
        "insert": lambda: service.store_memory(FLASK, "x", "pattern_found", "page_agent"),
        "vector_search": lambda: service.search_memories(FLASK, "x"),
        "find_by_file_paths": lambda: service.get_memories_by_files(FLASK, ["x"]),
        "delete_by_repository": lambda: service.purge_memories(FLASK),
    }[method]

    assert failed(call()) == {
        "status": "error",
        "error": "The cluster is being moved.",
        "error_type": "RuntimeError",
    }


def test_error_of_the_embedding_tool_is_an_answer(service, tool):
    tool.create_embedding.side_effect = TimeoutError("No answer.")

    assert failed(service.search_memories(FLASK, "x"))["error_type"] == "TimeoutError"


def test_what_the_repository_cannot_be_given_is_refused(service, repository):
    assert "has no branch" in failed(service.search_memories(FLASK, "x", branch="main"))["error"]
    assert "has no generation" in failed(service.purge_memories(FLASK, generation="2"))["error"]
    assert "memory_type" in failed(service.store_memory(FLASK, "x", "idea", "page_agent"))["error"]
    assert "empty" in failed(service.store_memory(FLASK, " ", "pattern_found", "page_agent"))["error"]
    with pytest.raises(InvalidInput, match="no store"):
        service.with_store(lambda store: store)
    repository.insert.assert_not_called()


def test_tool_without_a_method_is_refused(repository):
    with pytest.raises(InvalidInput, match="create_embedding"):
        WikiMemoryService(repository, object())


def test_built_in_tool_embeds_for_a_repository_of_the_host(repository):
    service = WikiMemoryService(repository, EmbeddingTool())

    asyncio.run(service.search_memories(FLASK, "handlers"))

    assert len(repository.vector_search.call_args.kwargs["query_embedding"]) == 384


def test_service_over_a_host_repository_closes_nothing(service):
    async def used():
        async with service as entered:
            return await entered.purge_memories(FLASK)

    assert done(used())["deleted_count"] == 3
