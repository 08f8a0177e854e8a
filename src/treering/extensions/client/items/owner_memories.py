"""The memories of each owner, compared as they are stored, so that marks of replaced ones do not depend on a query.

Results are saved for the next process, with short digests of topics in place of words.
"""

from collections import OrderedDict
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from hashlib import blake2b
from itertools import islice
from threading import Lock
from typing import Any, NamedTuple
from weakref import WeakKeyDictionary

from pydantic import TypeAdapter, ValidationError

from treering.core.canonical import canonical_json, digest, parse_time, render_time
from treering.core.filters import METADATA, And, Compare, Filter, Not, element_name
from treering.core.objects import Object, Source
from treering.core.scope import ROOT
from treering.extensions.client.items.documents import (
    AGENT,
    CONTEXT,
    PREFIX,
    ROLE,
    SESSION,
    TYPE,
    UNKNOWN_AGENT,
    USER,
    content_of,
    is_in_context,
)
from treering.extensions.client.items.owner_statements import (
    ComparedMemory,
    OwnerStatements,
    Retirement,
    StatementRef,
    stated_in,
    topics_of,
)
from treering.extensions.statements.conversations import MACHINES
from treering.extensions.statements.saved_links import rules_digest
from treering.extensions.statements.statement import Statement
from treering.ports.ledger import ObjectRequest
from treering.ports.passages import Reach
from treering.ports.stores import ReadyValues
from treering.retrieval.index.passages import passages_of
from treering.verbs.engine import Engine

MAX_STATED_CHARS = 1_000
"""Longer memories are documents and logs: their sentences are not compared."""
MAX_OWNERS = 5
"""Owners of retrieved memories whose memories are compared."""
MAX_NEW = 300
"""New memories that one read compares, in less than a second. Later reads continue there."""
SAVED_FROM = 50
"""Memories compared since the results were saved, from which on they are saved again."""
_MAX_FOLLOWED = 1_000
"""Events that are followed one by one; after more, the memories are listed again."""
_MAX_STATEMENTS = 2_000
"""Memories of an owner whose statements stay in memory."""
_BATCH = 500
_OF_MACHINES = frozenset({"execution_trace", "tool_execution", "tool_result", "failure_analysis"})
_MODEL = "assistant"
"""The speaker of messages of models."""
_FORMAT = 2
"""The version of saved results."""
_TOPIC_BYTES = 4
_FILE_CHARS = 2


class MemoryOwner(NamedTuple):
    """Whose memories are compared: a user's, whichever agent stored them; else an agent's in a session."""

    user: str
    agent: str = ""
    session: str = ""

    @classmethod
    def of(cls, metadata: Mapping[str, Any]) -> "MemoryOwner":
        """Return the owner of a memory."""
        user, agent, session = (str(metadata.get(name) or "") for name in (USER, AGENT, SESSION))
        return cls(user) if user else cls("", "user" if agent in {"", UNKNOWN_AGENT} else agent, session)

    @property
    def speaker(self) -> str:
        """The name of the owner."""
        return self.user or self.agent


class Replacements(dict[str, str]):
    """By the id of a memory, the id of its replacement. `is_partial`: whether some memories were not compared yet."""

    is_partial: bool = False


class SavedMemory(NamedTuple):
    """The result for one memory, as saved. Memories without topics are not compared."""

    parts: tuple[str, ...]
    """The ids of its passages: they change with its text."""
    at: str = ""
    context: str = ""
    topics: tuple[tuple[str, ...], ...] = ()
    retired: tuple[tuple[tuple[str, str, int, str, str, int, bool], ...], ...] = ()
    by_model: bool = False


_SAVED = TypeAdapter(dict[str, SavedMemory])


@dataclass(slots=True)
class _Member:
    """One memory of an owner. `compared` is `None` for documents and logs."""

    parts: tuple[str, ...]
    context: str = ""
    compared: ComparedMemory | None = None


