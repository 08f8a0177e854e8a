"""The versions of one text of a discussion: its rolling summary, or its state document.

Every version is knowledge of its own, resting on the one before it and on the memories that were new in it. So an
update touches only what is new, and when a message is withdrawn, exactly the versions that tell of it fall, in the
same transaction. The newest one that survived is what is current then, and the next version continues from it.
"""

from collections.abc import Callable, Sequence
from contextlib import suppress
from dataclasses import dataclass
from datetime import datetime
from typing import Literal

from treering.core.errors import Conflict, InvalidPatch
from treering.core.evidence import EvidenceRef
from treering.core.filters import And, Compare
from treering.core.knowledge_payloads import Summary
from treering.core.objects import Knowledge, MemorySource, Source
from treering.core.patch import Author, Create, Operation, Receipt, Supersede, Transition
from treering.core.redaction import redact
from treering.derived.lookup import look_up, make_whole
from treering.memories.discussion.identity import Place
from treering.memories.discussion.kept import Memory
from treering.memories.discussion.submitting import ATTEMPTS, apply_patch
from treering.ports.ledger import Selection
from treering.ports.reach import Reach
from treering.ports.text import TextRequest
from treering.tools.drafting import KnowledgeFields, declaration_note, make
from treering.tools.engine import Engine
from treering.tools.envelope import Call

Form = Literal["rolling_summary", "state_document"]

NAMES: dict[Form, str] = {"rolling_summary": "rolling summary", "state_document": "state document"}


@dataclass(frozen=True, slots=True)
class Version:
    """One version of a text, and the position of the last message that it tells of; -1 for none.

    `by_hand` and `struck_by_hand` are lines that a person wrote into it or struck out, as they hold today: what a
    person wrote stays where the version it was written into has fallen.
    """

    id: str
    number: int
    text: str
    last: int
    made_by: str
    by_hand: tuple[str, ...]
    struck_by_hand: tuple[str, ...]
    at: datetime
    status: str


@dataclass(frozen=True, slots=True)
class Stand:
    """How a text stands: its current version, the lines that people wrote into it, and those they struck out."""

    current: Version | None
    by_hand: tuple[str, ...] = ()
    struck_by_hand: tuple[str, ...] = ()


def title_of_versions(place: Place, form: Form) -> str:
    """Return what all versions of a text of a discussion are called."""
    # The form stands last: names are found by their ends (`Index.by_place`).
    return f"Discussion {place.id}: {NAMES[form]}"


def retry_on_conflict(write: Callable[[], Version]) -> Version:
    """Call `write` again while others were first, so that it follows their version. Raises the last `Conflict`."""
    for _ in range(ATTEMPTS - 1):
        with suppress(Conflict):
            return write()
    return write()


def words_of(author: Author) -> MemorySource:
    """Tell what words are that somebody gave: a person declares them, anybody else is believed to infer them."""
    return "user_declared" if author.channel == "user" else "agent_inferred"


