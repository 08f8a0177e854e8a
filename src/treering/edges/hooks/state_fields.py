"""Fields of a host's state and dependencies that hold its memory, as dataclasses to inherit from."""

from dataclasses import dataclass, field, fields
from typing import Any

from treering.edges.hooks.memory_access import CLIENT
from treering.edges.memory_client import BlockingMemoryClient, MemorySystemClient, live_client
from treering.memories.client.config import MemoryConfig
from treering.memories.client.profiles import AgentProfile


@dataclass(frozen=True, slots=True)
class _LeftOut:
    """Stands for a client in a pickled state."""

    key: str | None


@dataclass
class _WithoutClient:
    """Leaves the client out when it is pickled, and finds it again where the process still has it."""

    def __getstate__(self) -> dict[str, Any]:
        # Fields by name as well: where a host's dataclass has slots, its own are not in `__dict__`.
        own = {one.name: getattr(self, one.name) for one in fields(self) if hasattr(self, one.name)}
        kept = {**vars(self), **own}
        client = kept.get(CLIENT)
        if isinstance(client, MemorySystemClient | BlockingMemoryClient):
            kept[CLIENT] = _LeftOut(client.key if isinstance(client, MemorySystemClient) else None)
        return kept

    def __setstate__(self, kept: dict[str, Any]) -> None:
        for name, value in kept.items():
            found = live_client(value.key or "") if isinstance(value, _LeftOut) else value
            object.__setattr__(self, name, found)


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