@dataclass
class _OwnerMemories:
    """The memories of an owner, some of which wait to be read."""

    engine: Engine
    owner: MemoryOwner
    members: dict[str, _Member] = field(default_factory=dict)
    waiting: dict[str, None] = field(default_factory=dict)
    is_listed: bool = False
    """Whether all memories were listed, and changes since were followed."""
    unsaved: int = 0
    version: int = 0
    _texts: OrderedDict[str, Sequence[Statement]] = field(default_factory=OrderedDict)
    _nested: tuple[object, OwnerStatements] | None = None

    @cached_property
    def statements(self) -> OwnerStatements:
        """The statements of the memories in no nested context."""
        return OwnerStatements(self._read)

    def seen_in(self, context: str) -> OwnerStatements:
        """Return the statements visible in a nested context: its own, its parents', and all outside of contexts."""
        nested = {
            identity: one.compared
            for identity, one in self.members.items()
            if one.context and one.compared and is_in_context(one.context, context)
        }
        if not nested:
            return self.statements
        state = (self.version, context)
        if self._nested is None or self._nested[0] != state:
            seen = self.statements.copy()
            seen.update(nested)
            self._nested = state, seen
        return self._nested[1]

    def advance(self) -> None:
        """Read and compare waiting memories, at most `MAX_NEW`."""
        ids = list(islice(self.waiting, MAX_NEW))
        if not ids:
            return
        sources = _sources(self.engine, ids)
        added: dict[str, ComparedMemory] = {}
        for identity in ids:
            del self.waiting[identity]
            self.members.pop(identity, None)
            self._texts.pop(identity, None)
            if (source := sources.get(identity)) and _is_current(source):
                member = self.members[identity] = self._member(source)
                if member.compared and not member.context:
                    added[identity] = member.compared
        self.statements.update(added, [one for one in ids if one not in added])
        self.unsaved += len(ids)
        self.version += 1

    def _member(self, source: Source) -> _Member:
        parts = tuple(sorted(one.part for one in passages_of(source)))
        stated = self._stated(source)
        if not stated:
            return _Member(parts)
        self._remember(source.id, stated)
        topics = tuple(tuple(map(_short, topics_of(one))) for one in stated)
        return _Member(
            parts,
            str(source.metadata.get(CONTEXT) or ""),
            ComparedMemory(source.captured_at, topics, ((),) * len(topics), _is_by_model(source)),
        )

    def _stated(self, source: Source) -> Sequence[Statement]:
        """Return the statements of a memory of the owner; none for withdrawn ones, and for documents and logs."""
        text = content_of(source)
        is_compared = (
            _is_current(source)
            and MemoryOwner.of(source.metadata) == self.owner
            and source.metadata.get(TYPE) not in _OF_MACHINES
            and len(text) <= MAX_STATED_CHARS
        )
        speaker = _MODEL if _is_by_model(source) else self.owner.speaker
        return stated_in(speaker, text, self.engine.time_zone.local(source.captured_at)) if is_compared else ()

    def _read(self, ids: Collection[str]) -> Mapping[str, Sequence[Statement]]:
        missing = [one for one in ids if one not in self._texts]
        for identity, source in _sources(self.engine, missing).items() if missing else ():
            self._remember(identity, self._stated(source))
        return {one: self._texts[one] for one in ids if one in self._texts}

    def _remember(self, identity: str, stated: Sequence[Statement]) -> None:
        self._texts[identity] = stated

    def forget_texts(self) -> None:
        """Drop the statements of the memories that were read first."""
        while len(self._texts) > _MAX_STATEMENTS:
            self._texts.popitem(last=False)

    def load(self, saved: Mapping[str, SavedMemory]) -> None:
        """Begin with saved results. Memories in nested contexts, which may have been merged since, wait."""
        members = {identity: _loaded(one) for identity, one in saved.items()}
        self.members = {identity: one for identity, one in members.items() if not one.context}
        compared = {one: member.compared for one, member in self.members.items()}
        self.statements.restore({one: memory for one, memory in compared.items() if memory})

    def list_again(self) -> None:
        """Have new, changed and withdrawn memories wait."""
        places: dict[str, tuple[str, ...]] = {}
        for identity, part in self.engine.index.passages.places(_reach_of(self.owner, self.engine)):
            places[identity] = (*places.get(identity, ()), part)
        changed = [one for one, member in self.members.items() if sorted(places.get(one, ())) != [*member.parts]]
        new = [one for one in places if one not in self.members]
        self.waiting |= dict.fromkeys((*changed, *new))
        self.is_listed = True

    def saved(self) -> dict[str, SavedMemory]:
        """Return the results to save."""
        results = dict(self.statements.compared())
        return {
            identity: _saved(member, results.get(identity, member.compared))
            for identity, member in self.members.items()
            if identity not in self.waiting
        }


