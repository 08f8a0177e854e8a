"""Fields of a host's state and dependencies that hold its memory, as dataclasses to inherit from."""

from dataclasses import dataclass, field
from typing import Any

from treering.edges.hooks.memory_access import CLIENT
from treering.edges.memory_client import BlockingMemoryClient, MemorySystemClient, live_client
from treering.memories.client.config import MemoryConfig
from treering.memories.client.profiles import AgentProfile


@dataclass(frozen=True, slots=True)
class _LeftOut:
    """Stands for a client in a pickled state."""

    key: str | None


class _WithoutClient:
    """Leaves the client out when it is pickled, and finds it again where the process still has it."""

    def __getstate__(self) -> dict[str, Any]:
        client = self.__dict__.get(CLIENT)
        if not isinstance(client, MemorySystemClient | BlockingMemoryClient):
            return {**self.__dict__}
        left_out = _LeftOut(client.key if isinstance(client, MemorySystemClient) else None)
        return {**self.__dict__, CLIENT: left_out}

    def __setstate__(self, kept: dict[str, Any]) -> None:
        client = kept.get(CLIENT)
        if isinstance(client, _LeftOut):
            kept = {**kept, CLIENT: live_client(client.key) if client.key else None}
        self.__dict__.update(kept)


@dataclass(kw_only=True)
class MemoryState(_WithoutClient):
    """The memory fields of a workflow's state; all are optional, and without them there is no memory.

    Copies hold the same client. In what is pickled or written as JSON it is left out, for a key by which its process
    finds it again; in another process a hook takes that of the dependencies, or opens the one of `memory_config`.
    """

    memory_session_id: str | None = None
    """The session of the run. Where none is given the first hook makes one."""
    memory_client: MemorySystemClient | None = field(default=None, repr=False, compare=False)
    memory_config: MemoryConfig | None = field(default=None, repr=False)
    """The settings of the run; where there is no client, the one to be opened."""


@dataclass(kw_only=True)
class MemoryDependencies(_WithoutClient):
    """The memory fields of an agent's dependencies; all are optional, and without a client there is no memory."""

    memory_client: MemorySystemClient | None = field(default=None, repr=False, compare=False)
    memory_config: MemoryConfig | None = field(default=None, repr=False)
    """The settings of the agent: they stand where its profile says nothing."""
    session_id: str | None = None
    agent_profile: AgentProfile | str | None = None
    """A profile, or the name of one."""
