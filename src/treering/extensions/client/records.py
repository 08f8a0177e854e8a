"""Records: values that a program stores under its own names, such as the items of a session or the files of a folder.

A record is a memory with a name: one source, found by `retrieve` like other memories. Its value is stored verbatim
except for secrets; its text is searched.
"""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, TypeVar

from treering.core.canonical import digest, parse_time
from treering.core.characters import well_formed
from treering.core.errors import Conflict, NotFound
from treering.core.fencing import without_recalled
from treering.core.filters import And, Compare, Filter, Or
from treering.core.objects import Source
from treering.core.patch import Create, Operation, Transition, Update
from treering.core.scope import ROOT
from treering.core.screening import instruction_flags
from treering.extensions.client.items.documents import CONTEXT, HAPPENED, SESSION, USER, is_nested, normalised
from treering.extensions.client.items.recalling import MemoryQuery, Who, read_sources, recall
from treering.extensions.client.items.recording import first_line, new_note, text_drafts
from treering.extensions.client.json_values import check_json
from treering.extensions.client.profiles import Switches
from treering.extensions.client.record_names import (
    KeptRecord,
    RecordCollection,
    RecordDraft,
    RecordName,
    has_plain_key,
    record_of,
)
from treering.ports.ledger import Selection, SourceState
from treering.ports.passages import Reach
from treering.ports.runtime import fresh_segment_id
from treering.verbs.crystallize.submission import apply_directly
from treering.verbs.engine import Engine, retry_on_conflict
from treering.verbs.ingest.segments import carry
from treering.verbs.lint import erasure

_ATTEMPTS = 20
_WHAT = "The records of the memory client"
_MAX_RESULTS = 200
_HEAD = "log"
_END = "end"
_Key = TypeVar("_Key")


