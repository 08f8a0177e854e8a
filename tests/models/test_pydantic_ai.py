"""The adapter for language models, with pydantic-ai's own test models and with a real endpoint on this machine."""

import asyncio
import json
import subprocess
import sys
import threading
from concurrent.futures import ThreadPoolExecutor
from contextlib import nullcontext
from decimal import Decimal
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer

import pytest
from pydantic_ai.messages import ModelResponse, TextPart
from pydantic_ai.models.function import FunctionModel
from pydantic_ai.models.openai import OpenAIChatModel
from pydantic_ai.models.test import TestModel
from pydantic_ai.providers.openai import OpenAIProvider
from pydantic_ai.usage import RequestUsage

from treering.core.errors import InvalidInput, MissingExtra, TreeringError, Unavailable
from treering.extensions.encoder.language_model import SystemText, ToolCall, ToolResult, ToolSpec, UserText
from treering.extensions.encoder.language_models import PydanticAIModel, open_model
from treering.extensions.encoder.provider_calls import ModelLoop

KEY = "a-key-nobody-may-see"
USAGE = {"prompt_tokens": 1_000, "completion_tokens": 200, "total_tokens": 1_200}


def completion(text, **more):
    choice = {"index": 0, "finish_reason": "stop", "message": {"role": "assistant", "content": text}}
    return {"id": "c", "object": "chat.completion", "created": 1, "model": "qwen3", "choices": [choice], **more}


class Endpoint(ThreadingHTTPServer):
    """Answers as it is told, one reply after the other, the last for ever; keeps what it was asked."""

    daemon_threads = True

    def __init__(self):
        super().__init__(("127.0.0.1", 0), _Handler)
        self.replies = [(200, completion("Bonjour.", usage=USAGE))]
        self.requests = []
        self.url = f"http://127.0.0.1:{self.server_port}/v1"

    def reply(self, *replies):
        self.replies = list(replies)


class _Handler(BaseHTTPRequestHandler):
    def do_POST(self):
        body = json.loads(self.rfile.read(int(self.headers["Content-Length"])))
        self.server.requests.append((self.path, self.headers.get("Authorization"), body))
        status, reply = self.server.replies[0]
        if len(self.server.replies) > 1:
            self.server.replies.pop(0)
        content = reply if isinstance(reply, bytes) else json.dumps(reply).encode()
        self.send_response(status)
        self.send_header("Content-Type", "application/json")
        self.send_header("Content-Length", str(len(content)))
        self.send_header("Retry-After-Ms", "1")
        self.end_headers()
        self.wfile.write(content)

    def log_message(self, *_):
        pass


@pytest.fixture
def endpoint():
    server = Endpoint()
    thread = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.01})
    thread.start()
    yield server
    server.shutdown()
    server.server_close()
    thread.join()


@pytest.fixture
def opened():
    """Keep models, and close them after the test."""
    models = []

    def keep(model):
        models.append(model)
        return model

    yield keep
    for model in models:
        model.close()


@pytest.fixture
def model(endpoint, opened):
    return opened(open_model("qwen3:8b", base_url=endpoint.url, api_key=KEY))


def echo(messages, info):
    return ModelResponse([TextPart(f"{info.instructions}|{messages[-1].parts[-1].content}")])


def test_a_prompt_and_its_system_text_reach_the_model_and_its_words_come_back(opened):
    assert opened(PydanticAIModel(FunctionModel(echo))).answer("Why?", system="Be brief.").text == "Be brief.|Why?"


def test_a_model_that_says_nothing_answers_with_an_empty_text(opened):
    assert opened(PydanticAIModel(TestModel(custom_output_text=""))).answer("Why?").text == ""


def test_what_was_used_is_what_the_provider_says(opened):
    def respond(messages, info):
        return ModelResponse([TextPart("ok")], usage=RequestUsage(input_tokens=70, output_tokens=5))

    usage = opened(PydanticAIModel(FunctionModel(respond))).answer("Why?").usage
    assert (usage.requests, usage.input_tokens, usage.output_tokens, usage.cost) == (1, 70, 5, None)


def test_an_endpoint_that_does_not_say_what_was_used_is_estimated(endpoint, model):
    endpoint.reply((200, completion("word " * 100)))
    usage = model.answer("word " * 400).usage
    assert usage.input_tokens > 400
    assert usage.output_tokens > 100


def test_an_endpoint_is_asked_under_its_url_with_its_key_and_the_longest_answer_allowed(endpoint, model):
    assert model.answer("Say hello in French.", system="You translate.", max_output_tokens=77).text == "Bonjour."
    (path, authorization, body) = endpoint.requests[0]
    assert (path, authorization, body["model"]) == ("/v1/chat/completions", f"Bearer {KEY}", "qwen3:8b")
    assert [message["content"] for message in body["messages"]] == ["You translate.", "Say hello in French."]
    assert 77 in {body.get("max_tokens"), body.get("max_completion_tokens")}


