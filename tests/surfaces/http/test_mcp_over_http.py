"""The Model Context Protocol over HTTP, asked by the protocol's own client."""

import time
from threading import Barrier

import anyio
import httpx
import httpx2 as client_http
import pytest
from key_parts import guarded
from mcp import Client
from mcp.client.streamable_http import streamable_http_client
from rest_parts import keep_bees, running
from test_stopping import Held

from treering.extensions.server import workers
from treering.ports.stores import KeyLimits
from treering.testing.fakes import HashingEmbedder
from treering.verbs.catalog import TOOLS


@pytest.fixture(scope="module")
def server(tmp_path_factory):
    with guarded(tmp_path_factory.mktemp("guarded")) as server:
        yield server


def talk(address, conversation, *, key="", **options):
    """Have a conversation with a server, with a key where one is given."""

    async def session():
        headers = {"Authorization": f"Bearer {key}"} if key else {}
        async with (
            client_http.AsyncClient(headers=headers, timeout=60, trust_env=False) as http,
            Client(streamable_http_client(f"{address}/mcp", http_client=http), **options) as client,
        ):
            return await conversation(client)

    return anyio.run(session)


def called(address, key, tool, **arguments):
    """Call one tool."""

    async def call(client):
        return await client.call_tool(tool, arguments)

    return talk(address, call, key=key)


def test_an_agent_of_this_machine_needs_no_key(tmp_path):
    async def conversation(client):
        told = await client.call_tool("wiki.crystallize", {"mode": "work_item", "input": {"title": "Mend the lamp"}})
        found = await client.call_tool("wiki.query", {"mode": "search", "input": {"text": "lamp"}})
        return (await client.list_tools()).tools, told, found

    with running(tmp_path) as http:
        tools, told, found = talk(http.base_url, conversation)

    assert [tool.name for tool in tools] == [f"wiki.{verb}" for verb in TOOLS]
    assert told.structured_content["status"] == "ok"
    assert "Mend the lamp" in found.content[0].text
    assert f"`{told.structured_content['ids'][0]}" in found.content[0].text


def test_what_an_agent_writes_is_written_in_the_name_of_its_key(server):
    key = server.key("write", name="coder")
    written = called(server.client.base_url, key, "wiki.crystallize", mode="work_item", input={"title": "By key"})
    page = server.verb(key, "query", mode="page", input={"id": written.structured_content["ids"][0]}).json()
    assert [entry["actor"] for entry in page["history"]] == ["coder"]


@pytest.mark.parametrize("right", ["read", "write"])
def test_every_mode_over_mcp_needs_the_right_it_needs_elsewhere(server, right):
    key = server.key(right)

    async def ask_all(client):
        denied = {}
        for verb, tool in TOOLS.items():
            for mode in tool.modes.values():
                answer = await client.call_tool(f"wiki.{verb}", {"mode": mode.name})
                denied[verb, mode.name] = (answer.structured_content or {}).get("code") == "denied"
        return denied

    denied = talk(server.client.base_url, ask_all, key=key)
    assert denied == {
        (verb, mode.name): mode.rights.reads_files
        or mode.rights.fetches
        or mode.rights.needs_person
        or mode.whole_space
        or (mode.rights.writes and right == "read")
        for verb, tool in TOOLS.items()
        for mode in tool.modes.values()
    }


def test_a_key_of_a_scope_stays_in_it_over_mcp(server):
    boss, confined = server.key("write"), server.key("write", scope="/team")
    address = server.client.base_url
    note = {"items": [{"text": "The lamp is heliotrope.", "origin": "note:lamp"}]}
    called(address, boss, "wiki.ingest", mode="source", input=note)
    found = called(address, confined, "wiki.query", mode="search", input={"text": "lamp"}, options={"descend": True})
    outside = called(address, confined, "wiki.query", mode="search", scope="/", input={"text": "lamp"})
    assert "heliotrope" not in found.content[0].text
    assert (outside.is_error, outside.structured_content["code"]) == (True, "denied")


def test_arguments_that_are_no_object_are_named(server):
    params = {"name": "wiki.query", "arguments": "oops"}
    body = {"jsonrpc": "2.0", "id": 1, "method": "tools/call", "params": params}
    headers = {"Accept": "application/json, text/event-stream", "MCP-Protocol-Version": "2025-06-18"}
    answer = server.ask(server.key("read"), "POST", "/mcp", json=body, headers=headers)
    assert "params.arguments must be an object" in answer.text


