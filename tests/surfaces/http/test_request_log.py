"""A server's log as JSON lines and as text: every request, and no content."""

import json
import logging
from contextlib import contextmanager
from io import StringIO

import pytest
from key_parts import guarded
from rest_parts import running

from treering.core.errors import InvalidInput
from treering.extensions.server.request_log import REQUESTS, JsonLines, TextLines, log_format_of

HIDDEN = "zebra"


@contextmanager
def logged(formatter):
    """Collect what is logged."""
    lines, logger = StringIO(), logging.getLogger()
    handler = logging.StreamHandler(lines)
    handler.setFormatter(formatter)
    logger.addHandler(handler)
    logging.getLogger(REQUESTS).setLevel(logging.INFO)
    try:
        yield lines
    finally:
        logging.getLogger(REQUESTS).setLevel(logging.NOTSET)
        logger.removeHandler(handler)


def ask_about(client, **headers):
    """Send requests that have something hidden in every part."""
    client.post("/v1/wiki/query", json={"mode": "search", "input": {"text": HIDDEN}}, headers=headers)
    client.post(f"/api/projects/{HIDDEN}/memory/index", json={"docs": [HIDDEN]}, headers=headers)
    client.post("/v1/wiki/query", json={HIDDEN: HIDDEN}, headers=headers)
    client.get(f"/{HIDDEN}?{HIDDEN}={HIDDEN}", headers={**headers, "X-Request-Id": HIDDEN, "User-Agent": HIDDEN})
    client.request(HIDDEN.upper(), "/health")


def test_every_request_is_a_json_line_without_content(tmp_path):
    with logged(JsonLines()) as lines, guarded(tmp_path) as server:
        key = server.key("write", name=f"{HIDDEN} crew")
        ask_about(server.client, Authorization=f"Bearer {key}")
        told = server.ask(key, "POST", "/v1/wiki/query", json={"mode": "search", "input": {"text": "x"}})
    requests = [one for line in lines.getvalue().splitlines() if (one := json.loads(line))["logger"] == REQUESTS]

    assert [(one["method"], one["route"]) for one in requests] == [
        ("POST", "/v1/wiki/query"),
        ("POST", "/api/projects/{project_id}/memory/index"),
        ("POST", "/v1/wiki/query"),
        ("GET", "other"),
        ("other", "/health"),
        ("POST", "/v1/wiki/query"),
    ]
    assert [one["status"] for one in requests[1:4]] == [403, 422, 404]
    assert requests[0]["key"] == key.split("_")[1]
    assert requests[-1]["request_id"] == told.headers["X-Request-Id"]
    assert all(one["ms"] >= 0 and one["time"].endswith("+00:00") for one in requests)
    assert HIDDEN not in lines.getvalue().lower()
    assert key.split("_")[2] not in lines.getvalue()


def test_requests_are_logged_as_text_too(tmp_path):
    with logged(TextLines(logging.BASIC_FORMAT)) as lines, running(tmp_path) as client:
        ask_about(client)
    assert " POST /v1/wiki/query 422 " in lines.getvalue()
    assert HIDDEN not in lines.getvalue().lower()


def test_nothing_is_logged_of_requests_unless_requested(tmp_path, caplog):
    with running(tmp_path) as client:
        ask_about(client)
    assert caplog.records == []


def test_an_id_that_a_proxy_gave_is_kept_and_every_answer_carries_one(tmp_path):
    given = "0af7651916cd43dd8448eb211c80319c"
    with running(tmp_path) as client:
        kept = client.get("/health", headers={"X-Request-Id": given})
        own = [client.get(path).headers["X-Request-Id"] for path in ("/health", "/nowhere", "/v1/erase")]
    assert kept.headers["X-Request-Id"] == given
    assert len({*own, given}) == 4


def test_a_failure_is_logged_with_its_place_and_without_its_message():
    with logged(JsonLines()) as lines:
        try:
            int(HIDDEN)
        except ValueError:
            logging.getLogger("treering.x").exception("Could not do %s.", HIDDEN)
    told = json.loads(lines.getvalue())
    assert (told["message"], told["error"], told["level"]) == ("Could not do %s.", "ValueError", "error")
    assert "test_request_log.py" in told["at"][0]
    assert HIDDEN not in lines.getvalue()


def test_unknown_format_is_reported():
    assert [log_format_of(text) for text in ("", "json", "text")] == [None, "json", "text"]
    with pytest.raises(InvalidInput, match="--log-format has no value 'xml'"):
        log_format_of("xml")
