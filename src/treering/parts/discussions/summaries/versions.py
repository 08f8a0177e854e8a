"""The versions of one text of a discussion: its rolling summary, or its state document.

Every version is knowledge of its own, resting on the one before it and on the memories that were new in it. So an
update touches only what is new, and when a message is withdrawn, exactly the versions that tell of it fall, in the
same transaction. The newest one that survived is what is current then, and the next version continues from it.
"""

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from datetime import datetime
from itertools import islice
from typing import Literal

from treering.core.errors import Conflict, InvalidPatch
from treering.core.evidence import EvidenceRef
from treering.core.filters import And, Compare
from treering.core.objects import Knowledge, MemorySource, Source, Summary
from treering.core.patch import Author, Create, Operation, Receipt, Supersede, Transition
from treering.core.policy import TRANSITIONS
from treering.core.secrets.redaction import redact
from treering.parts.discussions.generators.generator import DiscussionSettings, Generator
from treering.parts.discussions.identity import DiscussionRef, apply_patch
from treering.parts.discussions.log.blocks import Block, ChunkState
from treering.parts.discussions.log.message_log import MessageLog
from treering.parts.discussions.summaries.lines import with_manual_lines
from treering.parts.discussions.summaries.memories import Memory, read_memories
from treering.ports.ledger import Selection
from treering.ports.models import Usage
from treering.verbs.crystallize.drafting import declaration_note, make
from treering.verbs.engine import Engine
from treering.verbs.envelope import Call

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
    by_person: bool = False
    """Whether a person or an agent wrote it, and no generator."""


@dataclass(frozen=True, slots=True)
class UpdateStep:
    """One step of bringing a text up to date. `version`: what it wrote, `None` where nothing was due or usable."""

    version: Version | None = None
    goes_on: bool = False
    """Whether more is due."""


@dataclass(frozen=True, slots=True)
class TextState:
    """How a text stands: its current version, the lines that people wrote into it, and those they struck out."""

    current: Version | None
    by_hand: tuple[str, ...] = ()
    struck_by_hand: tuple[str, ...] = ()


def title_of_versions(ref: DiscussionRef, form: Form) -> str:
    """Return what all versions of a text of a discussion are called."""
    return f"Discussion {ref.id}: {NAMES[form]}"


def document_of(stand: TextState) -> str:
    """Return the state document as it stands: its current version, with every line that a person wrote."""
    text = stand.current.text if stand.current else ""
    return with_manual_lines(text, text, written=stand.by_hand, struck=stand.struck_by_hand)


def memory_source_of(author: Author) -> MemorySource:
    """Tell what words are that somebody gave: a person declares them, anybody else is believed to infer them."""
    return "user_declared" if author.channel == "user" else "agent_inferred"


