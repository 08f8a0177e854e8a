"""The versions of one text of a discussion: its rolling summary, or its state document.

Every version is a piece of knowledge derived from the previous version and the memories that were new. So an update
processes only new memories, and if a message is withdrawn, only the versions that cover it become stale, in the same
transaction. The newest surviving version is then current, and the next version continues from it.
"""

from collections.abc import Collection, Iterable, Iterator, Sequence
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
from treering.extensions.discussions.generators.generator import DiscussionSettings, Generator
from treering.extensions.discussions.identity import DiscussionRef, apply_patch
from treering.extensions.discussions.log.blocks import Block, ChunkState
from treering.extensions.discussions.log.message_log import MessageLog
from treering.extensions.discussions.summaries.lines import with_manual_lines
from treering.extensions.discussions.summaries.memories import Memory, read_memories
from treering.extensions.encoder.language_model import Usage
from treering.ports.ledger import Selection
from treering.verbs.crystallize.drafting import declaration_note, make
from treering.verbs.engine import Engine
from treering.verbs.envelope import Call

Form = Literal["rolling_summary", "state_document"]

NAMES: dict[Form, str] = {"rolling_summary": "rolling summary", "state_document": "state document"}


@dataclass(frozen=True, slots=True)
class Version:
    """One version of a text. `last` is the position of the last message it covers; -1 for none.

    `by_hand` and `struck_by_hand` are the lines that a person added or removed, up to the newest version: they remain
    valid if the version in which they were written becomes stale.
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
class TextState:
    """The current version of a text, with the lines that people added and removed."""

    current: Version | None
    by_hand: tuple[str, ...] = ()
    struck_by_hand: tuple[str, ...] = ()


def title_of_versions(ref: DiscussionRef, form: Form) -> str:
    """Return the title of all versions of a text of a discussion."""
    return f"Discussion {ref.id}: {NAMES[form]}"


def document_of(state: TextState) -> str:
    """Return the state document: its current version, with every line that a person wrote."""
    text = state.current.text if state.current else ""
    return with_manual_lines(text, text, written=state.by_hand, struck=state.struck_by_hand)


def memory_source_of(author: Author) -> MemorySource:
    """Return the memory source of an author's text: declared by a person, else inferred."""
    return "user_declared" if author.channel == "user" else "agent_inferred"