class Records:
    """The records of one space. Every change is one patch: applied whole, or not at all.

    `user_id`: the user of the records. Users may use the same names: each has records of their own, and sees those
    without a user. Earlier versions stored the records of all users at the same origins; each user sees their own.
    """

    def __init__(self, engine: Engine, user_id: str | None = None) -> None:
        self.engine = engine
        self._who = Who(user_id=user_id)
        self._owner = {} if user_id is None else {USER: user_id}

    def get(self, names: Sequence[RecordName]) -> dict[RecordName, KeptRecord]:
        """Return the existing records."""
        return {name: record_of(source) for name, source in self._sources(names).items()}

    def all_of(self, collection: RecordCollection, below: str = "") -> list[KeptRecord]:
        """Return the records of a collection, in the order of their keys.

        `below`: only the record with this key, and those whose keys begin with it and `/`.
        """
        ids = self._ids(collection, below)
        return sorted(map(record_of, read_sources(self.engine, ids).values()), key=lambda record: record.key)

    def last_of(self, collection: RecordCollection, below: str) -> KeptRecord | None:
        """Return the record with the last key that begins with `below` and `/`; `None` if there is none."""
        active = self._active(collection, below)
        if not all(map(has_plain_key, active)):  # digests are not in the order of the keys
            return max(self.all_of(collection, below), key=lambda record: record.key, default=None)
        sources = read_sources(self.engine, [active[max(active)]] if active else [])
        return next(map(record_of, sources.values()), None)

    def used(self, names: Sequence[RecordName]) -> set[RecordName]:
        """Return the names under which a record is or was stored: withdrawn, but not erased."""
        return set(self._states(names))

    def count(self, collection: RecordCollection) -> int:
        """Return the number of records in a collection, without reading them."""
        return len(self._ids(collection))

    def search(
        self,
        collection: RecordCollection,
        query: str,
        *,
        limit: int,
        where: Filter | None = None,
        min_similarity: float = 0.0,
    ) -> list[KeptRecord]:
        """Return the records of a collection that answer a query best, best first."""
        if not query.strip() or limit < 1:
            return []
        conditions = And((*self._in(collection), *([where] if where else [])))
        reach = Reach(scope=collection.scope, where=conditions, now=self.engine.clock.now())
        items = recall(self.engine, MemoryQuery(query, min(limit, _MAX_RESULTS), reach, min_similarity, Switches()))
        sources = read_sources(self.engine, [item.id for item in items])
        return [record_of(sources[item.id], item.similarity_score) for item in items if item.id in sources]

    def write(
        self,
        drafts: Sequence[RecordDraft] = (),
        *,
        remove: Sequence[RecordName] = (),
        rename: Mapping[RecordName, str] | None = None,
        reason: str,
    ) -> None:
        """Store some records, withdraw others and rename others, in one patch.

        Raises `Conflict` if a record is not at the expected revision, a new key is taken, or another writer was faster.
        """
        keys = rename or {}
        known = self._sources([*(draft.name for draft in drafts), *remove, *keys])
        operations = [one for draft in drafts for one in self._storing(draft, known.get(draft.name))]
        removed = (known[name] for name in dict.fromkeys(remove) if name in known)
        operations += [Transition(id=one.id, expected_revision=one.revision, to="archived") for one in removed]
        operations += [self._renaming(known[name], name, key) for name, key in keys.items() if name in known]
        if operations:
            apply_directly(self.engine, ROOT, operations, what=_WHAT, reason=reason)

    def keep(self, drafts: Sequence[RecordDraft], *, reason: str) -> None:
        """Store some records in one patch; retry after conflicts."""
        retry_on_conflict(lambda: self.write(drafts, reason=reason), attempts=_ATTEMPTS)

    def remove(self, names: Sequence[RecordName], *, reason: str, erase: bool = False) -> int:
        """Withdraw records, and return their number. `erase`: delete them permanently."""
        ids = [source.id for source in self._sources(names).values()]
        if erase:
            self.erase(ids, reason=reason)
        elif ids:
            retry_on_conflict(lambda: self.write(remove=names, reason=reason), attempts=_ATTEMPTS)
        return len(ids)

    def erase(self, ids: Sequence[str], *, reason: str) -> None:
        """Delete records from all revisions and indexes.

        Raises `Denied` if the author may not erase, and `NotFound` for a record of another user.
        """
        for source in read_sources(self.engine, ids).values():
            if not self._is_own(source):
                raise NotFound(f"There is no record {source.id!r}.", hint="Give the id of a stored record.")
        if ids:
            erasure.erase(self.engine, ids, reason=reason)

    def erase_collection(self, collection: RecordCollection, *, reason: str) -> None:
        """Erase all records of a collection, including withdrawn ones, except records of other users."""
        origins = Or(tuple(Compare("origin", "prefix", f"{root}/") for root in self._roots(collection)))
        where = And((Compare("scope", "eq", collection.scope), origins))
        selected = self.engine.ledger.select(Selection(collection.scope, types=("source",), where=where))
        ids = [item.id for item in selected if isinstance(item, Source) and self._is_own(item)]
        self.erase(ids, reason=reason)

    def _roots(self, collection: RecordCollection, below: str = "") -> list[str]:
        """Return the origins that may have its records: the user's own, then the origin without a user."""
        users = dict.fromkeys((self._who.user_id, None))
        return [collection.origin(below, user_id=user) for user in users]

    def _in(self, collection: RecordCollection) -> tuple[Filter, ...]:
        """Return the conditions that select the records of a collection."""
        own, *shared = [Compare("origin", "prefix", f"{root}/") for root in self._roots(collection)]
        origins = Or((own, *(And((one, self._who.visible)) for one in shared)))
        return Compare("type", "eq", "source"), Compare("scope", "eq", collection.scope), origins

    def _is_own(self, source: Source) -> bool:
        """Return whether a record is the user's, or without a user."""
        user = self._who.user_id
        roots = [RecordCollection((), hidden=hidden).origin(user_id=user) for hidden in (False, True)]
        return self._who.sees(source) or source.origin.startswith(tuple(f"{root}/" for root in roots))

    def _visible(self, states: Mapping[_Key, SourceState]) -> dict[_Key, SourceState]:
        """Return the states of records that the user sees, among records of all users."""
        sources = read_sources(self.engine, [state.id for state in states.values()])
        return {key: one for key, one in states.items() if one.id in sources and self._who.sees(sources[one.id])}

    def _ids(self, collection: RecordCollection, below: str = "") -> list[str]:
        return [*self._active(collection, below).values()]

    def _active(self, collection: RecordCollection, below: str) -> dict[str, str]:
        """Return the ids of the stored records of a collection, by the end of their origin."""
        own, *shared = [self._active_at(collection, root) for root in self._roots(collection, below)]
        for states in shared:
            own = {**self._visible(states), **own}
        return {key: state.id for key, state in own.items()}

    def _active_at(self, collection: RecordCollection, root: str) -> dict[str, SourceState]:
        states = self.engine.ledger.sources(scope=collection.scope, root=root)
        return {origin.removeprefix(root): state for origin, state in states.items() if state.status == "active"}

    def _sources(self, names: Iterable[RecordName]) -> dict[RecordName, Source]:
        ids = {name: state.id for name, state in self._states(names).items() if state.status == "active"}
        sources = read_sources(self.engine, ids.values())
        return {name: sources[identity] for name, identity in ids.items() if identity in sources}

    def _states(self, names: Iterable[RecordName]) -> dict[RecordName, SourceState]:
        """Return the states of the records that are or were stored, but not of erased ones."""
        user, wanted = self._who.user_id, list(names)
        own = self._states_at(wanted, user)
        if user is None:
            return own
        others = [name for name in wanted if name not in own or own[name].status != "active"]
        return own | self._visible(self._states_at(others, None))

    def _states_at(self, names: Iterable[RecordName], user: str | None) -> dict[RecordName, SourceState]:
        by_scope: dict[str, dict[str, RecordName]] = {}
        for name in names:
            by_scope.setdefault(name.scope, {})[name.origin(user)] = name
        stored: dict[RecordName, SourceState] = {}
        for scope, group in by_scope.items():
            states = self.engine.ledger.sources_at(scope=scope, origins=[*group])
            stored |= {group[origin]: state for origin, state in states.items()}
        return stored

    def _renaming(self, source: Source, name: RecordName, key: str) -> Update:
        origin = name.collection.origin(key, user_id=self._who.user_id)
        changes = {"origin": origin, "payload": {**source.payload, "key": key}}
        return Update(id=source.id, expected_revision=source.revision, changes=changes)

    def _storing(self, draft: RecordDraft, known: Source | None) -> list[Operation]:
        at = known.revision if known else 0
        if draft.expected_revision is not None and draft.expected_revision != at:
            raise Conflict(
                f"The record {draft.name.key!r} is at revision {at}, not {draft.expected_revision}.",
                hint="Read it again, then repeat the change.",
            )
        if known is None:
            return [Create(object=self._source(draft))]
        changes = self._changes(draft, known)
        return [Update(id=known.id, expected_revision=known.revision, changes=changes)] if changes else []

    def _source(self, draft: RecordDraft) -> Source:
        fields = self._fields(draft)
        return new_note(
            self.engine,
            draft.text,
            scope=draft.name.scope,
            now=self.engine.clock.now(),
            origin=draft.name.origin(self._who.user_id),
            captured_at=parse_time(fields["metadata"][HAPPENED]),
            **fields,
        )

    def _changes(self, draft: RecordDraft, known: Source) -> dict[str, Any]:
        """Return the changed fields of a record."""
        fields = self._fields(draft)
        if not draft.metadata.get(HAPPENED):
            fields["metadata"][HAPPENED] = known.metadata[HAPPENED]
        changes = {name: value for name, value in fields.items() if value != getattr(known, name)}
        if "fingerprint" in changes:
            carried = carry(
                known.segments,
                text_drafts(self.engine, draft.text),
                named=frozenset(),
                salt=known.salt,
                new_id=lambda: fresh_segment_id(self.engine.clock),
            )
            changes["segments"] = carried.segments
        return changes

    def _fields(self, draft: RecordDraft) -> dict[str, Any]:
        """Return the fields of the source of a record. Raises `InvalidInput` if its value is not JSON."""
        check_json(draft.value)
        flags = instruction_flags(draft.text)
        metadata = normalised({**self._owner, **draft.metadata}, now=self.engine.clock.now())
        if session_id := draft.name.collection.session_id:
            metadata |= {SESSION: session_id, **({CONTEXT: session_id} if is_nested(session_id) else {})}
        return {
            "title": first_line(draft.text) or draft.name.title,
            "fingerprint": f"text:{digest(draft.text)}",
            "payload": {"key": draft.name.key, "value": dict(draft.value)},
            "metadata": {**metadata, **({"flags": list(flags)} if flags else {})},
        }


