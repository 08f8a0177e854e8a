import json
import subprocess
import sys
from threading import Event

import openai as sdk
import pytest
from chat_parts import Answer, chat, chatting, event, events, openai, scripted, streamed, without_end

from treering.extensions.discussions.chat.upstream import StreamedAnswer, answer_of
from treering.extensions.server.callers import Bounds

PATH = "/v1/chat/completions"
SSE = {"Content-Type": "text/event-stream"}


@pytest.fixture(scope="module")
def standing(tmp_path_factory):
    """One server for all tests that change nothing of it, with its folder and its upstream."""
    folder = tmp_path_factory.mktemp("standing")
    with scripted() as script, chatting(folder, script) as client:
        yield folder, script, client


@pytest.fixture
def upstream(standing):
    standing[1].forget()
    return standing[1]


@pytest.fixture
def client(standing):
    return standing[2]


def test_the_official_client_hears_word_by_word(client, upstream):
    upstream.will(streamed("Good ", "mor", "ning"))
    with openai(client) as official:
        words = [
            part.choices[0].delta.content
            for part in official.chat.completions.create(
                **chat("hi"), stream=True, stream_options={"include_usage": True}
            )
        ]

    assert words == ["Good ", "mor", "ning", None]
    assert json.loads(upstream.asked[0].body)["stream_options"] == {"include_usage": True}


def test_what_the_upstream_says_passes_byte_for_byte(client, upstream):
    told = [
        b": a comment\r\n\r\n",
        b"event: x\nda",
        "data: ünï".encode()[:7],
        "ünï".encode()[1:],
        b"\n\n",
        b"\x00\xff data: [DONE]",
    ]
    upstream.will(Answer(told, headers={**SSE, "X-Request-Id": "req_1"}))
    answer = client.post(PATH, json=chat("hi", stream=True))

    assert answer.content == b"".join(told)
    assert (answer.headers["content-type"], answer.headers["x-request-id"]) == ("text/event-stream", "req_1")


def test_the_first_word_arrives_before_the_last_is_said(client, upstream):
    heard = Event()

    def tell():
        yield event({"content": "first"})
        assert heard.wait(30)
        yield from events("last")

    upstream.will(Answer(tell(), headers=SSE))
    with openai(client) as official:
        words = official.chat.completions.create(**chat("hi"), stream=True)
        assert next(words).choices[0].delta.content == "first"
        heard.set()
        assert [part.choices[0].delta.content for part in words] == ["last", None]


def test_a_client_that_hangs_up_ends_what_the_upstream_says(client, upstream):
    upstream.will(without_end("word "))
    with openai(client) as official:
        words = official.chat.completions.create(**chat("hi", user="d"), stream=True)
        assert next(words).choices[0].delta.content == "word "
        words.close()

    assert upstream.left.wait(30)


def test_an_upstream_that_breaks_off_is_reported_where_it_did(client, upstream):
    upstream.will(Answer([*events("half", end=False), None], headers=SSE))
    with openai(client) as official:
        words = official.chat.completions.create(**chat("hi", user="d"), stream=True)
        assert next(words).choices[0].delta.content == "half"
        with pytest.raises(sdk.APIError, match="upstream") as raised:
            next(words)

    assert raised.value.code == "bad_gateway"


def test_an_error_before_the_first_word_is_an_error_as_always(client, upstream):
    upstream.will(Answer([b'{"error": {"message": "Slow down.", "code": "rate"}}'], 429))
    with openai(client) as official, pytest.raises(sdk.RateLimitError, match="Slow down"):
        official.chat.completions.create(**chat("hi"), stream=True)


def test_as_many_conversations_as_are_let_in_leave_the_tools_free(tmp_path, upstream):
    upstream.will(without_end("word "), without_end("word "))
    with (
        chatting(tmp_path, upstream, bounds=Bounds(most_at_once=2, worked_on_at_once=1)) as client,
        openai(client) as official,
        openai(client) as another,
    ):
        open_ones = [one.chat.completions.create(**chat("hi"), stream=True) for one in (official, another)]
        assert [next(one).choices[0].delta.content for one in open_ones] == ["word ", "word "]
        noted = client.post("/v1/wiki/crystallize", json={"input": {"title": "Served"}})
        with pytest.raises(sdk.InternalServerError) as raised:
            official.chat.completions.create(**chat("one more"))
        for one in open_ones:
            one.close()

    assert noted.status_code == 200
    assert (raised.value.status_code, raised.value.code) == (503, "unavailable")


@pytest.mark.parametrize("size", [1, 3, 1_000])
def test_words_are_heard_wherever_the_bytes_are_cut(size):
    told = b"".join([b": ping\r\n\r\n", event({"role": "assistant", "content": ""}), *events("ünï ", "世界")])
    heard = StreamedAnswer()
    for at in range(0, len(told), size):
        heard.hear(told[at : at + size])

    assert heard.answer == "ünï 世界"


def test_a_line_that_comes_byte_by_byte_is_put_together_once():
    # In the square of the length this would copy terabytes; the time limit only ends that.
    script = """
from treering.extensions.discussions.chat.upstream import StreamedAnswer
heard = StreamedAnswer()
for _ in range(3_000_000):
    heard.hear(b"x")
heard.hear(b"\\ndata: [DONE]\\n")
assert heard.answer == ""
"""
    subprocess.run([sys.executable, "-c", script], check=True, timeout=60)


def test_of_several_choices_the_first_is_heard():
    heard = StreamedAnswer()
    for part in (
        event({"content": "b"}, index=1),
        event({"content": "a"}),
        event({}, index=1, finish="stop"),
    ):
        heard.hear(part)
    assert heard.answer is None
    heard.hear(event({}, finish="stop"))

    assert heard.answer == "a"


@pytest.mark.parametrize(
    "broken",
    [
        event({"content": "a"}),
        event({"content": "a"}) + b'data: {"error": {"message": "x"}}\n\ndata: [DONE]\n\n',
        b"data: {\n\n",
        b"nothing",
        b"",
    ],
)
def test_what_was_not_said_to_its_end_is_no_answer(broken):
    heard = StreamedAnswer()
    heard.hear(broken)

    assert heard.answer is None


@pytest.mark.parametrize(
    ("answer", "text"),
    [
        ({"choices": [{"index": 1, "message": {"content": "b"}}, {"index": 0, "message": {"content": "a"}}]}, "a"),
        ({"choices": [{"message": {"content": [{"type": "text", "text": "a"}, {"type": "thinking"}]}}]}, "a"),
        ({"choices": [{"index": 0, "message": {"content": None, "refusal": "No."}}]}, ""),
        ({"choices": [{"index": 0, "message": {"content": None, "tool_calls": []}}]}, ""),
        ({"choices": []}, None),
        ({"choices": [5]}, None),
        ({"error": {"message": "x"}}, None),
        ([], None),
    ],
)
def test_the_answer_is_the_text_of_the_first_choice(answer, text):
    assert answer_of(json.dumps(answer).encode()) == text
