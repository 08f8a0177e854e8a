import json

import httpx
import openai as sdk
import pytest
from chat_parts import KEY, SILENCE, Answer, chat, chatting, completion, openai, said, scripted
from rest_parts import running

from treering.core.errors import InvalidInput
from treering.extensions.discussions.chat.upstream import UpstreamPlace
from treering.extensions.server.callers import Bounds

JSON = {"Content-Type": "application/json"}
PATH = "/v1/chat/completions"


@pytest.fixture(scope="module")
def standing(tmp_path_factory):
    """One server for all tests that change nothing of it, with its folder and its upstream."""
    folder = tmp_path_factory.mktemp("standing")
    with scripted() as script, chatting(folder, script, bounds=Bounds(max_body_bytes=150_000)) as client:
        yield folder, script, client


@pytest.fixture
def upstream(standing):
    standing[1].forget()
    return standing[1]


@pytest.fixture
def client(standing):
    return standing[2]


def test_a_chat_that_declines_memory_is_passed_on_as_it_came_and_leaves_nothing(tmp_path, upstream):
    body = b"""
    { "model":"m",  "messages" : [{"role":"user","content":"caf\\u00e9 \xe2\x98\x95", "x":1.0}], "temperature": 1.00e-3,
      "seed": 123456789012345678901234567890, "unknown": {"deep": [null, true, 0.1000]}, "big": 1e400}"""
    with chatting(tmp_path, upstream) as client:
        answer = client.post(
            f"{PATH}?api-version=2024-10-21&x=%2F", content=body, headers={**JSON, "X-Treering-Memory": "off"}
        )

    assert answer.json() == json.loads(completion("Noted."))
    assert answer.headers["x-treering-memory"] == "off; reason=asked"
    (asked,) = upstream.asked
    assert (asked.method, asked.path) == ("POST", f"{PATH}?api-version=2024-10-21&x=%2F")
    assert asked.body == body
    assert not (tmp_path / "space.db").exists()


def test_the_official_client_gets_what_the_upstream_says_and_its_tools_reach_it(client, upstream):
    call = {"id": "c1", "type": "function", "function": {"name": "look", "arguments": '{"at": "x"}'}}
    upstream.will(said(None, finish="tool_calls", tool_calls=[call]))
    tools = [{"type": "function", "function": {"name": "look", "parameters": {"type": "object", "properties": {}}}}]
    picture = {"type": "image_url", "image_url": {"url": "data:image/png;base64,AAAA", "detail": "low"}}
    messages = [{"role": "user", "content": [{"type": "text", "text": "What is it?"}, picture]}]
    shape = {"type": "json_schema", "json_schema": {"name": "x", "schema": {"type": "object"}, "strict": True}}
    with openai(client) as official:
        answer = official.chat.completions.create(
            model="m", messages=messages, tools=tools, tool_choice="auto", response_format=shape, seed=2**60, user="d"
        )

    assert answer.choices[0].message.tool_calls[0].function.arguments == '{"at": "x"}'
    sent = json.loads(upstream.asked[0].body)
    assert sent == {
        "model": "m",
        "messages": messages,
        "tools": tools,
        "tool_choice": "auto",
        "response_format": shape,
        "seed": 2**60,
        "user": "d",
    }


def test_the_key_of_the_client_is_passed_on_and_the_operators_only_where_there_is_none(client, upstream):
    with openai(client) as official:
        official.chat.completions.create(**chat("hi"))
    with openai(client, api_key="treering") as official:
        official.chat.completions.create(**chat("hi"))
    client.post(PATH, json=chat("hi"))
    client.post(PATH, json=chat("hi"), headers={"Authorization": "Bearer"})

    sent = [one.headers["authorization"] for one in upstream.asked]
    assert sent == ["Bearer sk-of-the-client", *[f"Bearer {KEY}"] * 3]