class Versions:
    """The chain of versions of one text. Reading writes nothing; every method reads anew."""

    def __init__(self, engine: Engine, ref: DiscussionRef, form: Form) -> None:
        self._engine = engine
        self._ref = ref
        self._form: Form = form
        self._title = title_of_versions(ref, form)

    def current(self) -> Version | None:
        """Return the version that stands: the active one, or else the newest that survived."""
        return self.stand().current

    def stand(self) -> "TextState":
        """Return the version that stands, and what people wrote, also where no version stands any more."""
        chain = self._chain()
        pins = _payload(chain.newest) if chain.newest else None
        return TextState(
            _version(chain.current, chain.newest) if chain.current else None,
            pins.by_hand if pins else (),
            pins.struck_by_hand if pins else (),
        )

    def all(self) -> list[Version]:
        """Return all versions, oldest first, also those that fell or gave way: their `status` says so."""
        return [_version(item) for item in self._select(*TRANSITIONS["knowledge"])]

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
        note = declaration_note(self._call, item)
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
        reason, key = f"Version {number} of the {NAMES[self._form]}", f"{self._ref.scope} {self._form} {number}"
        try:
            return apply_patch(self._engine, self._ref, operations, reason=reason, key=key[-_KEY_CHARS:])
        except InvalidPatch as error:
            if self._stands(item):
                raise
            raise Conflict("Messages behind the new version were withdrawn in the meantime.", hint=_AGAIN) from error

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
        if active := self._select("active"):
            return _Chain(active[-1], active[-1])
        known = self._select(*TRANSITIONS["knowledge"])
        standing = [item for item in known if item.status in _STANDING]
        fallen = tuple(item for item in known if item.status == "stale")
        return _Chain(standing[-1] if standing else None, known[-1] if known else None, fallen)

    def _select(self, *statuses: str) -> list[Knowledge]:
        """Return the versions in some statuses, oldest first.

        They are found by their name in the ledger, never by search: an index may be late, or silent. What that costs
        grows with the versions that are found, not with the discussion.
        """
        fields = {"kind": "summary", "scope": self._ref.scope, "title": self._title}
        named = [Compare(name, "eq", value) for name, value in fields.items()]
        where = And((*named, Compare("status", "in", statuses)))
        found = self._engine.ledger.select(Selection(scope=self._ref.scope, types=("knowledge",), where=where))
        return sorted((item for item in found if isinstance(item, Knowledge) and self._is_version(item)), key=_number)

    def _is_version(self, item: Knowledge) -> bool:
        return isinstance(item.payload, Summary) and item.payload.form == self._form

    def _beaten(self) -> Conflict:
        return Conflict(f"The {NAMES[self._form]} of {self._ref.id} was changed by another writer.", hint=_AGAIN)

    @property
    def _call(self) -> Call:
        return Call(self._engine, self._ref.scope)


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
        by_person=item.memory_source in ("user_declared", "agent_inferred"),
    )


def _payload(item: Knowledge) -> Summary:
    if not isinstance(item.payload, Summary):
        raise TypeError(f"{item.id} is not a summary")
    return item.payload


def _number(item: Knowledge) -> int:
    key = _payload(item).key
    return int(key) if key.isdecimal() else 0


def _first(before: Knowledge | None, memories: Sequence[Memory]) -> int | None:
    known = _payload(before).first if before else None
    return min([*([] if known is None else [known]), *(memory.first for memory in memories)], default=None)


_STANDING = frozenset({"active", "superseded"})
_AGAIN = "Repeat the call."
_KEY_CHARS = 200


# The memories of a discussion, read in order. What it costs depends on how many are asked for, not on how many are.


IMPORTED_FILES = "wilmer"
"""The origin of the sources that hold memories of another system, which came without their messages."""