def searchable(text: str) -> str:
    """Return a text without passages recalled from a space, so that answers are not found as new memories."""
    return without_recalled(well_formed(text))[0]


@dataclass(frozen=True, slots=True)
class RecordEntry:
    """One entry of a log. `text` is searched; `metadata` can be filtered."""

    value: Mapping[str, Any]
    text: str = ""
    metadata: Mapping[str, Any] = field(default_factory=dict)


class RecordLog:
    """The log of one collection: records in order, such as the items of a conversation.

    Many processes may append to it; the entries of one call stay together. A head record counts the entries, so that
    the cost of a call does not depend on the length of the log.
    """

    def __init__(self, records: Records, collection: RecordCollection) -> None:
        self._records = records
        self._collection = collection

    def append(self, entries: Sequence[RecordEntry], *, reason: str) -> None:
        """Append entries."""
        if entries:
            retry_on_conflict(lambda: self._append(entries, reason), attempts=_ATTEMPTS)

    def entries(self, last: int | None = None) -> list[KeptRecord]:
        """Return the last entries, or all of them, oldest first."""
        end = self._end(self._head())
        start = 0 if last is None else max(end - last, 0)
        names = [self._name(number) for number in range(start, end)]
        records = self._records.get(names)
        return [records[name] for name in names if name in records]

    def pop(self, *, reason: str, erase: bool = False) -> KeptRecord | None:
        """Remove and return the last entry; `None` if there is none. `erase`: delete it permanently."""
        popped = retry_on_conflict(lambda: self._pop(reason), attempts=_ATTEMPTS)
        if popped and erase:
            self._records.erase([popped.id], reason=reason)
        return popped

    def clear(self, *, reason: str, erase: bool = False) -> None:
        """Remove all entries. `erase`: delete them permanently, with those removed before."""
        retry_on_conflict(lambda: self._clear(reason), attempts=_ATTEMPTS)
        if erase:
            self._records.erase_collection(self._collection, reason=reason)

    def _append(self, entries: Sequence[RecordEntry], reason: str) -> None:
        head = self._head()
        start = self._end(head)
        drafts = [
            RecordDraft(self._name(number), entry.value, entry.text, entry.metadata, expected_revision=0)
            for number, entry in enumerate(entries, start=start)
        ]
        self._records.write([self._counted(head, start + len(entries)), *drafts], reason=reason)

    def _pop(self, reason: str) -> KeptRecord | None:
        head = self._head()
        for number in reversed(range(self._end(head))):
            name = self._name(number)
            if record := self._records.get([name]).get(name):
                self._records.write([self._counted(head, number)], remove=[name], reason=reason)
                return record
        return None

    def _clear(self, reason: str) -> None:
        head = self._head()
        if end := self._end(head):
            names = [self._name(number) for number in range(end)]
            self._records.write([self._counted(head, 0)], remove=names, reason=reason)

    def _head(self) -> KeptRecord | None:
        name = self._collection.name(_HEAD)
        return self._records.get([name]).get(name)

    def _end(self, head: KeptRecord | None) -> int:
        """Return the number of entries. In a log that an earlier version shared, the head may be another user's."""
        if head:
            return int(head.value.get(_END, 0))
        last = self._records.last_of(self._collection, _HEAD)
        return int(last.key.rpartition("/")[2]) + 1 if last else 0

    def _counted(self, head: KeptRecord | None, end: int) -> RecordDraft:
        at = head.revision if head else 0
        return RecordDraft(self._collection.name(_HEAD), {_END: end}, expected_revision=at)

    def _name(self, number: int) -> RecordName:
        return self._collection.name(f"{_HEAD}/{number:09}")
