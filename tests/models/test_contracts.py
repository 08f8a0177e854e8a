"""The language models, embedders and rerankers that come with Treering, held to the contracts of their ports."""

import json

import numpy as np
import pytest
from pydantic_ai.messages import ModelResponse, TextPart
from pydantic_ai.messages import ToolCallPart as CallPart
from pydantic_ai.models.function import FunctionModel

import treering
from model_endpoint import endpoint
from treering.core.errors import InvalidInput
from treering.extensions.encoder import onnx
from treering.extensions.encoder.embedders import open_embedder
from treering.extensions.encoder.language_model import ToolCall
from treering.extensions.encoder.language_models import PydanticAIModel, ScriptedModel
from treering.extensions.encoder.onnx import BgeSmall
from treering.models import shipped as shipped_files
from treering.models.static_model import StaticEmbedder
from treering.ports.search import Lag
from treering.retrieval.index.rounds import lag_of
from treering.spaces.wiring import embedder_named
from treering.system.settings import Settings
from treering.testing.fakes import HashingEmbedder, OverlapReranker
from treering.testing.model_contracts import EmbedderContract, ModelContract, RerankerContract

_BGE = BgeSmall()  # loaded by its first text, once for all tests


class TestScriptedModel(ModelContract):
    @pytest.fixture
    def model_giving(self):
        return lambda *answers: ScriptedModel(answers)


class TestPydanticAI(ModelContract):
    """pydantic-ai with functions in place of a provider: the whole way but the network."""

    @pytest.fixture
    def model_giving(self):
        made = []

        def model_giving(*answers):
            made.append(PydanticAIModel(_function_model(answers)))
            return made[-1]

        yield model_giving
        for model in made:
            model.close()


class TestBge(EmbedderContract):
    @pytest.fixture
    def embedder(self):
        return _BGE


class TestStatic(EmbedderContract):
    @pytest.fixture
    def embedder(self):
        return StaticEmbedder()


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    """The built-in model as a sentence transformer is published."""
    made = tmp_path_factory.mktemp("bge")
    for name in (shipped_files.TOKENIZER, shipped_files.WEIGHTS):
        (made / name).write_bytes((shipped_files.place_of_model() / name).read_bytes())
    (made / "1_Pooling").mkdir()
    (made / "1_Pooling" / "config.json").write_text(json.dumps({"pooling_mode_cls_token": True}))
    prompts = {"prompts": {"query": onnx.QUERY_PREFIX}}
    (made / "config_sentence_transformers.json").write_text(json.dumps(prompts))
    return made


class TestFolder(EmbedderContract):
    @pytest.fixture
    def embedder(self, folder):
        return embedder_named(f"onnx:{folder}", Settings())


def test_a_sentence_transformer_in_a_folder_gives_the_vectors_that_its_files_say(folder):
    found, wanted = embedder_named(f"onnx:{folder}", Settings()), BgeSmall(max_tokens=onnx.LONGEST)
    text = "The cache is flushed before the writer process is forked."
    np.testing.assert_array_equal(found.embed_documents([text]), wanted.embed_documents([text]))
    np.testing.assert_array_equal(found.embed_query(text), wanted.embed_query(text))
    assert found.unrelated_below == pytest.approx(wanted.unrelated_below, abs=0.02)


@pytest.mark.parametrize(
    ("text", "known"),
    [
        ("When is the cache flushed?", True),
        ("Größe und Straße", True),
        ("Ключ от склада у садовника.", False),
        ("仓库钥匙在园丁那里。", False),
        ("გასაღები მებაღესთან", False),
        ("🐟🐟", False),
    ],
)
def test_folder_embedder_knows_texts_of_its_vocabulary(folder, text, known):
    assert embedder_named(f"onnx:{folder}", Settings()).knows(text) == known


def test_a_folder_without_a_network_and_a_name_of_nothing_are_refused(tmp_path):
    with pytest.raises(InvalidInput, match="of the embedder lacks"):
        embedder_named(f"onnx:{tmp_path}", Settings())
    with pytest.raises(InvalidInput, match="Unknown embedder 'nobody'"):
        embedder_named("nobody", Settings())


def test_a_model_of_an_endpoint_is_one_setting_beside_its_url_and_is_behind_the_quick_one(monkeypatch):
    with endpoint() as server:
        monkeypatch.setenv("TREERING_EMBEDDER", "hashed-words")
        monkeypatch.setenv("TREERING_EMBEDDER_URL", server.url)
        with treering.open(":memory:", background=False) as space:
            note = {"kind": "note", "origin": "1", "title": "Trip", "text": "Maria went hiking in the Dolomites."}
            space.ingest("source", input=note)
            lag = lag_of(space.engine.index)
            space.embed_pending()
            assert (lag, lag_of(space.engine.index)) == (Lag(1, 1, quick=1), Lag(0, 1))


class TestPydanticAIEmbedder(EmbedderContract):
    """A real client, a real connection, and an endpoint on this machine."""

    @pytest.fixture
    def embedder(self):
        with endpoint() as server:
            yield open_embedder("hashed-words", base_url=server.url)


class TestOverlap(RerankerContract):
    @pytest.fixture
    def reranker(self):
        return OverlapReranker()


class TestHashing(EmbedderContract):
    @pytest.fixture
    def embedder(self):
        return HashingEmbedder()


def _function_model(answers) -> FunctionModel:
    left = iter(answers)

    def respond(messages, info):
        given = next(left)
        return ModelResponse([TextPart(given)] if isinstance(given, str) else [_call(call) for call in given])

    return FunctionModel(respond)


def _call(call: ToolCall) -> CallPart:
    return CallPart(call.name, json.dumps(dict(call.arguments)), call.id)