def test_headers_of_the_api_pass_both_ways_and_those_of_a_connection_or_a_site_do_not(client, upstream):
    given = {
        "Content-Type": "application/json",
        "X-Request-Id": "req_1",
        "OpenAI-Processing-Ms": "7",
        "X-RateLimit-Remaining-Tokens": "3",
        "Set-Cookie": "a=b",
        "Access-Control-Allow-Origin": "*",
        "Keep-Alive": "timeout=5",
        "X-Treering-Memory": "forged",
    }
    upstream.will(Answer([completion("x")], headers=given))
    sent = {"OpenAI-Organization": "o", "X-Title": "t", "Cookie": "c=d", "X-Treering-Scope": "/", "TE": "trailers"}
    answer = client.post(PATH, json=chat("hi"), headers=sent)

    (asked,) = upstream.asked
    assert (asked.headers["openai-organization"], asked.headers["x-title"]) == ("o", "t")
    assert not {"cookie", "te", "x-treering-scope"} & set(asked.headers)
    assert asked.headers["accept-encoding"] == "identity"
    assert asked.headers["host"] == upstream.url.split("/")[2]
    assert (answer.headers["x-request-id"], answer.headers["openai-processing-ms"]) == ("req_1", "7")
    assert answer.headers["x-ratelimit-remaining-tokens"] == "3"
    assert not {"set-cookie", "access-control-allow-origin", "keep-alive"} & set(answer.headers)
    assert len(answer.headers.get_list("x-treering-memory")) == 1


def test_a_cookie_of_the_upstream_goes_to_no_client_and_comes_back_with_no_request(client, upstream):
    cookies = {**JSON, "Set-Cookie": "session=of-the-first; Path=/"}
    listed = Answer([b'{"object": "list", "data": []}'], headers=cookies)
    upstream.will(Answer([completion("x")], headers=cookies), listed)
    first = client.post(PATH, json=chat("hi"), headers={"Authorization": "Bearer first"})
    models = client.get("/v1/models")
    client.post(PATH, json=chat("hi"), headers={"Authorization": "Bearer second"})
    client.get("/v1/models")

    assert "set-cookie" not in first.headers.keys() | models.headers.keys()
    assert [one.headers.get("cookie") for one in upstream.asked] == [None] * 4


@pytest.mark.parametrize(
    ("status", "error"),
    [
        (400, sdk.BadRequestError),
        (401, sdk.AuthenticationError),
        (404, sdk.NotFoundError),
        (429, sdk.RateLimitError),
        (500, sdk.InternalServerError),
        (503, sdk.InternalServerError),
    ],
)
def test_an_error_of_the_upstream_passes_through_as_it_is(client, upstream, status, error):
    body = b'{"error": {"message": "Because.", "type": "t", "param": "model", "code": "c"}, "more": 1.50}'
    headers = {"Content-Type": "application/json", "Retry-After": "17", "X-Request-Id": "req_2"}
    upstream.will(Answer([body], status, headers), Answer([body], status, headers))
    with openai(client) as official, pytest.raises(error) as raised:
        official.chat.completions.create(**chat("hi", user="d"))
    plain = client.post(PATH, json=chat("hi", user="d"))

    told = raised.value
    assert (told.status_code, told.code, told.param, told.request_id) == (status, "c", "model", "req_2")
    assert (plain.status_code, plain.content) == (status, body)
    assert plain.headers["retry-after"] == "17"


def test_what_is_no_chat_is_the_upstreams_to_refuse(client, upstream):
    for body in (b"{", b"[]", b'{"messages": 5}', b"\xff", b"[" * 100_000):
        answer = client.post(PATH, content=body, headers={**JSON, "X-Treering-Discussion": "d"})
        assert answer.headers["x-treering-memory"] == "off"
        assert upstream.asked[-1].body == body


def test_models_are_those_of_the_upstream(client, upstream):
    listed = {"object": "list", "data": [{"id": "m1", "object": "model", "created": 1, "owned_by": "x"}]}
    upstream.will(Answer([json.dumps(listed).encode()]))
    with openai(client) as official:
        assert [model.id for model in official.models.list()] == ["m1"]
    assert (upstream.asked[0].method, upstream.asked[0].path) == ("GET", "/v1/models")


