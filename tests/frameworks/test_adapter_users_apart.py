"""Every adapter over one space with two users who use the same names: neither reads nor changes the other's data."""

import asyncio
import importlib
import importlib.util
from contextlib import suppress
from types import SimpleNamespace

import pytest
from framework_parts import asynchronous

from treering.extensions.client.record_names import RecordCollection
from treering.frameworks import FRAMEWORKS

pytestmark = pytest.mark.filterwarnings("ignore::ImportWarning")  # of CrewAI
SECRET = "salary of Oskar"
QUERY = "When is the salary paid on Monday"
TEXT = f"The {SECRET} is paid on Monday."
OTHER = "The salary of Mira is paid on Monday."
NO_ADAPTERS = {
    "claude_agent_sdk.MEMORY_TOOLS": "names of tools",
    "langchain.WIKI_MEMORY_PROMPT": "a text",
    "langchain.WIKI_MEMORY_SYSTEM_PROMPT": "a text",
    "langchain.WikiAgentState": "a schema",
    "langchain.WikiMemoryMiddleware": "memories of a repository, without a client",
    "langchain.WikiRunContext": "a schema",
}
_NOTES = {"field": "meta.kind", "operator": "==", "value": "note"}
_SESSION = {"project_key": "p", "session_id": "s1"}
_OF_USER = {"app_name": "app", "user_id": "u"}
CASES = {}
"""By adapter: how to store a text for a client, to read whatever is readable, and to change it."""


class Adapter:
    """An adapter over the memories of a client. One that stores messages also has `reply`: what the assistant says."""

    def store(self, client, text):
        raise NotImplementedError

    def read(self, client):
        raise NotImplementedError

    def change(self, client):
        """Change and remove whatever the adapter can; nothing if it only adds."""


def case(*names):
    """Register the way to use some adapters."""

    def register(cls):
        CASES.update(dict.fromkeys(names, cls))
        return cls

    return register


def adapters():
    """Return the public names of all facades to frameworks."""
    for module in FRAMEWORKS:
        for name in importlib.import_module(f"treering.{module}").__getattr__("__all__"):
            yield f"{module}.{name}"


@case("langchain.TreeringChatMessageHistory")
class ChatHistory(Adapter):
    @staticmethod
    def of(client):
        from treering.langchain import TreeringChatMessageHistory

        return TreeringChatMessageHistory("s1", client, erase=True)

    def store(self, client, text):
        from langchain_core.messages import HumanMessage

        self.of(client).add_messages([HumanMessage(text)])

    def reply(self, client, text):
        from langchain_core.messages import AIMessage

        self.of(client).add_messages([AIMessage(text)])

    def read(self, client):
        return self.of(client).messages

    def change(self, client):
        self.of(client).clear()


@case("langchain.TreeringVectorStore", "langchain.TreeringRetriever")
class VectorStore(Adapter):
    @staticmethod
    def of(client, **options):
        from treering.langchain import TreeringVectorStore

        return TreeringVectorStore(client, **options)

    def store(self, client, text):
        self.of(client).add_texts([text], ids=["t1"], metadatas=[{"kind": "note"}])

    def read(self, client):
        from treering.langchain import TreeringRetriever

        store = self.of(client)
        found = store.similarity_search(QUERY, k=5), store.similarity_search("zebra", filter={"kind": "note"})
        retriever = TreeringRetriever(client=client, session_id=None)
        return *found, store.get_by_ids(["t1"]), retriever.invoke(QUERY)

    def change(self, client):
        self.of(client).delete(["t1"])
        self.of(client, erase=True).delete()


@case("langgraph.TreeringStore")
class LangGraphStore(Adapter):
    @staticmethod
    def of(client):
        from treering.langgraph import TreeringStore

        return TreeringStore(client, erase=True, ttl={"refresh_on_read": True})

    def store(self, client, text):
        self.of(client).put(("users", "own"), "k", {"text": text}, ttl=60)

    def read(self, client):
        store = self.of(client)
        searches = [store.search(space, query=query) for space in ((), ("users",)) for query in (None, QUERY)]
        return *searches, store.get(("users", "own"), "k"), store.list_namespaces()

    def change(self, client):
        self.of(client).delete(("users", "own"), "k")
        self.of(client).sweep_ttl()


