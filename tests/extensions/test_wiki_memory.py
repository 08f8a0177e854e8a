"""What wiki agents remember: kept apart by repository, found by meaning, type and file, purged and brought back."""

import pytest

import treering
from treering.core.errors import NotFound
from treering.core.objects import Source
from treering.extensions.encoder.embedders import FunctionEmbedder
from treering.testing.fakes import HashingEmbedder
from treering.testing.wiki_memory_contract import DECISION, FLASK, WikiMemoryContract, about, done, failed, found, store
from treering.wiki import WikiMemoryService


@pytest.fixture
def space(tmp_path):
    with treering.open(
        f"sqlite:{tmp_path / 's.db'}", channel="user", background=False, embedder=HashingEmbedder()
    ) as space:
        yield space


@pytest.fixture
def service(space):
    return WikiMemoryService(space)


class TestMemoriesInASpace(WikiMemoryContract):
    """The fixtures of this module are its store."""


def test_a_purge_is_one_patch_that_can_be_reverted(service, space):
    for number in range(3):
        store(service, f"Routes requests, decision {number}.", file_paths=["app.py"])
    assert done(service.purge_memories(FLASK)) == {
        "status": "success",
        "deleted_count": 3,
        "repository_id": str(FLASK),
    }
    assert found(service, "routes requests") == []
    assert about(service, "app.py") == set()
    assert done(service.purge_memories(FLASK))["deleted_count"] == 0
    newest = space.engine.ledger.patches(limit=1)[0]
    space.engine.ledger.revert(newest.id, by=space.engine.author, reason="The new wiki was not good.")
    assert len(found(service, "routes requests")) == 3


def test_a_purge_that_erases_leaves_nothing_in_the_ledger(service, space):
    kept = store(service, "Routes requests.", file_paths=["app.py"])
    assert done(service.purge_memories(FLASK, erase=True))["deleted_count"] == 1
    with pytest.raises(NotFound):
        space.engine.ledger.get(kept)
    assert about(service, "app.py") == set()


def test_a_secret_in_a_memory_is_redacted(service, space):
    kept = space.engine.ledger.get(store(service, "Use AKIAIOSFODNN7EXAMPLE for the bucket."))
    assert isinstance(kept, Source)
    assert "AKIAIOSFODNN7EXAMPLE" not in repr(kept)


CONCEPTS = [{"routes", "urls", "paths"}, {"templates", "jinja", "pages"}, {"tests", "pytest"}]


def concepts(texts):
    """Embed by the concepts that the words of a text belong to, and a little by the words themselves."""
    words = HashingEmbedder().embed_documents(texts) / 4
    said = [set(text.lower().split()) for text in texts]
    return [[*(len(known & one) for known in CONCEPTS), *row] for one, row in zip(said, words.tolist(), strict=True)]


def test_memories_are_found_by_meaning_the_most_relevant_first():
    with treering.open(
        ":memory:", channel="user", background=False, embedder=FunctionEmbedder(concepts, "concepts")
    ) as space:
        service = WikiMemoryService(space)
        for text in ("Templates belong to routes and paths", "Pytest runs nightly", "Routes stand in one map"):
            store(service, text)
        space.engine.vectoriser.finish(lambda *_: None)
        best_first = found(service, "where are urls", score_threshold=0.0)
    assert best_first == ["Routes stand in one map", "Templates belong to routes and paths", "Pytest runs nightly"]


class Broken:
    """A store whose database is gone."""

    def search(self, *_, **__):
        raise OSError("cannot connect to 10.0.0.7 as admin:hunter2")


def test_an_error_names_nothing_of_what_is_inside(caplog):
    result = failed(WikiMemoryService(Broken()).search_memories(FLASK, "routes"))
    assert result["error_type"] == "OSError"
    assert "hunter2" not in str(result)
    assert "10.0.0.7" in caplog.text


def test_without_arguments_the_space_that_the_settings_name_is_opened(tmp_path, monkeypatch):
    monkeypatch.setenv("TREERING_SPACE", f"sqlite:{tmp_path / 'own.db'}")
    monkeypatch.setenv("TREERING_BACKGROUND", "0")

    async def remember():
        async with WikiMemoryService(embedder=HashingEmbedder()) as service:
            return await service.store_memory(FLASK, "Routes requests.", DECISION, "structure_agent")

    done(remember())
    assert done(WikiMemoryService.purge_for_repository(FLASK))["deleted_count"] == 1


@pytest.mark.parametrize("name", ["TREERING_SPACE", "TREERING_WIKI_MEMORY"])
@pytest.mark.parametrize(
    ("place", "reason"),
    [
        ("postgresqq://admin:hunter2@db.example.org/db", "Unknown backend 'postgresqq'"),
        ("mongodb://admin:hunter2@localhost:70000/x", ""),
        ("sqlite:.", "is a folder"),
        ("sqlite:readme.md", "is not a Treering space"),
        ("postgresql://admin:hunter2@localhost/db?space=a&color=red", ""),
    ],
)
def test_wrong_place_is_an_error_with_its_reason(tmp_path, monkeypatch, name, place, reason):
    (tmp_path / "readme.md").write_text("# Not a database, but a text of more than a hundred characters.\n" * 20)
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv(name, place)

    result = failed(WikiMemoryService(embedder=HashingEmbedder()).search_memories(FLASK, "routes"))

    assert result["error_type"] == "InvalidInput"
    assert reason in result["error"]
    assert f"Correct {name}." in result["error"]
    assert "Repeat the call" not in result["error"]
    assert "hunter2" not in result["error"]


def test_a_generation_that_is_complete_replaces_all_others_in_one_patch(service, space):
    for text in ("Old: routes requests.", "Older: routes requests."):
        store(service, text, file_paths=["app.py"])
    store(service, "Failed: routes requests.", generation="2")
    store(service, "New: routes requests.", generation="3", file_paths=["app.py"])
    completed = done(service.complete_generation(FLASK, "3"))
    assert completed == {
        "status": "success",
        "deleted_count": 3,
        "repository_id": str(FLASK),
        "generation": "3",
    }
    assert found(service, "routes requests") == ["New: routes requests."]
    assert about(service, "app.py") == {"New: routes requests."}
    store(service, "Later: routes requests.")
    assert len(found(service, "routes requests", generation="3")) == 2
    assert done(service.complete_generation(FLASK, "3"))["deleted_count"] == 0
    newest = space.engine.ledger.patches(limit=2)[1]
    assert newest.reason == "Completed a generation of a wiki"
    space.engine.ledger.revert(newest.id, by=space.engine.author, reason="The new wiki was not good.")
    assert set(found(service, "routes requests")) == {"Old: routes requests.", "Older: routes requests."}
    assert done(service.complete_generation(FLASK, "3"))["deleted_count"] == 3
    assert set(found(service, "routes requests")) == {"New: routes requests.", "Later: routes requests."}


def test_a_store_without_generations_refuses_one_instead_of_mixing_them():
    class Plain:
        """A store that knows nothing of generations."""

        def store(self, repository, draft, *, key=None): ...
        def search(self, repository, query, **options): ...
        def by_files(self, repository, file_paths): ...
        def purge(self, repository, *, erase=False): ...

    result = failed(WikiMemoryService(Plain()).search_memories(FLASK, "routes", generation="2"))
    assert "cannot separate generations" in result["error"]