class Memories:
    """The memories of one discussion. Only those that hold now are shown. Reading writes nothing."""

    def __init__(self, engine: Engine, ref: DiscussionRef) -> None:
        self._engine = engine
        self._ref = ref
        self._log = MessageLog(engine, ref)
        self._read: dict[str, _Outline] = {}

    def recent(self, count: int, *, skip: int = 0) -> list[Memory]:
        """Return the last `count` memories but the last `skip`, oldest first. Condensations stand for their parents."""
        return list(islice(self._shown(), skip, skip + count))[::-1]

    def all(self) -> list[Memory]:
        """Return all memories, oldest first. Condensations stand for their parents."""
        return list(self._shown())[::-1]

    def after(self, position: int) -> list[Memory]:
        """Return the memories that tell of messages after a position, oldest first, none of them condensed."""
        states = [state for outline in self._outlines(position) for state in outline.chunks if state.last > position]
        return self._of_chunks(states)

    def of(self, chunk: ChunkState) -> list[Memory]:
        """Return the memories that were made of a chunk."""
        return read_memories(self._engine, chunk.memories)

    def untold(self, versions: Versions) -> list[Memory]:
        """Return the memories that no version of a text tells of, oldest first."""
        current = versions.current()
        newer = self.after(current.last if current else -1)
        return [memory for memory in newer if not versions.tell_of(memory.id)] if current else newer

    def told_up_to(self, current: Version | None, left: Sequence[Memory]) -> int:
        """Return the position that a version after `current` reaches which tells of all memories but those `left`.

        It is that of the last message of a memory, so that it goes back with what is withdrawn; and it does not pass
        messages of which no memory was made yet, for example where that failed: theirs are still to be told of.
        """
        reached = current.last if current else -1
        waiting = {memory.id for memory in left}
        outlines = list(self._outlines(reached))
        opened = (at for outline in outlines for at in outline.open if at > reached)
        end = min(min(opened, default=_BEYOND), *(memory.first for memory in left), _BEYOND)
        states = (state for outline in outlines for state in outline.chunks if reached < state.last < end)
        told = (state.last for state in states if state.memories and not waiting.intersection(state.memories))
        return max(told, default=reached)

    def _shown(self) -> Iterator[Memory]:
        """Return memories and condensations, newest first; what was imported without its messages comes before all."""
        covered: list[tuple[int, int]] = []
        for outline in self._outlines(-1):
            condensed = read_memories(self._engine, outline.condensations)
            covered += [(memory.first, memory.last) for memory in condensed]
            made = [memory for memory in self._of_chunks(outline.chunks) if not _within(memory, covered)]
            outer = [memory for memory in condensed if not _within(memory, covered, strictly=True)]
            yield from sorted([*reversed(made), *outer], key=lambda memory: memory.last, reverse=True)
        yield from reversed(read_memories(self._engine, self._imported()))

    def _outlines(self, position: int) -> Iterator["_Outline"]:
        """Return outlines of the blocks that hold messages after a position, newest first.

        A block that was read before and has not changed since is not read again.
        """
        for head in reversed(self._log.blocks()):
            if head.end - 1 <= position:
                return
            known = self._read.get(head.source_id)
            if known is None or known.revision != head.revision:
                known = _Outline.of(self._log.block(head))
                self._read[head.source_id] = known
            yield known

    def _imported(self) -> list[str]:
        """Return the ids of the memories that came without their messages, oldest first, also of those that fell."""
        notes = self._engine.ledger.sources(scope=self._ref.scope, root=IMPORTED_FILES).values()
        return sorted({identity for note in notes for identity in self._engine.ledger.dependents(note.id)})

    def _of_chunks(self, states: Iterable[ChunkState]) -> list[Memory]:
        ordered = sorted(states, key=lambda state: state.first)
        return read_memories(self._engine, [identity for state in ordered for identity in state.memories])


@dataclass(frozen=True, slots=True)
class _Outline:
    """What of a block does not depend on its words. `open`: positions that no finished chunk holds."""

    revision: int
    chunks: tuple[ChunkState, ...]
    condensations: tuple[str, ...]
    open: tuple[int, ...]

    @classmethod
    def of(cls, block: Block) -> "_Outline":
        done = (state for state in block.chunks if state.status in {"done", "empty"})
        finished = {position for state in done for position in range(state.first, state.last + 1)}
        spoken = (message.position for message in block.messages if not message.deleted)
        return cls(
            revision=block.head.revision,
            chunks=block.chunks,
            condensations=tuple(each.memory for each in block.condensations),
            open=tuple(position for position in spoken if position not in finished),
        )


def _within(memory: Memory, ranges: Sequence[tuple[int, int]], *, strictly: bool = False) -> bool:
    own = (memory.first, memory.last)
    return any(first <= own[0] and own[1] <= last and not (strictly and own == (first, last)) for first, last in ranges)


_BEYOND = 1 << 62
"""A position after all messages."""


class GeneratorWork:
    """Work on one discussion that asks a generator. `usage` adds up what that used."""

    def __init__(
        self, engine: Engine, ref: DiscussionRef, *, settings: DiscussionSettings, generator: Generator
    ) -> None:
        self.usage: Usage = Usage()
        self._engine = engine
        self._ref = ref
        self._settings = settings
        self._generator = generator
        self._memories = Memories(engine, ref)
        self._summary = Versions(engine, ref, "rolling_summary")

    def count(self, usage: Usage) -> None:
        """Add what a call used."""
        self.usage += usage