@case("langgraph.TreeringSaver")
class Saver(Adapter):
    @staticmethod
    def of(client):
        from treering.langgraph import TreeringSaver

        return TreeringSaver(client, erase=True)

    @staticmethod
    def config(**given):
        return {"configurable": {"thread_id": "1", "checkpoint_ns": "", **given}}

    def store(self, client, text):
        from langgraph.checkpoint.base import empty_checkpoint

        saver = self.of(client)
        version = saver.get_next_version(None, None)
        saved = {**empty_checkpoint(), "channel_values": {"n": text}, "channel_versions": {"n": version}}
        at = saver.put(self.config(), saved, {"run_id": "r1", "step": 1}, {"n": version})
        saver.put_writes(at, [("n", text)], "task")

    def read(self, client):
        saver = self.of(client)
        return saver.get_tuple(self.config()), [*saver.list(None)], [*saver.list(self.config())]

    def change(self, client):
        saver = self.of(client)
        saver.delete_for_runs(["r1"])
        saver.copy_thread("1", "2")
        saver.prune(["1"])
        saver.delete_thread("1")


@case("llama_index.TreeringMemoryBlock", "llama_index.TreeringNodeRetriever")
class LlamaIndex(Adapter):
    def store(self, client, text, role="user"):
        from llama_index.core.base.llms.types import ChatMessage

        from treering.llama_index import TreeringMemoryBlock

        asyncio.run(TreeringMemoryBlock(client=client)._aput([ChatMessage(role=role, content=text)]))

    def reply(self, client, text):
        self.store(client, text, "assistant")

    def read(self, client):
        from llama_index.core.base.llms.types import ChatMessage

        from treering.llama_index import TreeringMemoryBlock, TreeringNodeRetriever

        asked = ChatMessage(role="user", content=QUERY)
        recalled = asyncio.run(TreeringMemoryBlock(client=client)._aget([asked]))
        return recalled, [node.text for node in TreeringNodeRetriever(client).retrieve(QUERY)]


@case("haystack.TreeringDocumentStore", "haystack.TreeringDocumentRetriever")
class Haystack(Adapter):
    @staticmethod
    def of(client):
        from treering.haystack import TreeringDocumentStore

        return TreeringDocumentStore(client, erase=True)

    def store(self, client, text):
        from haystack import Document
        from haystack.document_stores.types import DuplicatePolicy

        document = Document(id="d1", content=text, meta={"kind": "note", "about": text})
        self.of(client).write_documents([document], DuplicatePolicy.OVERWRITE)

    def read(self, client):
        from treering.haystack import TreeringDocumentRetriever

        store = self.of(client)
        retriever = TreeringDocumentRetriever(store)
        found = [retriever.run(QUERY, filters=filters)["documents"] for filters in (None, _NOTES)]
        return *found, store.filter_documents(), store.get_metadata_field_unique_values("about")

    def change(self, client):
        store = self.of(client)
        store.update_by_filter(_NOTES, {"kind": "other"})
        store.delete_by_filter(_NOTES)
        store.delete_documents(["d1"])
        store.delete_all_documents()


@case("crewai.TreeringStorage")
class CrewAI(Adapter):
    @staticmethod
    def of(client):
        from treering.crewai import TreeringStorage

        return TreeringStorage(client, erase=True)

    def store(self, client, text):
        from crewai.memory.types import MemoryRecord

        record = MemoryRecord(id="r1", content=text, embedding=[1.0, 0.0], scope=f"/{text[:3]}", categories=[text])
        self.of(client).save([record])

    def read(self, client):
        storage = self.of(client)
        found = storage.search([1.0, 0.0]), storage.list_records(), storage.get_record("r1")
        return *found, storage.list_categories(), storage.get_scope_info("/")

    def change(self, client):
        storage = self.of(client)
        storage.delete(record_ids=["r1"])
        storage.reset()


