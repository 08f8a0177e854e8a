"""Which embedding model a client uses, and what becomes of a space that was kept with another."""

import threading

import client_parts
import pytest

import treering
from treering.client import BlockingMemoryClient
from treering.extensions.encoder.embedders import FunctionEmbedder
from treering.testing import EmbedderContract, HashingEmbedder

HASHING = HashingEmbedder(64)


def vectors_of(texts):
    """Embed as a host's function does: lists of numbers, of any length."""
    return (3 * HASHING.embed_documents(texts)).tolist()


def configured(tmp_path, **vector_store):
    return client_parts.config(
        backend="sqlite", sqlite={"path": str(tmp_path / "memory.db")}, vector_store=vector_store
    )


class TestFunctionEmbedder(EmbedderContract):
    @pytest.fixture
    def embedder(self):
        return FunctionEmbedder(vectors_of, "hashing")


def test_a_function_of_texts_is_an_embedding_model(tmp_path):
    config = configured(tmp_path, embedding_model="own-model", embedding_dimension=64)
    with BlockingMemoryClient(config, embedder=vectors_of, background=False) as client:
        client.store("Salmon quantified 12 samples")
        client.catch_up()
        assert client.retrieve("salmon samples")[0].content == "Salmon quantified 12 samples"


@pytest.mark.parametrize("embedder", [HASHING, vectors_of], ids=["embedder", "function"])
def test_a_dimension_that_the_model_does_not_have_names_the_repair(tmp_path, embedder):
    config = configured(tmp_path, embedding_model="own-model", embedding_dimension=768)
    with pytest.raises(treering.InvalidInput, match=r"is 768, but .* has 64") as refused:
        BlockingMemoryClient(config, embedder=embedder, background=False).store("Anything")
    assert "Set it to 64" in refused.value.hint
    assert not list(tmp_path.iterdir())


@pytest.mark.parametrize(
    ("name", "hint"),
    [
        ("sentence-transformers/all-mpnet-base-v2", "pip install 'treering[llm]' sentence-transformers"),
        ("all-mpnet-base-v2", "PROVIDER:MODEL"),
    ],
)
def test_a_model_that_cannot_be_had_says_what_to_install_or_to_write(tmp_path, name, hint):
    with pytest.raises(treering.InvalidInput, match="is not built in") as refused:
        BlockingMemoryClient(configured(tmp_path, embedding_model=name))
    assert hint in refused.value.hint


def test_a_model_of_a_provider_without_its_key_opens_nothing(tmp_path, monkeypatch):
    monkeypatch.delenv("OPENAI_API_KEY", raising=False)
    config = configured(tmp_path, embedding_model="openai:text-embedding-3-small", embedding_dimension=1536)
    with pytest.raises(treering.InvalidInput, match="text-embedding-3-small"):
        BlockingMemoryClient(config).store("Anything")
    assert not list(tmp_path.iterdir())


@pytest.mark.parametrize("answer", [[], [[0.0, 0.0]], [[1.0], [1.0, 2.0]], [["a"]]])
def test_a_function_that_gives_no_vectors_is_reported(tmp_path, answer):
    client = BlockingMemoryClient(configured(tmp_path), embedder=lambda _: answer, background=False)
    with pytest.raises(treering.Unavailable, match="vector"):
        client.store("Anything")


def test_exception_of_a_function_is_reported(tmp_path):
    def broken(texts):
        raise OSError("the model is not loaded")

    client = BlockingMemoryClient(configured(tmp_path), embedder=broken, background=False)
    with pytest.raises(treering.Unavailable, match="the model is not loaded"):
        client.store("Anything")


def test_a_space_kept_with_another_model_is_embedded_again_and_found_meanwhile(tmp_path):
    texts = [f"Alignment {number} of the reads" for number in range(5)]
    with client_parts.blocking(configured(tmp_path)) as client:
        for text in texts:
            client.store(text)
        client.catch_up()
    asked = []

    def counted(given):
        asked.extend(given)
        return vectors_of(given)

    config = configured(tmp_path, embedding_model="own-model")
    for _ in range(2):
        with BlockingMemoryClient(config, embedder=counted, background=False) as client:
            assert client.retrieve("alignment 3 reads", top_k=1)[0].content == texts[3]
            client.catch_up()
            assert client.retrieve("alignment 3 reads", top_k=1)[0].content == texts[3]
    assert sorted(set(asked) & set(texts)) == texts
    assert all(asked.count(text) == 1 for text in texts)


def test_a_space_kept_with_another_model_is_embedded_again_in_the_background(tmp_path):
    with client_parts.blocking(configured(tmp_path)) as client:
        client.store("Salmon quantified 12 samples")
        client.catch_up()
    embedded = threading.Event()

    def told(texts):
        if "Salmon quantified 12 samples" in texts:
            embedded.set()
        return vectors_of(texts)

    config = configured(tmp_path, embedding_model="own-model")
    with BlockingMemoryClient(config, embedder=told, background=True) as client:
        client.retrieve("anything")
        assert embedded.wait(60)
