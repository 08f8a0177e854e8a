"""Pydantic AI Harness: its own protocols, random operations beside its own store, and its capability with a model."""

import asyncio

import pytest
from framework_parts import asynchronous, blocking
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

pytest.importorskip("pydantic_ai_harness", reason="needs the extra 'pydantic-ai-harness'")

from pydantic_ai import Agent
from pydantic_ai.messages import ModelResponse, TextPart, ToolCallPart
from pydantic_ai.models.function import FunctionModel
from pydantic_ai_harness.memory import (
    InMemoryStore,
    Memory,
    MemoryConflictError,
    MemoryOperation,
    MemoryOperationConflictError,
    MetadataMemoryStore,
    SearchableMemoryStore,
)

from treering.pydantic_ai_harness import TreeringFileStore

pytestmark = pytest.mark.anyio


@pytest.fixture
def client():
    with blocking() as opened:
        yield opened


@pytest.fixture
def store(client):
    return TreeringFileStore(client)


def test_it_satisfies_the_protocols_of_the_harness(store):
    assert isinstance(store, MetadataMemoryStore)
    assert isinstance(store, SearchableMemoryStore)


PATHS = ("a", "b", "f/a", "f/b", "f/g/a", "ff/a")
_steps = st.lists(
    st.tuples(
        st.sampled_from(("write", "write", "delete", "list", "read")),
        st.sampled_from(PATHS),
        st.sampled_from(("x", "", "longer text")),
        st.booleans(),
        st.sampled_from((None, "one", "two")),
    ),
    max_size=15,
)


async def taken(store, versions, step):
    """Take a step, and return what a caller sees of it; versions are opaque."""
    what, path, text, current, operation = step
    expected = versions.get(path) if current else "another"
    named = {"operation": MemoryOperation(operation, f"{what} {path} {text}")} if operation else {}
    try:
        match what:
            case "read":
                file = await store.read(path, max_chars=4)
                return file and (file.content, file.truncated, file.metadata, file.operation_id)
            case "list":
                return await store.list_paths(path, limit=3)
            case "write":
                told = {"text": text} if text else None
                done = await store.write_with_metadata(path, text, expected_version=expected, metadata=told, **named)
            case _:
                done = await store.delete(path, expected_version=expected, **named)
    except (MemoryConflictError, MemoryOperationConflictError) as error:
        return type(error)
    if not done.replayed:
        versions[path] = done.version
    return done.existed, done.replayed, done.version is None


@settings(max_examples=25, deadline=None, suppress_health_check=list(HealthCheck))
@given(steps=_steps)
def test_random_operations_do_what_the_store_of_the_harness_does(steps):
    async def compared(client):
        ours, theirs = TreeringFileStore(client), InMemoryStore()
        first, second = {}, {}
        for step in steps:
            assert await taken(ours, first, step) == await taken(theirs, second, step), step

    with blocking() as client:
        asyncio.run(compared(client))


async def test_a_version_that_was_deleted_and_made_again_is_another_one(store):
    first = await store.write("a", "text", expected_version=None)
    await store.delete("a", expected_version=first.version)
    await store.write("a", "text", expected_version=None)
    with pytest.raises(MemoryConflictError):
        await store.write("a", "later", expected_version=first.version)


async def test_writers_at_once_lose_nothing(store):
    async def append(number):
        while True:
            file = await store.read("notes", max_chars=10_000)
            content, version = (file.content, file.version) if file else ("", None)
            try:
                await store.write("notes", f"{content}{number};", expected_version=version)
            except MemoryConflictError:
                continue
            return

    await asyncio.gather(*(append(number) for number in range(5)))
    file = await store.read("notes", max_chars=10_000)
    assert sorted(file.content.split(";")) == ["", "0", "1", "2", "3", "4"]


async def test_a_search_finds_files_of_one_folder(store):
    await store.write("ann/build", "The build needs Python 3.12.", expected_version=None)
    await store.write("ann/deep/build", "The build needs Python 3.12.", expected_version=None)
    await store.write("bob/build", "The build needs Python 3.12.", expected_version=None)
    bounds = {"limit": 5, "max_files": 100, "max_chars": 20, "max_file_chars": 1_000}
    found = await store.search("ann/", "which python does the build need", **bounds)
    assert [match.path for match in found.matches] == ["ann/build"]
    assert len(found.matches[0].snippet) == 15
    assert (await store.search("ann/", "kangaroo", **bounds)).matches == []


@pytest.mark.parametrize("path", ["", "/a", "a//b", "../a", "a/..", "a/./b", "a b", "a/"])
async def test_what_is_no_path_is_refused(store, path):
    with pytest.raises(ValueError, match="invalid memory path"):
        await store.write(path, "text", expected_version=None)


async def test_folders_are_apart_and_erased_files_leave_nothing(client):
    ann, bob = TreeringFileStore(client, "ann"), TreeringFileStore(client, "bob")
    await ann.write("notes", "The dog is called Rex.", expected_version=None)
    assert await bob.list_paths(limit=10) == []
    assert [memory.content for memory in client.retrieve("What is the dog called?")] == ["The dog is called Rex."]
    with blocking(channel="user") as own:
        store = TreeringFileStore(own, erase=True)
        written = await store.write("notes", "The dog is called Rex.", expected_version=None)
        await store.delete("notes", expected_version=written.version)
        assert own.retrieve("What is the dog called?") == []


async def test_an_agent_writes_a_file_that_another_run_reads():
    def scripted(messages, info):
        asked = messages[-1].parts[-1]
        names = [tool.name for tool in info.function_tools]
        if asked.part_kind == "user-prompt" and "Remember" in asked.content:
            assert "write_memory" in names
            return ModelResponse([ToolCallPart("write_memory", {"content": "The build needs Python 3.12."})])
        shown = str(messages)
        return ModelResponse([TextPart("known" if "Python 3.12" in shown else "unknown")])

    async with asynchronous() as client:
        agent = Agent(FunctionModel(scripted), capabilities=[Memory(store=TreeringFileStore(client))])
        assert (await agent.run("Which Python?")).output == "unknown"
        await agent.run("Remember it.")
        assert (await agent.run("Which Python?")).output == "known"
