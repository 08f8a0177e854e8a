import asyncio
import copy
import dataclasses
import json
import pickle
import subprocess
import sys
from dataclasses import dataclass, field

import client_parts
import pytest
from pydantic import BaseModel, TypeAdapter

from treering.client import (
    BlockingMemoryClient,
    MemoryConfig,
    MemoryDependencies,
    MemoryState,
    MemorySystemClient,
    memory_node,
    recalled_memories,
    retrieve_memory,
    store_memory,
)


@dataclass
class ResearchState(MemoryState):
    question: str
    notes: list[str] = field(default_factory=list)


@dataclass(slots=True)
class SlottedState(MemoryState):
    question: str
    notes: list[str] = field(default_factory=list)


@dataclass
class AgentDependencies(MemoryDependencies):
    tools: list[str] = field(default_factory=list)


@dataclass(frozen=True)
class FrozenState:
    memory_client: MemorySystemClient | None = None
    memory_session_id: str | None = None


class ModelState(BaseModel):
    question: str
    session_id: str = "deep-1"
    memory_session_id: str | None = None
    memory_client: MemorySystemClient | None = None


@dataclass
class Context:
    state: object
    deps: object = None


@memory_node(content=lambda ctx, result: f"Kinase step {result}")
async def step(ctx):
    return len(recalled_memories())


def run_steps(state, deps=None, times=2):
    """Run a node some times, and return what it saw with the sessions of all that is stored."""

    async def run():
        seen = [await step(Context(state, deps)) for _ in range(times)]
        client = deps.memory_client if deps and deps.memory_client else state.memory_client
        found = await client.retrieve("kinase step", top_k=50, scope="space")
        return seen, {one.metadata.get("session_id") for one in found}

    return asyncio.run(run())


def test_all_fields_are_optional():
    state, deps = ResearchState("kinase"), AgentDependencies()
    assert (state.memory_session_id, state.memory_client, state.memory_config) == (None, None, None)
    assert (deps.memory_client, deps.memory_config, deps.session_id, deps.agent_profile) == (None, None, None, None)
    assert (state.question, deps.tools) == ("kinase", [])


def test_a_session_is_made_once_for_a_run_and_kept_in_its_state():
    client = client_parts.asynchronous()
    state, other = (ResearchState("kinase step", memory_client=client) for _ in range(2))
    run_steps(state)
    made = state.memory_session_id
    assert run_steps(state)[1] == {made}
    _, sessions = run_steps(other)
    assert sessions == {made, other.memory_session_id}
    assert other.memory_session_id not in {made, None}


def test_a_session_that_is_given_stays():
    client = client_parts.asynchronous()
    state = ResearchState("kinase step", memory_client=client, memory_session_id="run-1")
    deps = AgentDependencies(session_id="of the dependencies")
    assert run_steps(state, deps)[1] == {"run-1"}
    assert deps.session_id == "of the dependencies"


def test_the_session_of_the_dependencies_is_that_of_a_state_without_one():
    state, deps = ResearchState("kinase step"), AgentDependencies(session_id="run-1")
    deps.memory_client = client_parts.asynchronous()
    assert run_steps(state, deps)[1] == {"run-1"}
    assert state.memory_session_id == "run-1"
    assert state.memory_client is None


def test_a_state_that_cannot_keep_a_session_has_none():
    assert run_steps(FrozenState(client_parts.asynchronous())) == ([0, 0], {None})
    plain = {"memory_client": client_parts.asynchronous(), "memory_session_id": None, "question": "kinase step"}
    asyncio.run(step(Context(plain)))
    assert plain["memory_session_id"].startswith("run-")


def test_a_model_is_a_state_too():
    state = ModelState(question="kinase step", memory_client=client_parts.asynchronous())
    _, sessions = run_steps(state)
    assert sessions == {"deep-1"}
    assert json.loads(state.model_dump_json())["memory_client"] == state.memory_client.key


def test_tools_that_a_node_calls_use_the_session_of_their_dependencies():
    @memory_node(store=False)
    async def ask(ctx):
        await store_memory(ctx, "Kinase found")
        return {one["metadata"].get("session_id") for one in await retrieve_memory(ctx, "kinase")}

    async def run(session_id):
        client = client_parts.asynchronous()
        await client.store("Kinase of another run", {"session_id": "other"})
        deps = AgentDependencies(memory_client=client, session_id=session_id)
        return await ask(Context(ResearchState("kinase", memory_client=client), deps))

    assert asyncio.run(run("run-1")) == {"run-1"}
    assert asyncio.run(run(None)) == {None, "other"}


def copies(state):
    as_json = TypeAdapter(type(state))
    return {
        "copy": copy.copy(state),
        "deep copy": copy.deepcopy(state),
        "replace": dataclasses.replace(state),
        "asdict": type(state)(**dataclasses.asdict(state)),
        "pickle": pickle.loads(pickle.dumps(state)),
        "json": as_json.validate_json(as_json.dump_json(state)),
    }


