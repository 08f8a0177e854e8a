"""The Model Context Protocol message by message, without the protocol's library.

So it runs with either release of that library: `make frameworks` runs it beside frameworks that ask for the older one.
"""

import json
import os
import subprocess
import sys
from itertools import count

import pytest
from key_parts import guarded

from treering.verbs.catalog import TOOLS

HELLO = {"protocolVersion": "2025-06-18", "capabilities": {}, "clientInfo": {"name": "ann", "version": "1"}}
NOTE = {"mode": "work_item", "input": {"title": "Mend the lamp"}}
LAMP = {"mode": "search", "input": {"text": "lamp"}}
HEADERS = {"Accept": "application/json, text/event-stream", "MCP-Protocol-Version": "2025-06-18"}


class StdioTalk:
    """Asks a server that is a process of its own."""

    def __init__(self, process):
        self.process, self.notes, self.ids = process, [], count(1)

    def __call__(self, method, **params):
        number = next(self.ids)
        self.send(id=number, method=method, params=params)
        for line in self.process.stdout:
            message = json.loads(line)
            if message.get("id") == number:
                return message["result"]
            self.notes.append(message["params"])
        raise AssertionError("The server hung up.")

    def send(self, **message):
        self.process.stdin.write(json.dumps({"jsonrpc": "2.0", **message}) + "\n")
        self.process.stdin.flush()


@pytest.fixture
def stdio(tmp_path):
    (tmp_path / "read").mkdir()
    (tmp_path / "read/README.md").write_text("# Acme\n\nAcme retries three times.\n")
    command = [sys.executable, "-m", "treering", "mcp", "--space", str(tmp_path / "space.db")]
    pipes = {"stdin": subprocess.PIPE, "stdout": subprocess.PIPE, "text": True}
    environment = {**os.environ, "TREERING_BACKGROUND": "0"}
    with subprocess.Popen(command, cwd=tmp_path / "read", env=environment, **pipes) as process:
        talk = StdioTalk(process)
        talk.told = talk("initialize", **HELLO)
        talk.send(method="notifications/initialized")
        yield talk
        process.stdin.close()


def test_a_client_hears_who_answers_and_which_tools_there_are(stdio):
    tools = stdio("tools/list")["tools"]

    assert stdio.told["serverInfo"]["name"] == "treering"
    assert "QUERY before you work" in stdio.told["instructions"]
    assert [tool["name"] for tool in tools] == [f"wiki.{verb}" for verb in TOOLS]
    assert all(tool["inputSchema"]["type"] == "object" and "readOnlyHint" in tool["annotations"] for tool in tools)


def test_client_reads_writes_and_gets_progress(stdio):
    read = {"mode": "path", "input": {"path": "."}}
    ingested = stdio("tools/call", name="wiki.ingest", arguments=read, _meta={"progressToken": "t"})
    written = stdio("tools/call", name="wiki.crystallize", arguments=NOTE)
    page = {"mode": "page", "input": {"id": written["structuredContent"]["ids"][0]}}
    found = stdio("tools/call", name="wiki.query", arguments={"mode": "search", "input": {"text": "acme retries"}})
    seen = stdio("tools/call", name="wiki.query", arguments=page)

    assert not ingested["isError"]
    assert {note["progressToken"] for note in stdio.notes} == {"t"}
    assert "Acme retries three times" in found["content"][0]["text"]
    assert found["structuredContent"]["status"] == "ok"
    assert [entry["actor"] for entry in seen["structuredContent"]["history"]] == ["ann"]


def test_client_error_states_the_fix(stdio):
    unknown = stdio("tools/call", name="wiki.delete", arguments={})
    wrong = stdio("tools/call", name="wiki.query", arguments={"mode": "serach", "input": {"text": "x"}})

    assert unknown["isError"]
    assert wrong["isError"]
    assert "There is no tool 'wiki.delete'" in unknown["content"][0]["text"]
    assert "search" in wrong["content"][0]["text"]


@pytest.mark.parametrize(
    ("message", "words"),
    [
        (
            {"method": "tools/call", "params": {"name": "wiki.query", "arguments": {"input": {"task": "cut \ud83d"}}}},
            "half",
        ),
        ({"method": "tools/call", "params": {"name": "wiki.ingest", "arguments": {"\udc00": 1}}}, "half"),
        ({"method": "ping", "params": {"\udfff\ud800": []}}, "half"),
        ({"method": "ping", "params": [1]}, "JSON-RPC"),
        ({"method": "tools/call", "params": {"name": "wiki.query", "arguments": "oops"}}, "must be an object"),
        ({"method": 7}, "JSON-RPC"),
    ],
)
def test_unreadable_request_is_answered_with_an_error(stdio, message, words):
    stdio.send(id="odd", **message)
    answer = json.loads(stdio.process.stdout.readline())

    assert answer["id"] == "odd"
    assert words in answer["error"]["message"]
    assert stdio("ping") == {}


@pytest.mark.parametrize(
    ("line", "code"),
    [
        ("this is no JSON", -32700),
        ("[" * 20_000, -32700),
        ('{"jsonrpc": "2.0", "id": true, "method": 1}', -32600),
        ('{"id": "\\ud83d"}', -32600),
        ("[1]", -32600),
    ],
)
def test_line_without_a_readable_id_is_answered_with_an_error(stdio, line, code):
    stdio.process.stdin.write(line + "\n")
    stdio.process.stdin.flush()
    answer = json.loads(stdio.process.stdout.readline())

    assert (answer["id"], answer["error"]["code"]) == (None, code)
    assert stdio("ping") == {}


def test_lines_that_are_no_requests_are_passed_over(stdio):
    for line in ("", "  ", '{"jsonrpc": "2.0", "id": "a", "result": 7}'):
        stdio.process.stdin.write(line + "\n")

    assert stdio("ping") == {}


def test_over_http_a_call_is_made_in_the_name_of_its_key(tmp_path):
    def call(key, tool, arguments):
        params = {"name": tool, "arguments": arguments}
        message = {"jsonrpc": "2.0", "id": 1, "method": "tools/call", "params": params}
        given = {**HEADERS, **({"Authorization": f"Bearer {key}"} if key else {})}
        answer = server.client.post("/mcp", json=message, headers=given)
        if answer.is_error:
            return answer.status_code
        text = answer.text
        if answer.headers["content-type"].startswith("text/event-stream"):
            text = next(line for line in text.splitlines() if line.startswith('data: {"')).removeprefix("data: ")
        return json.loads(text)["result"]

    with guarded(tmp_path) as server:
        reader, writer = server.key("read"), server.key("write", name="coder")
        written = call(writer, "wiki.crystallize", NOTE)
        refused = call(reader, "wiki.crystallize", NOTE)
        found = call(reader, "wiki.query", LAMP)
        seen = call(reader, "wiki.query", {"mode": "page", "input": {"id": written["structuredContent"]["ids"][0]}})
        unknown = call("", "wiki.query", LAMP)

    assert not written["isError"]
    assert refused["isError"]
    assert "Mend the lamp" in found["content"][0]["text"]
    assert [entry["actor"] for entry in seen["structuredContent"]["history"]] == ["coder"]
    assert unknown == 401
