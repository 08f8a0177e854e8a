"""How much one key may ask, and that it is told so, while others are answered."""

import pytest
from key_parts import guarded
from rest_parts import running

from treering.extensions.server.callers import Bounds
from treering.extensions.server.failures import Refusal
from treering.extensions.server.request_guard import RequestRates
from treering.ports.stores import KeyLimits

SEARCH = {"mode": "search", "input": {"text": "bees"}}
INITIALIZE = {
    "jsonrpc": "2.0",
    "id": 1,
    "method": "initialize",
    "params": {"protocolVersion": "2025-06-18", "capabilities": {}, "clientInfo": {"name": "x", "version": "1"}},
}


class Timer:
    """A time that stands still until it is set."""

    def __init__(self):
        self.now = 1_000.0

    def __call__(self):
        return self.now


def let_in(rates, key, per_minute):
    """Ask until a request is refused; return how many were let in, and after how many seconds to try again."""
    for count in range(10_000):
        try:
            rates.count(key, per_minute)
        except Refusal as refusal:
            return count, int(refusal.headers["Retry-After"])
    raise AssertionError("nothing was refused")


def test_a_key_may_use_its_minute_at_once_and_gets_it_back_bit_by_bit():
    timer = Timer()
    rates = RequestRates(time=timer)
    assert let_in(rates, "a", 60) == (60, 1)
    timer.now += 10
    assert let_in(rates, "a", 60) == (10, 1)
    timer.now += 3_600
    assert let_in(rates, "a", 60) == (60, 1)


@pytest.mark.parametrize("per_minute", [1, 7, 59, 1_200])
def test_request_after_the_stated_wait_is_accepted(per_minute):
    timer = Timer()
    rates = RequestRates(time=timer)
    count, wait = let_in(rates, "a", per_minute)
    timer.now += wait
    rates.count("a", per_minute)
    assert count == per_minute


def test_keys_that_are_silent_for_a_minute_are_forgotten():
    timer = Timer()
    rates = RequestRates(time=timer)
    for number in range(5_000):
        timer.now += 1
        rates.count(f"key {number}", 60)
    assert len(rates._used_until) < 1_100


def test_rate_limit_is_per_key_with_a_retry_time(tmp_path):
    with guarded(tmp_path) as server:
        busy, other = server.key("write", limits=KeyLimits(requests_per_minute=3)), server.key("write")
        answers = [server.verb(busy, "query", **SEARCH) for _ in range(4)]
        assert [answer.status_code for answer in answers][3:] == [429]
        assert 429 not in [answer.status_code for answer in answers[:3]]
        assert answers[3].json()["code"] == "too_many_requests"
        assert answers[3].json()["details"] == {"requests_per_minute": 3}
        assert 1 <= int(answers[3].headers["Retry-After"]) <= 20
        assert server.ask(busy, "POST", "/mcp", json=INITIALIZE).status_code == 429
        assert server.ask(busy, "GET", "/health").status_code == 200
        assert server.verb(other, "query", **SEARCH).status_code != 429


def test_a_server_says_how_often_keys_may_ask_that_say_nothing_else(tmp_path):
    with guarded(tmp_path, bounds=Bounds(requests_per_minute=1)) as server:
        plain, more = server.key(), server.key(limits=KeyLimits(requests_per_minute=2))
        assert [server.verb(plain, "query", **SEARCH).status_code == 429 for _ in range(2)] == [False, True]
        assert [server.verb(more, "query", **SEARCH).status_code == 429 for _ in range(3)] == [False, False, True]


def test_a_server_without_keys_limits_all_who_ask_together_where_it_is_told_to(tmp_path):
    bounds = Bounds(requests_per_minute=1, requests_per_minute_without_key=2)
    with running(tmp_path, bounds=bounds) as client:
        answers = [client.post("/v1/wiki/query", json=SEARCH).status_code for _ in range(3)]
        assert [status == 429 for status in answers] == [False, False, True]
    with running(tmp_path, bounds=Bounds(requests_per_minute=1)) as client:
        assert 429 not in [client.post("/v1/wiki/query", json=SEARCH).status_code for _ in range(3)]


@pytest.mark.sampled(3)
@pytest.mark.parametrize("path", ["/v1/wiki/query", "/api/projects/acme/memory/index", "/mcp"])
@pytest.mark.parametrize("times", [1, 3, 30])
def test_a_body_larger_than_its_key_may_send_is_refused_by_every_route(tmp_path, path, times):
    with guarded(tmp_path) as server:
        small, other = server.key("write", limits=KeyLimits(max_body_bytes=1_000)), server.key("write")
        project = server.key("write", project="acme", limits=KeyLimits(max_body_bytes=1_000))
        body = {**SEARCH, "scope": "/" + "x" * 1_000 * times}
        key = project if "projects" in path else small
        refused = server.ask(key, "POST", path, json=body)
        assert (refused.status_code, refused.json()["code"]) == (413, "too_large")
        assert refused.json()["details"] == {"max_bytes": 1_000}
        assert server.ask(other, "POST", path, json=body).status_code != 413


def test_a_key_cannot_be_given_more_than_the_server_takes(tmp_path):
    with guarded(tmp_path, bounds=Bounds(max_body_bytes=1_000)) as server:
        key = server.key("write", limits=KeyLimits(max_body_bytes=1_000_000))
        assert server.verb(key, "query", scope="/" + "x" * 2_000).status_code == 413