class Versions:
    """The chain of versions of one text. Every method reads the ledger again; reading writes nothing."""

    def __init__(self, engine: Engine, ref: DiscussionRef, form: Form) -> None:
        self._engine = engine
        self._ref = ref
        self._form: Form = form
        self._title = title_of_versions(ref, form)

    def current(self) -> Version | None:
        """Return the current version: the active one, or else the newest surviving one."""
        return self.state().current

    def text(self) -> str:
        """Return the text of the current version; empty if there is none."""
        current = self.current()
        return current.text if current else ""

    def state(self) -> TextState:
        """Return the current version and people's lines, which remain if no version is current."""
        chain = self._chain()
        pins = _payload(chain.newest) if chain.newest else None
        return TextState(
            _version(chain.current, chain.newest) if chain.current else None,
            pins.by_hand if pins else (),
            pins.struck_by_hand if pins else (),
        )

    def all(self) -> list[Version]:
        """Return all versions, oldest first, including stale and superseded ones."""
        return [_version(item) for item in self._select(*TRANSITIONS["knowledge"])]

    def surviving(self) -> list[Version]:
        """Return the active and superseded versions, oldest first."""
        return [version for version in self.all() if version.status in _SURVIVING]

    def archive(self, identities: Collection[str]) -> None:
        """Archive the versions with these ids; the newest of the others becomes current."""
        versions = (item for item in self._select(*_SURVIVING) if item.id in identities)
        operations = [Transition(id=item.id, expected_revision=item.revision, to="archived") for item in versions]
        if operations:
            apply_patch(self._engine, self._ref, operations, reason=f"Archived versions of the {NAMES[self._form]}")

    def covers(self, memory_id: str) -> bool:
        """Return whether a surviving version is derived from a memory."""
        heads = self._engine.ledger.heads(self._engine.ledger.dependents(memory_id)).values()
        return any(head.title == self._title and head.status in _SURVIVING for head in heads)

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
        """Write the version after `after`, derived from it, `memories` and `evidence`; durable when it returns.

        A version without any evidence cites a note with its text. Raises `Conflict` if another version is current, or
        if something it is derived from was withdrawn in the meantime; `Denied` if the policy requires a review.
        """
        chain = self._chain()
        if (chain.current.id if chain.current else "") != (after.id if after else ""):
            raise self._conflict()
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
        """Write under the next unused number: of two concurrent writers, the second gets a conflict."""
        number = chain.number
        while True:
            number += 1
            item = make(self._call, Knowledge, {**fields, "payload": {**payload, "key": str(number)}})
            receipt = self._submit(*self._grounded(item), chain, number)
            created = self._created(receipt)
            if created is not None and created.id == item.id:
                return _version(created)
            if created is not None:
                raise self._conflict()
            # The version with this number was erased; its number is not reused.

    def _grounded(self, item: Knowledge) -> tuple[Knowledge, Source | None]:
        """Return a version with its evidence, which is a new note with its text if there is none."""
        if item.evidence_refs or item.derived_from:
            return item, None
        note = declaration_note(self._call, item)
        ref = EvidenceRef(source_id=note.id, segment_id=note.segments[0].segment_id)
        return item.model_copy(update={"evidence_refs": (ref,)}), note

    def _submit(self, item: Knowledge, note: Source | None, chain: "_Chain", number: int) -> Receipt:
        operations: list[Operation] = [
            *(Transition(id=item.id, expected_revision=item.revision, to="archived") for item in chain.stale),
            *([Create(object=note)] if note else []),
            Create(object=item),
        ]
        if chain.current and chain.current.status == "active":
            operations.append(Supersede(id=chain.current.id, expected_revision=chain.current.revision, by=item.id))
        reason, key = f"Version {number} of the {NAMES[self._form]}", f"{self._ref.scope} {self._form} {number}"
        try:
            return apply_patch(self._engine, self._ref, operations, reason=reason, key=key[-_KEY_CHARS:])
        except InvalidPatch as error:
            if self._has_surviving_parents(item):
                raise
            raise Conflict("Messages behind the new version were withdrawn in the meantime.", hint=_AGAIN) from error

    def _created(self, receipt: Receipt) -> Knowledge | None:
        """Return the knowledge created by the patch, or by an earlier one with its key; `None` if it was erased."""
        ids = [result.id for result in receipt.results if result.outcome == "created"]
        heads = self._engine.ledger.heads(ids)
        items = [self._engine.ledger.get(identity) for identity in ids if identity in heads]
        return next((item for item in items if isinstance(item, Knowledge)), None)

    def _has_surviving_parents(self, item: Knowledge) -> bool:
        heads = self._engine.ledger.heads(item.derived_from)
        return all(identity in heads and heads[identity].status in _SURVIVING for identity in item.derived_from)

    def _chain(self) -> "_Chain":
        if active := self._select("active"):
            return _Chain(active[-1], active[-1])
        items = self._select(*TRANSITIONS["knowledge"])
        surviving = [item for item in items if item.status in _SURVIVING]
        stale = tuple(item for item in items if item.status == "stale")
        return _Chain(surviving[-1] if surviving else None, items[-1] if items else None, stale)

    def _select(self, *statuses: str) -> list[Knowledge]:
        """Return the versions with some statuses, oldest first.

        They are selected by title in the ledger, not searched: an index may be late or unavailable. The cost grows
        with the number of versions, not with the length of the discussion.
        """
        fields = {"kind": "summary", "scope": self._ref.scope, "title": self._title}
        named = [Compare(name, "eq", value) for name, value in fields.items()]
        where = And((*named, Compare("status", "in", statuses)))
        found = self._engine.ledger.select(Selection(scope=self._ref.scope, types=("knowledge",), where=where))
        items = (item for item in found if isinstance(item, Knowledge))
        return sorted((item for item in items if _payload(item).form == self._form), key=_number)

    def _conflict(self) -> Conflict:
        return Conflict(f"The {NAMES[self._form]} of {self._ref.id} was changed by another writer.", hint=_AGAIN)

    @property
    def _call(self) -> Call:
        return Call(self._engine, self._ref.scope)


@dataclass(frozen=True, slots=True)
class _Chain:
    """The current version, the newest version of any status, and the stale versions."""

    current: Knowledge | None
    newest: Knowledge | None
    stale: tuple[Knowledge, ...] = ()

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
    return min(
        [*([] if known is None else [known]), *(memory.first for memory in memories if memory.first >= 0)], default=None
    )


