"""What a workflow runs in: a conversation, and what may be changed there."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Protocol

from treering.core.errors import Conflict, InvalidPatch
from treering.core.evidence import EvidenceRef
from treering.core.filters import And, Compare
from treering.core.objects import Knowledge, Summary
from treering.core.patch import Create
from treering.parts.discussions.identity import DiscussionRef, apply_patch
from treering.parts.discussions.log.blocks import StoredMessage
from treering.parts.discussions.making import MakingReport
from treering.parts.discussions.memory import Discussion, Recollection
from treering.parts.discussions.summaries.memories import citing
from treering.ports.ledger import Selection
from treering.ports.runtime import Leases
from treering.verbs.crystallize.drafting import make
from treering.verbs.engine import Engine
from treering.verbs.envelope import Call


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


# What was made of each chunk of a kept discussion, kept with it: it falls when one of its messages is withdrawn.


@dataclass(frozen=True, slots=True)
class StoredResults:
    """The results of one discussion, each knowledge of its own that rests on the messages of its chunk."""

    engine: Engine
    ref: DiscussionRef

    def find(self, key: str) -> str | None:
        """Return the result that is kept under a key. What that costs does not grow with the discussion."""
        named = {"kind": "summary", "scope": self.ref.scope, "title": self._title(key), "status": "active"}
        where = And(tuple(Compare(name, "eq", value) for name, value in named.items()))
        found = self.engine.ledger.select(Selection(scope=self.ref.scope, types=("knowledge",), where=where))
        return next((item.summary for item in found if isinstance(item, Knowledge) and _is_of(item, key)), None)

    def keep(self, key: str, text: str, messages: Sequence[StoredMessage], *, made_by: str) -> None:
        """Keep a result, without secrets. Where another run was first, its result stays.

        Raises `Conflict` where a message was withdrawn meanwhile, `Denied` where the space asks for a review.
        """
        evidence = citing(messages)
        fields = {
            "kind": "summary",
            "title": self._title(key),
            "summary": text,
            "status": "active",
            "evidence_refs": [ref.model_dump(mode="json") for ref in evidence],
            "payload": self._payload(key, messages, made_by).model_dump(mode="json"),
            "memory_source": "system_generated",
        }
        item = make(Call(self.engine, self.ref.scope), Knowledge, fields)
        told = f"What was made of messages {messages[0].position} to {messages[-1].position}"
        try:
            apply_patch(self.engine, self.ref, [Create(object=item)], reason=told)
        except InvalidPatch as error:
            if self._stand(evidence):
                raise
            raise Conflict("A message was withdrawn meanwhile.", hint="Run the workflow again.") from error

    def _payload(self, key: str, messages: Sequence[StoredMessage], made_by: str) -> Summary:
        return Summary(form="digest", key=key, first=messages[0].position, last=messages[-1].position, made_by=made_by)

    def _title(self, key: str) -> str:
        return f"Discussion {self.ref.id}: made of a chunk, {key}"

    def _stand(self, evidence: Sequence[EvidenceRef]) -> bool:
        places = [(ref.source_id, ref.segment_id) for ref in evidence]
        return len(self.engine.ledger.segments(places)) == len(set(places))


def _is_of(item: Knowledge, key: str) -> bool:
    return isinstance(item.payload, Summary) and item.payload.key == key