@case("openai_agents.TreeringSession", "openai_agents.recall_before_model")
class OpenAIAgents(Adapter):
    @staticmethod
    def of(client):
        from treering.openai_agents import TreeringSession

        return TreeringSession("s1", client, erase=True)

    def store(self, client, text, role="user"):
        asyncio.run(self.of(client).add_items([{"role": role, "content": text}]))

    def reply(self, client, text):
        self.store(client, text, "assistant")

    def read(self, client):
        from agents.run import ModelInputData

        from treering.openai_agents import recall_before_model

        given = ModelInputData([{"role": "user", "content": QUERY}], None)
        shown = asyncio.run(recall_before_model(client)(SimpleNamespace(model_data=given)))
        return asyncio.run(self.of(client).get_items()), shown

    def change(self, client):
        asyncio.run(self.of(client).pop_item())
        asyncio.run(self.of(client).clear_session())


@case("claude_agent_sdk.TreeringSessionStore")
class ClaudeSessions(Adapter):
    @staticmethod
    def of(client):
        from treering.claude_agent_sdk import TreeringSessionStore

        return TreeringSessionStore(client, erase=True)

    def reply(self, client, text):
        message = {"role": "assistant", "content": [{"type": "text", "text": text}]}
        entry = {"type": "assistant", "uuid": "a1", "sessionId": "s1", "message": message}
        asyncio.run(self.of(client).append({**_SESSION}, [{**entry, "timestamp": "2026-01-01T00:01:00.000Z"}]))

    def store(self, client, text):
        entry = {"type": "user", "uuid": "u1", "sessionId": "s1", "message": {"role": "user", "content": text}}
        entry["timestamp"] = "2026-01-01T00:00:00.000Z"
        asyncio.run(self.of(client).append({**_SESSION}, [entry]))
        asyncio.run(self.of(client).append({**_SESSION, "subpath": "agent"}, [{**entry, "uuid": "u2"}]))

    def read(self, client):
        store = self.of(client)
        listed = [store.list_sessions("p"), store.list_session_summaries("p"), store.list_subkeys({**_SESSION})]
        return [asyncio.run(one) for one in (store.load({**_SESSION}), *listed)]

    def change(self, client):
        asyncio.run(self.of(client).delete({**_SESSION}))


@case("claude_agent_sdk.memory_server", "claude_agent_sdk.memory_hooks")
class ClaudeTools(Adapter):
    @staticmethod
    def call(client, name, **given):
        from mcp import Client

        from treering.claude_agent_sdk import memory_server

        async def called():
            async with Client(memory_server(client)["instance"]) as session:
                return (await session.call_tool(name, given)).content[0].text

        return asyncio.run(called())

    def store(self, client, text):
        self.call(client, "store_memory", content=text, metadata={"user_id": "mira"})

    def read(self, client):
        from treering.claude_agent_sdk import memory_hooks

        hook = memory_hooks(client, recall=True)["UserPromptSubmit"][0].hooks[0]
        prompt = {"hook_event_name": "UserPromptSubmit", "prompt": QUERY}
        return self.call(client, "retrieve_memory", query=QUERY), asyncio.run(hook(prompt, None, None))


@case("agent_framework.TreeringContextProvider", "agent_framework.TreeringHistoryProvider")
class AgentFramework(Adapter):
    @staticmethod
    def context(text, role="user"):
        from agent_framework import Message, SessionContext

        return SessionContext(input_messages=[Message(role=role, contents=[text])])

    def reply(self, client, text):
        self.store(client, text, "assistant")

    def store(self, client, text, role="user"):
        from treering.agent_framework import TreeringContextProvider, TreeringHistoryProvider

        context = self.context(text, role)
        given = {"agent": None, "session": SimpleNamespace(session_id="s1"), "context": context, "state": {}}
        asyncio.run(TreeringContextProvider(client).after_run(**given))
        asyncio.run(TreeringHistoryProvider(client).save_messages("s1", context.input_messages))

    def read(self, client):
        from treering.agent_framework import TreeringContextProvider, TreeringHistoryProvider

        context = self.context(QUERY)
        given = {"agent": None, "session": None, "context": context, "state": {}}
        asyncio.run(TreeringContextProvider(client).before_run(**given))
        recalled = [one.text for added in context.context_messages.values() for one in added]
        return recalled, [one.text for one in asyncio.run(TreeringHistoryProvider(client).get_messages("s1"))]


