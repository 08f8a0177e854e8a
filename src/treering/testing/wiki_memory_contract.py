"""The contract of every store of wiki agents' memories, tested through `WikiMemoryService`."""

import asyncio
from collections.abc import Coroutine
from functools import partial
from typing import Any
from uuid import UUID, uuid4

import pytest

from treering.extensions.wiki.memories.wiki_memory import MOST_CHARS, WikiMemoryType
from treering.testing.fakes import HashingEmbedder

FLASK, TYPER = UUID("0f0e0d0c-0b0a-4908-8706-050403020100"), uuid4()
DECISION, PATTERN = "structural_decision", "pattern_found"


def done(call: Coroutine[Any, Any, Any]) -> Any:
    """Run a call of the service and return its result, which has to be a success."""
    result = asyncio.run(call)
    assert result["status"] == "success", result
    return result


def failed(call: Coroutine[Any, Any, Any]) -> Any:
    """Run a call of the service and return its result, which has to be an error."""
    result = asyncio.run(call)
    assert result["status"] == "error", result
    assert set(result) == {"status", "error", "error_type"}
    return result


def store(
    service: Any,
    text: str,
    kind: str = DECISION,
    *,
    repository: UUID | str = FLASK,
    agent: str = "structure_agent",
    **options: Any,
) -> str:
    """Store a memory and return its id."""
    return str(done(service.store_memory(repository, text, kind, agent, **options))["memory_id"])


def found(service: Any, query: str, *, repository: UUID | str = FLASK, **options: Any) -> list[str]:
    """Search and return the results, best first."""
    return [one["content"] for one in done(service.search_memories(repository, query, **options))["memories"]]


def about(service: Any, *paths: str, repository: UUID | str = FLASK, **options: Any) -> set[str]:
    """Return the memories about some files."""
    return {one["content"] for one in done(service.get_memories_by_files(repository, paths, **options))["memories"]}


