"""What was made of each chunk of a kept discussion, kept with it: it falls when one of its messages is withdrawn."""

from collections.abc import Sequence
from dataclasses import dataclass

from treering.core.errors import Conflict, InvalidPatch
from treering.core.evidence import EvidenceRef
from treering.core.filters import And, Compare
from treering.core.knowledge_payloads import Summary
from treering.core.objects import Knowledge
from treering.core.patch import Create
from treering.core.redaction import redact
from treering.derived.lookup import look_up, make_whole
from treering.memories.discussion.identity import Place
from treering.memories.discussion.kept import Kept
from treering.memories.discussion.submitting import apply_patch
from treering.memories.discussion.summaries import citing
from treering.ports.reach import Reach
from treering.ports.text import TextRequest
from treering.tools.drafting import make
from treering.tools.engine import Engine
from treering.tools.envelope import Call

_FEW = 4


@dataclass(frozen=True, slots=True)
class KeptResults:
    """The results of one discussion, each knowledge of its own that rests on the messages of its chunk."""

    engine: Engine
    place: Place

    def find(self, key: str) -> str | None:
        """Return the result that is kept under a key. What that costs does not grow with the discussion."""
        where = And((Compare("type", "eq", "knowledge"), Compare("kind", "eq", "summary")))
        make_whole(self.engine.index)  # a result that is not found would be asked for again
        heads = look_up(self.engine.index, TextRequest(Reach(self.place.scope, where=where), _FEW, place=key))
        found = (self.engine.ledger.get(head.object_id) for head in heads)
        return next((item.summary for item in found if isinstance(item, Knowledge) and self._is_of(item, key)), None)

    def keep(self, key: str, text: str, messages: Sequence[Kept], *, made_by: str) -> None:
        """Keep a result, without secrets. Where another run was first, its result stays.

        Raises `Conflict` where a message was withdrawn meanwhile, `Denied` where the space asks for a review.
        """
        evidence = citing(messages)
        fields = {
            "kind": "summary",
            "title": self._title(key),
            "summary": redact(text).text,
            "status": "active",
            "evidence_refs": [ref.model_dump(mode="json") for ref in evidence],
            "payload": self._payload(key, messages, made_by).model_dump(mode="json"),
            "memory_source": "system_generated",
        }
        item = make(Call(self.engine, self.place.scope), Knowledge, fields)
        told = f"What was made of messages {messages[0].position} to {messages[-1].position}"
        try:
            apply_patch(self.engine, self.place, [Create(object=item)], reason=told)
        except InvalidPatch as error:
            if self._stand(evidence):
                raise
            raise Conflict("A message was withdrawn meanwhile.", hint="Run the workflow again.") from error

    def _payload(self, key: str, messages: Sequence[Kept], made_by: str) -> Summary:
        return Summary(form="digest", key=key, first=messages[0].position, last=messages[-1].position, made_by=made_by)

    def _title(self, key: str) -> str:
        # The key stands last: names are found by their ends (`Index.by_place`).
        return f"Discussion {self.place.id}: made of a chunk, {key}"

    def _is_of(self, item: Knowledge, key: str) -> bool:
        payload = item.payload
        return (
            (item.scope, item.status, item.title) == (self.place.scope, "active", self._title(key))
            and isinstance(payload, Summary)
            and payload.key == key
        )

    def _stand(self, evidence: Sequence[EvidenceRef]) -> bool:
        places = [(ref.source_id, ref.segment_id) for ref in evidence]
        return len(self.engine.ledger.segments(places)) == len(set(places))
