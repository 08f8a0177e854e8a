"""The adapter for embedding models, with a real endpoint on this machine."""

import sys

import numpy as np
import pytest

from model_endpoint import endpoint
from treering.core.errors import InvalidInput, MissingExtra, Unavailable
from treering.extensions.encoder.embedders import BATCH, LONGEST_CHARS, open_embedder, unrelated_below
from treering.extensions.encoder.onnx import UNRELATED_BELOW, BgeSmall
from treering.extensions.projects.spaces import ProjectModels


def test_its_id_names_model_and_dimension_and_never_the_url():
    with endpoint() as server:
        embedder = open_embedder("hashed-words", base_url=server.url)
    assert embedder.model_id == f"custom:hashed-words:{embedder.dimension}"


def test_many_texts_go_in_bounded_requests_and_a_long_one_is_cut():
    with endpoint() as server:
        embedder = open_embedder("hashed-words", base_url=server.url)
        server.requests.clear()
        vectors = embedder.embed_documents([f"text {n}" for n in range(BATCH + 1)] + ["long " * LONGEST_CHARS])
        sent = [body["input"] for _, body in server.requests]
    assert vectors.shape == (BATCH + 2, embedder.dimension)
    assert [len(texts) for texts in sent] == [BATCH, 2]
    assert max(len(text) for texts in sent for text in texts) == LONGEST_CHARS


def test_the_cut_it_finds_for_the_built_in_model_is_the_one_that_was_measured():
    model = BgeSmall()

    def embed(texts, *, query):
        return np.stack([model.embed_query(text) for text in texts]) if query else model.embed_documents(texts)

    cut, dimension = unrelated_below(embed)
    assert cut == pytest.approx(UNRELATED_BELOW, abs=0.01)
    assert dimension == model.dimension


def test_an_endpoint_that_cannot_be_reached_is_unavailable_and_named():
    with endpoint() as server:
        url = server.url
    with pytest.raises(Unavailable, match="custom:gone"):
        open_embedder("gone", base_url=url)


def test_unknown_name_is_refused():
    for name in ("nobody:model", "a-model-without-provider"):
        with pytest.raises(InvalidInput, match="cannot be opened"):
            open_embedder(name)


def test_without_the_extra_its_name_is_said(monkeypatch):
    monkeypatch.setitem(sys.modules, "pydantic_ai", None)
    monkeypatch.setattr("treering.extensions.encoder.embedders.find_spec", lambda _: None)
    with pytest.raises(MissingExtra, match="llm"):
        open_embedder("openai:text-embedding-3-small")


def test_a_plain_name_without_a_url_is_a_model_of_openai(monkeypatch):
    monkeypatch.setenv("OPENAI_API_KEY", "a-key")
    assert ProjectModels(llm_model_name="gpt-4o-mini").open_model().model_id == "openai:gpt-4o-mini"
    assert ProjectModels().open_model() is None
    assert ProjectModels().open_embedder() is None