def test_an_endpoint_without_a_key_is_not_sent_that_of_another_provider(endpoint, opened, monkeypatch):
    monkeypatch.setenv("OPENAI_API_KEY", KEY)
    opened(open_model("qwen3", base_url=endpoint.url)).answer("Hello?")
    assert KEY not in endpoint.requests[0][1]


def test_the_id_of_a_model_says_which_it_is_but_not_where(model, endpoint):
    assert model.model_id == "custom:qwen3:8b"


def test_the_price_of_a_model_on_an_endpoint_of_ones_own_is_not_known(model):
    assert model.price(input_tokens=1_000_000, output_tokens=0) is None
    assert model.answer("Hello?").usage.cost is None


def test_a_known_model_has_its_price_and_its_answers_cost_it(endpoint, opened):
    known = opened(PydanticAIModel(OpenAIChatModel("gpt-4o-mini", provider=OpenAIProvider(endpoint.url, KEY))))
    assert known.price(input_tokens=1_000_000, output_tokens=1_000_000) == Decimal("0.75")
    assert known.answer("Hello?").usage.cost == Decimal("0.00027")


def test_a_busy_endpoint_is_asked_again_until_it_answers(endpoint, model):
    endpoint.reply((429, {}), (503, {}), (200, completion("At last.")))
    assert model.answer("Hello?").text == "At last."


ERROR = {"error": {"message": f"{KEY} is odd", "type": "t", "code": "c"}}


@pytest.mark.parametrize(
    ("status", "reply", "expected", "says"),
    [
        (401, ERROR, InvalidInput, "rejected the key"),
        (403, ERROR, InvalidInput, "rejected the key"),
        (404, ERROR, InvalidInput, "has no model"),
        (400, ERROR, InvalidInput, r"rejected the request \(400\). \[redacted\] is odd"),
        (400, {"error": {"message": "long", "code": "context_length_exceeded"}}, InvalidInput, "too long"),
        (402, ERROR, Unavailable, "no credit"),
        (429, ERROR, Unavailable, "does not accept more requests"),
        (500, ERROR, Unavailable, "failed"),
        (503, b"<html>oops</html>", Unavailable, "failed"),
        (200, b"<html>A login page</html>", Unavailable, "failed. Failed to decode"),
        (200, b"{}", Unavailable, "an invalid response"),
        (200, b"[1, 2", Unavailable, "failed. Failed to decode"),
        (200, b'{"choices": 7}', Unavailable, "an invalid response"),
    ],
)
def test_what_an_endpoint_refuses_or_garbles_is_one_of_our_errors(endpoint, model, status, reply, expected, says):
    endpoint.reply((status, reply))
    with pytest.raises(expected, match=says) as refusal:
        model.answer("Hello?")
    assert refusal.value.hint
    assert KEY not in json.dumps(refusal.value.as_dict())
    assert refusal.value.__suppress_context__


def test_an_endpoint_that_is_not_there_is_unavailable(endpoint, opened):
    with pytest.raises(Unavailable, match="Cannot reach"):
        opened(open_model("qwen3", base_url="http://127.0.0.1:9/v1")).answer("Hello?")


def test_an_answer_that_takes_too_long_is_given_up(opened):
    async def wait_for_ever(messages, info):
        await asyncio.Event().wait()

    with pytest.raises(Unavailable, match="in time"):
        opened(PydanticAIModel(FunctionModel(wait_for_ever), timeout_seconds=0.05)).answer("Hello?")


@pytest.mark.parametrize(
    ("name", "options", "says"),
    [
        ("", {}, "Unknown model"),
        ("gpt", {}, "Unknown model"),
        ("nobody:gpt", {}, "Unknown model"),
        ("nobody:gpt", {"api_key": KEY}, "Unknown provider"),
        ("gateway/openai:gpt-4o", {"api_key": KEY}, "does not take a key here"),
        ("openai:gpt-4o", {}, "OPENAI_API_KEY"),
        ("qwen3", {"base_url": "localhost:11434"}, "http://"),
        ("", {"base_url": "http://localhost:11434"}, "name"),
    ],
)
def test_a_model_that_cannot_be_opened_is_refused_before_anything_is_sent(name, options, says, monkeypatch):
    monkeypatch.delenv("OPENAI_API_KEY", raising=False)
    with pytest.raises(InvalidInput, match=says) as refusal:
        open_model(name, **options)
    assert "PROVIDER:MODEL" in refusal.value.hint
    assert KEY not in str(refusal.value.as_dict())


def test_missing_key_is_reported_by_its_variable(monkeypatch):
    monkeypatch.delenv("OPENAI_API_KEY", raising=False)
    with pytest.raises(InvalidInput) as refusal:
        open_model("openai:gpt-4o")
    assert refusal.value.message == (
        "The model 'openai:gpt-4o' cannot be opened. The provider needs the environment variable OPENAI_API_KEY."
    )