def test_no_key_that_opens_nothing_opens_mcp(server):
    body = {"jsonrpc": "2.0", "id": 1, "method": "tools/list", "params": {}}
    accept = {"Accept": "application/json, text/event-stream"}
    other = server.key("admin", space="other.db")
    project = server.key("admin", project="acme")
    for key in server.dead_keys().values():
        assert server.ask(key, "POST", "/mcp", json=body, headers=accept).status_code == 401
    for key in (other, project):
        assert server.ask(key, "POST", "/mcp", json=body, headers=accept).status_code == 403


@pytest.mark.parametrize(
    ("headers", "status"),
    [
        ({"Origin": "https://evil.example"}, 403),
        ({"Host": "evil.example"}, 403),
        ({"Content-Type": "text/plain"}, 400),
        ({"Content-Type": "application/x-www-form-urlencoded"}, 400),
    ],
)
def test_a_page_elsewhere_cannot_speak_mcp_with_this_machine(tmp_path, headers, status):
    body = b'{"jsonrpc": "2.0", "id": 1, "method": "tools/list", "params": {}}'
    accept = {"Accept": "application/json, text/event-stream", "Content-Type": "application/json"}
    with running(tmp_path) as http:
        answer = http.post("/mcp", content=body, headers={**accept, **headers})
    assert answer.status_code in {status, 415}
    assert "wiki.ingest" not in answer.text


def test_progress_of_long_work_is_reported_over_http(tmp_path):
    (tmp_path / "files").mkdir()
    for number in range(300):
        (tmp_path / "files" / f"{number}.md").write_text(f"# Note {number}\n\nLamp {number} is lit.\n")
    told = []

    async def conversation(client):
        async def progress(done, total, message):
            told.append((done, total, message))

        answer = await client.call_tool("wiki.ingest", {"input": {"path": "."}}, progress_callback=progress)
        # The client runs the callback in a task of its own, which may start only after the answer has arrived.
        with anyio.fail_after(10):
            while not told:
                await anyio.sleep(0.01)
        return answer

    with running(tmp_path, files=tmp_path / "files") as http:
        answer = talk(http.base_url, conversation)

    assert answer.structured_content["counts"]["created"] >= 300
    assert told
    assert told == sorted(told, key=lambda one: one[0])


class Together(HashingEmbedder):
    """Embeds questions only when as many as expected are embedded at the same time."""

    def __init__(self, count):
        super().__init__()
        self.barrier = Barrier(count, timeout=60)

    def embed_query(self, text):
        self.barrier.wait()
        return super().embed_query(text)


def test_slow_calls_over_mcp_block_no_other_call(tmp_path, monkeypatch):
    count = 32
    monkeypatch.setattr(workers, "ALONE_SECONDS", 0.0)
    keep_bees(tmp_path)
    together = Together(count + 1)
    answers = []

    async def conversation(client):
        async def search(number):
            arguments = {"mode": "search", "input": {"text": f"honey of hive {number}"}}
            answers.append(await client.call_tool("wiki.query", arguments))

        async with anyio.create_task_group() as calls:
            for number in range(count):
                calls.start_soon(search, number)
            with anyio.fail_after(60):
                while together.barrier.n_waiting < count:
                    await anyio.sleep(0.01)
            recent = await client.call_tool("wiki.query", {"mode": "recent"})
            page = await anyio.to_thread.run_sync(lambda: http.post("/v1/wiki/query", json={"mode": "recent"}))
            assert not answers
            await anyio.to_thread.run_sync(together.barrier.wait)
        return recent, page

    with running(tmp_path, embedder=together) as http:
        recent, page = talk(http.base_url, conversation)

    assert (recent.is_error, page.status_code) == (False, 200)
    assert [answer.is_error for answer in answers] == [False] * count


def test_cancelled_call_counts_until_its_thread_is_free(tmp_path):
    held = Held()
    keep_bees(tmp_path)
    with guarded(tmp_path, embedder=held) as server:
        key = server.key("read", limits=KeyLimits(at_once=1))
        search = {"mode": "search", "input": {"text": "honey"}}
        body = {
            "jsonrpc": "2.0",
            "id": 1,
            "method": "tools/call",
            "params": {"name": "wiki.query", "arguments": search},
        }
        headers = {"Accept": "application/json, text/event-stream", "MCP-Protocol-Version": "2025-06-18"}
        with pytest.raises(httpx.ReadTimeout):
            server.ask(key, "POST", "/mcp", json=body, headers=headers, timeout=httpx.Timeout(60, read=1))
        assert held.started.wait(60)
        assert [server.verb(key, "query", mode="recent").status_code for _ in range(20)] == [429] * 20

        held.go.set()
        statuses = (server.verb(key, "query", mode="recent").status_code for _ in range(600) if not time.sleep(0.1))
        assert 200 in statuses
