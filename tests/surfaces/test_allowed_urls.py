"""Who may have a server fetch pages: nobody, unless its operator says so, and then whoever may write."""

import sys
from pathlib import Path

import pytest

from treering.extensions.mcp.dispatcher import ToolDispatcher
from treering.extensions.mcp.listing import tool_listing
from treering.ports.adapter import NoFiles

sys.path.append(str(Path(__file__).parent / "http"))

from key_parts import guarded
from rest_parts import running

ASKED = {"mode": "url", "input": {"url": "http://127.0.0.1:9/page"}}
GUARD = "not on the public internet"


def over_mcp(tmp_path, **options):
    dispatcher = ToolDispatcher(f"sqlite:{tmp_path / 'space.db'}", NoFiles(), **options)
    try:
        return dispatcher.answer("ingest", ASKED, actor="", progress=lambda *_: None, check=lambda: None)
    finally:
        dispatcher.close()


def test_a_server_fetches_nothing_and_its_refusal_names_the_flag(tmp_path):
    with running(tmp_path) as client:
        answer = client.post("/v1/wiki/ingest", json=ASKED)
        job = client.post("/v1/wiki/ingest", json=ASKED, headers={"Prefer": "respond-async"})
    assert (answer.status_code, job.status_code) == (403, 403)
    assert "--allow-urls" in answer.json()["hint"]
    told = over_mcp(tmp_path)
    assert (told.is_error, told.data["code"]) == (True, "denied")
    assert "--allow-urls" in told.text


def test_with_the_flag_a_server_fetches_within_the_guards(tmp_path):
    with running(tmp_path, urls=True) as client:
        answer = client.post("/v1/wiki/ingest", json=ASKED)
    assert answer.status_code == 200
    assert GUARD in answer.text
    told = over_mcp(tmp_path, urls=True)
    assert not told.is_error
    assert GUARD in told.text


@pytest.mark.parametrize(("right", "status"), [("read", 403), ("write", 200), ("review", 200), ("admin", 200)])
def test_with_keys_whoever_may_write_may_have_pages_fetched(tmp_path, right, status):
    with guarded(tmp_path, urls=True) as server:
        answer = server.ask(server.key(right), "POST", "/v1/wiki/ingest", json=ASKED)
    assert answer.status_code == status
    assert (GUARD in answer.text) == (status == 200)


@pytest.mark.parametrize("right", ["write", "admin"])
def test_no_key_fetches_where_the_operator_did_not_say_so(tmp_path, right):
    with guarded(tmp_path) as server:
        answer = server.ask(server.key(right), "POST", "/v1/wiki/ingest", json=ASKED)
    assert (answer.status_code, answer.json()["code"]) == (403, "denied")


def test_a_list_may_be_given_where_an_address_may(tmp_path):
    lines = {"mode": "url", "input": {"addresses": "# a list\nfile:///etc/passwd\nhttp://127.0.0.1:9/a\n"}}
    with running(tmp_path, urls=True) as client:
        report = client.post("/v1/wiki/ingest", json=lines).json()
    assert report["counts"] == {"failed": 1, "skipped": 1}


def test_the_mode_is_listed_to_agents_only_where_it_may_be_used():
    def ingest(**options):
        return next(tool for tool in tool_listing(**options) if tool["name"] == "wiki.ingest")

    usual, fetching = ingest(), ingest(urls=True)
    assert "url" not in usual["inputSchema"]["properties"]["mode"]["enum"]
    assert "url" in fetching["inputSchema"]["properties"]["mode"]["enum"]
    assert (usual["annotations"]["openWorldHint"], fetching["annotations"]["openWorldHint"]) == (False, True)