@dataclass(slots=True)
class _SpaceMemories:
    """The owners whose memories were retrieved from one open space, up to an event of its ledger."""

    owners: dict[MemoryOwner, _OwnerMemories] = field(default_factory=dict)
    sequence: int = 0
    lock: Lock = field(default_factory=Lock)

    def follow(self, engine: Engine) -> None:
        """Note which memories changed since the last call."""
        last = engine.ledger.sequence()
        if not self.sequence <= last <= self.sequence + _MAX_FOLLOWED:
            self.sequence = last
            self.list_again()
        while self.sequence < last:
            upto = min(self.sequence + _BATCH, last)
            for change in engine.ledger.changes(self.sequence, upto - self.sequence):
                self._note(change.object_id, change.before, change.after)
            self.sequence = upto

    def list_again(self) -> None:
        """Have the memories of all owners listed at their next use."""
        for memories in self.owners.values():
            memories.is_listed = False

    def _note(self, identity: str, before: Object | None, after: Object | None) -> None:
        changed = [
            MemoryOwner.of(one.metadata) for one in (before, after) if isinstance(one, Source) and _is_memory(one)
        ]
        for owner, memories in self.owners.items():
            is_erased = before is None and after is None and identity in memories.members
            if is_erased:
                memories.unsaved += SAVED_FROM  # an erasure deletes the saved results
            if is_erased or owner in changed:
                memories.waiting[identity] = None

    def of(self, engine: Engine, owner: MemoryOwner) -> _OwnerMemories:
        """Return the memories of an owner."""
        if owner not in self.owners:
            self.owners[owner] = _OwnerMemories(engine, owner)
            self.owners[owner].load(_read_saved(engine.ready, owner))
        memories = self.owners[owner]
        if not memories.is_listed:
            memories.list_again()
        return memories


_CACHES: WeakKeyDictionary[Any, _SpaceMemories] = WeakKeyDictionary()
"""By the index of an open space."""


def replacements(engine: Engine, memories: Sequence[Source], *, context: str = "") -> Replacements:
    """Return which of some memories others of their owners replaced. `context`: the nested context of the reader."""
    owners: dict[MemoryOwner, list[str]] = {}
    for one in memories:
        owners.setdefault(MemoryOwner.of(one.metadata), []).append(one.id)
    replaced = Replacements()
    space = _CACHES.setdefault(engine.index, _SpaceMemories())
    with space.lock:
        space.follow(engine)
        for owner, ids in islice(owners.items(), MAX_OWNERS):
            owned = space.of(engine, owner)
            owned.advance()
            seen = owned.seen_in(context) if context else owned.statements
            replaced |= {one: new for one in ids if (new := seen.replacement(one))}
            replaced.is_partial |= bool(owned.waiting)
            owned.forget_texts()
            if owned.unsaved >= SAVED_FROM:
                owned.unsaved = 0
                _write_saved(engine.ready, owner, owned.saved())
        if engine.index.upkeep.behind().waiting:
            space.list_again()  # memories are listed from the index, which misses some
    return replaced