def test_a_given_key_opens_a_known_model(opened, monkeypatch):
    monkeypatch.delenv("OPENAI_API_KEY", raising=False)
    assert opened(open_model("openai:gpt-4o-mini", api_key=KEY)).model_id == "openai:gpt-4o-mini"


def test_many_threads_share_one_model(endpoint, model):
    with ThreadPoolExecutor(8) as pool:
        answers = list(pool.map(model.answer, ["Hello?"] * 24))
    assert {answer.text for answer in answers} == {"Bonjour."}


def test_a_model_answers_under_a_running_event_loop(model):
    async def ask():
        return model.answer("Hello?").text

    assert asyncio.run(ask()) == "Bonjour."


def test_a_closed_model_opens_new_connections(model):
    for _ in range(2):
        assert model.answer("Hello?").text == "Bonjour."
        model.close()


def test_without_the_extra_it_is_named(monkeypatch):
    monkeypatch.setitem(sys.modules, "pydantic_ai", None)
    with pytest.raises(MissingExtra, match="'llm'"):
        open_model("openai:gpt-4o-mini")


def test_a_provider_whose_package_is_missing_is_named_with_what_to_install(monkeypatch):
    monkeypatch.setitem(sys.modules, "anthropic", None)
    with pytest.raises(TreeringError) as refusal:
        open_model("anthropic:claude-haiku-4-5", api_key=KEY)
    assert "pydantic-ai-slim[anthropic]" in refusal.value.hint


def test_importing_the_adapter_imports_no_provider():
    program = (
        "import sys, treering.extensions.encoder.language_models; "
        "sys.exit(any(name in sys.modules for name in ('pydantic_ai', 'openai', 'genai_prices')))"
    )
    assert subprocess.run([sys.executable, "-c", program], check=False).returncode == 0


@pytest.mark.nightly
def test_a_program_that_forgets_to_close_its_model_ends_all_the_same(endpoint):
    program = (
        "from treering.extensions.encoder.language_models import open_model; "
        f"print(open_model('qwen3', base_url={endpoint.url!r}).answer('Hello?').text)"
    )
    ended = subprocess.run([sys.executable, "-W", "error", "-c", program], capture_output=True, text=True, timeout=60)
    assert (ended.returncode, ended.stdout, ended.stderr) == (0, "Bonjour.\n", "")


WEATHER = ToolSpec("weather", "Tell the weather.", {"type": "object", "properties": {"town": {"type": "string"}}})
WISH = {
    "role": "assistant",
    "content": None,
    "tool_calls": [
        {"id": "c1", "type": "function", "function": {"name": "weather", "arguments": '{"town": "Ulm"}'}},
    ],
}


def wishing(**changes):
    reply = completion("", usage=USAGE)
    reply["choices"][0] |= {"finish_reason": "tool_calls", "message": {**WISH, **changes}}
    return reply


def test_tools_and_their_results_reach_an_endpoint_as_it_knows_them(endpoint, model):
    endpoint.reply((200, wishing()), (200, completion("It rains.", usage=USAGE)))
    messages = [SystemText("You know Ulm."), UserText("How is the weather?")]
    wish = model.answer(messages, system="Be brief.", tools=[WEATHER])
    assert wish.tool_calls == (ToolCall("weather", {"town": "Ulm"}, "c1"),)
    said = model.answer([*messages, wish.message(), ToolResult(wish.tool_calls[0], "rain")], tools=[WEATHER])

    assert said.text == "It rains."
    first, second = (body for _, _, body in endpoint.requests)
    assert first["tools"][0]["function"]["name"] == "weather"
    assert first["tools"][0]["function"]["parameters"]["properties"] == {"town": {"type": "string"}}
    told = [message["content"] for message in first["messages"]]
    assert (sorted(told[:-1]), told[-1]) == (["Be brief.", "You know Ulm."], "How is the weather?")
    *_, called, result = second["messages"]
    assert called["tool_calls"][0]["id"] == result["tool_call_id"] == "c1"
    assert (result["role"], result["content"]) == ("tool", "rain")


def test_a_call_with_arguments_that_are_no_object_is_no_answer(endpoint, model):
    call = {"id": "c1", "type": "function", "function": {"name": "weather", "arguments": "[1"}}
    endpoint.reply((200, wishing(tool_calls=[call])))
    with pytest.raises(Unavailable, match="an invalid response"):
        model.answer("How is the weather?", tools=[WEATHER])


def test_a_generator_left_open_is_closed_in_its_own_loop():
    closed = []

    async def told():
        try:
            yield 1
        finally:
            closed.append(asyncio.get_running_loop())

    left = told()

    async def work():
        return await anext(left)

    loop = ModelLoop(nullcontext())
    threads = {*threading.enumerate()}
    assert loop.run(work()) == 1
    (thread,) = {*threading.enumerate()} - threads
    loop.close()
    thread.join(30)
    assert len(closed) == 1
