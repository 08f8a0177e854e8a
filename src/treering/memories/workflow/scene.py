"""What a workflow runs in: a conversation, and what may be changed there."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Protocol

from treering.memories.discussion.log.blocks import StoredMessage
from treering.memories.discussion.making import MakingReport
from treering.memories.discussion.memory import Discussion, Recollection
from treering.memories.workflow.chunk_results import StoredResults
from treering.ports.lease import Leases
from treering.tools.engine import Engine


class Creator(Protocol):
    """Makes memories of what was said."""

    def update(self, *, wait_seconds: float = 0.0) -> MakingReport:
        """Make the memories that are due."""
        ...


class ChunkResults(Protocol):
    """Keeps what was made of each chunk of messages."""

    def find(self, key: str) -> str | None:
        """Return what was kept under a key, while the messages it was made of stand."""
        ...

    def keep(self, key: str, text: str, messages: Sequence[StoredMessage], *, made_by: str) -> None:
        """Keep what was made of some messages. Durable before this returns, where anything is."""
        ...


@dataclass(frozen=True, slots=True)
class Scene:
    """A conversation. What only a kept one has is `None` for messages at hand: nothing is stored of those.

    `creator` makes memories, `results` keeps what was made of chunks, `leases` let one run at a time work.
    """

    recollection: Recollection
    discussion_id: str = ""
    system_prompt: str = ""
    scope: str = ""
    creator: Creator | None = None
    results: ChunkResults | None = None
    leases: Leases | None = None

    @property
    def is_kept(self) -> bool:
        """Tell whether it is a discussion that is kept, rather than messages at hand."""
        return self.creator is not None


def scene_of(engine: Engine, discussion: Discussion, *, system_prompt: str = "") -> Scene:
    """Return the scene of a discussion that is kept."""
    return Scene(
        recollection=discussion,
        discussion_id=discussion.id,
        system_prompt=system_prompt,
        scope=discussion.ref.scope,
        creator=discussion,
        results=StoredResults(engine, discussion.ref),
        leases=engine.leases,
    )
