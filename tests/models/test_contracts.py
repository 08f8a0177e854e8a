"""The language models, embedders and rerankers that come with Treering, held to the contracts of their ports."""

import json

import pytest
from pydantic_ai.messages import ModelResponse, TextPart
from pydantic_ai.messages import ToolCallPart as CallPart
from pydantic_ai.models.function import DeltaToolCall, FunctionModel

from model_endpoint import endpoint
from treering.models.embedders import open_embedder
from treering.models.language_models import PydanticAIModel, ScriptedModel
from treering.models.onnx import BgeSmall
from treering.models.static_model import StaticEmbedder
from treering.ports.models import ToolCall
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

    async def stream(messages, info):
        given = next(left)
        for word in given.splitlines(keepends=True) if isinstance(given, str) else ():
            yield word
        for at, call in enumerate(() if isinstance(given, str) else given):
            yield {at: DeltaToolCall(call.name, json.dumps(dict(call.arguments)), tool_call_id=call.id)}

    return FunctionModel(respond, stream_function=stream)


def _call(call: ToolCall) -> CallPart:
    return CallPart(call.name, json.dumps(dict(call.arguments)), call.id)
