"""What clients that send slowly, wait in vain or hang up can take of a server. Every wait here only guards a hang."""

import socket
from contextlib import ExitStack, contextmanager
from threading import Event
from time import monotonic, sleep

import pytest
from rest_parts import running
from test_rest_failures import refused

from treering.extensions.server.callers import Bounds
from treering.ports.runtime import check_interrupt
from treering.testing.fakes import HashingEmbedder

GUARD_SECONDS = 60
HEAD = b"POST /v1/wiki/query HTTP/1.1\r\nHost: localhost\r\nContent-Type: application/json\r\nContent-Length: 100\r\n"


@contextmanager
def connections(client, count, sent):
    """Hold connections that have sent the beginning of a request."""
    with ExitStack() as stack:
        opened = []
        for _ in range(count):
            one = socket.create_connection((client.base_url.host, client.base_url.port), timeout=GUARD_SECONDS)
            stack.callback(one.close)
            one.sendall(sent)
            opened.append(one)
        yield opened


def answer_of(connection):
    """Read what the server says until it closes the connection."""
    said = b""
    try:
        while part := connection.recv(65_536):
            said += part
    except ConnectionResetError:
        pass
    return said


def search(client):
    return client.post("/v1/wiki/query", json={"mode": "search", "input": {"text": "bees"}})


@pytest.mark.sampled(2)
@pytest.mark.parametrize("count", [64, 200])
@pytest.mark.parametrize("sent", [HEAD + b"\r\n{", HEAD, b"P", b""])
def test_requests_that_are_not_complete_take_no_place_of_others(tmp_path, count, sent):
    with running(tmp_path) as client, connections(client, count, sent):
        noted = client.post("/v1/wiki/crystallize", json={"input": {"title": "Bees"}})
        answers = [client.get("/health"), client.get("/ready"), search(client)]

    assert [answer.status_code for answer in (noted, *answers)] == [200] * 4


def test_a_body_that_does_not_come_is_answered_and_its_connection_closed(tmp_path):
    with (
        running(tmp_path, bounds=Bounds(body_seconds=0.3)) as client,
        connections(client, 3, HEAD + b"\r\n{") as halves,
    ):
        answers = [answer_of(one) for one in halves]

    for answer in answers:
        assert answer.startswith(b"HTTP/1.1 408 ")
        assert b'"code":"request_timeout"' in answer
        assert b"connection: close" in answer.lower()


def test_a_body_that_comes_byte_by_byte_is_not_waited_for(tmp_path):
    bounds = Bounds(body_seconds=0.3, header_seconds=GUARD_SECONDS)
    with running(tmp_path, bounds=bounds) as client, connections(client, 1, HEAD + b"\r\n") as (one,):
        sent = 0
        try:
            while sent < 100:
                one.sendall(b" ")
                sent += 1
                sleep(0.1)
        except OSError:
            pass

    assert sent < 99


@pytest.mark.parametrize("sent", [b"", b"POST /v1/wiki/query HTTP/1.1\r\nHost: lo"])
def test_missing_request_head_closes_the_connection(tmp_path, sent):
    with running(tmp_path, bounds=Bounds(header_seconds=0.3)) as client, connections(client, 3, sent) as halves:
        assert [answer_of(one) for one in halves] == [b""] * 3


def test_the_next_head_of_a_connection_has_no_more_time_than_the_first(tmp_path):
    whole = b"GET /health HTTP/1.1\r\nHost: localhost\r\n\r\n"
    with running(tmp_path, bounds=Bounds(header_seconds=0.3)) as client, connections(client, 1, whole) as (one,):
        said = one.recv(65_536)
        while not said.endswith(b"}"):  # its head and its body may come one after the other
            said += one.recv(65_536)
        assert said.startswith(b"HTTP/1.1 200 ")
        one.sendall(whole[:20])
        assert answer_of(one) == b""


def test_of_more_connections_than_there_may_be_the_one_that_waits_longest_is_closed(tmp_path):
    with running(tmp_path, bounds=Bounds(most_connections=8)) as client, connections(client, 20, b"P") as halves:
        # Its first connection: one that is kept open could be the one that has waited longest.
        assert client.get("/health").status_code == 200
        assert answer_of(halves[0]) == b""


@pytest.mark.nightly
def test_bodies_that_arrive_take_a_bounded_memory(tmp_path):
    bounds = Bounds(max_body_bytes=1_000)
    head = HEAD.replace(b"Length: 100", b"Length: 1000") + b"\r\n"
    with running(tmp_path, bounds=bounds) as client, connections(client, 12, head + b" " * 900) as halves:
        told = answer_of(halves[-1])
        assert search(client).status_code == 404  # no space yet: it was let in

    assert told.startswith(b"HTTP/1.1 503 ")


