"""Claude Agent SDK: its public contract of session stores, tools in the process, and hooks. No process is started."""

import json

import pytest
from framework_parts import asynchronous, blocking

pytest.importorskip("claude_agent_sdk", reason="needs the extra 'claude-agent-sdk'")

from claude_agent_sdk import (
    ClaudeAgentOptions,
    InMemorySessionStore,
    get_session_messages_from_store,
    list_sessions_from_store,
    project_key_for_directory,
)
from claude_agent_sdk.testing import run_session_store_conformance
from mcp import Client

from treering.claude_agent_sdk import MEMORY_TOOLS, TreeringSessionStore, memory_hooks, memory_server

pytestmark = pytest.mark.anyio
FOLDER = "/app"
KEY = {"project_key": project_key_for_directory(FOLDER), "session_id": "0b8c7f3e-8a51-4f0e-9d0a-1f2e3d4c5b6a"}


def said(number, text, role="user"):
    return {
        "type": role,
        "uuid": f"00000000-0000-4000-8000-{number:012}",
        "sessionId": KEY["session_id"],
        "timestamp": f"2026-01-01T00:00:{number:02}.000Z",
        "message": {"role": role, "content": text if role == "user" else [{"type": "text", "text": text}]},
    }


def text_of(result):
    return result.content[0].text


@pytest.fixture
def opened():
    """Make stores over spaces of their own, which are closed after the test."""
    clients = []

    def make(**options):
        clients.append(blocking(channel="user"))
        return TreeringSessionStore(clients[-1], **options)

    yield make
    for client in clients:
        client.close()


@pytest.mark.parametrize("erase", [False, True])
async def test_the_contract_of_the_sdk_holds(opened, erase):
    """The 14 contracts of `claude_agent_sdk.testing`, those of the optional methods too."""
    await run_session_store_conformance(lambda: opened(erase=erase))


async def test_the_sdk_reads_a_session_as_from_its_own_store(opened):
    ours, theirs = opened(), InMemorySessionStore()
    entries = [said(1, "my dog is called Rex"), said(2, "Noted.", "assistant"), {"type": "tag", "tag": "pets"}]
    for store in (ours, theirs):
        await store.append(KEY, entries)

    assert await ours.load(KEY) == await theirs.load(KEY)
    read = [
        await get_session_messages_from_store(store, KEY["session_id"], directory="/srv/app")
        for store in (ours, theirs)
    ]
    assert read[0] == read[1]
    listed = [await list_sessions_from_store(store, directory="/srv/app") for store in (ours, theirs)]
    assert [one.summary for one in listed[0]] == [one.summary for one in listed[1]]


async def test_an_entry_that_comes_again_is_kept_once(opened):
    store = opened()
    await store.append(KEY, [said(1, "one"), said(1, "one"), {"type": "mode"}])
    await store.append(KEY, [said(1, "one"), said(2, "two"), {"type": "mode"}])

    assert [entry.get("uuid", "")[-1:] for entry in await store.load(KEY)] == ["1", "", "2", ""]


async def test_what_was_said_in_a_session_is_recalled_in_the_next_one():
    async with asynchronous() as client:
        await TreeringSessionStore(client).append(KEY, [said(1, "my dog is called Rex")])
        hook = memory_hooks(client, recall=True)["UserPromptSubmit"][0].hooks[0]
        asked = {"hook_event_name": "UserPromptSubmit", "session_id": "next", "prompt": "what is my dog called"}
        added = await hook(asked, None, {"signal": None})

        assert "my dog is called Rex" in added["hookSpecificOutput"]["additionalContext"]
        assert added["hookSpecificOutput"]["additionalContext"].startswith("<<treering:recalled")
        assert await hook({**asked, "prompt": "wholly unrelated"}, None, {"signal": None}) == {}


async def test_recall_is_off_unless_it_is_requested():
    async with asynchronous() as client:
        assert "UserPromptSubmit" not in memory_hooks(client)


async def test_runs_of_tools_are_kept_without_secrets_and_those_of_the_memory_are_not():
    async with asynchronous() as client:
        keep = memory_hooks(client)["PostToolUse"][0].hooks[0]
        run = {"session_id": "s", "tool_use_id": "t", "tool_input": {"command": "make test"}}
        await keep({"hook_event_name": "PostToolUse", "tool_name": "Bash", "tool_response": "passed", **run}, "t", {})
        failed = {"hook_event_name": "PostToolUseFailure", "tool_name": "Bash", "error": "AKIA" + "Q3EGRJ7XLZ2WTNPB"}
        await keep({**run, **failed, "tool_input": {"command": "make deploy", "password": "tulip"}}, "t", {})
        await keep(
            {"hook_event_name": "PostToolUse", "tool_name": MEMORY_TOOLS[0], "tool_response": "", **run}, "t", {}
        )

        kept = await client.retrieve("Tool Bash executed with params", 9)
        assert sorted(memory.metadata["success"] for memory in kept) == [False, True]
        assert not any("Q3EGRJ7" in memory.content or "tulip" in memory.content for memory in kept)


async def test_claude_stores_and_retrieves_by_tools_in_the_process():
    async with asynchronous() as client:
        async with Client(memory_server(client, session_id="monday")["instance"]) as claude:
            stored = await claude.call_tool("store_memory", {"content": "The dog is called Rex.", "importance": 0.8})
            found = await claude.call_tool("retrieve_memory", {"query": "dog called"})
            nothing = await claude.call_tool("retrieve_memory", {"query": "wholly unrelated"})
            refused = await claude.call_tool("store_memory", {"content": "   "})

        assert json.loads(text_of(stored))["memory_id"].startswith("src:")
        assert "The dog is called Rex." in text_of(found)
        assert text_of(found).startswith("<<treering:recalled")
        assert text_of(nothing) == "No memories match."
        assert refused.is_error
        [memory] = await client.retrieve("dog called")
        assert (memory.metadata["session_id"], memory.metadata["importance_score"]) == ("monday", 0.8)


async def test_the_options_of_the_sdk_take_it_all():
    async with asynchronous() as client:
        options = ClaudeAgentOptions(
            session_store=TreeringSessionStore(client),
            mcp_servers={"treering": memory_server(client)},
            allowed_tools=MEMORY_TOOLS,
            hooks=memory_hooks(client, recall=True),
        )

        assert sorted(options.hooks) == ["PostToolUse", "PostToolUseFailure", "UserPromptSubmit"]