@case("anthropic.TreeringMemoryTool", "anthropic.AsyncTreeringMemoryTool")
class AnthropicTool(Adapter):
    @staticmethod
    def call(client, command, **given):
        from treering.anthropic import TreeringMemoryTool

        return TreeringMemoryTool(client, erase=True).call({"command": command, **given})

    def store(self, client, text):
        self.call(client, "create", path="/memories/a.md", file_text=text)

    def read(self, client):
        from anthropic.lib.tools import ToolError

        shown = self.call(client, "view", path="/memories")
        with suppress(ToolError):
            shown += self.call(client, "view", path="/memories/a.md")
        return shown

    def change(self, client):
        from anthropic.lib.tools import ToolError

        from treering.anthropic import TreeringMemoryTool

        path = "/memories/a.md"
        for command in (
            {"command": "str_replace", "path": path, "old_str": SECRET, "new_str": "x"},
            {"command": "insert", "path": path, "insert_line": 0, "insert_text": "x"},
            {"command": "rename", "old_path": path, "new_path": "/memories/b.md"},
            {"command": "delete", "path": "/memories/b.md"},
            {"command": "delete", "path": path},
        ):
            with suppress(ToolError):
                self.call(client, **command)
        TreeringMemoryTool(client, erase=True).clear_all_memory()


@case("strands.TreeringMemoryStore")
class Strands(Adapter):
    @staticmethod
    def of(client):
        from treering.strands import TreeringMemoryStore

        return TreeringMemoryStore(client)

    def store(self, client, text):
        asyncio.run(self.of(client).add(text))
        self.say(client, "user", text)

    def reply(self, client, text):
        self.say(client, "assistant", text)

    def say(self, client, role, text):
        asyncio.run(self.of(client).add_messages([{"role": role, "content": [{"text": text}]}]))

    def read(self, client):
        return [one.content for one in asyncio.run(self.of(client).search(QUERY))]


@case("pydantic_ai.TreeringMemory", "pydantic_ai.memory_toolset")
class PydanticAI(Adapter):
    @staticmethod
    def call(client, tool, **given):
        from pydantic_ai import Agent
        from pydantic_ai.messages import ModelResponse, TextPart, ToolCallPart
        from pydantic_ai.models.function import FunctionModel

        from treering.pydantic_ai import TreeringMemory

        shown = []

        def answer(messages, _info):
            shown.append([part.content for message in messages for part in message.parts if hasattr(part, "content")])
            return ModelResponse([ToolCallPart(tool, given) if len(shown) == 1 else TextPart("done")])

        memory = TreeringMemory(client, session_id="s1", recall=True, log_tools=False)
        asyncio.run(Agent(FunctionModel(answer), capabilities=[memory]).run(QUERY))
        return shown

    def store(self, client, text):
        self.call(client, "store_memory", content=text, metadata={"user_id": "mira"})

    def read(self, client):
        return self.call(client, "retrieve_memory", query=QUERY)


@case("pydantic_ai_harness.TreeringFileStore")
class Harness(Adapter):
    @staticmethod
    def of(client):
        from treering.pydantic_ai_harness import TreeringFileStore

        return TreeringFileStore(client, erase=True)

    def store(self, client, text):
        from pydantic_ai_harness.memory import MemoryOperation

        operation = MemoryOperation(id="op1", fingerprint=text)
        asyncio.run(self.of(client).write("a/b", text, expected_version=None, operation=operation))

    def read(self, client):
        store = self.of(client)
        bounds = {"limit": 5, "max_files": 9, "max_chars": 999, "max_file_chars": 999}
        found = asyncio.run(store.read("a/b", max_chars=99)), asyncio.run(store.search("a/", QUERY, **bounds))
        return *found, asyncio.run(store.list_paths(limit=9))

    def change(self, client):
        from pydantic_ai_harness.memory import MemoryConflictError

        file = asyncio.run(self.of(client).read("a/b", max_chars=99))
        with suppress(MemoryConflictError):
            asyncio.run(self.of(client).delete("a/b", expected_version=file.version if file else None))


