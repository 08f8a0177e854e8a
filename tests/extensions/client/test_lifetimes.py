"""How long memories are retrieved, by a clock that is set forward."""

from contextlib import contextmanager
from dataclasses import replace

import client_parts

from space_parts import open_space
from treering.extensions.client.items.recalling import Who
from treering.extensions.client.memory import ClientMemory
from treering.extensions.client.opening import OpenMemory
from treering.extensions.client.writing import MemoryWriter


@contextmanager
def memory_at(**given):
    with open_space(channel="agent") as space:
        later = client_parts.Later(space.engine.clock)
        engine, config = replace(space.engine, clock=later), client_parts.config(**given)
        opened = OpenMemory(engine, MemoryWriter(engine, config.storage), space.close, lasting=True)
        memory = ClientMemory(config, Who(), lambda: opened)
        yield memory, later
        memory.close()


def test_a_memory_is_retrieved_until_its_session_ttl_is_over():
    with memory_at(session_ttl=3600) as (memory, clock):
        memory.store("BWA alignment run", {"session_id": "run"})
        clock.ahead = 3_500
        assert len(memory.retrieve("BWA alignment")) == 1
        clock.ahead = 3_700
        assert memory.retrieve("BWA alignment") == []
        assert memory.retrieve("BWA alignment", session_id="run") == []


def test_without_a_ttl_and_a_limit_of_age_a_memory_is_retrieved_for_ever():
    with memory_at(session_ttl=None, retrieval={"max_age_seconds": None}) as (memory, clock):
        memory.store("BWA alignment run")
        clock.ahead = 10 * 366 * 86_400
        assert len(memory.retrieve("BWA alignment")) == 1


def test_the_limit_of_age_looks_at_when_it_happened():
    with memory_at(retrieval={"max_age_seconds": 60}) as (memory, clock):
        memory.store("BWA alignment long ago", {"timestamp": "2020-01-01T00:00:00Z"})
        memory.store("BWA alignment just now")
        assert client_parts.texts(memory.retrieve("BWA alignment")) == ["BWA alignment just now"]
        clock.ahead = 61
        assert memory.retrieve("BWA alignment") == []
