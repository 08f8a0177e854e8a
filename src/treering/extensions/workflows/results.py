"""Stored results of the chunks of a discussion, which are withdrawn with any message of their chunk."""

from collections.abc import Sequence
from dataclasses import dataclass

from treering.core.errors import Conflict, InvalidPatch
from treering.core.evidence import EvidenceRef
from treering.core.filters import And, Compare
from treering.core.objects import Knowledge, Summary
from treering.core.patch import Create
from treering.extensions.discussions.identity import DiscussionRef, apply_patch
from treering.extensions.discussions.log.blocks import StoredMessage
from treering.extensions.discussions.summaries.memories import citing
from treering.ports.ledger import Selection
from treering.verbs.crystallize.drafting import make
from treering.verbs.engine import Engine
from treering.verbs.envelope import Call


@dataclass(frozen=True, slots=True)
class StoredResults:
    """The results for chunks of one discussion, as knowledge with the messages of the chunk as evidence."""

    engine: Engine
    ref: DiscussionRef

    def find(self, key: str) -> str | None:
        """Return the result with a key. The cost does not grow with the discussion."""
        named = {"kind": "summary", "scope": self.ref.scope, "title": self._title(key), "status": "active"}
        where = And(tuple(Compare(name, "eq", value) for name, value in named.items()))
        items = self.engine.ledger.select(Selection(scope=self.ref.scope, types=("knowledge",), where=where))
        return next((item.summary for item in items if isinstance(item, Knowledge) and _is_of(item, key)), None)

    def keep(self, key: str, text: str, messages: Sequence[StoredMessage], *, made_by: str) -> None:
        """Store a result, without secrets, unless another run already stored one.

        Raises `Conflict` if a message was withdrawn in the meantime, `Denied` if the space requires a review.
        """
        evidence = citing(messages)
        first, last = messages[0].position, messages[-1].position
        fields = {
            "kind": "summary",
            "title": self._title(key),
            "summary": text,
            "status": "active",
            "evidence_refs": [ref.model_dump(mode="json") for ref in evidence],
            "payload": Summary(form="digest", key=key, first=first, last=last, made_by=made_by).model_dump(mode="json"),
            "memory_source": "system_generated",
        }
        item = make(Call(self.engine, self.ref.scope), Knowledge, fields)
        reason = f"What was made of messages {first} to {last}"
        try:
            apply_patch(self.engine, self.ref, [Create(object=item)], reason=reason)
        except InvalidPatch as error:
            if self._exist(evidence):
                raise
            raise Conflict("A message was withdrawn in the meantime.", hint="Run the workflow again.") from error

    def _title(self, key: str) -> str:
        return f"Discussion {self.ref.id}: made of a chunk, {key}"

    def _exist(self, evidence: Sequence[EvidenceRef]) -> bool:
        places = [(ref.source_id, ref.segment_id) for ref in evidence]
        return len(self.engine.ledger.segments(places)) == len(set(places))


def _is_of(item: Knowledge, key: str) -> bool:
    return isinstance(item.payload, Summary) and item.payload.key == key
