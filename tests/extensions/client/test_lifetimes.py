"""How long memories are retrieved, by a clock that is set forward."""

from dataclasses import replace

import client_parts
import pytest

from treering.extensions.client import opening


@pytest.fixture
def memory_at(monkeypatch):
    """Return a function that opens a client, and the clock of its space."""
    clocks, clients = [], []

    def open_engine(given):
        opened = open_in_time(given)
        clocks.append(client_parts.Later(opened.engine.clock))
        return replace(opened, engine=replace(opened.engine, clock=clocks[-1]))

    def memory_at(**given):
        clients.append(client_parts.blocking(client_parts.config(**given)))
        clients[-1].catch_up()  # opens the space
        return clients[-1], clocks[-1]

    open_in_time = opening.open_engine
    monkeypatch.setattr(opening, "open_engine", open_engine)
    yield memory_at
    for client in clients:
        client.close()


def test_a_memory_is_retrieved_until_its_session_ttl_is_over(memory_at):
    memory, clock = memory_at(session_ttl=3600)
    memory.store("BWA alignment run", {"session_id": "run"})
    clock.ahead = 3_500
    assert len(memory.retrieve("BWA alignment")) == 1
    clock.ahead = 3_700
    assert memory.retrieve("BWA alignment") == []
    assert memory.retrieve("BWA alignment", session_id="run") == []


def test_without_a_ttl_and_a_limit_of_age_a_memory_is_retrieved_for_ever(memory_at):
    memory, clock = memory_at(session_ttl=None, retrieval={"max_age_seconds": None})
    memory.store("BWA alignment run")
    clock.ahead = 10 * 366 * 86_400
    assert len(memory.retrieve("BWA alignment")) == 1


def test_the_limit_of_age_looks_at_when_it_happened(memory_at):
    memory, clock = memory_at(retrieval={"max_age_seconds": 60})
    memory.store("BWA alignment long ago", {"timestamp": "2020-01-01T00:00:00Z"})
    memory.store("BWA alignment just now")
    assert client_parts.texts(memory.retrieve("BWA alignment")) == ["BWA alignment just now"]
    clock.ahead = 61
    assert memory.retrieve("BWA alignment") == []