class WikiMemoryContract:
    """Inherit this in a test class and return the fixture `service`: a `WikiMemoryService` over a new store.

    Its embedder is a `HashingEmbedder()`.
    """

    def test_a_memory_is_stored_and_found_with_all_it_says(self, service: Any) -> None:
        result = done(
            service.store_memory(
                FLASK,
                "Pages follow the packages.",
                WikiMemoryType.STRUCTURAL_DECISION,
                "structure_agent",
                ["src/app.py", "./src/cli.py"],
                ["overview"],
            )
        )
        assert set(result) == {"status", "memory_id", "repository_id"}
        assert result["repository_id"] == str(FLASK)
        answer = done(service.search_memories(FLASK, "how do pages follow packages"))
        (memory,) = answer["memories"]
        assert answer["count"] == 1
        assert memory.pop("created_at") <= memory.pop("updated_at")
        assert memory.pop("score") >= 0.7
        assert memory == {
            "id": result["memory_id"],
            "repository_id": str(FLASK),
            "memory_type": DECISION,
            "content": "Pages follow the packages.",
            "source_agent": "structure_agent",
            "file_paths": ["src/app.py", "src/cli.py"],
            "related_pages": ["overview"],
            "embedding_metadata": {"model": HashingEmbedder().model_id, "dimension": HashingEmbedder().dimension},
        }

    def test_no_repository_sees_the_memories_of_another(self, service: Any) -> None:
        store(service, "Flask routes requests.", file_paths=["app.py"])
        store(service, "Typer routes requests to commands.", repository=TYPER, file_paths=["app.py"])
        assert found(service, "routes requests") == ["Flask routes requests."]
        assert about(service, "app.py", repository=TYPER) == {"Typer routes requests to commands."}
        assert done(service.purge_memories(FLASK))["deleted_count"] == 1
        assert found(service, "routes requests", repository=TYPER) == ["Typer routes requests to commands."]

    @pytest.mark.parametrize("spelled", [str(FLASK), str(FLASK).upper(), FLASK.hex, f"{{{FLASK}}}"])
    def test_a_uuid_is_the_same_repository_in_any_spelling(self, service: Any, spelled: str) -> None:
        store(service, "Flask routes requests.", file_paths=["app.py"])
        assert found(service, "routes requests", repository=spelled) == ["Flask routes requests."]
        assert about(service, "app.py", repository=spelled)
        assert done(service.purge_memories(spelled))["deleted_count"] == 1

    @pytest.mark.parametrize(("one", "other"), [("a", "a/b"), ("a.b", "a_b"), ("x" * 150, "x" * 151), ("A", "a")])
    def test_names_that_are_alike_are_different_repositories(self, service: Any, one: str, other: str) -> None:
        store(service, "Routes requests.", repository=one)
        assert found(service, "routes requests", repository=one)
        assert found(service, "routes requests", repository=other) == []
        assert done(service.purge_memories(other))["deleted_count"] == 0

    def test_a_branch_sees_nothing_of_another_branch(self, service: Any) -> None:
        store(service, "All: routes requests.", file_paths=["app.py"])
        store(service, "Main: routes requests.", branch="main", file_paths=["app.py"])
        store(service, "Next: routes requests.", branch="feature/next", file_paths=["app.py"])
        assert about(service, "app.py", branch="main") == {"All: routes requests.", "Main: routes requests."}
        assert set(found(service, "routes requests", branch="feature/next")) == {
            "All: routes requests.",
            "Next: routes requests.",
        }
        assert about(service, "app.py", branch="other") == {"All: routes requests."}
        assert done(service.purge_memories(FLASK, branch="main"))["deleted_count"] == 1
        assert done(service.purge_memories(FLASK))["deleted_count"] == 2

    def test_recall_without_a_branch_sees_all_branches(self, service: Any) -> None:
        store(service, "All: routes requests.", file_paths=["app.py"])
        store(service, "Main: routes requests.", branch="main", file_paths=["app.py"])
        store(service, "Main: routes requests anew.", branch="main", generation="2", file_paths=["app.py"])
        store(service, "Next: routes requests.", branch="feature/next", file_paths=["app.py"])
        store(service, "Typer: routes requests.", branch="main", repository=TYPER, file_paths=["app.py"])
        seen = {"All: routes requests.", "Main: routes requests.", "Next: routes requests."}
        assert set(found(service, "routes requests")) == seen == about(service, "app.py")
        assert found(service, "routes requests", generation="2") == ["Main: routes requests anew."]
        done(service.complete_generation(FLASK, "2", branch="main"))
        seen = {"All: routes requests.", "Main: routes requests anew.", "Next: routes requests."}
        assert set(found(service, "routes requests")) == seen == about(service, "app.py")

    def test_type_and_agent_are_conditions_of_the_search_and_not_of_what_it_found(self, service: Any) -> None:
        for number in range(30):
            store(service, f"Routes requests, decision {number}.")
        store(service, "Routes requests, now and then, as many other things do.", PATTERN, agent="page_agent")
        for condition in ({"memory_type": PATTERN}, {"source_agent": "page_agent"}):
            (only,) = found(service, "routes requests", limit=1, **condition)
            assert only.startswith("Routes requests, now")

    def test_a_score_threshold_leaves_out_what_is_less_like_the_query(self, service: Any) -> None:
        store(service, "Flask routes requests.")
        assert found(service, "tea harvest in spring") == []
        assert found(service, "tea harvest and requests in spring", score_threshold=0.0)

    def test_a_score_threshold_of_zero_leaves_out_nothing(self, service: Any) -> None:
        store(service, "Flask routes requests.", PATTERN)
        store(service, "Jinja renders templates.", PATTERN)
        assert len(found(service, "what went wrong last time", memory_type=PATTERN, score_threshold=0)) == 2

    def test_ten_memories_are_found_where_nobody_says_how_many(self, service: Any) -> None:
        for number in range(12):
            store(service, f"Routes requests, decision {number}.")
        assert done(service.search_memories(FLASK, "routes requests"))["count"] == 10

    def test_memories_are_found_by_a_file_or_a_folder_above_it(self, service: Any) -> None:
        store(service, "One.", file_paths=["src/flask/app.py", "src/flask/cli.py"])
        store(service, "Two.", file_paths=["src/flask2/app.py"])
        assert about(service, "src/flask/app.py") == {"One."}
        assert about(service, "src/flask") == {"One."}
        assert about(service, "src/") == {"One.", "Two."}
        assert about(service, "docs", "src/flask2/app.py") == {"Two."}
        assert about(service, "app.py") == set()

    def test_the_same_key_again_stores_nothing_more_and_gives_the_same_memory(self, service: Any) -> None:
        first = store(service, "Stored by a call.", idempotency_key="thread-1:call-1")
        assert store(service, "Stored by a call.", idempotency_key="thread-1:call-1") == first
        assert store(service, "Stored by a call.", idempotency_key="thread-1:call-1", repository=TYPER) != first
        assert len(found(service, "stored by a call")) == 1

    def test_a_key_stores_again_what_was_purged(self, service: Any) -> None:
        first = store(service, "Stored by a call.", idempotency_key="thread-1:call-1")
        done(service.purge_memories(FLASK))
        second = store(service, "Stored by a call.", idempotency_key="thread-1:call-1")
        assert second != first
        assert found(service, "stored by a call") == ["Stored by a call."]

    def test_the_same_key_at_the_same_time_stores_one_memory(self, service: Any) -> None:
        async def together() -> list[Any]:
            call = partial(service.store_memory, FLASK, "Stored by a call.", DECISION, "a", idempotency_key="call-1")
            return await asyncio.gather(*(call() for _ in range(8)))

        assert len({result["memory_id"] for result in asyncio.run(together())}) == 1
        assert done(service.purge_memories(FLASK))["deleted_count"] == 1

    def test_a_long_memory_is_cut_at_a_sentence_and_says_so(self, service: Any) -> None:
        text = "A page follows its package. " * 200
        result = done(service.store_memory(FLASK, text, DECISION, "structure_agent"))
        (kept,) = found(service, "a page follows its package")
        assert kept.endswith("package.")
        assert MOST_CHARS - 60 < len(kept) <= MOST_CHARS
        assert (result["kept_chars"], result["given_chars"]) == (len(kept), len(text))

    def test_a_long_memory_without_sentences_is_cut_all_the_same(self, service: Any) -> None:
        store(service, "x" * 5_000, file_paths=["a"])
        (kept,) = about(service, "a")
        assert len(kept) == MOST_CHARS

    def test_bad_input_is_an_error_that_says_what_is_wrong(self, service: Any) -> None:
        call = partial(service.store_memory, FLASK, "x", DECISION, "structure_agent")
        assert "structural_decision, pattern_found" in failed(service.store_memory(FLASK, "x", "idea", "a"))["error"]
        assert "repository" in failed(service.store_memory(" ", "x", DECISION, "a"))["error"]
        assert "empty" in failed(service.store_memory(FLASK, "  ", DECISION, "a"))["error"]
        assert "points outside" in failed(call(["../etc/passwd"]))["error"]
        assert "limit" in failed(service.search_memories(FLASK, "x", limit=0))["error"]
        assert "list" in failed(service.get_memories_by_files(FLASK, "app.py"))["error"]

    def test_many_repositories_at_once_through_one_service_never_mix(self, service: Any) -> None:
        repositories = [uuid4() for _ in range(25)]

        async def remember(repository: UUID, number: int) -> Any:
            text = f"Routes requests of {repository}, decision {number}."
            return await service.store_memory(repository, text, DECISION, "page_agent", ["app.py"])

        async def together() -> list[Any]:
            calls = (remember(repository, number) for number in range(4) for repository in repositories)
            return await asyncio.gather(*calls)

        assert all(result["status"] == "success" for result in asyncio.run(together()))
        for repository in repositories:
            texts = about(service, "app.py", repository=repository)
            assert len(texts) == 4
            assert all(str(repository) in text for text in texts)

    def test_agents_of_a_new_generation_see_nothing_of_the_old_one_and_nobody_else_sees_theirs(
        self, service: Any
    ) -> None:
        store(service, "Old: routes requests.", file_paths=["app.py"])
        store(service, "New: routes requests.", generation="2", file_paths=["app.py"])
        assert found(service, "routes requests", generation="2") == ["New: routes requests."]
        assert about(service, "app.py", generation="2") == {"New: routes requests."}
        assert found(service, "routes requests") == ["Old: routes requests."]
        assert about(service, "app.py") == {"Old: routes requests."}

    def test_a_generation_that_failed_is_purged_alone(self, service: Any) -> None:
        store(service, "Old: routes requests.")
        store(service, "New: routes requests.", generation="2")
        assert done(service.purge_memories(FLASK, generation="2"))["deleted_count"] == 1
        assert found(service, "routes requests") == ["Old: routes requests."]
        store(service, "New: routes requests.", generation="2")
        assert done(service.purge_memories(FLASK, generation="2", erase=True))["deleted_count"] == 2
        assert done(service.purge_memories(FLASK))["deleted_count"] == 1

    def test_a_branch_has_generations_of_its_own_and_sees_what_holds_for_all_branches(self, service: Any) -> None:
        store(service, "All: routes requests.", file_paths=["app.py"])
        store(service, "Main, old: routes requests.", branch="main")
        store(service, "Next: routes requests.", branch="next")
        store(service, "Main, new: routes requests.", branch="main", generation="2")
        assert set(found(service, "routes requests", branch="main", generation="2")) == {
            "All: routes requests.",
            "Main, new: routes requests.",
        }
        assert done(service.complete_generation(FLASK, "2", branch="main"))["deleted_count"] == 1
        assert set(found(service, "routes requests", branch="main")) == {
            "All: routes requests.",
            "Main, new: routes requests.",
        }
        assert set(found(service, "routes requests", branch="next")) == {
            "All: routes requests.",
            "Next: routes requests.",
        }
        assert about(service, "app.py", branch="main") == {"All: routes requests."}

    def test_a_bad_generation_is_an_error_and_no_other_generation(self, service: Any) -> None:
        assert "generation" in failed(service.search_memories(FLASK, "routes", generation=" "))["error"]
        assert "generation" in failed(service.complete_generation(FLASK, "x" * 300))["error"]

    def test_a_secret_in_a_memory_is_kept_nowhere(self, service: Any) -> None:
        held = "AKIAIOSFODNN7EXAMPLE"
        store(service, f"Use {held} for the bucket.", file_paths=["app.py"], related_pages=[f"page of {held}"])
        (memory,) = done(service.get_memories_by_files(FLASK, ["app.py"]))["memories"]
        assert "for the bucket" in memory["content"]
        assert held not in repr(memory)

    def test_a_purge_that_erases_leaves_nothing(self, service: Any) -> None:
        store(service, "Routes requests.", file_paths=["app.py"])
        store(service, "Routes requests.", repository=TYPER, file_paths=["app.py"])
        assert done(service.purge_memories(FLASK, erase=True))["deleted_count"] == 1
        assert about(service, "app.py") == set()
        assert found(service, "routes requests") == []
        assert found(service, "routes requests", repository=TYPER) == ["Routes requests."]

    def test_a_complete_generation_takes_the_place_of_all_others(self, service: Any) -> None:
        for text in ("Old: routes requests.", "Older: routes requests."):
            store(service, text, file_paths=["app.py"])
        store(service, "Failed: routes requests.", generation="2")
        store(service, "New: routes requests.", generation="3", file_paths=["app.py"])
        completed = done(service.complete_generation(FLASK, "3"))
        assert (completed["deleted_count"], completed["generation"]) == (3, "3")
        assert found(service, "routes requests") == ["New: routes requests."]
        assert about(service, "app.py") == {"New: routes requests."}
        store(service, "Later: routes requests.")
        assert len(found(service, "routes requests", generation="3")) == 2
        assert done(service.complete_generation(FLASK, "3"))["deleted_count"] == 0