class Versions:
    """The chain of versions of one text. Reading writes nothing; every method reads anew."""

    def __init__(self, engine: Engine, place: Place, form: Form) -> None:
        self._engine = engine
        self._place = place
        self._form: Form = form
        self._title = title_of_versions(place, form)

    def current(self) -> Version | None:
        """Return the version that stands: the active one, or else the newest that survived."""
        return self.stand().current

    def stand(self) -> "Stand":
        """Return the version that stands, and what people wrote, also where no version stands any more."""
        chain = self._chain()
        pins = _payload(chain.newest) if chain.newest else None
        return Stand(
            _version(chain.current, chain.newest) if chain.current else None,
            pins.by_hand if pins else (),
            pins.struck_by_hand if pins else (),
        )

    def all(self) -> list[Version]:
        """Return all versions, oldest first, also those that fell or gave way: their `status` says so."""
        return [_version(item) for item in self._select()]

    def standing(self) -> list[Version]:
        """Return the versions that stand, or gave way to a later one, oldest first: those that no withdrawal took."""
        return [version for version in self.all() if version.status in _STANDING]

    def tell_of(self, memory_id: str) -> bool:
        """Tell whether a version that has not fallen rests on a memory."""
        heads = self._engine.ledger.heads(self._engine.ledger.dependents(memory_id)).values()
        return any(head.title == self._title and head.status in _STANDING for head in heads)

    def write(
        self,
        text: str,
        *,
        after: Version | None,
        last: int,
        memories: Sequence[Memory] = (),
        evidence: Sequence[EvidenceRef] = (),
        made_by: str,
        by_hand: Sequence[str] = (),
        struck_by_hand: Sequence[str] = (),
        memory_source: MemorySource = "system_generated",
    ) -> Version:
        """Write the version that follows `after`, resting on it, on `memories` and on `evidence`; durable at once.

        A version that would rest on nothing rests on a note that holds its words. Raises `Conflict` where another
        version stands now than `after`, or where something it rests on was withdrawn meanwhile; `Denied` where the
        space's policy asks for a review.
        """
        chain = self._chain()
        if (chain.current.id if chain.current else "") != (after.id if after else ""):
            raise self._beaten()
        payload: dict[str, object] = {
            "form": self._form,
            "first": _first(chain.current, memories),
            "last": last,
            "by_hand": list(by_hand),
            "struck_by_hand": list(struck_by_hand),
            "made_by": made_by,
        }
        fields: dict[str, object] = {
            "kind": "summary",
            "title": self._title,
            "summary": redact(text).text,
            "status": "active",
            "evidence_refs": [ref.model_dump(mode="json") for ref in evidence],
            "derived_from": [*([chain.current.id] if chain.current else []), *(memory.id for memory in memories)],
            "memory_source": memory_source,
        }
        return self._write(chain, fields, payload)

    def _write(self, chain: "_Chain", fields: dict[str, object], payload: dict[str, object]) -> Version:
        """Write under the next number that was never used: of two writers, one is told that it is taken."""
        number = chain.number
        while True:
            number += 1
            item = make(self._call, Knowledge, {**fields, "payload": {**payload, "key": str(number)}})
            receipt = self._submit(*self._grounded(item), chain, number)
            made = self._made(receipt)
            if made is not None and made.id == item.id:
                return _version(made)
            if made is not None:
                raise self._beaten()
            # The version of this number was erased: its number stays taken.

    def _grounded(self, item: Knowledge) -> tuple[Knowledge, Source | None]:
        """Return a version with what it rests on: where that is nothing, a note of what somebody declared."""
        if item.evidence_refs or item.derived_from:
            return item, None
        said = item.model_dump(mode="json", include={"kind", "title", "summary", "payload"})
        note = declaration_note(self._call, KnowledgeFields.model_validate(said))
        ref = EvidenceRef(source_id=note.id, segment_id=note.segments[0].segment_id)
        return item.model_copy(update={"evidence_refs": (ref,)}), note

    def _submit(self, item: Knowledge, note: Source | None, chain: "_Chain", number: int) -> Receipt:
        operations: list[Operation] = [
            *(Transition(id=fallen.id, expected_revision=fallen.revision, to="archived") for fallen in chain.fallen),
            *([Create(object=note)] if note else []),
            Create(object=item),
        ]
        if chain.current and chain.current.status == "active":
            operations.append(Supersede(id=chain.current.id, expected_revision=chain.current.revision, by=item.id))
        reason, key = f"Version {number} of the {NAMES[self._form]}", f"{self._place.scope} {self._form} {number}"
        try:
            return apply_patch(self._engine, self._place, operations, reason=reason, key=key[-_KEY_CHARS:])
        except InvalidPatch as error:
            if self._stands(item):
                raise
            raise Conflict("What the new version tells of was withdrawn meanwhile.", hint=_AGAIN) from error

    def _made(self, receipt: Receipt) -> Knowledge | None:
        """Return what the patch, or an earlier one under the same key, created; `None` where it was erased since."""
        created = [result.id for result in receipt.results if result.outcome == "created"]
        known = self._engine.ledger.heads(created)
        found = [self._engine.ledger.get(identity) for identity in created if identity in known]
        return next((item for item in found if isinstance(item, Knowledge)), None)

    def _stands(self, item: Knowledge) -> bool:
        heads = self._engine.ledger.heads(item.derived_from)
        return all(identity in heads and heads[identity].status in _STANDING for identity in item.derived_from)

    def _chain(self) -> "_Chain":
        make_whole(self._engine.index)  # a version that is not found would be made a second time
        if active := self._active():
            return _Chain(active, active)
        if not self._were_there_any():
            return _Chain(None, None)
        known = self._select()
        standing = [item for item in known if item.status in _STANDING]
        fallen = tuple(item for item in known if item.status == "stale")
        return _Chain(standing[-1] if standing else None, known[-1] if known else None, fallen)

    def _active(self) -> Knowledge | None:
        """Find the active version by its name: what that costs does not grow with the discussion."""
        found = look_up(self._engine.index, TextRequest(self._reach(), _FEW, place=self._title))
        items = [self._engine.ledger.get(head.object_id) for head in found]
        active = [item for item in items if self._is_version(item) and item.status == "active"]
        return max((item for item in active if isinstance(item, Knowledge)), key=_number, default=None)

    def _were_there_any(self) -> bool:
        return bool(look_up(self._engine.index, TextRequest(self._reach(withdrawn=True), 1, place=self._title)))

    def _select(self) -> list[Knowledge]:
        here = Selection(scope=self._place.scope, types=("knowledge",), where=self._where())
        found = [item for item in self._engine.ledger.select(here) if isinstance(item, Knowledge)]
        return sorted((item for item in found if self._is_version(item)), key=_number)

    def _reach(self, *, withdrawn: bool = False) -> Reach:
        where = And((Compare("type", "eq", "knowledge"), self._where()))
        return Reach(self._place.scope, where=where, withdrawn=withdrawn)

    def _where(self) -> And:
        fields = {"kind": "summary", "scope": self._place.scope, "title": self._title}
        return And(tuple(Compare(name, "eq", value) for name, value in fields.items()))

    def _is_version(self, item: object) -> bool:
        if not isinstance(item, Knowledge) or not isinstance(item.payload, Summary):
            return False
        return (item.scope, item.title, item.payload.form) == (self._place.scope, self._title, self._form)

    def _beaten(self) -> Conflict:
        return Conflict(f"The {NAMES[self._form]} of {self._place.id} was written by somebody else.", hint=_AGAIN)

    @property
    def _call(self) -> Call:
        return Call(self._engine, self._place.scope)