class Stuck(HashingEmbedder):
    """Embeds a question only when it is ended: like work that goes on and on."""

    def __init__(self):
        super().__init__()
        self.started, self.ended = Event(), Event()

    def embed_query(self, text):
        self.started.set()
        began = monotonic()
        try:
            while monotonic() - began < GUARD_SECONDS:
                check_interrupt()
                sleep(0.01)
        finally:
            self.ended.set()
        return super().embed_query(text)


@pytest.fixture
def noted(tmp_path):
    with running(tmp_path) as client:
        items = [{"text": "Bees make honey.", "origin": "note:bees"}]
        options = {"wait": True}
        told = client.post("/v1/wiki/ingest", json={"mode": "source", "input": {"items": items}, "options": options})
    assert told.status_code == 200, told.text
    return tmp_path


def test_call_over_its_time_limit_frees_its_thread(noted):
    stuck = Stuck()
    with running(noted, embedder=stuck, bounds=Bounds(worked_on_at_once=1, read_seconds=0.5)) as client:
        answer = search(client)
        assert stuck.ended.is_set()  # before the answer, not some time after it
        page = client.post("/v1/wiki/query", json={"mode": "recent"})

    assert "0.5 seconds" in refused(answer, 503, "timed_out")["message"]
    assert page.status_code == 200


@pytest.mark.nightly
def test_a_call_that_waits_for_a_thread_waits_no_longer_than_it_may_take(noted):
    stuck = Stuck()
    bounds = Bounds(worked_on_at_once=1, read_seconds=0.5, work_seconds=GUARD_SECONDS)
    body = b'{"mode": "search", "input": {"text": "bees"}}'
    asked = HEAD.replace(b"Length: 100", b"Length: %d" % len(body)) + b"\r\n" + body
    with running(noted, embedder=stuck, bounds=bounds) as client, connections(client, 4, asked) as waiting:
        answers = [one.recv(65_536) for one in waiting]

    assert all(answer.startswith(b"HTTP/1.1 503 ") for answer in answers)


def test_the_work_of_a_client_that_hangs_up_ends(noted):
    stuck = Stuck()
    body = b'{"mode": "search", "input": {"text": "bees"}}'
    asked = HEAD.replace(b"Length: 100", b"Length: %d" % len(body)) + b"\r\n" + body
    with running(noted, embedder=stuck, bounds=Bounds(worked_on_at_once=1, read_seconds=GUARD_SECONDS)) as client:
        with connections(client, 1, asked):
            assert stuck.started.wait(GUARD_SECONDS)
        assert stuck.ended.wait(GUARD_SECONDS / 2)
        assert client.post("/v1/wiki/query", json={"mode": "recent"}).status_code == 200


def test_slow_question_blocks_no_other(noted):
    stuck = Stuck()
    body = b'{"mode": "search", "input": {"text": "bees"}}'
    asked = HEAD.replace(b"Length: 100", b"Length: %d" % len(body)) + b"\r\n" + body
    with running(noted, embedder=stuck, bounds=Bounds(read_seconds=GUARD_SECONDS)) as client:
        with connections(client, 1, asked):
            assert stuck.started.wait(GUARD_SECONDS)
            answers = [client.post("/v1/wiki/query", json={"mode": "recent"}), client.get("/health")]
            assert not stuck.ended.is_set()
        assert stuck.ended.wait(GUARD_SECONDS / 2)

    assert [answer.status_code for answer in answers] == [200, 200]


BOTH = (
    "POST /v1/wiki/query HTTP/1.1\r\nHost: 127.0.0.1\r\nContent-Type: application/json\r\n"
    "{first}: {one}\r\n{second}: {other}\r\n\r\n{body}"
)
NEXT = "GET /health HTTP/1.1\r\nHost: 127.0.0.1\r\n\r\n"
LENGTH, CHUNKED = ("Content-Length", "2"), ("Transfer-Encoding", "chunked")


@pytest.mark.sampled(2)
@pytest.mark.parametrize(("first", "second"), [(LENGTH, CHUNKED), (CHUNKED, LENGTH)])
@pytest.mark.parametrize("body", ["{}", "2\r\n{}\r\n0\r\n\r\n", ""])
def test_a_request_that_states_its_length_in_two_ways_is_refused_and_ends_its_connection(tmp_path, first, second, body):
    head = {"first": first[0], "one": first[1], "second": second[0], "other": second[1]}
    with running(tmp_path) as client:
        place = (client.base_url.host, client.base_url.port)
        with socket.create_connection(place, timeout=GUARD_SECONDS) as sent:
            sent.sendall((BOTH.format(**head, body=body) + NEXT).encode())
            said = b""
            while part := sent.recv(65_536):
                said += part
    assert said.startswith(b"HTTP/1.1 400 ")
    assert b"connection: close" in said.lower()
    assert said.count(b"HTTP/1.1 ") == 1