@pytest.mark.parametrize("kind", [ResearchState, SlottedState])
@pytest.mark.parametrize("how", ["copy", "deep copy", "replace", "asdict", "pickle", "json"])
def test_a_copy_of_a_state_has_the_same_client(how, kind):
    client = client_parts.asynchronous()
    state = kind("kinase step", ["note"], memory_client=client, memory_config=client.config)
    run_steps(state)
    again = copies(state)[how]
    assert again.memory_client is client
    assert again == state
    assert run_steps(again)[1] == {state.memory_session_id}


@pytest.mark.parametrize("how", ["deep copy", "pickle"])
def test_a_copy_of_dependencies_has_the_same_client(how):
    deps = AgentDependencies(memory_client=client_parts.asynchronous(), tools=["bwa"], agent_profile="planner")
    again = copy.deepcopy(deps) if how == "deep copy" else pickle.loads(pickle.dumps(deps))
    assert again == deps
    assert again.memory_client is deps.memory_client


def test_a_checkpoint_holds_no_configuration_of_the_client():
    client = client_parts.asynchronous(client_parts.config(profiles={"custodian": {"max_items": 3}}))
    state = ResearchState("kinase", memory_client=client)
    assert b"custodian" not in pickle.dumps(state)
    assert b"custodian" not in TypeAdapter(ResearchState).dump_json(state)


@pytest.mark.parametrize("how", ["pickle", "json"])
def test_checkpoint_without_live_client_is_read(how):
    client = client_parts.asynchronous()
    state = ResearchState("kinase step", memory_client=client)
    checkpoint = pickle.dumps(state) if how == "pickle" else TypeAdapter(ResearchState).dump_json(state)
    asyncio.run(client.aclose())
    read = pickle.loads(checkpoint) if how == "pickle" else TypeAdapter(ResearchState).validate_json(checkpoint)
    assert read.memory_client is None
    assert read.question == "kinase step"
    assert asyncio.run(step(Context(read))) == 0


def test_a_state_that_was_written_as_text_by_its_host_has_no_client():
    state = ResearchState("kinase", memory_client=client_parts.asynchronous(), memory_config=client_parts.config())
    read = ResearchState(**json.loads(json.dumps(dataclasses.asdict(state), default=str)))
    assert asyncio.run(step(Context(read))) == 0
    deps = AgentDependencies(memory_client=client_parts.asynchronous(), session_id="run-1")
    assert run_steps(read, deps)[1] == {read.memory_session_id} == {"run-1"}


def test_a_blocking_client_and_a_hosts_own_do_not_keep_a_state_from_being_copied():
    blocking = BlockingMemoryClient(client_parts.config())
    state = ResearchState("kinase", memory_client=blocking)
    assert copy.copy(blocking) is copy.deepcopy(blocking) is blocking
    assert pickle.loads(pickle.dumps(state)).memory_client is None
    state.memory_client = "a client of the host's tests"
    assert copy.deepcopy(state).memory_client == "a client of the host's tests"


def test_a_resumed_state_takes_the_client_of_the_dependencies():
    client = client_parts.asynchronous()
    resumed = ResearchState("kinase step", memory_session_id="run-1")
    assert run_steps(resumed, AgentDependencies(memory_client=client))[1] == {"run-1"}


def test_a_resumed_state_finds_the_client_of_its_configuration():
    client = client_parts.asynchronous(client_parts.config(session_ttl=4321))
    resumed = ResearchState("kinase step", memory_config=client_parts.config(session_ttl=4321))
    run_steps(resumed)
    assert resumed.memory_client is client


RESUMING = """
import asyncio, pickle, sys
from test_state_fields import Context, run_steps
state = pickle.loads(sys.stdin.buffer.read())
print(state.memory_client, state.notes)
print(run_steps(state, times=1))
asyncio.run(state.memory_client.aclose())
"""


@pytest.mark.nightly
def test_a_run_goes_on_from_its_checkpoint_in_another_process(tmp_path):
    config = MemoryConfig.read({"sqlite": {"path": str(tmp_path / "memory.db")}})
    client = MemorySystemClient(config)
    state = ResearchState("kinase step", ["half done"], memory_client=client, memory_config=config)
    run_steps(state, times=1)
    asyncio.run(client.aclose())
    done = subprocess.run(
        [sys.executable, "-c", RESUMING],
        input=pickle.dumps(state),
        capture_output=True,
        cwd=str(client_parts.__file__).rpartition("/")[0],
        timeout=300,
        check=False,
    )
    assert done.stderr.decode() == ""
    assert done.stdout.decode() == f"None ['half done']\n([1], {{'{state.memory_session_id}'}})\n"
