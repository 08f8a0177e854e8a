"""Google ADK: its own runner with a scripted model, over two sessions."""

import pytest
from framework_parts import asynchronous

pytest.importorskip("google.adk", reason="needs the extra 'google-adk'")

from google.adk.agents import LlmAgent
from google.adk.memory.memory_entry import MemoryEntry
from google.adk.models.base_llm import BaseLlm
from google.adk.models.llm_response import LlmResponse
from google.adk.runners import Runner
from google.adk.sessions import InMemorySessionService
from google.adk.tools.preload_memory_tool import PreloadMemoryTool
from google.genai import types

from treering.google_adk import TreeringMemoryService

pytestmark = pytest.mark.anyio
ANN = {"app_name": "pets", "user_id": "ann"}
SHOWN = []


class ScriptedModel(BaseLlm):
    """Always says `noted`, and keeps what it was shown."""

    async def generate_content_async(self, llm_request, stream=False):
        told = [part.text for content in llm_request.contents for part in content.parts]
        SHOWN.append("\n".join([str(llm_request.config.system_instruction or ""), *map(str, told)]))
        yield LlmResponse(content=types.Content(role="model", parts=[types.Part(text="noted")]))


def said(text):
    return types.Content(role="user", parts=[types.Part(text=text)])


async def talk(service, session_id, text):
    sessions = InMemorySessionService()
    agent = LlmAgent(name="helper", model=ScriptedModel(model="scripted"), tools=[PreloadMemoryTool()])
    runner = Runner(app_name="pets", agent=agent, session_service=sessions, memory_service=service)
    await sessions.create_session(**ANN, session_id=session_id)
    async for _ in runner.run_async(user_id="ann", session_id=session_id, new_message=said(text)):
        pass
    session = await sessions.get_session(**ANN, session_id=session_id)
    await service.add_session_to_memory(session)
    return session


async def test_a_second_session_is_shown_what_the_first_one_told():
    async with asynchronous() as client:
        service = TreeringMemoryService(client)
        await talk(service, "monday", "my dog is called Rex")
        await talk(service, "tuesday", "what is my dog called")

        assert "my dog is called Rex" in SHOWN[-1]


async def test_a_session_that_is_added_again_is_kept_once_and_what_was_deleted_stays_away():
    async with asynchronous() as client:
        service = TreeringMemoryService(client)
        session = await talk(service, "monday", "my dog is called Rex")
        await service.add_session_to_memory(session)
        [found] = (await service.search_memory(**ANN, query="dog called")).memories
        assert (found.author, found.content.parts[0].text) == ("user", "my dog is called Rex")

        await service.delete_memory(**ANN, memory_id=found.id)
        await service.add_session_to_memory(session)
        assert (await service.search_memory(**ANN, query="dog called")).memories == []


async def test_other_users_and_apps_see_nothing_of_it():
    async with asynchronous() as client:
        service = TreeringMemoryService(client)
        await talk(service, "monday", "my dog is called Rex")

        for other in ({**ANN, "user_id": "bob"}, {**ANN, "app_name": "cars"}):
            assert (await service.search_memory(**other, query="dog called")).memories == []


async def test_memories_are_kept_as_they_are():
    async with asynchronous({"retrieval": {"max_age_seconds": None}}) as client:
        service = TreeringMemoryService(client)
        memory = MemoryEntry(content=said("tea is green"), author="ann", timestamp="2026-01-02T03:04:05Z")
        await service.add_memory(**ANN, memories=[memory, memory], custom_metadata={"source": "book"})
        [found] = (await service.search_memory(**ANN, query="green tea")).memories

        assert (found.content, found.author) == (memory.content, "ann")
        assert found.timestamp.startswith("2026-01-02T03:04:05")
        assert [one.metadata["source"] for one in await client.retrieve("green tea", 1)] == ["book"]