@case("google_adk.TreeringMemoryService")
class GoogleADK(Adapter):
    @staticmethod
    def of(client):
        from treering.google_adk import TreeringMemoryService

        return TreeringMemoryService(client)

    def store(self, client, text, identity="m1", author="user"):
        from google.adk.memory.memory_entry import MemoryEntry
        from google.genai import types

        content = types.Content(role=None if author else "user", parts=[types.Part(text=text)])
        entry = MemoryEntry(id=identity, content=content, author=author, timestamp="2026-01-01T00:00:00Z")
        asyncio.run(self.of(client).add_memory(**_OF_USER, memories=[entry]))

    def reply(self, client, text):
        self.store(client, text, "m2", "planner")

    def read(self, client):
        return asyncio.run(self.of(client).search_memory(**_OF_USER, query=QUERY))

    def change(self, client):
        asyncio.run(self.of(client).delete_memory(**_OF_USER, memory_id="m1"))


@pytest.fixture
def users(tmp_path):
    config = {"backend": "sqlite", "sqlite": {"path": str(tmp_path / "memory.db")}}
    clients = {name: asynchronous(config, user_id=name, channel="user") for name in ("oskar", "mira")}
    yield SimpleNamespace(**clients)
    for client in clients.values():
        client.sync.close()


@pytest.fixture(params=[*dict.fromkeys(CASES.values())], ids=lambda cls: cls.__name__)
def adapter(request):
    (module, *_) = (name.partition(".")[0] for name, cls in CASES.items() if cls is request.param)
    if not _is_installed(FRAMEWORKS[module].package):
        pytest.skip(f"needs the extra {FRAMEWORKS[module].extra!r}")
    return request.param()


def _is_installed(package):
    try:
        return importlib.util.find_spec(package) is not None
    except ModuleNotFoundError:  # of the package above
        return False


def test_every_adapter_is_tried():
    assert set(adapters()) == CASES.keys() | NO_ADAPTERS.keys()


def test_user_neither_reads_nor_changes_data_of_another(adapter, users):
    nothing = str(adapter.read(users.mira))
    adapter.store(users.oskar, TEXT)
    before = str(adapter.read(users.oskar))
    assert SECRET in before
    assert str(adapter.read(users.mira)) == nothing
    adapter.change(users.mira)
    assert str(adapter.read(users.oskar)) == before
    adapter.store(users.mira, OTHER)
    own = str(adapter.read(users.mira))
    assert (SECRET in own, "Mira" in own) == (False, True)
    adapter.change(users.mira)  # while both have data under the same names
    assert str(adapter.read(users.oskar)) == before


def test_adapter_stores_the_role_of_a_message(adapter, users):
    adapter.store(users.oskar, TEXT)
    stored = users.oskar.sync.retrieve(QUERY, 50)
    messages = [one for one in stored if one.metadata.get("memory_type") == "message"]
    assert all(one.metadata["role"] in ("user", "human") for one in messages)
    assert hasattr(adapter, "reply") or not messages


def test_reply_of_the_assistant_replaces_no_statement_of_the_user(adapter, users):
    if not hasattr(adapter, "reply"):
        pytest.skip("stores no messages")
    adapter.store(users.oskar, "My manager is Tom Hale.")
    adapter.reply(users.oskar, "My manager is now Priya Nair.")
    found = users.oskar.sync.retrieve("Who is my manager?", 50)
    assert {one.content: one.replaced_by for one in found} == {
        "My manager is Tom Hale.": "",
        "My manager is now Priya Nair.": "",
    }


def test_user_reads_and_removes_data_of_an_earlier_version(adapter, users, monkeypatch):
    origin = RecordCollection.origin
    with monkeypatch.context() as earlier:  # which stored the records of all users at the same origins
        earlier.setattr(RecordCollection, "origin", lambda self, key="", *, user_id=None: origin(self, key))
        adapter.store(users.oskar, TEXT)
    before = str(adapter.read(users.oskar))
    assert SECRET in before
    adapter.store(users.mira, OTHER)
    adapter.change(users.mira)
    assert SECRET not in str(adapter.read(users.mira))
    assert str(adapter.read(users.oskar)) == before
    adapter.change(users.oskar)
    if type(adapter).change is not Adapter.change:
        assert SECRET not in str(adapter.read(users.oskar))