def _reach_of(owner: MemoryOwner, engine: Engine) -> Reach:
    """Return the reach of the memories of an owner. It may include a few others."""
    parts: list[Filter] = [Compare("type", "eq", "source"), Compare("origin", "prefix", PREFIX)]
    if owner.user:
        user = f"{METADATA}{USER}"
        is_list = owner.user.startswith("[")
        parts.append(Compare(element_name(user), "exists", True) if is_list else Compare(user, "eq", owner.user))
    else:
        session = Compare(f"{METADATA}{SESSION}", "eq", owner.session)
        missing = [f"{METADATA}{USER}", *([] if owner.session else [f"{METADATA}{SESSION}"])]
        parts += [Not(Compare(name, "exists", value=True)) for name in missing]
        parts += [session] if owner.session else []
    return Reach(ROOT, descend=True, where=And(tuple(parts)), now=engine.clock.now())


def _is_memory(source: Source) -> bool:
    return source.origin.startswith(PREFIX)


def _is_by_model(source: Source) -> bool:
    """Return whether a memory is a message of a model, and not of its owner."""
    return str(source.metadata.get(ROLE) or "").casefold() in MACHINES


def _is_current(source: Source) -> bool:
    return source.status == "active" and _is_memory(source)


def _sources(engine: Engine, ids: Sequence[str]) -> dict[str, Source]:
    (read,) = engine.ledger.read([ObjectRequest(objects=tuple(ids))])
    return {identity: one for identity, one in read.objects.items() if isinstance(one, Source)}


def _short(topic: str) -> str:
    return blake2b(topic.encode(), digest_size=_TOPIC_BYTES).hexdigest()


def _loaded(saved: SavedMemory) -> _Member:
    if not saved.topics:
        return _Member(saved.parts)
    retired = tuple(
        tuple(
            Retirement(
                StatementRef(parse_time(at), memory, number), StatementRef(parse_time(by), other, place), repeats
            )
            for at, memory, number, by, other, place, repeats in of_one
        )
        for of_one in saved.retired
    )
    compared = ComparedMemory(parse_time(saved.at), saved.topics, retired, saved.by_model)
    return _Member(saved.parts, saved.context, compared)


def _saved(member: _Member, memory: ComparedMemory | None) -> SavedMemory:
    if memory is None:
        return SavedMemory(member.parts)
    retired = tuple(
        tuple((*_plain(one.target), *_plain(one.source), one.repeats) for one in of_one) for of_one in memory.retired
    )
    return SavedMemory(member.parts, render_time(memory.at), member.context, memory.topics, retired, memory.by_model)


def _plain(ref: StatementRef) -> tuple[str, str, int]:
    return render_time(ref.at), ref.memory, ref.number


def _read_saved(ready: ReadyValues | None, owner: MemoryOwner) -> Mapping[str, SavedMemory]:
    value = _in_file(ready, owner).get(_name(owner))
    try:
        return _SAVED.validate_python(value[1]) if value and value[0] == _version() else {}
    except (ValidationError, IndexError, TypeError, KeyError):  # of another version
        return {}


def _write_saved(ready: ReadyValues | None, owner: MemoryOwner, saved: Mapping[str, SavedMemory]) -> None:
    """Save the results of an owner. If two processes write at once, one may lose its own."""
    if ready is not None:
        value = [_version(), {identity: [*one] for identity, one in saved.items()}]
        ready.write(_file(owner), _in_file(ready, owner) | {_name(owner): value})


def _version() -> str:
    return f"{rules_digest()} {_FORMAT}"


def _in_file(ready: ReadyValues | None, owner: MemoryOwner) -> dict[str, Any]:
    value = None if ready is None else ready.read(_file(owner))
    return value if isinstance(value, dict) else {}


def _file(owner: MemoryOwner) -> str:
    return f"{_name(owner)[:_FILE_CHARS]}.memories"


def _name(owner: MemoryOwner) -> str:
    return digest(canonical_json([*owner]))
