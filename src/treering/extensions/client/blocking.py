"""The memory client with blocking methods: opens the space that a configuration names, when it is first used."""

import weakref
from collections.abc import Mapping
from functools import partial
from typing import Any, Self

from treering.core.objects import Channel
from treering.extensions.client.config import MemoryConfig
from treering.extensions.client.default_place import with_place
from treering.extensions.client.items.recalling import Who
from treering.extensions.client.memory import ClientMemory
from treering.extensions.client.opening import check, open_memory
from treering.extensions.client.place import Given, GivenEmbedder
from treering.extensions.engines.host import VectorStoreAdapter
from treering.ports.models import Reranker
from treering.system.settings import Settings


class BlockingMemoryClient(ClientMemory):
    """The memory client with blocking methods, for tool runners and scripts. Safe to use from many threads.

    The space is opened by the first call that needs it. With `enabled=False` nothing is opened, stored or found.
    """

    def __init__(
        self,
        config: MemoryConfig | Mapping[str, Any] | None = None,
        connection: object | None = None,
        *,
        agent_type: str | None = None,
        user_id: str | None = None,
        actor: str | None = None,
        channel: Channel = "agent",
        embedder: GivenEmbedder | None = None,
        reranker: Reranker | None = None,
        background: bool | None = None,
        vector_store: VectorStoreAdapter | None = None,
    ) -> None:
        given = Given(connection, vector_store, embedder, reranker, background)
        checked, who = _checked(config, given), Who(agent_type, user_id)
        super().__init__(checked, who, partial(open_memory, checked, who, given, actor=actor, channel=channel))
        self.agent_type = agent_type
        """The agent type of its memories, if there is one."""
        self.pickled: tuple[MemoryConfig, str | None, str | None, str | None, Channel] = (
            self.config,
            agent_type,
            user_id,
            actor,
            channel,
        )
        """The arguments with which a pickled client is opened again."""
        # If the program does not close it, buffered memories are written at the end.
        weakref.finalize(self, self._space.close)

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def __copy__(self) -> Self:
        return self

    def __deepcopy__(self, _memo: dict[int, Any]) -> Self:
        return self


def _checked(config: MemoryConfig | Mapping[str, Any] | None, given: Given) -> MemoryConfig:
    """Return the configuration with the file of its memories. Raises `InvalidInput` if it cannot be used."""
    read = config if isinstance(config, MemoryConfig) else MemoryConfig.read({} if config is None else config)
    if not read.enabled:
        return read
    settings = Settings.read()
    placed = with_place(read, settings)
    check(placed, settings, given)
    return placed