_SURVIVING = frozenset({"active", "superseded"})
_AGAIN = "Repeat the call."
_KEY_CHARS = 200


IMPORTED_FILES = "wilmer"
"""The origin of the sources with memories that were imported from another system without their messages."""


class Memories:
    """The active memories of one discussion, in order. Reading writes nothing, and reads only the blocks it needs."""

    def __init__(self, engine: Engine, ref: DiscussionRef) -> None:
        self._engine = engine
        self._ref = ref
        self._log = MessageLog(engine, ref)
        self._read: dict[str, Block] = {}

    def recent(self, count: int, *, skip: int = 0) -> list[Memory]:
        """Return the last `count` memories before the last `skip`, oldest first; condensed ones are replaced."""
        return list(islice(self._shown(), skip, skip + count))[::-1]

    def all(self) -> list[Memory]:
        """Return all memories, oldest first; condensed ones are replaced."""
        return list(self._shown())[::-1]

    def after(self, position: int) -> list[Memory]:
        """Return the memories of messages after a position, oldest first, without condensations."""
        states = [state for block in self._blocks(position) for state in block.chunks if state.last > position]
        return self._of_chunks(states)

    def uncovered(self, versions: Versions) -> list[Memory]:
        """Return the memories that no version of a text covers, oldest first."""
        current = versions.current()
        newer = self.after(current.last if current else -1)
        return [memory for memory in newer if not versions.covers(memory.id)] if current else newer

    def covered_up_to(self, current: Version | None, left: Sequence[Memory]) -> int:
        """Return the `last` position of a version after `current` that covers all memories except `left`.

        It is the position of the last message of a memory, so that it moves back if that is withdrawn. It does not pass
        messages without memories, for instance after failures: a later version covers them.
        """
        reached = current.last if current else -1
        waiting = {memory.id for memory in left}
        blocks = list(self._blocks(reached))
        unfinished = (at for block in blocks for at in block.unfinished if at > reached)
        end = min(min(unfinished, default=_BEYOND), *(memory.first for memory in left), _BEYOND)
        states = (state for block in blocks for state in block.chunks if reached < state.last < end)
        covered = (state.last for state in states if state.memories and not waiting.intersection(state.memories))
        return max(covered, default=reached)

    def _shown(self) -> Iterator[Memory]:
        """Yield memories and condensations, newest first; memories imported without messages come last."""
        covered: list[tuple[int, int]] = []
        for block in self._blocks(-1):
            condensed = read_memories(self._engine, [each.memory for each in block.condensations])
            covered += [(memory.first, memory.last) for memory in condensed]
            single = [memory for memory in self._of_chunks(block.chunks) if not _within(memory, covered)]
            outer = [memory for memory in condensed if not _within(memory, covered, strictly=True)]
            yield from sorted([*reversed(single), *outer], key=lambda memory: memory.last, reverse=True)
        yield from reversed(read_memories(self._engine, self._imported()))

    def _blocks(self, position: int) -> Iterator[Block]:
        """Yield the blocks with messages after a position, newest first. Unchanged blocks are cached."""
        for head in reversed(self._log.blocks()):
            if head.end - 1 <= position:
                return
            known = self._read.get(head.source_id)
            if known is None or known.head.revision != head.revision:
                known = self._read[head.source_id] = self._log.block(head)
            yield known

    def _imported(self) -> list[str]:
        """Return the ids of the memories imported without messages, oldest first, including stale ones."""
        notes = self._engine.ledger.sources(scope=self._ref.scope, root=IMPORTED_FILES).values()
        return sorted({identity for note in notes for identity in self._engine.ledger.dependents(note.id)})

    def _of_chunks(self, states: Iterable[ChunkState]) -> list[Memory]:
        ordered = sorted(states, key=lambda state: state.first)
        return read_memories(self._engine, [identity for state in ordered for identity in state.memories])


def _within(memory: Memory, ranges: Sequence[tuple[int, int]], *, strictly: bool = False) -> bool:
    own = (memory.first, memory.last)
    return any(first <= own[0] and own[1] <= last and not (strictly and own == (first, last)) for first, last in ranges)


_BEYOND = 1 << 62
"""A position after all messages."""


class GeneratorWork:
    """Base of work on one discussion with a generator. `usage` is the total usage of its calls."""

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