def test_without_an_upstream_the_way_to_name_one_is_reported(tmp_path):
    with running(tmp_path) as client, openai(client) as official:
        with pytest.raises(sdk.UnprocessableEntityError, match="--upstream") as raised:
            official.chat.completions.create(**chat("hi"))
        with pytest.raises(sdk.UnprocessableEntityError, match="--upstream"):
            official.models.list()

    assert (raised.value.code, raised.value.type, raised.value.param) == (
        "invalid_input",
        "invalid_request_error",
        None,
    )


def test_an_upstream_that_is_not_there_is_a_bad_gateway(tmp_path):
    with scripted() as gone:
        pass
    with (
        chatting(tmp_path, gone) as client,
        openai(client) as official,
        pytest.raises(sdk.InternalServerError, match="--upstream") as raised,
    ):
        official.chat.completions.create(**chat("hi"))

    assert (raised.value.status_code, raised.value.code, raised.value.type) == (502, "bad_gateway", "api_error")


def test_silent_upstream_is_reported(tmp_path, upstream):
    upstream.will(SILENCE)
    with (
        chatting(tmp_path, upstream, place={"seconds": 0.2}) as client,
        openai(client) as official,
        pytest.raises(sdk.InternalServerError) as raised,
    ):
        official.chat.completions.create(**chat("hi"))

    assert (raised.value.status_code, raised.value.code) == (504, "gateway_timeout")
    assert upstream.left.wait(30)


@pytest.mark.parametrize("parts", [[None], [b'{"choices": ', None]])
def test_an_upstream_that_breaks_off_is_a_bad_gateway(client, upstream, parts):
    upstream.will(Answer(parts))

    assert client.post(PATH, json=chat("hi")).status_code == 502


def test_a_redirection_is_not_followed(client, upstream):
    with scripted() as other:
        upstream.will(Answer([b""], 307, {"Location": f"{other.url}/chat/completions"}))
        answer = client.post(PATH, json=chat("hi"))

    assert (answer.status_code, answer.json()["error"]["code"]) == (502, "bad_gateway")
    assert other.asked == []


def test_the_environments_proxies_are_not_asked(tmp_path, upstream, monkeypatch):
    for name in ("HTTP_PROXY", "http_proxy", "ALL_PROXY"):
        monkeypatch.setenv(name, "http://127.0.0.1:9")
    with chatting(tmp_path, upstream) as client:
        assert client.post(PATH, json=chat("hi")).status_code == 200


@pytest.mark.parametrize(
    ("change", "status", "code"),
    [
        ({"headers": {"Content-Type": "text/plain"}}, 415, "unsupported_media_type"),
        ({"headers": {**JSON, "Origin": "https://evil.example"}}, 403, "denied"),
        ({"headers": {**JSON, "Host": "evil.example"}}, 403, "denied"),
        ({"method": "PUT"}, 405, "method_not_allowed"),
        ({"content": b" " * 200_000}, 413, "too_large"),
    ],
)
def test_what_this_server_refuses_has_the_shape_of_the_api(client, upstream, change, status, code):
    answer = client.request(**{"method": "POST", "url": PATH, "content": b"{}", "headers": JSON, **change})

    assert answer.status_code == status
    assert set(answer.json()) == {"error"}
    assert set(answer.json()["error"]) == {"message", "type", "param", "code"}
    assert answer.json()["error"]["code"] == code
    assert upstream.asked == []


def test_a_client_that_hangs_up_ends_the_upstreams_work(client, upstream):
    upstream.will(SILENCE)
    with pytest.raises(httpx.ReadTimeout):
        client.post(PATH, json=chat("hi"), timeout=0.2)

    assert upstream.left.wait(30)


@pytest.mark.parametrize(
    "url",
    [
        "",
        "api.example.org/v1",
        "ftp://example.org",
        "https://",
        "https://user:key@example.org/v1",
        "https://x/v1?key=k",
        "http://x:99999",
    ],
)
def test_what_is_no_address_of_an_api_is_refused(url):
    with pytest.raises(InvalidInput, match="--upstream needs an http"):
        UpstreamPlace(url)