@dataclass(frozen=True, slots=True)
class _Chain:
    """How the versions stand: the current one, the newest whatever became of it, and those that fell."""

    current: Knowledge | None
    newest: Knowledge | None
    fallen: tuple[Knowledge, ...] = ()

    @property
    def number(self) -> int:
        return _number(self.newest) if self.newest else 0


def _version(item: Knowledge, pinned: Knowledge | None = None) -> Version:
    payload, pins = _payload(item), _payload(pinned or item)
    return Version(
        id=item.id,
        number=_number(item),
        text=item.summary,
        last=-1 if payload.last is None else payload.last,
        made_by=payload.made_by,
        by_hand=pins.by_hand,
        struck_by_hand=pins.struck_by_hand,
        at=item.created_at,
        status=item.status,
    )


def _payload(item: Knowledge) -> Summary:
    if not isinstance(item.payload, Summary):
        raise TypeError(f"{item.id} is no summary")
    return item.payload


def _number(item: Knowledge) -> int:
    key = _payload(item).key
    return int(key) if key.isdecimal() else 0


def _first(before: Knowledge | None, memories: Sequence[Memory]) -> int | None:
    known = _payload(before).first if before else None
    return min([*([] if known is None else [known]), *(memory.first for memory in memories)], default=None)


_STANDING = frozenset({"active", "superseded"})
_AGAIN = "Make the call again."
_KEY_CHARS = 200
_FEW = 4
